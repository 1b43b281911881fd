"""What every key does: `?` when nothing is written, or F1."""

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest

from rich.cells import cell_len
from rich.style import Style
from textual.widget import Widget

from codeagent.tui.actions import SCOPES
from codeagent.tui.keymap import Keymap, KeyRow
from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.rendering.rows import Row, wrap
from codeagent.tui.screens.page import Page, Pane
from codeagent.tui.widgets.line_pane import LinePane

_KEYS = 22
"""Cells of the column of keys, where there is room for that."""
_NAMED = 96
"""Cells from which on there is room for the names that `keys.yaml` takes."""


class KeyPane(LinePane):
    DEFAULT_CSS = """
    KeyPane { padding: 1 2 0 2; }
    """

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        self._rows = keymap.rows()

    def on_mount(self) -> None:
        self.show([self._piece])

    def everything(self) -> str:
        return "\n".join(f"{row.keys}\t{row.about}\t{row.id}".rstrip() for row in self._rows)

    def _piece(self, width: int, palette: Palette) -> Iterator[Line]:
        names = max(cell_len(_name(row)) for row in self._rows) if width >= _NAMED else 0
        for scope, rows in groupby(self._rows, key=lambda row: row.scope):
            yield line([(SCOPES[scope], palette.heading)])
            for row in rows:
                yield from _drawn(row, width, names, palette)
            yield line([])


class KeySheet(Page):
    """All keys in force, with the names by which a person may change them."""

    def __init__(self, keymap: Keymap, *, file: str = "keys.yaml") -> None:
        """`file` is where the person changes keys, as it is said to them."""
        super().__init__("Keys", f"change them in {file}")
        self._pane = KeyPane(keymap)

    def pane(self) -> Pane:
        return self._pane

    def body(self) -> Sequence[Widget]:
        return [self._pane]


def _drawn(row: KeyRow, width: int, names: int, palette: Palette) -> Iterator[Line]:
    """Keys and what they do side by side, each in as many rows as it needs; behind them the name, where it fits."""
    column = min(_KEYS, max(8, width // 3))
    room = max(8, width - column - 4 - (names + 2 if names else 0))
    keys = wrap([(row.keys, palette.accent if row.own else palette.strong)], column)
    about = wrap([(row.about, palette.text)], room)
    for at, (left, right) in enumerate(zip_longest(keys, about)):
        parts: list[tuple[str, Style | None]] = [("  ", None), *_filled(left, column), ("  ", None)]
        if at == 0 and names:
            yield line([*parts, *_filled(right, room), ("  " + _name(row), palette.muted)])
        else:
            yield line([*parts, *(right.parts if right else ())])


def _name(row: KeyRow) -> str:
    return row.id + (", yours" if row.own else "")


def _filled(row: Row | None, width: int) -> list[tuple[str, Style | None]]:
    parts = list(row.parts) if row else []
    return [*parts, (" " * max(0, width - sum(cell_len(text) for text, _ in parts)), None)]
