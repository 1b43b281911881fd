"""Rooms: what one feature adds to the kernel, named in a manifest and imported when it is used."""

from collections.abc import Mapping
from dataclasses import field
from importlib import import_module
from typing import Any

from codeagent.core.dataclass import dataclass

Reference = str
"""`module:name` of a function or class; what it names is imported by `resolved`."""


def resolved(reference: Reference) -> Any:
    """Import what a reference names. Raises ImportError or AttributeError."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True, kw_only=True)
class OfferedSet:
    """A set of tools that `[toolsets] offer` lets the model turn on, and `use` turns on from the
    start."""

    name: str
    about: str
    """One line for the model."""
    tools: tuple[str, ...]
    """The names of its tools, which are known before anything is imported."""
    make: Reference
    """Of a function from the conversation's `ToolDependencies` to the tools, in that order."""


@dataclass(frozen=True, kw_only=True)
class Subcommand:
    """`codeagent NAME`."""

    name: str
    about: str
    """What it does, in the list of commands."""
    module: str
    """Has `add_arguments` and `main`; see `codeagent.cli.Subcommand`."""


@dataclass(frozen=True, kw_only=True)
class FileLoader:
    """A kind of tool file."""

    suffixes: tuple[str, ...]
    make: Reference
    """Of a function from `LoaderNeeds` to a ToolLoader (`codeagent.tools.files.loading`), called at
    the first such file."""
    look: Reference = ""
    """Of a function from a ToolFile to the names of its tools and their problems, which runs
    nothing of it; empty if loading the file runs nothing either."""


@dataclass(frozen=True, kw_only=True)
class Extension:
    """The manifest of a room. Every part is optional, and costs nothing until it is used.

    It is `EXTENSION` in `codeagent/extensions/NAME/__init__.py`, or what an entry point of the group
    `codeagent.extensions` names.
    """

    name: str
    about: str
    """One line for the user."""
    settings: Mapping[str, Reference] = field(default_factory=dict)
    """The sections of the settings files that are the room's own, and the model of each."""
    sets: tuple[OfferedSet, ...] = ()
    sources: Reference = ""
    """Of a function from the conversation's `ToolDependencies` to its ToolSources; it looks at small
    files only, and starts nothing."""
    loaders: tuple[FileLoader, ...] = ()
    """Of the files in the folders for tools."""
    packaged_tools: Reference = ""
    """Of a function from an OutputStore and the entry points of the group `codeagent.tools` to what
    these load."""
    subcommands: tuple[Subcommand, ...] = ()
