"""Triggers: what the agent asked to be told of later, as those who set, list and stop them see them (FEATURES F31)."""

from typing import Literal, Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.json_types import BaseEvent

TriggerKind = Literal["timer", "schedule", "file"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Trigger:
    """One trigger as it is now."""

    id: str
    """`trigger-1`, `trigger-2`, …: unique within the session."""
    kind: TriggerKind
    when: str
    """In words: `once`, `every 60 s`; the words of a schedule, or the pattern of the files."""
    prompt: str
    """What the model wants to be told when it fires."""
    at_most: int
    """How often it fires in all."""
    every: float | None = None
    """Seconds from one time to the next; None if it is not a timer that repeats."""
    due: float | None = None
    """When it fires next, in seconds since the epoch; None for watched files."""
    fired: int = 0
    mark: str = ""
    """A hash of the files as they were at the last look."""

    @property
    def title(self) -> str:
        """One line about it."""
        return f"{self.kind} {self.when}: {self.prompt}"

    @property
    def over(self) -> bool:
        """It has fired for the last time."""
        return self.fired >= self.at_most or (self.kind in ("timer", "schedule") and self.due is None)


@dataclass(frozen=True, kw_only=True, slots=True)
class TriggerAdded(BaseEvent):
    type: Literal["trigger.added"] = "trigger.added"
    trigger: Trigger


@dataclass(frozen=True, kw_only=True, slots=True)
class TriggerFired(BaseEvent):
    """It fired, between turns; the model is told by a message that is a pure function of this."""

    type: Literal["trigger.fired"] = "trigger.fired"
    trigger: Trigger
    """As it is afterwards."""
    what: str
    """What happened, as a phrase; empty if only the time has come."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TriggerStopped(BaseEvent):
    type: Literal["trigger.stopped"] = "trigger.stopped"
    trigger: Trigger
    """As it is afterwards: `at_most` is how often it fired."""
    by: Literal["agent", "user"]


TriggerEvent = TriggerAdded | TriggerFired | TriggerStopped


class TriggerBook(Protocol):
    """The triggers of one session, including those that an earlier process left."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def triggers(self) -> tuple[Trigger, ...]:
        """Those that can still fire, in the order they were set."""

    async def add(
        self,
        kind: TriggerKind,
        when: str,
        prompt: str,
        *,
        at_most: int,
        every: float | None = None,
        due: float | None = None,
    ) -> Trigger:
        """Set one; `when` says how often, or which schedule or files. Raises Failed."""

    def stop(self, trigger_id: str, by: Literal["agent", "user"]) -> Trigger | None:
        """The trigger that was stopped; None if there is none of that id."""
