"""What an agent keeps beside its conversation, and finds again: its to-do list, outputs, notes,
skills and past sessions."""

from collections.abc import Sequence
from typing import Literal, Protocol

from codeagent.core.dataclass import dataclass, record
from codeagent.core.json_types import BaseEvent

TodoState = Literal["pending", "active", "done"]
MARKS: dict[TodoState, str] = {"pending": "[ ]", "active": "[>]", "done": "[x]"}
"""How an item begins where it is text."""


@record
class TodoItem:
    """One step of the plan."""

    text: str
    """One line."""
    state: TodoState = "pending"

    def __str__(self) -> str:
        return f"{MARKS[self.state]} {self.text}"


@record
class TodoChanged(BaseEvent):
    """The list of the event's agent changed: the model wrote it, or the conversation went back to
    an earlier one."""

    type: Literal["todo.changed"] = "todo.changed"
    items: tuple[TodoItem, ...]
    """The whole list, in order."""


class TodoList(Protocol):
    """The to-do list of one agent."""

    @property
    def items(self) -> tuple[TodoItem, ...]:
        """The list as it is now."""

    def change(self, items: tuple[TodoItem, ...]) -> None:
        """Replace the whole list."""


def how_far(items: Sequence[TodoItem]) -> str:
    """Say how much of the list is done: `2 of 5 done`."""
    return f"{sum(item.state == 'done' for item in items)} of {len(items)} done"


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
