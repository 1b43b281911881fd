"""Pages to read: facts as Markdown, every key, a whole output."""

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Static

from codeagent.tui.bindings import bindings
from codeagent.tui.keymap import Keymap, KeyRow
from codeagent.tui.pages.page import Page, TextPane
from codeagent.tui.parts.line_input import LineInput
from codeagent.tui.parts.line_pane import markdown_piece
from codeagent.tui.parts.output import OutputMatch, OutputPane
from codeagent.tui.rendering.lines import Line, Row, Styled, line, wrap
from codeagent.tui.rendering.palette import Palette

_KEYS = 22
"""Cells of the column of keys, if there is room."""
_NAMED = 96
"""Cells from which on there is room for the names used in `keys.yaml`."""
_WIDEST = 130
"""Cells that the sheet takes at most: farther apart, names are hard to match with keys."""


class TextScreen(Page[None]):
    """A page of Markdown; control characters in it are only drawn, never obeyed."""

    def __init__(self, title: str, markdown: str) -> None:
        super().__init__(title, TextPane([markdown_piece(markdown)], markdown))


class KeySheet(Page[None]):
    """A page of all keys in force, with the names that change them in `keys.yaml`."""

    def __init__(self, keymap: Keymap) -> None:
        rows = keymap.rows()

        def piece(width: int, palette: Palette) -> Iterator[Line]:
            names = max(cell_len(_name(row)) for row in rows) if width >= _NAMED else 0
            width = min(width, _WIDEST)
            for scope, in_scope in groupby(rows, key=lambda row: row.scope):
                yield line([(keymap.table.scopes[scope].heading, palette.heading)])
                for row in in_scope:
                    yield from _drawn(row, width, names, palette)
                yield line([])

        plain = "\n".join(f"{row.keys}\t{row.about}\t{row.id}".rstrip() for row in rows)
        super().__init__("Keys", TextPane([piece], plain), "change them in keys.yaml")


def _drawn(row: KeyRow, width: int, names: int, palette: Palette) -> Iterator[Line]:
    """Draw the keys beside what they do, each in as many rows as needed, then the name if it
    fits."""
    column = min(_KEYS, max(8, width // 3))
    room = max(8, width - column - 4 - (names + 2 if names else 0))
    keys = wrap([(row.keys, palette.accent if row.own else palette.strong)], column)
    about = wrap([(row.about, palette.text)], room)
    for at, (left, right) in enumerate(zip_longest(keys, about)):
        parts: Styled = [("  ", None), *_filled(left, column), ("  ", None)]
        if at == 0 and names:
            yield line([*parts, *_filled(right, room), ("  " + _name(row), palette.muted)])
        else:
            yield line([*parts, *(right.parts if right else ())])


def _name(row: KeyRow) -> str:
    return row.id + (", yours" if row.own else "")


def _filled(row: Row | None, width: int) -> Styled:
    parts = list(row.parts) if row else []
    return [*parts, (" " * max(0, width - sum(cell_len(text) for text, _ in parts)), None)]


class OutputScreen(Page[None]):
    """A page of a whole output: `/` searches, n and N go from match to match."""

    DEFAULT_CSS = """
    OutputScreen {
        & > Horizontal { height: 1; display: none; padding: 0 1; }
        & > Horizontal > Static { width: auto; color: $primary; }
        & > Horizontal > LineInput { width: 1fr; }
    }
    """
    BINDINGS = bindings("page", "OutputScreen")

    def __init__(self, title: str, text: str | Sequence[str]) -> None:
        """`text` may contain anything: colours are shown, all other control sequences are
        ignored."""
        self.pane: OutputPane
        pane = OutputPane(text)
        count = len(pane.text)
        super().__init__(
            title,
            pane,
            f"{count:,} line{'' if count == 1 else 's'}",
            ["{page.find} finds", "{page.left} {page.right} long lines"],
        )
        self._line = LineInput(compact=True)
        self._bar = Horizontal(Static("find: ", markup=False), self._line)

    def body(self) -> ComposeResult:
        yield self.pane
        yield self._bar

    def action_find(self) -> None:
        self._bar.display = True
        self._line.focus()

    def settle(self) -> None:
        """Restore the hints; during a search they are about the search."""
        if not self._line.value:
            super().settle()

    def action_next(self) -> None:
        self._tell(self.pane.next())

    def action_previous(self) -> None:
        self._tell(self.pane.next(backwards=True))

    def action_close(self) -> None:
        """Close the page, or first the search if there is one."""
        if not self._bar.display and not self._line.value:
            self.dismiss(None)
            return
        self._line.value = ""
        self._bar.display = False
        self.set_focus(None)
        self.say("")

    @on(LineInput.Changed)
    def _searched(self, message: LineInput.Changed) -> None:
        self._tell(self.pane.find(message.value))

    @on(LineInput.Submitted)
    def _settled(self) -> None:
        self._bar.display = False
        self.set_focus(None)

    def _tell(self, found: OutputMatch | None) -> None:
        sought = self._line.value
        if found is not None:
            keys = self.with_keys(
                "{page.next} next · {page.previous} before · {page.close} ends the search"
            )
            self.say(f"{found.number:,} of {found.total:,} · {keys}")
        else:
            self.say(f"nothing found for '{sought}'" if sought else "")
