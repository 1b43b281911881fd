"""Messages between the agents of one process: the hub that carries them, and the inbox of each
agent."""

import asyncio
import json
import re
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from codeagent.agent.parts import ConversationPart, Host
from codeagent.core.channels import Addressee, ChannelKind, Received, Sent
from codeagent.core.events import KnownEvent, MessageAdded
from codeagent.core.json_types import MAIN
from codeagent.core.messages import UserMessage
from codeagent.core.notes import message_note
from codeagent.core.notices import MessageReceived
from codeagent.core.recipes import NAME
from codeagent.core.sanitize import one_line
from codeagent.core.tool import Denied, Failed, InvalidArgs, NotFound
from codeagent.extensions.agents.messages import SendMessage, SendMessageArgs
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.faults import nearest_or_all

T = TypeVar("T")
CHANNELS: Mapping[str, ChannelKind] = {"all": "broadcast", "work": "queue"}
"""The channels of a conversation without a group."""
MOST_WAITING = 50
"""The most messages that may wait unread for one agent."""
MOST_PER_MINUTE = 20
"""The most messages that one agent may send within a minute."""
MOST_WAKES = 20
"""How many messages in a row may wake an agent before the user types something; further ones wait
until then."""
MOST_CHANNELS = 20
"""The most channels that agents may add."""
_MESSAGE_ID = re.compile(r"m[0-9]{1,9}")
_MINUTE = 60.0
_SHOWN = 200


class Hub:
    """Knows the agents and channels, and gives each message to its receivers at once (the Post of
    `core.channels`)."""

    def __init__(
        self,
        channels: Mapping[str, ChannelKind] | None = None,
        clock: Callable[[], float] = time.monotonic,
        most: int | None = None,
    ) -> None:
        """`most`: how many messages may be sent in all; None for no limit."""
        self._most = most
        self._channels = dict(CHANNELS if channels is None else channels)
        self._clock = clock
        self._inboxes: dict[str, Inbox] = {}
        self._watchers: dict[str, list[str]] = {name: [] for name in self._channels}
        self._sent: dict[str, deque[float]] = {}
        self._count = 0
        self._names = {*self._channels, MAIN}
        """Every name that an agent or a channel has, or had."""
        self._added = 0

    def join(self, inbox: "Inbox") -> None:
        """Raises Failed if the name is taken."""
        if inbox.name in self._inboxes or inbox.name in self._channels:
            raise Failed(f"there is an agent or a channel named {inbox.name} already")
        self._inboxes[inbox.name] = inbox
        self._names.add(inbox.name)

    @property
    def channels(self) -> Mapping[str, ChannelKind]:
        return self._channels

    def create(self, channel: str, kind: ChannelKind) -> None:
        """Add a channel that nobody watches yet. Raises InvalidArgs, Failed."""
        if NAME.fullmatch(channel) is None or channel in self._names:
            raise InvalidArgs(
                f"{one_line(channel, 64)!r} is taken or not a valid name; no channel was added"
            )
        if self._added >= MOST_CHANNELS:
            raise Failed(
                f"{MOST_CHANNELS} channels were added, which is the limit; no channel was added"
            )
        self._added += 1
        self._names.add(channel)
        self._channels[channel] = kind
        self._watchers[channel] = []

    def leave(self, inbox: "Inbox") -> None:
        if self._inboxes.get(inbox.name) is inbox:
            del self._inboxes[inbox.name]
            for watchers in self._watchers.values():
                watchers[:] = [name for name in watchers if name != inbox.name]

    def addressees(self) -> tuple[Addressee, ...]:
        channels = (
            Addressee(name, kind, tuple(self._watchers[name]))
            for name, kind in sorted(self._channels.items())
        )
        return (*(Addressee(name, "agent") for name in sorted(self._inboxes)), *channels)

    def watch(self, agent: str, channel: str, on: bool) -> None:
        """Raises NotFound."""
        if channel not in self._channels:
            raise NotFound(
                f"unknown channel {one_line(channel, 100)!r}{nearest_or_all(channel, self._channels)}"
            )
        others = [name for name in self._watchers[channel] if name != agent]
        self._watchers[channel] = [*others, agent] if on and agent in self._inboxes else others

    def send(self, sender: str, to: str, body: str, reply_to: str | None) -> Sent:
        """Raises ToolError."""
        if reply_to is not None and _MESSAGE_ID.fullmatch(reply_to) is None:
            raise InvalidArgs(
                "reply_to is the id of the message that this answers, as in m3; nothing was sent"
            )
        receivers = self._receivers(sender, to)
        free = [name for name in receivers if self._inboxes[name].waiting < MOST_WAITING]
        if not free:
            raise Failed(
                f"{MOST_WAITING} messages already wait for {', '.join(receivers)}; nothing was sent"
            )
        if self._most is not None and self._count >= self._most:
            raise Failed(
                f"{self._most} messages were sent in all, which is the limit; nothing was sent"
            )
        self._check_rate(sender)
        self._count += 1
        sent = Sent(
            f"m{self._count}", tuple(free), tuple(name for name in receivers if name not in free)
        )
        for name in free:
            self._inboxes[name].take(sent.id, sender, to, body, reply_to)
        return sent

    def _receivers(self, sender: str, to: str) -> list[str]:
        """At least one. Raises ToolError."""
        if to == sender:
            raise InvalidArgs("a message to yourself reaches nobody; nothing was sent")
        if to in self._inboxes:
            return [to]
        if to not in self._channels:
            known = [*self._inboxes, *self._channels]
            raise NotFound(
                f"unknown agent or channel {one_line(to, 100)!r}{nearest_or_all(to, known)}"
            )
        others = [name for name in self._watchers[to] if name != sender]
        if not others:
            raise Failed(f"no other agent watches the channel {to}; nothing was sent")
        if self._channels[to] == "broadcast":
            return others
        chosen = min(others, key=lambda name: self._inboxes[name].waiting)
        # The receiver moves to the end of the line: the next message goes to another agent.
        self.watch(chosen, to, True)
        return [chosen]

    def _check_rate(self, sender: str) -> None:
        """Raises Failed."""
        now, times = self._clock(), self._sent.setdefault(sender, deque())
        while times and now - times[0] >= _MINUTE:
            times.popleft()
        if len(times) >= MOST_PER_MINUTE:
            raise Failed(
                f"{MOST_PER_MINUTE} messages were sent within a minute; nothing was sent. Go on without more"
            )
        times.append(now)


