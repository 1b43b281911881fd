"""Asks again when a request failed for a reason that passes."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable

from codeagent.core.errors import ModelError
from codeagent.core.model import Answer, Model, ModelEvent, ModelRequest, Retrying
from codeagent.llm.around_model import AroundModel

MAX_ATTEMPTS = 6
_LONGEST_DELAY = 40.0
_MOST_WAITING = 180.0
"""Seconds of waiting for one answer, Retry-After included, before giving up."""


class RetryingModel(AroundModel):
    """A model whose passing failures are repeated, with growing pauses that a provider may set itself.

    Each repetition is announced by a Retrying event before its pause; what the failed attempt
    streamed is void from then on. An answer without a word is repeated once, then passed on. Cancelling
    works at any time, in a pause too.
    """

    def __init__(
        self,
        inner: Model,
        *,
        attempts: int = MAX_ATTEMPTS,
        first_delay: float = 2.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`attempts` is 1 to 6; `first_delay` in seconds doubles each time; `jitter` gives 0 to 1."""
        super().__init__(inner)
        self._attempts = max(1, min(attempts, MAX_ATTEMPTS))
        self._first_delay = first_delay
        self._sleep = sleep
        self._jitter = jitter

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        waited, empty_before = 0.0, False
        for attempt in range(1, self._attempts + 1):
            events = self._inner.stream(request)
            try:
                async for event in events:
                    if isinstance(event, Answer) and _is_empty(event) and not empty_before:
                        empty_before = True
                        raise ModelError(f"{self.name}: the answer was empty", kind="server", retryable=True)
                    yield event
                return
            except ModelError as error:
                delay = self._delay(attempt, error)
                if not error.retryable or attempt == self._attempts or waited + delay > _MOST_WAITING:
                    raise _given_up(error, attempt) from None
                reason = str(error)
            finally:
                await _close(events)
            waited += delay
            yield Retrying(reason, attempt + 1, delay)
            await self._sleep(delay)

    def _delay(self, attempt: int, error: ModelError) -> float:
        """Half to all of a doubling pause; never less than the provider asked for."""
        pause = min(self._first_delay * 2.0 ** (attempt - 1), _LONGEST_DELAY) * (0.5 + self._jitter() / 2)
        return max(pause, error.retry_after or 0.0)


async def _close(events: AsyncIterator[ModelEvent]) -> None:
    """A stream that is left before its end keeps its connection until then."""
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()


def _is_empty(answer: Answer) -> bool:
    """Nothing at all, and no reason for it such as a limit."""
    message = answer.message
    return message.stop == "end" and not (message.text.strip() or message.calls or message.thinking)


def _given_up(error: ModelError, attempts: int) -> ModelError:
    if attempts == 1 or not error.retryable:
        return error
    return ModelError(
        f"{error} (gave up after {attempts} attempts)",
        kind=error.kind,
        status=error.status,
        retryable=False,
        retry_after=error.retry_after,
    )
