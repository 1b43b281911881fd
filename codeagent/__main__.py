"""`python -P -m codeagent`.

Without `-P`, Python looks for modules in the current folder first. It is taken out before anything
else is imported, so that a repository's `textual.py` is not ours; only a `codeagent.py` there is
found before this file is.
"""

import os
import sys

if not sys.flags.safe_path and sys.path[0] != os.path.dirname(os.path.dirname(__file__)):  # noqa: PTH120  # before imports
    del sys.path[0]

from codeagent.cli import program

if __name__ == "__main__":
    program()
