"""The chat screen: turns what the user does into acts of the session client, and draws the UI
state."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import TextArea

from codeagent.core.errors import CodeagentError
from codeagent.tui.actions import Action
from codeagent.tui.bindings import bindings
from codeagent.tui.clipboard import copy
from codeagent.tui.commands import COMMANDS, ActionTable
from codeagent.tui.drafts import Draft
from codeagent.tui.keymap import keymap_of
from codeagent.tui.launcher import AppFolders, LaunchOptions
from codeagent.tui.pages.escape import AGAIN, SAID, Escape, Meaning, Situation
from codeagent.tui.parts.composer import Composer
from codeagent.tui.parts.composer_area import ComposerArea
from codeagent.tui.parts.external_editor import edit_in_editor
from codeagent.tui.parts.status import Header, StatusLine
from codeagent.tui.parts.typed_input import CommandInput, PromptInput, ShellInput, UnknownInput
from codeagent.tui.prompt_history import PromptHistory
from codeagent.tui.state import UiState
from codeagent.tui.themes import ThemeSwitch
from codeagent.tui.transcript.blocks import Detail

if TYPE_CHECKING:  # the first frame does not show any of it
    from codeagent.tui.pages.cards import ChatCard
    from codeagent.tui.pages.conversation import ConversationParts
    from codeagent.tui.pages.outbox import Outbox
    from codeagent.tui.parts.queued import QueueView
    from codeagent.tui.session_client import SessionClient
    from codeagent.tui.transcript.view import TranscriptView

OpenClient = Callable[[UiState, LaunchOptions], Awaitable["SessionClient"]]
"""Shows the end of a resumed session, then makes the client; its heavy imports wait until after the
first frame."""
RunCommand = Callable[["ChatScreen", Action, str], None]
"""Runs a row of the table with the argument of its command, and imports the pages that it opens."""
_FIRST_KEYS = 0.05
"""Seconds after the first frame in which only keys are handled, as imports would delay them, even
in a thread.

