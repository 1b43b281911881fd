"""Work in threads whose result nobody waits for any longer."""

import asyncio
import threading
from pathlib import Path

import pytest

from codeagent.sandbox.guard import SessionResources
from codeagent.sandbox.tasks import in_thread
from tests.sandboxes import sandbox_spec


@pytest.mark.parametrize("late", [False, True])
async def test_a_result_that_comes_as_its_caller_is_cancelled_is_unwanted(late: bool) -> None:
    loop, began = asyncio.get_running_loop(), asyncio.Event()
    may_end = threading.Event()
    threads: list[threading.Thread] = []
    unwanted: list[str] = []

    def work() -> str:
        threads.append(threading.current_thread())
        loop.call_soon_threadsafe(began.set)
        may_end.wait()
        return "made"

    task = asyncio.create_task(in_thread(work, unwanted.append))
    await began.wait()
    may_end.set()
    threads[0].join()
    if late:  # after the result, and before the task goes on with it
        loop.call_soon(task.cancel)
    else:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert unwanted == ["made"]


def test_closing_waits_until_what_was_created_is_taken(tmp_path: Path) -> None:
    resources = SessionResources(sandbox_spec(tmp_path, tmp_path / "state"))
    with resources.creating():
        resources.hand_over()
    resources.shut = True
    began, order = threading.Event(), list[str]()

    def close() -> None:
        began.set()
        resources.settled()
        order.append("closed")

    closing = threading.Thread(target=close)
    closing.start()
    began.wait()
    order.append("taken")
    resources.taken()
    closing.join()
    assert order == ["taken", "closed"]
