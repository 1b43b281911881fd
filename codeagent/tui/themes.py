"""The themes there are: those that come with codeagent, and the user's own."""

from collections.abc import Sequence
from pathlib import Path

from codeagent.core.errors import ConfigError
from codeagent.core.sanitize import one_line
from codeagent.tui.fuzzy import nearest
from codeagent.tui.ink import INK
from codeagent.tui.settings_file import BadFile, read_entries
from codeagent.tui.theme_file import NAME, BadTheme, ThemeFile, theme_from

DEFAULT_THEME = "ink"

_KEPT = "the theme was not changed"


class ThemeError(ConfigError):
    """A theme cannot be used; the one in force stays."""


def bundled_folder() -> Path:
    """Inside the package where it was installed, the repository's `themes` where it runs from a checkout."""
    from importlib import resources  # the default theme needs no folder

    installed = Path(str(resources.files("codeagent.tui"))) / "bundled_themes"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "themes"


def load_theme(path: Path) -> ThemeFile:
    """The theme of a YAML file. Raises ThemeError, which names file, line and key."""
    lines: dict[str, int] = {}
    try:
        table: dict[str, str] = {}
        for entry in read_entries(path):
            if entry.listed:
                raise BadFile(entry.line, entry.key, "expected one text, not a list")
            table[entry.key], lines[entry.key] = entry.values[0], entry.line
        return _named_as_its_file(theme_from(table), path)
    except BadTheme as problem:
        refused = BadFile(lines.get(problem.key, 1), problem.key, str(problem))
        raise ThemeError(refused.said_of(path, _KEPT)) from problem
    except BadFile as problem:
        raise ThemeError(problem.said_of(path, _KEPT)) from problem


def _named_as_its_file(theme: ThemeFile, path: Path) -> ThemeFile:
    if theme.name != path.stem:
        raise BadTheme("name", f"'{theme.name}' is not the file's name")
    return theme


def built_in() -> ThemeFile:
    """The default theme, from no file: it is there even where every file is broken."""
    return theme_from(INK)


class Themes:
    """Themes by name. A file of the user's own goes before a bundled one of the same name."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        """`folders` hold the user's own themes, the first one winning; they need not exist."""
        self._own = tuple(folders)
        self._read: dict[Path, tuple[int, ThemeFile]] = {}

    def names(self) -> tuple[str, ...]:
        """The default first, then the bundled ones, then the user's own; no file is read."""
        bundled = sorted(path.stem for path in bundled_folder().glob("*.yaml"))
        own = sorted(path.stem for folder in self._own for path in folder.glob("*.yaml") if NAME.fullmatch(path.stem))
        return tuple(dict.fromkeys([DEFAULT_THEME, *bundled, *own]))

    def get(self, name: str) -> ThemeFile:
        """Read where it is not known or its file has changed. Raises ThemeError."""
        path = self._own_path(name)
        if path is None and name == DEFAULT_THEME:
            return built_in()
        path = path or bundled_folder() / f"{name}.yaml"
        if not (NAME.fullmatch(name) and path.is_file()):
            raise ThemeError(f"there is no theme '{one_line(name, 40)}'{nearest(name, self.names())}; see /theme")
        try:
            stamp = path.stat().st_mtime_ns
        except OSError as problem:
            raise ThemeError(f"{path.name}: cannot be read ({problem.strerror}); {_KEPT}") from problem
        if self._read.get(path, (0,))[0] != stamp:
            self._read[path] = (stamp, load_theme(path))
        return self._read[path][1]

    def is_own(self, name: str) -> bool:
        """The theme comes from one of the user's folders, where it may change at any time."""
        return self._own_path(name) is not None

    def stamp(self, name: str) -> int | None:
        """When the file of the user's own theme changed last, in nanoseconds; None where there is no such file."""
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
