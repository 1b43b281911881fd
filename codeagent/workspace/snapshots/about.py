"""What a snapshot says about itself: what it leaves out, and by which rules."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from codeagent.workspace.snapshots.ignoring import IgnoreFile, Layer, Scope
from codeagent.workspace.snapshots.surroundings import Outer

_MOST_PHRASES = 50
_MOST_RECORDED = 5000


@dataclass(frozen=True)
class About:
    left_out: tuple[tuple[str, str], ...] = ()
    """Path (a folder's ends with a slash) and why, in order."""
    outer: tuple[Outer, ...] = ()
    """Rules from outside the workspace, the strongest first."""
    everywhere: str = ""
    """The person's own for all repositories; among `outer`, too."""
    repositories: tuple[tuple[str, str], ...] = ()
    """Folders (with a slash) that are repositories of their own, and their own exclude file."""

    def encode(self) -> bytes:
        record = {
            "left_out": self.left_out,
            "outer": [(outer.above, outer.text) for outer in self.outer],
            "everywhere": self.everywhere,
            "repositories": self.repositories,
        }
        return json.dumps(record, separators=(",", ":")).encode()

    def phrases(self) -> tuple[str, ...]:
        """For people, a bounded number."""
        shown = [f"{_printable(path)}: {why}" if path else why for path, why in self.left_out[:_MOST_PHRASES]]
        rest = len(self.left_out) - len(shown)
        return (*shown, f"and at least {rest:,} more") if rest else tuple(shown)

    def base_scope(self) -> Scope:
        return Scope(tuple(Layer(IgnoreFile(outer.text), above=outer.above) for outer in self.outer))

    def repository_scope(self, folder: str, exclude: str) -> Scope:
        """A repository of its own (its folder with a slash) has its own rules, and the person's for all of them."""
        texts = (exclude, self.everywhere)
        return Scope(tuple(Layer(IgnoreFile(text), below=len(folder)) for text in texts if text))


def bounded(left_out: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """In order; from some number on only that there are more: then anything may have been left out."""
    rows = sorted(left_out)
    if len(rows) <= _MOST_RECORDED:
        return tuple(rows)
    return (("", f"{len(rows):,} files and folders are not covered"), *rows[:_MOST_RECORDED])


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
        above = any(self._itself(folder[:-1], directory=True) for folder in _folders_of(path))
        return above or self._itself(path, directory=False)

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


def decode(data: bytes) -> About:
    record = json.loads(data) if data else {}
    return About(
        tuple((path, why) for path, why in record.get("left_out", ())),
        tuple(Outer(above, text) for above, text in record.get("outer", ())),
        record.get("everywhere", ""),
        tuple((folder, exclude) for folder, exclude in record.get("repositories", ())),
    )


def _printable(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
