"""The extensions that are there: those of this package, and those that installed packages bring."""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, fields
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent import core
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.extension import (
    Extension,
    FileKind,
    OfferedSet,
    OnScreen,
    Reference,
    RunOption,
    SlashCommand,
    Subcommand,
)
from codeagent.core.sanitize import one_line
from codeagent.disk.opens import may_exist

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PACKAGES = "codeagent.extensions"
"""The group of entry points with which an installed package adds an extension: its manifest."""
BUILT_IN = (
    "replay",
    "text_calls",
    "file_tools",
    "triggers",
    "web",
    "provider_tools",
    "user_tools",
    "agents",
    "mcp",
    "mcp_serve",
    "openapi",
    "images",
    "toolsets",
    "recipes",
    "board",
    "worktrees",
    "notify",
    "batch",
    "usage",
    "review",
    "editor",
    "attachments",
)
"""In the order in which they are asked. Each is the module `codeagent.extensions.NAME`, which has
its manifest, `EXTENSION`."""


@dataclass(frozen=True)
class Extensions:
    """The extensions of one start, in the order in which they are asked."""

    on: tuple[Extension, ...]
    off: tuple[Extension, ...] = ()
    """Those that the user switched off."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """Why one of a package cannot be used, by the name of its entry point."""

    def without(self, names: Collection[str]) -> "Extensions":
        """Switch extensions off. Raises ConfigError for a name that no extension has."""
        every = (*self.on, *self.off)
        known = [*(extension.name for extension in every), *self.broken]
        if unknown := [name for name in names if name not in known]:
            raise ConfigError(
                f"unknown extension {one_line(unknown[0], 60)!r}; there are {', '.join(sorted(known))}"
            )
        off = {*names, *(extension.name for extension in self.off)}
        return Extensions(
            tuple(extension for extension in every if extension.name not in off),
            tuple(extension for extension in every if extension.name in off),
            {name: why for name, why in self.broken.items() if name not in off},
        )

    @property
    def sections(self) -> Mapping[str, Reference]:
        """The sections of the settings that extensions have, and the model of each."""
        return {name: kind for extension in self.on for name, kind in extension.settings.items()}

    @property
    def sections_off(self) -> Mapping[str, str]:
        """The sections that nobody reads, and the extension that is switched off."""
        return {name: extension.name for extension in self.off for name in extension.settings}

    @property
    def sets(self) -> Mapping[str, OfferedSet]:
        """Every set of built-in tools, whether it is offered or not, by name."""
        return {one.name: one for extension in self.on for one in extension.sets}

    @property
    def sets_off(self) -> Mapping[str, str]:
        """The sets that are not there, by name, and the extension of each, which is switched off."""
        return {one.name: extension.name for extension in self.off for one in extension.sets}


@cache
def all_extensions() -> Extensions:
    """Read the manifests; nothing else of an extension is imported. Blocks on small files."""
    found = list(_built_in())
    broken: dict[str, str] = {}
    for point in _entry_points():
        try:
            extension = _loaded(point)
            _refuse_taken(extension, (*found, _kernel()))
        except ConfigError as error:
            broken[point.name] = str(error)
        else:
            found.append(extension)
    return Extensions(tuple(found), broken=broken)


@cache
def built_in_sets() -> frozenset[str]:
    """Return the names of the sets of tools that ship: no server, document, package or group has
    one, whether the set is offered or not. Blocks on small files."""
    return frozenset(one.name for extension in _built_in() for one in extension.sets)


def _built_in() -> Iterator[Extension]:
    if find_spec("codeagent.extensions") is None:
        return
    for name in BUILT_IN:
        yield import_module(f"codeagent.extensions.{name}").EXTENSION


def _entry_points() -> "Iterable[EntryPoint]":
    if not may_bring(PACKAGES, sys.path):
        return ()
    from importlib.metadata import entry_points  # slow, and few packages bring anything

    return entry_points(group=PACKAGES)


def _loaded(point: "EntryPoint") -> Extension:
    """Raises ConfigError."""
    try:
        extension = point.load()
    except Exception as error:  # whatever the package does when it is imported
        raise ConfigError(one_line(f"{type(error).__name__}: {error}", 200)) from error
    if not isinstance(extension, Extension):
        raise ConfigError(f"{point.value} is not an Extension")
    return extension


def _refuse_taken(extension: Extension, others: Iterable[Extension]) -> None:
    """Raise ConfigError if another one has a name that this one brings."""
    for other in others:
        taken = _brings(other)
        for kind, own in _brings(extension).items():
            if both := [name for name in own if name in taken[kind]]:
                raise ConfigError(
                    f"it brings {kind} {both[0]}, which {other.name} has; that of {other.name} is used"
                )


@cache
def _kernel() -> Extension:
    """Return the manifest that the kernel would have: no package can bring what is in it. Blocks on
    small files."""
    from codeagent.config.settings import FileSettings  # only for a package, as with the rest

    commands = _names("commands.txt")
    return Extension(
        name="codeagent",
        about="",
        settings=dict.fromkeys((each.name for each in fields(FileSettings)), ""),
        subcommands=tuple(Subcommand(name=name, about="", module="") for name in commands),
        run_options=tuple(
            RunOption(name=name.partition(" --")[2], metavar="", about="")
            for name in commands
            if name.startswith("run --")
        ),
        screen=OnScreen(
            commands=tuple(
                SlashCommand(name=name, about="", does="") for name in _names("slash_commands.txt")
            )
        ),
    )


def _names(file: str) -> list[str]:
    """Return the lines of a list that `make docs` writes."""
    return (Path(core.__file__).parent / "names" / file).read_text(encoding="ascii").splitlines()


def _brings(extension: Extension) -> dict[str, list[str]]:
    """Return the names that no other extension can have, by their kind."""
    return {
        "the name": [extension.name],
        "the settings": [*extension.settings],
        "the toolset": [each.name for each in extension.sets],
        "the command": [each.words for each in extension.subcommands],
        "the slash command": [
            name for each in extension.screen.commands for name in (each.name, *each.aliases)
        ],
        "the option": [each.name for each in extension.run_options],
        "the act": [*extension.in_conversations.acts],
        "the part": ["at_provider"] if extension.at_provider else [],
    }


def actions_of(command: str, own: Collection[str]) -> Iterator[tuple[Extension, Subcommand]]:
    """Yield the actions that extensions add to a command of the kernel, and the extension of each.

    `own`: the command's own actions; no extension can replace one.
    """
    for extension in all_extensions().on:
        for each in extension.subcommands:
            if each.of == command and each.name not in own:
                yield extension, each


def file_kind(name: str) -> tuple[Extension, FileKind] | None:
    """Return the extension that loads a file, on or off, and the file's kind, by its name; None if
    there is none."""
    for extension in all_extensions().on:
        for kind in extension.in_folders.kinds:
            if name.endswith(kind.suffixes):
                return extension, kind
    return None


def may_bring(group: str, path: Iterable[str]) -> bool:
    """Whether a package in a folder of `path` may have an entry point of this group. Blocks on
    small files.

    This is about ten times faster than asking `importlib`. A place that is not a folder may have
    anything.
    """
    head = f"[{group}]".encode()
    for place in filter(may_exist, map(Path, path)):
        try:
            found = list(place.iterdir())
        except PermissionError:  # importlib, too, finds nothing there
            continue
        except OSError:
            return True
        packages = (each for each in found if each.suffix in (".dist-info", ".egg-info", ".egg"))
        if any(_declares(package, head) for package in packages):
            return True
    return False


def _declares(package: Path, head: bytes) -> bool:
    try:
        declared = (package / "entry_points.txt").read_bytes()
    except OSError:
        return package.suffix == ".egg"  # it may be an archive
    return head in declared
