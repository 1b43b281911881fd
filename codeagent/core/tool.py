"""Tools: what they are, what a call may touch, and what it answers."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NoReturn, Protocol, TypeVar

from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass, record
from codeagent.core.deferred import BaseModel, ConfigDict
from codeagent.core.display import DisplayBlock, HunkAnswer, TextBlock
from codeagent.core.json_types import MAIN, JsonObject, JsonValue
from codeagent.core.memory import Scratchpad
from codeagent.core.messages import ContentPart, ErrorInfo, ErrorKind, TextPart, ignored
from codeagent.core.policy import ApprovalKey, Effect, Mode, Permission
from codeagent.core.ports import Workspace
from codeagent.core.sandbox import RunsCommands
from codeagent.core.sanitize import spelled

if TYPE_CHECKING:  # few agents write to others
    from codeagent.core.channels import OwnChannels

AccessMode = Literal["shared", "exclusive", "keyed"]
ToolMode = Literal["direct", "background", "stateful"]
"""direct: the call is awaited. background: it runs as a job. stateful: a job that takes
messages."""


@record
class ToolResult:
    """What a call answered, once for the model and once for the user."""

    content: tuple[ContentPart, ...]
    """For the model."""
    blocks: tuple[DisplayBlock, ...] = ()
    """For the user; empty means: show `content`."""
    details: JsonObject = field(default_factory=dict)
    """For programs that read the log; never sent to the model."""
    error: ErrorInfo | None = None
    executed: bool = True
    """Whether the call was started; False if it was rejected, denied beforehand or skipped. Set by
    the executor."""
    child_session: str | None = None

    @classmethod
    def from_text(cls, text: str, **fields: Any) -> "ToolResult":
        return cls(content=(TextPart(text=text),), **fields)

    @property
    def is_error(self) -> bool:
        return self.error is not None


class ToolError(Exception):
    """A failure that a tool raises on purpose; the executor turns it into the error result.

    The text is what the model reads unless `content` says more (a failed command's output).
    """

    kind: ClassVar[ErrorKind] = "failed"

    def __init__(
        self,
        message: str,
        *,
        content: tuple[ContentPart, ...] = (),
        blocks: tuple[DisplayBlock, ...] = (),
        details: JsonObject | None = None,
    ) -> None:
        super().__init__(message)
        self.content = content
        self.blocks = blocks
        self.details = details or {}


class Failed(ToolError):
    """The tool ran and did not succeed."""


class NotFound(ToolError):
    """Something that the call names does not exist."""

    kind = "not_found"


class InvalidArgs(ToolError):
    """The arguments fit the schema, but make no sense together."""

    kind = "invalid_args"


class Unavailable(ToolError):
    """What every such call needs is not there, as a sandbox; the model cannot change that."""

    kind = "unavailable"


class Denied(ToolError):
    """The call asks for something that may not be touched."""

    kind = "denied"


class Skipped(ToolError):
    """The call was passed over before it ran."""

    kind = "skipped"


class Cancelled(ToolError):
    """The call was stopped midway: the text says what the stop did, `content` holds the output so
    far."""

    kind = "cancelled"


class TimedOut(ToolError):
    """The tool's own time limit was reached; `content` as with Cancelled."""

    kind = "timeout"


REDEFINED = "its definition has changed since this call was made"
"""Why a tool that is not the one shown does not run."""


class BaseChanged(Exception):
    """What the user approved has changed: the executor shows a new preview and asks again."""


@dataclass(frozen=True)
class Access:
    """What a call may affect, so that a batch has the same outcome as running its calls in order.

    shared reads and keyed writes one `key` (a path); shared without a key reads everything;
    exclusive conflicts with every call.
    """

    mode: AccessMode
    key: str | None = None

    def conflicts(self, other: "Access") -> bool:
        if "exclusive" in (self.mode, other.mode):
            return True
        if self.mode == other.mode == "shared":
            return False
        return self.key is None or other.key is None or self.key == other.key


SHARED = Access("shared")
EXCLUSIVE = Access("exclusive")


@dataclass(frozen=True)
class Preview:
    """What the user sees before allowing a call."""

    target: str
    """One line: the path or the command."""
    blocks: tuple[DisplayBlock, ...]
    base: str | None = None
    """Binds an approval to what the preview was made from: the resolved target and the SHA-256
    of its bytes. A tool that gets another base in `ToolContext.base` raises BaseChanged."""
    by_hunk: bool = False
    """Whether its DiffBlocks may be answered hunk by hunk; the tool gets the answers in
    `ToolContext.hunks`."""


@dataclass(frozen=True)
class ToolDefinition:
    """The part of a tool that the model sees."""

    name: str
    description: str
    parameters: JsonObject
    """JSON Schema of the arguments, an object."""
    at_provider: bool = False
    """Whether the model's provider runs it, under its own name."""


class RunCommand(Protocol):
    """Runs a command in the sandbox for a tool that was given `ToolContext.run`."""

    async def __call__(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        hosts: tuple[str, ...] = (),
    ) -> str:
        """Run a command; return both streams as a model may read them. Live output goes to
        `on_update` as it comes.

        A string is for bash, a sequence is a program and its arguments, without a shell. `timeout`
        is in seconds. Raises Failed, with the output, if the exit code is not 0; TimedOut;
        Cancelled.
        """


async def no_commands(
    command: str | Sequence[str], *, timeout: float | None = None, hosts: tuple[str, ...] = ()
) -> str:
    """The `run` of a call that may not run commands. Raises Failed."""
    raise Failed("this tool was not given a way to run commands")


class NoChannels:
    """The `channels` of an agent that cannot write to others."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise Failed(
            "this agent has no channels; the user can turn on the toolset messages, which adds them"
        )

    addressees = send = read = wait = _refuse


NO_CHANNELS = NoChannels()


async def no_input() -> str:
    """The `receive` of a call that accepts no input. Raises Failed."""
    raise Failed("only a stateful tool receives input")


@dataclass(frozen=True)
class CallingAgent:
    """The agent that makes a call, and its conversation."""

    session_id: str = ""
    agent: str = MAIN
    """Its name, as on its events."""
    model: str = ""
    """The name of the model that made the call, as the user gave it."""
    mode: Mode = "ask"
    """The mode in force: ask, accept-edits, plan or auto."""
    limits: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """The limits of the run that are set, by name: `max_turns`, `max_calls`, `max_cost_usd`, …"""
    scratchpad: Scratchpad | None = None
    """The agent's notes of this session; its methods block on a small file. None if nothing is
    kept."""
    channels: "OwnChannels" = NO_CHANNELS
    """The agent's channels: it sends and receives messages through them."""
    recall: Callable[[str], str] = lambda call_id: ""
    """`recall(call_id)`: the text of that call's result, if it is still in the model's context;
    otherwise empty."""


@dataclass(frozen=True)
class ReadingRules:
    """What rules say about the files that a call may read."""

    withheld: Callable[[str], bool] = lambda path: False
    """`withheld(path)`: whether a rule denies reading the file, or asks about it and nobody was
    asked."""
    denied: Callable[[str], bool] = lambda path: False
    """`denied(path)`: whether a rule denies reading the file; then listings do not name it
    either."""


@dataclass(frozen=True)
class ToolContext:
    """What one call may touch; a tool that needs more takes it in its constructor."""

    call_id: str
    name: str
    workspace: Workspace
    sandbox: RunsCommands | None
    cancel: CancelToken
    on_update: Callable[..., Awaitable[None]] = ignored
    """`on_update(text, stream="output")`: a piece of the result, as it comes. Pieces are shown in
    order, awaited or not; awaiting returns once the piece has been shown."""
    on_progress: Callable[[str], Awaitable[None]] = ignored
    """`on_progress(text)`: a message to the user, never part of the result; awaiting it is
    optional, too."""
    base: str | None = None
    """The `Preview.base` that was approved; None if nobody was asked."""
    hunks: tuple[HunkAnswer, ...] | None = None
    """Which hunks of the previewed change were accepted, an answer for each; None: all of them."""
    read_only: bool = False
    """Whether commands get the workspace mounted read-only: in plan mode, and for a tool whose
    effect is nothing."""
    reading: ReadingRules = ReadingRules()
    caller: CallingAgent = field(default_factory=CallingAgent)
    run: RunCommand = no_commands
    """`await run(["pytest", "-q"])`: a command in the sandbox; given to user-defined tools."""
    receive: Callable[[], Awaitable[str]] = no_input
    """`await receive()`: the next text sent to this job with `job_send`; waits for it."""
    is_job: Callable[[], bool] = lambda: False
    """Whether it now runs in the background: then any change to the workspace may be somebody
    else's."""

    @property
    def session_id(self) -> str:
        return self.caller.session_id

    @property
    def agent(self) -> str:
        return self.caller.agent

    @property
    def model(self) -> str:
        return self.caller.model

    @property
    def mode(self) -> Mode:
        return self.caller.mode

    @property
    def limits(self) -> Mapping[str, float]:
        return self.caller.limits

    @property
    def scratchpad(self) -> Scratchpad | None:
        return self.caller.scratchpad

    @property
    def channels(self) -> "OwnChannels":
        return self.caller.channels


class ToolArgs(BaseModel):
    """Base of every tool's argument model: immutable, strict, no unknown arguments."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class OpenArgs(BaseModel):
    """Arguments that were checked against `Tool.schema`: any names, kept unchanged."""

    model_config = ConfigDict(frozen=True, extra="allow")


ArgsT = TypeVar("ArgsT", bound=BaseModel)


class Tool(ABC, Generic[ArgsT]):
    """One capability the model may call.

    A subclass sets the class attributes and `run`; the other methods have safe defaults:
    ask before running, run alone.
    """

    name: str
    """`[A-Za-z0-9_-]{1,64}`, the name that the model calls."""
    label: str
    """What the user reads."""
    description: str
    """What the model reads."""
    Args: type[ArgsT]
    schema: dict[str, JsonValue] | None = None
    """JSON Schema of the arguments, an object, where `Args` only carries what it has checked
    (`OpenArgs`). None: made from `Args`."""
    has_defaults: bool = False
    """Whether whoever runs the tool applies the defaults in `schema`: then only those of required
    arguments are filled in here, and a question shows just what is sent."""
    mode: ToolMode = "direct"
    permission: Permission = "prompt"
    """Applies if neither a rule nor the mode says otherwise."""
    effect: Effect = "anything"
    may_write: bool = True
    """Whether a call could change the workspace, for all that its `effect` may be elsewhere;
    otherwise it gets no checkpoint and is not inspected."""
    says_it_reads: bool = False
    """Whether somebody else says that it changes nothing, which is believed for nothing but what is
    asked about: in plan mode the user is asked about it where another tool is denied."""
    timeout: float | None = None
    """Seconds; None: the run's own limit."""
    max_calls: int | None = None
    """Calls in one run; None: the run's own limit."""
    repeatable: bool = False
    """Whether the same call may give another result later, so that a model that repeats it is not
    stuck."""
    waits_for_user: bool = False
    """Whether it waits for the user: then no time limit applies."""
    at_provider: bool = False
    """Whether the model's provider runs it; then the executor never does."""
    starts_agents: bool = False
    """Whether a call starts an agent, whose calls are judged, take turns and have time limits: this
    call does none of that, but the batch gets a checkpoint."""
    output_limit: int | None = 40_000
    """Characters of text the model gets; the rest is kept for `output_read`. None: no cap."""
    concurrency: AccessMode = "exclusive"
    """The mode that `access` gives; a tool whose calls differ, or that is keyed by a path,
    overrides `access`."""
    sandboxed: bool = False
    """Whether it runs through `ToolContext.sandbox`: in plan mode with the workspace mounted
    read-only."""
    tries: bool = False
    """Whether its commands can be tried out, so that what they would change is asked about in place
    of the call."""
    require_info: bool = False
    """Whether its calls are refused until the model has read its documentation with `info`."""
    in_place_of: "Tool[Any] | None" = None
    """The built-in tool of the same name that this one narrows and replaces."""
    narrows: str = ""
    """The name of the built-in tool that it is made from; empty if it is not made from one."""
    restricted: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Its restrictions, to be shown: `paths.read` and `paths.write` (globs), `commands`,
    `hosts`."""
    source: str = "builtin"
    """The kind of source it comes from: `builtin`, `python`, `yaml`, `mcp`."""
    origin: str = ""
    """Where exactly, as `file:line` or the name of a package; empty for what is built in."""
    hint: str = ""
    """A sentence for the system prompt."""
    documentation: str = ""
    """Full documentation in Markdown, for `info`. Empty: there is only the
    description."""

    @property
    def whose(self) -> str:
        """Whose tool it is, as a phrase; empty if it is built in."""
        match self.source:
            case "builtin" | "provider":
                return ""
            case "mcp":
                return f"the MCP server {self.origin}"
            case "openapi":
                return f"the API {self.origin}"
            case _:
                return self.origin or f"a source of the kind {self.source}"

    def access(self, args: ArgsT, workspace: Workspace) -> Access:
        """Return what the call may affect; must not raise."""
        return SHARED if self.concurrency == "shared" else EXCLUSIVE

    def time_limit(self, args: ArgsT) -> float | None:
        """Return the seconds that this call may take; None: the run's own limit, while it is
        awaited. Must not raise.

        No longer applies once the user moved the call to the background; applies to the end if the
        call began there.
        """
        return self.timeout

    def in_background(self, args: ArgsT) -> bool:
        """Whether the call runs as a job from its start; must not raise."""
        return self.mode != "direct"

    def target(self, args: ArgsT) -> str:
        """Say in one line, for a list, what the call is about; must not raise."""
        key = self.approval_key(args)
        return " ".join(map(spelled, key.parts) if key.kind == "path" else key.parts)

    def approval_key(self, args: ArgsT) -> ApprovalKey:
        """Return what rules are matched against; must not raise."""
        return ApprovalKey(kind="text", parts=(args.model_dump_json(),))

    def proposal(self, args: ArgsT) -> str:
        """Return a rule that would allow this call and similar ones, for the user to edit; empty if
        there is none.

        Never the bare tool name; must not raise.
        """
        return ""

    def refuse(self, args: ArgsT, ctx: ToolContext) -> None:
        """Raise ToolError or WorkspaceError for a call that no answer of the user could allow;
        touch nothing.

        Called before the user is asked and before the call starts. For every tool it is also
        checked that its paths are in the workspace and, if its effect is `files`, not protected.
        """

    async def preview(self, args: ArgsT, ctx: ToolContext) -> Preview:
        """Return what to show before asking. A ToolError raised here becomes the call's result.

        `ctx.base` is that of the preview shown before, if this one has to show what has changed
        since.
        """
        return Preview(self.name, (TextBlock(text=args.model_dump_json(indent=2)),))

    def outdated(self, *, asked: bool) -> Coroutine[Any, Any, str] | None:
        """Return how the tool has changed since its calls were shown, as a sentence; empty if it
        has not.

        Awaited right before each call runs. `asked`: the user was shown the call, so its source
        must be asked again. None: nothing can change it but a new tool in its place.
        """
        return None

    @abstractmethod
    async def run(self, args: ArgsT, ctx: ToolContext) -> ToolResult:
        """Do it.

        On asyncio.CancelledError, stop what was started and raise Cancelled with the output so
        far. Raises ToolError for failures the model should read; any other exception becomes a
        `failed` result that names it.
        """

    def talk(self, args: ArgsT, ctx: ToolContext) -> AsyncGenerator[str, str | None]:
        """Do the work of a stateful tool: each text it yields is an update of its job.

        `yield` returns the oldest text sent to the job that it has not received yet, or None;
        `ctx.receive` waits for one. Closed (`aclose`) when the job is stopped. Raises as `run`.
        """
        raise Failed(f"{self.name} is not a stateful tool")
