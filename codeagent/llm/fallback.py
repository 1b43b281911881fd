"""Another model for when the first one cannot be had."""

from collections.abc import AsyncIterator, Awaitable, Callable

from codeagent.core.errors import ModelError, ModelErrorKind
from codeagent.core.model import FellBack, Model, ModelEvent, ModelRequest
from codeagent.llm.around_model import AroundModel

_PASSED_ON: frozenset[ModelErrorKind] = frozenset(
    {"auth", "rate_limit", "overloaded", "server", "connection", "timeout", "cut", "content_policy"}
)
"""Failures another model may not have. A request that is wrong, or too long, is wrong for it, too."""


class FallbackModel(AroundModel):
    """A model, and the one that takes over, for good, once the first is overloaded or refused after its retries.

    A FellBack event says so; what the first one streamed of that answer is void.
    """

    def __init__(self, first: Model, open_second: Callable[[], Awaitable[Model]]) -> None:
        """`open_second` is called once, when it is needed; it may raise CodeagentError."""
        super().__init__(first)
        self._open_second = open_second
        self._first: Model | None = first
        """None once it was given up."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            async for event in self._inner.stream(request):
                yield event
            return
        except ModelError as error:
            if self._first is None or error.kind not in _PASSED_ON:
                raise
            reason = str(error)
        first, second = self._first, await self._open_second()
        self._first, self._inner = None, second
        await first.close()
        yield FellBack(reason, second.name)
        async for event in second.stream(request):
            yield event
