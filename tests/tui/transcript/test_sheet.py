"""The sheet: draws what is in view and no more, forgets it again, and never moves what is looked
at."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.approval_events import PlannedCall
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.transcript import sheet as sheet_module
from codeagent.tui.transcript.blocks import AnswerBlock, AnyBlock, PromptBlock
from codeagent.tui.transcript.document import Document
from codeagent.tui.transcript.layout import BlockRow, Drawn, Look
from codeagent.tui.transcript.render import draw
from codeagent.tui.transcript.render_call import Memo
from codeagent.tui.transcript.sheet import Anchor, Sheet

HEIGHT = 20


def conversation(turns: int) -> Document:
    document = Document()
    for turn in range(turns):
        document.say(f"question {turn}")
        document.stream_text(f"answer {turn}\n\n" + "some words that wrap somewhere " * (turn % 13))
        document.plan(
            turn,
            [
                PlannedCall(
                    call_id=f"c{turn}", name="read", target=f"src/{turn}.py", permission="auto"
                )
            ],
        )
        document.card(f"c{turn}", "").state = "done"
        document.finish_batch(turn, 100)
    document.close()
    return document


def shown(document: Document) -> Sheet:
    sheet = Sheet(document, lambda: 0.0, Palette())
    sheet.absorb(document.take_changes())
    return sheet


def texts(sheet: Sheet, top: int) -> list[str]:
    rows = range(top, min(top + HEIGHT, sheet.layout.total))
    lines = [sheet.line(sheet.layout.at(row)) for row in rows]
    return ["" if line is None else line.text for line in lines]


@pytest.fixture
def drawings(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[int]]:
    """The keys of the blocks drawn since the last call."""
    keys: list[int] = []

    def counted(block: AnyBlock, look: Look, memo: Memo | None = None) -> Drawn:
        keys.append(block.key)
        return draw(block, look, memo)

    monkeypatch.setattr(sheet_module, "draw", counted)

    def taken() -> list[int]:
        found = keys.copy()
        keys.clear()
        return found

    return taken


def test_a_long_session_is_drawn_only_where_it_is_looked_at(
    drawings: Callable[[], list[int]],
) -> None:
    sheet = shown(conversation(700))
    top = sheet.show(None, HEIGHT)
    assert top == sheet.layout.total - HEIGHT
    assert texts(sheet, top)[-1] == "✓ read  src/699.py  done · batch 699"
    assert len(drawings()) < HEIGHT
    sheet.show(None, HEIGHT)
    assert drawings() == []


def test_only_a_block_that_changed_is_drawn_again(drawings: Callable[[], list[int]]) -> None:
    document = conversation(10)
    sheet = shown(document)
    sheet.show(None, HEIGHT)
    drawings()
    sheet.damage.clear()
    document.card("c9", "").note = "9 lines"
    document.touch_card("c9")
    sheet.absorb(document.take_changes())
    top = sheet.show(None, HEIGHT)
    assert len(drawings()) == 1
    assert texts(sheet, top)[-1].endswith("9 lines · batch 9")
    assert list(sheet.damage.values()) == [(0, 0)]


def test_a_change_far_from_the_view_is_not_drawn(drawings: Callable[[], list[int]]) -> None:
    document = conversation(100)
    sheet = shown(document)
    anchor = Anchor(BlockRow(0, 0))
    before = texts(sheet, sheet.show(anchor, HEIGHT))
    drawings()
    document.stream_text("news\n" * 50)
    sheet.absorb(document.take_changes())
    assert texts(sheet, sheet.show(anchor, HEIGHT)) == before
    assert drawings() == []


def test_what_was_not_looked_at_for_long_is_forgotten_and_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sheet_module, "_KEPT_ROWS", 40)
    sheet = shown(conversation(200))
    for row in range(0, sheet.layout.total, HEIGHT):
        sheet.show(Anchor(sheet.layout.at(row)), HEIGHT)
        assert sheet.kept_rows <= 40 + 3 * HEIGHT
    top = sheet.show(Anchor(BlockRow(0, 0)), HEIGHT)
    assert texts(sheet, top)[0] == "question 0"


@given(
    st.integers(0, 120), st.integers(0, 6), st.lists(st.integers(20, 120), min_size=1, max_size=6)
)
def test_the_line_at_the_top_survives_any_resizes(index: int, line: int, widths: list[int]) -> None:
    sheet = shown(conversation(60))
    sheet.set_width(80)
    sheet.drawn(index)
    anchor: Anchor | None = Anchor(BlockRow(index, min(line, sheet.layout.height(index) - 1)))
    before = texts(sheet, sheet.show(anchor, HEIGHT))
    for width in [*widths, 80]:
        anchor = sheet.held(anchor)
        sheet.set_width(width)
        top = sheet.show(anchor, HEIGHT)
        if top < sheet.layout.total - HEIGHT:
            assert sheet.layout.at(top).index == index
    assert texts(sheet, sheet.show(anchor, HEIGHT)) == before


@given(st.integers(0, 100), st.lists(st.integers(0, 99), max_size=20))
def test_what_is_drawn_or_changed_above_never_moves_the_view(
    index: int, changed: list[int]
) -> None:
    document = conversation(60)
    sheet = shown(document)
    anchor = Anchor(BlockRow(index + 1, 0))
    before = texts(sheet, sheet.show(anchor, HEIGHT))
    for key in changed:
        if key <= index:
            sheet.drawn(key)
            document.blocks[key].detail = "full"
            document.touch(document.blocks[key])
            sheet.absorb(document.take_changes())
            top = sheet.show(anchor, HEIGHT)
            assert texts(sheet, top) == before


@given(st.text(alphabet="ab `*#\n-|", max_size=300), st.integers(1, 40), st.integers(20, 60))
def test_an_answer_that_streams_ends_as_if_it_had_come_at_once(
    text: str, size: int, width: int
) -> None:
    document, whole = Document(), Document()
    sheet, other = shown(document), shown(whole)
    sheet.set_width(width)
    other.set_width(width)
    for start in range(0, len(text), size):
        document.stream_text(text[start : start + size])
        sheet.absorb(document.take_changes())
        sheet.show(None, HEIGHT)
    document.finish_answer(text)
    whole.finish_answer(text)
    sheet.absorb(document.take_changes())
    other.absorb(whole.take_changes())
    assert texts(sheet, sheet.show(None, HEIGHT)) == texts(other, other.show(None, HEIGHT))


def test_thoughts_that_stream_in_full_detail_end_as_they_are_recorded() -> None:
    document = Document()
    sheet = shown(document)
    sheet.set_detail("full")
    for piece in ("\nfirst line\nsec", "ond", " line\n", "\n"):
        document.stream_thoughts(piece, 1.0)
        sheet.absorb(document.take_changes())
        streamed = texts(sheet, sheet.show(None, HEIGHT))[1:]
    document.close_thoughts(3.0)
    sheet.absorb(document.take_changes())
    assert texts(sheet, sheet.show(None, HEIGHT)) == ["▾ thought for 2.0 s", *streamed]
    assert streamed == ["", "first line", "second line"]


def test_an_answer_that_is_asked_for_again_leaves_nothing() -> None:
    document = Document()
    sheet = shown(document)
    document.say("go")
    document.stream_text("half an ans")
    sheet.absorb(document.take_changes())
    sheet.show(None, HEIGHT)
    document.drop_answer()
    document.stream_text("a whole answer")
    sheet.absorb(document.take_changes())
    assert texts(sheet, sheet.show(None, HEIGHT)) == ["go", "", "a whole answer"]


def test_an_answer_that_begins_with_nothing_visible_appears_when_there_is_something() -> None:
    document = Document()
    sheet = shown(document)
    for piece in ("\n", " ", "hello"):
        document.stream_text(piece)
        sheet.absorb(document.take_changes())
        sheet.show(None, HEIGHT)
    assert texts(sheet, 0) == ["hello"]


def test_less_detail_keeps_the_answers_as_they_are_drawn(drawings: Callable[[], list[int]]) -> None:
    document = conversation(3)
    sheet = shown(document)
    sheet.show(None, 100)
    answers = [block.key for block in document.blocks if isinstance(block, AnswerBlock)]
    kept = [sheet.drawn(key) for key in answers]
    sheet.set_detail("quiet")
    sheet.show(None, 100)
    assert all(sheet.drawn(key) is drawn for key, drawn in zip(answers, kept, strict=True))
    assert "▸" not in "".join(texts(sheet, 0)) and "✓" not in "".join(texts(sheet, 0))


def test_less_detail_takes_no_rows_from_an_answer_that_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sheet_module, "_AT_A_TIME", 0.0)
    document = Document()
    sheet = shown(document)
    for piece in ("a paragraph\n\n" * 500, "a further piece"):
        document.stream_text(piece)
        sheet.absorb(document.take_changes())
        sheet.show(None, HEIGHT)
        while sheet.work(1.0):
            sheet.show(None, HEIGHT)
    document.stream_text(" and its end")
    sheet.absorb(document.take_changes())
    sheet.set_detail("quiet")
    assert texts(sheet, sheet.show(None, HEIGHT))[-1] == "a further piece and its end"
    assert sheet.layout.total == 1_001


def test_another_palette_draws_again_and_keeps_every_height() -> None:
    sheet = shown(conversation(20))
    top = sheet.show(None, HEIGHT)
    before = texts(sheet, top)
    palette = Palette(text=Palette().strong)
    sheet.set_palette(palette)
    assert sheet.show(None, HEIGHT) == top
    assert texts(sheet, top) == before
    prompt = next(
        block.key for block in reversed(sheet.document.blocks) if isinstance(block, PromptBlock)
    )
    assert palette.text in [part.style for line in sheet.drawn(prompt).lines for part in line.strip]


def test_what_runs_is_drawn_again_with_every_tick() -> None:
    now = [100.0]
    document = Document()
    document.plan(1, [PlannedCall(call_id="a", name="bash", target="sleep 60", permission="auto")])
    card = document.card("a", "")
    card.state, card.began = "running", 98.0
    sheet = Sheet(document, lambda: now[0], Palette())
    sheet.absorb(document.take_changes())
    assert texts(sheet, sheet.show(None, HEIGHT))[0].endswith("running 2 s · batch 1")
    now[0] = 103.0
    sheet.tick()
    assert texts(sheet, sheet.show(None, HEIGHT))[0].endswith("running 5 s · batch 1")


@given(st.integers(0, 60), st.integers(0, 20), st.integers(1, 60))
def test_so_many_rows_further_up_is_exact_whatever_was_estimated(
    index: int, line: int, rows: int
) -> None:
    sheet, exact = shown(conversation(20)), shown(conversation(20))
    index = min(index, len(sheet.layout) - 1)
    for number in range(len(exact.layout)):
        exact.drawn(number)
    place = BlockRow(index, min(line, exact.layout.height(index) - 1))
    sheet.drawn(index)
    wanted = exact.layout.at(max(0, exact.layout.row(place) - rows))
    assert sheet.above(place, rows) == wanted
