import asyncio
import random

import pytest
from textual.events import AppBlur, AppFocus, Key, Paste

from codeagent.core.approval_events import ApprovalRequested
from codeagent.tui.parts.guard import TOO_SOON
from tests.effort import times
from tests.tui.parts.cards import CardApp, command, edit

TEXT = "yes n y a A r t p e h please help it yyy nnn AAAA " * 4
EVERYTHING = [command("rm -rf build", proposal="bash(rm *)", editable=True), edit(everything=True)]


@pytest.mark.parametrize("question", EVERYTHING, ids=["command", "edit"])
async def test_two_hundred_characters_typed_while_a_card_appears_approve_nothing_and_are_all_kept(
    question: ApprovalRequested,
) -> None:
    app = CardApp()
    async with app.run_test(size=(80, 24)) as pilot:
        assert len(TEXT) == 200
        for at, character in enumerate(TEXT):
            if at == 100:
                app.approvals.add(question)
            app.clock.now += 0.01
            app.post_message(Key("space" if character == " " else character, character))
            await asyncio.sleep(0)
        await pilot.pause()
        assert app.composer.value == TEXT
        assert (app.decisions, app.hunks_wanted) == ([], [])
        assert not app.card.has_class("-writing")
        assert app.focused is app.composer


@pytest.mark.soak(tried=times(10))
@pytest.mark.parametrize("question", EVERYTHING, ids=["command", "edit"])
async def test_keys_at_the_speed_of_typing_in_the_line_of_a_rule_approve_nothing(
    question: ApprovalRequested,
) -> None:
    keys = [
        *"yapehnrA*",
        *["enter"] * 3,
        "space",
        "left",
        "right",
        "home",
        "end",
        "up",
        "down",
        "backspace",
    ]
    chance = random.Random(question.approval_id)
    app = CardApp(question)
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "end", "p")
        for _ in range(times(10)):
            app.line.value = question.proposal  # a rule that Enter would give
            pressed = chance.choices(keys, k=4)
            await app.keys(pilot, *pressed, apart=0.1)
            assert app.decisions == [], pressed
            assert app.card.has_class("-writing"), pressed


async def test_alt_with_a_letter_in_the_middle_of_typing_approves_nothing() -> None:
    app = CardApp(command("ls"))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "a")
        await app.keys(pilot, "alt+y", apart=0.4)
        assert app.answers == []
        assert TOO_SOON in app.text()
        assert app.composer.value == "a"


async def test_no_key_counts_within_half_a_second_of_the_question() -> None:
    app = CardApp()
    async with app.run_test(size=(80, 24)) as pilot:
        for key in ("y", "a", "p", "e", "h", "n", "r", "A", "enter", "space"):
            app.approvals.add(edit(everything=True))
            app.approvals.add(command("ls"))
            app.card.focus()
            await pilot.pause()
            await app.keys(pilot, key, apart=0.49)
            assert (app.answers, app.hunks_wanted) == ([], []), key
            assert not app.card.has_class("-writing"), key
            app.approvals.clear()
            await pilot.pause()


async def test_tab_within_half_a_second_leaves_the_focus_in_the_composer() -> None:
    app = CardApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.approvals.add(command("ls"))
        await app.keys(pilot, "tab", apart=0.4)
        assert app.focused is app.composer
        await app.keys(pilot, "tab")
        assert app.focused is app.card


async def test_a_key_held_down_through_the_appearance_never_answers() -> None:
    app = CardApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.approvals.add(command("ls"))
        await app.keys(pilot, "alt+y", apart=0.3)
        await app.keys(pilot, "alt+y", apart=0.66)
        await app.keys(pilot, *["alt+y"] * 12, apart=0.03)
        assert app.answers == []
        await app.keys(pilot, "alt+y")
        assert app.answers == [("b", "once", "")]


@pytest.mark.parametrize("question", EVERYTHING, ids=["command", "edit"])
async def test_a_paste_approves_nothing_wherever_it_lands(question: ApprovalRequested) -> None:
    app = CardApp(question)
    async with app.run_test(size=(80, 24)) as pilot:
        app.composer.post_message(Paste("y\ny"))
        await pilot.pause()
        await app.keys(pilot, "alt+y", apart=0.4)
        app.composer.value = ""
        await app.keys(pilot, "tab")
        app.card.post_message(Paste("y\na\nA\np\n\n"))
        await pilot.pause()
        await app.keys(pilot, "y", apart=0.4)
        await app.keys(pilot, "end", "p")
        app.line.post_message(Paste("y\n\n"))
        await pilot.pause()
        await app.keys(pilot, "enter", apart=0.4)
        assert app.answers == []


async def test_letters_that_mean_nothing_to_the_card_are_typing() -> None:
    app = CardApp(command("ls"))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "h")
        await app.keys(pilot, "e", "y", "p", "a", apart=0.1)
        assert app.answers == []


async def test_the_next_question_starts_the_wait_again_and_the_focus_stays() -> None:
    app = CardApp(command("ls"), edit())
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "y")
        app.approvals.remove("b")
        await app.keys(pilot, "n", apart=0.4)
        assert app.answers == [("b", "once", "")]
        assert app.focused is app.card
        await app.keys(pilot, "n")
        assert app.answers[1:] == [("e", "deny", "")]


async def test_a_window_that_comes_to_the_front_starts_the_wait_again() -> None:
    app = CardApp(command("ls"))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab")
        app.clock.now += 1
        app.post_message(AppBlur())
        await pilot.pause()
        app.post_message(AppFocus())
        await pilot.pause()
        await app.keys(pilot, "y", apart=0.4)
        assert app.answers == []


async def test_a_focus_that_nobody_asked_for_does_not_answer_at_once() -> None:
    app = CardApp(command("ls"))
    async with app.run_test(size=(80, 24)) as pilot:
        app.clock.now += 5
        app.card.focus()
        await pilot.pause()
        await app.keys(pilot, "y", apart=0.4)
        assert app.answers == []


async def test_one_bell_rings_for_each_question() -> None:
    app = CardApp()
    async with app.run_test(size=(80, 24)):
        app.approvals.add(command("ls"))
        app.approvals.add(edit())
        app.approvals.remove("b")
        assert app.bells == 2
