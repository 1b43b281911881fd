"""`python -m codeagent`."""

from codeagent.cli import program

if __name__ == "__main__":
    program()
