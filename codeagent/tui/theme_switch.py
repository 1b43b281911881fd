"""Puts a theme in force, and keeps up with its file while that is the user's own."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rich.style import Style
from rich.terminal_theme import TerminalTheme
from textual.app import App
from textual.color import Color
from textual.theme import Theme
from textual.timer import Timer

from codeagent.tui.rendering.palette import Palette
from codeagent.tui.theme_file import ThemeFile
from codeagent.tui.themes import ThemeError, Themes, built_in

Triplet = tuple[int, int, int]

_BY_ATTRIBUTES = "terminal"
_LOOK_EVERY = 1.5
"""Seconds between two looks at the file of the user's own theme."""


class ThemeSwitch:
    """Without colours (`NO_COLOR`, `TERM=dumb`) lines are drawn in the plain palette, whatever the theme."""

    def __init__(
        self, app: App[Any], themes: Themes, *, paint: Callable[[Palette], None], tell: Callable[[str], None]
    ) -> None:
        """`paint` keeps the palette where `palette_of` finds it; `tell` says in one line what a changed file did."""
        self._app = app
        self.themes = themes
        self._paint = paint
        self._tell = tell
        self._name = ""
        self._timer: Timer | None = None
        self._stamp: int | None = None

    @property
    def name(self) -> str:
        """Of the theme in force; empty before the first."""
        return self._name

    @property
    def watching(self) -> bool:
        """Its file is looked at, because it is the user's own."""
        return self._timer is not None

    def use(self, name: str) -> str:
        """Draw everything in that theme; returns what is wrong with it, and keeps the present one then.

        Where none is in force yet, that is the default as it is built in.
        """
        stamp = self.themes.stamp(name)
        try:
            self._apply(self.themes.get(name))
        except ThemeError as problem:
            if not self._name:
                self._apply(built_in())
            return str(problem)
        self._stamp = stamp
        self._watch()
        return ""

    def look(self) -> None:
        """Read the theme in force again where its file changed; what is wrong with it is said once."""
        stamp = self.themes.stamp(self._name)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._apply(self.themes.get(self._name))
        except ThemeError as problem:
            self._tell(str(problem))
        else:
            self._tell(f"theme {self._name}: read again")

    def _apply(self, theme: ThemeFile) -> None:
        plain = self._app.no_color or os.environ.get("TERM") == "dumb"
        self._paint(Palette() if plain else theme.palette)
        self._app.register_theme(self._uncoloured(theme) if plain else theme.textual)
        self._colour_output(theme)
        self._name = theme.name
        if self._app.theme == theme.name:
            self._app.mutate_reactive(App.theme)
        else:
            self._app.theme = theme.name
        for screen in self._app.screen_stack:
            for widget in (screen, *screen.walk_children()):
                widget.refresh()

    def _colour_output(self, theme: ThemeFile) -> None:
        """What programs print in the terminal's colours is shown in the theme's, which can be read on its ground."""
        if theme.textual.ansi:
            return
        if theme.dark:
            self._app.ansi_theme_dark = _terminal_theme(theme)
        else:
            self._app.ansi_theme_light = _terminal_theme(theme)

    def _uncoloured(self, theme: ThemeFile) -> Theme:
        """The cursor and what is marked show by attributes in this one, under the name that was chosen.

        Textual can only take colours away from an app that was made with `ansi_color=True`; any other one it
        paints grey, and the terminal's own colours all black.
        """
        return (
            replace(self.themes.get(_BY_ATTRIBUTES).textual, name=theme.name) if self._app.ansi_color else theme.textual
        )

    def _watch(self) -> None:
        """A timer only while there is a file that may change."""
        if self._stamp is not None and self._timer is None:
            self._timer = self._app.set_interval(_LOOK_EVERY, self.look)
        elif self._stamp is None and self._timer is not None:
            self._timer.stop()
            self._timer = None


def _terminal_theme(theme: ThemeFile) -> TerminalTheme:
    palette, base = theme.palette, theme.textual
    foreground = _rgb(base.foreground)
    colours = map(_rgb, (base.error, base.success, base.warning, base.primary))
    black, grey, magenta, cyan = (
        _rgb_of(style, foreground)
        for style in (palette.rule, palette.muted, palette.syntax["keyword"], palette.syntax["type"])
    )
    sixteen = [black, *colours, magenta, cyan, foreground]
    return TerminalTheme(_rgb(base.background), foreground, sixteen, [grey, *sixteen[1:]])


def _rgb_of(style: Style, otherwise: Triplet) -> Triplet:
    """The colour a style writes in; it may have none."""
    if style.color is None:
        return otherwise
    red, green, blue = style.color.get_truecolor()
    return red, green, blue


def _rgb(colour: str | None) -> Triplet:
    """Every theme that was checked has all base colours."""
    assert colour is not None
    return Color.parse(colour).rgb
