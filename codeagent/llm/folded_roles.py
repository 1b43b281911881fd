"""Sends system messages as the user's to a model whose chat template refuses them."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial, reduce
from itertools import groupby

from codeagent.core.errors import ModelError
from codeagent.core.messages import Message, TextPart, UserMessage
from codeagent.core.model import Adapted, Model, ModelEvent, ModelRequest
from codeagent.llm.errors import refuses_roles
from codeagent.llm.learned import Learned
from codeagent.llm.retry import ModelWrapper


class FoldingModel(ModelWrapper):
    """A model that is sent system messages until its template refuses them; that is remembered, and
    said once."""

    def __init__(self, inner: Model, learned: Learned) -> None:
        super().__init__(inner)
        self._learned = learned

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if self._learned.folds_roles:
            return self._inner.stream(folded(request))
        return self._unless_refused(request, refuses_roles, partial(self._fold, request))

    async def _fold(self, request: ModelRequest, error: ModelError) -> AsyncIterator[ModelEvent]:
        self._learned.folds_roles = True
        yield Adapted(f"{error}; instructions are sent in the user's messages from here on")
        async for event in self._inner.stream(folded(request)):
            yield event


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
        users: list[UserMessage] = []
        for message in group:
            if isinstance(message, UserMessage):
                users.append(message)
            else:
                yield message
        if users:
            yield reduce(_joined, users)


def _joined(one: UserMessage, other: UserMessage) -> UserMessage:
    """Join two messages; two texts become one text: some servers accept nothing else."""
    match (*one.content, *other.content):
        case (TextPart(text=first), TextPart(text=second)):
            return UserMessage.from_text(f"{first}\n\n{second}", one.source)
        case parts:
            return replace(one, content=parts)
