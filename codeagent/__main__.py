"""`python -m codeagent`."""

import sys

from codeagent.cli import main

if __name__ == "__main__":
    sys.exit(main())
