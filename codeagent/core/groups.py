"""Groups: agents that work side by side and send each other messages until none has anything to
do."""

from collections.abc import Mapping
from dataclasses import field

from codeagent.core.agents import AgentDefinition
from codeagent.core.channels import ChannelKind
from codeagent.core.dataclass import dataclass

MOST_AGENTS = 50
"""The most agents in one group, added ones included."""


@dataclass(frozen=True)
class GroupMember:
    """One agent of a group."""

    definition: AgentDefinition
    """The agent as its entry defines it; its name is the one in the group."""
    base: str | None = None
    """The name of an agent file that supplies whatever the entry does not say."""
    channels: tuple[str, ...] = ()
    """The channels that it watches from the start."""
    may_add: bool = False
    """Whether it may add agents."""
    may_connect: bool = False
    """Whether it may make other agents watch channels."""


@dataclass(frozen=True)
class Group:
    """A group, as its file defines it."""

    name: str
    members: tuple[GroupMember, ...]
    channels: Mapping[str, ChannelKind]
    start: tuple[str, ...]
    """The members that get the task; the others wait for a message."""
    task: str = ""
    """The task if the command line does not give one."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Keyed by the field names of `agent.limits.Limits`; the use of all members counts together."""
    most_messages: int = 200
    most_agents: int = 10
