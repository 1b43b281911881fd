"""A panel to choose one of many: commands, sessions, models, themes."""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.events import Resize
from textual.geometry import Size
from textual.widgets import Static

from codeagent.core.errors import ConfigError
from codeagent.core.pulse import ago
from codeagent.core.runtime import SessionSummary
from codeagent.core.sanitize import one_line
from codeagent.tui.bindings import bindings
from codeagent.tui.keymap import Keymap, shown
from codeagent.tui.launcher import ModelRow
from codeagent.tui.pages.page import ListKeys, Panel
from codeagent.tui.parts.line_input import LineInput
from codeagent.tui.parts.line_pane import LinePane, diff_piece
from codeagent.tui.parts.marked_list import PickerList, PickerRow
from codeagent.tui.parts.rows import HintRow, TitleRow
from codeagent.tui.rendering.diff import diff_rows
from codeagent.tui.themes import DEFAULT_THEME, ThemeError, Themes, ThemeSwitch

Preview = Callable[[str], None]
"""Called with the key of the marked row while the user is still choosing."""
_AROUND = 3
"""Rows of the panel besides the list."""
_SAMPLE = (
    'def days(year):\n    leap = year % 4 == 0\n    return {"February": 29 if leap else 28}\n',
    'def days(year):\n    leap = isleap(year)\n    return {"February": 29 if leap else 28}\n',
)
_SAMPLE_ROWS = 5


