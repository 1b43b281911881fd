"""Compares two sessions with the same prompts: what was asked in one, and where the other first
differs."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from itertools import zip_longest
from typing import Any, Literal

from codeagent.core.acts import Interrupt, Steer
from codeagent.core.dataclass import dataclass
from codeagent.core.events import (
    BatchPlanned,
    CheckpointCreated,
    CheckpointRestored,
    KnownEvent,
    MessageAdded,
    Notice,
    RunStarted,
    ToolStarted,
    TurnStarted,
    UnknownEvent,
)
from codeagent.core.json_types import MAIN
from codeagent.core.messages import AssistantMessage, ImagePart, ToolCall, UserMessage, text_of
from codeagent.core.notes import SHELL

AnyEvent = KnownEvent | UnknownEvent


@dataclass(frozen=True)
class Exchange:
    """A prompt, and what followed it until the next one."""

    prompt: str
    turns: tuple[AssistantMessage, ...] = ()
    steering: tuple[tuple[int, Steer | Interrupt], ...] = ()
    """What the user typed while it worked, each with the number of the last batch planned
    before."""


@dataclass(frozen=True)
class Outline:
    """The prompts of a session, and what followed them."""

    exchanges: tuple[Exchange, ...] = ()
    """Those that the user did not take back."""
    workspace: str = ""
    models: tuple[str, ...] = ()
    snapshot: str = ""
    """The files before the agent changed any; empty if no checkpoint was kept then."""
    since: int = 1
    """The prompt, from 1, at which that was. An answer without changes may be over before its
    checkpoint is."""
    left_out: tuple[str, ...] = ()
    """What the snapshot does not cover, a phrase each."""
    not_repeated: tuple[str, ...] = ()
    """What the user did beside prompts and steering, a phrase each."""


def outline(events: Iterable[AnyEvent]) -> Outline:
    reading = _Reading()
    for event in events:
        if not isinstance(event, UnknownEvent) and event.agent == MAIN:
            reading.take(event)
    return reading.outline()


@dataclass(eq=False)
class _Reading:
    """The part of a session that was read so far."""

    exchanges: tuple[Exchange, ...] = ()
    before: tuple[Exchange, ...] = ()
    """The exchanges before the latest run."""
    marks: dict[str, tuple[Exchange, ...]] = field(default_factory=dict)
    """The exchanges at each checkpoint."""
    first: RunStarted | None = None
    snapshot: CheckpointCreated | None = None
    since: int = 1
    """The prompt of the snapshot, from 1."""
    unknown: bool = False
    """Whether a checkpoint could not be kept, so that files may have changed before the next
    one."""
    models: dict[str, None] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)
    batch: int = 0
    fresh: bool = True
    """Whether the latest run has had no turn yet."""

    def take(self, event: KnownEvent) -> None:
        match event:
            case RunStarted():
                self.first = self.first or event
                self.models[event.model] = None
                self.before = self.exchanges
                self.fresh = True
                self.batch = 0
            case TurnStarted():
                self.fresh = False
            case BatchPlanned():
                self.batch = event.batch
            case MessageAdded(message=UserMessage() as message) if message.source != "note":
                self._heard(message)
            case MessageAdded(message=AssistantMessage() as message) if (
                message.stop != "cut" and self.exchanges
            ):
                self._replace(turns=(*self.exchanges[-1].turns, message))
            case CheckpointCreated():
                self.marks[event.checkpoint_id] = (
                    self.before if event.cause == "prompt" else self.exchanges
                )
                if self.snapshot is None and not self.unknown:
                    self.snapshot = event
                    self.since = max(len(self.exchanges), 1)
            case Notice(code="checkpoint.failed"):
                self.unknown = True
            case CheckpointRestored():
                if event.files:
                    self.others["going back to earlier files"] = None
                if event.conversation:
                    self.exchanges = self.marks.get(event.checkpoint_id, self.exchanges)
            case ToolStarted(name=name) if name == SHELL:
                self.others["commands that the user ran"] = None
            case _:
                pass

    def _heard(self, message: UserMessage) -> None:
        text = text_of(message.content)
        if any(isinstance(part, ImagePart) for part in message.content):
            self.others["images in prompts"] = None
        if self.fresh or message.source in ("prompt", "follow_up") or not self.exchanges:
            self.exchanges = (*self.exchanges, Exchange(text))
            return
        act = Steer(text) if message.source == "steer" else Interrupt(text)
        self._replace(steering=(*self.exchanges[-1].steering, (max(self.batch, 1), act)))

    def _replace(self, **changes: Any) -> None:
        """Change the latest exchange."""
        self.exchanges = (*self.exchanges[:-1], replace(self.exchanges[-1], **changes))

    def outline(self) -> Outline:
        return Outline(
            self.exchanges,
            "" if self.first is None else self.first.workspace,
            tuple(self.models),
            snapshot="" if self.snapshot is None else self.snapshot.snapshot,
            since=self.since,
            left_out=() if self.snapshot is None else self.snapshot.left_out,
            not_repeated=tuple(self.others),
        )


@dataclass(frozen=True)
class Divergence:
    """The first place where two sessions differ; its numbers count from 1."""

    prompt: int
    turn: int
    """Within the prompt."""
    kind: Literal["call", "text"]
    recorded: str
    """A call or a text; empty if there was none."""
    new: str


def divergence(
    recorded: Sequence[Exchange], new: Sequence[Exchange], as_recorded: Callable[[str], str] = str
) -> Divergence | None:
    """Find where the new session first did something else than the recorded one; None if it never
    did.

    What is said beside calls is not compared: only calls, and texts without calls. `as_recorded`
    gives what the new model wrote the names of the recorded session, such as that of its folder.
    """
    for number, (old, now) in enumerate(zip(recorded, new, strict=False), 1):
        turns = [
            replace(turn, text=as_recorded(turn.text), calls=_renamed(turn.calls, as_recorded))
            for turn in now.turns
        ]
        for turn, (before, after) in enumerate(zip_longest(old.turns, turns), 1):
            if (found := _differs(before, after)) is not None:
                return Divergence(number, turn, *found)
    return None


def _renamed(calls: Iterable[ToolCall], as_recorded: Callable[[str], str]) -> tuple[ToolCall, ...]:
    return tuple(replace(call, arguments=as_recorded(call.arguments)) for call in calls)


def _differs(
    before: AssistantMessage | None, after: AssistantMessage | None
) -> tuple[Literal["call", "text"], str, str] | None:
    calls = [() if message is None else message.calls for message in (before, after)]
    for old, now in zip_longest(*calls):
        if old is None or now is None or (old.name, _read(old)) != (now.name, _read(now)):
            return "call", _shown(old, before), _shown(now, after)
    old_text, new_text = ("" if message is None else message.text for message in (before, after))
    if not any(calls) and old_text.split() != new_text.split():
        return "text", old_text, new_text
    return None


def _read(call: ToolCall) -> object:
    """Return the arguments without the order and the blanks of their JSON."""
    try:
        return json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return call.arguments


def _shown(call: ToolCall | None, message: AssistantMessage | None) -> str:
    """Return the call; if there is none, what was said instead of calling anything."""
    if call is not None:
        return f"{call.name} {call.arguments}"
    return "" if message is None or message.calls else message.text
