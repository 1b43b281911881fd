"""What every event carries besides its own fields: which one it is, when it happened, and in which session."""

from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

VERSION = 1
_UNSTAMPED = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseEvent:
    """The envelope of every event. Whoever makes one leaves it out; who emits it adds it with `stamped`."""

    durable: ClassVar[bool] = True

    v: int = VERSION
    seq: int = _UNSTAMPED
    """Strictly increasing within a session; deltas that are merged or not logged leave gaps."""
    ts: float = _UNSTAMPED
    """Seconds since the epoch, UTC. Order is `seq`, never `ts`."""
    session: str = ""
    agent: str = "main"


EventT = TypeVar("EventT", bound=BaseEvent)


def stamped(event: EventT, *, seq: int, ts: float, session: str, agent: str) -> EventT:
    """The event in its envelope."""
    return replace(event, seq=seq, ts=ts, session=session, agent=agent)


def is_stamped(event: BaseEvent) -> bool:
    """False for an event that was made and never emitted, and for a record that lacks its envelope."""
    return event.seq != _UNSTAMPED and event.ts != _UNSTAMPED and bool(event.session)
