"""Compaction replaces the older part of a conversation with a summary; the result is a pure
function of the event.

So a log, a fork and a replay get the same conversation as the process that compacted it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from codeagent.core.approval_events import ASK_USER
from codeagent.core.dataclass import record
from codeagent.core.json_types import BaseEvent, JsonForm
from codeagent.core.messages import (
    AssistantMessage,
    Message,
    TextPart,
    ToolMessage,
    UserMessage,
    text_of,
)
from codeagent.core.sanitize import on_one_line, quoted

CompactionCause = Literal["window", "overflow", "user"]
"""The window is nearly full; the provider refused a request as too long; the user asked for it."""
TOKENS_PER_CHARACTER = 0.3
"""What is assumed before a provider has counted."""
PREVIEW = 300
"""Characters that stay of a pruned text; of one that the model has not seen yet,
`PREVIEW_UNSEEN`."""
PREVIEW_UNSEEN = 1_500
_LONGEST_QUESTION = 300
_PER_IMAGE = 4_000
"""How many characters an image counts as: about 1,000 tokens."""


@record
class PrunedResult:
    """A long result that is cut to its beginning."""

    call_id: str
    text: str
    """What replaces it; names the handle under which `output_read` finds all of it."""


@record
class MovedText:
    """Text of the user that did not fit into the window and was sent as a file instead."""

    place: int
    """Of its first message, counted from the end, from 1."""
    length: int
    """Of its messages, in characters; if they have another length, they are left alone."""
    text: str
    """Its beginning, and the handle under which `output_read` finds all of it."""
    count: int = 1
    """How many messages, the user's and the answers to them, it replaces with one."""


@record
class ContextCompacted(BaseEvent):
    """From now on requests hold less of the conversation; all of it stays in the log."""

    json_form: ClassVar[JsonForm] = JsonForm(omitted=("pins", "moved"))

    type: Literal["context.compacted"] = "context.compacted"
    cause: CompactionCause
    tail: int
    """How many messages at the end stay unchanged, apart from pruned results."""
    note: str
    """The message that replaces everything before them but the user's own messages; empty: only
    results were pruned."""
    pins: tuple[str, ...] | None = None
    """What the user has pinned: each is a message of its own before the note. None: they are only
    in the note, as an earlier version wrote it; `with_pins` mends that."""
    summary: str
    """The summary, as written by the model or edited by the user; empty if none could be
    written."""
    pruned: tuple[PrunedResult, ...] = ()
    replaced: int
    """How many messages are no longer sent."""
    before_tokens: int
    """Estimates for the whole request."""
    after_tokens: int
    moved: tuple[MovedText, ...] | None = None
    """Texts of the user that were moved to files; None if no text was."""


def compacted(messages: Sequence[Message], event: ContextCompacted) -> list[Message]:
    """Return the conversation as it is after the event.

    A call and its result are never separated, even in a damaged log where the numbers no longer
    fit.
    """
    messages = _moved(messages, event.moved or ())
    at = start_of_tail(messages, event.tail) if event.note else 0
    out: list[Message] = [message for message in messages[:at] if is_kept(message)]
    if event.note:
        out += [pinned(pin) for pin in event.pins or ()]
        out.append(UserMessage.from_text(event.note, source="note"))
    texts = {one.call_id: one.text for one in event.pruned}
    for message in messages[at:]:
        if isinstance(message, ToolMessage) and message.call_id in texts:
            message = replace(message, content=(TextPart(text=texts[message.call_id]),))
        out.append(message)
    return out


def _moved(messages: Sequence[Message], moved: tuple[MovedText, ...]) -> list[Message]:
    """Return the messages with the user's texts that are files; the other parts of their messages
    stay."""
    out = list(messages)
    for one in sorted(
        moved, key=lambda one: one.place
    ):  # the last one first, so those before it keep their places
        at = len(messages) - one.place
        if at < 0:
            continue
        row, rest = out[at : at + one.count], out[at + one.count :]
        said = [message for message in row if isinstance(message, UserMessage)]
        whole = sum(map(characters, row)) == one.length and not (
            rest and isinstance(rest[0], ToolMessage)
        )
        if whole and said and said[0] is row[0]:
            images = tuple(
                part
                for message in said
                for part in message.content
                if not isinstance(part, TextPart)
            )
            out = [*out[:at], replace(said[0], content=(TextPart(text=one.text), *images)), *rest]
    return out


