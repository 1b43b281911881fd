"""A question that was answered with yes and continues while its call runs: one card, not one after
the other."""

from dataclasses import replace

from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved, HostDecided
from codeagent.core.display import TerminalBlock, TextBlock
from codeagent.core.policy import HOSTS, Answer
from tests.table import for_each
from tests.tui.parts.cards import CardApp, asking, command

COMMAND = replace(command("make sync"), follows=True)
"""A command whose hosts are not known."""


def hosts(target: str) -> ApprovalRequested:
    shown = TerminalBlock(command="make sync"), TextBlock(text=f"wants to reach\n\n  {target}")
    return replace(asking(HOSTS, "h", target, *shown), call_id=COMMAND.call_id)


def answered(approval_id: str, answer: Answer) -> ApprovalResolved:
    return ApprovalResolved(
        approval_id=approval_id, call_id=COMMAND.call_id, answer=answer, source="user"
    )


async def test_the_card_stays_after_a_yes_shows_what_is_reached_and_asks_about_a_host() -> None:
    app = CardApp(COMMAND)
    async with app.run_test(size=(80, 24)) as pilot:
        app.approvals.resolve(answered("b", "once"))
        await pilot.pause()
        assert app.card.display and "Allowed, and running" in app.text()
        assert (
            "$ make sync" in app.text()
            and "The hosts that it connects to are shown here." in app.text()
        )
        app.approvals.reach(
            HostDecided(
                call_id=COMMAND.call_id, host="a.org", allowed=True, source="auto", reason=""
            )
        )
        await pilot.pause()
        assert "Reached so far: a.org" in app.text()
        app.approvals.add(hosts("b.org"))
        await pilot.pause()
        assert (
            "$ make sync" in app.text()
            and "b.org" in app.text()
            and "Allowed, and running" not in app.text()
        )
        app.approvals.resolve(answered("h", "deny"))
        await pilot.pause()
        assert "Reached so far: a.org, b.org (refused)" in app.text()
        app.approvals.end(COMMAND.call_id)
        await pilot.pause()
        assert not app.card.display


async def test_the_host_needs_an_answer_of_its_own_and_its_card_has_to_be_read_first() -> None:
    app = CardApp(COMMAND)
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "alt+y")
        app.approvals.resolve(answered("b", "once"))
        app.approvals.add(hosts("b.org"))
        await app.keys(pilot, "alt+y", apart=0.1)
        assert app.answers == [("b", "once", "")]
        await app.keys(pilot, "alt+y")
        assert app.answers[1:] == [("h", "once", "")]


async def test_a_card_that_only_follows_takes_neither_the_focus_nor_a_key_and_rings_no_bell() -> (
    None
):
    app = CardApp(COMMAND)
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "y")
        app.approvals.resolve(answered("b", "once"))
        await pilot.pause()
        assert app.composer.has_focus and app.bells == 1
        await app.keys(pilot, "alt+y", "tab", "h")
        assert app.composer.has_focus and app.composer.value == "h"
        assert len(app.answers) == 1


@for_each("answer", ["deny", "cancelled", "edit"])
async def test_a_question_that_was_not_answered_with_yes_does_not_continue(answer: Answer) -> None:
    app = CardApp(COMMAND)
    async with app.run_test(size=(80, 24)) as pilot:
        app.approvals.resolve(answered("b", answer))
        await pilot.pause()
        assert not app.card.display
