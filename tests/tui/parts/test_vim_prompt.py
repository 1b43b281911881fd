"""vim's keys in the composer: what they leave to it, and how the mode is shown."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from codeagent.tui.keymap import Keymap, KeymapError, load_keymap
from codeagent.tui.parts.composer import Composer
from codeagent.tui.parts.rows import RuleRow
from tests.table import for_each
from tests.tui.parts.test_composer import Stand


class VimStand(Stand):
    keys = Keymap(vim=True)


@asynccontextmanager
async def writing(
    folder: Path, text: str = ""
) -> AsyncIterator[tuple[VimStand, Composer, Pilot[None]]]:
    app = VimStand(folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.composer.insert(text)
        await pilot.pause()
        yield app, app.composer, pilot


def rule(app: VimStand) -> str:
    return str(app.query_one(RuleRow).render_line(0).text)


async def test_esc_leads_to_normal_mode_and_i_back(tmp_path: Path) -> None:
    async with writing(tmp_path, "foo bar") as (app, composer, pilot):
        assert composer.vim_mode == "insert" and "insert" in rule(app)
        await pilot.press("escape")
        assert composer.vim_mode == "normal" and "normal" in rule(app)
        assert composer.render_line(0).text.startswith("❮ foo bar")
        await pilot.press("b", "i", "x")
        assert (composer.typed, composer.vim_mode) == ("foo xbar", "insert")
        assert composer.render_line(0).text.startswith("❯ foo xbar")
        assert app.said == []


async def test_what_is_selected_is_shown_and_deleted(tmp_path: Path) -> None:
    async with writing(tmp_path, "foo bar\nbaz") as (app, composer, pilot):
        await pilot.press("escape", "g", "g", "v", "e")
        assert composer.selected_text == "foo" and "visual" in rule(app)
        assert composer.render_line(0).text.startswith("◆ ")
        await pilot.press("right", "d")
        assert (composer.typed, composer.vim_mode) == ("bar\nbaz", "normal")
        await pilot.press("V", "down")
        assert composer.selected_text == "bar\nbaz"


async def test_a_selection_ends_when_something_else_changes_the_text(tmp_path: Path) -> None:
    async with writing(tmp_path, "foo bar baz") as (_, composer, pilot):
        await pilot.press("escape", "0", "v", "e")
        composer.post_message(events.Paste("X"))
        await pilot.pause()
        assert (composer.typed, composer.vim_mode) == ("X bar baz", "normal")
        await pilot.press("v", "l", "ctrl+k")
        assert (composer.typed, composer.vim_mode) == ("Xar baz", "normal")
        await pilot.press("x")
        assert composer.typed == "Xr baz"


async def test_undo_and_redo_are_those_of_the_composer(tmp_path: Path) -> None:
    async with writing(tmp_path, "foo bar baz") as (_, composer, pilot):
        await pilot.press("escape", "0", "d", "w", "d", "w")
        assert composer.typed == "baz"
        await pilot.press("u")
        assert composer.typed == "bar baz"
        await pilot.press("u", "ctrl+r")
        assert composer.typed == "bar baz"


async def test_enter_sends_in_every_mode_and_the_next_prompt_is_inserted(tmp_path: Path) -> None:
    async with writing(tmp_path) as (app, composer, pilot):
        for mode in ((), ("escape",), ("escape", "v"), ("escape", "d")):
            await pilot.press("h", "i", *mode, "enter")
            assert composer.vim_mode == "insert"
        assert app.said == [("PromptInput", "hi", False)] * 4


async def test_esc_in_normal_mode_is_left_to_the_screen_unless_a_command_is_begun(
    tmp_path: Path,
) -> None:
    async with writing(tmp_path, "foo") as (app, composer, pilot):
        await pilot.press("escape", "d", "escape")
        assert app.said == []
        await pilot.press("w", "escape")
        assert app.said == [("escape",)] and composer.typed == "foo"


async def test_esc_closes_a_list_before_vim_gets_it(tmp_path: Path) -> None:
    async with writing(tmp_path) as (_, composer, pilot):
        await pilot.press("slash")
        assert composer.choices.is_open
        await pilot.press("escape")
        assert (composer.choices.is_open, composer.vim_mode) == (False, "insert")
        await pilot.press("escape")
        assert composer.vim_mode == "normal"


async def test_an_empty_prompt_begins_a_command_and_shows_the_keys_in_normal_mode(
    tmp_path: Path,
) -> None:
    async with writing(tmp_path) as (app, composer, pilot):
        await pilot.press("escape", "question_mark")
        assert app.said == [("keys",)]
        await pilot.press("slash")
        assert composer.choices.is_open
        assert (composer.typed, composer.vim_mode) == ("/", "insert")


async def test_k_and_j_lead_to_earlier_prompts(tmp_path: Path) -> None:
    async with writing(tmp_path) as (_, composer, pilot):
        await pilot.press(*"one", "enter", *"two", "enter", "escape", "k", "k")
        assert composer.typed == "one"
        await pilot.press("j")
        assert composer.typed == "two" and composer.cursor_location == (0, 2)


async def test_a_chip_counts_as_one_letter(tmp_path: Path) -> None:
    async with writing(tmp_path, "a ") as (app, composer, pilot):
        app.post_message(events.Paste("long " * 400))
        await pilot.pause()
        await pilot.press("space", "b", "escape", "0", "w", "x")
        assert composer.typed == "a  b"


async def test_a_paste_and_other_keys_are_as_they_were(tmp_path: Path) -> None:
    async with writing(tmp_path, "ab") as (app, composer, pilot):
        await pilot.press("escape", "alt+y", "left")
        app.post_message(events.Paste("x"))
        await pilot.pause()
        assert composer.typed == "xab" and app.said == [("alt+y",)]


async def test_without_the_line_esc_and_letters_are_as_they_were(tmp_path: Path) -> None:
    app = Stand(tmp_path)
    async with app.run_test() as pilot:
        await pilot.press("h", "escape", "i")
        assert app.composer.typed == "hi" and app.said == [("escape",)]
        assert app.composer.vim_mode == ""


def test_vim_is_not_imported_without_the_line() -> None:
    code = "import sys, codeagent.tui.app; sys.exit('codeagent.tui.parts.vim' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@for_each(
    ("text", "vim"),
    [("vim: true", True), ("vim: false", False), ("chat.detail: f2\nvim: on", None)],
)
def test_one_line_of_the_file_turns_them_on(tmp_path: Path, text: str, vim: bool | None) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text(text)
    if vim is None:
        with pytest.raises(KeymapError, match=r"keys.yaml:2: vim: must be true or false"):
            load_keymap(path)
        return
    keymap = load_keymap(path)
    assert keymap.vim == vim
    assert any("normal mode" in row.about for row in keymap.rows()) == vim
