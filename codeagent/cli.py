"""Arguments to a command; imports nothing heavy."""

import sys

from codeagent import __version__


def main() -> int:
    print(f"codeagent {__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
