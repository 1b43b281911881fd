"""Triggers: what the agent wants to be told about later."""

from typing import Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.json_types import BaseEvent

TriggerKind = Literal["timer", "schedule", "file"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Trigger:
    """A trigger as it is now."""

    id: str
    """`trigger-1`, `trigger-2`, …: unique within the session."""
    kind: TriggerKind
    when: str
    """`once`, `every 60 s`, the words of a schedule, or the pattern of the files."""
    prompt: str
    """What the model wants to be told when it fires."""
    at_most: int
    """How often it fires at most."""
    every: float | None = None
    """Seconds between two firings; None if it is not a repeating timer."""
    due: float | None = None
    """When it fires next, in seconds since the epoch; None for watched files."""
    fired: int = 0
    mark: str = ""
    """A hash of the files at the last look."""

    @property
    def title(self) -> str:
        """Describe it in one line."""
        return f"{self.kind} {self.when}: {self.prompt}"

    @property
    def over(self) -> bool:
        """Whether it has fired for the last time."""
        return self.fired >= self.at_most or (
            self.kind in ("timer", "schedule") and self.due is None
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TriggerAdded(BaseEvent):
    type: Literal["trigger.added"] = "trigger.added"
    trigger: Trigger


@dataclass(frozen=True, kw_only=True, slots=True)
class TriggerFired(BaseEvent):
    """A trigger fired, between turns; the model is told in a note that is a pure function of this
    event."""

    type: Literal["trigger.fired"] = "trigger.fired"
    trigger: Trigger
    """As it is afterwards."""
    what: str
    """What happened, as a phrase; empty if it was just due."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TriggerStopped(BaseEvent):
    type: Literal["trigger.stopped"] = "trigger.stopped"
    trigger: Trigger
    """As it is afterwards: `at_most` is how often it fired."""
    by: Literal["agent", "user"]


TriggerEvent = TriggerAdded | TriggerFired | TriggerStopped
