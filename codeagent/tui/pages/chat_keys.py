"""What the keys of the chat screen do."""

import time
from typing import Literal

from textual import events

from codeagent.tui.bindings import bindings
from codeagent.tui.keymap import keymap_of
from codeagent.tui.pages.chat_frame import ChatFrame
from codeagent.tui.pages.escape import AGAIN, SAID, Situation
from codeagent.tui.transcript.blocks import Detail

_DETAILS: tuple[Detail, ...] = ("quiet", "normal", "full")
"""The levels that Ctrl+O cycles through."""


class ChatKeys(ChatFrame):
    """Does what a key means in the conversation as it is now."""

    BINDINGS = bindings("chat")
    _cancelled_at = -AGAIN
    """When Ctrl+C was last pressed, in seconds that never go back."""

    def on_key(self, event: events.Key) -> None:
        """Answer the card from the composer, with Alt and a key of the card."""
        if event.key.startswith("alt+") and self.card.press(event.key):
            event.stop()
            event.prevent_default()

    def action_step_back(self) -> None:
        """Handle Esc: close what is open, else pause at the next boundary; pressed again, stop
        now."""
        situation = Situation(
            self.state.status.now.run.halt,
            finding=self.conversation.find_bar.display,
            elsewhere=self.focused is not self.composer,
            plan=self.card.scope == "plan",
            busy=self.outbox.busy,
            command=bool(self.state.document.running_commands()),
            blank=self.composer.is_blank,
            new=self.card.is_new,
        )
        match self._escape.press(situation):
            case "close_find":
                self.conversation.find_bar.close()
            case "to_writing":
                self.composer.focus()
            case "put_plan_away":
                self.card.put_away()
            case "pause":
                self.outbox.pause()
            case "stop":
                self.outbox.stop()
            case "stop_command":
                self.outbox.stop_commands()
            case "rewind":
                self.action_command("command.rewind")
            case meaning:
                self.tell(SAID.get(meaning, ""))

    async def action_cancel(self) -> None:
        """Handle Ctrl+C: copy the selection, else stop what is running, else clear the composer;
        twice: quit."""
        if selected := self.get_selected_text():
            self.copy_text(selected)
            self.clear_selection()
            return
        now = time.monotonic()
        again = now - self._cancelled_at < AGAIN
        self._cancelled_at = now
        if again:
            await self.run_action("app.quit")
        elif self.outbox.busy:
            self.outbox.stop()
        elif not self.composer.is_blank:
            self.composer.clear()
            self.tell("cleared: Ctrl+_ restores it, Ctrl+C again quits")
        else:
            self.tell("Ctrl+C again quits")

    async def action_quit_if_empty(self) -> None:
        if self.composer.is_blank:
            await self.run_action("app.quit")
        else:
            self.tell("there is text in the composer: Ctrl+C clears it, /exit quits and keeps it")

    def action_redraw(self) -> None:
        self.app.refresh(layout=True, repaint=True)

    def action_next_mode(self) -> None:
        self.outbox.next_mode()

    def action_next_detail(self) -> None:
        detail = _DETAILS[(_DETAILS.index(self.view.detail) + 1) % len(_DETAILS)]
        self.view.set_detail(detail)
        self.state.status.set(detailed=detail == "full")
        self.tell(f"detail: {detail}")

    def action_turn(self, way: Literal["page_up", "page_down", "home", "end"]) -> None:
        """Scroll the conversation, wherever the focus is."""
        getattr(self.view, f"scroll_{way}")(animate=False)

    async def action_find(self, text: str = "") -> None:
        await self.conversation.find(text)

    def action_command(self, row_id: str) -> None:
        """Run a row of the table for a key, as its slash command does; what was told before is
        over."""
        self.tell("")
        self._run_command(self, keymap_of(self).table.by_id[row_id], "")
