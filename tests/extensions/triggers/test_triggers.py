"""Triggers: they fire only between turns, survive a restart, are bounded, and are stopped by agent
and user."""

import asyncio
import threading
from datetime import datetime

import pytest

from codeagent.core.acts import Refused, Stop, StopTrigger
from codeagent.core.events import KnownEvent, MessageAdded, ToolResultAdded
from codeagent.core.jobs import TriggerStopped
from codeagent.core.messages import UserMessage, text_of
from codeagent.core.policy import Policy
from codeagent.core.tool import Failed
from codeagent.extensions.triggers.tools import AddTimer
from codeagent.extensions.triggers.triggers import MOST_TRIGGERS, SHORTEST, Clock, next_time
from codeagent.session.fold import fold
from tests.agent.doubles import Turn, of
from tests.agent.job_doubles import long
from tests.extensions.triggers.trigger_doubles import START, ManualClock, Waiting, call
from tests.table import for_each

TIMER = call("add_timer", prompt="look at the build", seconds=60, repeat=True, max_count=5)


def result(waiting: Waiting) -> str:
    return text_of(of(waiting.events, ToolResultAdded)[-1].content)


async def test_a_timer_fires_twice_while_the_agent_rests_and_begins_a_run_each_time() -> None:
    w = Waiting(Turn("", (TIMER,)), Turn("set"), Turn("looked"), Turn("looked again"))
    await w.run()
    assert "trigger-1, timer every 60 s, fired 0 of 5" in text_of(
        of(w.events, ToolResultAdded)[0].content
    )
    for count in (1, 2):
        w.clock.move(60)
        await w.until("trigger.fired", count)
        await w.until("run.finished", count + 1)
    assert w.notes() == [
        f"(trigger-1 fired, {count} of 5:\n> timer every 60 s.\nYou asked to be told then:\n> look at the build\n)"
        for count in (1, 2)
    ]
    said = [event.message for event in w.events if isinstance(event, MessageAdded)]
    assert [m.source for m in said if isinstance(m, UserMessage)] == ["prompt", "note", "note"]
    await w.agent.close()


async def test_a_trigger_never_fires_inside_a_turn_and_fires_when_the_agent_would_stop() -> None:
    w = Waiting(Turn("", (TIMER,)), Turn("", (long(),)), Turn("done"), Turn("looked"))
    running = asyncio.create_task(w.run())
    await w.long.running()
    w.clock.move(200)
    await w.settled()
    assert w.fired() == []
    w.long.end()
    await running
    names = w.names()
    assert names.count("run.started") == 1
    at = names.index("trigger.fired")
    assert (names[at - 1], names[at + 1 : at + 3]) == (
        "turn.finished",
        ["message.added", "turn.started"],
    )
    assert len(w.fired()) == 1
    await w.agent.close()


async def test_what_became_due_while_the_session_was_closed_fires_once() -> None:
    first = Waiting(Turn("", (TIMER,)), Turn("set"))
    await first.run()
    await first.agent.close()
    later = Waiting(
        Turn("looked"), Turn("again"), clock=ManualClock(START + 500), past=first.events
    )
    await later.begun()
    await later.until("run.finished")
    assert [event.trigger.fired for event in later.fired()] == [1]
    assert later.fired()[0].what.startswith("it was due at ")
    assert later.triggers.triggers()[0].due == START + 540
    later.clock.move(39)
    await later.settled()
    assert len(later.fired()) == 1
    later.clock.move(1)
    await later.until("run.finished", 2)
    await later.agent.close()
    assert fold([*first.events, *later.events]).triggers[0].fired == 2


async def test_a_note_that_was_not_delivered_is_delivered_after_a_restart() -> None:
    w = Waiting(Turn("", (TIMER,)), Turn("set"))
    await w.run()
    w.clock.move(60)
    await w.until("trigger.fired")
    await w.until("run.finished", 2)
    until_fired = w.events[: w.events.index(w.fired()[0]) + 1]
    await w.agent.close()
    assert [text_of(note.content) for note in fold(until_fired).notes] == w.notes()
    assert fold(w.events).notes == ()


async def test_it_fires_as_often_as_it_may_and_then_is_gone() -> None:
    w = Waiting(
        Turn("", (call("add_timer", prompt="p", seconds=20, repeat=True, max_count=2),)),
        Turn("set"),
    )
    await w.run()
    for count in (1, 2):
        w.clock.move(20)
        await w.until("run.finished", count + 1)
    assert [(event.trigger.fired, event.trigger.over) for event in w.fired()] == [
        (1, False),
        (2, True),
    ]
    assert w.triggers.triggers() == ()
    assert ", the last time:\n> timer" in w.notes()[-1]
    await w.agent.close()


