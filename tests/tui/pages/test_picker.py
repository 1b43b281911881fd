"""A picker lies over the conversation: letters narrow it, Enter takes a row, Esc changes
nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.widgets import TextArea

from codeagent.tui.keymap import Keymap
from codeagent.tui.pages.picker import Picker, palette_rows
from codeagent.tui.parts.marked_list import PickerRow, matching
from tests.tui.pages.stand_in import MANNERS, StandIn

ROWS = [
    PickerRow("1", "fix the date parser", "2 h ago"),
    PickerRow("2", "add a test for 1900", "3 h ago"),
    PickerRow("3", "rename the parser", "in use by another codeagent", warn=True),
]


def keys(query: str) -> list[str]:
    return [row.key for row in matching(ROWS, query)]


def test_what_begins_so_comes_first_then_what_holds_it_then_scattered_letters() -> None:
    assert keys("") == ["1", "2", "3"]
    assert keys("ren") == ["3"]
    assert keys("PARSER") == ["1", "3"]
    assert keys("in use") == ["3"]
    assert keys("fxdp") == ["1"]
    assert keys("zzz") == []


@given(st.text(max_size=8))
def test_narrowing_only_ever_leaves_rows_out(query: str) -> None:
    found = matching(ROWS, query)
    assert len(set(found)) == len(found)
    assert set(found) <= set(ROWS)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (20, 5)])
async def test_letters_narrow_and_enter_takes_the_marked_row(size: tuple[int, int]) -> None:
    app, seen = StandIn(), list[str]()
    async with app.run_test(size=size) as pilot:
        app.query_one(TextArea).focus()
        app.push_screen(Picker("Sessions", ROWS, on_highlight=seen.append), app.given.append)
        await pilot.pause()
        await pilot.press("down", *"pars")
        await pilot.pause()
        if size != (20, 5):
            assert "2 of 3" in app.shown
            assert "2 h ago" in app.shown
        await pilot.press("down", "down", "enter")
        await pilot.pause()
        assert app.given == ["3"]
        assert seen == ["2", "1", "3"]
        assert app.focused is app.query_one(TextArea)
        assert app.query_one(TextArea).text == ""


async def test_a_few_long_rows_do_not_push_the_descriptions_of_the_others_away() -> None:
    rows = [PickerRow(f"/{n}", f"/{n}", "what it does") for n in range(20)]
    rows.append(PickerRow("long", "/model " + "m" * 30, "a model"))
    app = StandIn()
    async with app.run_test(size=(100, 40)) as pilot:
        app.push_screen(Picker("Commands", rows), app.given.append)
        await pilot.pause()
        assert "/0   what it does" in app.shown
        assert "m" * 30 + "  a model" in app.shown


async def test_commands_are_grouped_and_say_their_keys_until_something_is_typed() -> None:
    keymap = Keymap({"chat.find": ("f7",)})
    rows = palette_rows(keymap, ["paper"], [], running=False)
    headings = [row.text for row in rows if row.heading]
    assert headings == ["Conversation", "Model and money", "Screen", "About", "Themes"]
    keys = {row.text: row.keys for row in rows if row.keys}
    assert keys["/find"] == "F7" and keys["/pause"] == "Esc" and keys["/detail"] == "Ctrl+O"
    app = StandIn()
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(Picker("Commands", rows), app.given.append)
        await pilot.pause()
        assert app.shown.count("▸") == 1 and " ▸ /new" in app.shown
        assert " Conversation" in app.shown
        await pilot.press(*"find")
        await pilot.pause()
        (row,) = [row for row in app.rows if "/find" in row]
        assert row.split()[-1] == "F7" and "Conversation\n" not in app.shown
        await pilot.press("enter")
        assert app.given == ["/find"]


async def test_one_long_row_does_not_push_the_descriptions_of_the_others_aside() -> None:
    rows = [PickerRow(f"{at}", f"/go{at}", "what it does, in a few more words") for at in range(10)]
    app = StandIn()
    async with app.run_test(size=(60, 20)) as pilot:
        app.push_screen(Picker("Commands", [*rows, PickerRow("x", "/" + "x" * 90, "long")]))
        await pilot.pause()
        assert "/go9  what it does, in a few more words" in app.shown


async def test_esc_gives_nothing_and_the_mark_begins_where_it_is_told() -> None:
    app = StandIn()
    async with app.run_test() as pilot:
        app.push_screen(Picker("Models", ROWS, marked="2"), app.given.append)
        await pilot.pause()
        assert " ▸ add a test" in app.shown
        await pilot.press("escape")
        await pilot.pause()
        app.push_screen(Picker("Models", ROWS), app.given.append)
        await pilot.press("z", "z", "enter")
        await pilot.pause()
        assert "nothing matches" in app.shown
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert app.given == [None, None]


async def test_the_users_own_keys_are_the_ones_that_count() -> None:
    app = StandIn()
    async with app.run_test() as pilot:
        app.set_keymap(
            Keymap({"picker.choose": ("f9", "alt+m"), "picker.down": ("ctrl+t",)}).overrides
        )
        app.push_screen(Picker("Rows", ROWS), app.given.append)
        await pilot.press("down", "enter", "ctrl+t", "alt+m")
        await pilot.pause()
        assert app.given == ["2"]


async def test_a_long_list_scrolls_with_the_mark_and_a_click_takes_a_row() -> None:
    app = StandIn()
    rows = [PickerRow(str(number), f"row {number}") for number in range(500)]
    async with app.run_test() as pilot:
        app.push_screen(Picker("Rows", rows), app.given.append)
        await pilot.press("pagedown", "pagedown", "pagedown", "up")
        await pilot.pause()
        assert " ▸ row 41" in app.shown
        assert "Enter chooses it" in app.rows[-1]
        await pilot.press("end")
        await pilot.pause()
        assert " ▸ row 499" in app.shown
        await pilot.press("home", "down", *["pagedown"] * 3, "up", "up")
        await pilot.pause()
        assert " ▸ row 41" in app.shown
        await pilot.click(
            offset=(8, app.rows.index(next(row for row in app.rows if "row 39" in row)))
        )
        await pilot.pause()
        assert app.given == ["39"]


async def test_text_of_others_is_shown_never_obeyed() -> None:
    app = StandIn()
    async with app.run_test() as pilot:
        app.push_screen(
            Picker(MANNERS, [PickerRow("1", MANNERS, MANNERS, warn=True)]), app.given.append
        )
        await pilot.pause()
        assert "\x1b" not in app.shown
        assert "[bold]x[/] \\x1b[2J" in app.shown


async def test_a_paste_becomes_one_harmless_line() -> None:
    app = StandIn()
    async with app.run_test() as pilot:
        app.push_screen(Picker("Rows", ROWS), app.given.append)
        await pilot.pause()
        app.screen.focused.insert_text_at_cursor("a\x1b[2J\tb")  # type: ignore[union-attr]  # the line has the focus
        await pilot.pause()
        assert "a\\x1b[2J b" in app.shown
