"""The chat screen: what the user does becomes acts of the session client; what happens is drawn from the UI state."""

import asyncio
import time
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import TextArea

from codeagent.core.errors import CodeagentError
from codeagent.tui.commands import COMMANDS
from codeagent.tui.pages.cards import AnsweredCards
from codeagent.tui.pages.escape import AGAIN, Escape, Meaning, Situation
from codeagent.tui.pages.host import Commands, Host
from codeagent.tui.pages.sending import Sending
from codeagent.tui.parts.approval import ApprovalCard
from codeagent.tui.parts.boundary_card import BoundaryCard
from codeagent.tui.parts.composer import Composer
from codeagent.tui.parts.composer_area import ComposerArea
from codeagent.tui.parts.external_editor import edit_in_editor
from codeagent.tui.parts.find_bar import FindBar
from codeagent.tui.parts.header import Header
from codeagent.tui.parts.queued import QueueView
from codeagent.tui.parts.status import StatusLine
from codeagent.tui.ports import LaunchOptions
from codeagent.tui.prompt_history import PromptHistory
from codeagent.tui.rendering.first_use import load
from codeagent.tui.state import PlanReady, UiState
from codeagent.tui.transcript.blocks import Detail
from codeagent.tui.transcript.view import TranscriptView

if TYPE_CHECKING:  # it loads pydantic, which the first frame does without
    from codeagent.tui.session_client import SessionClient

_FIRST_KEYS = 0.05
"""Seconds after the first frame in which only keys are answered: imports, also in a thread, would hold them up."""
_LOW = 7
"""Rows of a screen from which on it has a header, and there is more than one row to write in."""
_DETAILS: tuple[Detail, ...] = ("quiet", "normal", "full")
"""The round of Ctrl+O."""


