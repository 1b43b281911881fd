"""Rebuilds the conversation from a log's events: the messages, what compactions made of them, the
marks, and what its calls and prompts showed of files."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from codeagent.core.compaction import ContextCompacted, compacted, open_questions, with_pins
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DiffBlock
from codeagent.core.events import (
    KnownEvent,
    MessageAdded,
    ToolCallAdded,
    ToolResultAdded,
    ToolStarted,
    UnknownEvent,
)
from codeagent.core.history import BranchingHistory
from codeagent.core.json_types import UNSTAMPED, JsonObject
from codeagent.core.messages import (
    AssistantMessage,
    Attachment,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    attached_to,
)
from codeagent.core.notices import (
    TOOLSET_USE,
    CallMarked,
    PinsChanged,
    ToolsetChosen,
    skipped_by_user,
)

if TYPE_CHECKING:  # they need pydantic
    from codeagent.core.channels import ChannelKind
    from codeagent.core.tool import ToolResult

AnyEvent = KnownEvent | UnknownEvent

ENDED = "cancelled: session ended"
ENDED_MIDWAY = "cancelled: session ended while it ran; what it changed until then is unknown"


ATTACHED = "@"
"""The prefix of what replaces a call's id in the details of an attachment."""


@dataclass(frozen=True)
class ToolDetails:
    """What one call that ran read and changed: what the read-before-write guard is rebuilt from."""

    name: str
    details: JsonObject
    call_id: str = ""
    changed: tuple[str, ...] = ()
    """Paths of the files that it changed itself."""
    in_context: bool = True
    """Its result is still part of the conversation; a compaction removes or prunes results."""

    @property
    def by_user(self) -> bool:
        """Whether the user chose it, so that it belongs to no call."""
        return not self.call_id

    @classmethod
    def of(
        cls, call_id: str, name: str, result: "ToolResult | ToolResultAdded"
    ) -> "ToolDetails | None":
        """Return the details of a result; None if it is about no file and nothing else that is
        kept."""
        changed = tuple(
            block.path
            for block in result.blocks
            if isinstance(block, DiffBlock) and result.error is None
        )
        return cls(name, result.details, call_id, changed) if result.details or changed else None

    @classmethod
    def of_attached(cls, place: int, attached: Attachment) -> "ToolDetails":
        """Return the details of the `place`-th attachment (from 0) in the conversation."""
        return cls("", attached.details, f"{ATTACHED}{place}")


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
    left: Mapping[str, str],
    questions: dict[str, tuple[str, ...]],
) -> Transcript:
    """Return the messages of the events; a call without a result gets an error result, with what
    `left` says of it.

    `questions` takes in which of the model's questions were open at each compaction, by its note.
    """
    told = Transcript()
    used: set[str] = set()
    for event in events:
        match event:
            case MessageAdded():
                _tell(event.message, told, used, results, left)
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
    left: Mapping[str, str],
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
        _tool_message(call, results.get(call.id), left.get(call.id, ENDED))
        for call in message.calls
    )


def _unfit(message: AssistantMessage, ids: list[str], used: set[str], *, first: bool) -> str:
    if first:
        return "nothing from the user comes before it"
    if not (message.text or message.calls or message.thinking or message.provider_content):
        return "it is empty"
    if len(set(ids)) != len(ids) or used.intersection(ids):
        return "it uses a call id again"
    return ""


def said_of_unanswered(events: Iterable[AnyEvent]) -> dict[str, str]:
    """Return what the model reads of calls that began, or that the user wanted to be skipped, if
    they have no result."""
    said: dict[str, str] = {}
    for event in events:
        match event:
            case ToolStarted():
                said[event.call_id] = ENDED_MIDWAY
            case CallMarked(skipped=True):
                said[event.call_id] = skipped_by_user(event.reason)
            case CallMarked():
                said.pop(event.call_id, None)
            case _:
                pass
    return said


def _tool_message(call: ToolCall, result: ToolResultAdded | None, left: str) -> ToolMessage:
    if result is not None:
        return ToolMessage(
            call_id=call.id, name=result.name, content=result.content, is_error=result.is_error
        )
    return ToolMessage(
        call_id=call.id, name=call.name, content=(TextPart(text=left),), is_error=True
    )


def details_in(
    events: Sequence[AnyEvent], results: Mapping[str, ToolResultAdded], told: Transcript
) -> Iterator[ToolDetails]:
    """Yield what the calls that ran read and changed; after a compaction, what is left of the
    earlier ones is known.

    What the user chose of toolsets is among them, as if the model had done it. Calls of an answer
    that was discarded are not: the model never had their results.
    """
    discarded = _discarded(events)
    left, attached, place = told.answered, attached_to(told.messages), 0
    for event in events:
        match event:
            case MessageAdded(message=UserMessage(attached=brought)):
                for one in brought:
                    if one in attached[place : place + 1]:
                        yield ToolDetails.of_attached(place, one)
                        place += 1
            case ToolsetChosen(toolset=name, tools=tools, on=on):
                yield ToolDetails(TOOLSET_USE, {"toolset": name, "tools": list(tools), "on": on})
            case ToolResultAdded() if event.call_id in discarded:
                pass
            case ToolResultAdded() if event is results[event.call_id] and event.executed:
                if (details := ToolDetails.of(event.call_id, event.name, event)) is not None:
                    yield replace(
                        details, in_context=event.seq > told.compacted_at or event.call_id in left
                    )
            case _:
                pass


def _discarded(events: Iterable[AnyEvent]) -> set[str]:
    """Return the ids of the calls that were announced in an answer that was never complete."""
    announced: set[str] = set()
    said: set[str] = set()
    for event in events:
        match event:
            case ToolCallAdded():
                announced.add(event.call_id)
            case MessageAdded(message=AssistantMessage() as message):
                said.update(call.id for call in message.calls)
            case _:
                pass
    return announced - said


def tools_read_about(details: Iterable[ToolDetails]) -> set[str]:
    """Return the names of the tools whose documentation the model has read, and still has."""
    found = (
        item.details.get("tool") for item in details if item.name == "info" and item.in_context
    )
    return {name for name in found if isinstance(name, str)}


def created_channels(details: Iterable[ToolDetails]) -> "tuple[tuple[str, ChannelKind], ...]":
    """Return name and kind of the channels that the agent added in the session, each once."""
    created: dict[str, ChannelKind] = {}
    for item in details:
        match item.details:
            case {"channel": str(channel), "kind": "queue" | "broadcast" as kind} if (
                item.name == "create_channel"
            ):
                created[channel] = kind
            case _:
                pass
    return tuple(created.items())


def watched_channels(details: Iterable[ToolDetails]) -> tuple[str, ...]:
    """Return the channels that the agent watched last in the session."""
    watched: dict[str, bool] = {}
    for item in details:
        match item.details:
            case {"channel": str(channel), "watched": bool(on)} if item.name == "watch_channel":
                watched[channel] = on
            case _:
                pass
    return tuple(channel for channel, on in watched.items() if on)
