"""The token tree: what fires together, and what a guarded piece of work leaves behind."""

import asyncio
import threading

import pytest

from codeagent.core.cancel import CancelToken, completed
from codeagent.core.errors import RunCancelled


def test_a_token_takes_those_below_along_and_no_others() -> None:
    session = CancelToken()
    run = session.child()
    first, second = run.child(), run.child()
    first.cancel("one call")
    assert (first.cancelled, second.cancelled, run.cancelled) == (True, False, False)
    run.cancel("stop")
    assert (second.reason, session.cancelled) == ("stop", False)


def test_the_first_reason_stays() -> None:
    token = CancelToken()
    token.cancel("first")
    token.cancel("second")
    assert token.reason == "first"


def test_a_child_of_a_fired_token_is_born_fired() -> None:
    token = CancelToken()
    token.cancel("gone")
    assert token.child().reason == "gone"


def test_a_closed_child_is_forgotten_by_its_parent() -> None:
    token = CancelToken()
    child = token.child()
    child.close()
    token.cancel("x")
    assert not child.cancelled


async def test_guard_returns_what_the_work_returns() -> None:
    assert await CancelToken().guard(asyncio.sleep(0, "value")) == "value"


async def test_guard_cancels_the_work_and_says_why() -> None:
    token = CancelToken()
    asyncio.get_running_loop().call_soon(token.cancel, "enough")
    with pytest.raises(RunCancelled, match="enough"):
        await token.guard(asyncio.sleep(30))


async def test_guard_never_starts_work_after_the_token_fired() -> None:
    token = CancelToken()
    token.cancel("before")
    started = []

    async def work() -> None:
        started.append(True)

    with pytest.raises(RunCancelled):
        await token.guard(work())
    assert started == []


async def test_what_the_work_makes_of_its_cancellation_counts() -> None:
    token = CancelToken()

    async def work() -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "the half that was done"
        return ""

    asyncio.get_running_loop().call_soon(token.cancel, "enough")
    assert await token.guard(work()) == "the half that was done"


async def test_cancelling_the_caller_cancels_the_work() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()

    caller = asyncio.ensure_future(CancelToken().guard(work()))
    await asyncio.sleep(0.01)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended.is_set()


async def test_work_in_a_thread_is_waited_for_however_often_its_caller_is_cancelled() -> None:
    begun, may_end = threading.Event(), threading.Event()
    ended: list[bool] = []

    def work() -> None:
        begun.set()
        may_end.wait(30)
        ended.append(True)

    caller = asyncio.create_task(completed(work))
    await asyncio.to_thread(begun.wait, 30)
    for _ in range(3):
        caller.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not caller.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended == [True]


async def test_work_in_a_thread_returns_or_raises_what_it_does() -> None:
    assert await completed(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await completed(lambda: 1 // 0)
