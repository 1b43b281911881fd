"""Markdown taken apart into top-level blocks, so that each can be drawn by itself and does not change later.

Differences from CommonMark, all so that what is finished never looks different later: no link reference
definitions (both ends are shown as written), a list comes item by item (its numbers as written, blank rows
where the source has them), no HTML (shown as text), and text of more than `PIECE` characters without a blank
line is taken in pieces, across which no emphasis, code or link reaches.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

PIECE = 4_000
"""Characters of a paragraph that are taken at once, at least."""
NESTING = 40
"""Blocks deeper than this are shown as they are written."""
_SPACES = " \t\n"
_SPACE = re.compile(f"[{_SPACES}]")


class Token(Protocol):
    """What the parser finds: a block or a piece of text, its beginning, or its end."""

    type: str
    level: int
    content: str
    info: str
    markup: str
    attrs: dict[str, str | int | float]
    map: list[int] | None
    """The first line, and the line behind the last one."""

    @property
    def nesting(self) -> int:
        """1 for a beginning, -1 for an end, else 0."""


class Parser(Protocol):
    """Takes Markdown apart."""

    def blocks(self, text: str, *, longest: int, continued: bool) -> Sequence[Token]: ...

    def inline(self, text: str) -> Sequence[Token]: ...


@dataclass(frozen=True)
class ParsedBlock:
    """One top-level block, or one item of a top-level list."""

    tokens: Sequence[Token]
    start: int
    """Its first line in the source, from 0."""
    end: int
    gap: bool
    """A blank row comes before it, unless it is the first."""


@dataclass(frozen=True)
class Piece:
    """A part of running text that is taken at once, and what comes between it and the one before."""

    joint: str
    text: str


def normalized(text: str) -> str:
    """With newlines as the only line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def blocks_of(text: str, *, continued: bool = False) -> list[ParsedBlock]:
    """The top-level blocks of normalized text; `continued` says that its first line began earlier."""
    tokens = _parser().blocks(text, longest=PIECE, continued=continued)
    return list(_blocks(tokens, text.split("\n")))


def inline_tokens(text: str) -> Sequence[Token]:
    """The tokens of a piece of running text."""
    return _parser().inline(text)


def pieces_of(text: str) -> list[Piece]:
    """Running text in the pieces that are taken at once; where they end does not change when text is added."""
    found: list[Piece] = []
    at = 0
    while (end := piece_end(text, at)) is not None:
        found.append(piece_of(text[at:end]))
        at = end
    return [*found, piece_of(text[at:])]


def piece_of(text: str) -> Piece:
    """A piece from its source, with the white space in front of it."""
    return Piece(" " if text[:1] in _SPACES else "", text.strip(_SPACES))


def piece_end(text: str, at: int) -> int | None:
    """Where the piece that begins at `at` ends; None where that is not known yet.

    At a line end if there is one soon, else at a space; white space begins the next piece.
    """
    newline = text.find("\n", at + PIECE, at + 2 * PIECE)
    if newline >= 0:
        return newline
    if len(text) <= at + 4 * PIECE:
        return None
    space = _SPACE.search(text, at + 2 * PIECE, at + 4 * PIECE)
    return space.start() if space else at + 4 * PIECE


def stays(text: str, at: int, end: int) -> bool:
    """Whether a piece of a paragraph that still grows ends there whatever comes.

    The last two lines may yet turn out to be something else, such as the head of a table; long ones never do.
    """
    known = end if text[end] == "\n" and end < at + 2 * PIECE else at + 4 * PIECE
    if known > end and text.find("\n", end, known + 1) < 0:
        return True
    newline = text.find("\n", known)
    return newline >= 0 and text.find("\n", newline + 1) >= 0


def blank(line: str) -> bool:
    """Nothing is on the line, but what nests it."""
    return not line.strip(" \t>")


def is_too_deep(block: ParsedBlock) -> bool:
    """The parser gave up somewhere within the block."""
    return max(token.level for token in block.tokens) >= NESTING - 1


def _blocks(tokens: Sequence[Token], lines: list[str]) -> Iterator[ParsedBlock]:
    first = 0
    for index, token in enumerate(tokens):
        if token.level or token.nesting > 0:
            continue
        yield from _split(tokens[first : index + 1], lines)
        first = index + 1


def _split(tokens: Sequence[Token], lines: list[str]) -> Iterator[ParsedBlock]:
    start, end = _lines_of(tokens[0])
    if tokens[0].type not in ("bullet_list_open", "ordered_list_open"):
        yield ParsedBlock(tokens, start, end, True)
        return
    opened = [index for index, token in enumerate(tokens) if token.type == "list_item_open" and token.level == 1]
    for index, stop in zip(opened, [*opened[1:], len(tokens) - 1], strict=True):
        start, end = _lines_of(tokens[index])
        yield ParsedBlock(tokens[index:stop], start, end, index == opened[0] or blank(lines[start - 1]))


def _lines_of(token: Token) -> tuple[int, int]:
    start, end = token.map or (0, 0)
    return start, end


@lru_cache(1)
def _parser() -> Parser:
    # the library takes longer to load than all of the first frame's drawing
    from codeagent.tui.rendering.markdown_parser import LibraryParser

    return LibraryParser(NESTING)
