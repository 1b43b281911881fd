"""The canonical form of text: lines without their blanks and typography, and the way back to the characters."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_SPACES = "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_SINGLE = "\u2018\u2019\u201a\u201b\u2032"
_DOUBLE = "\u201c\u201d\u201e\u201f\u2033"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_BLANKS = " \t\v\f" + _SPACES
_PLAIN = str.maketrans(
    {
        **dict.fromkeys(_SINGLE, "'"),
        **dict.fromkeys(_DOUBLE, '"'),
        **dict.fromkeys(_DASHES, "-"),
        **dict.fromkeys(_SPACES, " "),
    }
)
_BLANK_RUN = re.compile(f"[{_BLANKS}]+")
_TOKEN = re.compile(f"[{_BLANKS}]+|[-<>=+*/|{_DASHES}]+|['{_SINGLE}]+|[\"{_DOUBLE}]+|\\w+|.", re.DOTALL)
_LARGEST_DIFF = 4_000_000
"""Pairs of items that are compared at most; of more, nothing counts as the same."""

Opcode = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class Line:
    """A line that is not blank, without its newline."""

    indent: str
    text: str
    tail: str
    """Blanks at the end."""

    @property
    def key(self) -> str:
        return folded(self.text)


@dataclass(frozen=True)
class Block:
    """Text as its lines that are not blank and what is between them."""

    lines: tuple[Line, ...]
    gaps: tuple[str, ...]
    """Newlines and blank lines: before the first line, between every two, after the last; one more than lines."""

    @property
    def indents(self) -> list[str]:
        return [line.indent for line in self.lines]


def line_of(text: str) -> Line:
    rest = text.lstrip(_BLANKS)
    core = rest.rstrip(_BLANKS)
    return Line(text[: len(text) - len(rest)], core, rest[len(core) :])


def block_of(text: str) -> Block:
    lines: list[Line] = []
    gaps: list[str] = []
    gap = ""
    for number, piece in enumerate(text.split("\n")):
        gap += "\n" if number else ""
        if is_blank(piece):
            gap += piece
            continue
        lines.append(line_of(piece))
        gaps.append(gap)
        gap = ""
    return Block(tuple(lines), (*gaps, gap))


def is_blank(text: str) -> bool:
    return not text.strip(_BLANKS)


def plain(text: str) -> str:
    """Typographic quotes, dashes and spaces as those of a keyboard; as many characters as before."""
    return text.translate(_PLAIN)


def folded(text: str) -> str:
    """Plain, and every run of blanks as one space."""
    return _BLANK_RUN.sub(" ", plain(text))


def offsets_of_folded(text: str) -> list[int]:
    """For each character of `folded(text)` its offset in `text`, and the length of `text`."""
    offsets: list[int] = []
    in_run = False
    for at, char in enumerate(text):
        blank = char in _BLANKS
        if not (blank and in_run):
            offsets.append(at)
        in_run = blank
    return [*offsets, len(text)]


def tokens(text: str) -> list[str]:
    """Words and runs of blanks, quotes or operators, dashes among these; cut the same in every typography."""
    return _TOKEN.findall(text)


def line_opcodes(old: Block, new: Block) -> Iterator[Opcode]:
    """Which lines are the same: with their indentation if they can be, else without."""
    mine = [(line.indent, line.key) for line in old.lines]
    wanted = [(line.indent, line.key) for line in new.lines]
    for tag, start, end, new_start, new_end in opcodes(mine, wanted):
        if tag != "replace":
            yield tag, start, end, new_start, new_end
            continue
        keys, new_keys = [key for _, key in mine[start:end]], [key for _, key in wanted[new_start:new_end]]
        for code in opcodes(keys, new_keys):
            yield code[0], code[1] + start, code[2] + start, code[3] + new_start, code[4] + new_start


def opcodes(old: Sequence[object], new: Sequence[object]) -> Iterator[Opcode]:
    """As SequenceMatcher, in bounded time."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    if head:
        yield "equal", 0, head, 0, head
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    if a or b:
        yield from _shifted(_middle(a, b), head)
    if tail:
        yield "equal", len(old) - tail, len(old), len(new) - tail, len(new)


def _middle(old: Sequence[object], new: Sequence[object]) -> list[Opcode]:
    if len(old) * len(new) > _LARGEST_DIFF:
        return [("replace", 0, len(old), 0, len(new))]
    return list(SequenceMatcher(None, old, new, autojunk=False).get_opcodes())


def _shifted(codes: list[Opcode], by: int) -> Iterator[Opcode]:
    for tag, start, end, new_start, new_end in codes:
        yield tag, start + by, end + by, new_start + by, new_end + by
