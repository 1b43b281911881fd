"""Hunk review: each hunk is taken, left or rewritten; nothing is applied that was not on screen."""

import asyncio
from pathlib import Path

import pytest
from textual.pilot import Pilot

from codeagent.core.display import DiffBlock, HunkAnswer, cut, landed
from codeagent.tui.pages.hunk_review import HunkReview
from codeagent.tui.parts.guard import TOO_SOON, Guard
from tests.table import for_each
from tests.tui.pages.stand_in import MANNERS, Clock, StandIn

LINES = [f"line {at}" for at in range(1, 61)]


def changed(*numbers: int) -> DiffBlock:
    after = [f"{line} new" if at in numbers else line for at, line in enumerate(LINES, 1)]
    return DiffBlock(
        path="src/a.py",
        before="\n".join(LINES) + "\n",
        after="\n".join(after) + "\n",
        start_line=101,
    )


THREE = changed(5, 8, 50)


class Review:
    """A review on screen, and what it gave."""

    def __init__(self, diff: DiffBlock = THREE) -> None:
        self.diff = diff
        self.clock = Clock()
        self.app = StandIn()
        self.page = HunkReview(diff)
        self.page.guard = Guard(self.clock)

    async def open(self, pilot: Pilot[None], *, wait: bool = True) -> None:
        self.app.push_screen(self.page, self.app.given.append)
        await pilot.pause()
        await pilot.pause()
        if wait:
            self.clock.now += 1.0

    async def press(self, pilot: Pilot[None], *keys: str) -> None:
        for key in keys:
            self.clock.now += 1.0
            await pilot.press(key)
            await pilot.pause()

    @property
    def answers(self) -> object:
        return self.app.given[0] if self.app.given else "none yet"

    def headings(self) -> list[str]:
        return [
            row.replace("─", " ").split("hunk ")[1].split(" · ")[1]
            for row in self.app.rows
            if " · line " in row
        ]


async def test_all_hunks_are_taken_unless_the_user_says_otherwise() -> None:
    review = Review()
    async with review.app.run_test(size=(80, 24)) as pilot:
        await review.open(pilot)
        assert "3 of 3 hunks" in review.app.rows[-1]
        await review.press(pilot, "j", "space", "j", "enter")
        assert review.answers == (True, False, True)


async def test_every_hunk_says_its_state_in_a_word_and_the_current_one_is_marked() -> None:
    review = Review()
    async with review.app.run_test(size=(80, 40)) as pilot:
        await review.open(pilot)
        await review.press(pilot, "j", "r")
        assert review.headings() == ["accept", "reject", "accept"]
        marked = [row for row in review.app.rows if row.strip().startswith("▸")]
        assert [row.split("·")[0].strip() for row in marked] == ["▸─ hunk 2 of 3"]
        assert "2 of 3 hunks · Enter applies" in review.app.rows[-1]


async def test_enter_applies_only_when_all_that_is_taken_was_on_screen() -> None:
    review = Review(changed(*range(1, 60, 8)))
    async with review.app.run_test(size=(80, 12)) as pilot:
        await review.open(pilot)
        await review.press(pilot, "enter")
        assert review.answers == "none yet"
        assert "hunks were not seen to the end: j reads on" in review.app.rows[-1]
        await review.press(pilot, *["j"] * 7, "enter")
        assert review.answers == (True,) * 8


async def test_a_rejected_hunk_is_drawn_as_secondary_text_until_it_is_taken_again() -> None:
    review = Review()
    async with review.app.run_test(size=(80, 40)) as pilot:
        await review.open(pilot)

        def colours() -> set[object]:
            strips = review.app.screen._compositor.render_strips()
            row = next(strip for strip in strips if "line 5 new" in strip.text)
            return {
                (part.style.color, part.style.bgcolor)
                for part in row
                if part.style and part.text.strip()
            }

        taken = colours()
        await review.press(pilot, "space")
        (rejected,) = colours()
        assert rejected[0] == review.app.palette.muted.color
        assert "105 + line 5 new" in review.app.shown
        await review.press(pilot, "space")
        assert colours() == taken


