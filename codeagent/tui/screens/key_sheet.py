"""What every key does: `?` when nothing is written, or F1."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.cells import cell_len
from textual.widget import Widget

from codeagent.tui.actions import SCOPES
from codeagent.tui.keymap import Keymap, KeyRow
from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.screens.page import Page, Pane
from codeagent.tui.widgets.fitting import cut_end
from codeagent.tui.widgets.line_pane import LinePane

_KEYS = 24
"""Cells of the column of keys, where there is room for that."""


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
        names = max(cell_len(row.id) for row in self._rows)
        for scope, rows in groupby(self._rows, key=lambda row: row.scope):
            yield line([(SCOPES[scope], palette.heading)])
            for row in rows:
                yield _drawn(row, width, names, palette)
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


def _drawn(row: KeyRow, width: int, names: int, palette: Palette) -> Line:
    column = min(_KEYS, max(8, width // 3))
    keys = cut_end(row.keys, column)
    room = width - column - 4
    name = row.id + (" (yours)" if row.own else "")
    beside = name if room >= cell_len(row.about) + 2 + cell_len(name) else ""
    about = cut_end(row.about, room)
    gap = " " * max(0, width - 2 - column - 2 - cell_len(about) - max(names + 8, cell_len(beside)))
    return line(
        [
            ("  " + keys + " " * (column - cell_len(keys) + 2), palette.accent if row.own else palette.strong),
            (about, palette.text),
            (gap + beside if beside else "", palette.muted),
        ]
    )
