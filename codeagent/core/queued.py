"""Text that was typed while a run was going on, as the agent, the log and the screen keep it until it is delivered."""

from dataclasses import dataclass
from typing import Literal

QueueKind = Literal["steer", "interrupt", "follow_up"]
"""Delivered at the next boundary; there, with the rest of the batch skipped; or when the agent would stop."""


@dataclass(frozen=True)
class Queued:
    """One text that waits for its boundary."""

    id: str
    kind: QueueKind
    text: str
    taken_out: bool = False
    """A log says that it left its queue, but not the message it became."""
