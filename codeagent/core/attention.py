"""What the agent wants of the user's attention, for the title of the window and for notifications."""

from collections.abc import Callable
from typing import Literal, Protocol

from codeagent.core.dataclass import dataclass


@dataclass(frozen=True)
class Attention:
    """What the agent is doing, as far as the user would want to know it from afar."""

    state: Literal["idle", "working", "waiting", "done", "stopped", "failed"] = "idle"
    """idle: nothing was asked of it yet. waiting: for the user. The last three: how its run ended."""
    place: str = ""
    """The name of the folder that it works in."""
    about: str = ""
    """What it waits for, in a few words, some of which may be the model's."""
    questions: tuple[str, ...] = ()
    """The ids of what waits for an answer: another question is a reason to look again."""


class Terminal(Protocol):
    """The terminal that the screen is drawn on, as far as others may use it."""

    @property
    def in_front(self) -> bool:
        """Whether the user looks at it; True if it does not tell."""

    def title(self, text: str) -> None:
        """Title the window until the screen ends; whatever text it is."""

    def send(self, sequence: str) -> None:
        """Send a control sequence that neither draws nor moves anything."""

    def tell(self, problem: str) -> None:
        """Say in the conversation what went wrong."""


Follower = Callable[[Attention], None]
"""Called in the event loop whenever something in it has changed."""
