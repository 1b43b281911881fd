"""Rate limits that tasks share: which request may begin when, by a clock that the test moves."""

import asyncio
from collections.abc import Mapping
from itertools import pairwise

import pytest

from codeagent.extensions.batch import pacing
from codeagent.extensions.batch.pacing import Limiter, PacingLine, SharedPacing, limits_in
from tests.table import for_each


class Clock:
    """A clock that moves only when something sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        real = asyncio.sleep

        async def sleep(seconds: float) -> None:
            self.now += seconds
            await real(0)

        monkeypatch.setattr(pacing.asyncio, "sleep", sleep)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@for_each(
    ("headers", "said"),
    [
        (
            {
                "x-ratelimit-limit-requests": "500",
                "x-ratelimit-remaining-requests": "499",
                "x-ratelimit-limit-tokens": "30000",
                "x-ratelimit-remaining-tokens": "100",
                "x-ratelimit-reset-tokens": "6m0s",
            },
            {
                "requests": {"limit": 500, "remaining": 499},
                "tokens": {"limit": 30000, "remaining": 100},
            },
        ),
        (
            {
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-remaining": "49",
                "anthropic-ratelimit-input-tokens-limit": "40000",
                "anthropic-ratelimit-input-tokens-remaining": "39000",
                "anthropic-ratelimit-requests-reset": "2026-01-01T00:00:00Z",
            },
            {
                "requests": {"limit": 50, "remaining": 49},
                "tokens": {"limit": 40000, "remaining": 39000},
            },
        ),
        ({"x-ratelimit-limit-requests": "many", "content-type": "text/plain"}, {}),
    ],
)
def test_limits_are_read_from_headers(
    headers: Mapping[str, str], said: dict[str, dict[str, int]]
) -> None:
    assert limits_in(headers) == said


async def test_requests_do_not_wait_without_a_limit(clock: Clock) -> None:
    limiter = Limiter(clock)
    begun = await asyncio.gather(*(limiter.begin("m", 1000) for _ in range(100)))
    assert max(begun) < 1000.1


async def test_requests_begin_no_faster_than_the_provider_allows(clock: Clock) -> None:
    limiter = Limiter(clock)
    limiter.answered("m", 0.0, {"requests": {"limit": 60, "remaining": 0}})
    begun = await asyncio.gather(*(limiter.begin("m", 1) for _ in range(30)))
    for first, second in pairwise(begun):
        assert second - first >= 0.9
    assert begun[-1] - 1000.0 < 40


@for_each(("limit", "remaining"), [(10, 9), (600, 9)])
async def test_requests_on_their_way_count_when_a_response_tells_the_limit(
    limit: int, remaining: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    limiter = Limiter(clock)
    first, *_ = await asyncio.gather(*(limiter.begin("m", 1) for _ in range(8)))
    limiter.answered("m", first, {"requests": {"limit": limit, "remaining": remaining}})
    begun = await asyncio.gather(*(limiter.begin("m", 1) for _ in range(6)))
    assert sum(each < 1000.05 for each in begun) == 2, "seven of nine are on their way"


async def test_requests_beyond_a_limit_that_was_not_known_yet_delay_no_others(clock: Clock) -> None:
    limiter = Limiter(clock)
    first, *_ = await asyncio.gather(*(limiter.begin("m", 10_000) for _ in range(60)))
    said = {"requests": {"limit": 5, "remaining": 4}, "tokens": {"limit": 30_000, "remaining": 0}}
    limiter.answered("m", first, said)
    assert await limiter.begin("m", 10_000) <= 1021


async def test_a_missing_response_counts_for_a_minute_at_most(clock: Clock) -> None:
    limiter = Limiter(clock)
    await asyncio.gather(*(limiter.begin("m", 1) for _ in range(8)))
    clock.now += 61
    limiter.answered("m", 0.0, {"requests": {"limit": 10, "remaining": 9}})
    begun = await asyncio.gather(*(limiter.begin("m", 1) for _ in range(9)))
    assert max(begun) < 1061.1


async def test_tokens_count_too_and_a_request_above_the_limit_begins_at_last(clock: Clock) -> None:
    limiter = Limiter(clock)
    limiter.answered("m", 0.0, {"tokens": {"limit": 1000, "remaining": 1000}})
    first = await limiter.begin("m", 5000)
    second = await limiter.begin("m", 1000)
    assert first == 1000.0
    assert 60 <= second - first <= 61


async def test_requests_begin_in_the_order_in_which_they_came(clock: Clock) -> None:
    limiter = Limiter(clock)
    limiter.answered("m", 0.0, {"requests": {"limit": 60, "remaining": 0}})
    order: list[int] = []

    async def one(number: int) -> None:
        await limiter.begin("m", 1)
        order.append(number)

    await asyncio.gather(*map(one, range(10)))
    assert order == list(range(10))


async def test_a_refusal_pauses_everybody_once_and_nobody_rushes_afterwards(clock: Clock) -> None:
    limiter = Limiter(clock)
    begun = await asyncio.gather(*(limiter.begin("m", 1) for _ in range(20)))
    for one in begun:
        limiter.refused("m", one, 10.0)
    again = await asyncio.gather(*(limiter.begin("m", 1) for _ in range(20)))
    assert min(again) >= 1010.0
    gaps = [second - first for first, second in pairwise(again)]
    assert min(gaps) >= 0.2
    assert max(gaps) < 1.0, "twenty refusals of one wave count once"


async def test_another_model_does_not_wait(clock: Clock) -> None:
    limiter = Limiter(clock)
    limiter.refused("m", 1000.0, 60.0)
    assert await limiter.begin("other", 1) == 1000.0


async def test_a_request_that_gave_up_does_not_delay_others(clock: Clock) -> None:
    limiter = Limiter(clock)
    limiter.refused("m", 1000.0, 5.0)
    given_up = asyncio.ensure_future(limiter.begin("m", 1))
    await asyncio.sleep(0)
    given_up.cancel()
    assert await limiter.begin("m", 1) >= 1005.0


async def test_responses_to_a_wave_that_was_refused_do_not_speed_up_what_waits(
    clock: Clock,
) -> None:
    limiter = Limiter(clock)
    begun = await asyncio.gather(*(limiter.begin("m", 1) for _ in range(20)))
    for one in begun:
        limiter.answered("m", one, {})
        limiter.refused("m", one, 10.0)
    again = await asyncio.gather(*(limiter.begin("m", 1) for _ in range(20)))
    assert min(second - first for first, second in pairwise(again)) >= 0.2


async def test_a_pause_is_as_long_as_the_longest_that_was_requested(clock: Clock) -> None:
    limiter = Limiter(clock)
    begun = await asyncio.gather(*(limiter.begin("m", 1) for _ in range(2)))
    limiter.refused("m", begun[0], None)
    limiter.refused("m", begun[1], 30.0)
    assert await limiter.begin("m", 1) >= 1030.0


async def test_each_request_of_agents_that_share_a_model_waits_for_its_own_turn() -> None:
    told: list[Mapping[str, object]] = []
    line = PacingLine(told.append)
    shared = SharedPacing(line, "m")
    both = [asyncio.ensure_future(shared.may_begin(10, 60)) for _ in range(2)]
    await asyncio.sleep(0)
    assert [each["asks"] for each in told] == [[1, "m", 10], [2, "m", 10]]
    for number in (1, 2):
        line.go(number, 5.0)
    assert await asyncio.gather(*both) == [True, True]


async def test_the_turn_of_a_request_that_gave_up_goes_to_the_next_one() -> None:
    told: list[Mapping[str, object]] = []
    line = PacingLine(told.append)
    shared = SharedPacing(line, "m")
    given_up = asyncio.ensure_future(shared.may_begin(10, 60))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait((given_up,))
    assert not await shared.may_begin(10, 0)
    line.go(1, 5.0)
    assert await shared.may_begin(10, 60)
    assert len(told) == 1
