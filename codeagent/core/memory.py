"""What was said in earlier sessions of a workspace, to be searched (FEATURES F28)."""

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
