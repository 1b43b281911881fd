"""The Markdown library, set up so that text to come never changes what was read before."""

from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_block.table import escapedSplit, getLine
from markdown_it.token import Token

_LONGEST = "longest"
_CONTINUED = "continued"


class LibraryParser:
    """Reads CommonMark with tables and strikethrough, without HTML and link reference definitions."""

    def __init__(self, nesting: int) -> None:
        """Blocks deeper than `nesting` are not read."""
        self._library = MarkdownIt("commonmark", {"html": False, "maxNesting": nesting})
        self._library.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])
        self._library.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})

    def blocks(self, text: str, *, longest: int, continued: bool) -> Sequence[Token]:
        """A table does not begin with lines of more than `longest` characters, nor with one that began earlier."""
        tokens: list[Token] = []
        env: dict[str, Any] = {_LONGEST: longest, _CONTINUED: continued}
        self._library.block.parse(text, self._library, env, tokens)
        return tokens

    def inline(self, text: str) -> Sequence[Token]:
        """What stands within running text."""
        tokens: list[Token] = []
        self._library.inline.parse(text, self._library, {}, tokens)
        return tokens


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if start == 0 and state.env[_CONTINUED]:
        return False
    longest = state.env[_LONGEST]
    if start + 1 < end and any(state.eMarks[line] - state.bMarks[line] > longest for line in (start, start + 1)):
        return False
    first = len(state.tokens)
    if not table(state, start, end, silent):
        return False
    if not silent:
        _keep_rest(state, first)
    return True


def _keep_rest(state: StateBlock, first: int) -> None:
    """Put the cells that a row has more than the heading, which the library drops, into its last one."""
    cells: list[Token] = []
    for token in state.tokens[first:]:
        if token.type == "inline":
            cells.append(token)
        elif token.type == "tr_close":
            row = getLine(state, _line_of(cells[0])).strip(" \t")
            if row.strip(" \t|").count("|") >= len(cells):
                columns = [column.strip() for column in escapedSplit(row.removeprefix("|"))]
                rest = columns[len(cells) : -1 if not columns[-1] else None]
                cells[-1].content = " | ".join([cells[-1].content, *rest])
            cells = []


def _line_of(token: Token) -> int:
    return token.map[0] if token.map else 0
