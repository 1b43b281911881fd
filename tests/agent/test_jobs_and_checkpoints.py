"""Jobs hold nothing up: neither a way back, nor what a tool allows in one run."""

import asyncio

from codeagent.core.acts import Restore
from codeagent.core.events import ToolResultAdded
from codeagent.core.messages import text_of
from tests.agent.doubles import Turn, do, of
from tests.agent.job_doubles import Backstage, long
from tests.agent.memory_checkpoints import MemoryCheckpoints
from tests.fakes import FakeSandbox


async def test_undo_does_not_wait_for_fifty_jobs() -> None:
    store = MemoryCheckpoints({"a.py": "1"})
    calls = [long(f"key {number}", background=True) for number in range(50)]
    turns = [Turn("", tuple(calls[at : at + 10])) for at in range(0, 50, 10)]
    b = Backstage(*turns, sandbox=FakeSandbox(), checkpoints=store)
    await b.run()
    store.files["a.py"] = "2"
    rewind = b.agent.rewind
    assert rewind is not None
    async with asyncio.timeout(10):
        assert await b.agent.finish(Restore(rewind.points()[0].id, "undo")) is None
    assert store.files == {"a.py": "1"}
    assert b.jobs.running == 50
    await b.agent.close()


async def test_a_job_that_ends_during_a_restore_begins_its_run_afterwards() -> None:
    store = MemoryCheckpoints({"a.py": "1"})
    b = Backstage(
        Turn("", (long(background=True),)), sandbox=FakeSandbox(), checkpoints=store, attended=True
    )
    await b.run()
    await b.settled()
    rewind = b.agent.rewind
    assert rewind is not None
    store.gate = asyncio.Event()
    going = asyncio.ensure_future(b.agent.finish(Restore(rewind.points()[0].id, "undo")))
    await b.settled()
    b.long.end()
    await b.until("job.finished")
    await b.settled()
    assert not b.agent.running
    store.gate.set()
    await going
    await b.until("run.finished", 2)
    assert b.names().index("checkpoint.restored") < len(b.names()) - 1 - b.names()[::-1].index(
        "run.started"
    )
    await b.agent.close()


async def test_a_tool_is_called_as_often_in_one_run_as_it_allows() -> None:
    b = Backstage(
        Turn("", (do("ok"), do("ok", key="b"))),
        Turn("", (do("ok", key="c"), do("ok", "keyed"))),
        Turn("so"),
    )
    b.scene.tools["do"].max_calls = 2
    await b.run()
    results = {text_of(event.content): event.executed for event in of(b.events, ToolResultAdded)}
    assert results == {
        "did ok": True,
        "Not executed: do may be called 2 times in one run, and it was.": False,
    }
    assert [m.role for m in b.agent.history][-4:] == ["assistant", "tool", "tool", "assistant"]
    await b.run("again")
    b.scene.model.turns += [Turn("", (do("ok", key="d"),))]
    await b.run("once more")
    assert of(b.events, ToolResultAdded)[-1].executed