Sending something ends them."""
_LOW = 7
"""Rows from which on the screen has a header, and the composer more than one row."""
_DETAILS: tuple[Detail, ...] = ("quiet", "normal", "full")
"""The levels that Ctrl+O cycles through."""


class ChatScreen(Screen[None]):
    """Shows one conversation."""

    DEFAULT_CSS = """
    ChatScreen {
        overflow: hidden;
        & > TranscriptView { height: 1fr; }
        & > .chat--foot { dock: bottom; height: auto; }
    }
    """
    AUTO_FOCUS = "Composer"
    BINDINGS = bindings("chat")

    def __init__(
        self,
        options: LaunchOptions,
        open_client: OpenClient,
        run_command: RunCommand,
        change_to: Callable[[LaunchOptions], Awaitable[None]],
        *,
        use_table: Callable[[ActionTable], None],
        folders: AppFolders,
        themes: ThemeSwitch,
        draft: Draft,
        clock: Callable[[], float],
    ) -> None:
        """`change_to` leaves this conversation for another; `use_table` gets the table with the
        rooms that are on; `draft` keeps what is typed in this window but not sent.

        `clock` gives seconds since the epoch.
        """
        super().__init__()
        self.state = UiState()
        self.launch_options = options
        """The options that the next conversation in this window starts with."""
        self.folders = folders
        self.themes = themes
        self.change_to = change_to
        self._use_table = use_table
        self.clock = clock
        self._history = PromptHistory(folders.prompts)
        self.composer = Composer(self._history, commands=COMMANDS)
        self._open_client = open_client
        self._run_command = run_command
        self._escape = Escape()
        self._header = Header(self.state.status)
        self._foot = Vertical(classes="chat--foot")
        self._conversation: ConversationParts | None = None
        self._draft = draft
        self._cancelled_at = -AGAIN
        self._typed_at = self.composer.last_typed
        self._opening = False
        self._opened: SessionClient | None = None

    def compose(self) -> ComposeResult:
        keys = keymap_of(self)
        yield self._header
        with self._foot:
            yield ComposerArea(self.composer, self.state, mode_key=keys.shown("chat.mode"))
            yield StatusLine(
                self.state, clock=self.clock, to_background=keys.shown("chat.background")
            )

    def on_mount(self) -> None:
        self._place()
        self.state.give_back = self.composer.insert_back
        self.state.failed = self._failed
        self.composer.keeps = self._keeps
        self.state.prefer = self._prefer
        for model in (
            self.state.status,
            self.state.queue,
            self.state.approvals,
            self.state.boundary,
        ):
            model.watch(self._sync_composer)
        self.state.queue.leave(self._draft.load())
        self.composer.insert_back(self.launch_options.prompt)
        self.composer.focus()
        for trouble in filter(None, (self._draft.trouble, self._history.trouble)):
            self.state.document.remark(trouble, "warning")
        options, known = self.launch_options, self.state.status
        known.set(model=options.model or known.now.model, mode=options.mode or known.now.mode)
        self.call_after_refresh(self.set_timer, _FIRST_KEYS, self._open)

    @property
    def conversation(self) -> "ConversationParts":
        """The parts of the conversation, mounted when first needed, at the latest after the first
        frame."""
        if self._conversation is None:
            from codeagent.tui.pages.conversation import ConversationParts  # after the first frame

            self._conversation = ConversationParts(
                self.state, self._draft, self.clock, lambda: self.composer.last_typed
            )
            self._place()
        return self._conversation

    def _place(self) -> None:
        """Mount the parts, unless the screen is not mounted yet, or was left."""
        if (
            (parts := self._conversation) is not None
            and self._header.is_attached
            and self._foot.is_attached
        ):
            parts.place(self._header, self._foot)
            self._sync_composer()

    @property
    def outbox(self) -> "Outbox":
        return self.conversation.outbox

    @property
    def view(self) -> "TranscriptView":
        return self.conversation.view

    @property
    def card(self) -> "ChatCard":
        return self.conversation.card

    async def end(self) -> None:
        """Close the conversation, even while it is being opened; typed text is kept as the
        draft."""
        self._draft.close()
        self.workers.cancel_group(self, "connect")
        if self._opened is not None:
            await self._opened.close()

    def tell(self, text: str) -> None:
        """Show one short line instead of the status line's hints."""
        self.state.status.set(notice=text)

    def _open(self) -> None:
        """Open the conversation, with its heavy imports: after the first keys, or as soon as one of
        them is Enter."""
        if self._opening:
            return
        self._opening = True
        self.run_worker(self._connect(), group="connect", exit_on_error=True)

    async def _connect(self) -> None:
        # In a thread, which makes way for keys every few milliseconds.
        await asyncio.to_thread(import_module, "codeagent.tui.pages.conversation")
        from codeagent.tui.pages.conversation import open_conversation  # just imported

        key = keymap_of(self).shown("composer.keys")
        self.conversation.greet(self.launch_options, self.folders.workspace, key)
        if self.launch_options.resume is not None:
            self.run_worker(self.conversation.warm_up(), exit_on_error=True)
        client: SessionClient | None = None
        refused = ""
        try:
            client = self._opened = await self._open_client(self.state, self.launch_options)
            options = await open_conversation(self.app, client, self.launch_options)
            if options is None:
                await self.run_action("app.quit")
                return
            self.launch_options = options
            self._use_table(await self.conversation.meet_rooms(client))
            self.conversation.greet(options, self.folders.workspace, key)
        except Exception as error:
            client, refused = None, str(error) or repr(error)
            self.state.document.forget_recorded()
            if isinstance(error, CodeagentError):
                self.state.document.remark(str(error), "error")
            else:
                self._failed(error)
            self.state.status.set(phase="idle", sandbox="none")
        self.run_worker(self.conversation.begin(client, refused, self.composer), exit_on_error=True)

    @on(events.Resize)
    def _sync_composer(self) -> None:
        """Give a card some of the room of the composer and the message queue."""
        self.composer.running = self.state.status.now.phase not in ("starting", "idle")
        self.composer.has_queue = bool(self.state.queue.items or self.state.queue.earlier)
        rows, asked = (
            self.app.size.height,
            self.state.approvals.waiting or self.state.boundary.now is not None,
        )
        self._header.display = rows >= _LOW
        # In cells, because Textual skips parts of the screen whose container is as high as its
        # content.
        self.composer.styles.max_height = most = (
            max(1, rows * (2 if asked else 4) // 10) if rows >= _LOW else 1
        )
        if self._conversation is not None:
            self._conversation.queue.styles.max_height = 0 if asked and rows < _LOW else most

    def _prefer(self, theme: str | None, bell: bool) -> None:
        """Use the theme of the settings, unless the command line gave one."""
        self.card.rings = bell
        if theme is None or self.launch_options.theme is not None or theme == self.themes.name:
            return
        if problem := self.themes.use(theme):
            self.state.document.remark(problem, "warning")

    def _failed(self, error: BaseException) -> None:
        self.app._handle_exception(
            error if isinstance(error, Exception) else RuntimeError(repr(error))
        )

    def _keeps(self, later: bool) -> bool:
        """Keep text in the composer that does not fit into the model's window, and ask what to do
        with it."""
        window, length = self.state.status.now.context_window, len(self.composer.text)
        if (
            window is None
            or length <= window
            or self.outbox.holds
            or self.composer.typed.startswith("!")
        ):
            return False
        from codeagent.tui.pages.long_prompt import longest_prompt, shorten  # most texts fit

        if length <= longest_prompt(window):
            return False

        async def ask() -> None:
            try:
                client = await self.outbox.ready()
                if await shorten(self.app, self.composer, client, self.state.status.now):
                    self.composer.send(later=later)
            except CodeagentError as error:
                self.tell(str(error))

        self.run_worker(ask(), exit_on_error=True)
        return True

    @on(Composer.Submitted)
    def _submitted(self, message: Composer.Submitted) -> None:
        self._open()
        self.card.sent()
        match message.meant:
            case PromptInput(text, later=True):
                self.outbox.follow_up(text)
            case PromptInput(text):
                self._escape.forget()
                self.run_worker(self.conversation.warm_up_when_sent(), exit_on_error=True)
                if not self.outbox.holds:
                    self.view.scroll_end(animate=False)
                self.outbox.send(text, unseen=self.card.is_new)
            case ShellInput(command, shared):
                self.outbox.shell(command, shared=shared)
            case CommandInput(row, arguments):
                self._run_command(self, row, arguments)
            case UnknownInput(text):
                self._look_for(text)

    def _look_for(self, text: str) -> None:
        """Run a command that is not in the table if it is a recipe; one typed before the start
        waits for it."""

        async def find() -> None:
            meant = await self.conversation.look_for(text, self.composer)
            if meant is not None:
                self._submitted(Composer.Submitted(meant))

        if self.outbox.holds:
            self.outbox.hold(text, find)
        else:
            self.run_worker(find(), exit_on_error=True)

    @on(Composer.Wanted)
    def _wanted(self, message: Composer.Wanted) -> None:
        match message.what:
            case "card":
                if not self.card.take_focus():
                    self.view.focus()
            case "end":
                self.card.read_to_end()
            case "take_back":
                if self.state.queue.items:
                    self.outbox.take_back(self.state.queue.items[-1].id)
                else:
                    self._take_earlier()
            case "editor":
                self.run_worker(self._edit(self.composer.text), exit_on_error=True)
            case "files":
                self.run_worker(
                    self.conversation.offer_files(self.composer), group="files", exclusive=True
                )
            case "commands":
                if (conversation := self._conversation) is not None:
                    self.run_worker(
                        conversation.offer_prompts(self.composer), group="prompts", exclusive=True
                    )
            case "keys":
                self.action_command("chat.keys")

    def on_queue_view_take_back(self, message: "QueueView.TakeBack") -> None:
        self.outbox.take_back(message.queued_id)

    def on_queue_view_take_earlier(self) -> None:
        self._take_earlier()

    def _take_earlier(self) -> None:
        """Move what was left unsent before this start into the composer."""
        self.composer.insert_back(self._draft.take_earlier())
        self._draft.keep(self.composer.text)
        self.state.queue.leave("")

    def on_queue_view_list_wanted(self) -> None:
        self.action_command("command.queue")

    @on(TextArea.Changed)
    def _typed(self) -> None:
        self._draft.keep(self.composer.text)
        if self.composer.last_typed == self._typed_at:
            return
        self._typed_at = self.composer.last_typed
        self.tell("")
        if self._conversation is not None:
            self._conversation.card.typed()

    async def _edit(self, text: str) -> None:
        try:
            self.composer.set_edited(text, await edit_in_editor(self.app, text))
        except CodeagentError as error:
            self.tell(str(error))

    def on_card_left(self) -> None:
        self.composer.focus()

    on_transcript_view_left = on_find_bar_closed = on_card_left

    def on_transcript_view_copy_requested(self, message: "TranscriptView.CopyRequested") -> None:
        self.copy_text(message.text)

    def on_transcript_view_link_clicked(self, message: "TranscriptView.LinkClicked") -> None:
        self.copy_text(message.url)

    def on_transcript_view_stop_agent(self, message: "TranscriptView.StopAgent") -> None:
        self.outbox.stop_call(message.call_id)

    def on_transcript_view_open_output(self, message: "TranscriptView.OpenOutput") -> None:
        self.run_worker(self._show_output(message.call_id), exit_on_error=True)

    async def _show_output(self, call_id: str) -> None:
        from codeagent.tui.pages.info import OutputScreen  # not needed until the first output

        try:
            text = await (await self.outbox.ready()).full_output(call_id)
        except CodeagentError as error:
            self.tell(str(error))
            return
        if text is None:
            self.tell("that output is gone: it was not kept")
        else:
            self.app.push_screen(OutputScreen("Whole output", text))

    def on_key(self, event: events.Key) -> None:
        """Answer the card from the composer, with Alt and a key of the card."""
        if event.key.startswith("alt+") and self.card.press(event.key):
            event.stop()
            event.prevent_default()

    def action_step_back(self) -> None:
        """Handle Esc: close what is open, else pause at the next boundary; pressed again, stop
        now."""
        situation = Situation(
            self.state.status.now.halt,
            finding=self.conversation.find_bar.display,
            elsewhere=self.focused is not self.composer,
            plan=self.card.scope == "plan",
            busy=self.outbox.busy,
            command=bool(self.state.document.running_commands()),
            blank=self.composer.is_blank,
            new=self.card.is_new,
        )
        meaning = self._escape.press(situation)
        if meaning == "close_find":
            self.conversation.find_bar.close()
        elif meaning == "to_writing":
            self.composer.focus()
        elif meaning == "put_plan_away":
            self.card.put_away()
        else:
            self._escaped(meaning)

    def _escaped(self, meaning: Meaning) -> None:
        match meaning:
            case "pause":
                self.outbox.pause()
            case "stop":
                self.outbox.stop()
            case "stop_command":
                self.outbox.stop_commands()
            case "rewind":
                self.action_command("command.rewind")
            case _:
                self.tell(SAID.get(meaning, ""))

    async def action_cancel(self) -> None:
        """Handle Ctrl+C: copy the selection, else stop what is running, else clear the composer;
        twice: quit."""
        if selected := self.get_selected_text():
            self.copy_text(selected)
            self.clear_selection()
            return
        now = time.monotonic()
        again, self._cancelled_at = now - self._cancelled_at < AGAIN, now
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
        """Run a row of the table for a key, as its slash command does."""
        self._run_command(self, keymap_of(self).table.by_id[row_id], "")

    def copy_text(self, text: str) -> None:
        try:
            self.tell(copy(self.app, text, self.folders.state / "copies"))
        except OSError as error:
            self.tell(f"not copied: {error.strerror}; nothing was changed")
