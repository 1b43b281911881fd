"""Messages between agents: the names they can be sent to, and how a tool sends one."""

from collections.abc import Awaitable, Sequence
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


@dataclass(frozen=True)
class Received:
    """A message that an agent received."""

    id: str
    """`m3`: later messages have higher numbers, whoever sends them."""
    sender: str
    to: str
    """The agent, or the channel that it watches."""
    body: str
    reply_to: str | None
    """The id of the message that it answers."""


class OwnChannels(Protocol):
    """The channels of the agent that makes a call, used under its name and within its limits.

    Everything but `wait` also works in another thread. All methods raise ToolError.
    """

    def addressees(self) -> Sequence[Addressee]:
        """Return the agents, then the channels, each sorted by name."""

    def send(self, to: str, body: str, reply_to: str | None = None) -> Sent:
        """Send a message as the agent's own `send_message` would; raises if that is not allowed, or
        nobody got it."""

    def read(self, after: str = "") -> Sequence[Received]:
        """Return the latest messages that the agent received since the session was opened, the
        oldest first.

        `after`: only those after the message with this id. The model still gets all of them.
        """

    def wait(self, after: str = "") -> Awaitable[Sequence[Received]]:
        """Wait until `read` returns something."""


class Post(Protocol):
    """Carries messages between the agents of one process; an accepted message is in the log of its
    receivers."""

    def addressees(self) -> Sequence[Addressee]:
        """Return the agents, then the channels, each sorted by name."""

    def send(self, sender: str, to: str, body: str, reply_to: str | None) -> Sent:
        """Send a message. Raises ToolError if nobody got it."""

    def watch(self, agent: str, channel: str, on: bool) -> None:
        """Make the agent watch the channel, or stop watching it. Raises ToolError."""

    def create(self, channel: str, kind: ChannelKind) -> None:
        """Add a channel that nobody watches yet. Raises ToolError if the name is not free, or there
        are too many."""
