"""A call that still runs after so many seconds becomes a job by itself, and the model reads what it
has printed."""

import asyncio

from codeagent.core.events import JobStarted, ToolResultAdded
from codeagent.core.messages import text_of
from tests.agent.doubles import Turn, of, scene
from tests.agent.job_doubles import Backstage, Long, long

SOON = 0.001
LATER = 0.01
"""Once this is over, everything that was due before has happened: timers fire in order."""


class Silent(Long):
    """As `Long`, of a kind whose output cannot be read while it runs."""

    name = "silent"
    source = "builtin"


async def test_the_output_so_far_is_the_calls_one_result_and_the_rest_is_told_at_its_end() -> None:
    b = Backstage(
        Turn("", (long(),)),
        Turn("", (long("b", background=True),)),
        Turn("fine"),
        partial_results=SOON,
    )
    running = asyncio.ensure_future(b.run())
    await b.long.running("b")
    b.long.end("a")
    b.long.end("b")
    await running
    first, _ = [event for event in b.events if isinstance(event, ToolResultAdded)]
    assert text_of(first.content) == (
        "This result is partial: the call was still running after 0.001 s and was moved to the background; it "
        "continues as job job-1. You will be told when it ends.\nIts output so far:\na prints"
    )
    assert [event.promoted for event in of(b.events, JobStarted)] == [True, False]
    assert [end.status for end in b.ends() if end.job_id == "job-1"] == ["done"]
    await b.agent.close()


async def test_a_time_limit_still_applies_to_what_nobody_moved() -> None:
    call = ("long", '{"timeout": 0.01}')
    b = Backstage(
        Turn("", (call,)),
        Turn("", (("job_wait", '{"id": "job-1"}'),)),
        Turn("so"),
        partial_results=SOON,
    )
    await b.run()
    [end] = b.ends()
    assert (end.status, end.summary) == ("failed", "Timed out after 0.01 s; it was stopped")
    await b.agent.close()


async def test_a_call_that_ends_sooner_has_its_own_result() -> None:
    b = Backstage(Turn("", (long(),)), Turn("fine"), partial_results=60)
    b.long.end()
    await b.run()
    assert "job.started" not in b.names()
    await b.agent.close()


async def test_a_call_that_shows_no_output_or_waits_for_the_user_is_awaited() -> None:
    silent = Silent()
    calls = ("silent", "{}"), ("asleep", "{}"), ("job_wait", '{"id": "job-1"}'), long()
    b = Backstage(
        Turn("", (long("b", background=True),)),
        Turn("", calls),
        more=(silent,),
        partial_results=SOON,
    )
    running = asyncio.ensure_future(b.run())
    await b.until("job.started", 2)
    await asyncio.sleep(LATER)
    assert [event.name for event in of(b.events, JobStarted)] == ["long", "long"]
    assert {event.call_id for event in of(b.events, ToolResultAdded)} == {"call_1", "call_5"}
    await b.agent.close()
    await running


async def test_without_the_tools_to_read_a_job_a_call_is_awaited() -> None:
    tool = Long()
    s = scene(Turn("", (long(),)), Turn("fine"), more=(tool,), partial_results=SOON)
    running = asyncio.ensure_future(s.run())
    await tool.running()
    await asyncio.sleep(LATER)
    tool.end()
    [result] = of(await running, ToolResultAdded)
    assert text_of(result.content) == "a is done"
    await s.agent.close()
