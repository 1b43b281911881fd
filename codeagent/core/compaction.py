"""Compaction replaces the older part of a conversation with a summary; the result is a pure function of the event.

So a log, a fork and a replay get the same conversation as the process that compacted it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.json_types import BaseEvent
from codeagent.core.messages import AssistantMessage, Message, TextPart, ToolMessage, UserMessage

CompactionCause = Literal["window", "overflow", "user"]
"""The window is nearly full; the provider refused a request as too long; the user asked for it."""
_PER_IMAGE = 4_000
"""How many characters an image counts as: about 1,000 tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PrunedResult:
    """A long result that is cut to its beginning."""

    call_id: str
    text: str
    """What replaces it; names the handle under which `output_read` finds all of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextCompacted(BaseEvent):
    """From now on requests hold less of the conversation; all of it stays in the log."""

    type: Literal["context.compacted"] = "context.compacted"
    cause: CompactionCause
    tail: int
    """How many messages at the end stay unchanged, apart from pruned results."""
    note: str
    """The message that replaces everything before them but the user's own messages; empty: only results were pruned."""
    summary: str
    """The summary, as written by the model or edited by the user."""
    pruned: tuple[PrunedResult, ...] = ()
    replaced: int
    """How many messages are no longer sent."""
    before_tokens: int
    """Estimates for the whole request."""
    after_tokens: int


def compacted(messages: Sequence[Message], event: ContextCompacted) -> list[Message]:
    """Return the conversation as it is after the event.

    A call and its result are never separated, even in a damaged log where the numbers no longer fit.
    """
    at = start_of_tail(messages, event.tail) if event.note else 0
    out: list[Message] = [message for message in messages[:at] if is_kept(message)]
    if event.note:
        out.append(UserMessage.from_text(event.note, source="note"))
    texts = {one.call_id: one.text for one in event.pruned}
    for message in messages[at:]:
        if isinstance(message, ToolMessage) and message.call_id in texts:
            message = replace(message, content=(TextPart(text=texts[message.call_id]),))
        out.append(message)
    return out


def compacted_words(event: ContextCompacted) -> str:
    """Describe in one line what a compaction did."""
    gained = f"{event.before_tokens:,} tokens are now about {event.after_tokens:,}"
    results = f"{len(event.pruned)} long result{'s' * (len(event.pruned) != 1)}"
    if not event.note:
        return f"compacted: {results} left out; {gained}"
    replaced = f"{event.replaced} message{'s' * (event.replaced != 1)} replaced by the summary"
    return f"compacted: {replaced}{f' and {results} left out' if event.pruned else ''}; {gained}"


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
                len(block.text) + len(block.signature or "") + len(block.redacted or "") for block in thinking
            )
            return len(text) + thought + sum(len(call.name) + len(call.arguments) for call in calls)
        case UserMessage(content=content) | ToolMessage(content=content):
            return sum(len(part.text) if isinstance(part, TextPart) else _PER_IMAGE for part in content)
