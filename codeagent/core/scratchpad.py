"""Notes of the model's own: kept outside of the conversation, so that they outlive its compaction (FEATURES F28)."""

from dataclasses import dataclass
from typing import Protocol


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
