"""Rebuilds the conversation from a log's events: the messages, what compactions made of them, and
the marks."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field

from codeagent.core.compaction import ContextCompacted, compacted, open_questions, with_pins
from codeagent.core.dataclass import dataclass
from codeagent.core.events import KnownEvent, MessageAdded, ToolResultAdded, UnknownEvent
from codeagent.core.history import BranchingHistory
from codeagent.core.json_types import UNSTAMPED
from codeagent.core.messages import (
    AssistantMessage,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from codeagent.core.notices import PinsChanged

AnyEvent = KnownEvent | UnknownEvent

ENDED = "cancelled: session ended"
ENDED_MIDWAY = "cancelled: session ended while it ran; what it changed until then is unknown"


@dataclass
class Transcript:
    """The messages of some events."""

    messages: list[Message] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    places: list[tuple[list[Message], int]] = field(default_factory=list)
    """After each event, the list that the messages were in, and how many there were; a compaction
    begins another."""
    pruned: set[str] = field(default_factory=set)
    """The ids of the calls whose results were pruned."""
    compacted_at: int = UNSTAMPED
    """Number of the last compaction."""

    @property
    def answered(self) -> set[str]:
        """Return the ids of the calls whose results are among the messages, whole."""
        results = (each for each in self.messages if isinstance(each, ToolMessage))
        return {each.call_id for each in results} - self.pruned


def rebuilt_line(
    told: Transcript,
    walked: BranchingHistory[AnyEvent],
    tell: Callable[[list[AnyEvent]], Transcript],
) -> BranchingHistory[Message]:
    """Rebuild the conversation with its marks, including those in what was undone, from which
    `redo` continues."""
    line: BranchingHistory[Message] = BranchingHistory()
    line.items = told.messages
    known = {id(walked.items): told}
    for name, (items, length) in walked.marks().items():
        branch = known.get(id(items)) or known.setdefault(id(items), tell(items))
        line.adopt(name, *(branch.places[length - 1] if length else (branch.messages, 0)))
    return line


def with_typed_pins(events: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
    """Yield the events; a compaction of an earlier version gets what was pinned at the time as
    data."""
    pins: tuple[str, ...] = ()
    for event in events:
        match event:
            case PinsChanged():
                pins = event.pins
                yield event
            case ContextCompacted():
                yield with_pins(event, pins)
            case _:
                yield event


def transcript(
    events: Iterable[AnyEvent],
    results: dict[str, ToolResultAdded],
    started: set[str],
    questions: dict[str, tuple[str, ...]],
) -> Transcript:
    """Return the messages of the events; a call without a result gets an error result.

    `questions` takes in which of the model's questions were open at each compaction, by its note.
    """
    told = Transcript()
    used: set[str] = set()
    for event in events:
        match event:
            case MessageAdded():
                _tell(event.message, told, used, results, started)
            case ContextCompacted():
                if event.note:
                    questions[event.note] = open_questions(told.messages, questions)
                told.messages = compacted(told.messages, event)
                told.pruned |= {one.call_id for one in event.pruned}
                told.compacted_at = event.seq
            case _:
                pass  # says nothing to the model
        told.places.append((told.messages, len(told.messages)))
    return told


def _tell(
    message: UserMessage | AssistantMessage,
    told: Transcript,
    used: set[str],
    results: dict[str, ToolResultAdded],
    started: set[str],
) -> None:
    if isinstance(message, UserMessage):
        told.messages.append(message)
        return
    ids = [call.id for call in message.calls]
    if reason := _unfit(message, ids, used, first=not told.messages):
        told.dropped.append(f"an assistant message was left out: {reason}")
        return
    used.update(ids)
    told.calls.extend(message.calls)
    told.messages.append(message)
    told.messages.extend(
        _tool_message(call, results.get(call.id), call.id in started) for call in message.calls
    )


def _unfit(message: AssistantMessage, ids: list[str], used: set[str], *, first: bool) -> str:
    if first:
        return "nothing from the user comes before it"
    if not (message.text or message.calls or message.thinking or message.provider_content):
        return "it is empty"
    if len(set(ids)) != len(ids) or used.intersection(ids):
        return "it uses a call id again"
    return ""


def _tool_message(call: ToolCall, result: ToolResultAdded | None, started: bool) -> ToolMessage:
    if result is not None:
        return ToolMessage(
            call_id=call.id, name=result.name, content=result.content, is_error=result.is_error
        )
    text = ENDED_MIDWAY if started else ENDED
    return ToolMessage(
        call_id=call.id, name=call.name, content=(TextPart(text=text),), is_error=True
    )
