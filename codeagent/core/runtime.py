"""What a front end is handed: an agent to talk to and the sessions there are."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from codeagent.core.budget import Budget, Effort
from codeagent.core.events import KnownEvent
from codeagent.core.jobs import JobBook
from codeagent.core.policy import Decision, Mode, Rule
from codeagent.core.ports import OutputStore, Sandbox, SandboxInfo, Workspace
from codeagent.core.queued import Queued
from codeagent.core.rewind import Rewind
from codeagent.core.skills import NoSkills, Skills
from codeagent.core.tool import ToolDefinition
from codeagent.core.toolbox import ToolKeeper


@dataclass(frozen=True)
class SessionSummary:
    """What a list of sessions shows; the empty string where the log does not say."""

    id: str
    modified: float
    """When the log was last written, in seconds since the epoch."""
    size: int
    """Bytes of the log."""
    workspace: str
    model: str
    prompt: str
    """What the session began with."""
    in_use: bool


class AgentHandle(Protocol):
    """One conversation. Every method but `run`, `shell` and `close` returns at once."""

    @property
    def session_id(self) -> str: ...

    @property
    def running(self) -> bool: ...

    @property
    def queued(self) -> tuple[Queued, ...]:
        """What waits in both lanes, in the order it was typed."""

    def run(self, prompt: str) -> AsyncIterator[KnownEvent]:
        """One prompt to its end; the last event is `run.finished`, or a notice `run.not_begun`: a hook denied it."""

    def start(self, prompt: str | None) -> None:
        """As `run`, read through `events`. None starts with what is queued. Raises CodeagentError where one runs."""

    def events(self) -> AsyncIterator[KnownEvent]:
        """Every event from now until the agent is closed, also outside runs; deltas unread are merged.

        The first reader also gets what was emitted before there was any.
        """

    def pause(self) -> None:
        """Wait at the next boundary, before the next batch or request.

        A notice `run.pausing` says that it was asked for, `run.paused` when and why the run waits, `run.resumed` when
        it goes on. Does nothing while no run is going on, and ends with its run.
        """

    def go_on(self) -> None:
        """End a pause, also one that has not begun."""

    @property
    def stepping(self) -> bool:
        """Runs pause before every batch."""

    def step(self, on: bool) -> None:
        """Pause before every batch, or no more; a notice `step.changed` records it. Does not end a pause."""

    def skip(self, call_id: str, reason: str = "") -> bool:
        """A call of the batch the run is paused before gets `skipped by user: reason`; False where there is none."""

    def amend(self, call_id: str, arguments: str) -> bool:
        """A call of that batch shall run with these arguments (JSON); False where there is none.

        A notice `call.edited` records it, and the model is told. Raises ConfigError with everything that does not
        fit: the call stays as it was.
        """

    @property
    def budget(self) -> Budget | None: ...

    def set_budget(self, budget: Budget | None) -> None:
        """Counted from now; where the next request would pass it, the run pauses, and `go_on` allows as much again.

        A notice `budget.changed` records it.
        """

    @property
    def rules(self) -> tuple[Rule, ...]:
        """In force, in the order they were given."""

    async def allow(self, rule: str, *, keep: bool) -> None:
        """Add an allowing rule, for this session or also for later ones here. Raises ConfigError."""

    async def revoke(self, rule: Rule) -> None:
        """A rule of this session or one that was kept. Raises ConfigError for one of a file or of the command line."""

    def set_mode(self, mode: Mode) -> None:
        """What is asked about from the next call on; a notice `mode.changed` records it."""

    async def shell(self, command: str, *, shared: bool) -> None:
        """Run a command of the person's own in the sandbox, to its end, as tool events named `shell`.

        During a run it waits for calls under way that may change something, and such calls wait for it.
        `shared`: what it printed reaches the model as a note, at the next boundary or prompt.
        `cancel_call` and `abort` stop it. Raises CodeagentError where there is no sandbox.
        """

    def steer(self, text: str) -> str:
        """Queue text for the boundary after the running batch; returns its id."""

    def interrupt(self, text: str) -> str:
        """Skip what has not started by the strategy's next boundary, then deliver the text."""

    def follow_up(self, text: str) -> str:
        """Queue text for when the agent would stop."""

    def take_back(self, queued_id: str) -> str | None:
        """Remove a queued text; None where it was delivered already."""

    def rewrite(self, queued_id: str, text: str) -> bool:
        """Other words in the same place; False where it was delivered already."""

    def move(self, queued_id: str, position: int) -> bool:
        """To that place (from 0) among all that waits; False where it was delivered already."""

    def abort(self, reason: str = "interrupted") -> None:
        """Cancel the run now, and the person's commands; no prepared call starts afterwards.

        A notice `run.stopped` before `run.finished` says what that did.
        """

    def cancel_call(self, call_id: str) -> None:
        """Cancel one running call; its siblings go on."""

    def promote(self, call_id: str | None = None) -> bool:
        """Move a call that is waited for to the background, as a job; None: the one that has run longest.

        False where there is none, or it has just ended.
        """

    @property
    def jobs(self) -> JobBook:
        """The calls that run in the background, and those that did. They outlive runs and end with the session."""

    @property
    def toolbox(self) -> ToolKeeper | None:
        """The tools in use; None where they cannot change."""

    def respond(self, approval_id: str, decision: Decision) -> bool:
        """Answer an approval; False where it is no longer waiting."""

    def observe(self, observer: Callable[[KnownEvent], None]) -> None:
        """Call `observer` with every event as it is emitted, before anything else happens."""

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Runtime:
    agent: AgentHandle
    workspace: Workspace
    sandbox: Sandbox | None
    sandbox_info: SandboxInfo | None
    """None where there is no sandbox: bash is disabled then."""
    outputs: OutputStore
    tools: tuple[ToolDefinition, ...]
    system_prompt: str
    model: str
    context_window: int | None
    """Tokens; None where it is not known."""
    rewind: Rewind | None
    """None where no checkpoints can be kept; a notice `checkpoint.unavailable` says why."""
    use_model: Callable[[str, str | None], Awaitable["Runtime"]]
    """Go on with another model (name, api_base) from the next request; returns this runtime with its facts.
    Raises CodeagentError: the present model stays then. Not while a run is going on."""
    use_effort: Callable[[Effort], Awaitable["Runtime"]]
    """Think so much from the next request on; returns and raises as `use_model`."""
    close: Callable[[], Awaitable[None]]
    """Ends the agent, the model's connections and the sandbox; idempotent."""
    skills: Skills = field(default_factory=NoSkills)
    """Those the model is told of."""
