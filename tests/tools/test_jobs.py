"""The tools over the jobs, through the agent: what the model reads, and how it is told of an end
once."""

import asyncio
import json

from codeagent.core.acts import Background, FollowUp, Steer, Stop
from codeagent.core.events import SteerDelivered, ToolResultAdded, ToolUpdated
from codeagent.core.messages import ErrorInfo, text_of
from codeagent.core.policy import Policy
from codeagent.tools.jobs import job_tools
from codeagent.tools.registry import ToolRegistry
from tests.agent.doubles import Turn, of
from tests.agent.job_doubles import Backstage, long
from tests.table import for_each

START = Turn("", (long(background=True),))


def call(name: str, **arguments: object) -> tuple[str, str]:
    return f"job_{name}", json.dumps(arguments)


def last(b: Backstage) -> ToolResultAdded:
    results: list[ToolResultAdded] = of(b.events, ToolResultAdded)
    return results[-1]


def said(b: Backstage) -> str:
    return text_of(last(b).content)


async def test_an_unknown_job_is_answered_with_those_there_are() -> None:
    for name, more in (("wait", {}), ("read", {}), ("stop", {}), ("send", {"text": "x"})):
        b = Backstage(START, Turn("", (call(name, id="job-7", **more),)))
        await b.run()
        why = "unknown job 'job-7'; there are: job-1"
        assert last(b).error == ErrorInfo(kind="not_found", message=why)
        await b.agent.close()
    b = Backstage(Turn("", (call("stop", id="x"),)))
    await b.run()
    assert said(b) == "unknown job 'x'; there are: none"


async def test_the_list_says_what_runs_and_what_ended() -> None:
    b = Backstage(Turn("", (call("list"),)))
    await b.run()
    assert said(b) == "No jobs."
    b = Backstage(
        Turn("", (long("a", background=True), long("b", background=True), ("chat", "{}"))),
        Turn("", (call("list"),)),
    )
    b.long.end("b", "badly")
    await b.run()
    lines = said(b).splitlines()
    assert lines[0].startswith("job-1 running, 0 s, 1 lines: long a")
    assert lines[1] == "job-2 failed, 0 s, 1 lines, it broke: long b"
    assert lines[2].startswith("job-3 running, 0 s, 1 lines, takes input: chat")
    await b.agent.close()


async def test_output_is_read_while_the_job_runs_and_after() -> None:
    b = Backstage(
        START,
        Turn("", (call("read", id="job-1"),)),
        Turn("", (call("read", id="job-1", offset=2, lines=1),)),
    )
    running = asyncio.ensure_future(b.run())
    await b.long.running()
    await b.long.contexts["a"].on_update("second\nthird\n")
    await running
    first = text_of(of(b.events, ToolResultAdded)[1].content).splitlines()
    assert first[1:] == ["a prints", "second", "third", "[Lines 1-3 of 3 so far.]"]
    assert said(b).splitlines()[1:] == ["second", "[Lines 2-2 of 3 so far.]"]
    b.long.end()
    await b.until("job.finished")
    assert b.jobs.read("job-1", 1, 1).lines == ("a prints",)
    assert b.jobs.read("job-1", 9, 1).lines == ()


async def test_a_wait_that_sees_the_end_is_how_the_model_learns_of_it() -> None:
    b = Backstage(START, Turn("", (call("wait", id="job-1"),)), Turn("good"))
    running = asyncio.ensure_future(b.run())
    await b.until("tool.started", 2)
    b.long.end()
    await running
    assert (
        said(b)
        == "job-1 done, 0 s, 1 lines, exit code 0: long a\na prints\nIt returned:\na is done"
    )
    assert b.notes() == []
    await b.agent.close()


def times_told(b: Backstage, value: str) -> int:
    """In how many results and notes the model has it."""
    told = [text_of(event.content) for event in of(b.events, ToolResultAdded)] + b.notes()
    return sum(value in text for text in told)


@for_each("way", ["wait", "stop", "read", None])
@for_each("promoted", [False, True])
async def test_what_a_job_returns_is_told_exactly_once_whichever_way_it_is_asked_for(
    way: str | None, promoted: bool
) -> None:
    """It ends during the batch that asks, so a note waits for the boundary after it."""
    asked = (call(way, id="job-1"),) if way else (long("c"),)
    begun = Turn("", (("long", '{"key": "a"}'),)) if promoted else START
    b = Backstage(begun, Turn("", (long("b"), *asked)), Turn("", (long("d"),)), Turn("good"))
    for key in "cd":
        b.long.end(key)
    running = asyncio.ensure_future(b.run())
    await b.long.running()
    if promoted:
        b.act(Background())
    b.long.end()
    await b.until("job.finished")
    b.long.end("b")
    await running
    await b.agent.close()
    assert times_told(b, "a is done") == 1


