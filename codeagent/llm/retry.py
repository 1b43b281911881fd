"""Models around models: one repeats a request whose failure will pass, one falls back to another
model, one does without system messages and images."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from codeagent.core.errors import CodeagentError, ModelError, ModelErrorKind
from codeagent.core.messages import AssistantMessage, shows_images
from codeagent.core.model import (
    Adapted,
    FellBack,
    Heartbeat,
    Model,
    ModelAnswer,
    ModelEvent,
    ModelRequest,
    Retrying,
)
from codeagent.llm.server_knowledge import ServerKnowledge

MAX_ATTEMPTS = 6
_LONGEST_DELAY = 40.0
_MOST_WAITING = 180.0
"""Seconds of waiting for one answer, Retry-After included, before giving up."""
LONGEST_SILENCE = 300.0
_PASSED_ON: frozenset[ModelErrorKind] = frozenset(
    {"auth", "rate_limit", "overloaded", "server", "connection", "timeout", "cut", "content_policy"}
)
"""Failures another model may not have. A request that is wrong, or too long, is wrong for it
too."""


class ModelWrapper:
    """Wraps another model and changes how it is asked: it passes on everything but `stream`, which
    a subclass adds."""

    def __init__(self, inner: Model) -> None:
        self._inner = inner
        self.name = inner.name

    @property
    def context_window(self) -> int | None:
        return self._inner.context_window

    async def prepare(self) -> None:
        """Start what the wrapped model needs before its first request, if anything."""
        prepare = getattr(self._inner, "prepare", None)
        if prepare is not None:
            await prepare()

    async def ready(self) -> None:
        """Wait for what `prepare` starts: until then no request is sent, and silence is not the
        provider's."""
        ready = getattr(self._inner, "ready", None)
        if ready is not None:
            await ready()

    async def close(self) -> None:
        await self._inner.close()

    async def _unless_refused(
        self,
        request: ModelRequest,
        known: Callable[[ModelError], bool],
        otherwise: Callable[[ModelError], AsyncIterator[ModelEvent]],
    ) -> AsyncIterator[ModelEvent]:
        """Stream from the wrapped model, or from `otherwise` if a known error comes before the
        answer has begun.

        Raises ModelError.
        """
        begun = False
        try:
            async for event in self._inner.stream(request):
                begun = begun or not isinstance(event, Adapted)
                yield event
            return
        except ModelError as error:
            if begun or not known(error):
                raise
            instead = otherwise(error)
        async for event in instead:
            yield event


class AdaptingModel(ModelWrapper):
    """A model that is sent system messages and images until they are refused; that is remembered,
    and said once."""

    def __init__(self, inner: Model, learned: ServerKnowledge) -> None:
        super().__init__(inner)
        self._learned = learned

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        sent, folds = request, self._learned.folds_roles
        shows = self._learned.images is not False and any(map(shows_images, request.messages))
        if folds:
            from codeagent.llm.folded_roles import folded  # few templates need it

            sent = folded(request)

        def refused(error: ModelError) -> bool:
            """Tell whether the model refuses something that it was sent and can do without."""
            from codeagent.llm.refusals import refuses_images, refuses_roles  # most never fail

            return (not folds and refuses_roles(error)) or (shows and refuses_images(error))

        return self._unless_refused(sent, refused, partial(self._adapt, request))

    async def _adapt(self, request: ModelRequest, error: ModelError) -> AsyncIterator[ModelEvent]:
        from codeagent.llm.refusals import refuses_images, refuses_roles

        # Another request to the same model may have learned it while this one was on its way.
        if refuses_roles(error) and not self._learned.folds_roles:
            self._learned.folds_roles = True
            yield Adapted(f"{error}; instructions are sent in the user's messages from here on")
        elif refuses_images(error) and not self._learned.refused_images:
            self._learned.refused_images = True
            yield Adapted(f"{error}; images are replaced with words from here on")
        async for event in self.stream(request):
            yield event


