"""Agents that an agent can give a task to: what a file says about one, and how a tool reaches them."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Protocol

from codeagent.core.budget import Effort
from codeagent.core.dataclass import dataclass
from codeagent.core.policy import Mode
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
    limits: Mapping[str, float] = field(default_factory=dict)
    """By the names of `agent.limits.Limits`."""
    parallel: bool = False
    """Its calls run beside other calls even if it may change files."""
    where: str = ""
    """Its path as the user would write it; empty for a built-in one."""


GENERAL = AgentDefinition("general", "any task, with your tools")
"""The agent that exists without a file."""
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
