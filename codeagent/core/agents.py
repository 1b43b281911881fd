"""Agents that an agent can give a task to: their definitions, and how a tool starts one."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Protocol

from codeagent.core.budget import Effort
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.policy import Mode, NetworkLevel
from codeagent.core.tool import ToolContext, ToolResult

WORKTREES = "worktrees"
"""The folder in the state folder that the worktrees of agents are in."""


@dataclass(frozen=True)
class AgentDefinition:
    """One agent as its file describes it; a field that is None is taken from its parent."""

    name: str
    """`[A-Za-z0-9][A-Za-z0-9_-]{0,63}`, unique."""
    description: str
    """One line for the model that chooses it: what it is good for."""
    prompt: str = ""
    """Markdown at the end of its system prompt."""
    tools: tuple[str, ...] | None = None
    """Names of tools, or patterns with `*` and `?`."""
    model: str | None = None
    thinking: Effort | None = None
    mode: Mode | None = None
    """It never works in a wider mode than its parent."""
    network: NetworkLevel | None = None
    """Its commands never reach more than its parent's."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Keyed by the field names of `agent.limits.Limits`."""
    parallel: bool = False
    """Whether its calls run beside other calls even if it may change files."""
    worktree: bool = False
    """Whether it works in a copy of the workspace, from which the user takes the changes they
    want."""
    where: str = ""
    """Path of its file as the user would write it; empty for a built-in one."""


GENERAL = AgentDefinition("general", "any task, with your tools")
"""The built-in agent, which needs no file."""


class Worktree(Protocol):
    """The copy of the workspace that one agent works in."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """What `changed` could not compare, a phrase each, as in `Snapshot.left_out`."""

    async def changed(self) -> tuple[str, ...]:
        """Return the paths that were changed in it, in order. Raises CheckpointError."""

    async def file(self, path: str) -> Change[Node]:
        """Return the change of one of these files since the worktree was made, as it was when
        `changed` looked. Raises CheckpointError."""

    async def remove(self) -> None:
        """Remove it from the disk; idempotent."""


Check = Callable[[str], str]
"""Returns what is wrong with an agent's answer, so that the agent can repair it; empty if it is
right."""


class Agents(Protocol):
    """The agents that the calls of one conversation can start."""

    @property
    def definitions(self) -> tuple[AgentDefinition, ...]:
        """Sorted by name, those from files first."""

    async def run(self, name: str, task: str, check: Check, context: ToolContext) -> ToolResult:
        """Start a child, wait for its answer, and end it; it may repair an answer that fails the
        check once.

        Any other end is an error result. Raises NotFound for an unknown name, and Failed if no
        child can be started.
        """
