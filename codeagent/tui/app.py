"""The application around the chat screen: theme, keys, and what stays in the terminal at the end."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from zlib import crc32

from textual.screen import ModalScreen, Screen

from codeagent.core.errors import CodeagentError
from codeagent.core.programs import this_program
from codeagent.core.redact import Redactor
from codeagent.tui.crash import record_survived
from codeagent.tui.drafts import Draft, own_draft
from codeagent.tui.guarded import GuardedApp, run_guarded
from codeagent.tui.keymap import Keymap, load_keymap
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.host import OpenClient
from codeagent.tui.ports import LaunchOptions
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.theme_switch import ThemeSwitch
from codeagent.tui.themes import DEFAULT_THEME, Themes

_SCROLLBACK_LINES = 2000
"""Lines of the conversation that are left in the terminal's scrollback at the end."""


@dataclass(frozen=True)
class AppFolders:
    """Where the screen keeps and finds its files."""

    state: Path
    """Drafts, prompt history, crash reports."""
    config: Path
    """`themes/*.yaml` and `keys.yaml` of the user's own."""
    workspace: Path

    @property
    def drafts(self) -> Path:
        """The first draft of the folder worked in; those of further windows lie beside it."""
        return self.state / "drafts" / f"{self.workspace.name[:40]}-{crc32(os.fsencode(self.workspace)):08x}"

    @property
    def prompts(self) -> Path:
        return self.state / "prompts.jsonl"


class CodeagentApp(GuardedApp):
    """Screens, theme and keys (the Host of the chat screen); what is said and done is the chat screen's."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "codeagent"

    def __init__(
        self,
        open_client: OpenClient,
        options: LaunchOptions,
        folders: AppFolders,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives seconds since the epoch."""
        # Textual takes NO_COLOR for grey; only a theme without colours of its own has none.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.open_client = open_client
        self.folders = folders
        self.themes = Themes([folders.config / "themes"])
        self.keys = Keymap()
        self.palette = Palette()
        self.chat = ChatScreen(self, options)
        self._switch = ThemeSwitch(self, self.themes, paint=self._paint, tell=self._remark)
        self._clock = clock
        self._left: ChatScreen | None = None
        self._redactor = Redactor(os.environ)
        # Before the first frame: a theme that changes later draws everything again.
        for name in (DEFAULT_THEME, options.theme):
            if name is not None and (problem := self.use_theme(name)):
                self._remark(problem)

    @cached_property
    def draft(self) -> Draft:
        return own_draft(self.folders.drafts)

    @property
    def redact(self) -> Callable[[str], str]:
        """Takes the secrets of this process out of a text."""
        return self._redactor.clean

    @property
    def kept_session(self) -> str:
        return self.chat.state.status.now.session

    @property
    def theme_name(self) -> str:
        return self._switch.name

    def now(self) -> float:
        return self._clock()

    def on_mount(self) -> None:
        self._use_keys()

    def on_unmount(self) -> None:
        self.draft.release()

    def get_default_screen(self) -> Screen[None]:
        return self.chat

    async def change_to(self, options: LaunchOptions) -> None:
        before, self.chat = self.chat, ChatScreen(self, options)
        self._left = before
        await before.end()
        if before is not self.screen_stack[0]:
            await self.switch_screen(self.chat)
            return
        # The first screen cannot be switched: it stays below, empty.
        await before.remove_children()
        await self.push_screen(self.chat)

    def outlives(self, error: BaseException) -> bool:
        """An error nobody caught is a line in the conversation, and what was open above it closes."""
        if not self._running or not self.chat.is_mounted:
            return False
        said = record_survived(error, self.folders.state, session=self.kept_session, redact=self.redact)
        self.chat.state.document.remark(said, "error")
        if isinstance(self.screen, ModalScreen):
            self.screen.call_later(self._close, self.screen)
        return True

    def _close(self, page: ModalScreen[Any]) -> None:
        """Its answer is that there is none."""
        if page.is_current:
            page.dismiss(None)

    def use_theme(self, name: str) -> str:
        return self._switch.use(name)

    def quit(self) -> None:
        self.run_worker(self._quit(), exclusive=True, group="quit")

    async def farewell(self) -> None:
        """The conversation that was just left for another may still be ending."""
        await asyncio.gather(*(chat.end() for chat in (self._left, self.chat) if chat is not None))

    async def _quit(self) -> None:
        await self.farewell()
        self.exit(return_code=0)

    def print_below(self, text: str) -> None:
        with self.suspend():
            sys.stdout.write(text + "\n")

    def _use_keys(self) -> None:
        try:
            self.keys = load_keymap(self.folders.config / "keys.yaml")
        except CodeagentError as error:
            self._remark(str(error))
        self.set_keymap(self.keys.overrides)

    def _paint(self, palette: Palette) -> None:
        self.palette = palette

    def _remark(self, text: str) -> None:
        self.chat.state.document.remark(text, "warning")


def run_app(open_client: OpenClient, options: LaunchOptions, folders: AppFolders) -> int:
    """The whole life of the screen; returns the process's exit code."""
    app = CodeagentApp(open_client, options, folders)
    code = run_guarded(app, folders.state, app.redact)
    if code == 0:
        sys.stdout.write(app.redact(_farewell(app.chat)))
    return code


def _farewell(chat: ChatScreen) -> str:
    """What stays in the terminal: the end of the conversation, and how to resume it."""
    lines = chat.view.plain_text().splitlines()
    session = chat.state.status.now.session
    if not lines:
        return ""
    again = [f"resume with: {this_program()} --resume {session}"] if session else []
    return "\n".join([*lines[-_SCROLLBACK_LINES:], "", *again, ""])
