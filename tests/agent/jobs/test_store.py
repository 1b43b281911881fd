"""Jobs: calls that go on in the background, and what is told of them, event by event."""

import asyncio

import pytest

from codeagent.agent.limits import Limits
from codeagent.core.acts import Background, FollowUp, RunShell, Stop
from codeagent.core.events import JobFinished, JobStarted, RunFinished, ToolResultAdded
from codeagent.core.messages import text_of, transcript_problems
from codeagent.core.notices import RunStopped
from tests.agent.doubles import Turn, of
from tests.agent.job_doubles import Backstage, long
from tests.fakes import FakeSandbox

BACKGROUND = (long(background=True),)
PLACEHOLDER = [
    "tool.started",
    "job.started",
    "tool.finished",
    "tool.result",
    "batch.finished",
    "turn.finished",
]
TURN = ["turn.started", "message.added"]
ANSWER = [*TURN, "turn.finished"]


def result_texts(b: Backstage) -> list[str]:
    return [text_of(event.content) for event in of(b.events, ToolResultAdded)]


async def test_a_call_in_the_background_is_answered_at_once_and_its_end_is_told_before_the_next_request() -> (
    None
):
    b = Backstage(Turn("", BACKGROUND), Turn("", (long("b"),)), Turn("I see"))
    running = asyncio.ensure_future(b.run())
    await b.until("turn.started", 2)
    b.long.end("a")
    await b.until("job.finished")
    b.long.end("b")
    await running
    assert b.names() == [
        "run.started",
        "message.added",
        *TURN,
        *PLACEHOLDER,
        *TURN,
        "tool.started",
        "job.finished",
        "tool.finished",
        "tool.result",
        "batch.finished",
        "turn.finished",
        "message.added",
        *ANSWER,
        "run.finished",
    ]
    assert result_texts(b)[0] == "job job-1 started: a\nYou will be told when it ends."
    assert b.notes() == ["(job-1,\n> long a: done, exit code 0\nIts output:\n> a is done\n)"]
    assert transcript_problems(b.agent.history) == []


async def test_of_a_long_value_that_a_job_returned_all_lines_are_counted() -> None:
    b = Backstage(Turn("", BACKGROUND), Turn("", (long("b"),)), Turn("I see"))
    running = asyncio.ensure_future(b.run())
    await b.long.running()
    b.long.end("a", "at length")
    await b.until("job.finished")
    b.long.end("b")
    await running
    (finished,) = of(b.events, JobFinished)
    assert finished.handle is not None and finished.lines == 2_000
    assert f'[output_read(id="{finished.handle}") shows all 2000 lines]' in b.notes()[0]


async def test_a_job_that_fails_is_told_of_with_its_reason() -> None:
    b = Backstage(Turn("", BACKGROUND), Turn("", (long("b"),)), Turn("I see"))
    running = asyncio.ensure_future(b.run())
    await b.long.running()
    b.long.end("a", "badly")
    await b.until("job.finished")
    b.long.end("b")
    await running
    [end] = b.ends()
    assert (end.status, end.exit_code, end.summary, end.tail) == (
        "failed",
        3,
        "it broke",
        "it broke",
    )
    assert b.jobs.get("job-1").status == "failed"
    assert b.notes() == ["(job-1,\n> long a: failed, it broke\nIts output:\n> it broke\n)"]


async def test_a_call_that_is_waited_for_can_be_moved_to_the_background_and_goes_on() -> None:
    b = Backstage(Turn("", (long(), long("b"))), Turn("fine"), attended=True)
    running = asyncio.ensure_future(b.run())
    await b.long.running("b")
    b.act(Background("call_1"))
    b.long.end("b")
    await running
    b.long.end("a")
    await b.until("run.finished", 2)
    assert b.names() == [
        "run.started",
        "message.added",
        *TURN,
        "tool.started",
        "tool.started",
        "job.started",
        "tool.finished",
        "tool.result",
        "tool.finished",
        "tool.result",
        "batch.finished",
        "turn.finished",
        *ANSWER,
        "run.finished",
        "job.finished",
        "run.started",
        "message.added",
        *ANSWER,
        "run.finished",
    ]
    assert result_texts(b)[0] == (
        "The user moved this call to the background; it continues as job job-1. You will be told when it ends.\n"
        "Its output so far:\na prints"
    )
    assert b.jobs.get("job-1").promoted
    await b.agent.close()


async def test_without_a_name_the_call_that_has_run_longest_is_moved() -> None:
    b = Backstage(Turn("", (long("x"), long("y"))))
    running = asyncio.ensure_future(b.run())
    await b.long.running("y")
    b.act(Background())
    b.act(Background())
    assert "nothing was moved" in b.scene.refusal(Background())
    await running
    assert [event.title for event in of(b.events, JobStarted)] == ["x", "y"]
    await b.agent.close()


