"""An app in the place of codeagent's: a composer to give the focus back to, and a theme in
force."""

import os
from pathlib import Path

from textual.app import App, ComposeResult
from textual.widgets import Static, TextArea

from codeagent.tui.rendering.palette import Palette
from codeagent.tui.themes import Themes, ThemeSwitch

MANNERS = "[bold]x[/] \x1b[2J\x1b]0;pwned\x07 \u202egnp.exe\u202c"
"""Text that would act on a terminal, or on a library that takes it for markup."""


class Clock:
    """Seconds that pass only when told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class StandIn(App[None]):
    """Keeps what screens gave in `given`, and what the clipboard was sent in `copied`."""

    CSS = "#conversation { height: 1fr; } #composer { height: 3; }"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, theme: str = "ink", folders: tuple[Path, ...] = ()) -> None:
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.palette = Palette()
        self.given: list[object] = []
        self.copied: str | None = None
        self.said: list[str] = []
        self.themes = Themes(folders)
        self._begin = theme
        self.look = ThemeSwitch(self, self.themes, paint=self.paint, tell=self.said.append)

    def compose(self) -> ComposeResult:
        yield Static("the conversation", markup=False, id="conversation")
        yield TextArea(id="composer")

    def on_mount(self) -> None:
        assert self.look.use(self._begin) == ""

    def copy_to_clipboard(self, text: str) -> None:
        self.copied = text

    @property
    def rows(self) -> list[str]:
        """What is on screen, as text."""
        return [
            "".join(segment.text for segment in strip)
            for strip in self.screen._compositor.render_strips()
        ]

    @property
    def shown(self) -> str:
        return "\n".join(self.rows)

    def paint(self, palette: Palette) -> None:
        self.palette = palette
