"""Which paths the repository's ignore files leave out, as git and ripgrep read them."""

import posixpath
from collections.abc import Callable

from codeagent.core.wildmatch import IgnoreLine, ignore_line

_KINDS = (".rgignore", ".ignore", ".gitignore")
_EXCLUDE = ".git/info/exclude"


class IgnoreTree:
    """The rules of one walk: each ignore file is read once, when its directory is first asked about.

    A rule of `.ignore` at any depth beats one of `.gitignore`, and that beats `.git/info/exclude`;
    within one kind the deepest file decides, and within a file the last line that matches.
    """

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        """`read` gives a file's bytes by its path below the root, None where it cannot be read."""
        self._read = read
        self._rules: dict[str, tuple[IgnoreLine, ...]] = {}

    def ignored(self, path: str, directory: bool) -> bool:
        folders = _folders_of(path)
        for kind in _KINDS:
            for folder in folders:
                verdict = self._verdict(posixpath.join(folder, kind), folder, path, directory)
                if verdict is not None:
                    return verdict
        return self._verdict(_EXCLUDE, "", path, directory) or False

    def _verdict(self, file: str, folder: str, path: str, directory: bool) -> bool | None:
        within = path[len(folder) :].removeprefix("/")
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


def _folders_of(path: str) -> list[str]:
    """Every directory that holds the path, the deepest first; the root is the empty string."""
    folder = posixpath.dirname(path)
    folders = [folder]
    while folder:
        folder = posixpath.dirname(folder)
        folders.append(folder)
    return folders
