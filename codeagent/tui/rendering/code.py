"""Highlights source code, all at once or in slices that never block the screen."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import PurePath
from time import perf_counter
from typing import Any

from rich.style import Style

from codeagent.tui.rendering.palette import CodeStyles

StyledLine = list[tuple[str, Style]]
_LONGEST_LINE = 2_000
_SLICE = 64

_COLOURS = {
    "Token.Comment": "comment",
    "Token.Keyword": "keyword",
    "Token.Keyword.Type": "type",
    "Token.Keyword.Constant": "builtin",
    "Token.Operator": "operator",
    "Token.Operator.Word": "keyword",
    "Token.Punctuation": "operator",
    "Token.Name": "name",
    "Token.Name.Function": "function",
    "Token.Name.Decorator": "function",
    "Token.Name.Class": "type",
    "Token.Name.Exception": "type",
    "Token.Name.Namespace": "type",
    "Token.Name.Tag": "keyword",
    "Token.Name.Attribute": "function",
    "Token.Name.Builtin": "builtin",
    "Token.Literal.String": "string",
    "Token.Literal.Number": "number",
    "Token.Generic.Heading": "keyword",
    "Token.Generic.Inserted": "string",
    "Token.Generic.Deleted": "error",
    "Token.Error": "error",
}


class Highlighter:
    """Highlights code in slices; `lines` grows until `done`. Their texts together are always
    exactly the code.

    Code in an unknown language, or with very long lines, stays plain.
    """

    def __init__(self, code: str, language: str, colours: CodeStyles) -> None:
        """`language` is a name, or a file's name or path; empty means plain."""
        self.lines: list[StyledLine] = []
        self._colours = colours
        self._styles: dict[object, Style] = {}
        self._open: StyledLine = []
        lexer = (
            _lexer(language)
            if language and max(map(len, code.split("\n"))) <= _LONGEST_LINE
            else None
        )
        self._pieces = _plain(code) if lexer is None else _pieces(lexer, code)
        self.done = False

    def work(self, milliseconds: float) -> bool:
        """Highlight for about that long; return whether more is left."""
        end = perf_counter() + milliseconds / 1000
        while not self.done and perf_counter() < end:
            pieces = list(islice(self._pieces, _SLICE))
            for kind, text in pieces:
                self._add(text, self._style(kind))
            if len(pieces) < _SLICE:
                self.lines.append(self._open)
                self.done = True
        return not self.done

    def _add(self, text: str, style: Style) -> None:
        first, *rest = text.split("\n")
        if first:
            self._open.append((first, style))
        for line in rest:
            self.lines.append(self._open)
            self._open = [(line, style)] if line else []

    def _style(self, kind: Any) -> Style:
        style = self._styles.get(kind)
        if style is None:
            name = str(kind)
            while name and name not in _COLOURS:
                name = name.rpartition(".")[0]
            colour = self._colours.tokens.get(_COLOURS[name]) if name else None
            style = self._colours.text if colour is None else self._colours.text + colour
            self._styles[kind] = style
        return style


def highlight(code: str, language: str, colours: CodeStyles) -> list[StyledLine]:
    """Return every line of the code in its colours; there is at least one."""
    highlighter = Highlighter(code, language, colours)
    highlighter.work(float("inf"))
    return highlighter.lines


def _plain(code: str) -> Iterator[tuple[object, str]]:
    for number, line in enumerate(code.split("\n")):
        yield None, line if number == 0 else "\n" + line


def _pieces(lexer: Any, code: str) -> Iterator[tuple[object, str]]:
    """Yield the code as (token type, text), complete and in order whatever the lexer does."""
    at = 0
    try:
        for start, kind, text in lexer.get_tokens_unprocessed(code + "\n"):
            end = min(start + len(text), len(code))
            if start > at:
                yield None, code[at:start]
                at = start
            if end > at:
                yield kind, code[at:end]
                at = end
    except Exception:  # hundreds of third-party lexers: if one fails, the rest is plain
        pass
    if at < len(code):
        yield None, code[at:]


@lru_cache(64)
def _lexer(language: str) -> Any:
    """Return the lexer for a language or a file name; None if there is none."""
    # pygments is slow to import, and most screens do not show code at first
    from pygments.lexers import find_lexer_class_by_name, find_lexer_class_for_filename
    from pygments.util import ClassNotFound

    try:
        return find_lexer_class_by_name(language)()
    except ClassNotFound:
        found = find_lexer_class_for_filename(PurePath(language).name)
        return None if found is None else found()
