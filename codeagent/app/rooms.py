"""The rooms that are there: those of this package, and those that installed packages bring."""

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.extension import Extension, FileLoader, Reference, resolved
from codeagent.core.ports import OutputStore
from codeagent.core.sanitize import one_line
from codeagent.disk.opens import may_exist
from codeagent.tools.files.loading import FirstFileLoader, Loaded, LoaderNeeds, ToolLoader

PACKAGES = "codeagent.extensions"
"""The group of entry points with which an installed package adds a room: its manifest."""
BUILT_IN = (
    "replay",
    "text_calls",
    "openapi",
    "file_tools",
    "web",
    "images",
    "provider_tools",
    "mcp",
    "toolsets",
    "user_tools",
    "recipes",
    "triggers",
    "agents",
)
"""Each is the module `codeagent.extensions.NAME`, which has its manifest, `EXTENSION`."""


@dataclass(frozen=True)
class Rooms:
    """The rooms of one start, in the order in which they are asked."""

    on: tuple[Extension, ...]
    off: tuple[Extension, ...] = ()
    """Those that the user switched off."""

    def file_kind(self, name: str) -> FileLoader | None:
        """Return the kind of a tool file, by its name; None if no room loads it."""
        kinds = (kind for room in self.on for kind in room.loaders)
        return next((kind for kind in kinds if name.endswith(kind.suffixes)), None)

    def file_loaders(self, needs: LoaderNeeds) -> tuple[ToolLoader, ...]:
        """Make the loaders of tool files; the modules of each are imported at its first file."""
        return tuple(
            FirstFileLoader(kind.suffixes, partial(_made, kind.make, needs))
            for room in self.on
            for kind in room.loaders
        )

    def packaged_tools(self, outputs: OutputStore, points: Sequence[Any]) -> Loaded:
        """Load the tools of installed packages, from their entry points."""
        loads = (room.packaged_tools for room in self.on if room.packaged_tools)
        found = [resolved(load)(outputs, points) for load in loads]
        tools = tuple(tool for loaded in found for tool in loaded.tools)
        return Loaded(tools, tuple(problem for loaded in found for problem in loaded.problems))

    def without(self, names: Collection[str]) -> "Rooms":
        """Switch rooms off. Raises ConfigError for a name that no room has."""
        known = [room.name for room in (*self.on, *self.off)]
        if unknown := [name for name in names if name not in known]:
            raise ConfigError(
                f"extensions.off: there is no extension {one_line(unknown[0], 60)}; there are "
                f"{', '.join(known)}"
            )
        off = {*names, *(room.name for room in self.off)}
        every = (*self.on, *self.off)
        return Rooms(
            tuple(room for room in every if room.name not in off),
            tuple(room for room in every if room.name in off),
        )


def built_in_rooms() -> Rooms:
    """Read the manifests of this package; nothing else of a room is imported."""
    found = (import_module(f"codeagent.extensions.{name}").EXTENSION for name in BUILT_IN)
    return Rooms(tuple(found))


def _made(make: Reference, needs: LoaderNeeds) -> ToolLoader:
    loader: ToolLoader = resolved(make)(needs)
    return loader


def rooms_of_packages(path: Sequence[str] = sys.path) -> Iterator[Extension]:
    """Yield the rooms that installed packages bring. Blocks on small files. Raises ConfigError."""
    if not may_bring((PACKAGES,), path):
        return
    from importlib.metadata import entry_points  # slow, and few packages bring anything

    for point in entry_points(group=PACKAGES):
        room = point.load()
        if not isinstance(room, Extension):
            raise ConfigError(f"the package's extension {point.name} is not an Extension")
        yield room


def may_bring(groups: Iterable[str], path: Iterable[str]) -> bool:
    """Whether a package in a folder of `path` may have an entry point of these groups. Blocks on
    small files.

    This is about ten times faster than asking `importlib`. A place that is not a folder may have
    anything.
    """
    heads = [f"[{group}]".encode() for group in groups]
    for place in filter(may_exist, map(Path, path)):
        try:
            found = list(place.iterdir())
        except PermissionError:  # importlib, too, finds nothing there
            continue
        except OSError:
            return True
        packages = (each for each in found if each.suffix in (".dist-info", ".egg-info", ".egg"))
        if any(_declares(package, heads) for package in packages):
            return True
    return False


def _declares(package: Path, heads: Sequence[bytes]) -> bool:
    try:
        declared = (package / "entry_points.txt").read_bytes()
    except OSError:
        return package.suffix == ".egg"  # it may be an archive
    return any(head in declared for head in heads)
