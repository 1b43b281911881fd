"""What a tool is, what one call may touch, and what it answers."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DisplayBlock, HunkAnswer, TextBlock
from codeagent.core.json_types import MAIN, JsonObject, JsonValue
from codeagent.core.messages import ContentPart, ErrorInfo, ErrorKind, OutputStream, TextPart
from codeagent.core.policy import ApprovalKey, Effect, Permission
from codeagent.core.ports import RunsCommands, Scratchpad, Workspace

AccessMode = Literal["shared", "exclusive", "keyed"]
ToolMode = Literal["direct", "background", "stateful"]
"""direct: the call is awaited. background: it runs as a job. stateful: a job that takes messages (FEATURES F6)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolResult:
    """What one call answered: twice, once for the model and once for the user."""

    content: tuple[ContentPart, ...]
    """For the model."""
    blocks: tuple[DisplayBlock, ...] = ()
    """For the user; empty means: show `content`."""
    details: JsonObject = field(default_factory=dict)
    """For programs that read the log; never sent to the model."""
    error: ErrorInfo | None = None
    executed: bool = True
    """It was started. False if it never was: rejected, denied beforehand, skipped. The executor sees to it."""
    child_session: str | None = None

    @classmethod
    def from_text(cls, text: str, **fields: Any) -> "ToolResult":
        return cls(content=(TextPart(text=text),), **fields)

    @property
    def is_error(self) -> bool:
        return self.error is not None


class ToolError(Exception):
    """A failure a tool raises on purpose; the executor makes the error result of it.

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
    """What the call names does not exist."""

    kind = "not_found"


class InvalidArgs(ToolError):
    """The arguments fit the schema but make no sense together."""

    kind = "invalid_args"


class Denied(ToolError):
    """The call asks for something that may not be touched."""

    kind = "denied"


class Skipped(ToolError):
    """The call was passed over before it ran."""

    kind = "skipped"


class Cancelled(ToolError):
    """The call was stopped midway: the text says what the stop did, `content` holds the output there was."""

    kind = "cancelled"


class TimedOut(ToolError):
    """The tool's own time limit was reached; `content` as with Cancelled."""

    kind = "timeout"


class BaseChanged(Exception):
    """What the user approved no longer exists: the executor shows a new preview and asks again."""


@dataclass(frozen=True)
class Access:
    """What a call may disturb, so that calls of one batch give what running them in order gives.

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
    """What the user is shown before allowing a call."""

    target: str
    """One line: the path or the command."""
    blocks: tuple[DisplayBlock, ...]
    base: str | None = None
    """Binds an approval to what the preview was made from: the resolved target and the SHA-256
    of its bytes. A tool that gets another base in `ToolContext.base` raises BaseChanged."""
    by_hunk: bool = False
    """Its DiffBlocks may be answered hunk by hunk; the tool gets the answers, in order, in `ToolContext.hunks`."""


@dataclass(frozen=True)
class ToolDefinition:
    """The part of a tool that the model sees."""

    name: str
    description: str
    parameters: JsonObject
    """JSON Schema of the arguments, an object."""
    at_provider: bool = False
    """The model's provider runs it, and knows it by a name of its own."""


class RunCommand(Protocol):
    """Runs a command in the sandbox for a tool that was given `ToolContext.run`."""

    async def __call__(
        self, command: str | Sequence[str], *, timeout: float | None = None, hosts: tuple[str, ...] = ()
    ) -> str:
        """What it printed, both streams, as a model may read it; live output goes to `on_update` as it comes.

        A string is for bash, a sequence is program and arguments, which no shell sees. `timeout` in seconds.
        Raises Failed if it ends with another code than 0, with its output; TimedOut, Cancelled.
        """


async def no_commands(
    command: str | Sequence[str], *, timeout: float | None = None, hosts: tuple[str, ...] = ()
) -> str:
    """The `run` of a call that may run nothing. Raises Failed."""
    raise Failed("this tool was not given a way to run commands")


async def no_input() -> str:
    """The `receive` of a call that nobody can send to. Raises Failed."""
    raise Failed("only a stateful tool receives input")


async def ignore_update(text: str, stream: OutputStream = "output") -> None:
    """The `on_update` of a call that nobody watches."""


async def ignore_progress(text: str) -> None:
    """The `on_progress` of a call that nobody watches."""


@dataclass(frozen=True)
class ToolContext:
    """What one call may touch; a tool that needs more takes it in its constructor."""

    call_id: str
    name: str
    workspace: Workspace
    sandbox: RunsCommands | None
    cancel: CancelToken
    on_update: Callable[..., Awaitable[None]] = ignore_update
    """`await on_update(text, stream="output")`: a piece of the result, as it comes."""
    on_progress: Callable[[str], Awaitable[None]] = ignore_progress
    """`await on_progress(text)`: a word to the user, never part of the result."""
    base: str | None = None
    """The `Preview.base` that was approved; None if nobody was asked."""
    hunks: tuple[HunkAnswer, ...] | None = None
    """What of the previewed change was taken, an answer for each hunk of its DiffBlock; None: all of it."""
    read_only: bool = False
    """Plan mode: commands get the workspace mounted read-only."""
    session_id: str = ""
    """Of the session that the call belongs to."""
    agent: str = MAIN
    """The name of the agent that makes it, as on its events."""
    scratchpad: Scratchpad | None = None
    """The agent's notes of this session; its methods block on a small file. None if nothing is kept."""
    withheld: Callable[[str], bool] = lambda path: False
    """`withheld(path)`: a rule denies reading the file, or asks about it and nobody was asked."""
    run: RunCommand = no_commands
    """`await run(["pytest", "-q"])`: a command in the sandbox; given to user-defined tools."""
    receive: Callable[[], Awaitable[str]] = no_input
    """`await receive()`: the next text sent to this job with `job_send`; waits for it."""
    is_job: Callable[[], bool] = lambda: False
    """It now runs in the background: a change to the workspace may be anybody's doing."""


