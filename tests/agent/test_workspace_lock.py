"""Calls run side by side, the user's command alone, first come, first served, and nobody is
forgotten."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.agent.checkpoints import WorkspaceLock
from tests.effort import times

visitor = st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 3), st.booleans())


@given(st.lists(visitor, max_size=12))
@settings(max_examples=times(40), deadline=None)
def test_whoever_is_alone_is_alone_and_everybody_gets_in_or_is_cancelled(
    visitors: list[tuple[bool, int, int, bool]],
) -> None:
    """Each visitor: wants to be alone, comes after so many steps, stays so many, is cancelled soon
    after coming."""
    inside: list[bool] = []
    problems: list[str] = []

    async def visit(lock: WorkspaceLock, alone: bool, after: int, stays: int) -> None:
        for _ in range(after):
            await asyncio.sleep(0)
        await lock.enter(alone=alone)
        if inside and (alone or any(inside)):
            problems.append("not alone")
        inside.append(alone)
        try:
            for _ in range(stays):
                await asyncio.sleep(0)
        finally:
            inside.remove(alone)
            lock.leave(alone=alone)

    async def all_of_them() -> None:
        lock = WorkspaceLock()
        tasks = [
            asyncio.ensure_future(visit(lock, alone, after, stays))
            for alone, after, stays, _ in visitors
        ]
        for task, (_, after, _, cancelled) in zip(tasks, visitors, strict=True):
            if cancelled:
                for _ in range(after):
                    await asyncio.sleep(0)
                task.cancel()
        async with asyncio.timeout(5):
            await asyncio.gather(*tasks, return_exceptions=True)
        assert not lock.taken

    asyncio.run(all_of_them())
    assert problems == [] and inside == []


async def test_who_came_first_is_let_in_first() -> None:
    lock, order = WorkspaceLock(), []

    async def visit(name: str, alone: bool) -> None:
        await lock.enter(alone=alone)
        order.append(name)
        await asyncio.sleep(0)
        lock.leave(alone=alone)

    await asyncio.gather(visit("call 1", False), visit("command", True), visit("call 2", False))
    assert order == ["call 1", "command", "call 2"]
