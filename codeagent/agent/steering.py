"""What the person typed and did while the agent was working: two lanes and notes, delivered at boundaries."""

from dataclasses import replace

from codeagent.agent.emitter import Emitter
from codeagent.core.events import MessageAdded, QueueKind, SteerDelivered, SteerQueued
from codeagent.core.messages import UserMessage
from codeagent.core.runtime import Queued


class Steering:
    """The queues. What was queued is logged before anything is told that it was."""

    def __init__(self, emitter: Emitter, waiting: tuple[Queued, ...] = (), notes: tuple[UserMessage, ...] = ()) -> None:
        self._emitter = emitter
        self._waiting = list(waiting)
        self._notes = list(notes)

    @property
    def waiting(self) -> tuple[Queued, ...]:
        return tuple(self._waiting)

    @property
    def interrupts(self) -> tuple[Queued, ...]:
        """What asks for the calls not yet started to be skipped."""
        return tuple(item for item in self._waiting if item.kind == "interrupt")

    def add(self, kind: QueueKind, text: str) -> str:
        head = self._emitter.head()
        item = Queued(f"q{head['seq']}", kind, text)
        self._waiting.append(item)
        self._emitter.emit(SteerQueued(**head, id=item.id, kind=kind, text=text))
        return item.id

    def add_note(self, note: UserMessage) -> None:
        """Tell the model at the next boundary; the log holds already what the note is made of."""
        self._notes.append(note)

    def take_back(self, queued_id: str) -> str | None:
        item = next((item for item in self._waiting if item.id == queued_id), None)
        if item is None:
            return None
        self._remove(item, taken_back=True)
        return item.text

    def rewrite(self, queued_id: str, text: str) -> bool:
        """Other words in the same place; False where it does not wait any more."""
        at = self._position(queued_id)
        if at is None:
            return False
        item = self._waiting[at] = replace(self._waiting[at], text=text)
        self._emitter.emit(SteerQueued(**self._emitter.head(), id=item.id, kind=item.kind, text=text))
        return True

    def move(self, queued_id: str, position: int) -> bool:
        """To that place among all that waits; False where it does not wait any more."""
        at = self._position(queued_id)
        if at is None:
            return False
        self._waiting.insert(max(0, position), self._waiting.pop(at))
        ids = [item.id for item in self._waiting]
        self._emitter.notice("queue.ordered", "the queue has another order", ids=ids)
        return True

    def take_back_all(self) -> None:
        """After an abort: everything returns to the composer."""
        for item in self.waiting:
            self._remove(item, taken_back=True)

    def deliver_notes(self) -> list[UserMessage]:
        notes, self._notes = self._notes, []
        for note in notes:
            self._emitter.emit(MessageAdded(**self._emitter.head(), message=note))
        return notes

    def deliver_steering(self) -> list[UserMessage]:
        """Everything meant for the boundary, in the order it was typed."""
        return [self._deliver(item) for item in self.waiting if item.kind != "follow_up"]

    def deliver_follow_up(self) -> list[UserMessage]:
        """The oldest follow-up; each gets the agent's attention for itself."""
        item = next((item for item in self._waiting if item.kind == "follow_up"), None)
        return [self._deliver(item)] if item else []

    def _position(self, queued_id: str) -> int | None:
        return next((at for at, item in enumerate(self._waiting) if item.id == queued_id), None)

    def _deliver(self, item: Queued) -> UserMessage:
        message = UserMessage.from_text(item.text, source=item.kind)
        self._remove(item, taken_back=False)
        self._emitter.emit(MessageAdded(**self._emitter.head(), message=message))
        return message

    def _remove(self, item: Queued, *, taken_back: bool) -> None:
        self._waiting.remove(item)
        self._emitter.emit(SteerDelivered(**self._emitter.head(), id=item.id, kind=item.kind, taken_back=taken_back))
