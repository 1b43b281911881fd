"""Sends system messages as the user's to a model whose chat template refuses them."""

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from itertools import groupby

from codeagent.core.messages import Message, TextPart, UserMessage
from codeagent.core.model import ModelRequest


def folded(request: ModelRequest) -> ModelRequest:
    """Return the request with its system prompt at the start of the first user message, and users
    merged."""
    if not request.system:
        return request
    prompt: Message = UserMessage.from_text(request.system, source="note")
    return replace(request, system="", messages=tuple(merged(iter((prompt, *request.messages)))))


def merged(messages: Iterator[Message]) -> Iterator[Message]:
    """Join user messages that follow each other: many chat templates refuse two in a row."""
    for _, group in groupby(messages, lambda message: isinstance(message, UserMessage)):
        run = [*group]
        users = [message for message in run if isinstance(message, UserMessage)]
        yield from [reduce(_joined, users)] if users else run


def _joined(one: UserMessage, other: UserMessage) -> UserMessage:
    """Join two messages; two texts become one text: some servers accept nothing else."""
    match (*one.content, *other.content):
        case (TextPart(text=first), TextPart(text=second)):
            return UserMessage.from_text(f"{first}\n\n{second}", one.source)
        case parts:
            return replace(one, content=parts)
