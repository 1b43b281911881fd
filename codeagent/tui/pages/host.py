"""What the chat screen needs of the application around it."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from codeagent.tui.drafts import Draft
from codeagent.tui.keymap import Keymap
from codeagent.tui.parts.boundary_sheet import BoundaryAct
from codeagent.tui.ports import LaunchOptions
from codeagent.tui.state import UiState
from codeagent.tui.themes import Themes

if TYPE_CHECKING:  # it loads pydantic, which the first frame does without
    from codeagent.tui.session_client import SessionClient

OpenClient = Callable[[UiState], Awaitable["SessionClient"]]
"""Makes the session client; called after the first frame, so that nothing heavy is imported before."""


class Folders(Protocol):
    """Where the screen keeps its files."""

    @property
    def state(self) -> Path: ...

    @property
    def workspace(self) -> Path: ...

    @property
    def prompts(self) -> Path:
        """The file of the prompt history."""


class Host(Protocol):
    """The application, as the chat screen sees it."""

    @property
    def folders(self) -> Folders: ...

    @property
    def themes(self) -> Themes: ...

    @property
    def keys(self) -> Keymap: ...

    @property
    def open_client(self) -> OpenClient: ...

    @property
    def theme_name(self) -> str: ...

    @property
    def draft(self) -> Draft:
        """What is typed in this window and not sent yet."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def use_theme(self, name: str) -> str:
        """Draw everything in that theme; returns what is wrong with it, and keeps the present one then."""

    async def change_to(self, options: LaunchOptions) -> None:
        """Leave this conversation for another."""

    def quit(self) -> None:
        """End the program in an orderly way."""

    def print_below(self, text: str) -> None:
        """Put text into the terminal's own scrollback and come back."""


class Commands(Protocol):
    """What the chat screen does on a command, whether it came from a line, a key or a list."""

    def run(self, name: str, argument: str = "") -> None: ...

    def act(self, act: BoundaryAct) -> None:
        """What a key of the boundary's card asks for."""

    def unknown(self, text: str) -> None:
        """A slash and a word that is not a command."""

    def copy_text(self, text: str) -> None: ...

    def show_output(self, call_id: str) -> None: ...

    def palette(self) -> None: ...
