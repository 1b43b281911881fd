"""A panel to choose one of many: commands, sessions, models, themes."""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Resize

from codeagent.core.hosts import NETWORK_MEANS
from codeagent.core.policy import HOSTS, Rule
from codeagent.core.pulse import ago
from codeagent.core.runtime import SessionSummary
from codeagent.core.sanitize import one_line
from codeagent.tui.bindings import bindings
from codeagent.tui.keymap import Keymap, shown
from codeagent.tui.launcher import ModelRow
from codeagent.tui.pages.page import Panel
from codeagent.tui.parts.line_input import LineInput
from codeagent.tui.parts.marked_list import PickerList, PickerRow
from codeagent.tui.parts.rows import HintRow, TitleRow
from codeagent.tui.themes import DEFAULT_THEME, ThemeError, Themes, ThemeSwitch

Preview = Callable[[str], None]
"""Called with the key of the marked row while the user is still choosing."""
_AROUND = 3
"""Rows of the panel besides the list."""


class Picker(Panel[str | None]):
    """Covers the lower part of the conversation; returns the key of the chosen row, None after
    Esc."""

    BINDINGS = bindings("picker")

    def __init__(
        self,
        title: str,
        rows: Sequence[PickerRow],
        *,
        marked: str = "",
        on_highlight: Preview | None = None,
        typing: str = "type to narrow the list",
    ) -> None:
        """`marked` is the key of the row to mark first; `typing` says what typing does."""
        super().__init__()
        self._preview = on_highlight
        self._line = LineInput(placeholder=typing, compact=True)
        self._list = PickerList(rows, marked)
        self._total = self._list.count
        self._title = TitleRow(title, f"{self._total}")
        self._hints = HintRow()

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._title
            yield self._line
            yield self._list
            yield self._hints

    def on_mount(self) -> None:
        hints = (
            "{picker.choose} chooses it",
            "{picker.close} closes",
            "{picker.up} and {picker.down} move",
        )
        self._hints.show((), hints)
        self._line.focus()

    def on_resize(self, event: Resize) -> None:
        """Keep the height while the list is narrowed, so that nothing jumps."""
        most = max(1, event.size.height * 3 // 4 - _AROUND)
        self._list.styles.height = min(max(1, self._total), most)

    def tell(self, text: str) -> None:
        """Show one line instead of the hints; an empty one brings them back."""
        self._hints.tell(text)

    @property
    def chosen(self) -> str | None:
        """The key of the marked row; None if nothing matches."""
        return None if self._list.marked is None else self._list.marked.key

    @property
    def typed(self) -> str:
        return self._line.value

    def action_choose(self) -> None:
        if self.chosen is not None:
            self.dismiss(self.chosen)

    def action_move(self, step: int) -> None:
        self._list.move(step)

    def action_page(self, direction: int) -> None:
        self._list.page(direction)

    @on(LineInput.Changed)
    def _narrow(self, message: LineInput.Changed) -> None:
        message.stop()
        self._list.narrow(message.value)
        count = self._list.count
        self._title.tell(f"{count} of {self._total}" if count != self._total else f"{count}")

    @on(PickerList.Marked)
    def _marked(self, message: PickerList.Marked) -> None:
        message.stop()
        if self._preview is not None and self._list.marked is not None:
            self._preview(self._list.marked.key)

    @on(PickerList.Clicked)
    def _clicked(self, message: PickerList.Clicked) -> None:
        message.stop()
        self.action_choose()


def session_rows(sessions: Sequence[SessionSummary], now: float) -> list[PickerRow]:
    """Return a row per session; `now` is in seconds since the epoch, and a session open elsewhere
    is marked as such."""
    return [
        PickerRow(
            row.id,
            one_line(row.title or row.prompt, 60) or "(nothing said)",
            f"{ago(row.modified, now)} · {row.model}"
            + (" · in use elsewhere" if row.in_use else ""),
            warn=row.in_use,
        )
        for row in sessions
    ]


def network_rows(rules: Iterable[Rule]) -> list[PickerRow]:
    """Return a row per level of network access; the rules say which hosts are on the allow-list."""
    allowed = [str(rule) for rule in rules if rule.tool == HOSTS and rule.permission == "auto"]
    listed = {
        "allow-list": ": " + (", ".join(allowed) or "none yet; network(pypi.org) would allow one")
    }
    return [
        PickerRow(level, level, means + listed.get(level, ""), warn=level == "open")
        for level, means in NETWORK_MEANS.items()
    ]


def model_rows(models: Iterable[ModelRow]) -> list[PickerRow]:
    return [PickerRow(row.name, row.name, row.about, warn=not row.ready) for row in models]


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
    """Returns the name of the chosen theme; Esc restores the previous one."""

    def __init__(self, switch: ThemeSwitch) -> None:
        themes = switch.themes
        rows = [_row(themes, name) for name in themes.names()]
        super().__init__("Themes", rows, marked=switch.name, on_highlight=self._try)
        self._before = switch.name
        self._switch = switch
        self._problem = ""

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
