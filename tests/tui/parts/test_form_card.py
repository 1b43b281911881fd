"""A form on the card: all fields at once, filled in with the keyboard, checked as they are typed,
sent together."""

import json
from dataclasses import replace

import pytest

from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.display import FormField, QuestionBlock
from tests.tui.parts.cards import CardApp, asking

NAME = FormField(name="name", label="Name", required=True, at_least=2)
COUNT = FormField(
    name="count", label="How many", kind="integer", at_least=1, at_most=10, begins="3"
)
COLOR = FormField(name="color", label="Color", options=("red", "blue"))
SIZES = ((80, 24), (60, 20))


def form(*fields: FormField) -> ApprovalRequested:
    question = (
        "The MCP server forms asks, and gets your answer (never give it a password): Who are you?"
    )
    return replace(
        asking("ask_user", "f", "x", QuestionBlock(question=question, fields=fields)), reason=""
    )


def sent(app: CardApp) -> object:
    (decision,) = app.decisions
    return json.loads(decision.reason)


@pytest.mark.parametrize("size", SIZES)
async def test_all_fields_are_on_one_card_with_what_each_takes(size: tuple[int, int]) -> None:
    app = CardApp(form(NAME, COUNT, COLOR))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        shown = app.text()
        assert "› Name" in shown and "required, at least 2 characters" in shown
        assert "How many  3   a whole number, at least 1, at most 10" in shown
        assert "Color     ‹ – ›   red, blue" in shown


async def test_fields_are_filled_in_with_enter_and_sent_together() -> None:
    app = CardApp(form(NAME, COUNT, COLOR))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "enter", *"Ada", "enter")
        assert "› How many" in app.text()
        await app.keys(pilot, "enter", "backspace", "7", "enter", "right", "y")
        assert sent(app) == {"name": "Ada", "count": "7", "color": "red"}


async def test_left_right_and_enter_go_through_the_options_and_none() -> None:
    app = CardApp(form(COLOR))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "left", "left")
        assert "‹ red ›" in app.text()
        await app.keys(pilot, "left")
        assert "‹ – ›" in app.text()
        await app.keys(pilot, "enter", "y")
        assert sent(app) == {"color": "red"}


async def test_what_is_outside_the_bounds_is_not_taken_and_the_line_says_why() -> None:
    app = CardApp(form(COUNT))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "enter", "0", "enter")
        assert app.line.value == "30" and "How many: it takes at most 10" in app.text()
        await app.keys(pilot, "backspace", "backspace", "x", "enter")
        assert "How many: it takes a whole number" in app.text()
        await app.keys(pilot, "escape", "y")
        assert sent(app) == {"count": "3"}


async def test_a_form_without_a_required_field_is_not_sent() -> None:
    app = CardApp(form(COLOR, NAME))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "y")
        assert app.decisions == [] and "Name: it is required" in app.text()
        await app.keys(pilot, "n")
        assert app.answers == [("f", "deny", "")]


@pytest.mark.parametrize("size", SIZES)
async def test_fields_that_do_not_fit_are_on_further_pages(size: tuple[int, int]) -> None:
    app = CardApp(form(*(replace(COLOR, name=f"f{at}", label=f"Field {at}") for at in range(20))))
    async with app.run_test(size=size) as pilot:
        await app.keys(pilot, "tab")
        assert "of 20" in app.text()
        for at in range(20):
            assert f"› Field {at} " in app.text(), at
            await app.keys(pilot, "right", "down")
        await app.keys(pilot, "y")
        assert sent(app) == {f"f{at}": "red" for at in range(20)}


async def test_an_unfinished_text_stays_with_its_field() -> None:
    app = CardApp(form(NAME, replace(NAME, name="other", label="Other")))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "enter", "x", "escape", "down", "enter")
        assert app.line.value == ""
        await app.keys(pilot, "escape", "up", "enter")
        assert app.line.value == "x"
