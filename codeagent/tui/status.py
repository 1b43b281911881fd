"""The facts in the header and the status line, by who reads them."""

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal

from codeagent.core.dataclass import dataclass
from codeagent.tui.transcript.spelling import counted, dollars, tokens

if TYPE_CHECKING:  # the first frame does not show any
    from codeagent.core.memory import TodoItem
    from codeagent.core.sandbox import SandboxInfo

Phase = (
    Literal["starting", "idle", "asking", "thinking", "answering", "writing", "retrying"]
    | Literal["working", "waiting", "compacting"]
)
"""What the run is doing. asking to retrying: see `core.pulse`. waiting: for the user. compacting:
the conversation is being summarized."""
Halt = Literal["", "pausing", "paused", "stopping"]
"""What the user did to a run, or how it waits for the user; no piece of an answer changes it.

pausing: it will wait at the next boundary. paused: it waits. stopping: it is being ended.
"""


@dataclass(frozen=True)
class RunStatus:
    """The run, and what it waits for."""

    phase: Phase = "starting"
    halt: Halt = ""
    in_run: bool = False
    """Whether a run is in progress."""
    since: float = 0.0
    """Seconds since the epoch when the run, or this wait, began."""
    batch: int = 0
    """The batch that is running or is paused before, from 1; 0 for none."""
    retry_reason: str = ""
    stepping: bool = False
    """Whether the run pauses before every batch."""
    ended: str = ""
    """How the last run ended, a `core.events.RunReason`; empty if none has yet."""
    waits_since: float | None = None
    """When the call that the agent has waited for longest began, in seconds since the epoch; None
    if there is none."""


@dataclass(frozen=True)
class FolderStatus:
    """The folder that is worked in; empty while not yet known."""

    workspace: str = ""
    """The folder's name."""
    branch: str = ""
    changes: int = 0
    """Files that differ from the last commit."""


@dataclass(frozen=True)
class ConversationStatus:
    """What the conversation works with; empty while not yet known."""

    model: str = ""
    mode: str = "ask"
    sandbox: str = ""
    """A word: `docker`, `off`, `none`, `starting`."""
    network: str = "ask"
    """What commands with network access may reach in the sandbox."""
    session: str = ""


@dataclass(frozen=True)
class UsageStatus:
    """What the session has used, and what it may use."""

    context_tokens: int = 0
    """The prompt tokens of the last request."""
    context_window: int | None = None
    cost_usd: float | None = None
    input_tokens: int = 0
    """Over the whole session, cached ones included."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    estimated: bool = False
    budget: str = ""
    """What is left of it, in a few words; empty without a budget."""


@dataclass(frozen=True)
class WorkStatus:
    """What is under way, or to be kept in mind."""

    jobs: int = 0
    """How many calls run in the background."""
    commands: int = 0
    """How many commands of the user's own are running."""
    pins: tuple[str, ...] = ()
    """The lines that every compaction keeps."""
    todo: "tuple[TodoItem, ...]" = ()
    """The model's to-do list."""


@dataclass(frozen=True)
class ScreenStatus:
    """What only the screen itself knows."""

    on_card: bool = False
    """Whether keys go to the waiting card, not to the composer."""
    reading: tuple[str, ...] = ()
    """What the keys do while the conversation has the focus, the most useful first."""
    detailed: bool = False
    """Whether everything is shown at full detail."""
    notice: str = ""
    """One short line shown instead of the hints: what just happened."""


@dataclass(frozen=True)
class Status:
    """The facts in the header and the status line, by who reads them."""

    run: RunStatus = RunStatus()
    folder: FolderStatus = FolderStatus()
    conversation: ConversationStatus = ConversationStatus()
    usage: UsageStatus = UsageStatus()
    work: WorkStatus = WorkStatus()
    screen: ScreenStatus = ScreenStatus()

    def changed(self, **changes: Any) -> "Status":
        """Replace fields of the parts by name. Raises KeyError for a name that no part has."""
        by_part: dict[str, dict[str, Any]] = {}
        for name, value in changes.items():
            by_part.setdefault(_PART_OF[name], {})[name] = value
        parts = {part: replace(getattr(self, part), **new) for part, new in by_part.items()}
        return replace(self, **parts)

    def known(self) -> dict[str, Any]:
        """Return the fields of the parts that are not as they are at the start."""
        start = Status()
        values = {
            name: (getattr(getattr(self, part), name), getattr(getattr(start, part), name))
            for name, part in _PART_OF.items()
        }
        return {name: value for name, (value, before) in values.items() if value != before}


_PART_OF = {
    each.name: part.name for part in fields(Status) for each in fields(getattr(Status(), part.name))
}
"""The part of the status that has a field; no two have one of the same name."""


def sandbox_words(info: "SandboxInfo | None") -> str:
    """Describe the sandbox in a word or two."""
    if info is None:
        return "none"
    if info.kind != "docker":
        return "off" if info.kind == "host" else "not needed: a replay"
    return "docker"


def fields_of(status: Status) -> dict[str, str]:
    """Return the fields that a user's template may have, except `command`; those without a value
    are empty."""
    usage, folder = status.usage, status.folder
    about = "~" if usage.estimated else ""
    window = f"/{tokens(usage.context_window)}" if usage.context_window else ""
    cached = min(100, round(100 * usage.cache_read_tokens / max(1, usage.input_tokens)))
    return {
        "model": status.conversation.model,
        "mode": status.conversation.mode,
        "branch": folder.branch + (f" ±{folder.changes}" if folder.changes else ""),
        "context": f"{about}{tokens(usage.context_tokens)}{window} ctx"
        if usage.context_tokens
        else "",
        "cost": _cost(usage, about),
        "cache": f"cache {cached}%" if usage.cache_read_tokens and usage.input_tokens else "",
        "jobs": counted(status.work.jobs, "job", "jobs") if status.work.jobs else "",
    }


def _cost(usage: UsageStatus, about: str) -> str:
    if usage.cost_usd is not None:
        return about + dollars(usage.cost_usd)
    return "no price" if usage.input_tokens else ""
