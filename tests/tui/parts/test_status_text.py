from pathlib import Path
from typing import get_args

import pytest

from codeagent.core.policy import Mode
from codeagent.core.pulse import Pulse, duration
from codeagent.tui.parts.rows import fit, joined_width
from codeagent.tui.parts.status import (
    MODE_MEANS,
    greeting,
    phase_words,
    prompt_words,
    status_parts,
    with_model_cut,
    with_notice_cut,
)
from codeagent.tui.state import Paused, PlanReady
from codeagent.tui.status import Halt, Phase, Status
from codeagent.tui.transcript.spelling import dollars, tokens
from tests.table import for_each

FULL = Status().changed(
    phase="working",
    since=100.0,
    batch=2,
    context_tokens=18_200,
    context_window=200_000,
    cost_usd=0.041,
    input_tokens=100_000,
    cache_read_tokens=82_000,
)


def said(status: Status, width: int, now: float = 114.0) -> str:
    return " · ".join(part.text for part in fit(status_parts(status, now, Pulse()), width))


@for_each(
    ("status", "words"),
    [
        (Status().changed(phase="starting"), "starting"),
        (Status().changed(phase="idle"), "ready"),
        (Status().changed(phase="working", since=100.0), "working 14 s"),
        (Status().changed(phase="waiting", since=100.0), "waiting for you"),
        (Status().changed(phase="working", halt="pausing"), "pausing after this batch"),
        (Status().changed(phase="answering", halt="pausing"), "pausing after this answer"),
        (Status().changed(phase="working", halt="paused", batch=3), "paused before batch 3"),
        (Status().changed(phase="working", halt="paused"), "paused"),
        (Status().changed(phase="answering", halt="stopping"), "stopping"),
    ],
)
def test_every_phase_has_words(status: Status, words: str) -> None:
    assert phase_words(status.run, 114.0, Pulse()) == words


@for_each(
    ("pulse", "words"),
    [
        (Pulse("asking", "openai/qwen-small", since=87.0), "waiting for qwen-small · 27 s"),
        (Pulse("thinking", since=111.0, heard=113.0), "thinking 3 s"),
        (Pulse("thinking", since=87.0, heard=102.0), "silent for 12 s"),
        (Pulse("answering", since=87.0, heard=113.0), "answering"),
        (Pulse("answering", since=87.0, heard=102.0), "silent for 12 s"),
        (Pulse("writing", heard=113.0, tool="write", size=4_200), "writing 4 KB"),
        (Pulse("writing", heard=113.0, tool="bash", size=80), "writing 80 bytes for bash"),
        (Pulse("retrying", attempt=2, attempts=6, retry_at=121.2), "attempt 2 of 6 in 8 s"),
        (Pulse("retrying", attempt=2, attempts=6, retry_at=111.0), "attempt 2 of 6 · 3 s"),
        (Pulse("retrying", attempt=2, retry_at=121.2), "attempt 2 in 8 s"),
    ],
)
def test_the_status_says_how_the_answer_is_coming_and_calls_silence_silence(
    pulse: Pulse, words: str
) -> None:
    assert pulse.state
    assert phase_words(Status().changed(phase=pulse.state).run, 114.0, pulse) == words


def test_the_reason_for_a_retry_follows_its_countdown() -> None:
    pulse = Pulse("retrying", attempt=2, attempts=6, retry_at=121.2)
    status = Status().changed(phase="retrying", retry_reason="rate limited")
    assert phase_words(status.run, 114.0, pulse) == "attempt 2 of 6 in 8 s: rate limited"


@for_each(("detailed", "rate"), [(True, ["~25 tokens/s"]), (False, [])])
def test_the_rate_of_a_stream_is_shown_in_full_detail_only(detailed: bool, rate: list[str]) -> None:
    pulse = Pulse("answering", first=104.0, heard=113.0, characters=1_000)
    parts = status_parts(Status().changed(phase="answering", detailed=detailed), 114.0, pulse)
    assert [part.text for part in parts if "tokens/s" in part.text] == rate


