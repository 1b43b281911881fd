"""What an earlier process left of a conversation."""

from dataclasses import dataclass, field

from codeagent.core.acts import Queued
from codeagent.core.history import BranchingHistory, CheckpointTimeline
from codeagent.core.jobs import EndedJob
from codeagent.core.messages import Message, UserMessage


@dataclass(frozen=True)
class RestoredSession:
    """What an earlier process left in the session's log; empty for a new session."""

    line: BranchingHistory[Message] = field(default_factory=BranchingHistory)
    """A valid transcript: every call in it has its result."""
    call_ids: frozenset[str] = frozenset()
    """Of every call there ever was, also of those that were taken back."""
    timeline: CheckpointTimeline = field(default_factory=CheckpointTimeline)
    queued: tuple[Queued, ...] = ()
    """Typed and never delivered."""
    notes: tuple[UserMessage, ...] = ()
    """Of shared commands and ends of jobs, never delivered."""
    jobs: tuple[EndedJob, ...] = ()
    """All there ever were."""
