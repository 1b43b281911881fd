"""Which paths a repository's ignore files leave out, as git and ripgrep read them."""

import re
from collections.abc import Callable, Iterable, Sequence

from codeagent.core.dataclass import dataclass
from codeagent.core.patterns import IgnoreLine, ignore_line

_KINDS = (".rgignore", ".ignore", ".gitignore")
_EXCLUDE = ".git/info/exclude"


class IgnoreFile:
    """One file's lines."""

    def __init__(self, text: str) -> None:
        lines = [line for raw in text.split("\n") if (line := ignore_line(raw)) is not None]
        self._lines = tuple(reversed(lines))
        self._names = _any_of(line for line in lines if not line.whole_path)
        self._paths = _any_of(line for line in lines if line.whole_path)

    def __bool__(self) -> bool:
        return bool(self._lines)

    def verdict(self, path: str, name: str, directory: bool) -> bool | None:
        """Return whether the path is ignored, None if no line matches; `path` is relative to the
        file's folder."""
        by_name = self._names is not None and self._names.fullmatch(name) is not None
        by_path = self._paths is not None and self._paths.fullmatch(path) is not None
        if not by_name and not by_path:
            return None
        for line in self._lines:
            if line.matches(path, directory):
                return not line.negated
        return None


@dataclass(frozen=True)
class IgnoreLayer:
    """An ignore file and where it is: in a folder of the workspace, or in one above it."""

    file: IgnoreFile
    below: int = 0
    """Characters of the folder's path within the workspace, with the slash."""
    above: str = ""
    """The path from the folder down to the workspace, with a slash at the end."""

    def verdict(self, path: str, name: str, directory: bool) -> bool | None:
        return self.file.verdict(self.above + path[self.below :], name, directory)


@dataclass(frozen=True)
class IgnoreScope:
    """The ignore files of git that count in one folder, the strongest first.

    The order is git's: `.gitignore` of the deepest folder first, then the repository's own
    `info/exclude`, then the user's global file.
    """

    layers: tuple[IgnoreLayer, ...] = ()

    def ignored(self, path: str, name: str, directory: bool) -> bool:
        """Tell whether the path itself is ignored; the caller does not enter an ignored folder."""
        for layer in self.layers:
            verdict = layer.verdict(path, name, directory)
            if verdict is not None:
                return verdict
        return False

    def inside(self, folder: str, text: str) -> "IgnoreScope":
        """Return the scope of a folder (empty, or with its slash) that has a `.gitignore` with this
        text."""
        file = IgnoreFile(text)
        return IgnoreScope((IgnoreLayer(file, below=len(folder)), *self.layers)) if file else self


class IgnoreTree:
    """The rules of one search or listing: each ignore file is read once, when its folder is first
    asked about.

    A rule of `.ignore` at any depth beats one of `.gitignore`, and that beats `.git/info/exclude`;
    within one kind the deepest file decides, and within a file the last line that matches. If the
    root is a folder of a repository, the rules of the folders above count too, unless they leave
    out the root itself.
    """

    def __init__(self, read: Callable[[str], bytes | None], above: Sequence[str] = ()) -> None:
        """`read` returns a file's bytes by its path below the root, None if it cannot be read.

        `above`: names of the folders from the repository's top (not named) down to the root; `read`
        is also asked for files there, by paths that begin with `..`.
        """
        self._read = read
        self._lead = "".join(f"{name}/" for name in above)
        """The root's path from the top, with a slash; empty if the rules above do not count."""
        self._files: dict[str, IgnoreFile] = {}
        self._scopes: dict[str, IgnoreScope] = {}
        if any(self._hides("/".join(above[:depth]), True) for depth in range(1, len(above) + 1)):
            self._lead = ""
            self._files.clear()
            self._scopes.clear()

    @property
    def from_above(self) -> bool:
        return bool(self._lead)

    def ignored(self, path: str, directory: bool) -> bool:
        return path not in ("", ".") and self._hides(self._lead + path, directory)

    def _hides(self, path: str, directory: bool) -> bool:
        """Tell whether the path, from the top, is ignored."""
        at = path.rfind("/") + 1
        folder = path[:at]
        if folder not in self._scopes:
            self._scopes[folder] = self._scope(folder)
        return self._scopes[folder].ignored(path, path[at:], directory)

    def _scope(self, folder: str) -> IgnoreScope:
        """Return the rules that count in a folder: its path from the top, with a slash; empty for
        the top."""
        folders = ["", *folders_of(folder)]
        places = [(each, kind) for kind in _KINDS for each in reversed(folders)]
        layers = (
            IgnoreLayer(self._file(each, name), len(each))
            for each, name in (*places, ("", _EXCLUDE))
        )
        return IgnoreScope(tuple(layer for layer in layers if layer.file))

    def _file(self, folder: str, name: str) -> IgnoreFile:
        path = folder + name
        if path not in self._files:
            up = self._lead.count("/") - folder.count("/")
            below = folder.startswith(self._lead)
            data = self._read(path[len(self._lead) :] if below else "../" * up + name) or b""
            self._files[path] = IgnoreFile(data.decode("utf-8-sig", "surrogateescape"))
        return self._files[path]


def folders_of(path: str) -> list[str]:
    """List the folders above the path, with their slash, the outermost first."""
    return [path[: at + 1] for at, char in enumerate(path) if char == "/"]


def _any_of(lines: Iterable[IgnoreLine]) -> re.Pattern[str] | None:
    """Return one expression for all lines: it is asked for every path, and most match none."""
    parts = [f"(?:{line.expression.pattern})" for line in lines]
    return re.compile("|".join(parts), re.DOTALL) if parts else None
