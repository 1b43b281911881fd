"""Asks again when a request failed for a reason that passes."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from codeagent.core.errors import ModelError
from codeagent.core.model import Alive, Answer, Model, ModelEvent, ModelRequest, Retrying
from codeagent.llm.around_model import AroundModel

MAX_ATTEMPTS = 6
_LONGEST_DELAY = 40.0
_MOST_WAITING = 180.0
"""Seconds of waiting for one answer, Retry-After included, before giving up."""
LONGEST_SILENCE = 300.0


class RetryingModel(AroundModel):
    """A model whose passing failures are repeated, with growing pauses that a provider may set itself.

    Each repetition is announced by a Retrying event before its pause; what the failed attempt
    streamed is void from then on. An answer without a word is repeated once, then passed on. A model that stays
    silent is given up after a total, whatever number of attempts that is. Cancelling works at any time, in a
    pause too.
    """

    def __init__(
        self,
        inner: Model,
        *,
        attempts: int = MAX_ATTEMPTS,
        first_delay: float = 2.0,
        silence: float = LONGEST_SILENCE,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`attempts` is 1 to 6; `first_delay` in seconds doubles each time; `silence` is in seconds, of all attempts
        together; `jitter` gives 0 to 1."""
        super().__init__(inner)
        self._attempts = max(1, min(attempts, MAX_ATTEMPTS))
        self._first_delay = first_delay
        self._silence = silence
        self._sleep = sleep
        self._jitter = jitter
        self._clock = clock

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        await self.ready()
        waited, empty_before, heard = 0.0, False, self._clock()
        for attempt in range(1, self._attempts + 1):
            events = self._inner.stream(request)
            try:
                while (event := await self._next(events, heard, attempt)) is not None:
                    heard = self._clock()
                    if isinstance(event, Answer) and _is_empty(event) and not empty_before:
                        empty_before = True
                        raise ModelError(f"{self.name}: the answer was empty", kind="server", retryable=True)
                    if not isinstance(event, Alive):
                        yield event
                return
            except ModelError as error:
                heard = heard if error.kind == "timeout" else self._clock()
                delay = self._delay(attempt, error)
                if error.retryable and self._clock() + delay - heard > self._silence:
                    raise self._too_silent(attempt) from None
                if not error.retryable or attempt == self._attempts or waited + delay > _MOST_WAITING:
                    raise _given_up(error, attempt) from None
                reason = str(error)
            finally:
                await _close(events)
            waited += delay
            yield Retrying(reason, attempt + 1, delay)
            await self._sleep(delay)

    async def _next(self, events: AsyncIterator[ModelEvent], heard: float, attempt: int) -> ModelEvent | None:
        """None at the end. Raises ModelError, also where nothing comes; `heard` is when something last came."""
        try:
            async with asyncio.timeout(heard + self._silence - self._clock()) as silence:
                return await anext(events, None)
        except TimeoutError:
            if not silence.expired():
                raise
            raise self._too_silent(attempt) from None

    def _too_silent(self, attempt: int) -> ModelError:
        often = "" if attempt == 1 else f", in {attempt} attempts"
        return ModelError(
            f"{self.name}: nothing came for {self._silence:g} s{often}; gave up. limits.model_timeout is how long it "
            "may be silent",
            kind="timeout",
        )

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
