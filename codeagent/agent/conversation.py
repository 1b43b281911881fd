"""One conversation, as its runs see it: what stays the same from turn to turn, and what they
share."""

from collections.abc import Callable
from typing import Protocol

from codeagent.agent.batches import PauseGate, Strategy
from codeagent.agent.calls import StopReport
from codeagent.agent.checkpoints import Checkpointing
from codeagent.agent.compaction.work import Compaction
from codeagent.agent.emitter import Emitter
from codeagent.agent.executor import Executor
from codeagent.agent.inspection import Inspection
from codeagent.agent.jobs.store import Jobs
from codeagent.agent.limits import BudgetMeter, Limits, RunMeter
from codeagent.agent.permissions import Permissions
from codeagent.agent.prompt import PromptBuilder
from codeagent.agent.queue import MessageQueue
from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.events import RunFinished, RunReason
from codeagent.core.history import BranchingHistory
from codeagent.core.messages import Message
from codeagent.core.model import Model
from codeagent.core.patterns import AllowList
from codeagent.core.ports import Workspace
from codeagent.core.tool import ToolDefinition


class RunParts(Protocol):
    """What extensions add to a conversation, as its runs see it."""

    def look(self) -> None:
        """Take note that a run has ended, or that one may begin."""

    async def at_rest(self, token: CancelToken) -> None:
        """Do what is due now that the agent would stop; a note in its queue makes it continue.
        Raises RunCancelled."""


@dataclass(frozen=True)
class RunContext:
    """What the runs of one agent share."""

    workspace: Workspace
    line: BranchingHistory[Message]
    """The conversation."""
    call_ids: set[str]
    """The ids of all calls of the session so far."""
    permissions: Permissions
    executor: Executor
    emitter: Emitter
    queue: MessageQueue
    gate: PauseGate
    spending: BudgetMeter
    checkpoints: Checkpointing
    inspection: Inspection
    jobs: Jobs
    parts: RunParts
    """What extensions add to the conversation."""
    compaction: Compaction
    above: RunMeter | None = None
    """Of the run whose call started this agent; None for the main agent."""


@dataclass(frozen=True)
class Conversation:
    """What stays the same from turn to turn, so that the provider's cache keeps working."""

    model: Model
    system_prompt: str
    tools: tuple[ToolDefinition, ...]
    strategy: Strategy
    limits: Limits
    attended: bool = False
    """Whether there is a user: then a limit pauses the run, and otherwise ends it."""
    prompt_builder: PromptBuilder | None = None
    """Replaces the prompt and the tools above if they may change between requests."""
    allow: AllowList = AllowList()
    """The model is told only of these of the tools above."""
    lent: tuple[ToolDefinition, ...] = ()
    """The definitions of tools that only this run has; they follow those above."""
    begin_work: "Callable[[Conversation, RunContext], Work] | None" = None
    """Makes what a run works with, if it is not turns of the model."""
    server: str = ""
    """The host that the model's requests go to; empty if it sends none."""
    early_reads: bool = True
    """Whether calls that only read may begin while their answer is still coming."""
    follow: Callable[[], None] | None = None
    """Called at each boundary, to notice that the model's window has changed; None: it cannot
    change."""


class Work(Protocol):
    """What a run does between its first and its last event."""

    meter: RunMeter
    stop_report: StopReport
    text: str
    """The answer."""

    async def run(self, token: CancelToken) -> RunReason:
        """Raises RunCancelled, CodeagentError."""


class RunSeries(Protocol):
    """Runs that follow one another, each within a scope of its own."""

    @property
    def is_over(self) -> bool:
        """Whether no run is left to begin."""

    async def open(self, conversation: Conversation) -> Conversation:
        """Make ready for the next run; return its conversation. Raises CodeagentError if it cannot
        begin."""

    async def enter(self, conversation: Conversation) -> tuple[Conversation, str]:
        """Put in force what applies to the next run only; return its conversation and its
        prompt."""

    def leave(self) -> None:
        """Undo that at the end of the run, before anybody is told and another run can begin.
        Idempotent."""

    async def close(self) -> None:
        """End what was opened for the run."""

    def continues(self, finished: RunFinished) -> bool:
        """Take note of the end of a run; return whether another one follows."""

    def stopped(self, error: str | None) -> None:
        """Report that the series ended early; `error` is why its next run could not begin."""
