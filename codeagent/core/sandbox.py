"""The port of the sandbox: commands and programs that run apart from this machine."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from typing import TYPE_CHECKING, Literal, Protocol

from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.messages import OutputStream

if TYPE_CHECKING:
    from codeagent.core.effects import Effect  # few commands are tried out
    from codeagent.core.hosts import Reach  # brings ipaddress, which most conversations do without


@dataclass(frozen=True)
class Command:
    """A command line for the sandbox, run by `bash -c` in the workspace root."""

    text: str
    call_id: str
    read_only: bool = False
    """Whether the workspace is mounted read-only for it, so that the kernel refuses every
    change."""
    hosts: tuple[str, ...] = ()
    """Hosts it may reach over HTTP and HTTPS: `*.example.org` is any below that, `*` any public
    one. Empty: none."""
    reach: "Reach | None" = None
    """Decides about each of these hosts while the command runs; None: all of them may be
    reached."""
    alone: bool = False
    """Whether no other command may share its way out, because nobody has been asked about it
    yet."""
    apart: bool = False
    """Whether standard output and standard error are told apart, at the cost of their order.

    Otherwise both are one pipe, so that what the command wrote comes in the order in which it was
    written.
    """


@dataclass(frozen=True)
class CommandResult:
    exit_code: int | None
    """None if the command was stopped before it ended."""
    stopped: bool = False
    killed: int = 0
    """How many processes were stopped on cancel, counted in the sandbox."""
    left_running: int = 0
    """How many processes the command left running on purpose; nothing waits for them."""
    out_of_memory: bool = False
    notices: tuple[str, ...] = ()
    """What the sandbox did about the command's effects, such as moving a planted `.git` away."""
    denied: str = ""
    """Why nothing was taken of what it changed; empty if something was, or it changed nothing."""
    changed: int | None = None
    """How many files it changed if it was tried out; None if it was not, or nothing was taken."""
    landed: Mapping[str, str] = field(default_factory=dict)
    """What was taken of files that run outside: SHA-256 by path, empty for a file that was
    removed."""


@dataclass(frozen=True)
class StdioProgram:
    """A running program with which one communicates over its standard input and output."""

    arguments: tuple[str, ...]
    """The program and its arguments; no shell sees them."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Its variables beside a minimal environment."""
    directory: str | None = None
    """Where it runs: relative to the workspace's root, or an absolute folder of this machine
    outside the workspace.

    None: in an empty folder of its own, with nothing of the workspace where programs and libraries
    are searched.
    """
    hosts: tuple[str, ...] = ()
    """See `Command.hosts`."""
    reach: "Reach | None" = None
    """See `Command.reach`."""
    writes: bool = False
    """Whether it may write in the workspace, which otherwise is mounted read-only for it; in a
    sandbox only."""
    owner: str = ""
    """Whose program it is, as a phrase for the user: `the MCP server git`."""


class RunningProgram(Protocol):
    @property
    def writes(self) -> bool:
        """Whether it may write in the workspace."""
        return True

    @property
    def unfit(self) -> str:
        """Why the mode wants it restarted before it is used, as a phrase; empty if it does not."""
        return ""

    async def begun(self) -> None:
        """Say that it has started, before its first use: what it may have written so far is
        inspected."""
        return

    async def send(self, data: bytes) -> None:
        """Write to its standard input; waits while that is full. Raises SandboxLost if it has
        ended."""

    def output(self) -> AsyncIterator[tuple[Literal["stdout", "stderr"], bytes]]:
        """Yield what it writes until it has ended; call it once; nothing is read ahead."""

    async def outdated(self) -> str:
        """Return why it must be restarted before use, as a phrase; empty if it need not. Raises
        SandboxUnavailable."""

    async def close(self) -> int | None:
        """End it and everything it started; return its exit code, None if that is unknown.
        Idempotent."""


StartProgram = Callable[[StdioProgram], Awaitable[RunningProgram]]


"""Start a program. Raises SandboxUnavailable, which says what would help."""


@dataclass(frozen=True)
class SandboxSweep:
    """The findings of a look at the workspace from outside the sandbox."""

    notices: tuple[str, ...] = ()
    """What commands had planted and was moved out of the workspace, a sentence each."""
    alive: bool = False
    """Whether something that a command started may still be running."""
    moment: object = field(default=None, compare=False)
    """Equal to that of an earlier look if nothing has run inside in between; None if that is not
    known."""


CHECK = ".codeagent-check-"


"""The prefix of the files with which a sandbox tests itself; they exist in the workspace for a
moment."""


