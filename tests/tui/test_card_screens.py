"""The card with a rule, an edit and hunks to answer with, and what waits to be read: as pictures
and key by key."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.geometry import Region

from codeagent.core.acts import Answer, Reorder, TakeBack
from codeagent.core.display import DiffBlock, TerminalBlock, TextBlock, cut
from codeagent.core.policy import Decision
from codeagent.tui.parts.card import Card
from codeagent.tui.parts.queued import QueueView
from codeagent.tui.parts.status import StatusLine
from codeagent.tui.reduce import Reducer
from tests.tui.guards import long_enough
from tests.tui.pictures import SIZES, Album
from tests.tui.replay import settled
from tests.tui.scenes import Scene, queued
from tests.tui.scripts import AFTER, BEFORE, EDIT, Recording, after_failing_tests, running_tests
from tests.tui.test_chat import chat, until, write
from tests.tui.test_screens import app_of, play

COMMAND = "pytest -q tests/test_dates.py"


def asks_for_all() -> Recording:
    recording = after_failing_tests()
    recording.plan(("c5", "edit", "src/dates.py", "prompt"))
    arguments = json.dumps({"path": "src/dates.py", "old_text": "365", "new_text": "366"})
    return recording.ask(
        "c5",
        "edit",
        "src/dates.py",
        EDIT,
        arguments=arguments,
        proposal="edit(src/**)",
        by_hunk=True,
    )


def asks_to_test() -> Recording:
    recording = after_failing_tests()
    recording.plan(("c6", "bash", COMMAND, "prompt"))
    block = TerminalBlock(command=COMMAND)
    arguments = json.dumps({"command": COMMAND})
    return recording.ask(
        "c6", "bash", COMMAND, block, arguments=arguments, proposal="bash(pytest *)"
    )


def asks_about_effects() -> Recording:
    """A command changed nothing, and another one three files; one of these is a picture."""
    recording = after_failing_tests()
    recording.plan(("c7", "bash", "make check", "auto"), ("c8", "bash", "black src", "auto"))
    recording.start("c7", "bash", "make check", command="make check")
    recording.result("c7", "bash", details={"exit_code": 0, "files_changed": 0}, seconds=2.4)
    recording.start("c8", "bash", "black src", command="black src")
    listed = "M src/dates.py\nA src/logo.png\nR src/old.cfg -> src/setup.cfg\nbuild/ (2 ignored)"
    return recording.ask(
        "c8",
        "effects",
        "`black src` changed 3 files +3 −3",
        TextBlock(text=listed),
        EDIT,
        DiffBlock(path="src/logo.png", before="", after="is a file of 3,112 bytes, mode 644\n"),
        DiffBlock(path="src/setup.cfg", before="src/old.cfg\n", after="src/setup.cfg\n"),
        proposal="effects(src/**)",
        by_hunk=True,
    )


def asks_about_many_effects() -> Recording:
    recording = after_failing_tests()
    recording.plan(("c8", "bash", "npm install", "auto"))
    recording.start("c8", "bash", "npm install", command="npm install")
    listed = [f"A vendor/{name}/index.js" for name in ("ansi", "glob", "once")]
    return recording.ask(
        "c8",
        "effects",
        "`npm install` changed 2,345 files",
        TextBlock(text="\n".join([*listed, "and 2,342 more"])),
        reason="it changes 2,345 files: too many for a rule to allow, and to be shown one by one",
    )


def long_queue() -> Recording:
    recording = queued().queue("q3", "steer", "use the helper in src/calendar.py")
    return recording.queue("q4", "follow_up", "commit it\nand push\nthen tell Ada")


SCENES = {
    "every-answer": Scene(asks_for_all),
    "every-answer-focused": Scene(after="every-answer", keys=("wait", "tab")),
    "rule": Scene(asks_to_test, keys=("wait", "alt+p")),
    "rule-always": Scene(after="rule", keys=("down",)),
    "rule-too-wide": Scene(
        after="rule-always", keys=("escape", "wait", "alt+p", "home", *["delete"] * 14, *"bash")
    ),
    "rule-of-another-call": Scene(
        asks_to_test, keys=("wait", "alt+p", "left", "left", "left", "x")
    ),
    "edited-command": Scene(
        after="rule-of-another-call", keys=("escape", "wait", "alt+e", "space", "-", "x")
    ),
    "effects": Scene(asks_about_effects),
    "effects-rule": Scene(after="effects", keys=("wait", "alt+p")),
    "effects-hunks": Scene(asks_about_effects, keys=("wait", "alt+h", "wait", "enter")),
    "effects-many": Scene(asks_about_many_effects),
    "queue": Scene(after="lanes", keys=("slash", *"queue", "enter", "down")),
    "queue-edited": Scene(after="queue", keys=("up", "e", "!")),
    "lanes": Scene(long_queue),
}


@pytest.fixture(autouse=True)
def in_one_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture(scope="module")
def album() -> Album[Scene]:
    return Album(SCENES, app_of, play)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCENES)
def test_a_state_of_card_or_queue(
    name: str, size: tuple[int, int], album: Album[Scene], snap_compare: Any, tmp_path: Path
) -> None:
    assert snap_compare(album.of(name, tmp_path), terminal_size=size)


def test_letters_of_a_rule_that_look_like_others_are_said(
    snap_compare: Any, tmp_path: Path
) -> None:
    scene = Scene(asks_to_test, keys=("wait", "alt+p", "ctrl+u"))

    async def paste(pilot: Any) -> None:
        await play(scene)(pilot)
        pilot.app.post_message(events.Paste("bash(p\u0443test\u202e -q *)"))
        await pilot.pause()
        await pilot.pause()

    assert snap_compare(app_of(scene, tmp_path), terminal_size=(80, 24), run_before=paste)


async def test_a_rule_is_given_from_the_composer_and_what_is_written_there_stays(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path, asks_to_test()) as (pilot, app):
        await write(pilot, "and then")
        long_enough()
        await pilot.press("alt+p", "down")
        long_enough()
        await pilot.press("enter")
        assert app.told == [Answer("c6.1", Decision("rule", rule="bash(pytest *)", keep=True))]
        assert app.chat.composer.text == "and then"


async def test_an_edited_command_is_asked_about_again(tmp_path: Path) -> None:
    async with chat(tmp_path, asks_to_test()) as (pilot, app):
        long_enough()
        await pilot.press("alt+e", "x", "enter")
        assert app.told == [
            Answer("c6.1", Decision("edit", arguments=json.dumps({"command": f"{COMMAND}x"})))
        ]


async def test_hunks_are_answered_one_by_one(tmp_path: Path) -> None:
    async with chat(tmp_path, asks_for_all()) as (pilot, app):
        long_enough()
        await pilot.press("alt+h")
        await until(pilot, lambda: app.screen is not app.chat)
        long_enough()
        await pilot.press("enter")
        await until(pilot, lambda: bool(app.told))
        hunks = (True,) * len(cut(BEFORE, AFTER))
        assert app.told == [Answer("c5.1", Decision("once", hunks=hunks))]
        assert app.chat.focused is app.chat.composer


async def test_a_review_that_is_left_answers_nothing(tmp_path: Path) -> None:
    async with chat(tmp_path, asks_for_all()) as (pilot, app):
        long_enough()
        await pilot.press("alt+h")
        await until(pilot, lambda: app.screen is not app.chat)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        assert app.told == []


async def test_a_question_that_went_away_during_its_review_is_said(tmp_path: Path) -> None:
    async with chat(tmp_path, asks_for_all()) as (pilot, app):
        long_enough()
        await pilot.press("alt+h")
        await until(pilot, lambda: app.screen is not app.chat)
        app.chat.state.approvals.clear()
        long_enough()
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.chat)
        assert app.told == []
        assert "the question is no longer pending" in app.chat.state.status.now.screen.notice


async def test_typing_at_full_speed_while_a_question_with_every_answer_appears_is_all_kept(
    tmp_path: Path,
) -> None:
    text = "hey please apply every hunk and edit, p a y e h n r " * 4
    async with chat(tmp_path, running_tests()) as (pilot, app):
        await write(pilot, text[:70])
        Reducer(app.chat.state, live=True).apply(asks_for_all().events[-1])
        await write(pilot, text[70:])
        assert len(text) > 200 and app.chat.state.approvals.waiting
        assert (app.told, app.chat.composer.text) == ([], text)
        assert app.screen is app.chat


async def test_the_queue_opens_by_command_and_by_a_click_on_its_title(tmp_path: Path) -> None:
    async with chat(tmp_path, long_queue()) as (pilot, app):
        await write(pilot, "/queue", "enter")
        await until(pilot, lambda: app.screen is not app.chat)
        await pilot.press("J", "x")
        assert app.told == [Reorder("q1", 2), TakeBack("q1")]
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        await pilot.click("QueueView", offset=(3, 0))
        await until(pilot, lambda: app.screen is not app.chat)


async def test_an_empty_queue_is_said(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        await write(pilot, "/queue", "enter")
        await until(pilot, lambda: "the queue is empty" in app.chat.state.status.now.screen.notice)
        await settled(pilot)
        assert app.screen is app.chat


@pytest.mark.parametrize("size", [(20, 3), (20, 4), (20, 5), (30, 6), (40, 8), (40, 10), (80, 24)])
@pytest.mark.parametrize(
    "draft", ["", "one\ntwo\nthree"], ids=["nothing written", "three lines written"]
)
async def test_what_is_written_stays_on_the_screen_beside_a_card(
    draft: str, size: tuple[int, int], tmp_path: Path
) -> None:
    recording = asks_to_test().queue("q1", "steer", "also cover 1900")
    async with chat(tmp_path, recording, size=size) as (pilot, app):
        app.chat.composer.set_text(draft)
        await pilot.pause()
        composer, status = app.chat.composer.region, app.chat.query_one(StatusLine).region
        row_of_cursor = composer.y + draft.count("\n") - app.chat.composer.scroll_offset.y
        assert status == Region(0, size[1] - 1, size[0], 1)
        assert 0 <= composer.y <= row_of_cursor < composer.bottom <= status.y
        assert app.chat.query_one(QueueView).region.bottom <= composer.y
        card = app.chat.query_one(Card).region
        assert card.height >= 1 and card.bottom > 0