async def test_a_hunk_higher_than_the_screen_must_be_scrolled_to_its_end() -> None:
    review = Review(DiffBlock(path="a.py", before="", after="\n".join(LINES)))
    async with review.app.run_test(size=(80, 12)) as pilot:
        await review.open(pilot)
        await review.press(pilot, "j", "enter", "end", "enter")
        assert review.answers == "none yet"
        await review.press(pilot, "home", *["pagedown"] * 8, "enter")
        assert review.answers == (True,)


async def test_what_is_left_out_need_not_be_seen() -> None:
    review = Review(changed(*range(1, 60, 8)))
    async with review.app.run_test(size=(80, 12)) as pilot:
        await review.open(pilot)
        await review.press(pilot, "R", "enter")
        assert review.answers == (False,) * 8


async def test_what_was_seen_at_one_width_is_to_be_seen_again_where_it_was_not_whole() -> None:
    review = Review(DiffBlock(path="a.py", before="", after="\n".join(LINES)))
    async with review.app.run_test(size=(80, 24)) as pilot:
        await review.open(pilot)
        await review.press(pilot, "pagedown")
        await pilot.resize_terminal(70, 24)
        await pilot.pause()
        await review.press(pilot, "end", "enter")
        assert review.answers == "none yet"
        await review.press(pilot, "home", "enter")
        assert review.answers == (True,)


async def test_on_a_screen_too_small_to_show_anything_nothing_is_applied() -> None:
    review = Review()
    async with review.app.run_test(size=(80, 2)) as pilot:
        await review.open(pilot)
        await review.press(pilot, "j", "j", "enter")
        assert review.answers == "none yet"


@for_each("key", ["enter", "space", "R", "e"])
async def test_no_key_counts_in_the_first_half_second(key: str) -> None:
    review = Review(changed(5))
    async with review.app.run_test(size=(80, 24)) as pilot:
        await review.open(pilot, wait=False)
        review.clock.now += 0.4
        await pilot.press(key)
        assert review.answers == "none yet"
        assert TOO_SOON in review.app.rows[-1]
        review.clock.now += 0.2
        await pilot.press("enter")
        await pilot.pause()
        assert review.answers == (True,)


async def test_a_key_held_down_does_not_apply() -> None:
    review = Review(changed(*range(1, 60, 8)))
    async with review.app.run_test(size=(80, 60)) as pilot:
        await review.open(pilot)
        review.page.guard.admits("enter")
        review.clock.now += 0.1
        await pilot.press("enter")
        assert review.answers == "none yet"


async def test_esc_goes_back_without_an_answer_at_any_time() -> None:
    review = Review()
    async with review.app.run_test(size=(80, 24)) as pilot:
        await review.open(pilot, wait=False)
        await pilot.press("escape")
        await pilot.pause()
        assert review.answers is None


async def test_new_lines_are_written_in_place_and_seen_again() -> None:
    review = Review()
    async with review.app.run_test(size=(80, 24)) as pilot:
        await review.open(pilot)
        await review.press(pilot, "j", "e")
        assert "the new lines of hunk 2 of 3" in review.app.shown
        await review.press(pilot, "end", "exclamation_mark", "enter", "m", "ctrl+s")
        assert review.headings()[:2] == ["accept", "edited"]
        assert "1 edited" in review.app.rows[-1]
        assert "line 8 new!" in review.app.shown
        await review.press(pilot, "j", "enter")
        assert review.answers == (True, ("line 8 new!", "m"), True)
        assert "line 8 new!\nm\nline 9" in text_of(review.diff, review.answers)


async def test_what_was_begun_is_kept_when_the_user_goes_back_to_the_hunks() -> None:
    review = Review()
    async with review.app.run_test(size=(80, 24)) as pilot:
        await review.open(pilot)
        await review.press(pilot, "e", "end", "x", "escape")
        assert review.headings()[0] == "accept"
        assert "not taken; e opens it again" in review.app.rows[-1]
        await review.press(pilot, "e", "ctrl+s", "j", "j", "enter")
        assert review.answers == (("line 5 newx",), True, True)


