"""The chat screen: turns what the user does into acts of the session client, and draws the UI
state."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from textual import on
from textual.widgets import TextArea

from codeagent.core.errors import CodeagentError
from codeagent.tui.commands import ActionTable
from codeagent.tui.drafts import Draft
from codeagent.tui.keymap import keymap_of
from codeagent.tui.launcher import AppFolders, FirstPrompt, LaunchOptions
from codeagent.tui.pages.chat_frame import RunCommand
from codeagent.tui.pages.chat_keys import ChatKeys
from codeagent.tui.parts.composer import Composer
from codeagent.tui.parts.external_editor import edit_in_editor
from codeagent.tui.parts.typed_input import CommandInput, PromptInput, ShellInput, UnknownInput
from codeagent.tui.state import UiState
from codeagent.tui.themes import ThemeSwitch

if TYPE_CHECKING:  # the first frame does not show any of it
    from codeagent.tui.parts.queued import QueueView
    from codeagent.tui.session_client import SessionClient

OpenClient = Callable[[UiState, LaunchOptions], Awaitable["SessionClient"]]
"""Shows the end of a resumed session, then makes the client; its heavy imports wait until after the
first frame."""
_FIRST_KEYS = 0.05
"""Seconds after the first frame in which only keys are handled, as imports would delay them, even
in a thread.

Sending something ends them."""


class ChatScreen(ChatKeys):
    """Shows one conversation."""

    DEFAULT_CSS = """
    ChatScreen {
        overflow: hidden;
        & > TranscriptView { height: 1fr; }
        & > .chat--foot { dock: bottom; height: auto; }
        &:inline {
            border: none;
            height: auto;
            & > .chat--foot { dock: none; }
            & Overlay { overlay: none; }
        }
    }
    """
    AUTO_FOCUS = "Composer"

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
        extensions that are on; `draft` keeps what is typed in this window but not sent.

        `clock` gives seconds since the epoch.
        """
        super().__init__(
            options,
            run_command=run_command,
            folders=folders,
            themes=themes,
            draft=draft,
            clock=clock,
        )
        self.change_to = change_to
        self._open_client = open_client
        self._use_table = use_table
        self._typed_at = self.composer.last_typed
        self._opening = False
        self._opened: SessionClient | None = None

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
        self.composer.insert_back(self.launch_options.prompt.text)
        if self.launch_options.prompt.sent:
            self.launch_options = replace(self.launch_options, prompt=FirstPrompt())
            self.composer.send(later=False)
        self.composer.focus()
        for trouble in filter(None, (self._draft.trouble, self._history.trouble)):
            self.state.document.remark(trouble, "warning")
        options, known = self.launch_options, self.state.status
        known.set(
            model=options.model or known.now.conversation.model,
            mode=options.mode or known.now.conversation.mode,
        )
        self.call_after_refresh(self.set_timer, _FIRST_KEYS, self._open)

    async def end(self) -> None:
        """Close the conversation, even while it is being opened; typed text is kept as the
        draft."""
        self._draft.close()
        for group in ("connect", "beside"):
            self.workers.cancel_group(self, group)
        if self._conversation is not None:
            self._conversation.end()
        if self._opened is not None:
            await self._opened.close()

    def _open(self) -> None:
        """Open the conversation, with its heavy imports: after the first keys, or as soon as one of
        them is Enter."""
        if self._opening:
            return
        self._opening = True
        self.run_worker(self._connect(), group="connect")

    async def _connect(self) -> None:
        # In a thread, which makes way for keys every few milliseconds.
        await asyncio.to_thread(import_module, "codeagent.tui.pages.conversation")
        from codeagent.tui.pages.conversation import open_conversation  # just imported

        key = keymap_of(self).shown("composer.keys")
        self.conversation.greet(self.launch_options, self.folders.workspace, key)
        if self.launch_options.resume is not None:
            self.run_worker(self.conversation.warm_up())
        client: SessionClient | None = None
        refused = ""
        try:
            client = self._opened = await self._open_client(self.state, self.launch_options)
            options = await open_conversation(self.app, client, self.launch_options)
            if options is None:
                await self.run_action("app.quit")
                return
            self.launch_options = options
            self.view.use_workspace(client.launcher.workspace)
            self._use_table(await self.conversation.meet_extensions(client))
            self.composer.mention_of = self.conversation.mention_of
            self.run_worker(self.conversation.run_beside(self), group="beside")
            self.conversation.greet(options, self.folders.workspace, key)
        except Exception as error:
            client, refused = None, str(error) or repr(error)
            self.state.document.forget_recorded()
            if isinstance(error, CodeagentError):
                self.state.document.remark(str(error), "error")
            else:
                self._failed(error)
            self.state.status.set(phase="idle", sandbox="none")
        self.run_worker(self.conversation.begin(client, refused, self.composer))

    def _keeps(self, later: bool) -> bool:
        """Keep text in the composer that does not fit into the model's window, and ask what to do
        with it; keep text with an API key until it is sent again."""
        if self._keeps_key():
            return True
        window, length = self.state.status.now.usage.context_window, len(self.composer.text)
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

        self.run_worker(ask())
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
                self.run_worker(self.conversation.warm_up_when_sent())
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
            self.run_worker(find())

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
                self.run_worker(self._edit(self.composer.text))
            case "files":
                self.run_worker(
                    self.conversation.offer_files(self.composer), group="files", exclusive=True
                )
            case "commands":
                if (conversation := self._conversation) is not None:
                    self.run_worker(
                        conversation.offer_commands(self.composer), group="offers", exclusive=True
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

    @on(TextArea.Changed)
    def _attached(self) -> None:
        if self._conversation is not None:
            self._conversation.show_attached(self.composer.text, self._area)

    async def _edit(self, text: str) -> None:
        try:
            self.composer.set_edited(text, await edit_in_editor(self.app, text))
        except CodeagentError as error:
            self.tell(str(error))

    def on_card_left(self) -> None:
        self.composer.focus()

    on_transcript_view_left = on_find_bar_closed = on_card_left
