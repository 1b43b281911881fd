"""However jobs begin and end: every call has one result, every end is told once, also after a
crash."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.core.acts import Answer, Background, FollowUp, Prompt, Steer, Stop
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.events import (
    JobFinished,
    JobStarted,
    KnownEvent,
    MessageAdded,
    ToolCallAdded,
    ToolResultAdded,
)
from codeagent.core.messages import transcript_problems
from codeagent.core.notes import job_note, told_by
from codeagent.core.policy import Decision
from codeagent.session.fold import History, fold
from codeagent.session.recording import Recording
from codeagent.session.repair import check_recording, closing_events
from tests.agent.doubles import Turn, of
from tests.agent.job_doubles import Backstage, long
from tests.effort import times

KEYS = "abcdef"
call = st.one_of(
    st.builds(
        lambda key, background: long(key, background=background),
        st.sampled_from(KEYS),
        st.booleans(),
    ),
    st.builds(lambda number: ("job_stop", json.dumps({"id": f"job-{number}"})), st.integers(1, 4)),
    st.builds(
        lambda number, timeout: (
            "job_wait",
            json.dumps({"id": f"job-{number}", "timeout": timeout}),
        ),
        st.integers(1, 4),
        st.sampled_from([0, 0.001, 500]),
    ),
    st.just(("do", '{"what": "nap"}')),
)
turn = st.builds(
    Turn, text=st.sampled_from(["", "a word or two"]), calls=st.lists(call, max_size=3).map(tuple)
)
act = st.one_of(
    st.tuples(st.just("end"), st.sampled_from(KEYS)),
    st.tuples(st.just("fail"), st.sampled_from(KEYS)),
    st.tuples(
        st.sampled_from(["promote", "steer", "abort", "prompt", "rest", "follow_up"]), st.just("")
    ),
    st.tuples(st.just("stop"), st.sampled_from(["job-1", "job-2", "job-3"])),
)


async def do_act(b: Backstage, what: str, which: str) -> None:
    match what:
        case "end" | "fail":
            b.long.end(which, "well" if what == "end" else "badly")
        case "promote":
            b.agent.do(Background())
        case "steer":
            b.agent.do(Steer("look here"))
        case "follow_up":
            b.agent.do(FollowUp("then this"))
        case "abort":
            b.agent.do(Stop())
        case "prompt" if not b.agent.running:
            b.agent.do(Prompt("next"))
        case "stop":
            with contextlib.suppress(KeyError):
                await b.jobs.stop(which, "stopped by the user")
        case _:
            await asyncio.sleep(0.002)


async def play(
    turns: list[Turn],
    acts: list[tuple[str, str]],
    *,
    attended: bool,
    to_the_end: bool,
    partial_results: float | None,
) -> Backstage:
    b = Backstage(*turns, attended=attended, partial_results=partial_results)

    def say_yes(event: KnownEvent) -> None:
        if isinstance(event, ApprovalRequested):
            asyncio.get_running_loop().call_soon(
                b.agent.do, Answer(event.approval_id, Decision("once"))
            )

    b.agent.observe(say_yes)
    b.agent.do(Prompt("go"))
    async with asyncio.timeout(10):
        for what, which in acts:
            await do_act(b, what, which)
            await asyncio.sleep(0)
        if to_the_end:
            for key in KEYS:
                b.long.end(key)
            for kind in ("job.started", "run.started"):
                await b.until(kind.replace("started", "finished"), b.names().count(kind))
            await b.until("run.finished", b.names().count("run.started"))
        await b.agent.close()
    return b


def told(events: Sequence[KnownEvent]) -> Counter[str]:
    """How often the model was told of each end: by a note, or by the result that was there before
    one was."""
    counts: Counter[str] = Counter()
    ends: dict[str, JobFinished] = {}
    for event in events:
        match event:
            case JobFinished():
                ends[event.job_id] = event
            case MessageAdded():
                counts.update(
                    job_id for job_id, end in ends.items() if event.message == job_note(end)
                )
            case ToolResultAdded() if (job_id := told_by(event)) is not None and not counts[job_id]:
                counts[job_id] += 1
            case _:
                pass
    return counts


def assert_sound(events: Sequence[KnownEvent]) -> None:
    """Of a log that was closed, properly or after a crash."""
    started = [event.job_id for event in events if isinstance(event, JobStarted)]
    ends = [event for event in events if isinstance(event, JobFinished)]
    assert len(set(started)) == len(started)
    assert sorted(end.job_id for end in ends) == sorted(started)
    calls = {event.call_id for event in events if isinstance(event, ToolCallAdded)}
    assert Counter(
        event.call_id for event in events if isinstance(event, ToolResultAdded)
    ) == dict.fromkeys(calls, 1)
    history = fold(events)
    assert transcript_problems(history.messages) == []
    waiting = [end.job_id for end in ends if job_note(end) in history.notes]
    assert Counter(waiting) + told(events) == dict.fromkeys(started, 1)
    assert check_recording(Recording(tuple(events))).problems == ()


def resumed(events: Sequence[KnownEvent]) -> list[KnownEvent]:
    return [*events, *closing_events(events, "s1", events[-1].seq + 1 if events else 1, 2e9)]


@settings(max_examples=times(20), deadline=None)
@given(
    st.lists(turn, max_size=6),
    st.lists(act, max_size=25),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 0.0005]),
    st.floats(0, 1),
)
def test_every_end_is_told_once_and_every_call_answered_once_also_after_a_crash_anywhere(
    turns: list[Turn],
    acts: list[tuple[str, str]],
    attended: bool,
    to_the_end: bool,
    partial_results: float | None,
    crash: float,
) -> None:
    """`crash`: how much of the events is on disk then; how many there are depends on what was ready
    first."""
    played = play(
        turns, acts, attended=attended, to_the_end=to_the_end, partial_results=partial_results
    )
    b = asyncio.run(played)
    events = b.scene.journal.events
    assert_sound(events)
    assert_sound(resumed(events[: round(crash * len(events))]))


async def test_a_session_that_was_killed_says_lost_and_tells_it_once_when_it_goes_on() -> None:
    b = Backstage(Turn("", (long(background=True),)), Turn("started"))
    await b.run()
    b.jobs._runs["job-1"].output.flush()
    killed = list(b.scene.journal.events)
    history = fold(resumed(killed))
    restored = History(
        line=history.line, call_ids=history.call_ids, notes=history.notes, jobs=history.jobs
    )
    again = Backstage(Turn("I see"), Turn("", (long("b", background=True),)), restored=restored)
    again.scene.outputs.texts.update(b.scene.outputs.texts)
    job = again.jobs.get("job-1")
    assert (job.status, job.title) == ("lost", "a")
    assert again.jobs.read("job-1", None, 5).lines == ("a prints",)
    assert not again.jobs.send("job-1", "x")
    assert (await again.jobs.stop("job-1", "x")).status == "lost"
    assert (await again.jobs.wait("job-1", 100)).status == "lost"
    await again.run("go on")
    await again.run("once more")
    [note] = again.notes()
    assert note.startswith(
        "(job-1,\n> long a: lost, the process that ran it is gone; how it ended is unknown"
    )
    assert [job.id for job in again.jobs.jobs()] == ["job-1", "job-2"]
    await again.agent.close()
    await b.agent.close()


async def test_a_kill_between_the_end_of_a_job_and_its_note_loses_nothing() -> None:
    b = Backstage(Turn("", (long(background=True),)), Turn("", (long("b"),)), Turn("fine"))
    running = asyncio.ensure_future(b.run())
    await b.long.running("b")
    b.long.end("a")
    await b.until("job.finished")
    killed = list(b.scene.journal.events)
    assert len(fold(resumed(killed)).notes) == 1
    b.long.end("b")
    await running
    assert fold(resumed(b.scene.journal.events)).notes == ()
    assert len(of(b.events, JobFinished)) == 1
