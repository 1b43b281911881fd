"""The available themes, codeagent's and the user's own, and the one in use."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.style import Style
from rich.terminal_theme import TerminalTheme
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme
from textual.timer import Timer

from codeagent.core.errors import ConfigError
from codeagent.core.sanitize import one_line
from codeagent.tui.fuzzy import nearest
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.settings_file import BadFile, read_entries
from codeagent.tui.theme_file import INK, NAME, BadTheme, ThemeFile, theme_from

DEFAULT_THEME = "ink"

Triplet = tuple[int, int, int]

_BY_ATTRIBUTES = "terminal"
_LOOK_EVERY = 1.5
"""Seconds between two checks of the file of the user's own theme."""
_KEPT = "the theme was not changed"


class ThemeError(ConfigError):
    """A theme cannot be used; the one in use stays."""


def bundled_folder() -> Path:
    """Return the folder inside the installed package, or the repository's `themes` in a
    checkout."""
    from importlib import resources  # the default theme does not need a folder

    installed = Path(str(resources.files("codeagent.tui"))) / "bundled_themes"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "themes"


def load_theme(path: Path, given: Mapping[str, str] = MappingProxyType({})) -> ThemeFile:
    """Read a theme from a YAML file, with some keys `given`. Raises ThemeError, which names file,
    line and key."""
    lines: dict[str, int] = {}
    try:
        table: dict[str, str] = {}
        for entry in read_entries(path):
            if entry.listed:
                raise BadFile(entry.line, entry.key, "expected text, not a list")
            table[entry.key], lines[entry.key] = entry.values[0], entry.line
        theme = theme_from({**table, **given})
        if theme.name != path.stem:
            raise BadTheme("name", f"'{theme.name}' is not the file's name")
        return theme
    except BadTheme as problem:
        refused = BadFile(lines.get(problem.key, 1), problem.key, str(problem))
        raise ThemeError(refused.said_of(path, _KEPT)) from problem
    except BadFile as problem:
        raise ThemeError(problem.said_of(path, _KEPT)) from problem


def built_in() -> ThemeFile:
    """Return the default theme, which does not come from a file: it works even if every file is
    broken."""
    return theme_from(INK)


def for_depth(theme: ThemeFile, depth: str | None) -> tuple[ThemeFile, tuple[LineFilter, ...]]:
    """Return the theme for a terminal with that many colours, as Rich names it, and what each line
    goes through before it is drawn. A theme of the terminal's own sixteen needs no change."""
    if theme.textual.ansi or depth not in ("standard", "256"):
        return theme, ()
    from codeagent.tui import colour_depth as depths  # not needed in true colour

    if depth == "256":
        return theme, (depths.ByNumber(depths.FIXED, theme),)
    design = bundled_folder() / "sixteen" / ("dark.yaml" if theme.dark else "light.yaml")
    sixteen = load_theme(design, depths.sixteen_of(theme))
    theme = replace(sixteen, textual=replace(sixteen.textual, name=theme.name))
    return theme, (depths.ByNumber(depths.SIXTEEN, theme),)


class Themes:
    """Themes by name. The user's own file is preferred to a bundled one of the same name."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        """`folders` hold the user's own themes; the first match wins, and they need not exist."""
        self._own = tuple(folders)
        self._read: dict[Path, tuple[int, ThemeFile]] = {}

    def names(self) -> tuple[str, ...]:
        """List the names: the default, the bundled ones, then the user's own; no file is read."""
        bundled = sorted(path.stem for path in bundled_folder().glob("*.yaml"))
        own = sorted(
            path.stem
            for folder in self._own
            for path in folder.glob("*.yaml")
            if NAME.fullmatch(path.stem)
        )
        return tuple(dict.fromkeys([DEFAULT_THEME, *bundled, *own]))

    def get(self, name: str) -> ThemeFile:
        """Return a theme, read again if its file has changed. Raises ThemeError."""
        path = self._own_path(name)
        if path is None and name == DEFAULT_THEME:
            return built_in()
        path = path or bundled_folder() / f"{name}.yaml"
        if not (NAME.fullmatch(name) and path.is_file()):
            raise ThemeError(
                f"unknown theme '{one_line(name, 40)}'{nearest(name, self.names())}; see /theme"
            )
        try:
            stamp = path.stat().st_mtime_ns
        except OSError as problem:
            raise ThemeError(
                f"{path.name}: cannot be read ({problem.strerror}); {_KEPT}"
            ) from problem
        if self._read.get(path, (0,))[0] != stamp:
            self._read[path] = (stamp, load_theme(path))
        return self._read[path][1]

    def is_own(self, name: str) -> bool:
        """Whether the theme comes from one of the user's folders, where it may change at any
        time."""
        return self._own_path(name) is not None

    def stamp(self, name: str) -> int | None:
        """Return when the file of the user's own theme last changed, in nanoseconds; None if there
        is no file."""
        path = self._own_path(name)
        try:
            return None if path is None else path.stat().st_mtime_ns
        except OSError:
            return None

    def _own_path(self, name: str) -> Path | None:
        if not NAME.fullmatch(name):
            return None
        candidates = (folder / f"{name}.yaml" for folder in self._own)
        return next((path for path in candidates if path.is_file()), None)