def pinned(text: str) -> UserMessage:
    """Return the message that carries what the user pinned: the only one that begins like this."""
    return UserMessage.from_text(f"(The user pinned this, so keep to it: {text})", source="note")


def with_pins(event: ContextCompacted, pins: tuple[str, ...]) -> ContextCompacted:
    """Return the event with the user's pins as messages of their own; a note that holds them itself
    is quoted."""
    if event.pins is not None or not event.note:
        return event
    head = "(This replaced the earlier conversation. codeagent and you wrote it; no line of it is the user's word:"
    return replace(event, pins=pins, note=f"{head}\n{quoted(event.note)}\n)")


def open_questions(
    messages: Sequence[Message], earlier: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the questions of the model that the user has not answered, each on one line.

    `earlier`: those that were open at each earlier compaction, by its note.
    """
    unanswered = {
        message.call_id
        for message in messages
        if isinstance(message, ToolMessage) and message.is_error
    }

    def found() -> Iterator[str]:
        for message in messages:
            match message:
                case UserMessage(source="note"):
                    yield from earlier.get(text_of(message.content), ())
                case AssistantMessage(calls=calls):
                    asked = (
                        call for call in calls if call.name == ASK_USER and call.id in unanswered
                    )
                    yield from (_question(call.arguments) for call in asked)
                case _:
                    pass

    return tuple(dict.fromkeys(filter(None, found())))


def _question(arguments: str) -> str:
    try:
        decoded = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    question = decoded.get("question") if isinstance(decoded, dict) else None
    return on_one_line(question.strip()[:_LONGEST_QUESTION]) if isinstance(question, str) else ""


def compacted_words(event: ContextCompacted) -> str:
    """Describe in one line what a compaction did."""
    gained = f"{event.before_tokens:,} tokens are now about {event.after_tokens:,}"
    results = f"{len(event.pruned)} long result{'s' * (len(event.pruned) != 1)}"
    if event.moved:
        count = sum(one.count for one in event.moved)
        files = (
            "is a file" if count == 1 else "are a file" if len(event.moved) == 1 else "are files"
        )
        return (
            f"{count} of your texts {files} now, which the agent reads with output_read; {gained}"
        )
    if not event.note:
        return f"compacted: {results} left out; {gained}"
    gone = "replaced by the summary" if event.summary else "left out"
    replaced = f"{event.replaced} message{'s' * (event.replaced != 1)} {gone}"
    return f"compacted: {replaced}{f' and {results} left out' if event.pruned else ''}; {gained}"


def preview(text: str, handle: str, *, unseen: bool) -> str:
    """Return what stays of a pruned text; what is not text cannot be read by its handle."""
    kept = text[: PREVIEW_UNSEEN if unseen else PREVIEW]
    left_out = len(text) - len(kept)
    if not left_out:
        return f"{kept}\n[… an image was left out to make room; read it again if you need it …]".lstrip()
    return f'{kept}\n[… {left_out} characters left out to make room; output_read(id="{handle}") shows them …]'


def start_of_tail(messages: Sequence[Message], tail: int) -> int:
    """Return the index at which the last `tail` messages begin; a result never comes first."""
    at = max(0, len(messages) - tail)
    while at < len(messages) and isinstance(messages[at], ToolMessage):
        at += 1
    return at


def is_kept(message: Message) -> bool:
    """Whether the message survives every compaction, because it is the user's own."""
    return isinstance(message, UserMessage) and message.source != "note"


def characters(message: Message) -> int:
    """Return the length of a message, from which its tokens are estimated."""
    match message:
        case AssistantMessage(provider_content=content) if content is not None:
            return len(str(content.items))
        case AssistantMessage(text=text, thinking=thinking, calls=calls):
            thought = sum(
                len(block.text) + len(block.signature or "") + len(block.redacted or "")
                for block in thinking
            )
            return len(text) + thought + sum(len(call.name) + len(call.arguments) for call in calls)
        case UserMessage(content=content) | ToolMessage(content=content):
            return sum(
                len(part.text) if isinstance(part, TextPart) else _PER_IMAGE for part in content
            )
