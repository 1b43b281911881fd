"""Messages between agents: the names they can be sent to, and how a tool sends one (FEATURES F30)."""

from collections.abc import Sequence
from typing import Literal, Protocol

from codeagent.core.dataclass import dataclass

ChannelKind = Literal["queue", "broadcast"]
"""A message to a queue goes to one of the agents that watch it, a broadcast to all of them."""


@dataclass(frozen=True)
class Addressee:
    """An agent or a channel that messages can be sent to."""

    name: str
    kind: Literal["agent", "queue", "broadcast"]
    watchers: tuple[str, ...] = ()
    """The agents that watch the channel."""


@dataclass(frozen=True)
class Sent:
    """A message that was accepted."""

    id: str
    receivers: tuple[str, ...]
    """The agents that got it."""
    full: tuple[str, ...] = ()
    """Those that did not get it, because too many messages wait for them."""


class Post(Protocol):
    """Carries messages between the agents of one process; an accepted message is in the log of its receivers."""

    def addressees(self) -> Sequence[Addressee]:
        """Return the agents, then the channels, each sorted by name."""

    def send(self, sender: str, to: str, body: str, reply_to: str | None) -> Sent:
        """Send a message. Raises ToolError if nobody got it."""

    def watch(self, agent: str, channel: str, on: bool) -> None:
        """Make the agent watch the channel, or stop watching it. Raises ToolError."""