async def test_an_end_that_was_told_is_not_told_again() -> None:
    b = Backstage(
        START,
        Turn("", (call("wait", id="job-1"),)),
        Turn("", (call("wait", id="job-1"),)),
        Turn("good"),
    )
    running = asyncio.ensure_future(b.run())
    await b.long.running()
    b.long.end()
    await running
    await b.agent.close()
    assert times_told(b, "a is done") == 1


async def test_a_wait_whose_time_is_up_says_how_things_stand_and_is_no_error() -> None:
    b = Backstage(START, Turn("", (call("wait", id="job-1", timeout=0.01),)), Turn("later"))
    await b.run()
    assert not last(b).is_error
    assert said(b).endswith("long a\n[It still runs; the wait was over.]")
    b.long.end()
    await b.until("job.finished")
    await b.run("and now?")
    assert len(b.notes()) == 1


async def test_what_the_user_types_does_not_wait_for_a_job() -> None:
    b = Backstage(START, Turn("", (call("wait", id="job-1", timeout=600),)), Turn("yes?"))
    running = asyncio.ensure_future(b.run())
    await b.until("tool.started", 2)
    b.act(Steer("look at this first"))
    await running
    assert said(b).endswith("[It still runs; the wait ended early: the user has typed something.]")
    assert len(of(b.events, SteerDelivered)) == 1
    await b.agent.close()


async def test_what_is_meant_for_later_lets_the_wait_go_on() -> None:
    b = Backstage(START, Turn("", (call("wait", id="job-1", timeout=600),)), Turn("yes?"))
    running = asyncio.ensure_future(b.run())
    await b.until("tool.started", 2)
    b.act(FollowUp("and then"))
    await b.settled()
    assert len(of(b.events, ToolResultAdded)) == 1
    b.long.end()
    await running
    await b.agent.close()


async def test_esc_ends_a_wait_and_not_the_job() -> None:
    b = Backstage(START, Turn("", (call("wait", id="job-1", timeout=600),)))
    running = asyncio.ensure_future(b.run())
    await b.until("tool.started", 2)
    b.act(Stop())
    await running
    assert last(b).error == ErrorInfo(kind="cancelled", message="Cancelled")
    assert b.jobs.get("job-1").status == "running"
    b.long.end()
    await b.until("job.finished")
    await b.run("go on")
    assert len(b.notes()) == 1


async def test_a_stop_returns_when_nothing_runs_any_more_and_is_how_the_model_learns_of_it() -> (
    None
):
    b = Backstage(
        START, Turn("", (call("stop", id="job-1"), call("stop", id="job-1"))), Turn("good")
    )
    await b.run()
    first, second = (text_of(event.content) for event in of(b.events, ToolResultAdded)[1:])
    assert first.startswith("job-1 stopped")
    assert second.startswith("It had ended before.")
    assert b.long.stopped == ["a"]
    assert b.notes() == []


async def test_text_reaches_a_job_that_takes_it_and_no_other() -> None:
    b = Backstage(
        Turn("", (("chat", "{}"), long(background=True))),
        Turn("", (call("send", id="job-1", text="hi"), call("send", id="job-2", text="hi"))),
    )
    await b.run()
    sent, refused = (text_of(event.content) for event in of(b.events, ToolResultAdded)[2:])
    assert (sent, refused) == ("Sent to job-1.", "job-2 takes no input; nothing was sent.")
    await b.until("job.updated", 3)
    assert b.jobs.read("job-1", None, 1).lines == ("you said hi",)
    await b.agent.close()


async def test_waiting_again_is_no_repetition() -> None:
    wait = Turn("", (call("wait", id="job-1", timeout=0),))
    b = Backstage(START, *[wait] * 5)
    await b.run()
    assert all(event.executed for event in of(b.events, ToolResultAdded))
    await b.agent.close()


async def test_no_updates_of_a_job_are_those_of_its_call() -> None:
    b = Backstage(START)
    await b.run()
    await b.long.contexts["a"].on_update("more\n")
    assert of(b.events, ToolUpdated) == []
    await b.agent.close()


async def test_reading_and_stopping_need_no_question_in_plan_mode_but_talking_does_not_happen_there() -> (
    None
):
    b = Backstage()
    registry = ToolRegistry(job_tools(b.jobs))
    verdicts = {
        tool.name: Policy("plan")
        .check(tool.name, tool.approval_key(args), tool.permission, tool.effect)
        .permission
        for tool in registry
        for args in [
            tool.Args.model_construct(id="job-1", text="x", timeout=1, offset=None, lines=1)
        ]
    }
    assert verdicts == {
        "job_list": "auto",
        "job_wait": "auto",
        "job_read": "auto",
        "job_stop": "auto",
        "job_send": "deny",
    }


def test_what_the_model_sees_of_them_is_small() -> None:
    definitions = ToolRegistry(job_tools(Backstage().jobs)).definitions()
    size = sum(len(json.dumps([d.name, d.description, d.parameters])) for d in definitions)
    assert size < 1_300
