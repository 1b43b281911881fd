"""Blocks as rows: what each says, at every detail, and that nothing of it acts on a terminal."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from codeagent.core.display import (
    DiffBlock,
    FilesBlock,
    ImageBlock,
    MarkdownBlock,
    QuestionBlock,
    TerminalBlock,
    TextBlock,
    UnknownBlock,
)
from codeagent.tui.rendering.lines import Line
from codeagent.tui.rendering.output_buffer import OutputBuffer
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.theme_file import INK, theme_from
from codeagent.tui.transcript.blocks import (
    AnswerBlock,
    AnyBlock,
    Batch,
    CallCard,
    CallState,
    CommandBlock,
    Detail,
    Ending,
    Pieces,
    PromptBlock,
    Remark,
    Thoughts,
)
from codeagent.tui.transcript.document import Document
from codeagent.tui.transcript.layout import Drawn, Look, Spot
from codeagent.tui.transcript.render import draw, estimate, gap, runs, toggled
from codeagent.tui.transcript.render import printed as printed_transcript
from codeagent.tui.transcript.render_call import Memo
from tests.table import for_each

NOW = 1_000.0
COLOURED = theme_from(INK).palette


def look(detail: Detail = "normal", width: int = 78) -> Look:
    return Look(width, detail, Palette(), NOW)


def rows(block: AnyBlock, detail: Detail = "normal", width: int = 78) -> list[str]:
    drawn = draw(block, look(detail, width))
    return [(drawn.margin.text + line.strip.text).rstrip() for line in drawn.lines]


def printed(text: str) -> OutputBuffer:
    buffer = OutputBuffer()
    buffer.feed(text)
    return buffer


def card(**changes: object) -> CallCard:
    made = CallCard("c1", "bash", "make test")
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def batch(*cards: CallCard, finished: bool = True) -> Batch:
    return Batch(0, number=1, cards=list(cards), finished=finished, duration_ms=400)


def test_what_the_user_said_has_a_bar_and_the_word_you() -> None:
    assert rows(PromptBlock(0, text="fix it")) == ["▌ you    fix it"]
    assert rows(PromptBlock(0, text="and more", source="steer"))[0] == "▌ you (while running)"
    assert rows(PromptBlock(0, text="one\ntwo")) == ["▌ you    one", "▌        two"]


def test_copying_a_prompt_gives_what_was_typed_without_the_bar_or_the_word() -> None:
    text = "a rather long sentence that wraps at this width and goes on"
    lines = draw(PromptBlock(0, text=text), look(width=30)).lines
    assert len(lines) > 2
    assert "".join((line.joins or "") + line.text for line in lines) == text


def test_a_very_long_prompt_is_shown_in_part_and_whole_in_full_detail() -> None:
    block = PromptBlock(0, text="\n".join(f"row {number}" for number in range(100)))
    assert rows(block)[-1] == "▌ … 689 characters in all (click to expand)"
    assert len(rows(block)) == 31
    assert len(rows(block, "full")) == 100


def test_an_answer_is_markdown_behind_the_margin() -> None:
    assert rows(AnswerBlock(0, pieces=Pieces("some **bold** words"), open=False)) == [
        "  some bold words"
    ]


def test_an_answer_that_broke_off_says_so() -> None:
    assert (
        rows(AnswerBlock(0, pieces=Pieces("half"), open=False, cut=True))[-1]
        == "  interrupted here"
    )


def test_thoughts_fold_to_one_line_with_how_long_they_took() -> None:
    block = Thoughts(0, pieces=Pieces("first\nsecond"), open=False, began=10.0, ended=13.24)
    assert rows(block) == ["  ▸ thought for 3.2 s"]
    assert rows(block, "full") == ["  ▾ thought for 3.2 s", "    first", "    second"]


def test_thoughts_of_an_unknown_time_name_none() -> None:
    assert rows(Thoughts(0, pieces=Pieces("x"), open=False, began=10.0)) == ["  ▸ thought"]
    assert rows(Thoughts(0, pieces=Pieces("x"), open=False, began=10.0, ended=10.0)) == [
        "  ▸ thought"
    ]


def test_open_thoughts_show_their_last_lines_and_the_time_that_passes() -> None:
    block = Thoughts(
        0, pieces=Pieces("\n".join(f"line {number}" for number in range(9))), began=NOW - 5
    )
    assert rows(block) == ["  ▾ thinking 5 s", "    line 6", "    line 7", "    line 8"]
    assert rows(block, "quiet") == ["  ▸ thinking 5 s"]


def test_a_batch_has_a_header_and_one_line_per_call_in_columns() -> None:
    block = batch(
        CallCard("a", "read", "src/dates.py", state="done", note="212 lines"),
        CallCard("b", "search", '"is_leap"', state="done", note="4 matches in 2 files"),
    )
    assert rows(block) == [
        "  ▸ read, search · batch 1 · 0.4 s",
        "    ✓ read    src/dates.py  212 lines",
        '    ✓ search  "is_leap"     4 matches in 2 files',
    ]


def test_the_only_call_of_a_batch_is_on_the_line_of_the_batch() -> None:
    read = CallCard("a", "read", "src/dates.py", state="done", note="212 lines", duration_ms=2000)
    assert rows(batch(read)) == ["  ▸ ✓ read  src/dates.py  212 lines · 2.0 s · batch 1"]
    failed = card(state="failed", note="exit 2", output=printed("boom\n"))
    assert rows(batch(failed)) == [
        "  ▸ ✗ bash  make test  failed · exit 2 · batch 1",
        "      │ boom",
    ]
    asking = batch(card(state="asking"), finished=False)
    assert rows(asking) == ["  ▾ ● bash  make test  waiting for you · batch 1"]


def test_a_long_call_leaves_room_for_how_it_went_and_for_its_batch() -> None:
    long = CallCard("a", "bash", "make " + "very/" * 30, state="done", note="exit 0")
    (row,) = rows(batch(long))
    assert row.startswith("  ▸ ✓ bash  make very/") and row.endswith("…  exit 0 · batch 1")


def test_a_long_name_is_whole_if_there_is_room_and_else_keeps_its_end() -> None:
    names = ("mcp__calendar__book_room", "mcp__calendar__list_rooms")
    short = batch(*(CallCard(name, name, "", state="done", note="done") for name in names))
    assert [row.split() for row in rows(short)[1:]] == [["✓", name, "done"] for name in names]
    target = "a long target that leaves no room for the whole of such a name"
    long = batch(*(CallCard(name, name, target, state="done", note="done") for name in names))
    assert [row.split()[1] for row in rows(long)[1:]] == ["mcp__c…ok_room", "mcp__c…t_rooms"]
    assert all(row.endswith("done") for row in rows(long)[1:])


def test_a_quiet_batch_is_one_line_that_names_its_calls_and_hides_no_trouble() -> None:
    block = batch(card(state="done"), card(state="failed"), card(state="denied"), finished=False)
    (row,) = rows(block, "quiet")
    assert row == "  ▸ bash make test, make test, make test · batch 1 · 1 failed · 1 denied"
    read = CallCard("a", "read", "src/" + "long/" * 30, state="done")
    (row,) = rows(batch(read, card(state="failed")), "quiet")
    assert row.startswith("  ▸ read src/long/") and row.endswith("… · batch 1 · 0.4 s · 1 failed")


def test_a_batch_counts_the_calls_of_a_tool() -> None:
    block = batch(card(state="done"), CallCard("b", "read", "a.py", state="done"), card())
    assert rows(block)[0] == "  ▸ bash ×2, read · batch 1 · 0.4 s"


def test_a_call_that_the_user_stopped_is_not_red() -> None:
    stopped = card(state="cancelled", error="2 processes stopped")
    drawn = draw(batch(stopped), Look(80, "normal", COLOURED, NOW))
    styles = {part.style for row in drawn.lines for part in row.strip}
    assert COLOURED.error not in styles and COLOURED.warning in styles


def test_what_is_done_is_quieter_than_what_is_not() -> None:
    def name_of(state: CallState) -> Style | None:
        row = draw(batch(card(state=state)), Look(80, "normal", COLOURED, NOW)).lines[0]
        return next(part.style for part in row.strip if part.text.startswith("bash"))

    assert name_of("done") == COLOURED.text
    assert name_of("asking") == name_of("failed") == COLOURED.strong
    assert "bash waiting for you" in rows(batch(card(state="asking"), finished=False), "quiet")[0]


@for_each(
    ("changes", "mark", "words"),
    [
        ({"state": "planned"}, "○", "planned"),
        ({"state": "planned", "asks": True}, "○", "planned, will ask you"),
        ({"state": "asking"}, "●", "waiting for you"),
        ({"state": "running", "began": NOW - 3}, "●", "running 3 s"),
        ({"state": "running", "began": NOW - 3, "progress": "4 of 9"}, "●", "running 3 s · 4 of 9"),
        ({"state": "done"}, "✓", "done"),
        ({"state": "done", "note": "212 lines"}, "✓", "212 lines"),
        ({"state": "done", "duration_ms": 2_340}, "✓", "2.3 s"),
        (
            {"state": "failed", "note": "exit 1", "duration_ms": 75_000},
            "✗",
            "failed · exit 1 · 1 min 15 s",
        ),
        ({"state": "timeout"}, "✗", "timed out"),
        ({"state": "denied"}, "–", "denied"),
        ({"state": "skipped"}, "–", "skipped"),
        ({"state": "cancelled"}, "–", "cancelled"),
    ],
)
def test_every_state_has_a_mark_and_words(
    changes: dict[str, object], mark: str, words: str
) -> None:
    row = f"    {mark} bash  make test  {words}"
    assert rows(batch(card(**changes), card(**changes)))[1:] == [row, row]


def test_a_running_call_shows_the_last_lines_it_printed_behind_a_bar() -> None:
    block = batch(
        card(state="running", began=NOW, output=printed("".join(f"{n}\n" for n in range(20))))
    )
    shown = rows(block)[1:]
    assert shown == [f"      │ {number}" for number in range(12, 20)]
    assert len(rows(block, "quiet")) == 1


def test_a_finished_command_shows_the_last_lines_it_printed_and_quiet_none_of_them() -> None:
    done = batch(
        card(state="done", note="exit 0", output=printed("".join(f"{n}\n" for n in range(20))))
    )
    shown = rows(done)
    assert shown[0].endswith("exit 0 · batch 1")
    assert shown[1:] == [
        "      … 15 earlier lines (click to expand)",
        *(f"      │ {n}" for n in range(15, 20)),
    ]
    assert len(rows(done, "quiet")) == 1
    assert len(rows(done, "full")) == 1 + 20


def test_nothing_folds_away_fewer_than_five_rows() -> None:
    short = batch(card(state="done", output=printed("".join(f"{n}\n" for n in range(9)))))
    assert rows(short)[1:] == [f"      │ {n}" for n in range(9)]
    after = "".join(f"new {number}\n" for number in range(16))
    whole = batch(
        card(name="edit", state="done", shown=(DiffBlock(path="src/a.py", before="", after=after),))
    )
    assert len(rows(whole)) == 1 + 16


def test_rows_that_did_not_change_give_way_before_those_that_did() -> None:
    before = "".join(f"line {number}\n" for number in range(60))
    after = (
        before.replace("line 10\n", "ten\n")
        .replace("line 30\n", "thirty\n")
        .replace("line 50\n", "fifty\n")
    )
    shown = rows(
        batch(
            card(
                name="edit", state="done", shown=(DiffBlock(path="a", before=before, after=after),)
            )
        )
    )
    assert all(any(word in row for row in shown) for word in ("ten", "thirty", "fifty"))
    assert not any("expand" in row for row in shown) and len(shown) < 20


def test_what_the_user_answered_stands_below_the_call() -> None:
    answered = batch(card(name="ask_user", state="done", said="you answered: blue"))
    assert rows(answered)[1] == rows(answered, "full")[1] == "      you answered: blue"


def test_a_greeting_has_a_row_for_each_fact_and_is_not_left_in_the_terminal() -> None:
    document = Document()
    facts = [("codeagent", "1.0"), ("folder", "~/acme · main"), ("try", "/ commands")]
    document.greet(facts)
    document.greet(facts)
    (greeting,) = document.blocks
    assert rows(greeting) == ["  codeagent 1.0", "  folder  ~/acme · main", "  try     / commands"]
    document.say("hi")
    document.greet([("another", "")])
    assert rows(greeting)[0] == "  codeagent 1.0"
    assert printed_transcript(document.blocks, 80, "normal", NOW).strip() == "▌ you    hi"


def test_a_failed_call_says_why_and_what_it_printed_last() -> None:
    output = printed("".join(f"{n}\n" for n in range(20)))
    failed = rows(batch(card(state="failed", error="it broke", output=output)))
    assert failed[1] == "      it broke"
    assert failed[-1] == "      │ 19"
    assert len(failed) < 12


def test_full_detail_shows_all_that_is_kept_and_where_the_rest_is() -> None:
    output = printed("".join(f"{n}\n" for n in range(4_000)))
    block = batch(card(state="done", output=output))
    drawn = draw(block, look("full"))
    texts = [line.text for line in drawn.lines]
    gap_row = texts.index("… 1,800 lines more: Enter opens the whole output")
    assert (texts[gap_row - 1], texts[gap_row + 1], texts[-1]) == ("199", "2000", "3999")
    (offer,) = [spot for spot in drawn.spots if spot.whole]
    assert (offer.first, offer.last, offer.call_id) == (gap_row, gap_row, "c1")


def test_an_edit_says_how_much_it_changed_and_shows_a_few_rows_of_it() -> None:
    after = "".join(f"new {number}\n" for number in range(40))
    block = batch(
        card(
            name="edit",
            state="done",
            shown=(DiffBlock(path="src/a.py", before="old\n", after=after),),
        )
    )
    brief, full = rows(block), rows(block, "full")
    assert "+40 −1" in brief[0]
    assert brief[-1].endswith("more rows (click to expand)")
    assert len(brief) < 20 < 40 < len(full)


def test_what_a_call_printed_is_not_drawn_again_while_others_run_unless_it_changed() -> None:
    ended = card(state="failed", output=printed("one\n"))
    block = batch(
        ended, CallCard("c2", "bash", "sleep 9", state="running", began=NOW), finished=False
    )
    memo: Memo = {}

    def below() -> Line:
        return draw(block, look(), memo).lines[2]

    first = below()
    assert first.text == "one"
    assert memo.keys() == {"c1"}
    kept = memo["c1"]
    below()
    assert memo["c1"] is kept
    assert ended.output is not None
    ended.output.feed("two\n")
    assert [line.text for line in draw(block, look(), memo).lines[2:4]] == ["one", "two"]


@pytest.mark.parametrize(("state", "style"), [("done", "muted"), ("failed", "text")])
def test_what_a_command_printed_is_quiet_if_it_went_well(state: CallState, style: str) -> None:
    shown = draw(
        batch(card(state=state, output=printed("a line\n"))), Look(78, "normal", COLOURED, NOW)
    )
    (said,) = (part for part in shown.lines[-1].strip if part.text == "a line")
    assert said.style == getattr(COLOURED, style)


def test_a_command_of_the_users_own_shows_its_output_and_whether_the_model_sees_it() -> None:
    block = CommandBlock(
        0, card=card(name="shell", state="done", output=printed("hello\n")), shared=False
    )
    shown = rows(block)
    assert shown[0] == "▌ you ran a command, not shown to the model"
    assert shown[-1] == "▌   │ hello"
    assert "not shown" not in rows(CommandBlock(0, card=card(), shared=True))[0]
    long = CommandBlock(0, card=card(state="done", output=printed("line\n" * 100)))
    assert rows(long)[2] == "▌   … 80 earlier lines (click to expand)"
    assert Spot(2, 2) in draw(long, look()).spots
    assert len(rows(long)) == 23
    assert len(rows(long, "full")) == 102


def test_an_ended_job_of_which_only_the_end_was_seen_offers_its_whole_output() -> None:
    output = printed("last\n")
    output.skip(4_999)
    ended = batch(card(state="done", job="job-1", output=output))
    assert rows(ended)[1:] == ["      … 4,999 earlier lines (click to expand)", "      │ last"]
    assert rows(ended, "full")[1:] == [
        "      │ … 4,999 lines more: Enter opens the whole output",
        "      │ last",
    ]
    assert ("job-1", True) in {
        (spot.call_id, spot.whole) for spot in draw(ended, look("full")).spots
    }


def test_a_remark_names_its_level() -> None:
    assert rows(Remark(0, text="a checkpoint was made")) == ["  note  a checkpoint was made"]
    assert rows(Remark(0, text="asked again", level="warning")) == ["  warning  asked again"]
    assert rows(Remark(0, text="gone", level="error")) == ["  error  gone"]


def test_an_ending_says_why_and_what_was_done() -> None:
    block = Ending(0, reason="interrupted", lines=("2 processes killed", "1 edit kept"))
    assert rows(block) == ["  – stopped", "    · 2 processes killed", "    · 1 edit kept"]
    assert rows(Ending(0, reason="failed", text="no connection")) == ["  ✗ failed: no connection"]
    assert rows(Ending(0, text="14 s · 2 calls")) == ["  worked 14 s · 2 calls"]


def test_what_happens_stays_together_and_what_is_said_stands_apart() -> None:
    said, done = AnswerBlock(0, pieces=Pieces("x")), Batch(1)
    assert (gap(None, said), gap(said, done), gap(done, Batch(2)), gap(done, said)) == (0, 1, 0, 1)


def test_folding_goes_between_the_usual_and_everything() -> None:
    block = Batch(0)
    block.detail = toggled(block, "normal")
    assert block.detail == "full"
    block.detail = toggled(block, "normal")
    assert block.detail is None
    assert toggled(block, "quiet") == "full"
    assert toggled(block, "full") == "normal"


def test_only_what_counts_on_needs_a_clock() -> None:
    assert runs(batch(card(state="running")))
    assert runs(Thoughts(0, open=True))
    assert not runs(batch(card(state="asking")))
    assert not runs(AnswerBlock(0))


NASTY = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b]52;c;ZWNobw==\x07",
    "\x9b2J\x90q\x9c",
    "\u202eevil\u2066\u200b",
    "[bold red]markup[/] [@click=app.quit]x[/]",
    "{{braces}} $x %s {0}",
    "a\rb\bc\x07\x00",
    "\ud800\udfff",
    "\U000e0041\U000e0042",
]
_ACTS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)


def _all_blocks(text: str) -> list[AnyBlock]:
    shown = (
        TextBlock(text=text),
        MarkdownBlock(text=text),
        DiffBlock(path=text, before=text, after=f"{text}\nmore {text}"),
        TerminalBlock(command=text, output=text, exit_code=1),
        FilesBlock(paths=(text,)),
        ImageBlock(path=text, media_type=text),
        QuestionBlock(question=text, options=(text,)),
        UnknownBlock(type=text),
    )
    cards = [
        CallCard(
            "id",
            text,
            text,
            state=state,
            note=text,
            progress=text,
            error=text,
            output=printed(text),
            shown=shown,
        )
        for state in (
            "planned",
            "asking",
            "running",
            "done",
            "failed",
            "denied",
            "skipped",
            "cancelled",
            "timeout",
        )
    ]
    return [
        PromptBlock(0, text=text, source=text),
        PromptBlock(0, text=text, source="steer"),
        AnswerBlock(0, pieces=Pieces(text), cut=True),
        AnswerBlock(0, pieces=Pieces(f"```{text}\n{text}\n```\n\n| {text} |\n|---|\n| {text} |")),
        Thoughts(0, pieces=Pieces(text), began=1.0),
        Thoughts(0, pieces=Pieces(text), open=False, began=1.0, ended=9.0),
        Batch(0, number=1, cards=cards),
        CommandBlock(0, card=cards[3]),
        Remark(0, text=text),
        Ending(0, reason=text, text=text, lines=(text,)),
    ]


def _check(drawn: Drawn, most: int) -> None:
    for line in drawn.lines:
        assert _ACTS.search(line.strip.text) is None
        assert _ACTS.search(line.text.replace("\t", "")) is None
        assert line.strip.cell_length == cell_len(line.strip.text) <= most


@for_each("text", NASTY)
@for_each("detail", ["quiet", "normal", "full"])
def test_nothing_that_acts_on_a_terminal_is_ever_drawn(text: str, detail: Detail) -> None:
    for block in _all_blocks(text):
        _check(draw(block, look(detail, 60)), 60)


@given(st.text(max_size=80), st.sampled_from(["quiet", "normal", "full"]), st.integers(8, 100))
def test_no_row_is_wider_than_the_view(text: str, detail: Detail, width: int) -> None:
    for block in _all_blocks(text):
        _check(draw(block, look(detail, width)), width)
        assert estimate(block, width, detail) >= 0
