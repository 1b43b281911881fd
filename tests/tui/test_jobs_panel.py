"""/jobs, Ctrl+T and Ctrl+B: reading along, stopping, sending text, and moving a call to the
background."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from codeagent.core.acts import Background, SendToJob, StopJob, StopTrigger
from codeagent.core.jobs import Trigger, TriggerAdded
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.info import OutputScreen
from codeagent.tui.pages.jobs import JobList, JobsScreen
from codeagent.tui.pages.picker import Picker
from codeagent.tui.parts.output import JobTail
from codeagent.tui.reduce import Reducer
from tests.tui.job_scenes import background, every_state, promoted, takes_long, two_take_long
from tests.tui.replay import ReplayApp, enter, settled, until
from tests.tui.scripts import Recording


@asynccontextmanager
async def chat(
    folder: Path, recording: Recording, *, keys_file: str = "", **status: Any
) -> AsyncIterator[tuple[Pilot[None], ReplayApp]]:
    if keys_file:
        (folder / "config").mkdir()
        (folder / "config/keys.yaml").write_text(keys_file)
    app = ReplayApp(recording.events, folder, now=recording.now, **status)
    async with app.run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        yield pilot, app
    assert app.crash is None


@asynccontextmanager
async def panel(
    folder: Path, recording: Recording | None = None
) -> AsyncIterator[tuple[Pilot[None], ReplayApp]]:
    async with chat(folder, recording or every_state()) as (pilot, app):
        await pilot.press("ctrl+t")
        await until(pilot, lambda: isinstance(app.screen, JobsScreen))
        yield pilot, app


async def write(pilot: Pilot[None], text: str, *keys: str) -> None:
    named = {" ": "space", "/": "slash", "-": "minus"}
    await pilot.press(*(named.get(letter, letter) for letter in text), *keys)


def shown(app: ReplayApp) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def marked(app: ReplayApp) -> str:
    row = app.screen.query_one(JobList).marked
    return "" if row is None else row.id


async def test_a_key_that_opens_the_panel_takes_back_that_there_is_no_job(tmp_path: Path) -> None:
    async with chat(tmp_path, Recording()) as (pilot, app):
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "no jobs yet" in app.chat.state.status.now.screen.notice)
        goes_on(app, background(), 0)
        await pilot.press("ctrl+t")
        await until(pilot, lambda: isinstance(app.screen, JobsScreen))
        assert app.chat.state.status.now.screen.notice == ""


def goes_on(app: ReplayApp, recording: Recording, since: int) -> None:
    """Show what was recorded after the first `since` events."""
    reducer = Reducer(app.chat.state, live=True)
    for event in recording.events[since:]:
        reducer.apply(event)


async def test_the_panel_names_every_state_and_begins_at_the_newest_job_that_runs(
    tmp_path: Path,
) -> None:
    async with panel(tmp_path) as (pilot, app):
        assert [
            word
            for word in ("running", "done", "failed", "stopped", "lost")
            if word not in shown(app)
        ] == []
        assert marked(app) == "job-6"
        await pilot.press("down", "k", "k", "k")
        assert marked(app) == "job-3"
        await until(pilot, lambda: "1 failed, 310 passed" in shown(app))
        assert "… 1,202 lines more: o shows everything" in shown(app)


async def test_the_panel_closes_and_the_focus_is_where_it_was(tmp_path: Path) -> None:
    async with chat(tmp_path, every_state()) as (pilot, app):
        for key in ("escape", "q", "ctrl+t"):
            await pilot.press("ctrl+t")
            await until(pilot, lambda: isinstance(app.screen, JobsScreen), key)
            await pilot.press(key)
            await until(pilot, lambda: isinstance(app.screen, ChatScreen), key)
            assert app.chat.focused is app.chat.composer, key


async def test_what_is_printed_meanwhile_shows_as_it_comes(tmp_path: Path) -> None:
    recording = background()
    count = len(recording.events)
    async with panel(tmp_path, recording) as (pilot, app):
        recording.job_output("job-1", "GET /today 200\n")
        goes_on(app, recording, count)
        await until(pilot, lambda: "GET /today 200" in shown(app))


async def test_who_scrolled_away_from_the_end_stays_on_the_lines_they_read(tmp_path: Path) -> None:
    recording = background().job_output(
        "job-1", "".join(f"line {number}\n" for number in range(2_000))
    )
    count = len(recording.events)
    async with panel(tmp_path, recording) as (pilot, app):
        tail = app.screen.query_one(JobTail)
        await until(pilot, lambda: "line 1999" in shown(app))
        assert tail.following
        await pilot.press("pageup", "pageup")
        await until(pilot, lambda: "line 1999" not in shown(app))
        top = tail.text.plain(tail.scroll_offset.y)
        recording.job_output("job-1", "".join(f"more {number}\n" for number in range(50)))
        goes_on(app, recording, count)
        await until(pilot, lambda: tail.text.plain(len(tail.text) - 1) == "more 49")
        await until(pilot, lambda: tail.text.plain(tail.scroll_offset.y) == top)
        await pilot.press("end")
        await until(pilot, lambda: "more 49" in shown(app))
        assert tail.following


async def test_s_asks_once_and_s_or_y_stops_the_job(tmp_path: Path) -> None:
    async with panel(tmp_path) as (pilot, app):
        for key in ("s", "y"):
            app.forget()
            await pilot.press("s")
            assert app.told == [] and "stop job-6?" in shown(app), key
            await pilot.press(key)
            await until(pilot, lambda: bool(app.told), key)
            assert app.told == [StopJob("job-6")], key


async def test_a_trigger_is_listed_among_the_jobs_and_stopped_there_or_by_a_command(
    tmp_path: Path,
) -> None:
    trigger = Trigger(
        id="trigger-1",
        kind="timer",
        when="every 60 s",
        prompt="look",
        at_most=9,
        every=60.0,
        due=2e9,
    )
    recording = Recording()
    recording.add(TriggerAdded, trigger=trigger)
    async with panel(tmp_path, recording) as (pilot, app):
        assert "waiting" in shown(app) and "timer every 60 s: look" in shown(app)
        await pilot.press("s", "y")
        await until(pilot, lambda: app.told == [StopTrigger("trigger-1")])
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ChatScreen))
        app.forget()
        await enter(pilot, "/stop trigger-1")
        await until(pilot, lambda: app.told == [StopTrigger("trigger-1")])


async def test_y_answers_the_question_and_nothing_else(tmp_path: Path) -> None:
    async with panel(tmp_path) as (pilot, app):
        await pilot.press("y", "s", "up", "y")
        assert app.told == []


async def test_the_second_s_counts_only_for_two_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with panel(tmp_path) as (pilot, app):
        await pilot.press("s")
        monkeypatch.setattr("codeagent.tui.pages.jobs.AGAIN", 0.0)
        await pilot.press("s")
        assert app.told == [] and "stop job-6?" in shown(app)


async def test_a_job_that_ended_is_not_stopped(tmp_path: Path) -> None:
    async with panel(tmp_path) as (pilot, app):
        await pilot.press("up", "s", "s")
        assert app.told == [] and "job-5 is no longer running" in shown(app)


async def test_text_goes_to_a_job_that_takes_it_line_after_line(tmp_path: Path) -> None:
    async with panel(tmp_path) as (pilot, app):
        await pilot.press("i")
        await write(pilot, "sq 19", "enter")
        await write(pilot, "q", "enter", "escape")
        assert app.told == [SendToJob("job-6", "sq 19"), SendToJob("job-6", "q")]
        assert isinstance(app.screen, JobsScreen)


async def test_text_that_is_not_taken_stays_in_its_line(tmp_path: Path) -> None:
    async with panel(tmp_path) as (pilot, app):
        app.clients[-1].refusal = "job-6 does not accept text; it was not sent"
        await pilot.press("i")
        await write(pilot, "hello", "enter")
        assert "job-6 does not accept text; it was not sent" in shown(app) and "hello" in shown(app)


async def test_a_job_that_takes_no_text_says_so(tmp_path: Path) -> None:
    async with panel(tmp_path, background()) as (pilot, app):
        await pilot.press("i")
        assert "job-1 does not accept text" in shown(app)


async def test_the_whole_output_opens_on_a_page(tmp_path: Path) -> None:
    async with panel(tmp_path) as (pilot, app):
        for key in ("enter", "o"):
            await pilot.press(key)
            await until(pilot, lambda: isinstance(app.screen, OutputScreen), key)
            await until(pilot, lambda: "job-6 line 1" in shown(app), key)
            await pilot.press("escape")
            await until(pilot, lambda: isinstance(app.screen, JobsScreen), key)


async def test_what_cannot_be_done_is_told_in_the_panel(tmp_path: Path) -> None:
    async with panel(tmp_path) as (pilot, app):
        app.clients[-1].refusal = "job-6 is not a job of this session"
        await pilot.press("s", "y")
        await until(pilot, lambda: "job-6 is not a job of this session" in shown(app))


async def test_a_question_that_waits_for_the_user_shows_in_the_panel(tmp_path: Path) -> None:
    recording = background()
    count = len(recording.events)
    async with panel(tmp_path, recording) as (pilot, app):
        goes_on(app, recording.ask("c5", "bash", "rm -rf build"), count)
        await until(pilot, lambda: "approval needed: Esc to return" in shown(app))


async def test_no_timer_runs_once_no_job_does(tmp_path: Path) -> None:
    recording = background()
    count = len(recording.events)
    async with panel(tmp_path, recording) as (pilot, app):
        screen = app.screen
        assert isinstance(screen, JobsScreen) and screen.ticking
        goes_on(app, recording.end_job("job-1", "c4", "npm run dev", "stopped"), count)
        await until(pilot, lambda: not screen.ticking)


async def test_with_no_job_the_line_says_what_would_make_one(tmp_path: Path) -> None:
    async with chat(tmp_path, takes_long()) as (pilot, app):
        await pilot.press("ctrl+t")
        await until(
            pilot, lambda: "no jobs yet; Ctrl+B moves" in app.chat.state.status.now.screen.notice
        )


async def test_ctrl_b_moves_the_one_call_that_is_waited_for_although_something_is_written(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path, takes_long()) as (pilot, app):
        app.chat.composer.set_text("half a thought")
        await pilot.press("ctrl+b")
        await until(pilot, lambda: app.told == [Background("c4")])
        assert app.chat.composer.text == "half a thought"
        assert app.chat.composer.cursor_location == (0, len("half a thought"))


async def test_of_two_calls_the_user_chooses_and_the_longest_comes_first(tmp_path: Path) -> None:
    async with chat(tmp_path, two_take_long()) as (pilot, app):
        await pilot.press("ctrl+b")
        await until(pilot, lambda: isinstance(app.screen, Picker))
        assert app.told == []
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.told == [Background("c5")])


async def test_a_number_says_which_call_goes_to_the_background(tmp_path: Path) -> None:
    async with chat(tmp_path, two_take_long()) as (pilot, app):
        await enter(pilot, "/background 2")
        await until(pilot, lambda: app.told == [Background("c5")])
        await enter(pilot, "/bg 7")
        await until(
            pilot, lambda: "unknown call '7': 2 running" in app.chat.state.status.now.screen.notice
        )


async def test_a_call_that_ended_meanwhile_is_not_moved_and_that_is_said(tmp_path: Path) -> None:
    async with chat(tmp_path, takes_long()) as (pilot, app):
        app.clients[
            -1
        ].refusal = "it cannot be moved, or has just ended: nothing was moved to the background"
        await pilot.press("ctrl+b")
        await until(pilot, lambda: "nothing was moved" in app.chat.state.status.now.screen.notice)
    (tmp_path / "second").mkdir()
    async with chat(tmp_path / "second", promoted()) as (pilot, app):
        await pilot.press("ctrl+b")
        await until(
            pilot, lambda: "no call of the agent" in app.chat.state.status.now.screen.notice
        )


async def test_the_offer_names_the_key_in_force(tmp_path: Path) -> None:
    async with chat(tmp_path, takes_long(), keys_file="chat.background: f8\n") as (pilot, app):
        assert "60 s · f8 moves it to the background" in shown(app)
        await pilot.press("f8")
        await until(pilot, lambda: app.told == [Background("c4")])


async def test_what_keys_do_in_the_panel_commands_do_as_well(tmp_path: Path) -> None:
    async with chat(tmp_path, every_state()) as (pilot, app):
        for line, told in (
            ("/stop job-6", StopJob("job-6")),
            ("/stop 6", StopJob("job-6")),
            ("/jobs 6 send q 1", SendToJob("job-6", "q 1")),
        ):
            app.forget()
            await enter(pilot, line)
            await until(pilot, lambda: bool(app.told), line)
            assert app.told == [told], line


async def test_a_command_opens_the_panel_at_a_job_or_its_whole_output(tmp_path: Path) -> None:
    async with chat(tmp_path, every_state()) as (pilot, app):
        await enter(pilot, "/ps job-2")
        await until(pilot, lambda: isinstance(app.screen, JobsScreen))
        assert marked(app) == "job-2"
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ChatScreen))
        await enter(pilot, "/jobs 2 output")
        await until(pilot, lambda: isinstance(app.screen, OutputScreen))


async def test_a_command_that_means_no_job_says_which_there_are(tmp_path: Path) -> None:
    async with chat(tmp_path, every_state()) as (pilot, app):
        for line, said in (
            ("/stop 9", "no job '9': there are job-1, job-2, job-3, job-4, job-5, job-6"),
            ("/stop 2", "job-2 is no longer running: done"),
            ("/jobs 2 now", "/jobs takes a job, and then output or send TEXT, not 'now'"),
        ):
            app.chat.tell("")
            await enter(pilot, line)
            await until(pilot, lambda: bool(app.chat.state.status.now.screen.notice), line)
            assert (app.chat.state.status.now.screen.notice, app.told) == (said, []), line


async def test_keys_are_taken_while_a_job_prints_a_hundred_thousand_lines(tmp_path: Path) -> None:
    recording = background()
    count = len(recording.events)
    for start in range(0, 100_000, 500):
        recording.job_output(
            "job-1", "".join(f"line {number}\n" for number in range(start, start + 500))
        )
    async with chat(tmp_path, recording=Recording()) as (pilot, app):
        reducer = Reducer(app.chat.state, live=True)
        for number, event in enumerate(recording.events):
            reducer.apply(event)
            if number >= count and number % 20 == 0:
                await pilot.press("x")
        assert app.chat.composer.text == "x" * sum(
            n % 20 == 0 for n in range(count, len(recording.events))
        )
        assert len(app.chat.state.jobs.output("job-1")) <= 601
        await pilot.press("ctrl+t")
        await until(
            pilot, lambda: isinstance(app.screen, JobsScreen) and "line 99999" in shown(app)
        )


async def test_text_of_a_job_is_drawn_and_never_obeyed(tmp_path: Path) -> None:
    recording = (
        Recording()
        .run("x")
        .plan(("c1", "bash", "[b]\x1b[2J", "auto"))
        .start("c1", "bash", "[b]\x1b[2J")
    )
    recording.job("job-1", "c1", "[b]\x1b[2J").job_output(
        "job-1", "[red]\x1b]52;c;AAAA\x07\x1b[2Jprinted\n"
    )
    async with panel(tmp_path, recording) as (pilot, app):
        await until(pilot, lambda: "[red]printed" in shown(app))
        assert "\x1b" not in shown(app) and "[b]" in shown(app)


async def test_lines_that_went_by_too_fast_are_counted(tmp_path: Path) -> None:
    async with panel(tmp_path, background()) as (pilot, app):
        app.clients[-1].lines = {"job-1": 12_345}
        await until(pilot, lambda: "12,345 lines" in shown(app))
        await until(pilot, lambda: "… 12,340 lines more: o shows everything" in shown(app))
