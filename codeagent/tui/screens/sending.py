"""What the person wrote goes to the conversation, or waits until there is one."""

from codeagent.tui.screens.commanded import Chat
from codeagent.tui.stage import Paused
from codeagent.tui.widgets.guard import TOO_SOON


class Sending:
    """Nothing that is written is lost: what cannot be sent yet is kept, what never can be returns to the composer."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._unsent: list[str] = []
        self.refused = ""
        """Why there is no conversation and will be none."""

    def send(self, text: str) -> None:
        """Enter: begin a run, steer the one that is going on, end a pause, or correct the batch it is before."""
        chat, talk = self._chat, self._chat.talk
        if talk is None:
            self._keep(text)
            return
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
        if self._chat.talk is None:
            self._keep(text)
        elif text.strip():
            self._chat.talk.follow_up(text)

    def shell(self, command: str, *, shared: bool) -> None:
        """A command of the person's own."""
        if self._chat.talk is None:
            self._chat.restore(("!" if shared else "!!") + command)
            self._chat.tell("still starting: the command was not run")
            return
        self._chat.talk.shell(command, shared=shared)

    def catch_up(self) -> None:
        """It is decided whether there is a conversation: what was written before goes out, or comes back."""
        unsent, self._unsent = self._unsent, []
        for text in unsent:
            self.send(text)

    @property
    def _before_calls(self) -> bool:
        """The run is paused before a batch: what is said now is said instead of it."""
        return isinstance(now := self._chat.stage.boundary.now, Paused) and bool(now.calls)

    def _keep(self, text: str) -> None:
        """There is nobody to send it to, yet."""
        if self.refused:
            self._chat.restore(text)
            self._chat.tell("not sent: there is no conversation, see above; /resume or /new begins one")
        else:
            self._unsent.append(text)
            self._chat.tell("still starting: it goes out as soon as codeagent is ready")
