"""What a snapshot says about itself: what it leaves out, and by which rules."""

import json
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
    watches: bool = True
    """What `paths.watched` says runs outside the sandbox is covered where ignored, too."""

    def encode(self) -> bytes:
        record = {
            "left_out": self.left_out,
            "outer": [(outer.above, outer.text) for outer in self.outer],
            "everywhere": self.everywhere,
            "repositories": self.repositories,
            "watches": self.watches,
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


def decode(data: bytes) -> About:
    record = json.loads(data) if data else {}
    return About(
        tuple((path, why) for path, why in record.get("left_out", ())),
        tuple(Outer(above, text) for above, text in record.get("outer", ())),
        record.get("everywhere", ""),
        tuple((folder, exclude) for folder, exclude in record.get("repositories", ())),
        record.get("watches", False),
    )


def _printable(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
