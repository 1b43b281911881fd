"""Changes of one file, for the person and for the model."""

from difflib import unified_diff

from codeagent.core.display import DiffBlock
from codeagent.tools.encoding import shown

_CONTEXT = 8
_MOST_LINES = 120
_MOST_CHARACTERS = 8_000


def diff_block(path: str, before: str, after: str) -> DiffBlock:
    """The part of the file that changes, with a few lines around it."""
    old, new = before.split("\n"), after.split("\n")
    head, tail = _same_ends(old, new)
    head, tail = max(0, head - _CONTEXT), max(0, tail - _CONTEXT)
    return DiffBlock(
        path=shown(path),
        before=shown("\n".join(old[head : len(old) - tail])),
        after=shown("\n".join(new[head : len(new) - tail])),
        start_line=head + 1,
    )


def unified(path: str, before: str, after: str) -> str:
    """A unified diff, cut where it is long."""
    block = diff_block(path, before, after)
    lines = list(unified_diff(block.before.split("\n"), block.after.split("\n"), lineterm="", n=2))[2:]
    offset = block.start_line - 1
    cut = [line if not line.startswith("@@") else _moved(line, offset) for line in lines[:_MOST_LINES]]
    text = "\n".join(cut)[:_MOST_CHARACTERS]
    return text + ("\n[… the rest of the diff is left out …]" if len(text) < len("\n".join(lines)) - 64 else "")


def count(number: int, noun: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def changed_lines(before: str, after: str) -> tuple[int, int]:
    """Lines that go and lines that come, between the first and the last difference."""
    old, new = before.split("\n"), after.split("\n")
    head, tail = _same_ends(old, new)
    return len(old) - head - tail, len(new) - head - tail


def _same_ends(old: list[str], new: list[str]) -> tuple[int, int]:
    """How many lines the two share at the beginning and, apart from those, at the end."""
    most = min(len(old), len(new))
    head = 0
    while head < most and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < most - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail


def _moved(header: str, offset: int) -> str:
    """`@@ -1,3 +1,4 @@` counted from the file's first line."""
    out = []
    for word in header.split(" "):
        if word[:1] in "-+" and word != "":
            start, comma, length = word[1:].partition(",")
            word = f"{word[0]}{int(start) + offset}{comma}{length}"
        out.append(word)
    return " ".join(out)
