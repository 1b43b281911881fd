"""The parts of the chat screen: header, composer and status line at once, the others after the
first frame."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import Screen

from codeagent.core.errors import CodeagentError
from codeagent.core.redact import has_key
from codeagent.disk.opens import file_inside
from codeagent.tui.actions import Action
from codeagent.tui.clipboard import copy
from codeagent.tui.commands import COMMANDS
from codeagent.tui.drafts import Draft
from codeagent.tui.keymap import keymap_of
from codeagent.tui.launcher import AppFolders, LaunchOptions
from codeagent.tui.pages.escape import Escape
from codeagent.tui.parts.composer import Composer
from codeagent.tui.parts.composer_area import ComposerArea
from codeagent.tui.parts.external_editor import open_place
from codeagent.tui.parts.status import Header, StatusLine
from codeagent.tui.prompt_history import PromptHistory
from codeagent.tui.state import UiState
from codeagent.tui.themes import ThemeSwitch

if TYPE_CHECKING:  # the first frame does not show any of it
    from codeagent.config.settings import Settings
    from codeagent.core.acts import Refused
    from codeagent.tui.pages.cards import ChatCard
    from codeagent.tui.pages.conversation import ConversationParts
    from codeagent.tui.pages.outbox import Outbox
    from codeagent.tui.transcript.view import TranscriptView

RunCommand = Callable[[Any, Action, str], None]
"""Runs a row of the table for a chat screen, with the argument of its command, and imports the
pages that it opens."""
_LOW = 7
"""Rows from which on the screen has a header, and the composer more than one row."""


class ChatFrame(Screen[None]):
    """Lays out one conversation."""

    def __init__(
        self,
        options: LaunchOptions,
        *,
        run_command: RunCommand,
        folders: AppFolders,
        themes: ThemeSwitch,
        draft: Draft,
        clock: Callable[[], float],
    ) -> None:
        super().__init__()
        self.state = UiState()
        self.launch_options = options
        """The options that the next conversation in this window starts with."""
        self.folders = folders
        self.themes = themes
        self.clock = clock
        self._history = PromptHistory(folders.prompts)
        self.composer = Composer(self._history, commands=COMMANDS)
        self._run_command = run_command
        self._escape = Escape()
        self._header = Header(self.state.status)
        self._foot = Vertical(classes="chat--foot")
        self._conversation: ConversationParts | None = None
        self._draft = draft
        self._kept = ""
        """The text with an API key that was kept in the composer last."""

    def compose(self) -> ComposeResult:
        keys = keymap_of(self)
        yield self._header
        with self._foot:
            self._area = ComposerArea(self.composer, self.state, mode_key=keys.shown("chat.mode"))
            yield self._area
            self._status_line = StatusLine(
                self.state, clock=self.clock, to_background=keys.shown("chat.background")
            )
            yield self._status_line

    @property
    def conversation(self) -> "ConversationParts":
        """The parts of the conversation, mounted when first needed, at the latest after the first
        frame."""
        if self._conversation is None:
            from codeagent.tui.pages.conversation import ConversationParts  # after the first frame

            self._conversation = ConversationParts(
                self.state,
                self._draft,
                self.clock,
                lambda: self.composer.last_typed,
                **self._inline() if self.launch_options.inline else {},
            )
            self._conversation.view.use_workspace(self.folders.workspace)
            self._place()
        return self._conversation

    def _inline(self) -> dict[str, Any]:
        """Return what makes a view that prints finished turns above the screen."""
        from functools import partial  # both are for this kind of screen only

        from codeagent.tui.transcript.inline_view import InlineView

        status = self.state.status
        return {"make_view": partial(InlineView, at_rest=lambda: status.now.run.phase == "idle")}

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

    def tell(self, text: str) -> None:
        """Show one short line instead of the status line's hints."""
        self.state.status.set(notice=text)

    def _keeps_key(self) -> bool:
        """Keep text with an API key in the composer, if the model would see it and it was not kept
        before."""
        text = self.composer.text
        if text == self._kept or not has_key(text) or self.composer.typed.startswith("!!"):
            return False
        self._kept = text
        enter = keymap_of(self).shown("composer.send")
        self.tell(f"this looks like an API key; {enter} again sends it")
        return True

    def answer(self, refused: "Refused | None", done: str = "") -> None:
        """Show why an act was refused, or else that it was `done`."""
        self.tell(done if refused is None else refused.reason)

    @on(events.Resize)
    def _sync_composer(self) -> None:
        """Give a card some of the room of the composer and the message queue."""
        self.composer.running = self.state.status.now.run.phase not in ("starting", "idle")
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

    @on(events.ScreenResume)
    def _show_card(self) -> None:
        """Let the card say how to read on, which it does not while a page covers it."""
        if self._conversation is not None and self.card.is_attached:
            self.card.sync()

    def _prefer(self, settings: "Settings") -> None:
        """Do what the settings say about the screen; a theme of the command line wins."""
        self.card.rings = settings.bell
        self.app.editor = settings.editor  # type: ignore[attr-defined]  # read by external_editor
        self._status_line.prefer(settings, self.folders.workspace)
        theme = settings.theme
        if theme is None or self.launch_options.theme is not None or theme == self.themes.name:
            return
        if problem := self.themes.use(theme):
            self.state.document.remark(problem, "warning")

    def _failed(self, error: BaseException) -> None:
        self.app._handle_exception(
            error if isinstance(error, Exception) else RuntimeError(repr(error))
        )

    def copy_text(self, text: str) -> None:
        try:
            self.tell(copy(self.app, text, self.folders.state / "copies"))
        except OSError as error:
            self.tell(f"not copied: {error.strerror}; nothing was changed")

    def on_transcript_view_copy_requested(self, message: "TranscriptView.CopyRequested") -> None:
        self.copy_text(message.text)

    def on_transcript_view_link_clicked(self, message: "TranscriptView.LinkClicked") -> None:
        from codeagent.tui.transcript.places import named_places  # imported with the view

        url, workspace = message.url, self.view.workspace
        if workspace is None:
            self.copy_text(url)
        elif place := next(iter(named_places(url, workspace)), None):
            self.run_worker(self._open_place(place.path, place.line))
        elif file_inside(workspace, url) is not None:
            self.run_worker(self._open_place(url, 1))
        else:
            self.copy_text(url)

    def on_transcript_view_places_wanted(self, message: "TranscriptView.PlacesWanted") -> None:
        self.run_worker(self._choose_place(message.places))

    async def _choose_place(self, places: Sequence[str]) -> None:
        from codeagent.tui.pages.picker import Picker  # not needed until then
        from codeagent.tui.parts.marked_list import PickerRow

        chosen: str | None = next(iter(places), None)
        if len(places) > 1:
            rows = [PickerRow(place, place) for place in places]
            chosen = await self.app.push_screen_wait(Picker("Open in your editor", rows))
        elif chosen is None:
            self.tell("no FILE:LINE of this workspace in it")
        if chosen is not None:
            path, _, line = chosen.rpartition(":")
            await self._open_place(path, int(line))

    async def _open_place(self, path: str, line: int) -> None:
        try:
            await open_place(self.app, self.view.workspace or self.folders.workspace, path, line)
        except CodeagentError as error:
            self.tell(str(error))

    def on_transcript_view_stop_agent(self, message: "TranscriptView.StopAgent") -> None:
        self.outbox.stop_call(message.call_id)

    def on_transcript_view_open_output(self, message: "TranscriptView.OpenOutput") -> None:
        self.run_worker(self._show_output(message.call_id))

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
