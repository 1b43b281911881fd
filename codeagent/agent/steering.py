"""What the person typed and did while the agent was working: two lanes and notes, delivered at boundaries."""

import asyncio
from dataclasses import replace

from codeagent.agent.emitter import Emitter
from codeagent.agent.hooks.hook import Deny
from codeagent.agent.submission import Submission
from codeagent.core.cancel import CancelToken
from codeagent.core.events import MessageAdded, SteerDelivered, SteerQueued
from codeagent.core.messages import UserMessage
from codeagent.core.notices import QueueOrdered
from codeagent.core.queued import Queued, QueueKind


class Steering:
    """The queues. What was queued is logged before anything is told that it was."""

    def __init__(
        self,
        emitter: Emitter,
        submission: Submission,
        waiting: tuple[Queued, ...] = (),
        notes: tuple[UserMessage, ...] = (),
    ) -> None:
        self._emitter = emitter
        self._submission = submission
        self._waiting = list(waiting)
        self._notes = list(notes)
        self._waking: list[UserMessage] = []
        self._typed = asyncio.Event()
        self._look_who_waits()
        self._admitted: dict[Queued, tuple[UserMessage, ...]] = {}
        """What the hooks let through, in these words, and the notes that go with it."""

    @property
    def waiting(self) -> tuple[Queued, ...]:
        return tuple(self._waiting)

    @property
    def interrupts(self) -> tuple[Queued, ...]:
        """What asks for the calls not yet started to be skipped, as far as the model may be told."""
        return tuple(item for item in self._waiting if item.kind == "interrupt" and self._may_go(item))

    def add(self, kind: QueueKind, text: str) -> str:
        item = Queued(f"q{self._emitter.next_seq}", kind, text)
        self._waiting.append(item)
        self._look_who_waits()
        self._emitter.emit(SteerQueued(id=item.id, kind=kind, text=text))
        return item.id

    async def typed(self) -> None:
        """Return once some text waits for the next boundary."""
        await self._typed.wait()

    def add_note(self, note: UserMessage, *, wakes: bool = False) -> None:
        """Tell the model at the next boundary; the log holds already what the note is made of.

        `wakes`: it is a reason to make another request.
        """
        self._notes.append(note)
        if wakes:
            self._waking.append(note)

    def waits(self, note: UserMessage) -> bool:
        """The note has not been delivered yet."""
        return note in self._notes

    def drop_note(self, note: UserMessage) -> None:
        """The model was told in another way."""
        self._notes = [other for other in self._notes if other != note]
        self._waking = [other for other in self._waking if other != note]

    @property
    def wakes(self) -> bool:
        """Some note is a reason to make another request."""
        return bool(self._waking)

    def rest(self) -> None:
        """After a run that did not come to its end: what it was not told waits for the person's next word."""
        self._waking.clear()

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
        self._emitter.emit(SteerQueued(id=item.id, kind=item.kind, text=text))
        return True

    def move(self, queued_id: str, position: int) -> bool:
        """To that place among all that waits; False where it does not wait any more."""
        at = self._position(queued_id)
        if at is None:
            return False
        self._waiting.insert(max(0, position), self._waiting.pop(at))
        ids = [item.id for item in self._waiting]
        self._emitter.emit(QueueOrdered(text="the queue has another order", ids=tuple(ids)))
        return True

    def take_back_all(self) -> None:
        """After an abort: everything returns to the composer."""
        for item in self.waiting:
            self._remove(item, taken_back=True)

    @property
    def deliverable(self) -> bool:
        """A run could begin with what waits."""
        steering = [item for item in self._waiting if item.kind != "follow_up"]
        return any(self._may_go(item) for item in steering or self._waiting[:1])

    async def admit(self, token: CancelToken, *, follow_up: bool = False) -> bool:
        """Ask the hooks about what is due; what they deny goes back to the person. Call it before delivering.

        `follow_up`: where nothing else waits, the oldest follow-up is due. True where an interrupt was denied: its
        words go back, but the person has stepped in. Raises RunCancelled.
        """
        interrupted = False
        while (item := self._unasked(follow_up)) is not None:
            answer = await self._submission.ask(item.text, item.kind, token)
            if item not in self._waiting:
                continue
            if isinstance(answer, Deny):
                interrupted |= item.kind == "interrupt"
                self._remove(item, taken_back=True)
                self._submission.tell_denied(item.kind, answer)
            else:
                self._admitted[item] = answer
        return interrupted

    def deliver_notes(self) -> list[UserMessage]:
        notes, self._notes = self._notes, []
        self._waking.clear()
        for note in notes:
            self._emitter.emit(MessageAdded(message=note))
        return notes

    def deliver_steering(self) -> list[UserMessage]:
        """Everything meant for the boundary, in the order it was typed."""
        due = [item for item in self.waiting if item.kind != "follow_up" and self._may_go(item)]
        return [message for item in due for message in self._deliver(item)]

    def deliver_follow_up(self) -> list[UserMessage]:
        """The oldest follow-up; each gets the agent's attention for itself."""
        item = next((item for item in self._waiting if item.kind == "follow_up"), None)
        return self._deliver(item) if item and self._may_go(item) else []

    def _unasked(self, follow_up: bool) -> Queued | None:
        due = [item for item in self._waiting if item.kind != "follow_up"]
        if follow_up and not due:
            due = self._waiting[:1]
        return next((item for item in due if not self._may_go(item)), None)

    def _may_go(self, item: Queued) -> bool:
        return not self._submission.judged or item in self._admitted

    def _look_who_waits(self) -> None:
        if any(item.kind != "follow_up" for item in self._waiting):
            self._typed.set()
        else:
            self._typed.clear()

    def _position(self, queued_id: str) -> int | None:
        return next((at for at, item in enumerate(self._waiting) if item.id == queued_id), None)

    def _deliver(self, item: Queued) -> list[UserMessage]:
        messages = [UserMessage.from_text(item.text, source=item.kind), *self._admitted.get(item, ())]
        self._remove(item, taken_back=False)
        for message in messages:
            self._emitter.emit(MessageAdded(message=message))
        return messages

    def _remove(self, item: Queued, *, taken_back: bool) -> None:
        self._waiting.remove(item)
        self._admitted.pop(item, None)
        self._look_who_waits()
        self._emitter.emit(SteerDelivered(id=item.id, kind=item.kind, taken_back=taken_back))
