"""What the agent is doing and waits for, for the title of the window and for notifications."""

from collections.abc import Callable
from typing import Literal, Protocol

from codeagent.core.dataclass import dataclass


@dataclass(frozen=True)
class Attention:
    """What the agent is doing, for a user who looks elsewhere."""

    state: Literal["idle", "working", "waiting", "done", "stopped", "failed"] = "idle"
    """idle: it has not been asked anything yet. waiting: for the user. The last three: how its run
    ended."""
    place: str = ""
    """The name of the folder that it works in."""
    about: str = ""
    """What it waits for, in a few words, some of which may be the model's."""
    questions: tuple[str, ...] = ()
    """The ids of the open questions; a new one is a reason to notify the user again."""


class Terminal(Protocol):
    """The terminal that the screen is drawn on, as extensions may use it."""

    @property
    def in_front(self) -> bool:
        """Whether the user is looking at it; True if the terminal does not report that."""

    def title(self, text: str) -> None:
        """Set the window's title until the screen ends; the text may be any."""

    def send(self, sequence: str) -> None:
        """Send a control sequence that neither draws nor moves anything."""

    def tell(self, problem: str) -> None:
        """Report a problem in the conversation."""


Follower = Callable[[Attention], None]
"""Called in the event loop whenever something in it has changed."""