async def test_what_has_ended_is_not_moved_any_more() -> None:
    b = Backstage(Turn("", (long(),)))
    running = asyncio.ensure_future(b.run())
    await b.long.running()
    b.long.end()
    await b.until("tool.result")
    assert "nothing was moved" in b.scene.refusal(Background("call_1"))
    await running
    assert "nothing was moved" in b.scene.refusal(Background("call_1"))
    assert "nothing was moved" in b.scene.refusal(Background())
    assert "job.started" not in b.names()
    assert [event.type for event in b.events].count("tool.result") == 1


async def test_what_waits_for_the_user_is_not_moved() -> None:
    b = Backstage(Turn("", (("asleep", "{}"),)))
    running = asyncio.ensure_future(b.run())
    await b.until("tool.updated")
    assert "nothing was moved" in b.scene.refusal(Background())
    b.act(Stop())
    await running


async def test_a_job_that_was_moved_is_out_of_reach_of_esc_and_of_its_time_limit() -> None:
    b = Backstage(
        Turn("", (("long", '{"timeout": 0.05}'), long("b"))), limits=Limits(timeout_per_call=0.05)
    )
    running = asyncio.ensure_future(b.run())
    await b.long.running("b")
    b.act(Background("call_1"))
    b.act(Stop())
    await running
    await asyncio.sleep(0.1)
    assert b.jobs.get("job-1").status == "running"
    assert b.long.stopped == ["b"]
    [stopped] = of(b.events, RunStopped)
    assert stopped.jobs_running == 1
    assert "1 job still running" in stopped.text
    await b.agent.close()
    assert b.jobs.get("job-1").status == "stopped"


async def test_a_job_has_no_time_limit_unless_its_call_names_one() -> None:
    calls = (("long", '{"background": true, "timeout": 0.02}'), long("b", background=True))
    b = Backstage(Turn("", calls), limits=Limits(timeout_per_call=0.01))
    await b.run()
    await b.until("job.finished")
    [end] = b.ends()
    assert (end.job_id, end.status, end.summary) == (
        "job-1",
        "failed",
        "Timed out after 0.02 s; it was stopped",
    )
    assert b.jobs.get("job-2").status == "running"
    await b.agent.close()


async def test_a_stateful_tool_talks_and_is_talked_to() -> None:
    b = Backstage(Turn("", (("chat", "{}"),)))
    await b.run()
    for said in ("one", "two"):
        assert b.jobs.send("job-1", said)
    await b.until("job.updated", 3)
    assert b.jobs.get("job-1").takes_input
    assert b.jobs.read("job-1", None, 10).lines == ("hello", "you said one", "you said two")
    b.jobs.send("job-1", "bye")
    await b.until("job.finished")
    [end] = b.ends()
    assert (end.status, end.tail, end.lines) == ("done", "hello\nyou said one\nyou said two", 3)
    assert not b.jobs.send("job-1", "are you there?")
    assert b.names()[2:] == [*TURN, *PLACEHOLDER, *ANSWER, "run.finished", "job.finished"]
    kinds = [event.type for event in b.events]
    assert kinds.index("job.started") < kinds.index("job.updated")
    assert kinds[-1] == "job.finished"
    await b.agent.close()


async def test_a_stateful_tool_that_breaks_has_failed_and_one_that_waits_can_be_stopped() -> None:
    b = Backstage(Turn("", (("chat", "{}"), ("chat", "{}"))))
    await b.run()
    b.jobs.send("job-1", "break")
    await b.until("job.finished")
    assert (await b.jobs.stop("job-2", "enough")).status == "stopped"
    assert [(end.job_id, end.status, end.summary) for end in b.ends()] == [
        ("job-1", "failed", "it broke"),
        ("job-2", "stopped", "Cancelled: enough"),
    ]
    await b.agent.close()


async def test_what_ends_while_nobody_asks_for_anything_begins_one_run_for_all_of_it() -> None:
    calls = (long("a", background=True), long("b", background=True), long("c", background=True))
    b = Backstage(Turn("", calls), Turn("started"), Turn("both are done"), attended=True)
    await b.run()
    b.long.end("a")
    b.long.end("b")
    await b.until("run.finished", 2)
    await b.settled()
    after = b.names()[b.names().index("run.finished") + 1 :]
    assert sorted(after[:3]) == ["job.finished", "job.finished", "run.started"]
    assert after[3:] == ["message.added", "message.added", *ANSWER, "run.finished"]
    assert [end.job_id for end in b.ends()] == ["job-1", "job-2"]
    assert len(b.notes()) == 2
    await b.agent.close()


async def test_nobody_is_woken_where_no_user_is_there_or_their_text_waits_or_it_is_closed() -> None:
    alone = Backstage(Turn("", BACKGROUND))
    await alone.run()
    alone.long.end()
    await alone.until("job.finished")
    await alone.settled()
    assert alone.names().count("run.started") == 1

    queued = Backstage(Turn("", BACKGROUND), attended=True)
    await queued.run()
    queued.act(FollowUp("not yet sent"))
    queued.long.end()
    await queued.until("job.finished")
    await queued.settled()
    assert queued.names().count("run.started") == 1
    assert queued.notes() == []

    closed = Backstage(Turn("", BACKGROUND), attended=True)
    await closed.run()
    await closed.agent.close()
    await closed.settled()
    assert closed.names().count("run.started") == 1


