from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from codeagent.tui.keymap import Keymap
from codeagent.tui.parts.boundary import (
    outline,
    pause_choices,
    paused_pieces,
    plan_content,
    plan_pieces,
    state_of,
    summary_content,
    title_of,
)
from codeagent.tui.parts.card_keys import ChoiceRow, labelled, letters_of
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.state import Paused, PausedCall, PlanReady, SummaryReady
from tests.table import for_each

CALL = PausedCall("c1", "bash", "make lint", "auto", "")
WIDE = 76
"""Cells inside the card on eighty columns."""


def rows(paused: Paused, width: int = WIDE, *, marked: int = 0, problem: str = "") -> list[str]:
    pieces = paused_pieces(paused, marked, problem)
    return [found.strip.text.rstrip() for piece in pieces for found in piece(width, Palette())]


@for_each(
    ("call", "words"),
    [
        (CALL, "runs"),
        (PausedCall("c1", "bash", "x", "prompt", "this tool asks"), "will ask"),
        (
            PausedCall("c1", "bash", "x", "deny", "outside\nthe workspace"),
            "denied: outside the workspace",
        ),
        (PausedCall("c1", "bash", "x", "deny", ""), "denied"),
        (PausedCall("c1", "bash", "x", "deny", "why", edited=True, skipped=True), "skipped"),
        (PausedCall("c1", "bash", "x", "auto", "", edited=True), "edited, runs"),
        (PausedCall("c1", "bash", "x", "deny", "why", edited=True), "edited, denied"),
    ],
)
def test_every_state_of_a_call_has_words(call: PausedCall, words: str) -> None:
    assert state_of(call) == words


@for_each(
    ("paused", "words"),
    [
        (Paused("step", "paused before batch 3", 3, (CALL,)), "paused before batch 3 · 1 call"),
        (Paused("asked", "", 3, (CALL, CALL)), "paused before batch 3 · 2 calls"),
        (Paused("asked", "paused", 0), "paused"),
        (Paused("budget", "the budget of $2 is used up", 0), "paused: the budget"),
        (Paused("limit", "turns: 50", 4, (CALL,)), "turns: 50 · 1 call"),
    ],
)
def test_the_title_says_where_it_waits(paused: Paused, words: str) -> None:
    assert title_of(paused) == words


def test_the_marked_call_is_shown_whole_and_the_others_in_a_row() -> None:
    long = "printf '%s\\n' " + "abc " * 40
    calls = (PausedCall("c1", "bash", long, "auto", ""), PausedCall("c2", "bash", long, "auto", ""))
    found = rows(Paused("step", "", 1, calls), marked=1)
    assert found[0].startswith("  1  bash  printf") and "…" in found[0]
    assert found[1].startswith("▸ 2  bash  printf")
    assert " ".join(" ".join(found[2:]).replace("↩", "").split()) == long.strip()


def test_the_row_of_a_long_command_shows_its_end() -> None:
    long = replace(CALL, target="echo " + "a" * 5_000 + "; rm -rf build")
    found = rows(Paused("step", "", 1, (CALL, long)))
    assert "rm -rf build" in found[1]


def test_what_does_not_fit_stands_below_the_call_it_is_about() -> None:
    found = rows(Paused("step", "", 1, (CALL, CALL)), problem="command: empty")
    assert [row.split() for row in found] == [
        ["▸", "1", "bash", "make", "lint", "runs"],
        ["command:", "empty"],
        ["2", "bash", "make", "lint", "runs"],
    ]


@given(
    st.lists(
        st.tuples(st.text(max_size=20), st.text(max_size=200), st.text(max_size=80)),
        min_size=1,
        max_size=12,
    ),
    st.integers(24, 200),
    st.data(),
)
def test_no_row_is_wider_than_the_card(
    calls: list[tuple[str, str, str]], width: int, data: st.DataObject
) -> None:
    made = tuple(
        PausedCall(
            str(at), name, target, data.draw(st.sampled_from(["auto", "prompt", "deny"])), reason
        )
        for at, (name, target, reason) in enumerate(calls)
    )
    pieces = paused_pieces(
        Paused("step", "", 1, made), data.draw(st.integers(0, len(made) - 1)), "no"
    )
    assert all(
        found.strip.cell_length <= width for piece in pieces for found in piece(width, Palette())
    )


def test_the_outline_of_a_plan_is_its_headings_and_items_without_code() -> None:
    text = "# Plan\n\nSome words.\n\n1. One\n   more of it\n- Two\n\n```py\n# none\n```\n"
    assert outline(text) == ["# Plan", "1. One", "- Two"]


def test_a_plan_and_a_summary_are_shown_again_only_once_they_were_changed() -> None:
    plan, summary = PlanReady("# Plan"), SummaryReady("# Summary", 3)
    for text, bodies in (("", 0), (" and more", 1)):
        card = plan_content(plan, plan.text + text, sent="")
        assert len(card.body) == bodies
        card = summary_content(summary, summary.text + text, sent="")
        assert len(card.body) == bodies


def test_a_plan_without_items_is_outlined_by_its_lines() -> None:
    assert outline("First this.\n\nThen that.\n") == ["First this.", "Then that."]


def test_a_long_plan_says_how_much_more_there_is() -> None:
    (piece,) = plan_pieces("\n".join(f"{n}. Step" for n in range(1, 21)))
    found = [line.strip.text for line in piece(40, Palette())]
    assert (len(found), found[-1]) == (7, "… 14 more")


@for_each("stepping", [True, False])
@for_each("why", ["step", "asked"])
def test_all_keys_of_a_batch_fit_eighty_columns(stepping: bool, why: str) -> None:
    paused = Paused(why, "", 3, (CALL,))  # type: ignore[arg-type]  # one of the words
    row = ChoiceRow()
    choices = pause_choices(paused, 0, stepping=stepping, focused=False)
    shown = labelled(choices, Keymap(), scope="boundary", focused=False)
    row.show(shown, marked="none", note="", off=False)
    rows = [line.strip.text for line in row.rows(WIDE, Palette())]
    assert len(rows) <= 2 and max(map(cell_len, rows)) <= WIDE
    labels = [
        choice.label.capitalize() if choice.label == "esc" else choice.label for choice in shown
    ]
    assert [
        label for label in labels if label != "text" and f" {label} " not in "\n".join(rows)
    ] == []
    assert rows[0].startswith(" Tab  to choose")


def test_the_users_own_keys_take_the_place_of_the_default_ones() -> None:
    own = Keymap({"boundary.skip": ("d",), "plan.start": ("o",)})
    paused, plan = letters_of("boundary", own, ()), letters_of("plan", own, ())
    assert (paused["d"], paused["alt+d"], "x" in paused) == ("x", "x", False)
    assert (plan["alt+o"], "p" in plan) == ("p", False)
    choices = pause_choices(Paused("step", "", 1, (CALL,)), 0, stepping=False, focused=True)
    shown = labelled(choices, own, scope="boundary", focused=True)
    assert "d" in [choice.label for choice in shown]
