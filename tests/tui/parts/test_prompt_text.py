"""However the text is edited, a chip is there as a whole or not at all."""

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.geometry import Region

from codeagent.tui.parts.prompt_text import PromptText

LONG = "pasted line\n" * 20


def chip_in(text: PromptText) -> str:
    return text.typed.replace("\xa0", " ")


def with_chip(before: str = "a ", after: str = " b") -> PromptText:
    text = PromptText()
    text._take_in(before)
    text._take_in(LONG)
    text._take_in(after)
    return text


def test_a_long_paste_is_one_chip_and_the_text_has_all_of_it() -> None:
    text = with_chip()
    assert chip_in(text) == "a [pasted 240 characters, 21 lines #1] b"
    assert text.text == f"a {LONG} b"


def test_one_backspace_deletes_a_chip_and_undo_brings_it_back() -> None:
    text = with_chip(after="")
    text.action_delete_left()
    assert text.typed == "a "
    text.undo()
    assert text.text == f"a {LONG}"


def test_the_cursor_passes_a_chip_in_one_step() -> None:
    text = with_chip(after="")
    end = text.cursor_location
    text.action_cursor_left()
    assert text.cursor_location == (0, 2)
    text.action_cursor_right()
    assert text.cursor_location == end


def test_typing_where_the_mouse_put_the_cursor_does_not_split_a_chip() -> None:
    text = with_chip()
    text.move_cursor((0, 12))
    text._replace_via_keyboard("X", *text.selection)
    assert text.text in (f"a X{LONG} b", f"a {LONG}X b")


def test_a_selection_that_begins_in_a_chip_takes_all_of_it() -> None:
    text = with_chip()
    text.delete((0, 10), text.document.end, maintain_selection_offset=False)
    assert text.text == "a "


def test_what_is_cut_comes_back_with_what_its_chip_stood_for() -> None:
    text = with_chip()
    text.action_kill("line_start")
    assert text.typed == ""
    text.forget()
    text.action_yank()
    assert text.text == f"a {LONG} b"


def test_text_that_returns_stands_before_what_is_typed_and_the_cursor_stays_with_it() -> None:
    text = PromptText()
    text.set_text("typed")
    text.move_cursor((0, 2))
    text.insert_back("one\ntwo")
    assert text.text == "one\ntwo\ntyped"
    assert text.cursor_location == (2, 2)
    text.insert_back("")
    assert text.text == "one\ntwo\ntyped"


def test_text_that_returns_to_an_empty_composer_stands_alone() -> None:
    text = PromptText()
    text.insert_back("one")
    assert (text.text, text.cursor_location) == ("one", (0, 3))


def test_a_huge_text_that_returns_is_a_chip() -> None:
    text = PromptText()
    text.set_text("x" * 60_000)
    assert len(text.typed) < 60
    assert text.text == "x" * 60_000


def test_setting_the_text_can_be_undone() -> None:
    text = PromptText()
    text._take_in("mine")
    text.set_text("other")
    text.undo()
    assert text.text == "mine"


def test_only_the_user_counts_as_typing() -> None:
    text = PromptText()
    text.set_text("from a draft")
    assert text.typed_at == float("-inf")
    text.action_delete_left()
    assert text.typed_at > 0


def test_readline_keys_cut_and_put_back() -> None:
    text = PromptText()
    text.set_text("one two\nthree four")
    text.action_kill("word_left")
    assert text.text == "one two\nthree "
    text.action_yank()
    text.action_kill("line_start")
    assert text.text == "one two\n"
    text.action_kill("line_start")
    assert text.text == "one two"
    text.move_cursor((0, 3))
    text.action_kill("line_end")
    assert text.text == "one"
    text.action_yank()
    assert text.text == "one two"


Step = (
    tuple[Literal["type"], str]
    | tuple[Literal["paste"], str]
    | tuple[Literal["left", "right", "backspace", "delete"], Literal[""]]
)
letters = st.sampled_from(list("ab[]#1, é漢\n"))
long_texts = st.text(st.sampled_from(list("xy[]#1 \n\x1b")), min_size=1_001, max_size=1_010)
steps = st.one_of(
    st.tuples(st.just("type"), letters),
    st.tuples(st.just("paste"), long_texts),
    st.tuples(st.sampled_from(["left", "right", "backspace", "delete"]), st.just("")),
)


@given(st.lists(steps, max_size=30))
def test_a_chip_is_always_edited_like_one_character(script: list[Step]) -> None:
    text = PromptText()
    atoms: list[str] = []
    at = 0
    for do, what in script:
        match do:
            case "type" | "paste":
                atoms.insert(at, what)
                at += 1
                text._take_in(what) if do == "paste" else text._replace_via_keyboard(
                    what, *text.selection
                )
            case "left":
                at = max(0, at - 1)
                text.action_cursor_left()
            case "right":
                at = min(len(atoms), at + 1)
                text.action_cursor_right()
            case "backspace":
                del atoms[max(0, at - 1) : at]
                at = max(0, at - 1)
                text.action_delete_left()
            case "delete":
                del atoms[at : at + 1]
                text.action_delete_right()
        assert text.text == "".join(atoms)


@given(
    st.lists(
        st.one_of(steps, st.tuples(st.sampled_from(["undo", "redo"]), st.just(""))), max_size=30
    )
)
def test_undo_and_redo_never_leave_a_part_of_a_chip(script: list[Step]) -> None:
    text = PromptText()
    for do, what in script:
        match do:
            case "type":
                text._replace_via_keyboard(what, *text.selection)
            case "paste":
                text._take_in(what)
            case "left" | "right":
                getattr(text, f"action_cursor_{do}")()
            case "backspace" | "delete":
                getattr(text, f"action_delete_{'left' if do == 'backspace' else 'right'}")()
            case _:
                getattr(text, do)()
        assert "\xa0" not in text.text


async def test_without_its_styles_it_is_blank_until_they_come() -> None:
    class Alone(App[None]):
        def compose(self) -> ComposeResult:
            yield PromptText()

    app = Alone()
    async with app.run_test() as pilot:
        text = app.query_one(PromptText)
        text._take_in("hello")
        await pilot.pause()
        kept = dict(text._component_styles)
        text._component_styles.clear()
        crop = Region(0, 0, 20, 1)
        assert [strip.text for strip in text.render_lines(crop)] == [" " * 20]
        text._component_styles.update(kept)
        assert "hello" in "".join(strip.text for strip in text.render_lines(crop))