class ToolArgs(BaseModel):
    """Base of every tool's argument model: immutable, strict, no unknown arguments."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class OpenArgs(BaseModel):
    """Arguments that were checked against `Tool.schema`: any names, kept as they came."""

    model_config = ConfigDict(frozen=True, extra="allow")


ArgsT = TypeVar("ArgsT", bound=BaseModel)


class Tool(ABC, Generic[ArgsT]):
    """One capability the model may call.

    A subclass sets the class attributes and `run`; the other methods have safe defaults:
    ask before running, run alone.
    """

    name: str
    """`[A-Za-z0-9_-]{1,64}`, what the model calls."""
    label: str
    """What the user reads."""
    description: str
    """What the model reads."""
    Args: type[ArgsT]
    schema: dict[str, JsonValue] | None = None
    """JSON Schema of the arguments, an object, where `Args` only carries what it has checked (`OpenArgs`).
    None: made from `Args`."""
    mode: ToolMode = "direct"
    permission: Permission = "prompt"
    """Applies if neither a rule nor the mode says otherwise."""
    effect: Effect = "anything"
    timeout: float | None = None
    """Seconds; None: the run's own limit."""
    max_calls: int | None = None
    """Calls in one run; None: the run's own limit."""
    repeatable: bool = False
    """The same call may well give another result later, so a model that asks for it again and again is not stuck."""
    waits_for_user: bool = False
    """It waits for the user: no time limit applies."""
    at_provider: bool = False
    """The model's provider runs it; the executor never does."""
    starts_agents: bool = False
    """Each call starts an agent, whose own calls are judged, take turns and have time limits: this call does none of
    that, but the batch gets a checkpoint."""
    output_limit: int | None = 40_000
    """Characters of text the model gets; the rest is kept for `output_read`. None: no cap."""
    concurrency: AccessMode = "exclusive"
    """The mode that `access` gives; a tool whose calls differ, or that is keyed by a path, overrides `access`."""
    sandboxed: bool = False
    """Runs through `ToolContext.sandbox`: in plan mode on a workspace that is mounted read-only."""
    in_place_of: "Tool[Any] | None" = None
    """The built-in tool of the same name that this one narrows, and whose place it takes."""
    restricted: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """What it must not go beyond, to be shown: `paths.read` and `paths.write` (globs), `commands`, `hosts`."""
    source: str = "builtin"
    """`builtin`, `python`, `yaml`, `mcp`: the kind of place it comes from."""
    origin: str = ""
    """Where exactly, as `file:line` or the name of a package; empty for what is built in."""
    hint: str = ""
    """A sentence for the system prompt."""
    documentation: str = ""
    """All there is to say, Markdown; the model reads it with `info` (FEATURES F27). Empty: the description is all."""

    def access(self, args: ArgsT, workspace: Workspace) -> Access:
        """What the call may disturb; must not raise."""
        return SHARED if self.concurrency == "shared" else EXCLUSIVE

    def time_limit(self, args: ArgsT) -> float | None:
        """Seconds this call may take; None: the run's own limit, which holds while it is awaited. Must not raise.

        No longer applies once the user moved the call to the background; applies to the end if the call began there.
        """
        return self.timeout

    def in_background(self, args: ArgsT) -> bool:
        """The call is to run as a job from its start; must not raise."""
        return self.mode != "direct"

    def target(self, args: ArgsT) -> str:
        """What the call is about, in one line for a list; must not raise."""
        return " ".join(self.approval_key(args).parts)

    def approval_key(self, args: ArgsT) -> ApprovalKey:
        """What rules are matched against; must not raise."""
        return ApprovalKey(kind="text", parts=(args.model_dump_json(),))

    def proposal(self, args: ArgsT) -> str:
        """A rule that would allow this call and others like it, for the user to edit; empty: none can be proposed.

        Never the bare tool name; must not raise.
        """
        return ""

    async def preview(self, args: ArgsT, ctx: ToolContext) -> Preview:
        """What to show before asking. A ToolError raised here becomes the call's result.

        `ctx.base` is that of the preview shown before, where this one is to show what has changed since.
        """
        return Preview(self.name, (TextBlock(text=args.model_dump_json(indent=2)),))

    @abstractmethod
    async def run(self, args: ArgsT, ctx: ToolContext) -> ToolResult:
        """Do it.

        On asyncio.CancelledError, stop what was started and raise Cancelled with the output so
        far. Raises ToolError for failures the model should read; any other exception becomes a
        `failed` result that names it.
        """

    def talk(self, args: ArgsT, ctx: ToolContext) -> AsyncGenerator[str, str | None]:
        """The work of a stateful tool: each text it yields is an update of its job.

        `yield` returns the oldest text sent to the job that it has not received yet, or None;
        `ctx.receive` waits for one. Closed (`aclose`) when the job is stopped. Raises as `run`.
        """
        raise Failed(f"{self.name} is not a stateful tool")