class ChatScreen(Screen[None]):
    """One conversation."""

    DEFAULT_CSS = """
    ChatScreen {
        overflow: hidden;
        & > TranscriptView { height: 1fr; }
        & > .chat--foot { dock: bottom; height: auto; }
    }
    """
    AUTO_FOCUS = "Composer"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "step_back", "pause, then stop", id="chat.pause", show=False),
        Binding("ctrl+c", "cancel", "copy, stop, clear; twice: quit", id="chat.cancel", show=False),
        Binding("ctrl+d", "quit_if_empty", "quit", id="chat.quit", show=False),
        Binding("ctrl+z", "app.suspend_process", "suspend", id="chat.suspend", show=False, priority=True),
        Binding("ctrl+l", "redraw", "redraw", id="chat.redraw", show=False, priority=True),
        Binding("shift+tab", "next_mode", "mode", id="chat.mode", show=False, priority=True),
        Binding("ctrl+o", "next_detail", "detail", id="chat.detail", show=False, priority=True),
        Binding("pageup", "turn('page_up')", "a page up", id="chat.page_up", show=False),
        Binding("pagedown", "turn('page_down')", "a page down", id="chat.page_down", show=False),
        Binding("ctrl+home", "turn('home')", "to the start", id="chat.to_start", show=False, priority=True),
        Binding("ctrl+end", "turn('end')", "to the end", id="chat.to_end", show=False, priority=True),
        Binding("ctrl+p", "palette", "commands", id="chat.palette", show=False, priority=True),
        Binding("ctrl+f", "find", "find", id="chat.find", show=False, priority=True),
        Binding("f1", "command('keys')", "keys", id="chat.keys", show=False, priority=True),
        Binding("ctrl+t", "command('jobs')", "jobs", id="chat.jobs", show=False, priority=True),
        Binding("ctrl+b", "command('background')", "background", id="chat.background", show=False, priority=True),
    ]

    def __init__(self, host: Host, options: LaunchOptions) -> None:
        super().__init__()
        self.state = UiState()
        self.client: SessionClient | None = None
        self.view = TranscriptView(self.state.document, clock=host.now)
        self._history = PromptHistory(host.folders.prompts)
        self.composer = Composer(self._history, commands=COMMANDS)
        self._cards = AnsweredCards(self, lambda act: self._slash.act(act), now=host.now)
        self._area = ComposerArea(self.composer, self.state, mode_key=host.keys.shown("chat.mode"))
        self._escape = Escape()
        self._header = Header(self.state.status)
        self._find_bar = FindBar()
        self._queue = QueueView(self.state.queue)
        self._draft = host.draft
        self._host = host
        self.launch_options = options
        self._cancelled_at = -AGAIN
        self._typed_at = self.composer.last_typed
        self._opened: SessionClient | None = None
        self._settled = asyncio.Event()
        self._sending = Sending(self, self._draft)

    def compose(self) -> ComposeResult:
        yield self._header
        yield self.view
        with Vertical(classes="chat--foot"):
            yield self._find_bar
            yield self._cards
            yield self._queue
            yield self._area
            yield StatusLine(self.state, clock=self._host.now, to_background=self._host.keys.shown("chat.background"))

    def on_mount(self) -> None:
        self.state.give_back = self.composer.insert_back
        self.state.failed = self._failed
        self.state.prefer = self._prefer
        for model in (self.state.status, self.state.queue, self.state.approvals, self.state.boundary):
            model.watch(self._sync_composer)
        self.composer.set_text(self._draft.load())
        self.composer.insert_back(self.launch_options.prompt)
        self.composer.focus()
        for trouble in (self._draft.trouble, self._history.trouble):
            if trouble:
                self.state.document.remark(trouble, "warning")
        self.call_after_refresh(self.set_timer, _FIRST_KEYS, self._open)

    async def end(self) -> None:
        """Close the conversation; what is typed is kept as the draft."""
        self._draft.close()
        if self._opened is not None:
            await self._opened.close()

    def tell(self, text: str) -> None:
        """One short line in place of the status line's hints."""
        self.state.status.set(notice=text)

    def _open(self) -> None:
        """The first frame is drawn: now what is heavy may be imported."""
        self.run_worker(self._connect(), exit_on_error=True)

    async def _connect(self) -> None:
        from codeagent.tui.pages.opening import greet, open_conversation  # screens that the first frame does not need

        greet(self.state, self._host, self.launch_options)
        try:
            self._opened = await self._host.open_client(self.state)
            options = await open_conversation(self.app, self._opened, self.launch_options)
            if options is None:
                self._host.quit()
                return
            self.launch_options = options
            greet(self.state, self._host, options)
        except Exception as error:
            self._sending.refused = str(error)
            if isinstance(error, CodeagentError):
                self.state.document.remark(str(error), "error")
            else:
                self._failed(error)
            self.state.status.set(phase="idle", sandbox="none")
        else:
            self.client = self._opened
        self._settled.set()
        self.run_worker(self._sending.catch_up(), exit_on_error=True)
        await asyncio.to_thread(load)

    async def ready(self) -> "SessionClient":
        await self._settled.wait()
        if self.client is None:
            raise CodeagentError(f"there is no conversation: {self._sending.refused}")
        return self.client

    @property
    def _slash(self) -> Commands:
        """What commands do; the pages and lists they open are not needed before the first of them."""
        from codeagent.tui.pages.slash import Slash  # loads every page and list

        return Slash(self, self._host, self._sending)

    @on(events.Resize)
    def _sync_composer(self) -> None:
        """A card takes some of the room of what is written and of what waits to be read."""
        self.composer.running = self.state.status.now.phase not in ("starting", "idle")
        self.composer.has_queue = bool(self.state.queue.items)
        rows, asked = self.app.size.height, self.state.approvals.waiting or self.state.boundary.now is not None
        self._header.display = rows >= _LOW
        # In cells: Textual passes over parts of the screen where what holds them is as high as its content.
        self.composer.styles.max_height = most = max(1, rows * (2 if asked else 4) // 10) if rows >= _LOW else 1
        self._queue.styles.max_height = 0 if asked and rows < _LOW else most

    def _prefer(self, theme: str | None, bell: bool) -> None:
        """A theme of the command line goes before that of the settings."""
        self._cards.ring(bell)
        if theme is None or self.launch_options.theme is not None or theme == self._host.theme_name:
            return
        if problem := self._host.use_theme(theme):
            self.state.document.remark(problem, "warning")

    def _failed(self, error: BaseException) -> None:
        self.app._handle_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    @on(Composer.Submitted)
    def _submitted(self, message: Composer.Submitted) -> None:
        self._escape.forget()
        self._sending.send(message.text)

    @on(Composer.FollowUp)
    def _followed_up(self, message: Composer.FollowUp) -> None:
        self._sending.follow_up(message.text)

    @on(Composer.ShellSubmitted)
    def _shell(self, message: Composer.ShellSubmitted) -> None:
        self._sending.shell(message.command, shared=message.shared)

    @on(Composer.SlashSubmitted)
    def _command(self, message: Composer.SlashSubmitted) -> None:
        self._slash.run(message.name, message.arguments)

    @on(Composer.UnknownCommand)
    def _unknown(self, message: Composer.UnknownCommand) -> None:
        self._slash.unknown(message.text)

    @on(Composer.TakeBackRequested)
    def _take_back_last(self) -> None:
        if self.state.queue.items:
            self._sending.take_back(self.state.queue.items[-1].id)

    @on(QueueView.TakeBack)
    def _take_back(self, message: QueueView.TakeBack) -> None:
        self._sending.take_back(message.queued_id)

    @on(QueueView.ListWanted)
    def _list_queue(self) -> None:
        self._slash.run("queue")

    @on(Composer.FocusCardRequested)
    def _to_card(self) -> None:
        if not self._cards.take_focus():
            self.view.focus()

    @on(TextArea.Changed)
    def _typed(self) -> None:
        self._cards.typed()
        self._draft.keep(self.composer.text)
        if self.composer.last_typed != self._typed_at:
            self._typed_at = self.composer.last_typed
            self.tell("")

    @on(Composer.KeysRequested)
    def _show_keys(self) -> None:
        self._slash.run("keys")

    @on(Composer.EditorRequested)
    def _editor(self, message: Composer.EditorRequested) -> None:
        self.run_worker(self._edit(message.text), exit_on_error=True)

    async def _edit(self, text: str) -> None:
        try:
            self.composer.set_edited(text, await edit_in_editor(self.app, text))
        except CodeagentError as error:
            self.tell(str(error))

    @on(Composer.FilesWanted)
    def _files(self) -> None:
        if self.client is not None:
            self.run_worker(self._load_files(self.client), group="files", exclusive=True)

    async def _load_files(self, client: "SessionClient") -> None:
        self.composer.set_files(await client.files())

    @property
    def boundary_card(self) -> BoundaryCard:
        return self._cards.boundary

    @on(ApprovalCard.Left)
    @on(BoundaryCard.Left)
    @on(TranscriptView.Left)
    def _back_to_composer(self) -> None:
        self.composer.focus()

    @on(TranscriptView.CopyRequested)
    @on(TranscriptView.LinkClicked)
    def _copy(self, message: TranscriptView.CopyRequested | TranscriptView.LinkClicked) -> None:
        self._slash.copy_text(message.url if isinstance(message, TranscriptView.LinkClicked) else message.text)

    @on(TranscriptView.OpenOutput)
    def _open_output(self, message: TranscriptView.OpenOutput) -> None:
        self._slash.show_output(message.call_id)

    def on_key(self, event: events.Key) -> None:
        """Alt with a key of the card answers from the composer."""
        if event.key.startswith("alt+") and self._cards.press(event.key):
            event.stop()
            event.prevent_default()

    def action_step_back(self) -> None:
        """Esc: close what is open, else pause at the next boundary; once more: stop now."""
        situation = Situation(
            self.state.status.now.halt,
            finding=self._find_bar.display,
            elsewhere=self.focused is not self.composer,
            plan=isinstance(self.state.boundary.now, PlanReady) and self._cards.boundary.display,
            busy=self._busy(),
            command=bool(self.state.document.running_commands()),
            blank=self.composer.is_blank,
            new=bool(self._cards.too_soon),
        )
        meaning = self._escape.press(situation)
        if meaning == "close_find":
            self._find_bar.close()
        elif meaning == "to_writing":
            self.composer.focus()
        elif meaning == "put_plan_away":
            self._cards.boundary.put_away()
        else:
            self._escaped(meaning)

    def _escaped(self, meaning: Meaning) -> None:
        match meaning:
            case "pause":
                self._sending.pause()
            case "stop":
                self._sending.stop()
            case "rewind":
                self._slash.run("rewind")
            case _:
                said = {
                    "too_soon": "just paused · Esc again stops now",
                    "offer_rewind": "Esc again goes back to an earlier moment",
                }
                self.tell(said.get(meaning, ""))

    def _busy(self) -> bool:
        running = self.client is not None and (self.client.running or bool(self.state.document.running_commands()))
        return running or self._sending.waits

    def action_cancel(self) -> None:
        """Ctrl+C: copy what is selected, else stop what runs, else clear what is typed; twice: quit."""
        if selected := self.get_selected_text():
            self._slash.copy_text(selected)
            self.clear_selection()
            return
        now = time.monotonic()
        again, self._cancelled_at = now - self._cancelled_at < AGAIN, now
        if again:
            self._host.quit()
        elif self._busy():
            self._sending.stop()
        elif not self.composer.is_blank:
            self.composer.clear()
            self.tell("cleared: Ctrl+_ restores it, Ctrl+C again quits")
        else:
            self.tell("Ctrl+C again quits")

    def action_quit_if_empty(self) -> None:
        if self.composer.is_blank:
            self._host.quit()
        else:
            self.tell("there is text in the composer: Ctrl+C clears it, /exit quits and keeps it")

    def action_redraw(self) -> None:
        self.app.refresh(layout=True, repaint=True)

    def action_next_mode(self) -> None:
        self._sending.next_mode()

    def action_next_detail(self) -> None:
        detail = _DETAILS[(_DETAILS.index(self.view.detail) + 1) % len(_DETAILS)]
        self.view.set_detail(detail)
        self.tell(f"detail: {detail}")

    def action_palette(self) -> None:
        self._slash.palette()

    def action_turn(self, way: Literal["page_up", "page_down", "home", "end"]) -> None:
        """Scroll the conversation, wherever the focus is."""
        view = self.view
        turns = {
            "page_up": view.scroll_page_up,
            "page_down": view.scroll_page_down,
            "home": view.scroll_home,
            "end": view.scroll_end,
        }
        turns[way](animate=False)

    def action_find(self) -> None:
        self.open_find("")

    def open_find(self, text: str) -> None:
        self._find_bar.open(self.view, text)

    @on(FindBar.Closed)
    def _found(self) -> None:
        self.composer.focus()

    def restore(self, text: str) -> None:
        self.composer.insert_back(text)

    async def press(self, action: str) -> None:
        await self.composer.run_action(action)

    def action_command(self, name: str) -> None:
        """A key that does what a slash command does."""
        self._slash.run(name)
