"""The definitions of agents that an agent can give a task to."""

from collections.abc import Callable, Mapping
from dataclasses import field

from codeagent.core.budget import Effort
from codeagent.core.dataclass import dataclass
from codeagent.core.policy import Mode, NetworkLevel

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


Check = Callable[[str], str]
"""Returns what is wrong with an agent's answer, so that the agent can repair it; empty if it is
right."""