async def test_keys_of_the_hunks_do_nothing_while_lines_are_written() -> None:
    review = Review()
    async with review.app.run_test(size=(80, 24)) as pilot:
        await review.open(pilot)
        await review.press(pilot, "e")
        review.page.set_focus(None)
        await review.press(pilot, "R", "R")
        assert review.page.sheet.answers == (True, True, True)
        assert review.page.sheet.text(0) == "line 5 new"


async def test_an_edited_hunk_can_be_left_out_and_taken_again() -> None:
    review = Review()
    async with review.app.run_test(size=(80, 24)) as pilot:
        await review.open(pilot)
        await review.press(pilot, "e", "end", "x", "ctrl+s", "space")
        assert review.headings()[0] == "reject"
        await review.press(pilot, "space")
        assert review.headings()[0] == "edited"
        await review.press(pilot, "a")
        assert review.headings()[0] == "accept"


async def test_in_the_editor_the_file_has_the_new_lines_and_its_own_suffix(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[str, str]] = []

    async def edit(app: object, text: str, *, suffix: str) -> str:
        asked.append((text, suffix))
        await asyncio.sleep(0)
        return "mine\nand mine"

    monkeypatch.setattr("codeagent.tui.pages.hunk_review.edit_in_editor", edit)
    review = Review()
    async with review.app.run_test(size=(80, 24)) as pilot:
        await review.open(pilot)
        await review.press(pilot, "ctrl+g", "j", "j", "enter")
        assert asked == [("line 5 new", ".py")]
        assert review.answers == (("mine", "and mine"), True, True)


async def test_without_an_editor_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    review = Review()
    async with review.app.run_test(size=(120, 24)) as pilot:
        await review.open(pilot)
        await review.press(pilot, "ctrl+g")
        assert "No editor is set: export EDITOR=vim, then start again." in review.app.rows[-1]


async def test_what_would_act_is_shown_and_not_put_into_a_field_to_write_in() -> None:
    review = Review(DiffBlock(path="a\u202e.py", before="x\n", after=f"{MANNERS}\n"))
    async with review.app.run_test(size=(120, 24)) as pilot:
        await review.open(pilot)
        assert "\\u202egnp.exe" in review.app.shown
        assert "a\\u202e.py" in review.app.rows[0]
        assert not any(char in review.app.shown for char in "\x1b\x07\u202e")
        await review.press(pilot, "e")
        assert (
            "it contains invisible characters: Ctrl+G edits it in your editor"
            in review.app.rows[-1]
        )


async def test_columns_are_beside_each_other_where_they_fit() -> None:
    review = Review(changed(5))
    async with review.app.run_test(size=(120, 24)) as pilot:
        await review.open(pilot)
        await review.press(pilot, "t")
        assert any("- line 5 " in row and "+ line 5 new" in row for row in review.app.rows)
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert not any("- line 5 " in row and "+ line 5 new" in row for row in review.app.rows)
        await review.press(pilot, "t")
        assert "two columns need 100 cells" in review.app.rows[-1]


async def test_all_lines_are_shown_on_request() -> None:
    review = Review(changed(5, 20))
    async with review.app.run_test(size=(80, 60)) as pilot:
        await review.open(pilot)
        assert "⋯ 8 unchanged lines" in review.app.shown
        assert "112 " not in review.app.shown
        await review.press(pilot, "f")
        assert "112 " in review.app.shown
        assert "unchanged lines" not in review.app.shown


async def test_a_hunk_that_scrolled_away_is_not_the_one_the_keys_are_for() -> None:
    review = Review()
    async with review.app.run_test(size=(80, 12)) as pilot:
        await review.open(pilot)
        await review.press(pilot, "end", "r")
        assert review.page.sheet.answers == (True, True, False)


async def test_it_stands_the_smallest_terminal() -> None:
    review = Review()
    async with review.app.run_test(size=(20, 5)) as pilot:
        await review.open(pilot)
        await review.press(pilot, "j", "e", "escape", "t", "f", "end", "R", "enter")
        assert review.answers == (False, False, False)


def text_of(diff: DiffBlock, answers: object) -> str:
    assert isinstance(answers, tuple)
    given: tuple[HunkAnswer, ...] = answers
    return landed(diff.before, cut(diff.before, diff.after), given)