class RetryingModel(ModelWrapper):
    """A model whose requests are repeated after passing failures, with growing pauses or those a
    provider asks for.

    A Retrying event announces each repetition before its pause; what the failed attempt streamed is
    void from then on. A model that stays silent is given up after a total time, however many
    attempts that took. Cancelling works at any time, even in a pause.
    """

    def __init__(
        self,
        inner: Model,
        *,
        first_delay: float = 2.0,
        silence: float = LONGEST_SILENCE,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`first_delay` in seconds doubles each time; `silence` is in seconds, of all attempts
        together; `jitter` gives 0 to 1."""
        super().__init__(inner)
        self._first_delay = first_delay
        self._silence = silence
        self._sleep = sleep
        self._jitter = jitter
        self._clock = clock

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        await self.ready()
        waited, heard = 0.0, self._clock()
        for attempt in range(1, MAX_ATTEMPTS + 1):
            events = self._inner.stream(request)
            try:
                while (event := await self._next(events, heard, attempt)) is not None:
                    heard = self._clock()
                    if not isinstance(event, Heartbeat):
                        yield event
                return
            except ModelError as error:
                heard = heard if error.kind == "timeout" else self._clock()
                delay = self._delay(attempt, error)
                if error.retryable and self._clock() + delay - heard > self._silence:
                    raise self._too_silent(attempt) from None
                if not error.retryable or attempt == MAX_ATTEMPTS or waited + delay > _MOST_WAITING:
                    raise _given_up(error, attempt) from None
                reason = str(error)
            finally:
                await _close(events)
            waited += delay
            yield Retrying(reason, attempt + 1, delay, MAX_ATTEMPTS)
            await self._sleep(delay)

    async def _next(
        self, events: AsyncIterator[ModelEvent], heard: float, attempt: int
    ) -> ModelEvent | None:
        """Return the next event, None at the end; `heard` is when the last one came.

        Raises ModelError, also after too long a silence.
        """
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
            f"{self.name}: nothing came for {self._silence:g} s{often}; gave up. limits.model_timeout sets how long it "
            "may be silent",
            kind="timeout",
        )

    def _delay(self, attempt: int, error: ModelError) -> float:
        """Return half to all of a doubling pause, in seconds; never less than the provider asked
        for."""
        pause = min(self._first_delay * 2.0 ** (attempt - 1), _LONGEST_DELAY) * (
            0.5 + self._jitter() / 2
        )
        return max(pause, error.retry_after or 0.0)


async def _close(events: AsyncIterator[ModelEvent]) -> None:
    """Close a stream that was left before its end: it would keep its connection."""
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()


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


class FallbackModel(ModelWrapper):
    """A model, and another that takes over for good once the first refuses, or cannot answer after
    all its retries.

    A FellBack event says so; what the first one streamed of that answer is void.
    """

    def __init__(
        self, first: Model, open_second: Callable[[], Awaitable[Model]], server: str = ""
    ) -> None:
        """`open_second` is called when it is needed; it may raise CodeagentError. `server`: see
        FellBack."""
        super().__init__(first)
        self._server = server
        self._open_second = open_second
        self._first: Model | None = first
        """None once it was given up."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if (first := self._first) is None:
            async for event in self._inner.stream(request):
                yield event
            return
        refused = False
        try:
            async for event in first.stream(request):
                refused = isinstance(event, ModelAnswer) and _refuses(event.message)
                if not refused:
                    yield event
            if not refused:
                return
            reason = f"{self.name}: the model refused to answer"
        except ModelError as error:
            if error.kind not in _PASSED_ON:
                raise
            from codeagent.llm.errors import ANOTHER  # most requests never fail

            reason = str(error).removesuffix(ANOTHER)
        second = await self._opened(reason)
        self._first = None
        self._inner = second
        self.name = second.name
        await first.close()
        yield FellBack(reason, second.name, self._server)
        async for event in second.stream(request):
            yield event

    async def _opened(self, reason: str) -> Model:
        """Open the second model. Raises ModelError with both reasons if it cannot be."""
        try:
            return await self._open_second()
        except CodeagentError as error:
            raise ModelError(
                f"{reason}; nor can the fallback model be used: {error}", kind="bad_request"
            ) from error


def _refuses(answer: AssistantMessage) -> bool:
    """Tell whether the provider let nothing of the answer through."""
    return answer.stop == "content_filter" and not (answer.text.strip() or answer.calls)