class ToolChannels:
    """The channels of one agent, for its tools (the OwnChannels of `core.channels`)."""

    def __init__(self, inbox: "Inbox", objection: Callable[[str], str]) -> None:
        """`objection` returns why the agent must not send to a name; empty if it may."""
        self._inbox = inbox
        self._objection = objection
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def addressees(self) -> Sequence[Addressee]:
        return self._there(self._inbox.hub.addressees)

    def send(self, to: str, body: str, reply_to: str | None = None) -> Sent:
        tool = SendMessage(self._inbox.hub, self._inbox.name)
        given: Any = parse_arguments(
            tool, json.dumps({"to": to, "body": body, "reply_to": reply_to})
        )
        return self._there(partial(self._send, given))

    def read(self, after: str = "") -> Sequence[Received]:
        return self._there(partial(self._inbox.received, after))

    def wait(self, after: str = "") -> Awaitable[Sequence[Received]]:
        if threading.get_ident() != self._thread:
            raise Failed(
                "a plain function cannot wait for messages; make the tool `async def`, or read them"
            )
        return self._inbox.next_received(after)

    def _send(self, given: SendMessageArgs) -> Sent:
        if why := self._objection(given.to):
            raise Denied(f"{why}; nothing was sent")
        return self._inbox.hub.send(self._inbox.name, given.to, given.body, given.reply_to)

    def _there(self, do: Callable[[], T]) -> T:
        """Do it in the agents' thread, as the hub is not thread-safe. Raises whatever `do` raises,
        and Failed."""
        if threading.get_ident() == self._thread:
            return do()
        done: Future[T] = Future()

        def work() -> None:
            try:
                done.set_result(do())
            except BaseException as error:
                done.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(work)
        except RuntimeError:
            raise Failed("the session has ended; nothing was done") from None
        return done.result()


