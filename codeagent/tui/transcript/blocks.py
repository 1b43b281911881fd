"""The entries of the transcript as plain data, independent of events and widgets."""

from dataclasses import field
from typing import TYPE_CHECKING, Literal

from codeagent.core.dataclass import dataclass
from codeagent.tui.rendering.output_buffer import OutputBuffer

if TYPE_CHECKING:  # the first frame does not show calls
    from codeagent.core.display import DisplayBlock
    from codeagent.core.messages import Attachment

Detail = Literal["quiet", "normal", "full"]
"""How much of batches, tool cards and thinking is shown: one line each, the usual amount, or
everything."""
CallState = Literal[
    "planned",
    "asking",
    "running",
    "background",
    "done",
    "failed",
    "denied",
    "skipped",
    "cancelled",
    "timeout",
    "stopped",
    "lost",
]
"""background: it continues as a job. stopped, lost: how a job ended."""
Level = Literal["info", "told", "provider", "warning", "error"]
"""told: something the model was told besides the user's messages."""
ENDED: frozenset[CallState] = frozenset(
    {"done", "failed", "denied", "skipped", "cancelled", "timeout", "stopped", "lost"}
)


class Pieces:
    """A text in pieces. `replaced` counts how often the text was replaced instead of extended."""

    def __init__(self, text: str = "") -> None:
        self._parts = [text] if text else []
        self.length = len(text)
        """Its length in characters."""
        self.newlines = text.count("\n")
        self.replaced = 0

    @property
    def text(self) -> str:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    def append(self, piece: str) -> None:
        self._parts.append(piece)
        self.length += len(piece)
        self.newlines += piece.count("\n")

    def replace(self, text: str) -> None:
        self._parts = [text] if text else []
        self.length = len(text)
        self.newlines = text.count("\n")
        self.replaced += 1

    def last(self, count: int) -> str:
        """Return the last `count` characters; the cost does not depend on the pieces before
        them."""
        found: list[str] = []
        for part in reversed(self._parts):
            if count <= 0:
                break
            found.append(part[-count:])
            count -= len(part)
        return "".join(reversed(found))

    def since(self, length: int) -> str:
        """Return what was added since the text was `length` characters long."""
        return self.last(self.length - length)


@dataclass(eq=False)
class Block:
    """One entry of the transcript. Blocks are only ever added at the end; the last few may
    change."""

    key: int
    """Its index in the document, from 0."""
    version: int = 0
    """Increases with every change; its drawn rows are valid until then."""
    detail: Detail | None = None
    """The detail that the user chose for this block; None for that of the whole transcript."""


@dataclass(eq=False)
class PromptBlock(Block):
    """What the user said: at the start of a run, or while it ran."""

    text: str = ""
    source: str = "prompt"
    """prompt, steer, interrupt, follow_up, or note (written by codeagent itself)."""
    attached: "tuple[Attachment, ...]" = ()
    """What it brought with it."""


@dataclass(eq=False)
class Greeting(Block):
    """The greeting of a new session, so that its screen is not empty."""

    rows: tuple[tuple[str, str], ...] = ()
    """Label and text; the first row is the title."""


@dataclass(eq=False)
class _Streamed(Block):
    pieces: Pieces = field(default_factory=Pieces)
    open: bool = True
    """Whether it may still grow."""

    @property
    def text(self) -> str:
        return self.pieces.text


@dataclass(eq=False)
class AnswerBlock(_Streamed):
    """The model's answer, in Markdown."""

    cut: bool = False
    """The stream broke off here."""
    stale: bool = False
    """The stream broke off here, and the request is made again: the next attempt replaces it."""


@dataclass(eq=False)
class Thoughts(_Streamed):
    """The model's reasoning; folded to one line unless the detail is full."""

    began: float = 0.0
    """Seconds since the epoch."""
    ended: float | None = None


@dataclass(eq=False)
class ChildView:
    """The child agent that a call started."""

    name: str
    session: str
    blocks: "list[AnyBlock]"
    """The blocks of its conversation, which its events extend."""
    phase: str = ""
    """What it is doing; empty once it has ended."""
    calls: int = 0
    tokens: int = 0
    cost_usd: float | None = None


@dataclass(eq=False)
class CallCard:
    """One tool call."""

    call_id: str
    name: str
    target: str
    state: CallState = "planned"
    asks: bool = False
    """Whether the batch was planned with an approval for this call."""
    began: float | None = None
    """Seconds since the epoch."""
    duration_ms: int = 0
    note: str = ""
    """A few words on the outcome: `212 lines`, `exit 1`, `+3 −1`."""
    progress: str = ""
    job: str = ""
    """The id of the job that it became."""
    output: OutputBuffer | None = None
    """What it printed so far or, once it has ended, in all."""
    shown: "tuple[DisplayBlock, ...]" = ()
    error: str = ""
    said: str = ""
    """The user's answer about it, in words."""
    child: ChildView | None = None


@dataclass(eq=False)
class Batch(Block):
    """The calls that run before the next point where the user can step in."""

    number: int = 0
    cards: list[CallCard] = field(default_factory=list)
    finished: bool = False
    duration_ms: int = 0


@dataclass(eq=False)
class CommandBlock(Block):
    """A shell command the user ran with `!` or `!!`."""

    card: CallCard = field(default_factory=lambda: CallCard("", "shell", ""))
    shared: bool = True
    """Whether the model sees it."""


@dataclass(eq=False)
class Remark(Block):
    """One line from codeagent itself: a notice, a mode, a checkpoint."""

    level: Level = "info"
    text: str = ""


@dataclass(eq=False)
class Ending(Block):
    """How a run ended; `lines` say what was stopped, killed, kept and not run. The text of one that
    is done says how much work it was."""

    reason: str = "done"
    """done, failed, limit, denied or interrupted."""
    text: str = ""
    lines: tuple[str, ...] = ()


AnyBlock = Greeting | PromptBlock | AnswerBlock | Thoughts | Batch | CommandBlock | Remark | Ending
