"""What a front end gets: an agent to talk to, and the sessions that exist."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal, Protocol, TypeVar

from codeagent.core.acts import Act, Queued, Refused, RunGroup, RunRecipe
from codeagent.core.budget import Budget
from codeagent.core.checkpoints import Rewind
from codeagent.core.dataclass import dataclass
from codeagent.core.events import KnownEvent
from codeagent.core.jobs import SessionJobs
from codeagent.core.memory import OutputStore, Skills
from codeagent.core.messages import UserMessage
from codeagent.core.model import ModelInUse, ModelRequest
from codeagent.core.policy import Rule
from codeagent.core.sandbox import Sandbox, SandboxInfo
from codeagent.core.toolbox import Toolbox

PartT = TypeVar("PartT")
TextKind = Literal["resource", "prompt"]


@dataclass(frozen=True)
class OfferedText:
    """A resource or prompt that the user can name in a prompt, such as that of a server."""

    name: str
    """`SERVER:RESOURCE` or `SERVER:PROMPT`, as it is typed behind `@` or `/`."""
    about: str = ""
    """One line, in the words of whoever offers it."""
    inputs: tuple[tuple[str, str], ...] = ()
    """The arguments of a prompt, with a description of each."""
    size: str = ""
    """How large a resource is, in a few words; empty if that is not known."""


@dataclass(frozen=True)
class Mentioned:
    """What the mentions in a text stand for."""

    note: UserMessage | None = None
    """Their content, for the model to read after the text; None if there is nothing to read."""
    left: tuple[str, ...] = ()
    """The names that stay text, each with the reason."""
    refusal: str = ""
    """Why the text must not be sent as it is."""


@dataclass(frozen=True)
class SessionSummary:
    """A session in a list; a field is empty if the log does not say."""

    id: str
    modified: float
    """When the log was last written, in seconds since the epoch."""
    size: int
    """Bytes of the log."""
    workspace: str
    model: str
    prompt: str
    """The first prompt."""
    in_use: bool
    title: str = ""
    """The name that the user gave it."""

    @property
    def name(self) -> str:
        """Its title, or else its first prompt."""
        return self.title or self.prompt


class AgentHandle(Protocol):
    """One conversation: acts go in, events come out."""

    def do(self, act: Act) -> Refused | None:
        """Carry out an act. What takes time is begun and shows as events; its failure is a notice
        `act.failed`."""

    async def finish(self, act: Act) -> Refused | None:
        """Like `do`, but wait for what it begins; if that fails, the act is refused. Runs are not
        waited for."""

    async def settled(self) -> None:
        """Wait until everything that acts began has ended; runs are not waited for."""

    def run(self, prompt: str | RunRecipe | RunGroup | None) -> AsyncIterator[KnownEvent]:
        """Run a prompt to its end; the last event is `run.finished`, or the notice `run.not_begun`
        if a hook denied it.

        A recipe is one run per step, as long as each ends well. A group is a single run of all its
        agents. None begins with what is queued.
        """

    def events(self) -> AsyncIterator[KnownEvent]:
        """Yield every event from now until the agent is closed, also outside runs; unread deltas
        are merged.

        The first reader also gets the earlier ones.
        """

    def observe(self, observer: Callable[[KnownEvent], None]) -> None:
        """Call `observer` with every event as it is emitted, before anything else happens."""

    async def close(self) -> None: ...

    @property
    def session_id(self) -> str: ...

    @property
    def running(self) -> bool:
        """Whether a run is in progress: from the prompt until `run.finished` is emitted or a hook
        denied the prompt."""

    @property
    def queued(self) -> tuple[Queued, ...]:
        """The queued texts, in the order in which they were typed or moved."""

    @property
    def model(self) -> ModelInUse: ...

    @property
    def budget(self) -> Budget | None: ...

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules in force, in the order in which they were given."""

    @property
    def rewind(self) -> Rewind | None:
        """None if no checkpoints can be kept; the notice `checkpoint.unavailable` says why."""

    @property
    def jobs(self) -> SessionJobs:
        """The jobs, running or ended. They outlive runs and end with the session."""

    @property
    def toolbox(self) -> Toolbox | None:
        """The tools in use; None if they cannot change."""

    def part(self, kind: type[PartT]) -> PartT | None:
        """Return what an extension has added to the conversation, for a page of its own; None if it
        has added nothing of that kind."""

    async def texts(self, kind: TextKind) -> tuple[OfferedText, ...]:
        """Ask for the resources or prompts that are offered to the user now."""

    async def mentioned(self, text: str) -> Mentioned:
        """Read what the mentions in the text stand for, as far as that is possible without asking a
        server; nothing is sent."""


@dataclass(frozen=True)
class Session:
    """An open conversation: acts go in with `do`, events come out of `run` and `events`.

    It is closed by `close`, or by leaving an `async with`.
    """

    agent: AgentHandle
    sandbox: Sandbox | None
    sandbox_info: SandboxInfo | None
    """None while the sandbox is starting, or if there is none and bash is disabled."""
    outputs: OutputStore
    next_request: Callable[[], ModelRequest]
    """The next request, with the system prompt and the tools, but without messages."""
    close: Callable[[], Awaitable[None]]
    """Ends the agent, the model's connections and the sandbox; idempotent."""
    skills: Skills
    """The skills that the model is told about."""
    sandbox_starting: Awaitable[SandboxInfo] | None = None
    """Done once commands can run; fails, with a notice, if they never will. None: no sandbox is
    starting."""

    @property
    def id(self) -> str:
        """The id of its log, with which it can be resumed."""
        return self.agent.session_id

    def do(self, act: Act) -> Refused | None:
        """Carry out an act, such as an answer or a steer; see `AgentHandle.do`."""
        return self.agent.do(act)

    def run(self, prompt: str) -> AsyncIterator[KnownEvent]:
        """Run a prompt to its end, and yield what happens; see `AgentHandle.run`."""
        return self.agent.run(prompt)

    def events(self) -> AsyncIterator[KnownEvent]:
        """Yield every event from now until it is closed; see `AgentHandle.events`."""
        return self.agent.events()

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
