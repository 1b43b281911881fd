"""The application around the chat screen: theme, keys, and what is left in the terminal at the
end."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from textual.driver import Driver
from textual.filter import LineFilter
from textual.screen import ModalScreen, Screen

from codeagent.core.errors import CodeagentError
from codeagent.core.extension import Extension
from codeagent.core.programs import this_program
from codeagent.core.redact import Redactor
from codeagent.tui.actions import Action
from codeagent.tui.commands import ActionTable
from codeagent.tui.crash import record_survived
from codeagent.tui.drafts import own_draft
from codeagent.tui.guarded import GuardedApp, run_guarded
from codeagent.tui.keymap import Keymap, load_keymap
from codeagent.tui.launcher import AppFolders, LaunchOptions
from codeagent.tui.pages.chat import ChatScreen, OpenClient
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.themes import DEFAULT_THEME, Themes, ThemeSwitch

_SCROLLBACK_LINES = 2000
"""How many lines of the conversation are left in the terminal's scrollback at the end."""


class CodeagentApp(GuardedApp):
    """Holds screens, theme and keys; the conversation itself belongs to the chat screen."""

    DEFAULT_CSS = """
    ModalScreen:inline { border: none; height: 100%; }
    """
    ENABLE_COMMAND_PALETTE = False
    INLINE_PADDING = 0
    TITLE = "codeagent"

    def __init__(
        self,
        open_client: OpenClient,
        options: LaunchOptions,
        folders: AppFolders,
        *,
        extensions: Callable[[], Iterable[Extension]] = tuple,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`extensions` gives every extension, for the names of keys in the user's file; `clock`
        seconds since the epoch."""
        # Textual answers NO_COLOR with grey; only a theme without colours of its own has none.
        super().__init__(
            ansi_color=True if "NO_COLOR" in os.environ else None,
            driver_class=_inline_driver() if options.inline else None,
        )
        self.inline = options.inline
        self._open_client = open_client
        self.folders = folders
        self.keys = Keymap()
        self.palette = Palette()
        self._extensions = extensions
        self._clock = clock
        themes = Themes([folders.config / "themes"])
        self.look = ThemeSwitch(self, themes, paint=self._paint, tell=self._remark)
        self._draft = own_draft(folders.drafts)
        self.chat = self._new_chat(options)
        self._left: ChatScreen | None = None
        self.redact = Redactor(os.environ).clean
        """Removes this process's secrets from a text."""
        # Before the first frame, because a later change of theme draws everything again.
        for name in (DEFAULT_THEME, options.theme):
            if name is not None and (problem := self.look.use(name)):
                self._remark(problem)

    @property
    def kept_session(self) -> str:
        return self.chat.state.status.now.conversation.session

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), *self.look.filters]

    def on_mount(self) -> None:
        self._use_keys()
        self.look.watch()

    def on_unmount(self) -> None:
        self._draft.release()

    def _new_chat(self, options: LaunchOptions) -> ChatScreen:
        return ChatScreen(
            options,
            self._open_client,
            _run_command,
            self.change_to,
            use_table=self.use_table,
            folders=self.folders,
            themes=self.look,
            draft=self._draft,
            clock=self._clock,
        )

    def get_default_screen(self) -> Screen[None]:
        return self.chat

    async def change_to(self, options: LaunchOptions) -> None:
        before = self.chat
        self.chat = self._new_chat(options)
        self._left = before
        if before.outbox.waits:
            before.outbox.stop()  # what was sent but not yet done moves along with the draft
            self._draft.keep(before.composer.text)
        await before.end()
        if before is not self.screen_stack[0]:
            await self.switch_screen(self.chat)
            return
        # Textual cannot switch the first screen: it stays below, empty.
        await before.remove_children()
        await self.push_screen(self.chat)

    def survives(self, error: BaseException) -> bool:
        """Show an error that nothing caught as a line in the conversation, and close the page above
        it."""
        if not self._running or not self.chat.is_mounted:
            return False
        document = (
            self.chat.view.document
        )  # raises in a broken installation that has nothing to show it with
        said = record_survived(
            error, self.folders.state, session=self.kept_session, redact=self.redact
        )
        document.remark(said, "error")
        if isinstance(self.screen, ModalScreen):
            self.screen.call_later(self._close, self.screen)
        return True

    def _close(self, page: ModalScreen[Any]) -> None:
        """Close a page without an answer."""
        if page.is_current:
            page.dismiss(None)

    def action_every_key(self) -> None:
        """Show what every key does, above a page."""
        from codeagent.tui.pages.info import KeySheet  # not needed before somebody asks

        if not isinstance(self.screen, KeySheet):
            self.push_screen(KeySheet(self.keys))

    async def action_quit(self) -> None:
        """End in an orderly way; the conversation stays visible while it is closed."""
        self.run_worker(self._quit(), exclusive=True, group="quit")

    async def farewell(self) -> None:
        """Also end the conversation that was just left for another, if it has not ended yet."""
        await asyncio.gather(*(chat.end() for chat in (self._left, self.chat) if chat is not None))

    async def _quit(self) -> None:
        await self.farewell()
        self.exit(return_code=0)

    def _use_keys(self) -> None:
        try:
            self.keys = load_keymap(self.folders.config / "keys.yaml", self._extensions)
        except CodeagentError as error:
            self._remark(str(error))
        self.set_keymap(self.keys.overrides)

    def use_table(self, table: ActionTable) -> None:
        """Use the table with the extensions that are on, once they are known."""
        self.keys = replace(self.keys, table=table)

    def _paint(self, palette: Palette) -> None:
        self.palette = palette

    def _remark(self, text: str) -> None:
        self.chat.state.document.remark(text, "warning")


def _inline_driver() -> type[Driver]:
    from codeagent.tui.inline import InlineDriver  # most screens are not drawn below the shell

    return InlineDriver


def _run_command(chat: ChatScreen, row: Action, argument: str) -> None:
    from codeagent.tui.pages.slash import run  # not at the top: it loads every page and list

    run(chat, row, argument)


def run_app(
    open_client: OpenClient,
    options: LaunchOptions,
    folders: AppFolders,
    extensions: Callable[[], Iterable[Extension]] = tuple,
) -> int:
    """Run the screen from start to end; returns the process's exit code."""
    app = CodeagentApp(open_client, options, folders, extensions=extensions)
    code = run_guarded(app, folders.state, app.redact)
    if code == 0:
        sys.stdout.write(app.redact(_farewell(app.chat)))
    return code


def _farewell(chat: ChatScreen) -> str:
    """Print what stays in the terminal: the end of the conversation, and how to resume it."""
    lines = chat.view.to_leave().splitlines() if chat.state.document.blocks else []
    session = chat.state.status.now.conversation.session
    if not lines and not chat.launch_options.inline:
        return ""
    again = [f"resume with: {this_program()} --resume {session}"] if session else []
    return "\n".join([*lines[-_SCROLLBACK_LINES:], "", *again, ""])
