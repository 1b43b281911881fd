import random

import pytest
from textual.widgets import Static

from codeagent.core.display import UnknownBlock
from codeagent.tui.parts.approval_body import asked, pieces
from codeagent.tui.parts.guard import TOO_SOON, ReadGate
from codeagent.tui.parts.line_pane import LinePane
from tests.effort import FACTOR, times
from tests.tui.parts.cards import CardApp, asking, command, edit

SIZES = [(120, 40), (80, 24), (40, 12)]
COMMANDS = 1_000 if FACTOR else 24
PIECES = [
    "git status",
    "\n",
    "\n\n\n",
    " " * 300,
    "\t\t",
    "rm -rf /",
    "x" * 400,
    "é長",
    "\x1b[2J",
    "\u202e",
    "&& ",
    "|",
    "'",
]


def random_command(seed: int) -> str:
    chance = random.Random(seed)
    return "".join(chance.choices(PIECES, k=chance.randint(1, 30))).strip() or "ls"


@pytest.mark.soak(tried=times(4), row="hidden tails")
@pytest.mark.parametrize("size", SIZES)
async def test_either_everything_was_on_screen_or_allowing_is_off(size: tuple[int, int]) -> None:
    app = CardApp()
    gated = 0
    async with app.run_test(size=size) as pilot:
        for seed in range(times(4)):
            text = random_command(seed)
            app.approvals.add(command(text, f"b{seed}"))
            await pilot.pause()
            pane = app.card.query_one(LinePane)
            while not pane.complete:
                await pilot.pause()
            await pilot.pause()
            drawn = app.text()
            await app.keys(pilot, "alt+y")
            if not app.answers:
                gated += 1
                assert "Alt+Y: read on, page 1 of " in drawn
                pane.turn("end")
                await pilot.pause()
                await pilot.pause()
                await app.keys(pilot, "alt+y")
            else:
                assert len(pane.lines) <= pane.size.height
                assert all(line.strip.text.rstrip() in drawn for line in pane.lines)
            assert app.answers == [(f"b{seed}", "once", "")]
            app.answers.clear()
            app.approvals.remove(f"b{seed}")
    assert gated


@pytest.mark.soak(tried=COMMANDS, row="hidden tails")
@pytest.mark.parametrize("size", SIZES)
async def test_of_many_commands_every_row_was_on_screen_before_the_gate_opens(
    size: tuple[int, int],
) -> None:
    """One card for all of them, without waiting for frames: what the pane would draw now is what is
    looked at."""
    app = CardApp(command("\n".join(map(str, range(200)))))
    opened_at_once = 0
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        pane, gate = app.card.query_one(LinePane), ReadGate(app.card.query_one(LinePane))
        height = pane.scrollable_content_region.height
        for seed in range(COMMANDS):
            question = command(random_command(seed), f"b{seed}")
            pane.show(pieces(asked(question), split=False))
            while not pane.complete:
                pane._more()
            seen: set[int] = set()
            while True:
                top = pane.scroll_offset.y
                shown = range(top, min(top + height, len(pane.lines)))
                assert [pane.render_line(row - top).text.rstrip() for row in shown] == [
                    pane.lines[row].strip.text.rstrip() for row in shown
                ]
                seen |= set(shown)
                gate.look((question,))
                if not gate.why_closed((question,)):
                    break
                page, pages = pane.pages
                assert page < pages and f"y: read on, page {page} of {pages}" in gate.why_closed(
                    (question,)
                )
                pane.turn("pagedown")
            assert pane.pages[0] == pane.pages[1]
            assert seen == set(range(len(pane.lines)))
            opened_at_once += len(pane.lines) <= height
    assert 0 < opened_at_once < COMMANDS


async def test_another_question_with_the_same_id_is_not_taken_for_the_one_that_was_seen() -> None:
    app = CardApp(command("ls"))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab")
        app.approvals.remove("b")
        app.approvals.add(command("ls\n" * 60 + "rm -rf /"))
        await app.keys(pilot, "alt+y")
        assert app.answers == []
        assert "read on" in app.text()


async def test_a_command_with_sixty_newlines_cannot_hide_its_tail() -> None:
    app = CardApp(
        command("git status" + "".join(f"\n: {number}" for number in range(60)) + "\nrm -rf /")
    )
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "read on, page 1 of" in app.text()
        await app.keys(pilot, "alt+y", "alt+a")
        assert app.answers == []
        assert "read on, page 3 of" in app.text()
        await app.keys(pilot, *["alt+pagedown"] * 7)
        await app.keys(pilot, "alt+a")
        assert app.answers == [("b", "session", "")]


