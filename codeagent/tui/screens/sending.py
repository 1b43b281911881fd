"""What the user sends goes to the conversation, or waits in order, and on disk, until there is one."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count

from codeagent.core.errors import CodeagentError
from codeagent.core.queued import Queued
from codeagent.tui.drafts import Draft
from codeagent.tui.ports import Mode, Talk
from codeagent.tui.screens.commanded import Chat
from codeagent.tui.stage import Paused
from codeagent.tui.widgets.guard import TOO_SOON

_MODES: tuple[Mode, ...] = ("ask", "accept-edits", "plan")
"""The round of Shift+Tab."""
_NOT_SENT = "not sent: there is no conversation, see above; /resume or /new begins one"
_STILL_STARTING = "still starting: it is done as soon as codeagent is ready"


@dataclass(frozen=True)
class Early:
    """Something that was sent or pressed before there was anybody to do it."""

    id: str
    text: str
    """As it was typed, and as it returns to the composer; empty for a key."""
    do: Callable[[], Awaitable[None] | None]


class Sending:
    """Nothing that is sent is lost: what cannot be done yet waits, what never can be returns to the composer."""

    def __init__(self, chat: Chat, draft: Draft) -> None:
        self._chat = chat
        self._draft = draft
        self._early: list[Early] = []
        self._ids = count(1)
        self.refused = ""
        """Why there is no conversation and will be none."""

    @property
    def waits(self) -> bool:
        """Something was sent that waits for the start."""
        return bool(self._early)

    def send(self, text: str) -> None:
        """Enter: begin a run, steer the one that is going on, end a pause, or correct the batch it is before."""
        if (talk := self._talk) is None:
            if text.strip():
                self.hold(text, lambda: self._begin(text))
            return
        chat = self._chat
        chat.tell("")
        chat.view.scroll_end(animate=False)
        new = chat.boundary_card.is_new
        if text.strip() and self._before_calls and not new:
            talk.correct(text)
            return
        if talk.running and text.strip():
            talk.steer(text)
        if chat.stage.status.now.halt in ("pausing", "paused"):
            # What was sent before the pause could be seen was meant for the run, not for the pause.
            if new:
                chat.tell(f"it has just paused: {TOO_SOON}")
            else:
                talk.go_on()
        elif not talk.running and (text.strip() or chat.stage.lanes.items):
            talk.send(text)

    def follow_up(self, text: str) -> None:
        if not text.strip():
            return
        if (talk := self._talk) is None:
            self.hold(text, lambda: self._begin(text))
        else:
            talk.follow_up(text)

    def shell(self, command: str, *, shared: bool) -> None:
        """A command of the user's own."""

        def run() -> None:
            self._there().shell(command, shared=shared)

        if self._talk is None:
            self.hold(("!" if shared else "!!") + command, run)
        else:
            run()

    def pause(self) -> None:
        """What runs waits at the next boundary."""
        if self._early:
            self._chat.tell("still starting · Esc again takes back what you sent")
        elif (talk := self._chat.talk) is not None:
            self._chat.tell("")
            talk.pause()

    def stop(self) -> None:
        """End what runs; what waits for the start never begins."""
        self.give_back()
        if (talk := self._chat.talk) is not None:
            talk.abort()

    def next_mode(self) -> None:
        mode = self._chat.stage.status.now.mode
        self.set_mode(_MODES[(_MODES.index(mode) + 1) % len(_MODES)] if mode in _MODES else "ask")

    def set_mode(self, mode: Mode) -> None:
        """Shown at once, in force as soon as there is a conversation."""

        def set_it() -> None:
            self._there().set_mode(mode)

        if self._talk is None:
            self._chat.stage.status.set(mode=mode)
            self.hold("", set_it)
        else:
            set_it()

    def hold(self, text: str, do: Callable[[], Awaitable[None] | None]) -> None:
        """Do it once there is a conversation, after everything that was held before; it is on disk before it shows."""
        if self.refused:
            self._chat.restore(text)
            self._chat.tell(_NOT_SENT)
            return
        early = Early(f"start{next(self._ids)}", text, do)
        self._early.append(early)
        self._save()
        if text:
            self._chat.stage.lanes.add(Queued(early.id, "follow_up", text))
        self._chat.tell(self._draft.trouble or _STILL_STARTING)

    @property
    def holds(self) -> bool:
        """What is sent now has to wait."""
        return self._talk is None

    def take_back(self, queued_id: str) -> None:
        """From its lane into the composer."""
        early = next((early for early in self._early if early.id == queued_id), None)
        if early is not None:
            self._drop(early)
            self._chat.restore(early.text)
        elif (talk := self._chat.talk) is not None:
            talk.take_back(queued_id)

    def give_back(self) -> None:
        """Everything that waits returns to the composer, in order."""
        if not self._early:
            return
        early, self._early = self._early, []
        for each in early:
            self._chat.stage.lanes.remove(each.id)
        self._chat.restore("\n".join(each.text for each in early if each.text))
        self._save()

    async def catch_up(self) -> None:
        """Do what waited, one after the other, once there is a conversation; where there will be none, give it back."""
        talk = self._chat.talk
        try:
            if talk is not None:
                await talk.start_up()
        except CodeagentError as error:
            self.refused = str(error)
        if self.refused:
            if self.waits:
                self._chat.tell(_NOT_SENT)
            self.give_back()
            return
        if self.waits:
            self._chat.tell("")
        while self._early:
            early = self._early[0]
            done = early.do()
            if done is not None:
                await done
            self._drop(early)

    @property
    def _talk(self) -> Talk | None:
        """The conversation, where nothing waits to be done before what is sent now."""
        talk = self._chat.talk
        return talk if talk is not None and talk.started and not self._early else None

    def _there(self) -> Talk:
        """While what waited is done. Raises CodeagentError where the conversation was closed meanwhile."""
        if self._chat.talk is None:
            raise CodeagentError("there is no conversation any more")
        return self._chat.talk

    def _begin(self, text: str) -> None:
        """What was sent early is read one after the other, not all at once."""
        talk = self._there()
        if talk.running:
            talk.follow_up(text)
        else:
            talk.send(text)

    def _drop(self, early: Early) -> None:
        """It was done or taken back; it may have been given back while it was being done."""
        if early in self._early:
            self._early.remove(early)
            self._chat.stage.lanes.remove(early.id)
            self._save()

    def _save(self) -> None:
        self._draft.hold([early.text for early in self._early if early.text])

    @property
    def _before_calls(self) -> bool:
        """The run is paused before a batch: what is said now is said instead of it."""
        return isinstance(now := self._chat.stage.boundary.now, Paused) and bool(now.calls)
