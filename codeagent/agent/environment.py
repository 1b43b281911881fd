"""What tools work with: the same for every call of a conversation."""

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from codeagent.agent.hooks.hook import Hooks
from codeagent.agent.limits import ContextLimits, Limits
from codeagent.agent.queue import Delivery
from codeagent.agent.todo import Todo
from codeagent.core.dataclass import dataclass
from codeagent.core.memory import OutputStore, Scratchpad
from codeagent.core.policy import KeptRules, Objection, Policy
from codeagent.core.ports import Workspace
from codeagent.core.sandbox import Sandbox, SandboxKind
from codeagent.core.tool import Tool
from codeagent.core.toolbox import ToolsInUse
from codeagent.session.transcript import ToolDetails


@dataclass(frozen=True)
class RuleKeeping:
    """How an answer of the user becomes a rule."""

    rules: KeptRules | None = None
    """Keeps rules beyond the session; None if they cannot be kept."""
    objection: Objection = lambda rule: None
    """Why an answer must not become this rule."""


@dataclass(frozen=True)
class Recall:
    """What the caller of the tools still knows of what it read."""

    certain: bool = True
    """Whether the conversation makes the calls; otherwise it is unknown which results their caller
    still has."""
    unread: Callable[[Tool[Any]], bool] = lambda tool: False
    """Whether the model has to read the tool's documentation before it may call it, and has not
    done so."""
    forget: Callable[[Sequence[ToolDetails]], None] = lambda left: None
    """Called after a compaction with the results that are left: the model no longer has the
    others."""


@dataclass(frozen=True)
class Preferences:
    """How the user wants a conversation to go on, where it is not a matter of limits."""

    context: ContextLimits = ContextLimits()
    delivery: Delivery = Delivery()
    """How much of what is queued is delivered at one boundary."""
    partial_results: float | None = None
    """Seconds after which a call that shows its output while it runs becomes a job; None: never by
    itself."""


@dataclass(frozen=True)
class AgentState:
    """What the tools of one agent keep between calls."""

    todo: Todo = field(default_factory=Todo)
    """The to-do list that the agent's tool writes."""
    scratchpad: Scratchpad | None = None
    """The model's notes of this session."""
    inputs: dict[str, Any] = field(default_factory=dict)
    """The inputs of the recipe whose step is running; tools from files read them."""


@dataclass(frozen=True)
class ToolEnvironment:
    """What tools work with: the same for every call of a conversation."""

    tools: ToolsInUse
    workspace: Workspace
    sandbox: Sandbox | None
    sandbox_kind: SandboxKind | None
    outputs: OutputStore
    policy: Policy
    limits: Limits
    hooks: Hooks
    attended: bool = False
    """Whether there is a user to ask."""
    keeping: RuleKeeping = RuleKeeping()
    recall: Recall = Recall()
    preferences: Preferences = Preferences()
    state: AgentState = field(default_factory=AgentState)
    check_budget: Callable[[str, float], object] = lambda model, dollars: None
    """Raises ConfigError if no price is known for the model, so that the budget would limit
    nothing. Blocks briefly."""
    tries: bool = False
    """Whether commands that nobody decided about are tried out where the sandbox can."""
