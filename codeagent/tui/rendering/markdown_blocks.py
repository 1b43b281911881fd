"""Markdown taken apart into top-level blocks, so that each can be drawn by itself and does not change later.

Differences from CommonMark, all so that what is finished never looks different later: no link reference
definitions (both ends are shown as written), a list comes item by item (its numbers as written, blank rows
where the source has them), no HTML (shown as text), and text of more than `PIECE` characters without a blank
line is taken in pieces, across which no emphasis, code or link reaches.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, table
from markdown_it.token import Token

PIECE = 4_000
"""Characters of a paragraph that are taken at once, at least."""
NESTING = 40
"""Blocks deeper than this are shown as they are written."""
_SPACES = " \t\n"
_SPACE = re.compile(f"[{_SPACES}]")
_CONTINUED = "continued"


@dataclass(frozen=True, slots=True)
class Block:
    """One top-level block, or one item of a top-level list."""

    tokens: list[Token]
    start: int
    """Its first line in the source, from 0."""
    end: int
    gap: bool
    """A blank row comes before it, unless it is the first."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of running text that is taken at once, and what comes between it and the one before."""

    joint: str
    text: str


def normalized(text: str) -> str:
    """With newlines as the only line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def blocks_of(text: str, *, continued: bool = False) -> list[Block]:
    """The top-level blocks of normalized text; `continued` says that its first line began earlier."""
    tokens: list[Token] = []
    parser = _parser()
    parser.block.parse(text, parser, {_CONTINUED: continued}, tokens)
    lines = text.split("\n")
    return list(_blocks(tokens, lines))


def inline_tokens(text: str) -> list[Token]:
    """The tokens of a piece of running text."""
    tokens: list[Token] = []
    parser = _parser()
    parser.inline.parse(text, parser, {}, tokens)
    return tokens


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


def is_too_deep(block: Block) -> bool:
    """The parser gave up somewhere within the block."""
    return max(token.level for token in block.tokens) >= NESTING - 1


def _blocks(tokens: list[Token], lines: list[str]) -> Iterator[Block]:
    first = 0
    for index, token in enumerate(tokens):
        if token.level or token.nesting > 0:
            continue
        yield from _split(tokens[first : index + 1], lines)
        first = index + 1


def _split(tokens: list[Token], lines: list[str]) -> Iterator[Block]:
    start, end = _lines_of(tokens[0])
    if tokens[0].type not in ("bullet_list_open", "ordered_list_open"):
        yield Block(tokens, start, end, True)
        return
    opened = [index for index, token in enumerate(tokens) if token.type == "list_item_open" and token.level == 1]
    for index, stop in zip(opened, [*opened[1:], len(tokens) - 1], strict=True):
        start, end = _lines_of(tokens[index])
        yield Block(tokens[index:stop], start, end, index == opened[0] or blank(lines[start - 1]))


def _lines_of(token: Token) -> tuple[int, int]:
    start, end = token.map or (0, 0)
    return start, end


@lru_cache(1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": NESTING})
    parser.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])
    parser.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    return parser


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A table, unless its first two lines are long: what began as long text is not changed by what follows."""
    if start == 0 and state.env.get(_CONTINUED):
        return False
    if start + 1 < end and any(state.eMarks[line] - state.bMarks[line] > PIECE for line in (start, start + 1)):
        return False
    return table(state, start, end, silent)
