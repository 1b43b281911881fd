"""Going back asks where something of the user's own would be lost, and says in one line what it
did."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from codeagent.core.acts import Restore
from codeagent.tui.pages.picker import Picker
from codeagent.tui.pages.rewind_pages import GoingBackPage, RewindPicker
from codeagent.tui.parts.guard import TOO_SOON
from tests.tui.fake_rewind import FakeRewind
from tests.tui.guards import long_enough
from tests.tui.replay import ReplayApp, enter, settled, until
from tests.tui.scripts import Recording, running_tests

LONG = "add a test for 1900\nand one for 2000, please"


@asynccontextmanager
async def chat(
    folder: Path, recording: Recording | None = None
) -> AsyncIterator[tuple[Pilot[None], ReplayApp, FakeRewind]]:
    recording = recording or Recording()
    app = ReplayApp(recording.events, folder, now=recording.now)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        yield pilot, app, app.clients[-1].past
    assert app.crash is None


async def seen(pilot: Pilot[None], kind: type) -> None:
    """That screen is shown, long enough to be read."""
    await until(pilot, lambda: type(pilot.app.screen) is kind)
    long_enough()


def shown(app: ReplayApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def notice(app: ReplayApp) -> str:
    return app.chat.state.status.now.screen.notice


async def test_the_last_batch_is_taken_back_at_once_where_nothing_of_the_users_is_in_it(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path) as (pilot, app, past):
        await enter(pilot, "/undo")
        await until(pilot, lambda: bool(past.told))
        assert past.told == [Restore("b3", "undo", True, False, None)]
        assert notice(app) == "undone: 2 files (/redo to restore)"


async def test_what_cannot_be_seen_is_said_with_what_was_taken_back(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app, past):
        past.left_out = ("data.bin: larger than 20 MiB",)
        await enter(pilot, "/undo")
        await until(pilot, lambda: bool(past.told))
        assert notice(app).endswith("; not seen: data.bin: larger than 20 MiB")


async def test_what_another_codeagent_changed_too_is_said_where_nothing_else_could_go_back(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path) as (pilot, app, past):
        past.files, past.refused = (("a.py", "1", "1"),), ("a.py: both changed the same lines",)
        await enter(pilot, "/undo")
        await until(pilot, lambda: bool(notice(app)))
        assert (past.told, notice(app)) == (
            [],
            "nothing was restored: a.py: both changed the same lines",
        )


async def test_the_list_of_moments_shows_what_another_codeagent_changed_too(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app, past):
        past.refused = ("a.py: both changed the same lines",)
        await enter(pilot, "/undo 2")
        await seen(pilot, GoingBackPage)
        assert "These stay, because another codeagent changed them too:" in shown(app)
        assert "a.py: both changed the same lines" in shown(app)


async def test_where_the_user_edited_a_file_they_are_asked(tmp_path: Path) -> None:
    all_of_it, what_is_mine_stays = None, ("tests/test_dates.py",)
    async with chat(tmp_path) as (pilot, app, past):
        past.edited = frozenset({"src/dates.py"})
        for key, told in (
            ("enter", [Restore("b3", "undo", True, False, all_of_it)]),
            ("y", [Restore("b3", "undo", True, False, all_of_it)]),
            ("m", [Restore("b3", "undo", True, False, what_is_mine_stays)]),
            ("escape", []),
            ("q", []),
        ):
            past.told.clear()
            app.chat.tell("")
            await enter(pilot, "/undo")
            await seen(pilot, GoingBackPage)
            assert "you edited it, too" in shown(app), key
            await pilot.press(key)
            await until(pilot, lambda: app.screen is app.chat and bool(notice(app)), key)
            assert past.told == told, key
            assert told or notice(app) == "nothing was changed", key


async def test_nothing_is_left_to_take_back_where_the_user_edited_every_file(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path) as (pilot, app, past):
        past.edited = frozenset({"src/dates.py", "tests/test_dates.py"})
        await enter(pilot, "/undo")
        await seen(pilot, GoingBackPage)
        await pilot.press("m")
        await pilot.pause()
        assert "nothing would be left to undo" in shown(app)
        assert past.told == []


async def test_several_batches_are_shown_first(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, _, past):
        await enter(pilot, "/undo 2")
        await seen(pilot, GoingBackPage)
        assert past.told == []
        await pilot.press("y")
        await until(pilot, lambda: bool(past.told))
        assert past.told == [Restore("b2", "undo", True, False, None)]


async def test_no_key_takes_anything_back_before_the_page_could_be_read(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app, past):
        await enter(pilot, "/undo 2")
        await until(pilot, lambda: isinstance(app.screen, GoingBackPage))
        await pilot.press("enter", "y", "y")
        await pilot.pause()
        assert past.told == [] and TOO_SOON in shown(app)


async def test_redo_brings_files_and_conversation_back(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app, past):
        await enter(pilot, "/redo")
        await until(pilot, lambda: bool(past.told))
        assert past.told == [Restore("a3", "redo", True, False, None)]
        assert notice(app) == "restored: 2 files"


async def test_what_cannot_be_done_is_one_line(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app, past):
        past.refuses = "there is nothing to take back"
        for line, said in (
            ("/undo", past.refuses),
            ("/undo 2", past.refuses),
            ("/redo", past.refuses),
            ("/undo all", "/undo takes a number of batches, not 'all'"),
            ("/undo 0", "/undo takes a number"),
        ):
            app.chat.tell("")
            await enter(pilot, line)
            await until(pilot, lambda: bool(notice(app)), line)
            assert notice(app).startswith(said) and past.told == [], line


async def test_where_no_file_differs_nothing_is_done(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app, past):
        past.files = (("same", "a", "a"),)
        await enter(pilot, "/undo")
        await until(pilot, lambda: "no file has changed since" in notice(app))
        assert past.told == []


async def test_while_the_agent_works_it_says_so(tmp_path: Path) -> None:
    async with chat(tmp_path, running_tests()) as (pilot, app, past):
        for line in ("/undo", "/redo", "/rewind"):
            app.chat.tell("")
            await enter(pilot, line)
            await pilot.pause()
            assert f"{line} was not run: the agent is working" in notice(app), line
            assert past.told == [] and app.chat.composer.text == "", line


async def test_files_conversation_or_both_go_back_to_a_prompt(tmp_path: Path) -> None:
    recording = Recording().run("fix the parser").finish().run(LONG).finish()
    async with chat(tmp_path, recording) as (pilot, app, past):
        label = " ".join(LONG.split())
        past.moments = tuple(
            type(point)(point.id, point.cause, point.at, label, point.batch)
            if point.id == "p2"
            else point
            for point in past.moments
        )
        for down, told, written in (
            (0, Restore("p2", "rewind", True, True, None), LONG),
            (1, Restore("p2", "rewind", True, False, None), ""),
            (2, Restore("p2", "rewind", False, True, None), LONG),
        ):
            past.told.clear()
            app.chat.tell("")
            await enter(pilot, "/rewind")
            await seen(pilot, RewindPicker)
            await pilot.press("up", "up", "up", "up", "enter")
            await until(pilot, lambda: type(app.screen) is Picker, told)
            await pilot.press(*["down"] * down, "enter")
            await until(pilot, lambda: "/redo returns" in notice(app), told)
            assert past.told == [told]
            assert app.chat.composer.text == written, told
            app.chat.composer.set_text("")


async def test_the_conversation_does_not_go_back_to_a_batch(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app, past):
        await enter(pilot, "/rewind")
        await seen(pilot, RewindPicker)
        await pilot.press("up", "enter")
        await until(pilot, lambda: type(app.screen) is Picker)
        assert (
            "files only" in shown(app)
            and "conversation" not in shown(app).split("Back to before")[1]
        )
        await pilot.press("enter")
        await until(pilot, lambda: bool(past.told))
        assert past.told == [Restore("b3", "rewind", True, False, None)]


async def test_rewind_asks_as_well_where_the_user_edited_a_file(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app, past):
        past.edited = frozenset({"src/dates.py"})
        await enter(pilot, "/rewind")
        await seen(pilot, RewindPicker)
        await pilot.press("up", "up", "enter")
        await until(pilot, lambda: type(app.screen) is Picker)
        await pilot.press("enter")
        await seen(pilot, GoingBackPage)
        await pilot.press("m")
        await until(pilot, lambda: bool(past.told))
        assert past.told == [Restore("p3", "rewind", True, True, ("tests/test_dates.py",))]


async def test_the_mark_begins_on_the_present_which_changes_nothing(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app, past):
        for key in ("escape", "enter"):
            await enter(pilot, "/rewind")
            await seen(pilot, RewindPicker)
            assert "▸ (current)" in shown(app), key
            await pilot.press(key)
            await until(pilot, lambda: app.screen is app.chat, key)
            assert past.told == [], key


async def test_esc_in_the_second_list_leads_back_to_the_first(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app, past):
        await enter(pilot, "/rewind")
        await seen(pilot, RewindPicker)
        await pilot.press("up", "enter")
        await until(pilot, lambda: type(app.screen) is Picker)
        await pilot.press("escape")
        await until(pilot, lambda: type(app.screen) is RewindPicker)
        assert past.told == []


async def test_an_error_while_looking_is_shown_in_the_preview(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app, past):
        await enter(pilot, "/rewind")
        await seen(pilot, RewindPicker)
        past.refuses = "the store is damaged"
        await pilot.press("up")
        await until(pilot, lambda: "the store is damaged" in shown(app))


async def test_esc_twice_where_nothing_is_written_goes_back(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app, _):
        await pilot.press("escape")
        assert notice(app) == "Esc again goes back to an earlier moment"
        await pilot.press("escape")
        await until(pilot, lambda: type(app.screen) is RewindPicker)


async def test_esc_twice_with_something_written_does_nothing(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app, _):
        await pilot.press("a", "escape", "escape")
        await pilot.pause()
        assert app.screen is app.chat and app.chat.composer.text == "a"


async def test_paths_and_labels_of_anybody_are_text(tmp_path: Path) -> None:
    hostile = "[@click=app.quit]x[/]\x1b[2J\u202egnp.exe"
    async with chat(tmp_path) as (pilot, app, past):
        past.files = ((hostile, "a\n", f"{hostile}\n"),)
        past.edited = frozenset({hostile})
        past.left_out = (hostile,)
        past.moments = tuple(
            type(point)(point.id, point.cause, point.at, hostile, point.batch)
            for point in past.moments
        )
        await enter(pilot, "/rewind")
        await seen(pilot, RewindPicker)
        await pilot.press("up")
        await until(pilot, lambda: "1 file would change" in shown(app))
        assert is_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: type(app.screen) is Picker)
        assert is_text(app)
        await pilot.press("enter")
        await seen(pilot, GoingBackPage)
        assert is_text(app)


def is_text(app: ReplayApp) -> bool:
    return "[@click=app.quit]x[/]" in shown(app) and not {"\x1b", "\u202e"} & set(shown(app))