async def test_what_was_not_told_goes_with_the_next_prompt() -> None:
    b = Backstage(Turn("", BACKGROUND), Turn("started"), Turn("yes"))
    await b.run()
    b.long.end()
    await b.until("job.finished")
    await b.run("and?")
    assert len(b.notes()) == 1
    assert [text_of(message.content) for message in b.scene.model.requests[-1].messages[-2:]] == [
        b.notes()[0],
        "and?",
    ]


async def test_what_ends_during_the_last_answer_is_still_told_in_the_same_run() -> None:
    b = Backstage(Turn("", BACKGROUND), Turn("one two three four five"), Turn("so it is done"))
    b.agent.observe(lambda event: b.long.end() if event.type == "text.delta" else None)
    await b.run()
    assert len(b.notes()) == 1
    [finished] = of(b.events, RunFinished)
    assert (finished.reason, finished.text) == ("done", "so it is done")


async def test_after_a_run_that_was_stopped_nothing_begins_by_itself() -> None:
    b = Backstage(Turn("", (long("a", background=True), long("b"))), attended=True)
    running = asyncio.ensure_future(b.run())
    await b.long.running("b")
    b.long.end("a")
    await b.until("job.finished")
    b.act(Stop())
    await running
    await b.settled()
    assert b.names().count("run.started") == 1
    await b.run("go on")
    assert len(b.notes()) == 1
    await b.agent.close()


async def test_closing_stops_every_job_and_logs_it_first() -> None:
    b = Backstage(Turn("", (*BACKGROUND, ("chat", "{}"))))
    await b.run()
    await b.agent.close()
    assert [(end.job_id, end.status) for end in b.ends()] == [
        ("job-1", "stopped"),
        ("job-2", "stopped"),
    ]
    assert b.scene.journal.events[-1].type == "job.finished"
    assert b.long.stopped == ["a"]


async def test_a_job_that_the_user_stops_is_told_of_but_wakes_nobody() -> None:
    b = Backstage(Turn("", BACKGROUND), attended=True)
    await b.run()
    job = await b.jobs.stop("job-1", "stopped by the user")
    await b.settled()
    assert (job.status, job.summary) == (
        "stopped",
        "Cancelled: stopped by the user; it was stopped",
    )
    assert b.names().count("run.started") == 1
    assert await b.jobs.stop("job-1", "again") == job
    await b.run("go on")
    assert len(b.notes()) == 1
    await b.agent.close()


async def test_two_jobs_that_end_in_the_same_tick_are_both_told_once() -> None:
    calls = (long("a", background=True), long("b", background=True))
    b = Backstage(Turn("", calls), Turn("", (long("c"),)), Turn("both"))
    running = asyncio.ensure_future(b.run())
    await b.long.running("c")
    b.long.end("a")
    b.long.end("b")
    b.long.end("c")
    await running
    assert sorted(note[:6] for note in b.notes()) == ["(job-1", "(job-2"]


async def test_more_jobs_than_can_run_are_refused_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("codeagent.agent.jobs.store.MOST_RUNNING", 2)
    calls = tuple(long(key, background=True) for key in "abc")
    b = Backstage(Turn("", calls))
    await b.run()
    assert b.jobs.running == 2
    [refused] = [event for event in of(b.events, ToolResultAdded) if event.is_error]
    assert not refused.executed
    assert "Stop one, or wait until one has ended" in text_of(refused.content)
    await b.agent.close()


async def test_a_job_gives_its_slot_and_the_floor_back() -> None:
    calls = tuple(long(key, background=True) for key in "abcd")
    b = Backstage(
        Turn("", calls),
        Turn("", (("do", '{"what": "ok"}'),)),
        limits=Limits(max_concurrency=1),
        sandbox=FakeSandbox(),
    )
    await b.run()
    assert b.jobs.running == 4
    await b.agent.finish(RunShell("true", shared=False))
    assert [event.name for event in of(b.events, ToolResultAdded)][-2:] == ["do", "shell"]
    await b.agent.close()


async def test_what_a_job_returns_at_its_end_is_cut_and_kept_whole() -> None:
    b = Backstage(Turn("", BACKGROUND))
    await b.run()
    for number in range(2_000):
        await b.long.contexts["a"].on_update(f"line {number}\n")
    b.long.end("a", "badly")
    await b.until("job.finished")
    page = b.jobs.read("job-1", 3, 2)
    assert (page.lines, page.first, page.total) == (("line 1", "line 2"), 3, 2_001)
    assert b.jobs.get("job-1").lines == 2_001
    await b.agent.close()
