"""The message queue: what the user typed during a run, and notes for the model, delivered at
boundaries."""

import asyncio
from dataclasses import replace
from typing import Literal

from codeagent.agent.emitter import Emitter
from codeagent.agent.hooks.hook import Deny, Hooks, PromptSource, SubmittedPrompt
from codeagent.core.acts import Queued, QueueKind
from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.events import MessageAdded, SteerDelivered, SteerQueued
from codeagent.core.messages import UserMessage
from codeagent.core.notes import ADDED, framed
from codeagent.core.notices import QueueOrdered


@dataclass(frozen=True)
class Delivery:
    """How many of the queued texts of each group are delivered at one boundary."""

    steer: Literal["all", "one"] = "all"
    follow_up: Literal["all", "one"] = "one"


class MessageQueue:
    """Steering, interrupts and follow-ups in the order they were typed, and the notes for the
    model.

    Text is logged before anybody is told that it is queued, and the hooks are asked before it is
    sent.
    """

    def __init__(
        self,
        emitter: Emitter,
        hooks: Hooks,
        waiting: tuple[Queued, ...] = (),
        notes: tuple[UserMessage, ...] = (),
        delivery: Delivery | None = None,
    ) -> None:
        self._delivery = delivery or Delivery()
        self.closed = False
        """The conversation ends with its process: what waits is for the next one."""
        self._steered = False
        """Steering was delivered at this boundary."""
        self._emitter = emitter
        self._hooks = hooks
        self._waiting = list(waiting)
        self._notes = list(notes)
        self._waking: list[UserMessage] = []
        self._typed = asyncio.Event()
        self._update_typed()
        self._admitted: dict[Queued, tuple[UserMessage, ...]] = {}
        """The texts that the hooks allowed unchanged, with the notes to send with them."""

    @property
    def waiting(self) -> tuple[Queued, ...]:
        return tuple(self._waiting)

    @property
    def interrupts(self) -> tuple[Queued, ...]:
        """The interrupts that may be sent: they skip the calls that have not started."""
        return tuple(
            item for item in self._waiting if item.kind == "interrupt" and self._may_go(item)
        )

    def add(self, kind: QueueKind, text: str) -> str:
        item = Queued(f"q{self._emitter.next_seq}", kind, text)
        self._waiting.append(item)
        self._update_typed()
        self._emitter.emit(SteerQueued(id=item.id, kind=kind, text=text))
        return item.id

    async def typed(self) -> None:
        """Wait until the user has typed text that is due at the next boundary."""
        await self._typed.wait()

    def add_note(self, note: UserMessage, *, wakes: bool = False) -> None:
        """Queue a note for the next boundary; the log already holds the events behind it.

        `wakes`: the note is a reason to make another request.
        """
        self._notes.append(note)
        if wakes:
            self._waking.append(note)

    def waits(self, note: UserMessage) -> bool:
        """Whether the note still waits to be delivered."""
        return note in self._notes

    def drop_note(self, note: UserMessage) -> None:
        """Remove a note that the model no longer needs."""
        self._notes = [other for other in self._notes if other != note]
        self._waking = [other for other in self._waking if other != note]

    @property
    def wakes(self) -> bool:
        """Whether a note is a reason to make another request."""
        return bool(self._waking)

    def rest(self) -> None:
        """Make the notes wait for the user's next text; called after a run that did not reach its
        end."""
        self._waking.clear()

    def take_back(self, queued_id: str) -> bool:
        """Remove queued text; False if it was delivered already."""
        at = self._position(queued_id)
        if at is None:
            return False
        self._remove(self._waiting[at], taken_back=True)
        return True

    def rewrite(self, queued_id: str, text: str) -> bool:
        """Replace queued text in its place; False if it was delivered already."""
        at = self._position(queued_id)
        if at is None:
            return False
        item = self._waiting[at] = replace(self._waiting[at], text=text)
        self._emitter.emit(SteerQueued(id=item.id, kind=item.kind, text=text))
        return True

    def move(self, queued_id: str, position: int) -> bool:
        """Move queued text to that position, from 0; False if it was delivered already."""
        at = self._position(queued_id)
        if at is None:
            return False
        self._waiting.insert(max(0, position), self._waiting.pop(at))
        ids = [item.id for item in self._waiting]
        self._emitter.emit(QueueOrdered(text="the queue was reordered", ids=tuple(ids)))
        return True

    def take_back_all(self) -> None:
        """Return all queued text to the user, unless closed; called when a run is stopped.

        The last one goes first, because a text that comes back is put in front of what is there.
        """
        for item in () if self.closed else reversed(self.waiting):
            self._remove(item, taken_back=True)

    @property
    def deliverable(self) -> bool:
        """Whether a run can begin with what is queued."""
        steering = [item for item in self._waiting if item.kind != "follow_up"]
        return any(self._may_go(item) for item in steering or self._waiting[:1])

    async def check(
        self, text: str, source: PromptSource, token: CancelToken
    ) -> Deny | tuple[UserMessage, ...]:
        """Ask the hooks about text; return their denial, or the notes to send with it. Raises
        RunCancelled."""
        answer = await token.guard(self._hooks.prompt_submit(SubmittedPrompt(text, source)))
        if isinstance(answer, Deny):
            return answer
        return tuple(added.note or framed(ADDED, added.text) for added in answer)

    async def admit(self, token: CancelToken, *, follow_up: bool = False) -> bool:
        """Ask the hooks about the text that is due, and give back what they deny; call it before
        delivering.

        `follow_up`: if nothing else is queued, follow-ups are due. True if an interrupt was denied:
        it still interrupts. Raises RunCancelled.
        """
        interrupted = False
        while (item := self._unasked(follow_up)) is not None:
            answer = await self.check(item.text, item.kind, token)
            if item not in self._waiting:
                continue
            if isinstance(answer, Deny):
                interrupted |= item.kind == "interrupt"
                self._remove(item, taken_back=True)
                said = f"what you typed was not sent: {answer.why}"
                self._emitter.warn("prompt.denied", said, source=item.kind)
            else:
                self._admitted[item] = answer
        return interrupted

    def deliver_notes(self) -> list[UserMessage]:
        notes = self._notes
        self._notes = []
        self._waking.clear()
        for note in notes:
            self._emitter.emit(MessageAdded(message=note))
        return notes

    def begin_boundary(self) -> None:
        """Text may be delivered again; called when a run begins and with each request."""
        self._steered = False

    def deliver_steering(self) -> list[UserMessage]:
        """Deliver the steering and the interrupts that are due at a boundary, in order."""
        due = self._due()
        self._steered |= bool(due)
        return [message for item in due for message in self._deliver(item)]

    def deliver_follow_ups(self) -> list[UserMessage]:
        """Deliver the follow-ups that are due once the agent would stop, in order."""
        due = self._first([item for item in self._waiting if item.kind == "follow_up"])
        return [message for item in due if self._may_go(item) for message in self._deliver(item)]

    def _due(self) -> list[Queued]:
        """Return the texts to deliver at this boundary; an interrupt does not wait behind others,
        which go with it."""
        due = [item for item in self._waiting if item.kind != "follow_up" and self._may_go(item)]
        if self._delivery.steer == "all":
            return due
        if interrupts := [at for at, item in enumerate(due) if item.kind == "interrupt"]:
            return due[: interrupts[-1] + 1]
        return [] if self._steered else due[:1]

    def _first(self, follow_ups: list[Queued]) -> list[Queued]:
        return follow_ups if self._delivery.follow_up == "all" else follow_ups[:1]

    def _unasked(self, follow_up: bool) -> Queued | None:
        due = [item for item in self._waiting if item.kind != "follow_up"]
        if follow_up and not due:
            due = self._first(self._waiting)
        return next((item for item in due if not self._may_go(item)), None)

    def _may_go(self, item: Queued) -> bool:
        return item in self._admitted or not self._hooks.judges(item.text)

    def _update_typed(self) -> None:
        if any(item.kind != "follow_up" for item in self._waiting):
            self._typed.set()
        else:
            self._typed.clear()

    def _position(self, queued_id: str) -> int | None:
        return next((at for at, item in enumerate(self._waiting) if item.id == queued_id), None)

    def _deliver(self, item: Queued) -> list[UserMessage]:
        messages = [
            UserMessage.from_text(item.text, source=item.kind),
            *self._admitted.get(item, ()),
        ]
        self._remove(item, taken_back=False)
        for message in messages:
            self._emitter.emit(MessageAdded(message=message))
        return messages

    def _remove(self, item: Queued, *, taken_back: bool) -> None:
        self._waiting.remove(item)
        self._admitted.pop(item, None)
        self._update_typed()
        self._emitter.emit(SteerDelivered(id=item.id, kind=item.kind, taken_back=taken_back))
