"""The ports through which tools reach the world; real ones are beside their library, fakes in
tests."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol

from codeagent.core.cancel import CancelToken
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.display import QuestionBlock
from codeagent.core.messages import OutputStream

if TYPE_CHECKING:  # brings ipaddress, which most conversations do without
    from codeagent.core.effects import Trial
    from codeagent.core.hosts import Reach

FileKind = Literal["file", "directory", "link", "other"]


@dataclass(frozen=True)
class FileStat:
    kind: FileKind
    size: int
    """Bytes."""
    modified_ns: int = 0
    """When its content last changed, in nanoseconds since the epoch."""


@dataclass(frozen=True)
class DirEntry:
    name: str
    kind: FileKind
    size: int
    """Bytes; 0 for anything but a file."""
    link_target: str | None = None


class IgnoreRules(Protocol):
    """What `.gitignore`, `.ignore` and `.git/info/exclude` leave out, read once for one walk of the
    tree.

    Ask about a directory before its entries: a path inside an ignored directory is ignored.
    """

    @property
    def from_above(self) -> bool:
        """Whether ignore files above the root count, because the root is a folder of a
        repository."""

    def ignored(self, path: str, directory: bool) -> bool:
        """`path` is relative to the root. Unreadable ignore files count as empty."""


class Workspace(Protocol):
    """The files below a root directory that is opened once at start.

    Paths are relative to the root, or absolute inside it. Every operation opens beneath the root
    fd in one step; nothing is checked first and opened later. All raise WorkspaceError.
    """

    @property
    def root(self) -> Path:
        """The root's own path, for display and for the sandbox; never used to open a file."""

    def relative(self, path: str) -> str:
        """Return the path as shown to the user: relative to the root, `.` and `..` folded, `.` for
        the root.

        Raises OutsideWorkspace for a path that is lexically outside, or holds a NUL.
        """

    def resolve(self, path: str) -> str:
        """Return where the path leads after every link inside the workspace, relative to the root.

        The last part need not exist. The answer may be outdated at once: open it again beneath the
        root.
        """

    def check(self) -> None:
        """Raise WorkspaceLost if the root is no longer where it was, or may no longer be
        entered."""

    def descriptor(self) -> int:
        """The root directory's own descriptor, for the working directory of a child process."""

    def ignores(self) -> IgnoreRules:
        """Read the ignore rules as they are now; done again for each walk."""

    def key(self, path: str) -> str:
        """Return one string for all spellings of a file, for scheduling only; never raises."""

    def stat(self, path: str) -> FileStat:
        """Look at a file or folder; links inside the workspace are followed. Raises MissingPath."""

    def open(self, path: str) -> BinaryIO:
        """Open a regular file for reading, never blocking on a FIFO. Raises MissingPath,
        NotAFile."""

    def entries(self, path: str) -> Iterator[DirEntry]:
        """List a directory, links not followed, in byte order of the names."""

    def land(self, changes: Sequence[Change[Node]], *, forced: bool = False) -> None:
        """Make all of these changes, or none, each only on the state that it is based on.

        The paths are resolved, and each occurs once. Contents are flushed together before the first
        file gets its name; each file is replaced atomically, with its owner and extended
        attributes. Missing folders are made. `forced`: read-only files are changed too, as when
        changes are taken back. Raises ContentChanged if a state does not fit, PartlyChanged if what
        was made could not be taken back, ProtectedPath.
        """


class OutputSink(Protocol):
    """Stores the full text of one call's output as it comes."""

    @property
    def handle(self) -> str:
        """The handle for `output_read`."""

    def write(self, text: str) -> None:
        """Append; past the store's cap the text is counted and dropped."""

    def flush(self) -> None:
        """Make what was written so far readable, even after this process has ended."""

    def close(self) -> None:
        """Close it; an output that was never written to leaves nothing behind."""


@dataclass(frozen=True)
class OutputPage:
    lines: tuple[str, ...]
    first: int
    """Number of the first line, from 1."""
    total: int
    """Lines in the whole output."""
    dropped_bytes: int
    """Bytes past the store's cap, which were dropped."""


