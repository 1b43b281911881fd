"""Groups: agents that begin side by side and write to each other until none of them has anything to do (F30)."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

from codeagent.core.agents import AgentDefinition
from codeagent.core.channels import ChannelKind
from codeagent.core.dataclass import dataclass

MOST_AGENTS = 50
"""Agents of one group, those that were added among them."""


@dataclass(frozen=True)
class GroupMember:
    """One agent of a group."""

    definition: AgentDefinition
    """What its entry says; its name is its name in the group."""
    base: str | None = None
    """The agent, described by a file, that it is unless its entry says otherwise."""
    channels: tuple[str, ...] = ()
    """Those that it watches from the start."""
    may_add: bool = False
    """It was given the right to add agents."""


@dataclass(frozen=True)
class Group:
    """What one group file says."""

    name: str
    members: tuple[GroupMember, ...]
    channels: Mapping[str, ChannelKind]
    start: tuple[str, ...]
    """The members that get the task; the others wait for a message."""
    task: str = ""
    """What to do if the command line does not say it."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """By the names of `agent.limits.Limits`; what all members use counts together."""
    most_messages: int = 200
    most_agents: int = 10


@dataclass(frozen=True)
class RunGroup:
    """Have a group work on a task."""

    group: Group
    task: str


class Nodes(Protocol):
    """The agents of a running group, as a tool of one of them adds another."""

    async def add(
        self, adder: str, name: str, prompt: str, task: str, tools: Sequence[str] | None, channels: Sequence[str]
    ) -> None:
        """Add an agent that begins with the task, with at most the tools, the mode and the limits of its adder.

        `tools` None: those of its adder. Raises ToolError, and adds none then.
        """
