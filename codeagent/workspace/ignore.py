"""Which paths a repository's ignore files leave out, as git and ripgrep read them."""

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from codeagent.core.wildmatch import IgnoreLine, ignore_line

_KINDS = (".rgignore", ".ignore", ".gitignore")
_EXCLUDE = ".git/info/exclude"


class IgnoreTree:
    """The rules of one search or listing: each ignore file is read once, when its directory is first asked about.

    A rule of `.ignore` at any depth beats one of `.gitignore`, and that beats `.git/info/exclude`;
    within one kind the deepest file decides, and within a file the last line that matches. If the root is a folder
    of a repository, the rules of the folders above count too, unless they leave out the root itself.
    """

    def __init__(self, read: Callable[[str], bytes | None], above: Sequence[str] = ()) -> None:
        """`read` returns a file's bytes by its path below the root, None if it cannot be read.

        `above`: names of the folders from the repository's top (not named) down to the root; `read` is also asked
        for files there, by paths that begin with `..`.
        """
        self._read = read
        self._files: dict[str, IgnoreFile] = {}
        names = tuple(above)
        self._above = tuple(
            ("/".join([".."] * depth), "/".join(names[len(names) - depth :])) for depth in range(1, len(names) + 1)
        )
        """Each folder above, the nearest first, and the root's path from there."""
        on_the_way = ["/".join([".."] * up) or "." for up in range(len(names))]
        if any(self._decided(folder, True, []) for folder in on_the_way):
            self._above = ()

    @property
    def from_above(self) -> bool:
        return bool(self._above)

    def ignored(self, path: str, directory: bool) -> bool:
        return self._decided(path, directory, _folders_of(path))

    def _decided(self, path: str, directory: bool, folders: list[str]) -> bool:
        for kind in _KINDS:
            for folder in folders:
                verdict = self._verdict(posixpath.join(folder, kind), path[len(folder) :].removeprefix("/"), directory)
                if verdict is not None:
                    return verdict
            for folder, within in self._above:
                verdict = self._verdict(f"{folder}/{kind}", _folded(within, path), directory)
                if verdict is not None:
                    return verdict
        top, within = self._above[-1] if self._above else ("", "")
        return self._verdict(posixpath.join(top, _EXCLUDE), _folded(within, path), directory) or False

    def _verdict(self, file: str, within: str, directory: bool) -> bool | None:
        """Ask one ignore file; `within` is the path from its folder. None for a path that is not below that."""
        if within in ("", ".") or within.startswith("../") or within == "..":
            return None
        if file not in self._files:
            self._files[file] = IgnoreFile((self._read(file) or b"").decode("utf-8-sig", "surrogateescape"))
        return self._files[file].verdict(within, posixpath.basename(within), directory)


def _folded(within: str, path: str) -> str:
    """Return the path as seen from a folder above, in which the root is at `within`."""
    return posixpath.normpath(posixpath.join(within, path)).removeprefix("./")


def _folders_of(path: str) -> list[str]:
    """List the directories that hold the path, the deepest first; the root is the empty string."""
    folder = posixpath.dirname(path)
    folders = [folder]
    while folder:
        folder = posixpath.dirname(folder)
        folders.append(folder)
    return folders


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
        """Return whether the path is ignored, None if no line matches; `path` is relative to the file's folder."""
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

    The order is git's: `.gitignore` of the deepest folder first, then the repository's own `info/exclude`, then the
    user's global file.
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
        """Return the scope of a folder (empty, or with its slash) that has a `.gitignore` with this text."""
        file = IgnoreFile(text)
        return IgnoreScope((IgnoreLayer(file, below=len(folder)), *self.layers)) if file else self


def _any_of(lines: Iterable[IgnoreLine]) -> re.Pattern[str] | None:
    """Return one expression for all lines: it is asked for every path, and most match none."""
    parts = [f"(?:{line.expression.pattern})" for line in lines]
    return re.compile("|".join(parts), re.DOTALL) if parts else None