@pytest.mark.parametrize("way", ["tab", "alt"])
async def test_each_y_turns_a_page_and_the_one_on_the_last_page_answers(way: str) -> None:
    key = "y" if way == "tab" else "alt+y"
    app = CardApp(command("".join(f": {number}\n" for number in range(20)) + "rm -rf /"))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, *(["tab"] if way == "tab" else []))
        pages = app.card.query_one(LinePane).pages[1]
        assert pages > 2
        for page in range(1, pages):
            assert app.answers == []
            assert (
                f"{'y' if way == 'tab' else 'Alt+Y'}: read on, page {page} of {pages}" in app.text()
            )
            await app.keys(pilot, key)
        assert "rm -rf /" in app.text() and "read on" not in app.text()
        await app.keys(pilot, key)
        assert app.answers == [("b", "once", "")]


async def test_a_y_that_is_held_down_reads_to_the_end_and_allows_nothing() -> None:
    app = CardApp(command("".join(f": {number}\n" for number in range(20)) + "rm -rf /"))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab")
        await app.keys(pilot, "y")
        await app.keys(pilot, *["y"] * 40, apart=0.05)
        assert app.answers == []
        assert "rm -rf /" in app.text()


async def test_enter_on_what_allows_neither_reads_on_nor_allows_what_was_not_read() -> None:
    app = CardApp(command("".join(f": {number}\n" for number in range(20)) + "rm -rf /"))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "left", "left", "enter", "enter")
        assert app.answers == []
        assert "read on, page 1 of" in app.text()
        await app.keys(pilot, "end", "enter")
        assert app.answers == [("b", "once", "")]


async def test_the_list_of_all_says_by_its_own_key_that_there_is_more_to_read() -> None:
    app = CardApp(command("ls\n" * 30, "1"), command("pwd", "2"))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "A")
        assert "A: read on, page 1 of" in app.text()


async def test_a_y_in_the_first_half_second_turns_no_page() -> None:
    app = CardApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.approvals.add(command(": 1\n" * 30))
        await app.keys(pilot, "alt+y", apart=0.49)
        assert "page 1 of" in app.text() or TOO_SOON in app.text()
        assert app.card.query_one(LinePane).scroll_offset.y == 0


async def test_what_was_seen_once_stays_seen() -> None:
    app = CardApp(command("x" * 1500), command("pwd", "2"))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "read on" not in app.text()
        await pilot.resize_terminal(40, 24)
        await pilot.pause()
        assert "read on" not in app.text()
        await app.keys(pilot, "tab", "A", "n", "home")
        assert "read on" not in app.text()
        await app.keys(pilot, "y")
        assert app.answers == [("b", "once", "")]


async def test_a_terminal_too_small_to_show_it_cannot_approve() -> None:
    app = CardApp()
    async with app.run_test(size=(20, 3)) as pilot:
        for size in ((20, 3), (3, 24)):
            await pilot.resize_terminal(*size)
            app.approvals.add(command("ls -la"))
            await app.keys(pilot, "alt+end", "alt+y")
            assert app.answers == [], size
            await app.keys(pilot, "alt+n")
            assert app.answers == [("b", "deny", "")], size
            app.answers.clear()
            app.approvals.clear()


async def test_what_something_else_covers_cannot_be_allowed() -> None:
    app = CardApp(command("ls -la"))
    async with app.run_test(size=(80, 24)) as pilot:
        cover = Static("x")
        app.screen.styles.layers = ("default", "above")
        cover.styles.layer = "above"
        cover.styles.width, cover.styles.height = 80, 24
        await app.mount(cover)
        await app.keys(pilot, "alt+y")
        assert app.answers == []
        await cover.remove()
        await pilot.pause()
        await app.keys(pilot, "alt+y", "alt+y")
        assert app.answers == [("b", "once", "")]


async def test_twenty_by_five_can_still_be_answered() -> None:
    app = CardApp(command("ls -la"))
    async with app.run_test(size=(20, 5)) as pilot:
        await app.keys(pilot, "alt+y")
        assert app.answers == []
        await app.keys(pilot, "alt+end")
        await app.keys(pilot, "alt+y")
        assert app.answers == [("b", "once", "")]


async def test_what_this_version_cannot_show_cannot_be_allowed() -> None:
    app = CardApp(asking("deploy", "d", "prod", UnknownBlock(type="hologram")))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "alt+y")
        assert app.answers == []
        assert "cannot be shown" in app.text()
        await app.keys(pilot, "alt+n")
        assert app.answers == [("d", "deny", "")]


async def test_the_whole_batch_is_listed_whole_before_it_can_be_allowed() -> None:
    app = CardApp(command("ls\n" * 30 + "true", "1"), edit("2"), command("pwd", "3"))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "A", "y", "A")
        assert app.answers == []
        assert "Allow all 3 calls?" in app.text()
        await app.keys(pilot, "end")
        await app.keys(pilot, "A")
        assert app.answers == [("1", "once", ""), ("2", "once", ""), ("3", "once", "")]


async def test_a_question_that_arrives_closes_the_gate_of_the_list_again() -> None:
    app = CardApp(command("ls", "1"), command("pwd", "2"))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "A")
        app.approvals.add(command("rm -rf /", "3"))
        await app.keys(pilot, "A", apart=0.4)
        assert app.answers == []
        await pilot.pause()
        assert "Allow all 3 calls?" in app.text()
