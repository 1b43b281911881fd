"""A rule, an edited call, and hunks: what is more than yes and no."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from textual.events import Key, Paste

from codeagent.core.display import DiffBlock, TextBlock
from codeagent.core.policy import Decision
from codeagent.tui.parts import card
from codeagent.tui.parts.external_editor import EditorFailed
from codeagent.tui.parts.guard import TOO_SOON
from tests.tui.parts.cards import CardApp, asking, command, edit, question

PYTEST = command("pytest -q", proposal="bash(pytest *)", editable=True)


def writes(monkeypatch: pytest.MonkeyPatch, *texts: str | Exception) -> list[tuple[str, str]]:
    """The user's editor makes these texts, one after the other; returns (text, suffix) of what it
    got."""
    given, made = list[tuple[str, str]](), iter(texts)

    async def edited(app: Any, text: str, *, suffix: str) -> str:
        given.append((text, suffix))
        now = next(made)
        if isinstance(now, Exception):
            raise now
        return now

    monkeypatch.setattr(card, "edit_in_editor", edited)
    return given


async def test_a_rule_stands_ready_and_enter_allows_with_it() -> None:
    app = CardApp()
    async with app.run_test(size=(80, 24)) as pilot:
        for keys in (("tab", "p"), ("alt+p",)):
            app.approvals.add(PYTEST)
            await app.keys(pilot, *keys)
            assert app.line.value == "bash(pytest *)", keys
            assert app.decisions == [], keys
            assert "for this session · no questions for what it matches" in app.text(), keys
            await app.keys(pilot, "enter")
            assert app.decisions == [Decision("rule", rule="bash(pytest *)")], keys
            assert "sent: allowed, with a rule" in app.text(), keys
            app.decisions.clear()
            app.approvals.clear()
            await pilot.pause()


async def test_a_rule_is_kept_only_after_the_card_said_so() -> None:
    app = CardApp(PYTEST)
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "p", "down", "up", "down")
        assert "always, in this folder · no questions for what it matches" in app.text()
        assert " Enter  always allow in this folder" in app.text()
        await app.keys(pilot, "enter", apart=0.4)
        assert app.decisions == []
        await app.keys(pilot, "enter")
        assert app.decisions == [Decision("rule", rule="bash(pytest *)", keep=True)]


async def test_hosts_are_kept_for_the_folder_unless_the_user_says_otherwise_and_never_is_one_key() -> (
    None
):
    said = TextBlock(text="pip install x\n\nwants to reach\n\n  a.org\n  b.org")
    asked = replace(asking("network", "n", "a.org, b.org", said), proposal="network(a.org, b.org)")
    app = CardApp(asked)
    async with app.run_test(size=(100, 24)) as pilot:
        await app.keys(pilot, "tab", "p")
        assert "always, in this folder · no questions for what it matches" in app.text()
        await app.keys(pilot, "enter")
        app.approvals.clear()
        app.approvals.add(asked)
        await app.keys(pilot, "tab", "v")
        assert app.decisions == [
            Decision("rule", rule="network(a.org, b.org)", keep=True),
            Decision("deny", rule="network(a.org, b.org)", keep=True),
        ]


async def test_a_rule_that_was_to_be_kept_is_not_when_it_is_begun_again() -> None:
    app = CardApp(PYTEST)
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "p", "down", "escape", "p")
        assert "for this session" in app.text()
        await app.keys(pilot, "enter")
        assert not app.decisions[0].keep


async def test_a_rule_that_does_not_fit_is_said_and_enter_does_nothing() -> None:
    app = CardApp(PYTEST)
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "p", "home", "x", "enter")
        assert "it must be about bash, not xbash" in app.text()
        await app.keys(pilot, "ctrl+u", "delete", *["ctrl+k"], *"bash", "enter")
        assert "a rule cannot allow every call" in app.text()
        assert app.decisions == []
        assert app.card.has_class("-writing")


async def test_a_rule_that_cannot_be_seen_whole_is_not_given() -> None:
    app = CardApp(PYTEST)
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "p")
        app.line.value = f"bash(pytest *{'?' * 80})"
        await app.keys(pilot, "enter")
        app.line.value = f"bash(pytest{'*' * 80})"
        await app.keys(pilot, "enter")
        assert app.decisions == []
        assert "too long to be shown in full" in app.text()
        await pilot.resize_terminal(120, 24)
        await app.keys(pilot, "enter")
        assert app.decisions != []


async def test_what_cannot_be_seen_in_a_proposal_or_a_paste_shows_and_looks_alike_are_named() -> (
    None
):
    hidden = command("pytest $X", proposal="bash(pytest\u202e *)")
    app = CardApp(hidden)
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "p")
        assert app.line.value == "bash(pytest\\u202e *)"
        app.line.value = ""
        app.line.post_message(Paste("bash(p\u0443test\x1b[2J\n *)"))
        await pilot.pause()
        assert app.line.value == "bash(p\u0443test\\x1b[2J *)"
        assert "1 look-alike: U+0443 as y" in app.text()
        assert "checked again when sent" in app.text()


async def test_typing_or_pasting_a_rule_and_enter_at_once_gives_nothing() -> None:
    app = CardApp(PYTEST)
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "p")
        await app.keys(pilot, "enter", apart=0.4)
        assert TOO_SOON in app.text()
        app.clock.now += 1
        app.line.post_message(Paste("\n"))
        await pilot.pause()
        await app.keys(pilot, "backspace")
        await app.keys(pilot, "enter", apart=0.1)
        assert app.decisions == []
        assert app.line.value == "bash(pytest *"


async def test_enter_that_is_held_down_does_not_go_through_the_rule() -> None:
    app = CardApp(PYTEST)
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "left", "enter")
        assert app.card.has_class("-writing")
        await app.keys(pilot, *["enter"] * 40, apart=0.05)
        assert app.decisions == []


LONG = edit(before="", after="\n".join(map(str, range(60))), everything=True)


async def test_a_rule_for_what_was_not_shown_to_its_end_reads_on_first() -> None:
    app = CardApp(LONG)
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "p")
        assert not app.card.has_class("-writing") and "page 2 of" in app.text()
        await app.keys(pilot, "end", "p")
        assert app.card.has_class("-writing")


async def test_what_allows_nothing_by_itself_needs_no_look_at_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edited = writes(monkeypatch, "{")
    app = CardApp()
    async with app.run_test(size=(80, 24)) as pilot:
        for key, begun in (
            ("n", lambda: [decision.answer for decision in app.decisions] == ["deny"]),
            ("r", lambda: app.card.has_class("-writing")),
            ("e", lambda: bool(edited)),
            ("h", lambda: bool(app.hunks_wanted)),
        ):
            app.decisions.clear()
            app.approvals.add(LONG)
            await app.keys(pilot, "tab", key)
            await app.workers.wait_for_complete()
            assert begun(), key
            assert key == "n" or app.decisions == [], key
            app.approvals.clear()
            await pilot.pause()


async def test_keys_are_offered_where_they_work_and_say_why_where_they_do_not() -> None:
    app = CardApp(command("ls"))
    async with app.run_test(size=(80, 24)) as pilot:
        for key, offered, said in (
            ("p", "always…", "no rule can be proposed for this: answer it each time"),
            ("e", " edit", "this call cannot be edited; r: say what to do instead"),
            ("h", "hunk by hunk", "this cannot be split: y is for all of it"),
        ):
            assert offered not in app.text()
            await app.keys(pilot, f"alt+{key}")
            assert said in app.text()
            await app.keys(pilot, "alt+y", apart=0.4)
        assert app.decisions == []


async def test_what_a_command_changed_is_taken_or_thrown_away_and_nothing_is_allowed_or_denied() -> (
    None
):
    effects = replace(edit(everything=True), name="effects", proposal="effects(src/**)")
    app = CardApp()
    async with app.run_test(size=(120, 24)) as pilot:
        for keys, sent in (
            (("y",), "sent: taken"),
            (("p", "enter"), "sent: taken, with a rule"),
            (("n",), "sent: thrown away"),
            (("r", "x", "enter"), "sent: thrown away"),
        ):
            app.approvals.add(effects)
            await app.keys(pilot, "tab")
            await app.keys(pilot, *keys)
            text = app.text()
            assert sent in text
            assert re.search(r"\b(allow|den(y|ied))\b", text) is None, text
            app.approvals.clear()
            await pilot.pause()
        app.approvals.add(effects)
        await app.keys(pilot, "tab", "r")
        assert "throw away, because …" in app.text()
        assert "throw away, with this reason" in app.text()
        await app.keys(pilot, "escape", "a")
        assert "what a command changed is asked about each time" in app.text()


async def test_a_list_of_all_and_a_question_of_the_agents_have_no_such_answers() -> None:
    app = CardApp(PYTEST, command("pytest -x", "2", proposal="bash(pytest *)"))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "A", "p", "e", "h")
        assert " A  allow both" in app.text() and not app.card.has_class("-writing")
    app = CardApp(question("red"))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "p", "e", "h")
        assert (app.decisions, app.card.has_class("-writing")) == ([], False)


async def test_a_command_is_edited_in_the_line_and_asked_about_again() -> None:
    app = CardApp(PYTEST)
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "e", "enter")
        assert "nothing was changed yet" in app.text()
        await app.keys(pilot, "space", "x", "enter")
        assert app.decisions == [Decision("edit", arguments='{"command": "pytest -q x"}')]
        assert "sent: as edited" in app.text()


async def test_an_edit_needs_no_look_at_all_of_the_call_and_survives_esc() -> None:
    app = CardApp(command("x" * 2000, editable=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "e", "!", "escape", "e", "enter")
        assert app.decisions == [
            Decision("edit", arguments=json.dumps({"command": "x" * 2000 + "!"}))
        ]


async def test_several_lines_and_other_tools_are_edited_outside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = writes(monkeypatch, "make\nmake test", '{"path": "src/new.py"}')
    app = CardApp(command("make\nmake lint", editable=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "e")
        await app.workers.wait_for_complete()
        await pilot.pause()
    assert app.decisions == [Decision("edit", arguments='{"command": "make\\nmake test"}')]
    app = CardApp(edit(everything=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "e")
        await app.workers.wait_for_complete()
        await pilot.pause()
    assert app.decisions == [Decision("edit", arguments='{"path": "src/new.py"}')]
    assert given == [("make\nmake lint", ".sh"), ('{\n  "path": "src/dates.py"\n}', ".json")]


async def test_what_is_no_json_is_said_kept_and_gone_on_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = writes(monkeypatch, "{", '{"path": "b"}')
    app = CardApp(edit(everything=True))
    async with app.run_test(size=(80, 24)) as pilot:
        for _ in range(2):
            await app.keys(pilot, "alt+e")
            await app.workers.wait_for_complete()
            await pilot.pause()
        assert app.told[0][0].startswith("not sent: not JSON: ")
        assert given[1] == ("{", ".json")
        assert app.decisions == [Decision("edit", arguments='{"path": "b"}')]


async def test_an_editor_that_fails_leaves_the_question_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writes(monkeypatch, EditorFailed("No editor is set."))
    app = CardApp(edit(everything=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "alt+e")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert (app.decisions, app.told) == ([], [("No editor is set.", "")])


async def test_what_was_written_about_a_question_that_went_away_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = CardApp(edit(everything=True))

    async def edited(*_: Any, suffix: str) -> str:
        app.approvals.clear()
        return '{"path": "b"}'

    monkeypatch.setattr(card, "edit_in_editor", edited)
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "alt+e")
        await app.workers.wait_for_complete()
        await pilot.pause()
        said = "the question is no longer pending; your text is in the composer"
        assert (app.decisions, app.told) == ([], [(said, '{"path": "b"}')])


async def test_what_is_sent_never_answers_another_question() -> None:
    app = CardApp(PYTEST, command("rm -rf build", "2", proposal="bash(rm *)", editable=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "e", "x")
        app.line.post_message(app.line.Submitted(app.line, "pytest -qx"))
        app.approvals.remove("b")
        await pilot.pause()
        assert app.decisions == []
        assert not app.card.has_class("-writing")


async def test_hunks_are_chosen_elsewhere_and_allow_once() -> None:
    app = CardApp(edit(everything=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "h")
        ((approval_id, diff),) = app.hunks_wanted
        assert (approval_id, isinstance(diff, DiffBlock), app.decisions) == ("e", True, [])
        assert app.card.take_hunks("e", (True, False))
        await pilot.pause()
        assert app.decisions == [Decision("once", hunks=(True, False))]
        assert "sent: in part" in app.text()
        assert not app.card.take_hunks("e", (True,))
        app.approvals.clear()
        assert not app.card.take_hunks("e", (True,))
        assert len(app.decisions) == 1


async def test_what_is_typed_right_behind_a_key_that_asks_for_a_reason_is_the_reason() -> None:
    """A slow line delivers several keys at once: none of them is taken for an answer."""
    app = CardApp(edit())
    async with app.run_test() as pilot:
        await app.keys(pilot, "tab", apart=10)
        app.clock.now += 10
        for key in ("r", *"say", "enter"):
            app.post_message(Key(key, "\r" if key == "enter" else key))
        await pilot.pause()
        await pilot.pause()
    assert app.answers == [("e", "deny", "say")]