async def test_a_timer_without_repeat_fires_once() -> None:
    w = Waiting(Turn("", (call("add_timer", prompt="p", seconds=1),)), Turn("set"))
    await w.run()
    w.clock.move(1)
    await w.until("run.finished", 2)
    assert (len(w.fired()), w.triggers.triggers()) == (1, ())
    await w.agent.close()


async def test_the_agent_lists_and_stops_them() -> None:
    w = Waiting(
        Turn("", (TIMER,)),
        Turn("", (call("trigger_list"), call("trigger_stop", id="trigger-9"))),
        Turn("", (call("trigger_stop", id="trigger-1"),)),
        Turn("ok"),
    )
    await w.run()
    texts = [text_of(event.content) for event in of(w.events, ToolResultAdded)]
    assert "in 60 s: look at the build" in texts[1]
    assert texts[2] == "unknown trigger 'trigger-9'; there are: trigger-1"
    assert texts[3] == "trigger-1 was stopped; it fired 0 times."
    w.clock.move(600)
    await w.settled()
    assert w.fired() == []
    assert fold(w.events).triggers[0].over
    await w.agent.close()


async def test_the_user_stops_one_by_an_act() -> None:
    w = Waiting(Turn("", (TIMER,)), Turn("set"))
    await w.run()
    assert await w.agent.finish(StopTrigger("trigger-1")) is None
    refused = await w.agent.finish(StopTrigger("trigger-1"))
    assert refused is not None
    assert refused.reason == "trigger-1 is no longer set; nothing was stopped"
    assert [event.by for event in of(w.events, TriggerStopped)] == ["user"]
    await w.agent.close()


async def test_a_run_that_was_stopped_is_not_begun_again_by_what_it_was_told() -> None:
    w = Waiting(Turn("", (TIMER,)), Turn("set"), Turn("", (long(),)), Turn("well"))
    await w.run()
    w.clock.move(60)
    await w.until("trigger.fired")
    await w.long.running()
    w.act(Stop())
    await w.until("run.finished", 2)
    await w.settled()
    assert w.names().count("run.started") == 2
    await w.agent.close()


@for_each(
    ("arguments", "why"),
    [
        ({"seconds": 3, "repeat": True}, f"a trigger fires at most every {SHORTEST:g} s"),
        ({}, "give either seconds or at"),
        ({"seconds": 3, "at": "2030-01-01T00:00"}, "give either seconds or at"),
        ({"at": "2020-01-01T00:00"}, "2020-01-01T00:00 has passed"),
        ({"at": "2099-01-01T00:00"}, "more than 366 days away"),
        ({"at": "tomorrow"}, "Invalid isoformat string"),
        ({"at": "2030-03-18T00:00", "repeat": True}, "a timer that repeats needs seconds"),
        ({"seconds": 30, "repeat": True, "max_count": 5000}, "less than or equal to 1000"),
    ],
)
async def test_a_timer_is_bounded_and_must_make_sense(
    arguments: dict[str, object], why: str
) -> None:
    w = Waiting(Turn("", (call("add_timer", prompt="p", **arguments),)), Turn("so"))
    await w.run()
    assert why in result(w)
    assert w.triggers.triggers() == ()
    await w.agent.close()


async def test_there_are_only_so_many() -> None:
    w = Waiting(Turn("", tuple([TIMER] * (MOST_TRIGGERS + 1))), Turn("so"))
    await w.run()
    assert len(w.triggers.triggers()) == MOST_TRIGGERS
    assert "20 triggers are set already" in result(w)
    await w.agent.close()


@pytest.mark.parametrize(
    ("words", "after", "due"),
    [
        ("0 9 * * 1-5", "2026-01-02T10:00", "2026-01-05T09:00"),
        ("*/15 * * * *", "2026-01-02T10:07", "2026-01-02T10:15"),
        ("30 8 1 2 *", "2026-02-01T08:30", "2027-02-01T08:30"),
    ],
)
def test_a_schedule_has_the_words_of_cron_in_local_time(words: str, after: str, due: str) -> None:
    assert (
        next_time(words, datetime.fromisoformat(after).timestamp())
        == datetime.fromisoformat(due).timestamp()
    )


@for_each("words", ["* * * * * *", "61 * * * *", "x", "0 0 31 2 *"])
def test_what_is_no_schedule_is_refused(words: str) -> None:
    with pytest.raises(Failed, match="schedule"):
        next_time(words, START)


async def test_a_schedule_fires_and_is_set_again() -> None:
    w = Waiting(Turn("", (call("add_schedule", prompt="p", cron="* * * * *"),)), Turn("set"))
    await w.run()
    first = w.triggers.triggers()[0].due
    w.clock.move(60)
    await w.until("run.finished", 2)
    assert first is not None
    assert w.triggers.triggers()[0].due == first + 60
    await w.agent.close()


