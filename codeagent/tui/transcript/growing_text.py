"""Plain text that is still being written: rows of finished lines are made once, and only the last line again."""

from rich.style import Style

from codeagent.tui.rendering.lines import Line, paragraph


class GrowingText:
    """Takes text in pieces cut anywhere; its lines are those of `paragraph`."""

    def __init__(self, width: int, style: Style, first: str) -> None:
        """`first` as for `paragraph`, of blanks."""
        self._width = width
        self._style = style
        self._first = first
        self._done: list[Line] = []
        self._open = ""

    def append(self, text: str) -> None:
        *ended, self._open = (self._open + text).split("\n")
        for line in ended:
            self._done += self._rows(line)

    @property
    def lines(self) -> list[Line]:
        return [*self._done, *self._rows(self._open)]

    def _rows(self, text: str) -> list[Line]:
        return paragraph(text, self._width, self._style, first=self._first)
