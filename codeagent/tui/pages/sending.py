"""What the user sends goes to the conversation, or waits in order, and on disk, until there is one."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from codeagent.core.acts import (
    FollowUp,
    Interrupt,
    Pause,
    Prompt,
    Queued,
    Resume,
    RunShell,
    SetMode,
    Steer,
    Stop,
    TakeBack,
)
from codeagent.core.errors import CodeagentError
from codeagent.core.policy import Mode
from codeagent.tui.drafts import Draft
from codeagent.tui.pages.commanded import Chat
from codeagent.tui.parts.guard import TOO_SOON
from codeagent.tui.state import Paused

if TYPE_CHECKING:  # it loads pydantic, which the first frame does without
    from codeagent.tui.session_client import SessionClient

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
        if (client := self._client) is None:
            if text.strip():
                self.hold(text, lambda: self._begin(text))
            return
        chat = self._chat
        chat.tell("")
        chat.view.scroll_end(animate=False)
        new = chat.boundary_card.is_new
        if text.strip() and self._before_calls and not new:
            client.do(Interrupt(text))
            client.do(Resume())
            return
        if client.running and text.strip():
            client.do(Steer(text))
        if chat.state.status.now.halt in ("pausing", "paused"):
            # What was sent before the pause could be seen was meant for the run, not for the pause.
            if new:
                chat.tell(f"it has just paused: {TOO_SOON}")
            else:
                client.do(Resume())
        elif not client.running and (text.strip() or chat.state.queue.items):
            client.do(Prompt(text if text.strip() else None))

    def follow_up(self, text: str) -> None:
        if not text.strip():
            return
        if (client := self._client) is None:
            self.hold(text, lambda: self._begin(text))
        else:
            client.do(FollowUp(text))

    def shell(self, command: str, *, shared: bool) -> None:
        """A command of the user's own."""

        def run() -> None:
            self._there().do(RunShell(command, shared))

        if self._client is None:
            self.hold(("!" if shared else "!!") + command, run)
        else:
            run()

    def pause(self) -> None:
        """What runs waits at the next boundary."""
        if self._early:
            self._chat.tell("still starting · Esc again takes back what you sent")
        elif (client := self._chat.client) is not None:
            refused = client.do(Pause())
            self._chat.tell("" if refused is None else refused.reason)

    def stop(self) -> None:
        """End what runs; what waits for the start never begins."""
        self.give_back()
        if (client := self._chat.client) is not None:
            client.do(Stop())

    def next_mode(self) -> None:
        mode = self._chat.state.status.now.mode
        self.set_mode(_MODES[(_MODES.index(mode) + 1) % len(_MODES)] if mode in _MODES else "ask")

    def set_mode(self, mode: Mode) -> None:
        """Shown at once, in force as soon as there is a conversation."""

        def set_it() -> None:
            self._there().do(SetMode(mode))

        if self._client is None:
            self._chat.state.status.set(mode=mode)
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
            self._chat.state.queue.add(Queued(early.id, "follow_up", text))
        self._chat.tell(self._draft.trouble or _STILL_STARTING)

    @property
    def holds(self) -> bool:
        """What is sent now has to wait."""
        return self._client is None

    def take_back(self, queued_id: str) -> None:
        """From its lane into the composer."""
        early = next((early for early in self._early if early.id == queued_id), None)
        if early is not None:
            self._drop(early)
            self._chat.restore(early.text)
            return
        client = self._chat.client
        refused = None if client is None else client.do(TakeBack(queued_id))
        if refused is not None:
            self._chat.tell(refused.reason)

    def give_back(self) -> None:
        """Everything that waits returns to the composer, in order."""
        if not self._early:
            return
        early, self._early = self._early, []
        for each in early:
            self._chat.state.queue.remove(each.id)
        self._chat.restore("\n".join(each.text for each in early if each.text))
        self._save()

    async def catch_up(self) -> None:
        """Do what waited, one after the other, once there is a conversation; where there will be none, give it back."""
        client = self._chat.client
        try:
            if client is not None:
                await client.start_up()
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
    def _client(self) -> "SessionClient | None":
        """The conversation, where nothing waits to be done before what is sent now."""
        client = self._chat.client
        return client if client is not None and client.started and not self._early else None

    def _there(self) -> "SessionClient":
        """While what waited is done. Raises CodeagentError where the conversation was closed meanwhile."""
        if self._chat.client is None:
            raise CodeagentError("there is no conversation any more")
        return self._chat.client

    def _begin(self, text: str) -> None:
        """What was sent early is read one after the other, not all at once."""
        client = self._there()
        client.do(FollowUp(text) if client.running else Prompt(text))

    def _drop(self, early: Early) -> None:
        """It was done or taken back; it may have been given back while it was being done."""
        if early in self._early:
            self._early.remove(early)
            self._chat.state.queue.remove(early.id)
            self._save()

    def _save(self) -> None:
        self._draft.hold([early.text for early in self._early if early.text])

    @property
    def _before_calls(self) -> bool:
        """The run is paused before a batch: what is said now is said instead of it."""
        return isinstance(now := self._chat.state.boundary.now, Paused) and bool(now.calls)
