"""The rooms that are there: those of this package, and those that installed packages bring."""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.extension import Extension, Reference
from codeagent.core.sanitize import one_line
from codeagent.disk.opens import may_exist

PACKAGES = "codeagent.extensions"
"""The group of entry points with which an installed package adds a room: its manifest."""
BUILT_IN = (
    "replay",
    "text_calls",
    "file_tools",
    "triggers",
    "web",
    "provider_tools",
    "agents",
    "mcp",
    "openapi",
    "images",
    "toolsets",
    "user_tools",
    "recipes",
)
"""In the order in which they are asked. Each is the module `codeagent.extensions.NAME`, which has
its manifest, `EXTENSION`."""


@dataclass(frozen=True)
class Rooms:
    """The rooms of one start, in the order in which they are asked."""

    on: tuple[Extension, ...]
    off: tuple[Extension, ...] = ()
    """Those that the user switched off."""

    def without(self, names: Collection[str]) -> "Rooms":
        """Switch rooms off. Raises ConfigError for a name that no room has."""
        every = (*self.on, *self.off)
        known = [room.name for room in every]
        if unknown := [name for name in names if name not in known]:
            raise ConfigError(
                f"there is no extension {one_line(unknown[0], 60)!r}; there are {', '.join(known)}"
            )
        off = {*names, *(room.name for room in self.off)}
        return Rooms(
            tuple(room for room in every if room.name not in off),
            tuple(room for room in every if room.name in off),
        )

    @property
    def sections(self) -> Mapping[str, Reference]:
        """The sections of the settings that rooms have, and the model of each."""
        return {name: kind for room in self.on for name, kind in room.settings.items()}

    @property
    def sections_off(self) -> Mapping[str, str]:
        """The sections that nobody reads, and the room that is switched off."""
        return {name: room.name for room in self.off for name in room.settings}


@cache
def all_rooms() -> Rooms:
    """Read the manifests; nothing else of a room is imported. Blocks on small files.

    Raises ConfigError if a package brings something else, or a name that is taken.
    """
    rooms = list(_built_in())
    for room in _of_packages():
        _refuse_taken(room, rooms)
        rooms.append(room)
    return Rooms(tuple(rooms))


def _built_in() -> Iterator[Extension]:
    if find_spec("codeagent.extensions") is None:
        return
    for name in BUILT_IN:
        yield import_module(f"codeagent.extensions.{name}").EXTENSION


def _of_packages() -> Iterator[Extension]:
    if not may_bring((PACKAGES,), sys.path):
        return
    from importlib.metadata import entry_points  # slow, and few packages bring anything

    for point in entry_points(group=PACKAGES):
        try:
            room = point.load()
        except Exception as error:  # whatever the package does when it is imported
            said = one_line(f"{type(error).__name__}: {error}", 200)
            raise ConfigError(f"the extension {point.name} cannot be loaded: {said}") from error
        if not isinstance(room, Extension):
            raise ConfigError(f"the extension {point.name} is not an Extension: {point.value}")
        yield room


def _refuse_taken(room: Extension, others: Iterable[Extension]) -> None:
    for other in others:
        for kind, own, taken in (
            ("the name", [room.name], [other.name]),
            ("the settings", room.settings, other.settings),
            ("the toolset", names_of(room.sets), names_of(other.sets)),
            ("the command", names_of(room.subcommands), names_of(other.subcommands)),
            ("the part", *(["at_provider"] if one.at_provider else [] for one in (room, other))),
        ):
            if both := [name for name in own if name in taken]:
                raise ConfigError(
                    f"the extension {room.name} brings {kind} {both[0]}, which {other.name} has"
                )


def names_of(parts: Iterable[object]) -> list[str]:
    """Return the names of parts that have one."""
    return [str(getattr(part, "name", "")) for part in parts]


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
