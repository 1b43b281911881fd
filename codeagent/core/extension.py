"""Rooms: what one feature adds to the kernel, named in a manifest and imported when it is used."""

from collections.abc import Mapping
from dataclasses import field
from importlib import import_module
from typing import Any, Literal

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


CommandGroup = Literal["conversation", "model and money", "screen", "about"]
"""The headings of /help."""


@dataclass(frozen=True, kw_only=True)
class SlashCommand:
    """`/NAME` on the screen."""

    name: str
    about: str
    """One line for the user, no full stop."""
    does: Reference
    """Of an async function that takes the chat screen (`codeagent.tui.pages.chat`) and the argument,
    and returns once the pages it opened are closed."""
    arguments: str = ""
    """What may follow the command, such as `[text]`."""
    aliases: tuple[str, ...] = ()
    group: CommandGroup = "about"
    after: str = ""
    """The command that it follows in /help; if empty, it is the last of its group."""
    while_running: bool = True
    """It can be used while the agent is working."""
    needs_conversation: bool = False
    """It waits until there is a conversation."""


@dataclass(frozen=True, kw_only=True)
class PageKey:
    """A key of a room's page."""

    name: str
    """The action of the page's class; with its scope in front, also the name in `keys.yaml`."""
    about: str
    """One line for the user, no full stop."""
    keys: tuple[str, ...]
    """The default keys, as Textual spells them."""
    approves: bool = False
    """It makes something run, so Enter or Space alone never triggers it."""


@dataclass(frozen=True, kw_only=True)
class PageKeys:
    """The keys of a room's page: one scope of the key sheet and of `keys.yaml`."""

    scope: str
    heading: str
    """What the key sheet calls the page."""
    keys: tuple[PageKey, ...]
    after: str = ""
    """The scope that it follows in the key sheet; if empty, it is the last."""


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
    subcommands: tuple[Subcommand, ...] = ()
    commands: tuple[SlashCommand, ...] = ()
    offers: Reference = ""
    """Of an async function from the session client (`codeagent.tui.session_client`) to further rows
    of the table of slash commands, which depend on the workspace. Raises CodeagentError."""
    keys: tuple[PageKeys, ...] = ()
    cards: Reference = ""
    """Of a function that makes what shows the events of other agents in a conversation; see
    `codeagent.tui.reduce.AgentCards`."""
