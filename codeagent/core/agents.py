"""Agents that an agent can give a task to: what a file says about one, and how a tool reaches them."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Protocol

from codeagent.core.budget import Effort
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.policy import Mode, NetworkLevel
from codeagent.core.tool import ToolContext, ToolResult


@dataclass(frozen=True)
class AgentDefinition:
    """One agent as its file describes it; what is None is as its parent has it."""

    name: str
    """`[A-Za-z0-9][A-Za-z0-9_-]{0,63}`, unique."""
    description: str
    """One line: what to give it, for the model that does."""
    prompt: str = ""
    """Markdown that its system prompt ends with."""
    tools: tuple[str, ...] | None = None
    """Names of tools, or patterns with `*` and `?`."""
    model: str | None = None
    thinking: Effort | None = None
    mode: Mode | None = None
    """It never works in a wider mode than its parent."""
    network: NetworkLevel | None = None
    """Its commands never reach more than its parent's."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """By the names of `agent.limits.Limits`."""
    parallel: bool = False
    """Its calls run beside other calls even if it may change files."""
    worktree: bool = False
    """It works in a copy of the workspace, and the user takes over what they want of its changes."""
    where: str = ""
    """Its path as the user would write it; empty for a built-in one."""


GENERAL = AgentDefinition("general", "any task, with your tools")
"""The agent that exists without a file."""


@dataclass(frozen=True)
class CopiedFile:
    """A file that was changed in a worktree."""

    path: str
    before: Node | None
    """As it was in the workspace when the worktree was made; None if it did not exist."""
    after: Node | None
    """As it is in the worktree; None if it was removed there."""


class Worktree(Protocol):
    """The copy of the workspace that one agent works in."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """What `changed` could not look at, a phrase each, as in `Snapshot.left_out`."""

    async def changed(self) -> tuple[str, ...]:
        """Return the paths of what was changed in it, in order. Raises CheckpointError."""

    async def file(self, path: str) -> CopiedFile:
        """Return one of these, as it was at that moment. Raises CheckpointError."""

    async def remove(self) -> None:
        """Remove it from the disk; idempotent."""


Check = Callable[[str], str]
"""Returns what is wrong with an agent's answer, in words that it can repair it from; empty if nothing is."""


class Agents(Protocol):
    """The agents that the calls of one conversation can start."""

    @property
    def definitions(self) -> tuple[AgentDefinition, ...]:
        """In the order of their names, those of files first."""

    async def run(self, name: str, task: str, check: Check, context: ToolContext) -> ToolResult:
        """Start a child, wait for its answer, and end it; one whose answer fails the check repairs it once.

        Whatever does not end in an answer is an error result. Raises NotFound for an unknown name, and Failed if no
        child can be started.
        """
