"""The outbox: passes what the user sends to the session client, or keeps it in order and on disk
until there is one."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TYPE_CHECKING

from codeagent.core.acts import (
    Act,
    CancelCall,
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
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError
from codeagent.core.policy import Mode
from codeagent.tui.drafts import Draft
from codeagent.tui.parts.guard import TOO_SOON
from codeagent.tui.state import Paused, UiState

if TYPE_CHECKING:  # it loads pydantic, which the first frame does not need
    from codeagent.tui.session_client import SessionClient

_MODES: tuple[Mode, ...] = ("ask", "accept-edits", "plan")
"""The modes that Shift+Tab cycles through."""
_NOT_SENT = "not sent: no conversation is open, see above; /resume or /new starts one"
_STILL_STARTING = "still starting: this is done as soon as codeagent is ready"


@dataclass(frozen=True)
class HeldInput:
    """Something that was sent or pressed before there was a session client."""

    id: str
    text: str
    """The text as typed, which may return to the composer; empty for a key."""
    do: Callable[[], Awaitable[None] | None]


class Outbox:
    """Loses nothing that is sent: what cannot be done yet waits, and what can never be done returns
    to the composer."""

    def __init__(self, state: UiState, draft: Draft) -> None:
        self._state = state
        self._draft = draft
        self.client: SessionClient | None = None
        """The opened session client, which does acts only once it has started."""
        self._settled = asyncio.Event()
        """Set once there is a session client, or there will not be one."""
        self._early: list[HeldInput] = []
        self._ids = count(1)
        self._refused = ""
        """Why there will not be a conversation; empty if there may be one."""

    @property
    def running(self) -> bool:
        """Whether a run has begun and not ended."""
        return self.client is not None and self.client.running

    @property
    def busy(self) -> bool:
        """Whether there is something for Esc to stop: a run, the user's own command, or what waits
        for the start."""
        commands = self.client is not None and bool(self._state.document.running_commands())
        return self.running or commands or self.waits

    @property
    def waits(self) -> bool:
        """Whether something that was sent waits for the start."""
        return bool(self._early)

    @property
    def holds(self) -> bool:
        """Whether what is sent now has to wait."""
        return self._free is None

    async def ready(self) -> "SessionClient":
        """Return the session client, once it was opened. Raises CodeagentError if there will not be
        one."""
        await self._settled.wait()
        if self.client is None:
            raise CodeagentError(f"no conversation is open: {self._refused}")
        return self.client

    async def begin(self, client: "SessionClient | None", refused: str = "") -> None:
        """Do what waited, in order, once the client has started; if it never does, give it back.

        `client` is None if a session could not be opened, for the reason `refused`.
        """
        self.client = client
        self._refused = refused
        self._settled.set()
        try:
            if client is not None:
                await client.start_up()
        except CodeagentError as error:
            self._refused = str(error)
        if self._refused:
            if self.waits:
                self._tell(_NOT_SENT)
            self._give_back()
            return
        if self.waits:
            self._tell("")
        while self._early:
            early = self._early[0]
            done = early.do()
            if done is not None:
                await done
            self._drop(early)

    def send(self, text: str, *, unseen: bool) -> None:
        """Handle Enter: begin a run, steer the current one, end a pause, or correct the batch it
        paused before.

        `unseen`: the pause was not shown long enough to be noticed, so the text was meant for the
        running agent.
        """
        if (client := self._free) is None:
            if text.strip():
                self.hold(text, lambda: self._begin(text))
            return
        self._tell("")
        before_calls = isinstance(now := self._state.boundary.now, Paused) and bool(now.calls)
        if text.strip() and before_calls and not unseen:
            client.do(Interrupt(text))
            client.do(Resume())
            return
        if client.running and text.strip():
            client.do(Steer(text))
        if self._state.status.now.run.halt in ("pausing", "paused"):
            if unseen:
                self._tell(f"it has just paused: {TOO_SOON}")
            else:
                client.do(Resume())
        elif not client.running and (text.strip() or self._state.queue.items):
            client.do(Prompt(text if text.strip() else None))

    def follow_up(self, text: str) -> None:
        """Send text for when the agent is done."""
        if not text.strip():
            return
        if (client := self._free) is None:
            self.hold(text, lambda: self._begin(text))
        else:
            client.do(FollowUp(text))

    def shell(self, command: str, *, shared: bool) -> None:
        """Run the user's own command; if `shared`, the model sees it."""
        self._do_or_hold(RunShell(command, shared), ("!" if shared else "!!") + command)

    def pause(self) -> None:
        """Pause what is running at the next boundary."""
        if self._early:
            self._tell("still starting · Esc again takes back what you sent")
        elif self.client is not None:
            refused = self.client.do(Pause())
            self._tell("" if refused is None else refused.reason)

    def stop(self) -> None:
        """Stop what is running; what waits for the start never begins."""
        self._give_back()
        if self.client is not None:
            self.client.do(Stop())

    def stop_commands(self) -> None:
        """Stop the user's own commands, and nothing else."""
        for call_id in self._state.document.running_commands():
            self.stop_call(call_id)

    def stop_call(self, call_id: str) -> None:
        """Stop one call, such as that of an agent; its siblings continue."""
        refused = self._there().do(CancelCall(call_id))
        self._tell("" if refused is None else refused.reason)

    def next_mode(self) -> None:
        mode = self._state.status.now.conversation.mode
        self.set_mode(_MODES[(_MODES.index(mode) + 1) % len(_MODES)] if mode in _MODES else "ask")

    def set_mode(self, mode: Mode) -> None:
        """Set the mode: shown at once, in force as soon as there is a conversation."""
        if self.holds:
            self._state.status.set(mode=mode)
        self._do_or_hold(SetMode(mode), "")

    def hold(self, text: str, do: Callable[[], Awaitable[None] | None]) -> None:
        """Do it once there is a conversation, after everything held before; the text is on disk
        before it is shown."""
        if self._refused:
            self._state.give_back(text)
            self._tell(_NOT_SENT)
            return
        early = HeldInput(f"start{next(self._ids)}", text, do)
        self._early.append(early)
        self._save()
        if text:
            self._state.queue.add(Queued(early.id, "follow_up", text))
        starting = self.client is None or not self.client.started
        if said := self._draft.trouble or (_STILL_STARTING if starting else ""):
            self._tell(said)

    def take_back(self, queued_id: str) -> None:
        """Move a queued text back into the composer."""
        early = next((early for early in self._early if early.id == queued_id), None)
        if early is not None:
            self._drop(early)
            self._state.give_back(early.text)
            return
        refused = None if self.client is None else self.client.do(TakeBack(queued_id))
        if refused is not None:
            self._tell(refused.reason)

    def _do_or_hold(self, act: Act, typed: str) -> None:
        """Do the act now or hold it; `typed` is the act as typed in the composer, empty for a
        key."""

        def do() -> None:
            self._there().do(act)

        if self.holds:
            self.hold(typed, do)
        else:
            do()

    def _give_back(self) -> None:
        """Return everything that waits to the composer, in order."""
        if not self._early:
            return
        early = self._early
        self._early = []
        for each in early:
            self._state.queue.remove(each.id)
        self._state.give_back("\n".join(each.text for each in early if each.text))
        self._save()

    @property
    def _free(self) -> "SessionClient | None":
        """Return the session client, if it has started and nothing that was sent earlier still
        waits."""
        client = self.client
        return client if client is not None and client.started and not self._early else None

    def _there(self) -> "SessionClient":
        """Return the session client for what waited. Raises CodeagentError if the conversation was
        closed meanwhile."""
        if self.client is None:
            raise CodeagentError("the conversation was closed")
        return self.client

    def _begin(self, text: str) -> None:
        """Begin a run with text that was sent early, one at a time."""
        client, status = self._there(), self._state.status.now
        if len(text) > (status.usage.context_window or sys.maxsize):
            from codeagent.tui.pages.long_prompt import longest_prompt, size_words  # most texts fit

            if len(text) > longest_prompt(status.usage.context_window):
                self._state.give_back(text)
                self._tell(f"not sent: {size_words(len(text), status)} · Enter says more")
                return
        client.do(FollowUp(text) if client.running else Prompt(text))

    def _drop(self, early: HeldInput) -> None:
        """Remove what was done or taken back; it may already have been given back while it was
        being done."""
        if early in self._early:
            self._early.remove(early)
            self._state.queue.remove(early.id)
            self._save()

    def _save(self) -> None:
        self._draft.hold([early.text for early in self._early if early.text])

    def _tell(self, text: str) -> None:
        self._state.status.set(notice=text)