async def test_one_whose_note_was_not_read_does_not_fire_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    w = Waiting(Turn("", (TIMER,)), Turn("set"), Turn("looked"))
    await w.run()
    monkeypatch.setattr(w.triggers, "_wake", lambda: None)
    w.clock.move(60)
    await w.until("trigger.fired")
    for _ in range(3):
        w.clock.move(60)
        await w.settled()
    assert [event.trigger.fired for event in w.fired()] == [1]
    assert w.triggers.triggers()[0].due == START + 300
    await w.run("what is new?")
    assert len(w.notes()) == 1
    await w.agent.close()


class SlowLook:
    """Looks at files for as long as the test wants, and then has `found` a change."""

    def __init__(self) -> None:
        self.found = False
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.may_end.set()

    def begin(self, pattern: str) -> str:
        return "before"

    def changed(self, pattern: str, mark: str) -> tuple[str, str] | None:
        self.begun.set()
        self.may_end.wait(10)
        return ("changed: a.py", "after") if self.found and mark == "before" else None


async def test_a_look_that_outlasts_the_start_of_a_run_fires_only_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look = SlowLook()
    monkeypatch.setattr("codeagent.extensions.triggers.watching.FileWatch", lambda workspace: look)
    watch = call("watch_file", prompt="p", glob="*.py")
    w = Waiting(Turn("", (watch,)), Turn("set"), Turn("", (long(),)), Turn("well"), Turn("looked"))
    await w.run()
    look.found = True
    look.may_end.clear()
    look.begun.clear()
    w.clock.move(10)
    await asyncio.to_thread(look.begun.wait, 10)
    running = asyncio.create_task(w.run("work"))
    await w.long.running()
    look.may_end.set()
    await w.settled()
    assert w.fired() == []
    w.long.end()
    await running
    assert [event.what for event in w.fired()] == ["changed: a.py"]
    await w.agent.close()


async def test_without_a_user_a_run_waits_for_no_trigger() -> None:
    w = Waiting(Turn("", (TIMER,)), Turn("set"), attended=False)
    await w.run()
    assert w.fired() == []
    w.clock.move(1000)
    await w.settled()
    assert w.fired() == []
    await w.agent.close()


async def test_without_a_user_a_run_waits_for_triggers_if_it_is_told_to() -> None:
    timer = call("add_timer", prompt="p", seconds=20, repeat=True, max_count=2)
    w = Waiting(
        Turn("", (timer,)), Turn("set"), Turn("one"), Turn("two"), attended=False, awaited=True
    )
    await w.begun()

    def moved(event: KnownEvent) -> None:
        if event.type == "turn.finished":
            w.clock.move(20)

    events = await w.scene.run("go", moved)
    assert len(w.fired()) == 2
    assert events[-1].type == "run.finished"
    assert w.names().count("run.started") == 1
    await w.agent.close()


JUMPS = [days * 86_400.0 for days in (-1, 1, -3650, 3650)]


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_timer_keeps_its_interval_while_the_clock_is_set(jump: float) -> None:
    w = Waiting(Turn("", (TIMER,)), Turn("set"), Turn("looked"))
    await w.run()
    w.clock.move(20)
    w.clock.set(jump)
    w.clock.move(39)
    await w.settled()
    assert w.fired() == []
    w.clock.move(1)
    await w.until("run.finished", 2)
    assert [event.what for event in w.fired()] == [""]
    assert w.triggers.triggers()[0].due == w.clock.now() + 60
    await w.agent.close()


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_schedule_means_the_time_that_the_clock_shows(jump: float) -> None:
    """Set forward, it has missed a time, which it makes up for once."""
    schedule = call("add_schedule", prompt="p", cron="0 9 * * *", max_count=5)
    w = Waiting(Turn("", (schedule,)), Turn("set"), Turn("looked"))
    await w.run()
    w.clock.set(jump)
    w.triggers.look()
    await w.settled()
    due = w.triggers.triggers()[0].due
    assert due is not None and 0 < due - w.clock.now() <= 86_400
    assert len(w.fired()) == (jump > 0)
    await w.agent.close()


def test_setting_one_asks_by_default_and_changes_nothing() -> None:
    tool = AddTimer(Waiting().triggers)
    key = tool.approval_key(tool.Args(prompt="p", seconds=60.0, repeat=True))
    assert key.parts == ("every 60 s, at most 10 times",)
    assert Policy("ask").check(tool.name, key, tool.permission, tool.effect).permission == "prompt"
    assert (
        Policy("accept-edits").check(tool.name, key, tool.permission, tool.effect).permission
        == "prompt"
    )


async def test_the_real_clock_waits_for_the_event_or_the_time() -> None:
    event = asyncio.Event()
    await Clock().wait(0.0, event)
    event.set()
    await Clock().wait(1000.0, event)


async def test_stopping_one_that_is_not_set_is_refused() -> None:
    w = Waiting()
    why = "trigger-1 is no longer set; nothing was stopped"
    assert w.agent.do(StopTrigger("trigger-1")) == Refused(why)