class Picker(ListKeys, Panel[str | None]):
    """Covers the lower part of the conversation; returns the key of the chosen row, None after
    Esc."""

    DEFAULT_CSS = """
    Picker Static { height: 2; padding: 0 1 0 3; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("picker"), *bindings("picker", "Picker")]

    def __init__(
        self,
        title: str,
        rows: Sequence[PickerRow],
        *,
        marked: str = "",
        on_highlight: Preview | None = None,
        typing: str = "type to narrow the list",
        drawn_by: PickerList | None = None,
    ) -> None:
        """`marked` is the key of the row to mark first; `typing` says what typing does; `drawn_by`
        is a list that draws its rows in its own way."""
        super().__init__()
        self._preview = on_highlight
        self._line = LineInput(placeholder=typing, compact=True)
        self.list: PickerList = drawn_by or PickerList(rows, marked)
        self._total = self.list.count
        self._title = TitleRow(title, f"{self._total}")
        self._whole = Static(markup=False)
        """The marked row in full, if there is a row that is cut."""
        self._hints = HintRow()

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._title
            yield self._line
            yield from self.body()
            yield self._hints

    def body(self) -> ComposeResult:
        """Yield the list, and what is around it."""
        yield self.list
        yield self._whole

    def on_mount(self) -> None:
        self._hints.show((), self.hints())
        self._line.focus()

    def hints(self) -> Sequence[str]:
        """Return what the keys do."""
        return (
            "{picker.choose} chooses it",
            "{picker.close} closes",
            "{picker.up} and {picker.down} move",
        )

    def on_resize(self, event: Resize) -> None:
        """Keep the height while the list is narrowed, so that nothing jumps."""
        self.list.styles.height = max(1, self.rows_in(event.size))
        self.call_after_refresh(self._tell_whole)

    def rows_in(self, size: Size) -> int:
        """Return how many rows the list has on a screen of that size."""
        return min(self._total, size.height * 3 // 4 - _AROUND)

    def tell(self, text: str) -> None:
        """Show one line instead of the hints; an empty one brings them back."""
        self._hints.tell(text)

    def _tell_whole(self) -> None:
        self._whole.display = self.list.is_cut
        marked = self.list.marked
        self._whole.update(self.list.whole(marked) if marked is not None else "")

    @property
    def chosen(self) -> str | None:
        """The key of the marked row; None if nothing matches."""
        return None if self.list.marked is None else self.list.marked.key

    @property
    def typed(self) -> str:
        return self._line.value

    def action_choose(self) -> None:
        if self.chosen is not None:
            self.dismiss(self.chosen)

    def action_end(self, direction: int) -> None:
        self.list.move(direction * self.list.count)

    @on(LineInput.Changed)
    def _narrow(self, message: LineInput.Changed) -> None:
        self.list.narrow(message.value)
        self._count()

    def _count(self) -> None:
        count = f"{self.list.count}"
        if count != f"{self._total}":
            count += f" of {self._total}"
        self._title.tell(self.said_beside() + count)

    def said_beside(self) -> str:
        """Return what the title says before the number of rows."""
        return ""

    @on(PickerList.Marked)
    def _marked(self) -> None:
        self._tell_whole()
        if self._preview is not None and (key := self.chosen) is not None:
            self._preview(key)

    @on(PickerList.Clicked)
    def _clicked(self) -> None:
        self.action_choose()


class ValuePicker(Picker):
    """Returns the marked value, or the typed one if nothing is marked; one that `check` refuses
    with a ConfigError is not taken, and the page says why."""

    def __init__(
        self,
        title: str,
        rows: Sequence[PickerRow],
        check: Callable[[str], object],
        *,
        typing: str,
        marked: str = "",
        typed_first: bool = False,
    ) -> None:
        """`typed_first`: what is typed counts even if a row matches it."""
        super().__init__(title, rows, marked=marked, typing=typing)
        self._check = check
        self._typed_first = typed_first

    def action_choose(self) -> None:
        marked = None if self._typed_first and self.typed else self.chosen
        value = self.typed if marked is None else marked
        try:
            self._check(value)
        except ConfigError as error:
            self.tell(str(error))
            return
        self.dismiss(value)


def session_rows(sessions: Sequence[SessionSummary], now: float) -> list[PickerRow]:
    """Return a row per session; `now` is in seconds since the epoch, and a session open elsewhere
    is marked as such."""
    return [
        PickerRow(
            row.id,
            one_line(row.name, 200) or "(nothing said)",
            f"{ago(row.modified, now)} · {row.model}"
            + (" · in use elsewhere" if row.in_use else ""),
            warn=row.in_use,
        )
        for row in sessions
    ]


def palette_rows(
    keymap: Keymap, themes: Iterable[str], models: Iterable[ModelRow], *, running: bool
) -> tuple[PickerRow, ...]:
    """Return rows whose keys are commands such as `/theme paper`, below the headings of /help; if
    `running`, only those allowed during a run."""
    pressed = {
        row.same_as or row.name: shown(key)
        for row in keymap.table.keys
        for key in keymap.keys_of(row.id)[:1]
        if row.same_as or row.group
    }
    allowed: list[PickerRow] = []
    for group, rows in groupby(keymap.table.commands, key=lambda row: row.group or "yours"):
        allowed.append(PickerRow("", group.capitalize(), heading=True))
        allowed += [
            PickerRow(f"/{row.name}", f"/{row.name}", row.about, keys=pressed.get(row.name, ""))
            for row in rows
            if row.while_running or not running
        ]
    allowed.append(PickerRow("", "Themes", heading=True))
    looks = [PickerRow(f"/theme {name}", f"/theme {name}", "theme") for name in themes]
    ready = [] if running else [row for row in models if row.ready]
    return (
        *allowed,
        *looks,
        *([PickerRow("", "Models", heading=True)] if ready else []),
        *(PickerRow(f"/model {row.name}", f"/model {row.name}", row.about) for row in ready),
    )


class ThemePicker(Picker):
    """Returns the name of the chosen theme; Esc restores the previous one.

    Below the list is a sample of code, as a new conversation has nothing to look at.
    """

    DEFAULT_CSS = """
    ThemePicker LinePane { height: 5; padding: 1 1 0 3; }
    """

    def __init__(self, switch: ThemeSwitch) -> None:
        themes = switch.themes
        rows = [_row(themes, name) for name in themes.names()]
        super().__init__("Themes", rows, marked=switch.name, on_highlight=self._try)
        self._before = switch.name
        self._switch = switch
        self._problem = ""
        self._sample = LinePane()

    def body(self) -> ComposeResult:
        yield from super().body()
        yield self._sample

    def on_mount(self) -> None:
        super().on_mount()
        self._sample.show([diff_piece(diff_rows(*_SAMPLE), "sample.py", split=False)])

    def rows_in(self, size: Size) -> int:
        rows = size.height * 3 // 4 - _AROUND - _SAMPLE_ROWS
        self._sample.display = rows >= _SAMPLE_ROWS
        return min(self._total, rows) if self._sample.display else super().rows_in(size)

    def hints(self) -> Sequence[str]:
        _, _, move = super().hints()
        return ("{picker.choose} keeps it", f"{{picker.close}} restores {self._before}", move)

    def action_choose(self) -> None:
        """Choose the marked theme, unless it cannot be used."""
        if not self._problem:
            super().action_choose()

    def action_close(self) -> None:
        self._switch.use(self._before)
        super().action_close()

    def _try(self, name: str) -> None:
        self._problem = self._switch.use(name)
        self.tell(self._problem)


def _row(themes: Themes, name: str) -> PickerRow:
    try:
        theme = themes.get(name)
    except ThemeError as problem:
        return PickerRow(name, name, str(problem), warn=True)
    words = [
        "the terminal's own colours" if theme.textual.ansi else "dark" if theme.dark else "light"
    ]
    if themes.is_own(name):
        words.append("yours")
    elif name == DEFAULT_THEME:
        words.append("the default")
    return PickerRow(name, name, " · ".join(words))