class OutputStore(Protocol):
    """Keeps outputs that are too long for the model's context, and images, as
    files."""

    def create(self, call_id: str) -> OutputSink: ...

    def read(self, handle: str, offset: int, lines: int) -> OutputPage:
        """Lines from `offset` (from 1). Raises KeyError for an unknown handle."""

    def handles(self) -> tuple[str, ...]: ...

    def keep_image(self, suffix: str, data: bytes) -> str: ...


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
    """Why nothing was taken of what it changed, if nobody was there to take it."""


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

    async def ready(self) -> None:
        """Return once commands can run; only from then on `exposed` is known. Raises
        SandboxUnavailable."""

    @property
    def exposed(self) -> str:
        """Why commands may find files of secrets that are not hidden from them, as a phrase;
        usually empty."""

    @property
    def untried(self) -> str:
        """Why commands cannot be tried out, as a phrase; empty if they can. Known once it is
        `ready`."""

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


@dataclass(frozen=True)
class Reply:
    """The user's reply to a question."""

    answer: str | None
    """None if they did not answer."""
    why: str = ""
    """Why not, if that is known."""


class Asker(Protocol):
    """Asks the user a question in the middle of a run."""

    async def ask(self, call_id: str, question: QuestionBlock, token: CancelToken) -> Reply:
        """Wait for the answer, which need not be one of the options, nor of the kinds of the form's
        fields.

        Raises RunCancelled.
        """


@dataclass(frozen=True)
class Skill:
    """A folder with a `SKILL.md`, as it is listed; hidden characters are escaped."""

    name: str
    """`[A-Za-z0-9][A-Za-z0-9_-]{0,63}`, unique."""
    description: str
    """One line: what it is about and when to use it."""
    place: Literal["user", "project"]
    where: str
    """Path of its SKILL.md, relative to the workspace, or absolute."""


@dataclass(frozen=True)
class SkillText:
    """The text of a skill, read on demand."""

    text: str
    """Markdown without its front matter, or the text of one of the files; hidden characters are
    escaped."""
    files: tuple[str, ...] = ()
    """The other files: for a project's skill relative to the workspace, for a user's relative to
    its folder."""


class Skills(Protocol):
    """The skills that exist, the user's before the project's, each sorted by name."""

    @property
    def listed(self) -> tuple[Skill, ...]: ...

    def read(self, name: str, file: str | None = None) -> SkillText:
        """The body of a skill, or a text file of a user's skill, as it is on disk now; blocks.

        Raises KeyError for an unknown skill, WorkspaceError if the file is missing, leads
        elsewhere, or is not text.
        """


@dataclass(frozen=True)
class Hit:
    session: str
    at: float
    """Seconds since the epoch."""
    what: Literal["prompt", "answer", "command"]
    snippet: str
    """One line around the first match; hidden characters are escaped."""


@dataclass(frozen=True)
class Found:
    hits: tuple[Hit, ...]
    """The newest first."""
    sessions: int
    """How many sessions of this workspace were searched."""
    complete: bool
    """False if older sessions were left out, because enough was found or it took too long."""


class Memory(Protocol):
    def search(self, words: tuple[str, ...], limit: int) -> Found:
        """Find the prompts, answers and commands with all the words, ignoring case. Blocks for a
        bounded time."""


@dataclass(frozen=True)
class Note:
    key: str
    size: int
    """Characters of its value."""


class Scratchpad(Protocol):
    """Values by key. Secrets are masked before anything is kept, so `get` may return less than was
    set.

    Every method blocks on a small file; if it raises SessionError, nothing was changed. A part of
    one (for a sub-agent) is another Scratchpad that puts a prefix in front of every key.
    """

    def get(self, key: str) -> str | None: ...

    def set(self, key: str, value: str) -> None:
        """Also raises ScratchpadFull."""

    def append(self, key: str, value: str) -> None:
        """Append on a new line; a missing key is created. Also raises ScratchpadFull."""

    def delete(self, key: str) -> bool:
        """False if the key does not exist."""

    def list(self) -> tuple[Note, ...]:
        """By key."""


class ScratchpadFull(Exception):
    """It would become larger than allowed; the text says what is too large and what could be
    removed."""
