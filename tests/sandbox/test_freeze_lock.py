"""Who holds still is not disturbed, and in the end everything goes on, however tasks come, fail and
are cancelled."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.core.errors import SandboxLost
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.freeze import FreezeLock
from tests.sandboxes import sandbox_spec


class World:
    """What may move, and what stops it: every pause must be ended by as many resumes."""

    def __init__(self, failing: frozenset[int] = frozenset()) -> None:
        self.stopped = False
        self.activity = 0
        self.stops = 0
        self._failing = failing
        self.freeze_lock = FreezeLock(self._stop, self._go_on)

    async def _stop(self) -> None:
        assert (self.activity, self.stopped) == (0, False)
        self.stopped = True
        self.stops += 1
        await asyncio.sleep(0)
        if self.stops in self._failing:
            raise ValueError("cannot stop")

    async def _go_on(self) -> None:
        await asyncio.sleep(0)
        self.stopped = False

    async def hold(self, steps: int) -> None:
        async with self.freeze_lock.hold():
            for _ in range(steps + 1):
                assert self.stopped
                await asyncio.sleep(0)

    async def nested(self, steps: int) -> None:
        async with self.freeze_lock.hold():
            await self.hold(steps)
            assert self.stopped

    async def move(self, steps: int) -> None:
        async with self.freeze_lock.activity():
            self.activity += 1
            try:
                for _ in range(steps + 1):
                    assert not self.stopped
                    await asyncio.sleep(0)
            finally:
                self.activity -= 1


Act = Callable[[World, int], Awaitable[None]]
acts = st.sampled_from([World.hold, World.nested, World.move])


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(acts, st.integers(0, 4), st.integers(0, 6), st.none() | st.integers(0, 12)),
        max_size=8,
    ),
    st.frozensets(st.integers(1, 3)),
)
def test_always_nothing_moves_while_it_is_held_and_everything_goes_on_at_the_end(
    plan: list[tuple[Act, int, int, int | None]], failing: frozenset[int]
) -> None:
    """Each task starts at a step, lasts some steps, and is cancelled at another step or not."""

    async def story() -> None:
        world = World(failing)
        tasks: list[tuple[asyncio.Task[None], int | None]] = []
        for step in range(20):
            tasks += [
                (asyncio.ensure_future(act(world, lasts)), cut)
                for act, begins, lasts, cut in plan
                if begins == step
            ]
            for task, cut in tasks:
                if cut == step:
                    task.cancel()
            await asyncio.sleep(0)
        ends = await asyncio.wait_for(
            asyncio.gather(*(task for task, _ in tasks), return_exceptions=True), 10
        )
        assert [end for end in ends if isinstance(end, AssertionError)] == []
        assert (world.stopped, world.activity, world.freeze_lock.held) == (False, 0, False)
        await world.move(0)

    asyncio.run(story())


async def test_what_stopping_raises_reaches_who_asked_and_everything_goes_on() -> None:
    world = World(frozenset({1}))
    with pytest.raises(ValueError, match="cannot stop"):
        await world.hold(0)
    await world.move(0)
    await world.hold(0)


async def test_a_cancel_during_the_end_of_a_hold_is_raised_after_it() -> None:
    world = World()
    at_the_end = asyncio.Event()
    go_on = world.freeze_lock._resume

    async def slowly() -> None:
        at_the_end.set()
        await asyncio.sleep(0.05)
        await go_on()

    world.freeze_lock._resume = slowly
    task = asyncio.create_task(world.hold(0))
    await at_the_end.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not world.stopped


async def test_a_stop_that_is_under_way_comes_to_its_end_before_everything_goes_on() -> None:
    happened: list[str] = []

    async def stop() -> None:
        happened.append("stop asked for")
        await asyncio.sleep(0.02)
        happened.append("stopped")

    async def go_on() -> None:
        happened.append("goes on")

    async def hold() -> None:
        async with FreezeLock(stop, go_on).hold():
            raise AssertionError("it was cancelled before")

    task = asyncio.create_task(hold())
    await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert happened == ["stop asked for", "stopped", "goes on"]


async def test_a_container_that_is_still_being_paused_when_another_fails_is_resumed_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = DockerSandbox(sandbox_spec(tmp_path / "w", tmp_path / "state"))
    done = []

    async def fail() -> None:
        raise SandboxLost("it does not answer")

    async def pause() -> None:
        for _ in range(100):
            await asyncio.sleep(0)
        done.append("paused")

    async def resume() -> None:
        done.append("resumed")

    monkeypatch.setattr(sandbox._read_only, "pause", fail)
    monkeypatch.setattr(sandbox._default, "pause", pause)
    monkeypatch.setattr(sandbox._default, "resume", resume)
    with pytest.raises(SandboxLost, match="does not answer"):
        async with sandbox.frozen():
            raise AssertionError("nothing is frozen")
    for _ in range(200):
        await asyncio.sleep(0)
    assert done == ["paused", "resumed"]
