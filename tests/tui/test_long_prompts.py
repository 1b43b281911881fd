"""Text that would not fit into the model's window is stopped before it is sent, and the user
decides about it."""

from pathlib import Path

from textual import events
from textual.pilot import Pilot

from codeagent.core.acts import FollowUp, Prompt, RunShell
from codeagent.tui.pages.long_prompt import longest_prompt
from codeagent.tui.pages.picker import Picker
from tests.table import for_each
from tests.tui.replay import ReplayApp, until
from tests.tui.scripts import running_tests
from tests.tui.test_chat import chat, shown, write
from tests.tui.test_starting import notice, starting

LONG = "3 MB of a log\n" * 215_000


async def paste(pilot: Pilot[None], text: str, *keys: str) -> None:
    pilot.app.post_message(events.Paste(text))
    await pilot.pause()
    await pilot.press(*keys)


async def choose(pilot: Pilot[None], app: ReplayApp, way: str) -> None:
    """Take a way from the list that asks what to do."""
    await until(pilot, lambda: isinstance(app.screen, Picker))
    await write(pilot, way, "enter")
    await until(pilot, lambda: not isinstance(app.screen, Picker))


@for_each(
    ("window", "fits", "too_long"),
    [
        (200_000, 590_000, 610_000),
        (32_768, 97_000, 99_000),
        (8_192, 18_000, 19_000),
        (2_048, 4_000, 5_000),
    ],
)
def test_a_prompt_leaves_room_in_the_window_for_what_is_sent_with_it(
    window: int, fits: int, too_long: int
) -> None:
    assert fits < longest_prompt(window) < too_long


async def test_a_paste_that_does_not_fit_is_not_sent_and_its_size_and_the_ways_on_are_said(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path) as (pilot, app):
        await write(pilot, "why: ")
        await paste(pilot, LONG, "enter")
        await until(pilot, lambda: isinstance(app.screen, Picker))
        assert app.told == []
        for words in ("about 903,002 tokens", "200,000", "Attach it as a file", "Cut it", "Cancel"):
            assert words in shown(app), words
        await pilot.press("escape")
        await pilot.pause()
        assert (app.told, app.chat.composer.text) == ([], "why: " + LONG)


async def test_a_paste_that_fits_is_sent_without_a_question(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        await paste(pilot, "x" * 500_000, "enter")
        assert app.told == [Prompt("x" * 500_000)]


async def test_attached_as_a_file_the_paste_is_kept_and_what_was_typed_is_sent_with_its_beginning(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path) as (pilot, app):
        await write(pilot, "why: ")
        await paste(pilot, LONG, "enter")
        await choose(pilot, app, "attach")
        await until(pilot, lambda: len(app.told) == 2)
        assert app.told == [("keep_text", LONG), Prompt("why: [beginning of a file]")]
        assert app.chat.composer.is_blank


async def test_cut_the_paste_fits_and_the_model_is_told_how_much_is_missing(tmp_path: Path) -> None:
    async with chat(tmp_path, running_tests()) as (pilot, app):
        await write(pilot, "why: ")
        await paste(pilot, LONG, "alt+enter")
        await choose(pilot, app, "cut")
        await until(pilot, lambda: len(app.told) == 1)
        (sent,) = app.told
        assert isinstance(sent, FollowUp)
        text, _, mark = sent.text.rpartition("\n")
        assert len(sent.text) <= longest_prompt(200_000) and ("why: " + LONG).startswith(text)
        assert mark == f"[… {len(LONG) + len('why: ') - len(text):,} characters were cut here …]"


async def test_without_the_tool_that_reads_it_a_paste_is_not_attached(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        app.clients[-1].reads_kept_texts = False
        await paste(pilot, LONG, "enter")
        await until(pilot, lambda: isinstance(app.screen, Picker))
        assert "Cut it" in shown(app) and "Attach" not in shown(app)


async def test_a_paste_that_could_not_be_kept_stays_in_the_prompt(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        app.clients[-1].full = "the disk has no room for it; nothing was sent"
        await paste(pilot, LONG, "enter")
        await choose(pilot, app, "attach")
        await until(pilot, lambda: app.chat.state.status.now.screen.notice == app.clients[-1].full)
        assert (app.told, app.chat.composer.text) == ([], LONG)


async def test_what_a_paste_begins_with_is_never_run_as_a_command(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        await paste(pilot, "!rm -rf .\n" + LONG, "enter")
        await choose(pilot, app, "cut")
        await until(pilot, lambda: len(app.told) == 1)
        assert isinstance(app.told[0], Prompt)


async def test_a_command_of_the_users_own_is_never_cut(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        await write(pilot, "!wc <<< ")
        await paste(pilot, LONG, "enter")
        assert [type(act) for act in app.told] == [RunShell]


async def test_a_paste_sent_before_the_window_is_known_comes_back_and_is_not_sent(
    tmp_path: Path,
) -> None:
    async with starting(tmp_path, context_window=None) as (pilot, app, starts):
        await paste(pilot, LONG, "enter")
        assert app.chat.composer.is_blank
        app.chat.state.status.set(context_window=200_000)
        starts.set()
        await until(pilot, lambda: not app.chat.composer.is_blank)
        assert (app.told, app.chat.composer.text) == ([], LONG)
        assert "not sent: about 903,000 tokens" in notice(app)
