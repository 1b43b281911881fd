"""Which paths the repository's ignore files leave out, as git and ripgrep read them."""

import posixpath
from collections.abc import Callable, Sequence

from codeagent.core.wildmatch import IgnoreLine, ignore_line

_KINDS = (".rgignore", ".ignore", ".gitignore")
_EXCLUDE = ".git/info/exclude"


class IgnoreTree:
    """The rules of one walk: each ignore file is read once, when its directory is first asked about.

    A rule of `.ignore` at any depth beats one of `.gitignore`, and that beats `.git/info/exclude`;
    within one kind the deepest file decides, and within a file the last line that matches. Where the root is a folder
    of a repository, the rules of the folders above count, too, unless they leave out the root itself.
    """

    def __init__(self, read: Callable[[str], bytes | None], above: Sequence[str] = ()) -> None:
        """`read` gives a file's bytes by its path below the root, None where it cannot be read.

        `above`: names of the folders from the repository's top (not named) down to the root; `read` is asked for
        files there, too, by paths that begin with `..`.
        """
        self._read = read
        self._rules: dict[str, tuple[IgnoreLine, ...]] = {}
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
        """`within`: the path from the file's folder; nothing is said of what is not below that."""
        if within in ("", ".") or within.startswith("../") or within == "..":
            return None
        for line in self._lines(file):
            if line.matches(within, directory):
                return not line.negated
        return None

    def _lines(self, file: str) -> tuple[IgnoreLine, ...]:
        """The file's patterns, the last first."""
        if file not in self._rules:
            text = (self._read(file) or b"").decode("utf-8-sig", "surrogateescape")
            lines = [ignore_line(line) for line in text.split("\n")]
            self._rules[file] = tuple(line for line in reversed(lines) if line is not None)
        return self._rules[file]


def _folded(within: str, path: str) -> str:
    """The path from a folder above, where the root is `within` that."""
    return posixpath.normpath(posixpath.join(within, path)).removeprefix("./")


def _folders_of(path: str) -> list[str]:
    """Every directory that holds the path, the deepest first; the root is the empty string."""
    folder = posixpath.dirname(path)
    folders = [folder]
    while folder:
        folder = posixpath.dirname(folder)
        folders.append(folder)
    return folders