@for_each(
    ("width", "line"),
    [
        (71, "waiting for Small-135M-Instruct.Q4_1.gguf · 27 s · esc pause · ? keys"),
        (60, "waiting for Small-135….Q4_1.gguf · 27 s · esc pause · ? keys"),
        (40, "waiting for Sma…gguf · 27 s · esc pause"),
    ],
)
def test_a_long_name_of_a_model_leaves_room_for_the_keys(width: int, line: str) -> None:
    status, pulse = (
        Status().changed(phase="asking"),
        Pulse("asking", "openai//models/Small-135M-Instruct.Q4_1.gguf", since=87.0),
    )
    parts = status_parts(status, 114.0, with_model_cut(status, 114.0, width, pulse))
    assert " · ".join(part.text for part in fit(parts, width)) == line


def test_a_wide_line_says_everything() -> None:
    assert said(FULL, 120) == (
        "working 14 s · esc pause · 18.2k/200k ctx · $0.041 · cache 82% · ⏎ steer · alt+⏎ later · ? keys"
    )


@for_each(
    ("width", "line"),
    [
        (77, "working 14 s · esc pause · 18.2k/200k ctx · $0.041 · cache 82% · ? keys"),
        (81, "working 14 s · esc pause · 18.2k/200k ctx · $0.041 · cache 82% · ⏎ steer · ? keys"),
        (41, "working 14 s · esc pause · 18.2k/200k ctx"),
        (20, "working 14 s"),
        (5, "working 14 s"),
    ],
)
def test_what_matters_least_goes_first_where_the_line_is_short(width: int, line: str) -> None:
    assert said(FULL, width) == line


@for_each(
    ("phase", "halt", "hint"),
    [
        ("working", "", "esc pause"),
        ("answering", "pausing", "Esc again stops now"),
        ("waiting", "pausing", "Esc again stops now"),
        ("working", "paused", "⏎ continue"),
        ("waiting", "", "tab answer"),
    ],
)
def test_the_key_that_matters_now_survives_forty_columns(
    phase: Phase, halt: Halt, hint: str
) -> None:
    line = said(FULL.changed(phase=phase, halt=halt), 48)
    assert hint in line
    assert len(line) <= 48


def test_step_mode_and_what_is_left_of_the_budget_are_said() -> None:
    line = said(FULL.changed(stepping=True, budget="$0.8 of $2 left"), 120)
    assert "· step mode · budget: $0.8 of $2 left ·" in line


@pytest.mark.parametrize(
    ("status", "boundary", "hint"),
    [
        (
            Status().changed(phase="working", halt="paused", batch=3),
            Paused("step", "", 3),
            "⏎ continue · tab step in · esc stop",
        ),
        (Status().changed(phase="waiting", commands=1), None, "esc stop your command · tab answer"),
        (Status().changed(phase="idle"), PlanReady("1. Do it"), "ready · tab start the plan"),
        (Status().changed(phase="idle"), None, "ready · ? keys"),
    ],
)
def test_the_hints_say_how_to_reach_the_card(
    status: Status, boundary: Paused | PlanReady | None, hint: str
) -> None:
    assert hint in " · ".join(
        part.text for part in fit(status_parts(status, 0.0, Pulse(), boundary), 100)
    )


def test_a_long_notice_is_cut_and_not_left_out() -> None:
    status = FULL.changed(
        phase="idle", notice="undone: library/__pycache__/calendar.pyc (/redo to restore)"
    )
    parts = fit(with_notice_cut(status_parts(status, 0.0, Pulse()), status, 50), 50)
    line = " · ".join(part.text for part in parts)
    assert line.startswith("ready · undone: library/") and line.endswith("…") and len(line) <= 50


def test_a_notice_takes_the_place_of_the_hints() -> None:
    line = said(FULL.changed(notice="copied 12 lines"), 120)
    assert line == "working 14 s · copied 12 lines · 18.2k/200k ctx · $0.041 · cache 82%"


def test_a_notice_cannot_act_on_the_terminal() -> None:
    assert "\x1b" not in said(FULL.changed(notice="a\x1b]52;c;x\x07\nb"), 120)


def test_what_is_not_known_is_not_said() -> None:
    assert said(Status().changed(phase="idle"), 120) == "ready · ? keys"


def test_where_no_price_is_known_the_line_says_so() -> None:
    assert "18.2k/200k ctx · no price" in said(FULL.changed(cost_usd=None), 120)


def test_estimates_say_that_they_are() -> None:
    assert "~18.2k/200k ctx · ~$0.041" in said(FULL.changed(estimated=True), 120)


def test_a_window_that_is_not_known_is_left_out() -> None:
    assert "18.2k ctx" in said(FULL.changed(context_window=None), 120)


