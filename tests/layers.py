"""Layers as the kernel writes them, made by hand from what is there before and after."""

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from codeagent.changes.layer_landing import LandingStep, LayerLanding, plan
from codeagent.changes.layers import changes_of, effects_of, replace_content
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.effects import Effect, LayerEntry
from codeagent.disk.opens import closing_fd, open_folder

Tree = Mapping[str, str | None]
"""The text of each file by its path, None for a folder; a link is `-> target`."""


def make_tree(root: Path, wanted: Tree) -> None:
    for path, text in sorted(wanted.items()):
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            place.mkdir(exist_ok=True)
        elif text.startswith("-> "):
            place.symlink_to(text[3:])
        else:
            place.write_text(text)


def tree_of(root: Path) -> dict[str, str | None]:
    """Return what is below a folder; a folder is listed only if it is empty."""
    found: dict[str, str | None] = {}
    for place in sorted(root.rglob("*")):
        path = str(place.relative_to(root))
        if place.is_symlink():
            found[path] = f"-> {place.readlink()}"
        elif place.is_dir():
            if not any(place.iterdir()):
                found[path] = None
        elif place.is_file():
            found[path] = place.read_text()
        else:
            found[path] = "other"
    return found


@dataclass(frozen=True)
class Layered:
    """A workspace, and the layer of a view of it."""

    folder: Path
    root: Path
    apart: Path | None = None
    """Where the layer is instead, if it is on another file system."""
    replaced: dict[str, LayerEntry] = field(default_factory=dict)

    @property
    def layer(self) -> Path:
        return (self.apart or self.folder) / "layer"

    @property
    def upper(self) -> Path:
        return self.layer / "upper"

    @classmethod
    def make(cls, folder: Path, before: Tree, apart: Path | None = None) -> "Layered":
        root = folder / "workspace"
        root.mkdir(parents=True)
        make_tree(root, before)
        return cls.over(root, folder, apart)

    @classmethod
    def over(cls, root: Path, folder: Path, apart: Path | None = None) -> "Layered":
        """An empty layer over a workspace that is there."""
        made = cls(folder, root, apart)
        made.upper.mkdir(parents=True)
        return made

    def becomes(self, after: Tree, *, opaque: frozenset[str] = frozenset()) -> None:
        """Let the layer make `after` of the workspace; what is left of a folder in `opaque` was
        removed and made again."""
        make_tree(self.upper, self._written(after, opaque))
        kept = {folder for path in after for folder in (path, *_above(path))}
        files = {path for path, text in after.items() if text is not None}
        for place in sorted(self.root.rglob("*")):
            path = str(place.relative_to(self.root))
            above = {*_above(path)}
            if path not in kept and above <= kept and above.isdisjoint(opaque | files):
                self.whiteout(path)
        for path in opaque & kept:
            if (self.upper / path).is_dir() and not (self.upper / path).is_symlink():
                os.setxattr(self.upper / path, "user.overlay.opaque", b"y")

    def _written(self, after: Tree, opaque: frozenset[str]) -> dict[str, str | None]:
        before = tree_of(self.root)
        again = {path for path in after if opaque & {path, *_above(path)}}
        return {
            path: text
            for path, text in after.items()
            if path in again or before.get(path, "absent") != text
        }

    def whiteout(self, path: str) -> None:
        place = self.upper / path
        place.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(place, stat.S_IFCHR, os.makedev(0, 0))

    def effects(self) -> tuple[Effect, ...]:
        with self._opened() as (upper, root):
            return tuple(effects_of(upper, root))

    @contextmanager
    def landing(self) -> Iterator[LayerLanding]:
        with self._opened() as (_, root):
            yield LayerLanding(self.layer, root)

    def land(
        self, left: Collection[str] = frozenset(), effects: Sequence[Effect] | None = None
    ) -> None:
        """Land the effects, all unless given."""
        steps = self.planned(self.effects() if effects is None else effects, left)
        with self.landing() as landing:
            landing.land(steps)

    def planned(
        self, effects: Sequence[Effect], left: Collection[str] = frozenset()
    ) -> tuple[LandingStep, ...]:
        given = self.replaced
        return plan(
            [replace(each, after=given.get(each.path, each.after)) for each in effects], left
        )

    def changes(self, effects: Sequence[Effect]) -> tuple[Change[Node], ...]:
        with self._opened() as (upper, root):
            return changes_of(upper, root, effects, files=10, size=1000)

    def replace(self, change: Change[Node]) -> None:
        assert change.after is not None
        with self._opened() as (upper, _):
            self.replaced[change.path] = replace_content(upper, change.path, change.after.data)

    def finish(self) -> tuple[str, ...] | None:
        with self.landing() as landing:
            return landing.finish()

    @contextmanager
    def _opened(self) -> Iterator[tuple[int, int]]:
        with ExitStack() as stack:
            upper, root = (
                stack.enter_context(closing_fd(open_folder(each)))
                for each in (self.upper, self.root)
            )
            yield upper, root


def _above(path: str) -> list[str]:
    """Return the folders that a path is in, the outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]
