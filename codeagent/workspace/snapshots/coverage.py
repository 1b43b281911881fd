"""Which files a snapshot says nothing about."""

from collections.abc import Callable

from codeagent.core.paths import watched, watched_folder
from codeagent.workspace.snapshots.about import About
from codeagent.workspace.snapshots.ignoring import Scope


class Coverage:
    """Which paths a snapshot says nothing about: left out, or ignored by its own rules."""

    def __init__(self, about: About, read: Callable[[str], str]) -> None:
        """`read` gives a `.gitignore` of the snapshot by its path; empty where there is none."""
        self._about = about
        self._read = read
        self._scopes: dict[str, Scope] = {}
        self._ignored: dict[str, bool] = {}
        self._repositories = dict(about.repositories)
        self._left_out = frozenset(path for path, _ in about.left_out)

    def hides(self, path: str) -> bool:
        """A file may have been there without the snapshot holding it."""
        return self.leaves_out(path) or self.ignored(path)

    def leaves_out(self, path: str) -> bool:
        if not self._left_out:
            return False
        return not self._left_out.isdisjoint(("", path, *_folders_of(path)))

    def ignored(self, path: str) -> bool:
        watches, above = self._about.watches, False
        for folder in _folders_of(path):
            if above or self._itself(folder[:-1], directory=True):
                above = True
                if not (watches and watched_folder(folder[:-1])):
                    return True
        return (above or self._itself(path, directory=False)) and not (watches and watched(path))

    def _itself(self, path: str, *, directory: bool) -> bool:
        folder = path[: path.rfind("/") + 1]
        if not directory:
            return self._scope(folder).ignored(path, path[len(folder) :], directory)
        if path not in self._ignored:
            self._ignored[path] = self._scope(folder).ignored(path, path[len(folder) :], directory)
        return self._ignored[path]

    def _scope(self, folder: str) -> Scope:
        if folder not in self._scopes:
            self._scopes[folder] = self._outside(folder).inside(folder, self._read(f"{folder}.gitignore"))
        return self._scopes[folder]

    def _outside(self, folder: str) -> Scope:
        if not folder:
            return self._about.base_scope()
        if folder in self._repositories:
            return self._about.repository_scope(folder, self._repositories[folder])
        return self._scope(folder[: folder.rfind("/", 0, -1) + 1])


def _folders_of(path: str) -> list[str]:
    """Every folder above the path, with its slash, the outermost first."""
    return [path[: at + 1] for at, char in enumerate(path) if char == "/"]
