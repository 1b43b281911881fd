"""Passing failures are repeated, others are not, and another model takes over from one that cannot
answer."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from codeagent.core.errors import ConfigError, ModelError, ModelErrorKind
from codeagent.core.messages import AssistantMessage, StopReason, Thinking, Usage
from codeagent.core.model import (
    FellBack,
    Heartbeat,
    ModelAnswer,
    ModelEvent,
    ModelRequest,
    Retrying,
    TextPiece,
)
from codeagent.llm.retry import FallbackModel, RetryingModel
from tests.llm.asking import ask, request

Step = ModelEvent | ModelError


class Playing:
    """A model whose attempts are given as lists of events; an error ends its attempt."""

    name = "played"
    context_window = 1000

    def __init__(self, *attempts: list[Step]) -> None:
        self.attempts = list(attempts)
        self.closed = False
        self.left = 0

    async def stream(self, asked: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            for step in self.attempts.pop(0):
                if isinstance(step, ModelError):
                    raise step
                yield step
        finally:
            self.left += 1

    async def close(self) -> None:
        self.closed = True


class Clock:
    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def failure(retry_after: float | None = None, *, retryable: bool = True) -> ModelError:
    return ModelError(
        "busy", kind="overloaded", status=529, retryable=retryable, retry_after=retry_after
    )


def answer(
    text: str = "ok", stop: StopReason = "end", thinking: tuple[Thinking, ...] = ()
) -> ModelAnswer:
    return ModelAnswer(AssistantMessage(text=text, stop=stop, thinking=thinking), Usage())


def retrying(inner: Playing, clock: Clock, **options: float) -> RetryingModel:
    return RetryingModel(inner, sleep=clock.sleep, jitter=lambda: 1.0, **options)  # type: ignore[arg-type]  # one of two


async def test_a_failed_attempt_is_announced_and_repeated() -> None:
    clock = Clock()
    model = retrying(Playing([TextPiece("half"), failure()], [TextPiece("ok"), answer()]), clock)
    heard = await ask(model)
    assert heard.events == [
        TextPiece("half"),
        Retrying("busy", 2, 2.0, 6),
        TextPiece("ok"),
        answer(),
    ]
    assert clock.slept == [2.0]


async def test_pauses_double_and_six_attempts_are_all() -> None:
    clock = Clock()
    model = retrying(Playing(*[[failure()] for _ in range(9)]), clock)
    with pytest.raises(ModelError, match=r"busy \(gave up after 6 attempts\)") as caught:
        await ask(model)
    assert clock.slept == [2.0, 4.0, 8.0, 16.0, 32.0]
    assert sum(clock.slept) <= 120
    assert (caught.value.kind, caught.value.status, caught.value.retryable) == (
        "overloaded",
        529,
        False,
    )


class Passing:
    """A model that says nothing but that it is alive, while a clock goes on by ten seconds a
    step."""

    name = "passing"
    context_window = None

    def __init__(self, steps: int, end: Step) -> None:
        self.steps, self.end, self.time, self.asked = steps, end, 0.0, 0

    async def stream(self, asked: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.asked += 1
        for _ in range(self.steps):
            self.time += 10
            yield Heartbeat()
        self.time += 10
        if isinstance(self.end, ModelError):
            raise self.end
        yield self.end

    async def close(self) -> None: ...

    def retried(self, silence: float) -> RetryingModel:
        return RetryingModel(
            self, sleep=Clock().sleep, first_delay=0.1, silence=silence, clock=lambda: self.time
        )


async def test_a_silent_model_is_given_up_within_one_attempt() -> None:
    left = asyncio.Event()

    class Silent(Playing):
        async def stream(self, asked: ModelRequest) -> AsyncIterator[ModelEvent]:
            try:
                await asyncio.Event().wait()
                yield answer()
            finally:
                left.set()

    with pytest.raises(
        ModelError, match=r"nothing came for 0.01 s; gave up\. limits.model_timeout"
    ) as caught:
        await ask(RetryingModel(Silent(), silence=0.01))
    assert (caught.value.kind, caught.value.retryable) == ("timeout", False)
    assert left.is_set()


async def test_silence_over_several_attempts_adds_up() -> None:
    silent = Passing(0, ModelError("nothing came", kind="timeout", retryable=True))
    with pytest.raises(ModelError, match="nothing came for 35 s, in 4 attempts; gave up"):
        await ask(silent.retried(silence=35))
    assert silent.asked == 4


async def test_a_call_whose_arguments_come_for_long_is_not_silence() -> None:
    """Nothing of it can be shown before it is whole."""
    assert (await ask(Passing(20, answer()).retried(silence=15))).events == [answer()]


async def test_a_provider_that_answers_with_failures_is_not_silent() -> None:
    with pytest.raises(ModelError, match="gave up after 6 attempts"):
        await ask(Passing(0, failure()).retried(silence=35))


async def test_jitter_shortens_a_pause_by_half_at_most() -> None:
    clock = Clock()
    model = RetryingModel(Playing([failure()], [answer()]), sleep=clock.sleep, jitter=lambda: 0.0)
    await ask(model)
    assert clock.slept == [1.0]


async def test_the_providers_own_pause_is_kept() -> None:
    clock = Clock()
    await ask(retrying(Playing([failure(17)], [answer()]), clock))
    assert clock.slept == [17]


async def test_waiting_ends_in_time_whatever_the_provider_asks_for() -> None:
    clock = Clock()
    with pytest.raises(ModelError, match="gave up after 2 attempts"):
        await ask(retrying(Playing(*[[failure(120)] for _ in range(6)]), clock))
    assert clock.slept == [120]


async def test_a_lasting_failure_is_not_repeated() -> None:
    clock = Clock()
    with pytest.raises(ModelError, match=r"^busy$"):
        await ask(retrying(Playing([failure(retryable=False)]), clock))
    assert clock.slept == []


@pytest.mark.parametrize(
    "kept", [answer(""), answer("", "length"), answer("", thinking=(Thinking(text="hm"),))]
)
async def test_an_answer_that_is_no_use_is_no_failure(kept: ModelAnswer) -> None:
    """The agent tells the model what was wrong with it."""
    assert (await ask(retrying(Playing([kept]), Clock()))).events == [kept]


async def test_a_pause_can_be_cancelled() -> None:
    pausing = asyncio.Event()

    async def sleep(seconds: float) -> None:
        pausing.set()
        await asyncio.sleep(seconds)

    task = asyncio.create_task(ask(RetryingModel(Playing([failure(100)]), sleep=sleep)))
    await pausing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_reader_that_stops_early_closes_the_stream_below() -> None:
    inner = Playing([TextPiece("a"), TextPiece("b"), answer()])
    stream = RetryingModel(inner).stream(request())
    assert await anext(stream) == TextPiece("a")
    await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert inner.left == 1


async def test_it_stands_for_the_model_below() -> None:
    inner = Playing()
    model = RetryingModel(inner)
    assert (model.name, model.context_window) == ("played", 1000)
    await model.prepare()
    await model.close()
    assert inner.closed


def failed(kind: ModelErrorKind) -> ModelError:
    return ModelError("it failed", kind=kind)


async def test_the_second_answers_from_then_on() -> None:
    first, second = (
        Playing([TextPiece("half"), failed("overloaded")]),
        Playing([answer("a")], [answer("b")]),
    )

    async def open_second() -> Playing:
        return second

    model = FallbackModel(first, open_second)
    assert (await ask(model)).events == [
        TextPiece("half"),
        FellBack("it failed", "played"),
        answer("a"),
    ]
    assert (await ask(model)).events == [answer("b")]
    assert first.closed
    await model.close()
    assert second.closed


async def test_a_second_on_another_server_is_announced_with_its_host_before_it_is_asked() -> None:
    second = Playing([answer("a")])

    async def open_second() -> Playing:
        return second

    model = FallbackModel(Playing([failed("overloaded")]), open_second, "api.example.org")
    stream = model.stream(ModelRequest("", (), ()))
    assert await anext(stream) == FellBack("it failed", "played", "api.example.org")
    assert second.attempts != []


@pytest.mark.parametrize("kind", ["bad_request", "context_window"])
async def test_a_request_that_is_wrong_for_any_model_is_not_passed_on(kind: ModelErrorKind) -> None:
    async def never() -> Playing:
        raise AssertionError

    with pytest.raises(ModelError, match="it failed"):
        await ask(FallbackModel(Playing([failed(kind)]), never))


async def test_where_the_second_fails_its_own_error_is_told() -> None:
    async def open_second() -> Playing:
        return Playing([ModelError("this one, too", kind="overloaded")])

    with pytest.raises(ModelError, match="this one, too"):
        await ask(FallbackModel(Playing([failed("auth")]), open_second))


async def test_a_refusal_is_answered_by_the_second_and_by_nobody_else() -> None:
    refusal, half = answer("", "content_filter"), answer("I can", "content_filter")

    async def open_second() -> Playing:
        return Playing([refusal])

    model = FallbackModel(Playing([half], [refusal]), open_second)
    assert (await ask(model)).events == [half]
    assert (await ask(model)).events == [
        FellBack("played: the model refused to answer", "played"),
        refusal,
    ]


async def test_a_second_that_cannot_be_opened_is_told_beside_why_it_was_needed() -> None:
    async def open_second() -> Playing:
        raise ConfigError("no key; set OTHER_API_KEY")

    with pytest.raises(
        ModelError, match="it failed; nor can the fallback model be used: no key; set OTHER_API_KEY"
    ):
        await ask(FallbackModel(Playing([failed("auth")]), open_second))
