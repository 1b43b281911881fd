"""Sends system messages as the user's to a model whose chat template refuses them."""

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

from codeagent.core.errors import ModelError
from codeagent.core.messages import Message, UserMessage
from codeagent.core.model import Adapted, Model, ModelEvent, ModelRequest
from codeagent.extensions.text_calls.text_tools import merged
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