class ThemeSwitch:
    """Switches themes. Without colours (`NO_COLOR`, `TERM=dumb`) lines are drawn in the plain
    palette in any theme."""

    def __init__(
        self,
        app: App[Any],
        themes: Themes,
        *,
        paint: Callable[[Palette], None],
        tell: Callable[[str], None],
    ) -> None:
        """`paint` keeps the palette where `palette_of` finds it; `tell` shows one line about a
        changed file."""
        self._app = app
        self.themes = themes
        self._paint = paint
        self._tell = tell
        self.name = ""
        """The name of the theme in use; empty before the first."""
        self.filters: tuple[LineFilter, ...] = ()
        """What each line goes through before it is drawn, see `for_depth`."""
        self._timer: Timer | None = None
        self._stamp: int | None = None

    @property
    def watching(self) -> bool:
        """Whether the file of the theme is watched, because it is the user's own."""
        return self._timer is not None

    def use(self, name: str) -> str:
        """Draw everything in that theme; if something is wrong with it, return what, and keep the
        present one.

        If there is no present one yet, the built-in default is used.
        """
        stamp = self.themes.stamp(name)
        try:
            self._apply(self.themes.get(name))
        except ThemeError as problem:
            if not self.name:
                self._apply(built_in())
            return str(problem)
        self._stamp = stamp
        self.watch()
        return ""

    def watch(self) -> None:
        """Run a timer while, and only while, the app is running and there is a file that may
        change; the app calls it when it begins."""
        if self._stamp is None:
            if self._timer is not None:
                self._timer.stop()
                self._timer = None
        elif self._timer is None and self._app.is_running:
            self._timer = self._app.set_interval(_LOOK_EVERY, self.look)

    def look(self) -> None:
        """Read the theme in use again if its file changed; what is wrong with it is reported
        once."""
        stamp = self.themes.stamp(self.name)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._apply(self.themes.get(self.name))
        except ThemeError as problem:
            self._tell(str(problem))
        else:
            self._tell(f"theme {self.name}: read again")

    def _apply(self, theme: ThemeFile) -> None:
        plain = self._app.no_color or os.environ.get("TERM") == "dumb"
        if not plain:
            theme, self.filters = for_depth(theme, self._app.console.color_system)
        self._paint(Palette() if plain else theme.palette)
        self._app.register_theme(self._uncoloured(theme) if plain else theme.textual)
        self._colour_output(theme)
        self.name = theme.name
        if self._app.theme == theme.name:
            self._app.mutate_reactive(App.theme)
        else:
            self._app.theme = theme.name
        for screen in self._app.screen_stack:
            for widget in (screen, *screen.walk_children()):
                widget.refresh()

    def _colour_output(self, theme: ThemeFile) -> None:
        """Show what programs print in the theme's colours, which are readable on its background."""
        if theme.textual.ansi:
            return
        if theme.dark:
            self._app.ansi_theme_dark = _terminal_theme(theme)
        else:
            self._app.ansi_theme_light = _terminal_theme(theme)

    def _uncoloured(self, theme: ThemeFile) -> Theme:
        """Return a theme of the same name that shows the cursor and marks by text attributes.

        Textual can only remove colours from an app made with `ansi_color=True`; any other app is
        painted grey, and the terminal's own colours all become black.
        """
        return (
            replace(self.themes.get(_BY_ATTRIBUTES).textual, name=theme.name)
            if self._app.ansi_color
            else theme.textual
        )


def _terminal_theme(theme: ThemeFile) -> TerminalTheme:
    palette, base = theme.palette, theme.textual
    foreground = _rgb(base.foreground)
    colours = map(_rgb, (base.error, base.success, base.warning, base.primary))
    black, grey, magenta, cyan = (
        _rgb_of(style, foreground)
        for style in (
            palette.rule,
            palette.muted,
            palette.code.tokens["keyword"],
            palette.code.tokens["type"],
        )
    )
    sixteen = [black, *colours, magenta, cyan, foreground]
    return TerminalTheme(_rgb(base.background), foreground, sixteen, [grey, *sixteen[1:]])


def _rgb_of(style: Style, otherwise: Triplet) -> Triplet:
    """Return the colour of a style's text, if it has one."""
    if style.color is None:
        return otherwise
    red, green, blue = style.color.get_truecolor()
    return red, green, blue


def _rgb(colour: str | None) -> Triplet:
    """Return red, green and blue of a base colour, which every checked theme has."""
    assert colour is not None
    return Color.parse(colour).rgb
