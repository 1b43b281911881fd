"""A recorded session is played as if it happened now: everything in order, at a pace the user sets,
nothing is run."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.agent.jobs.store import Jobs
from codeagent.core.acts import Pause, Prompt, Resume, RunShell, SetMode, Step, Stop
from codeagent.core.events import BatchPlanned, KnownEvent, MessageAdded, Notice, TextDelta
from codeagent.core.notices import AgentStarted, RunPaused, RunResumed, StepModeChanged
from codeagent.extensions.replay.player import SessionPlayer, in_time
from tests.session.eventlogs import finished_run
from tests.tui.scripts import Recording

OWN = (RunPaused, RunResumed, StepModeChanged, TextDelta)


class Clock:
    """Waits at once, and adds up how long that would have been."""

    def __init__(self) -> None:
        self.waited = 0.0

    async def wait(self, woken: asyncio.Event, seconds: float) -> bool:
        if not woken.is_set():
            self.waited += seconds
        await asyncio.sleep(0)
        return woken.is_set()


def player(
    events: Sequence[KnownEvent],
    clock: Clock | None = None,
    speed: float = 1.0,
    *,
    step: bool = False,
) -> SessionPlayer:
    wait = (clock or Clock()).wait
    return SessionPlayer(
        "s", events, Jobs(), speed=speed, step=step, clock=lambda: 5000.0, wait=wait
    )


async def rest(stream: AsyncIterator[KnownEvent], play: SessionPlayer) -> list[KnownEvent]:
    """What is shown until the replay is over, or held."""
    shown: list[KnownEvent] = []
    async for event in stream:
        shown.append(event)
        if not play.running or isinstance(event, RunPaused):
            break
    return shown


def recorded(shown: Sequence[KnownEvent]) -> list[str]:
    """The kinds of what comes from the recording."""
    told = [event for event in shown if not isinstance(event, OWN)]
    return [
        event.type
        for event in told
        if not (isinstance(event, Notice) and event.code == "session.replayed")
    ]


def work() -> list[KnownEvent]:
    """A run with two batches."""
    recording = Recording().run("fix it")
    for number in ("c1", "c2"):
        recording.answer(f"Let me see {number}.").plan((number, "bash", "make", "auto")).start(
            number, "bash", "make"
        )
        recording.result(number, "bash", "done").end_batch(executed=1)
    return list(recording.answer("It is fixed.").events)


async def test_every_recorded_event_is_shown_once_in_order_with_the_time_of_now() -> None:
    events = finished_run()
    play = player(events)
    shown = await rest(play.events(), play)
    assert recorded(shown) == [event.type for event in events]
    assert [event.seq for event in shown] == list(range(1, len(shown) + 1))
    assert {event.ts for event in shown} == {5000.0}


async def test_all_at_once_it_takes_no_time_and_an_answer_comes_whole() -> None:
    clock = Clock()
    play = SessionPlayer(
        "s", work(), Jobs(), speed=inf, tell=False, clock=lambda: 5000.0, wait=clock.wait
    )
    assert not play.begun and play.seconds == 0.0
    shown = await rest(play.events(), play)
    assert [event.type for event in shown] == [
        event.type for event in work()
    ] and clock.waited == 0.0


async def test_it_is_played_once_the_last_event_was_taken() -> None:
    play = player(work())
    reading = asyncio.create_task(anext(play.events()))
    await reading
    ending = asyncio.create_task(play.played())
    stream = play.events()
    shown = await rest(stream, play)
    await asyncio.sleep(0)
    assert play.begun and not ending.done() and shown
    more = asyncio.create_task(anext(stream, None))
    await ending
    await play.close()
    assert await more is None


async def test_faster_an_answer_comes_in_larger_pieces() -> None:
    events = Recording().run("fix it").answer("word " * 100).events
    pieces = [
        sum(isinstance(event, TextDelta) for event in await rest(play.events(), play))
        for play in (player(events), player(events, speed=4), player(events, speed=1000))
    ]
    assert pieces == [21, 6, 1]


async def test_how_long_it_takes_is_known_before() -> None:
    clock = Clock()
    play = player(work(), clock, speed=4)
    expected = play.seconds
    await rest(play.events(), play)
    assert clock.waited == pytest.approx(expected) and expected > 0


async def test_an_answer_is_written_letter_by_letter_before_it_is_there() -> None:
    play = player(work())
    shown = await rest(play.events(), play)
    pieces, answers = "", []
    for event in shown:
        if isinstance(event, TextDelta):
            pieces += event.text
        elif isinstance(event, MessageAdded) and event.message.role == "assistant":
            answers.append((pieces, event.message.text))
            pieces = ""
    assert answers == [
        (text, text) for text in ("Let me see c1.", "Let me see c2.", "It is fixed.")
    ]


@given(speed=st.floats(0.01, 1000))
def test_a_replay_is_as_many_times_as_fast_as_it_is_told(speed: float) -> None:
    async def waited(speed: float) -> float:
        clock = Clock()
        play = player(work(), clock, speed)
        await rest(play.events(), play)
        return clock.waited

    assert asyncio.run(waited(speed)) == pytest.approx(asyncio.run(waited(1.0)) / speed)


async def test_a_long_wait_of_the_recording_is_cut_short() -> None:
    events = finished_run()
    clock = Clock()
    play = player(events, clock)
    await rest(play.events(), play)
    assert clock.waited <= 2.5 * len(events)


async def test_step_pauses_at_every_batch_with_its_calls_and_resume_continues() -> None:
    play = player(work(), step=True)
    stream = play.events()
    for call in ("c1", "c2"):
        *before, held = await rest(stream, play)
        assert isinstance(held, RunPaused) and (held.why, held.calls) == ("step", (call,))
        assert isinstance(before[-1], BatchPlanned)
        assert play.do(Resume()) is None
    shown = await rest(stream, play)
    assert recorded(shown)[-1] == "message.added" and not play.running


async def test_a_pause_holds_at_once_and_stop_shows_the_rest_without_waiting() -> None:
    clock = Clock()
    play = player(work(), clock)
    stream = play.events()
    await anext(stream)
    assert play.do(Pause()) is None
    assert play.do(Pause()) is None
    held = await rest(stream, play)
    assert [type(event) for event in held] == [RunPaused]
    waited = clock.waited
    assert play.do(Stop()) is None
    shown = await rest(stream, play)
    assert clock.waited == waited
    assert recorded([*held, *shown]) == [event.type for event in work()]


@pytest.mark.parametrize("act", [Prompt("go"), RunShell("ls", True), SetMode("auto")])
async def test_what_would_run_or_change_something_is_refused(
    act: Prompt | RunShell | SetMode,
) -> None:
    play = player(work())
    refused = play.do(act)
    assert refused is not None and "replay" in refused.reason
    await rest(play.events(), play)
    assert play.do(act) is not None


async def test_step_can_be_switched_on_and_off_on_the_way() -> None:
    play = player(work())
    play.do(Step(True))
    stream = play.events()
    await rest(stream, play)
    play.do(Step(False))
    play.do(Resume())
    shown = await rest(stream, play)
    assert not any(isinstance(event, RunPaused) for event in shown) and not play.running


def parallel() -> list[KnownEvent]:
    """A parent and two children at work side by side, as their logs are read: each child in one
    piece."""
    parent = Recording().run("go")

    def by(agent: str, *moments: float) -> list[KnownEvent]:
        return [
            replace(event, agent=agent, ts=at)
            for event, at in zip(Recording().run("x").events, moments, strict=True)
        ]

    end = Recording().answer("done").events[0]
    return [
        *(replace(event, ts=1.0) for event in parent.events),
        *by("one.1", 2.0, 5.0, 6.0),
        *by("two.2", 3.0, 4.0, 2.5),
        replace(end, ts=9.0),
    ]


def test_children_are_played_side_by_side_as_they_worked() -> None:
    ordered = in_time(parallel())
    assert [event.agent for event in ordered[3:]] == [
        "one.1",
        "two.2",
        "two.2",
        "two.2",
        "one.1",
        "one.1",
        "main",
    ]
    times = [event.ts for event in ordered if event.agent == "two.2"]
    assert times == [3.0, 4.0, 2.5], "a clock that was set back does not change the order"


def test_the_session_of_a_child_alone_is_played_like_any_other() -> None:
    started = AgentStarted(
        text="", call_id="c1", child="one.1", child_session="s.1", parent_session="s"
    )
    events = [replace(event, agent="one.1") for event in (started, *Recording().run("look").events)]
    assert {event.agent for event in in_time(events)} == {"main"}
    assert len(in_time(events)) == len(events) - 1


async def test_stepping_pauses_before_the_batches_of_children_in_their_name() -> None:
    play = player([replace(event, agent="one.1") for event in work()], step=True)
    stream = play.events()
    shown = await rest(stream, play)
    held = shown[-1]
    assert isinstance(held, RunPaused) and (held.agent, held.batch, held.calls) == (
        "one.1",
        1,
        ("c1",),
    )
    play.do(Resume())
    assert (await anext(aiter(stream))).agent == "one.1"