@for_each("width", range(1, 130))
def test_only_the_first_part_may_be_too_wide(width: int) -> None:
    parts = fit(status_parts(FULL, 114.0, Pulse()), width)
    assert len(parts) == 1 or joined_width(parts) <= width


@for_each(
    ("seconds", "words"),
    [
        (-3.0, "0 s"),
        (0.9, "0 s"),
        (59.9, "59 s"),
        (60.0, "1 min 0 s"),
        (3599.0, "59 min 59 s"),
        (3780.0, "1 h 3 min"),
    ],
)
def test_a_duration_is_said_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@for_each(
    ("count", "words"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1k"),
        (18_240, "18.2k"),
        (200_000, "200k"),
        (999_960, "1M"),
        (1_250_000, "1.2M"),
    ],
)
def test_token_counts_are_short(count: int, words: str) -> None:
    assert tokens(count) == words


@for_each(
    ("cost", "words"),
    [(0.0, "$0.000"), (0.0004, "<$0.001"), (0.0412, "$0.041"), (1.239, "$1.24"), (12.0, "$12.00")],
)
def test_a_cost_never_looks_like_nothing_when_it_is_something(cost: float, words: str) -> None:
    assert dollars(cost) == words


def test_jobs_that_run_are_counted_in_every_phase() -> None:
    assert "1 job · " in said(FULL.changed(jobs=1), 120)
    assert said(Status().changed(phase="idle", jobs=2), 80) == "ready · 2 jobs · ? keys"


def test_a_call_that_is_waited_for_a_minute_may_go_to_the_background() -> None:
    offer = "60 s · ctrl+b moves it to the background"
    waits = FULL.changed(waits_since=100.0)
    assert offer not in said(waits, 120, now=159.9)
    assert offer in said(waits, 120, now=160.0)
    assert offer in said(waits.changed(halt="pausing"), 120, now=200.0)
    assert "3 min · ctrl+b moves it to the background" in said(waits, 120, now=299.0)


@for_each(
    ("phase", "halt"), [("waiting", ""), ("working", "paused"), ("idle", ""), ("thinking", "")]
)
def test_nothing_is_offered_while_it_is_the_users_turn_or_nothing_runs(
    phase: Phase, halt: Halt
) -> None:
    assert "background" not in said(
        FULL.changed(phase=phase, halt=halt, waits_since=0.0), 200, now=500.0
    )


def test_a_question_that_waits_is_still_offered_while_a_pause_was_asked_for() -> None:
    assert "Esc again stops now · tab answer" in said(
        FULL.changed(phase="waiting", halt="pausing"), 120
    )


def test_the_offer_makes_room_for_what_just_happened() -> None:
    status = FULL.changed(waits_since=0.0, notice="copied 3 lines")
    assert "background" not in said(status, 200, now=500.0)


@for_each(
    ("status", "boundary", "words"),
    [
        (Status().changed(phase="idle"), None, "What would you like to do?"),
        (Status().changed(phase="starting"), None, "What would you like to do?"),
        (Status().changed(phase="answering"), None, "Type to steer"),
        (Status().changed(phase="waiting"), None, "Tab to answer, or type to steer"),
        (Status().changed(phase="waiting", on_card=True), None, "Tab to type here"),
        (
            Status().changed(phase="working", halt="paused"),
            None,
            "Enter to continue, or type to steer",
        ),
        (
            Status().changed(phase="idle"),
            PlanReady("1. Do it"),
            "Tab to start the plan, or say what to change",
        ),
    ],
)
def test_the_empty_composer_says_what_typing_would_do(
    status: Status, boundary: PlanReady | None, words: str
) -> None:
    assert prompt_words(status, boundary) == words


def test_with_the_keys_on_the_card_the_status_line_says_how_to_get_back() -> None:
    assert "tab back to typing" in said(FULL.changed(phase="waiting", on_card=True), 60)


def test_every_mode_says_what_it_means() -> None:
    assert set(MODE_MEANS) == set(get_args(Mode))


def test_a_new_session_says_in_six_lines_what_it_is_and_what_to_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    status = Status().changed(branch="main", changes=1, model="demo", mode="plan")
    rows = greeting(status, Path("/home/ada/src/acme"), "?")
    assert len(rows) == 6
    assert dict(rows)["folder"] == "~/src/acme · main · 1 changed file"
    assert dict(rows)["mode"] == "plan: reads run, nothing is changed"
    assert "/ commands · @ files · ? all keys" in dict(rows)["try"]
