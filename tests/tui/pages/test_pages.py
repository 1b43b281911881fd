"""Pages cover the conversation: keys scroll and copy, Esc gives the focus back."""

import pytest
from textual.widgets import TextArea

from codeagent.tui.commands import help_markdown
from codeagent.tui.keymap import Keymap
from codeagent.tui.pages.info import KeySheet, TextScreen
from tests.tui.fake_launcher import TABLE
from tests.tui.pages.stand_in import MANNERS, StandIn


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_key_sheet_has_every_key_and_gives_the_focus_back(size: tuple[int, int]) -> None:
    app = StandIn()
    async with app.run_test(size=size) as pilot:
        app.query_one(TextArea).focus()
        app.push_screen(KeySheet(Keymap({"chat.detail": ("f5",)}, TABLE)), app.given.append)
        await pilot.pause()
        seen = app.shown
        while f"{TABLE.scopes['question'].heading}" not in seen:
            await pilot.press("pagedown")
            seen += app.shown
        assert [scope.heading for scope in TABLE.scopes.values() if scope.heading not in seen] == []
        assert "F5" in seen
        assert ("chat.detail, yours" in seen) == (size == (120, 40))
        await pilot.press("escape")
        await pilot.pause()
        assert app.focused is app.query_one(TextArea)
        assert app.query_one(TextArea).text == ""


async def test_the_key_sheet_stands_the_smallest_terminal() -> None:
    app = StandIn()
    async with app.run_test(size=(20, 5)) as pilot:
        app.push_screen(KeySheet(Keymap()), app.given.append)
        await pilot.press("end", "up", "q")
        await pilot.pause()
        assert app.given == [None]


async def test_a_page_of_markdown_is_laid_out_for_its_width_and_copied_as_it_was_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    app = StandIn()
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(TextScreen("Help", help_markdown()))
        await pilot.pause()
        assert "/resume [session]" in app.shown
        await pilot.press("end")
        await pilot.pause()
        assert "/exit" in app.shown
        await pilot.press("c")
        await pilot.pause()
        assert app.copied == help_markdown()
        assert "copied" in app.rows[-1]
        await pilot.resize_terminal(40, 12)
        await pilot.pause()
        assert "Help" in app.rows[0]
        await pilot.press("q")
        assert len(app.screen_stack) == 1


async def test_text_on_a_page_is_shown_never_obeyed() -> None:
    app = StandIn()
    async with app.run_test() as pilot:
        app.push_screen(TextScreen(MANNERS, f"# {MANNERS}\n\n{MANNERS}"))
        await pilot.pause()
        assert "\x1b" not in app.shown
        assert "\x07" not in app.shown
        assert "\u202e" not in app.shown