class Inbox(ConversationPart):
    """The messages for one agent: logged at once, and read at the next boundary."""

    def __init__(
        self,
        hub: Hub,
        name: str = MAIN,
        watched: Iterable[str] = (),
        most_wakes: int | None = MOST_WAKES,
        joins: bool = True,
    ) -> None:
        """`watched`: the channels that it watches from the start. `most_wakes` None: each message
        wakes the agent. `joins` False: the agent takes no part, as its conversation is for a
        group, and only its tools know the hub."""
        self.hub = hub
        self.joins = joins
        self._most_wakes = most_wakes
        self.arrived = asyncio.Event()
        """Set when a message arrives that wakes the agent; whoever waits for it clears it."""
        self.name = name
        self._watched = tuple(watched)
        self._notes: list[UserMessage] = []
        self._received: deque[Received] = deque(maxlen=MOST_WAITING)
        self._came = asyncio.Event()
        """Set, and replaced, when a message comes: it wakes everybody who is waiting at that
        moment."""
        self._wakes = 0

    def connect(self, host: Host) -> None:
        """Join the hub. Raises Failed if the name is taken."""
        self._emitter = host.context.emitter
        self._queue = host.context.queue
        self._wake = host.runs.rouse
        if not self.joins:
            return
        self.hub.join(self)
        for channel in self._watched:
            with suppress(NotFound):  # it belonged to another group
                self.hub.watch(self.name, channel, True)
        self._emitter.observe(self._see)

    def beside(self, name: str) -> "Inbox":
        """Make the inbox of another agent at the same hub."""
        return Inbox(self.hub, name)

    def channels(self, objection: Callable[[str], str]) -> ToolChannels | None:
        if not self.joins:
            return None
        return ToolChannels(self, objection)

    def received(self, after: str) -> Sequence[Received]:
        """Return the latest messages after the one with this id; all of them if it is empty. Raises
        InvalidArgs."""
        if after and _MESSAGE_ID.fullmatch(after) is None:
            raise InvalidArgs(f"{one_line(after, 40)!r} is not the id of a message, such as m3")
        number = int(after[1:] or 0)
        return tuple(one for one in self._received if int(one.id[1:]) > number)

    async def next_received(self, after: str) -> Sequence[Received]:
        """Wait until there are such messages. Raises InvalidArgs."""
        while not (found := self.received(after)):
            await self._came.wait()
        return found

    @property
    def waiting(self) -> int:
        """How many messages have not been read yet."""
        self._notes = [note for note in self._notes if self._queue.waits(note)]
        return len(self._notes)

    def take(self, message_id: str, sender: str, to: str, body: str, reply_to: str | None) -> None:
        received = MessageReceived(
            text=f"{message_id}, {sender} to {to}: {one_line(body, _SHOWN)}",
            message_id=message_id,
            sender=sender,
            to=to,
            body=body,
            reply_to=reply_to,
        )
        note = message_note(self._emitter.emit(received))
        self._received.append(Received(message_id, sender, to, body, reply_to))
        self._came.set()
        self._came = asyncio.Event()
        self._notes.append(note)
        wakes = self._most_wakes is None or self._wakes < self._most_wakes
        self._wakes += wakes
        self._queue.add_note(note, wakes=wakes)
        if wakes:
            self.arrived.set()
            self._wake()

    @property
    def wakes(self) -> bool:
        """Whether a message waits that makes the agent continue."""
        return self._queue.wakes

    def leave(self) -> None:
        """Take no more messages; idempotent."""
        self.hub.leave(self)

    async def close(self) -> None:
        self.leave()

    def _see(self, event: KnownEvent) -> None:
        match event:
            case MessageAdded(message=UserMessage(source=source)) if (
                event.agent == self._emitter.agent
            ):
                self._wakes = self._wakes if source == "note" else 0
            case _:
                pass