@dataclass(frozen=True)
class SandboxInfo:
    """Facts about a running sandbox, for the status line, `doctor` and the system prompt."""

    kind: Literal["docker", "host", "replay"]
    """`replay`: nothing is run."""
    image: str
    image_origin: str
    """Where the image comes from, as a phrase: `configured`, `host toolchain, read-only`, …"""
    user: str
    network: str
    warnings: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    """Those of the warnings that the user is told at the start."""


OnOutput = Callable[[OutputStream, bytes], Awaitable[None]]


"""`output` is both streams of a command in their order; the others come only if they are told
apart."""


class RunsCommands(Protocol):
    """Runs commands: a sandbox, or something that wraps one."""

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        """Run to the end, passing output on as it comes; while `on_output` waits, reading stops.

        When the awaiting task is cancelled, everything the command started is stopped (TERM, two
        seconds, KILL) and a result with `stopped` is returned in place of the CancelledError.
        Raises SandboxUnavailable before anything ran (also if `read_only` is not possible),
        SandboxLost if the effect is unknown.
        """


SandboxKind = Literal["docker", "host"]


"""Where commands run: in a container, or on this machine."""


class Sandbox(RunsCommands, Protocol):
    """Where commands run. It never falls back to anything weaker."""

    async def start(self, on_progress: Callable[[str], None]) -> SandboxInfo:
        """Make it ready, once; later calls return at once. Raises SandboxUnavailable."""

    @property
    def is_ready(self) -> bool:
        """Whether `ready` would return at once."""

    async def ready(self) -> None:
        """Return once commands can run; only from then on `exposed` is known. Raises
        SandboxUnavailable."""

    @property
    def exposed(self) -> str:
        """Why commands may find files of secrets that are not hidden from them, as a phrase;
        usually empty."""

    @property
    def untried(self) -> str:
        """Why commands cannot be tried out, as a phrase; empty if they can. Known once
        `prepare_trials` has returned."""

    @property
    def tried_read_only(self) -> str:
        """Why the workspace is read-only for a command that is tried out, as a phrase; empty if it
        is not. Known when `untried` is."""

    async def prepare_trials(self) -> None:
        """Find out whether commands can be tried out, once, and wait until one can begin at once.
        Raises nothing."""

    async def finish_landings(self) -> tuple[str, ...]:
        """Finish taking what commands of ended processes had changed in this workspace; return a
        line about each. It need not be ready."""

    async def try_out(self, command: Command, on_output: OnOutput) -> "Trial":
        """Run a command as `run` does, in a view of the workspace. Raises as `run` does."""

    def frozen(self) -> AbstractAsyncContextManager[None]:
        """Pause everything inside during the block, so that the workspace stays as it is; nests.
        Raises SandboxLost."""

    async def start_program(self, program: StdioProgram) -> RunningProgram:
        """Start a program in its own container, see `StartProgram`."""

    async def listening(self) -> frozenset[int]:
        """Return the TCP ports on which processes inside listen now; empty if that cannot be
        known."""

    async def sweep(self) -> SandboxSweep:
        """Move away a `.git` or `.codeagent` that appeared at the root since a command ran; costs
        nothing if none ran.

        After `close` it returns, once, what was found when everything had ended.
        """

    async def set_aside(self, path: str) -> str:
        """Move one file or folder out of the workspace, unread; returns where it is. Raises
        OSError."""

    async def close(self) -> None:
        """Stop everything and remove it; idempotent."""


class Trial(Protocol):
    """A command that has run in a view of the workspace: nothing that it changed is in the
    workspace until it is landed."""

    @property
    def result(self) -> CommandResult: ...

    @property
    def began_ns(self) -> int:
        """When it began, in nanoseconds since the epoch, by the clock of `Entry.changed_ns`."""

    async def effects(self) -> "tuple[Effect, ...]":
        """Return what it would change, compared with the workspace as it is now. Raises TooMuch,
        OSError."""

    async def changes(self, effects: "Sequence[Effect]") -> tuple[Change[Node], ...]:
        """Return those of the effects whose contents are small enough to show. Raises OSError."""

    async def land(
        self,
        effects: "Sequence[Effect]",
        left: Collection[str] = (),
        parts: Sequence[Change[Node]] = (),
    ) -> None:
        """Land the effects without those at the paths in `left`, all or none; the files in `parts`
        with the content given there in place of what the command wrote.

        Raises ContentChanged if something is not as it was when they were read, WorkspaceError,
        PartlyChanged, OSError.
        """

    async def close(self) -> None:
        """Throw away what has not landed."""
