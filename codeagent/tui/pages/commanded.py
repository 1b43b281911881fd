"""The chat screen as its commands and cards see it."""

from typing import TYPE_CHECKING, Any, Protocol

from textual.app import App

from codeagent.tui.parts.boundary_card import BoundaryCard
from codeagent.tui.ports import LaunchOptions
from codeagent.tui.state import UiState
from codeagent.tui.transcript.view import TranscriptView

if TYPE_CHECKING:  # it loads pydantic, which the first frame does without
    from codeagent.tui.session_client import SessionClient


class Chat(Protocol):
    """The chat screen, as its commands see it."""

    @property
    def app(self) -> App[Any]: ...

    @property
    def state(self) -> UiState: ...

    @property
    def client(self) -> "SessionClient | None": ...

    @property
    def view(self) -> TranscriptView: ...

    @property
    def boundary_card(self) -> BoundaryCard: ...

    launch_options: LaunchOptions
    """What a conversation that follows this one begins with."""

    async def ready(self) -> "SessionClient":
        """The conversation, once it is there. Raises CodeagentError where there will be none."""

    def tell(self, text: str) -> None:
        """One short line about what just happened."""

    def open_find(self, text: str) -> None: ...

    def restore(self, text: str) -> None:
        """Put text that was not used back into the composer."""

    async def press(self, action: str) -> None:
        """Do what a key does: an action of the composer, or `screen.…` or `app.…`."""
