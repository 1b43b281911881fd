"""Messages between agents: the names that can be written to, and how a tool sends (FEATURES F30)."""

from collections.abc import Sequence
from typing import Literal, Protocol

from codeagent.core.dataclass import dataclass

ChannelKind = Literal["queue", "broadcast"]
"""A message to a queue goes to one of those who watch it, a broadcast to all of them."""


@dataclass(frozen=True)
class Addressee:
    """An agent or a channel that can be written to."""

    name: str
    kind: Literal["agent", "queue", "broadcast"]
    watchers: tuple[str, ...] = ()
    """The agents that watch the channel."""


@dataclass(frozen=True)
class Sent:
    """A message that was taken."""

    id: str
    receivers: tuple[str, ...]
    """The agents that got it."""
    full: tuple[str, ...] = ()
    """Those that did not, because too much is waiting for them."""


class Post(Protocol):
    """Carries messages between the agents of one process; a message that was taken is in the log of its receivers."""

    def addressees(self) -> Sequence[Addressee]:
        """Agents first, each by name."""

    def send(self, sender: str, to: str, body: str, reply_to: str | None) -> Sent:
        """Raises ToolError: then nobody got it."""

    def watch(self, agent: str, channel: str, on: bool) -> None:
        """Have the agent get what is sent to the channel, or no longer. Raises ToolError."""
