"""What a front end is handed: an agent to talk to and the sessions there are."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from codeagent.core.acts import Act, Queued, Refused, RunRecipe
from codeagent.core.budget import Budget
from codeagent.core.checkpoints import Rewind
from codeagent.core.dataclass import dataclass
from codeagent.core.events import KnownEvent
from codeagent.core.groups import RunGroup
from codeagent.core.jobs import JobBook
from codeagent.core.mcp import ServerBook
from codeagent.core.model import ModelInUse, ModelRequest
from codeagent.core.policy import Rule
from codeagent.core.ports import OutputStore, Sandbox, SandboxInfo, Skills
from codeagent.core.toolbox import Toolbox


@dataclass(frozen=True)
class SessionSummary:
    """What a list of sessions shows; the empty string if the log does not say."""

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
    title: str = ""
    """What the user called it."""


class AgentHandle(Protocol):
    """One conversation: acts go in, events come out."""

    def do(self, act: Act) -> Refused | None:
        """Do it now, or begin what takes time: that shows as events, its failure as a notice `act.failed`."""

    async def finish(self, act: Act) -> Refused | None:
        """As `do`, and wait for what it begins; if that fails, the act is refused. Runs are not waited for."""

    async def settled(self) -> None:
        """Return once everything that acts began has ended; runs are not waited for."""

    def run(self, prompt: str | RunRecipe | RunGroup | None) -> AsyncIterator[KnownEvent]:
        """One prompt to its end; the last event is `run.finished`, or a notice `run.not_begun`: a hook denied it.

        A recipe is as many runs as it has steps, as long as each ends well. A group is one run of all its agents. None
        begins with what is queued.
        """

    def events(self) -> AsyncIterator[KnownEvent]:
        """Every event from now until the agent is closed, outside runs as well; unread deltas are merged.

        The first reader also gets what was emitted before there was any.
        """

    def observe(self, observer: Callable[[KnownEvent], None]) -> None:
        """Call `observer` with every event as it is emitted, before anything else happens."""

    async def close(self) -> None: ...

    @property
    def session_id(self) -> str: ...

    @property
    def running(self) -> bool:
        """From the prompt until `run.finished` is emitted, or a hook denied what it was to begin with."""

    @property
    def queued(self) -> tuple[Queued, ...]:
        """What is queued, in the order it was typed or moved to."""

    @property
    def model(self) -> ModelInUse: ...

    @property
    def budget(self) -> Budget | None: ...

    @property
    def rules(self) -> tuple[Rule, ...]:
        """In force, in the order they were given."""

    @property
    def rewind(self) -> Rewind | None:
        """None if no checkpoints can be kept; a notice `checkpoint.unavailable` says why."""

    @property
    def jobs(self) -> JobBook:
        """The calls that run in the background, and those that did. They outlive runs and end with the session."""

    @property
    def toolbox(self) -> Toolbox | None:
        """The tools in use; None if they cannot change."""

    @property
    def servers(self) -> ServerBook | None:
        """The configured MCP servers; None if no file configures any."""


@dataclass(frozen=True)
class Runtime:
    agent: AgentHandle
    sandbox: Sandbox | None
    sandbox_info: SandboxInfo | None
    """None while the sandbox is starting, or if there is none and bash is disabled."""
    outputs: OutputStore
    next_request: Callable[[], ModelRequest]
    """The system prompt and the tools that the model is sent next; without messages."""
    close: Callable[[], Awaitable[None]]
    """Ends the agent, the model's connections and the sandbox; idempotent."""
    skills: Skills
    """Those the model is told of."""
    sandbox_starting: Awaitable[SandboxInfo] | None = None
    """Done once commands can run; fails if they never will, which is also a notice. None: it is not starting."""
