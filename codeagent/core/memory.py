"""What the model can keep or find beyond its conversation: notes of its own, and earlier sessions (FEATURES F28)."""

from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True)
class Hit:
    session: str
    at: float
    """Seconds since the epoch."""
    what: Literal["prompt", "answer", "command"]
    snippet: str
    """One line around the first match; hidden characters are escapes."""


@dataclass(frozen=True)
class Found:
    hits: tuple[Hit, ...]
    """The newest first."""
    sessions: int
    """How many sessions of this workspace were looked through."""
    complete: bool
    """False where older sessions were left out: enough was found, or it took too long."""


class Memory(Protocol):
    def search(self, words: tuple[str, ...], limit: int) -> Found:
        """Where all the words stand in one prompt, answer or command, in any case. Blocks, for a bounded time."""


@dataclass(frozen=True)
class Note:
    key: str
    size: int
    """Characters of its value."""


class Scratchpad(Protocol):
    """Values by key. Secrets are masked before anything is kept, so `get` may give less than was set.

    Every method blocks on a small file and raises SessionError; nothing was changed then. A part of one (for a
    sub-agent) is another Scratchpad that puts a prefix in front of every key.
    """

    def get(self, key: str) -> str | None: ...

    def set(self, key: str, value: str) -> None:
        """Also raises ScratchpadFull."""

    def append(self, key: str, value: str) -> None:
        """On a line of its own, to what is there; a missing key is made. Also raises ScratchpadFull."""

    def delete(self, key: str) -> bool:
        """False where there is none."""

    def list(self) -> tuple[Note, ...]:
        """By key."""


class ScratchpadFull(Exception):
    """It would be larger than it may be; the text says what is too large and what could go."""
