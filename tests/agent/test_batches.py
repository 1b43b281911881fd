"""Strategies cut the calls, access classes order them."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.agent.batches import Strategy, run_ordered
from codeagent.core.errors import ConfigError
from codeagent.core.events import BatchPlanned
from codeagent.core.messages import ToolCall
from codeagent.core.tool import Access
from tests.agent.doubles import Turn, do, of, scene
from tests.table import for_each


@for_each("text", ["sequential", "parallel", "batched:1", "batched:7"])
def test_a_strategy_reads_as_it_is_written(text: str) -> None:
    assert str(Strategy.parse(text)) == text


@for_each("text", ["batched:0", "batched", "batched:-1", "batched:x", "", "Parallel"])
def test_anything_else_is_a_configuration_error(text: str) -> None:
    with pytest.raises(ConfigError):
        Strategy.parse(text)


@given(st.integers(1, 9), st.integers(0, 30))
def test_batches_hold_every_call_once_in_order(size: int, count: int) -> None:
    calls = [ToolCall(id=str(n), name="x") for n in range(count)]
    batches = Strategy("batched", size).cut(calls)
    assert [call for batch in batches for call in batch] == calls
    assert all(len(batch) == size for batch in batches[:-1])


@pytest.mark.parametrize(
    ("strategy", "sizes"), [("sequential", [1, 1, 1]), ("parallel", [3]), ("batched:2", [2, 1])]
)
async def test_each_batch_is_planned_before_it_runs(strategy: str, sizes: list[int]) -> None:
    events = await scene(Turn("", (do("ok"),) * 3), Turn("done"), strategy=strategy).run()
    assert [len(event.calls) for event in of(events, BatchPlanned)] == sizes


async def test_shared_calls_run_together() -> None:
    s = scene(Turn("", (do("nap", key="a"), do("nap", key="b"))), Turn("done"))
    await s.run()
    assert s.tools["do"].log == ["start nap a", "start nap b", "end nap a", "end nap b"]


async def test_exclusive_calls_run_alone() -> None:
    s = scene(Turn("", (do("nap", "alone", "a"), do("nap", "alone", "b"))), Turn("done"))
    await s.run()
    assert s.tools["alone"].log == ["start nap a", "end nap a", "start nap b", "end nap b"]


async def test_calls_on_one_key_run_one_after_the_other_and_others_together() -> None:
    calls = (do("nap", "keyed", "x"), do("nap", "keyed", "x"), do("nap", "keyed", "y"))
    s = scene(Turn("", calls), Turn("done"))
    await s.run()
    log = s.tools["keyed"].log
    assert log[:2] == ["start nap x", "start nap y"]
    assert log.index("end nap x") < log.index("start nap x", 1)


access = st.one_of(
    st.just(Access("exclusive")),
    st.just(Access("shared")),
    st.builds(Access, st.sampled_from(["shared", "keyed"]), st.sampled_from("ab")),
)


@given(st.lists(access, max_size=8), st.randoms(use_true_random=False))
def test_conflicting_calls_always_run_in_source_order(accesses: list[Access], random) -> None:  # type: ignore[no-untyped-def]  # hypothesis gives a Random
    """The outcome is that of running them in order, whatever the timing."""
    spans: dict[int, tuple[int, int]] = {}
    clock = iter(range(10_000))

    async def work(position: int) -> None:
        begin = next(clock)
        for _ in range(random.randrange(4)):
            await asyncio.sleep(0)
        spans[position] = (begin, next(clock))

    asyncio.run(run_ordered(range(len(accesses)), lambda position: accesses[position], work))
    for later in range(len(accesses)):
        for earlier in range(later):
            if accesses[later].conflicts(accesses[earlier]):
                assert spans[earlier][1] < spans[later][0]
