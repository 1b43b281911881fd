"""The transcript on screen: following, staying put, folding, selecting, searching."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from rich.style import Style
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import Input

from codeagent.core.approval_events import PlannedCall
from codeagent.tui.rendering.output_buffer import OutputBuffer
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.transcript import sheet_view
from codeagent.tui.transcript.blocks import Batch
from codeagent.tui.transcript.document import Document
from codeagent.tui.transcript.view import TranscriptView
from tests.table import for_each


class Room(App[None]):
    """A transcript above a line to type into."""

    def __init__(self, document: Document) -> None:
        super().__init__()
        self.document = document
        self.palette = Palette()
        self.now = 100.0
        self.typed_at = -math.inf
        self.heard: list[Message] = []

    def compose(self) -> ComposeResult:
        yield TranscriptView(self.document, clock=lambda: self.now, typed_at=lambda: self.typed_at)
        yield Input()

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_transcript_view_copy_requested(self, message: TranscriptView.CopyRequested) -> None:
        self.heard.append(message)

    on_transcript_view_open_output = on_transcript_view_copy_requested
    on_transcript_view_link_clicked = on_transcript_view_copy_requested
    on_transcript_view_left = on_transcript_view_copy_requested


@asynccontextmanager
async def room(
    document: Document, size: tuple[int, int] = (60, 23)
) -> AsyncIterator[tuple[TranscriptView, Pilot[None]]]:
    app = Room(document)
    async with app.run_test(size=(60, 23)) as pilot:
        await drawn(pilot)
        yield app.query_one(TranscriptView), pilot


async def drawn(pilot: Pilot[None]) -> None:
    pilot.app.query_one(TranscriptView).flush()
    await pilot.pause()


def screen(view: TranscriptView) -> list[str]:
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


def turns(count: int) -> Document:
    document = Document()
    for number in range(count):
        document.say(f"question {number}")
        document.stream_text(f"answer {number}")
        document.plan(
            number + 1,
            [
                PlannedCall(
                    call_id=f"c{number}", name="bash", target=f"make {number}", permission="auto"
                )
            ],
        )
        card = document.card(f"c{number}", "")
        card.state, card.error = (
            "done",
            f"made {number}",
        )  # of a call that is done only the full detail shows it
        document.finish_batch(number + 1, 100)
    document.close()
    return document


async def test_the_end_is_followed_while_it_is_in_view() -> None:
    async with room(turns(30)) as (view, pilot):
        assert screen(view)[-1].strip() == "▸ ✓ bash  make 29  done · batch 30"
        view.document.say("one more")
        await drawn(pilot)
        assert screen(view)[-1] == "▌ you    one more"


async def test_a_change_is_drawn_by_itself_soon() -> None:
    async with room(Document()) as (view, pilot):
        view.document.say("hello")
        async with asyncio.timeout(10):
            while screen(view)[0] != "▌ you    hello":
                await pilot.pause(0.01)


async def test_a_letter_comes_before_what_arrives_but_not_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with room(Document()) as (view, pilot):
        assert isinstance(pilot.app, Room)
        pilot.app.typed_at = math.inf  # the user never stops typing
        monkeypatch.setattr(sheet_view, "_PATIENCE", math.inf)
        view.document.say("hello")
        await pilot.pause(5 * sheet_view._ECHO)
        assert screen(view)[0] == ""
        monkeypatch.setattr(sheet_view, "_PATIENCE", 0.1)
        async with asyncio.timeout(10):
            while screen(view)[0] != "▌ you    hello":
                await pilot.pause(0.01)


async def test_many_resizes_are_drawn_as_one_while_drawing_is_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sheet_view, "_SLOW", -1.0)
    drawn_at: list[int] = []
    flush = TranscriptView.flush
    async with room(turns(3)) as (view, pilot):
        monkeypatch.setattr(
            TranscriptView, "flush", lambda view: (drawn_at.append(view.size.width), flush(view))
        )
        for _ in range(5):
            view.on_resize()
        assert drawn_at == []
        async with asyncio.timeout(10):
            while not drawn_at:
                await pilot.pause(0.01)
        assert drawn_at == [60]


async def test_who_reads_further_up_is_not_moved_and_told_what_is_new() -> None:
    async with room(turns(30)) as (view, pilot):
        view.scroll_up()
        await drawn(pilot)
        before = screen(view)
        for number in range(12):
            view.document.remark(f"news {number}")
        await drawn(pilot)
        after = screen(view)
        assert after[:-1] == before[:-1]
        assert after[-1].endswith("↓ 12 new")
        await pilot.click(TranscriptView, offset=(view.size.width - 4, view.size.height - 1))
        await drawn(pilot)
        assert screen(view)[-1] == "  note  news 11"


async def test_the_keys_that_scroll_work_at_once() -> None:
    async with room(turns(30)) as (view, pilot):
        view.focus()
        await pilot.press("home")
        assert screen(view)[0] == "▌ you    question 0"
        await pilot.press("pagedown", "down", "up", "end")
        assert screen(view)[-1].endswith("make 29  done · batch 30")


async def test_scrolling_up_through_what_was_never_drawn_moves_by_what_was_asked() -> None:
    document = Document()
    for number in range(30):
        document.finish_answer(
            f"answer {number}\n\n" + "- item\n" * (number % 7) + "\n\n## head\n\n" * (number % 3)
        )
    async with room(document) as (view, _):
        while view.scroll_y > 20:
            before = screen(view)
            view.scroll_up()
            assert screen(view)[1:] == before[:-1]
            before = screen(view)
            view.scroll_relative(y=-9)
            assert screen(view)[9:] == before[:-9]


async def test_what_is_on_the_screen_is_what_is_drawn_though_only_some_rows_are_refreshed() -> None:
    document = turns(2)
    async with room(document) as (view, pilot):
        card = document.card("c0", "")
        for step in range(12):
            card.note = f"step {step}"
            if step % 3 == 1:
                card.state, card.began = (
                    ("running", 99.0) if card.state == "done" else ("done", 99.0)
                )
            if step % 4 == 2:
                document.stream_text(f"and {step} ")
            if step % 5 == 4:
                document.remark("noted")
            document.touch_card("c0")
            await drawn(pilot)
            painted = view.render_lines(view.size.region)
            assert [strip.text.rstrip() for strip in painted] == screen(view)


async def test_a_resize_keeps_the_line_at_the_top_or_the_end() -> None:
    document = Document()
    for number in range(40):
        document.say(f"question {number} " + "with some words that wrap " * 4)
    async with room(document) as (view, pilot):
        for width in (40, 90, 30, 60):
            await pilot.resize_terminal(width, 23)
            await drawn(pilot)
            assert view.is_vertical_scroll_end
        view.reveal(10, 0)
        view.go_to_row(view.sheet.layout.offset(10))
        await drawn(pilot)
        before = screen(view)
        assert "question 10" in "".join(before[:3])
        for width in (40, 90, 25, 120, 33, 60):
            await pilot.resize_terminal(width, 23)
            await drawn(pilot)
            assert "question 10" in "".join(screen(view)[:3])
        assert screen(view) == before


async def test_resizes_down_to_nothing_while_it_streams_crash_nothing() -> None:
    async with room(turns(3)) as (view, pilot):
        for step in range(16):
            view.document.stream_text(f"word {step} " * 9 + ("\n\n" if step % 7 == 0 else ""))
            await pilot.resize_terminal(max(2, (step * 37) % 130), max(1, (step * 17) % 40))
        await pilot.resize_terminal(60, 23)
        await drawn(pilot)
        assert "word 15" in "".join(screen(view))


async def test_dragging_selects_text_that_stays_selected_when_something_above_grows() -> None:
    async with room(turns(4)) as (view, pilot):
        rows = screen(view)
        first, last = rows.index("  answer 2"), rows.index("▌ you    question 3")
        await pilot.mouse_down(TranscriptView, offset=(4, first))
        await pilot.hover(TranscriptView, offset=(11, last))
        await pilot.mouse_up(TranscriptView, offset=(11, last))
        wanted = "swer 2\n\n✓ bash  make 2  done · batch 3\n\nque"
        assert view.screen.get_selected_text() == wanted
        assert any(part.style and part.style.reverse for part in view.render_line(first))
        view.document.blocks[5].detail = "full"
        view.document.touch(view.document.blocks[5])
        await drawn(pilot)
        assert screen(view) != rows
        assert view.screen.get_selected_text() == wanted


async def test_a_double_click_selects_a_word_and_a_third_click_the_block() -> None:
    async with room(turns(1)) as (view, pilot):
        row = screen(view).index("  answer 0")
        await pilot.click(TranscriptView, offset=(4, row), times=2)
        assert view.screen.get_selected_text() == "answer"
        await pilot.click(TranscriptView, offset=(4, row), times=3)
        assert (view.screen.get_selected_text() or "").strip() == "answer 0"


async def test_a_click_on_a_batch_opens_it_and_the_next_one_folds_it_without_taking_the_focus() -> (
    None
):
    async with room(turns(2)) as (view, pilot):
        row = next(number for number, text in enumerate(screen(view)) if "batch 1" in text)
        before = screen(view)
        await pilot.click(TranscriptView, offset=(5, row))
        await drawn(pilot)
        assert screen(view)[row + 1].strip() == "made 0"
        assert isinstance(pilot.app.focused, Input)
        await pilot.click(TranscriptView, offset=(30, row))
        await drawn(pilot)
        assert screen(view) == before


async def test_detail_goes_for_everything_and_keeps_what_is_at_the_top() -> None:
    async with room(turns(20)) as (view, pilot):
        view.go_to_row(view.sheet.layout.offset(6))
        top = screen(view)[1]
        view.set_detail("full")
        await drawn(pilot)
        assert screen(view)[1] == top == "▌ you    question 2"
        assert "      made 2" in screen(view)
        view.set_detail("quiet")
        await drawn(pilot)
        assert screen(view)[1] == top
        assert "✓ bash" not in "".join(screen(view))


async def test_keys_go_from_block_to_block_fold_copy_and_leave() -> None:
    async with room(turns(3)) as (view, pilot):
        app = pilot.app
        assert isinstance(app, Room)
        view.focus()
        await pilot.press("left_square_bracket", "left_square_bracket", "n", "y", "n", "enter")
        await drawn(pilot)
        assert [text for text in screen(view) if text.startswith("┃")][-1] == "┃     made 1"
        await pilot.press("escape")
        copied, left = app.heard
        assert isinstance(copied, TranscriptView.CopyRequested) and copied.text == "answer 1"
        assert isinstance(left, TranscriptView.Left)


async def test_enter_opens_the_whole_output_where_it_is_offered() -> None:
    document = turns(1)
    output = document.card("c0", "").output = OutputBuffer()
    output.feed("line\n" * 5_000)
    document.touch_card("c0")
    async with room(document) as (view, pilot):
        app = pilot.app
        assert isinstance(app, Room)
        view.focus()
        await pilot.press("o", "enter", "enter")
        await pilot.pause()
        assert [type(message) for message in app.heard] == [TranscriptView.OpenOutput] * 2
        assert {getattr(message, "call_id", "") for message in app.heard} == {"c0"}


async def test_a_link_is_told_to_the_screen() -> None:
    document = Document()
    document.finish_answer("see [the page](https://example.org/x) there")
    async with room(document) as (_, pilot):
        app = pilot.app
        assert isinstance(app, Room)
        await pilot.click(TranscriptView, offset=(8, 0))
        (message,) = app.heard
        assert (
            isinstance(message, TranscriptView.LinkClicked)
            and message.url == "https://example.org/x"
        )


async def test_search_marks_goes_there_and_opens_what_is_folded() -> None:
    async with room(turns(30)) as (view, pilot):
        assert view.find("made 7") == 1
        await drawn(pilot)
        row = screen(view).index("      made 7")
        marked = [part.text for part in view.render_line(row) if part.style and part.style.reverse]
        assert "".join(marked) == "made 7"
        block = view.document.blocks[7 * 3 + 2]
        assert isinstance(block, Batch) and block.detail == "full"
        assert view.find("question") == 30
        view.previous_match()
        view.next_match()
        view.clear_search()
        await drawn(pilot)
        assert not any(
            part.style and part.style.reverse for y in range(20) for part in view.render_line(y)
        )


@asynccontextmanager
async def resuming(
    count: int = 200,
) -> AsyncIterator[tuple[TranscriptView, Pilot[None], Callable[[], None]]]:
    """A room with the last tenth of a recorded conversation, and what shows all of it."""
    document = Document()
    document.remark("a warning")
    end, whole = turns(count), turns(count)
    del end.blocks[: len(end.blocks) * 9 // 10]
    document.show_end(end)

    def replay() -> None:
        for _ in document.replay(whole):
            pass

    async with room(document) as (view, pilot):
        yield view, pilot, replay


@for_each("rows", [0, 1, 7, 40, 10_000])
async def test_what_is_in_view_stays_where_it_is_while_earlier_blocks_are_put_in(rows: int) -> None:
    async with resuming() as (view, pilot, replay):
        view.scroll_to(y=max(2, view.max_scroll_y - rows), animate=False)
        await drawn(pilot)
        before = screen(view)
        replay()
        await drawn(pilot)
        assert screen(view) == before


async def test_who_went_to_the_top_before_it_was_there_is_at_the_top_once_it_is() -> None:
    async with resuming() as (view, pilot, replay):
        view.scroll_home(animate=False)
        await drawn(pilot)
        assert screen(view)[1].strip() == "note  reading the earlier messages …"
        replay()
        await drawn(pilot)
        assert [row.strip() for row in screen(view)[:3]] == [
            "note  a warning",
            "",
            "▌ you    question 0",
        ]


async def test_keys_that_scroll_go_to_blocks_that_were_put_in() -> None:
    async with resuming() as (view, pilot, replay):
        replay()
        view.go_to_row(0)
        await drawn(pilot)
        assert "question 0" in "".join(screen(view))
        view.scroll_end(animate=False)
        await drawn(pilot)
        assert "make 199" in screen(view)[-1]


async def test_selection_search_cursor_and_folding_stay_with_their_blocks() -> None:
    async with resuming() as (view, pilot, replay):
        found: list[tuple[int, int]] = []
        view.found = lambda place, matches: found.append((place, matches))
        assert view.find("question 19") == 10
        view.previous_match()
        await pilot.pause()
        view.focus()
        view.action_step(-1)
        view.action_open()
        row = next(y for y, text in enumerate(screen(view)) if "question" in text)
        await pilot.click(TranscriptView, offset=(10, row), times=2)
        await drawn(pilot)
        selected, before = pilot.app.screen.get_selected_text(), screen(view)
        assert selected
        replay()
        await drawn(pilot)
        assert (pilot.app.screen.get_selected_text(), screen(view)) == (selected, before)
        assert found[:2] == [(10, 10), (9, 10)]
        assert found[-1] == (10, 11)


async def test_durations_count_on_only_while_something_runs() -> None:
    document = Document()
    document.plan(1, [PlannedCall(call_id="a", name="bash", target="make", permission="auto")])
    card = document.card("a", "")
    card.state, card.began = "running", 97.0
    async with room(document) as (view, pilot):
        app = pilot.app
        assert isinstance(app, Room)
        assert screen(view)[0].endswith("running 3 s · batch 1")
        assert view.ticking
        app.now = 104.0
        view.tick()
        assert screen(view)[0].endswith("running 7 s · batch 1")
        card.state = "done"
        document.touch_card("a")
        await drawn(pilot)
        assert not view.ticking


async def test_another_palette_shows_with_the_next_painting() -> None:
    async with room(turns(1)) as (view, pilot):
        app = pilot.app
        assert isinstance(app, Room)
        app.palette = Palette(text=Style(strike=True))
        view.refresh()
        await pilot.pause()
        row = screen(view).index("  answer 0")
        assert any(part.style and part.style.strike for part in view.render_line(row))


async def test_the_whole_transcript_reads_as_plain_text() -> None:
    async with room(turns(2)) as (view, _):
        assert view.as_text(40).split("\n")[:5] == [
            "▌ you    question 0",
            "",
            "  answer 0",
            "",
            "  ▸ ✓ bash  make 0  done · batch 1",
        ]
        assert view.plain_text().count("question") == 2


@for_each(
    "text",
    [
        "\x1b[2J\x1b]0;x\x07",
        "[bold]x[/bold] [@click=app.bell]y[/]",
        "\u202egnp.exe",
        "a\x00b\ud800",
    ],
)
async def test_nothing_anybody_wrote_acts_on_the_terminal(text: str) -> None:
    document = Document()
    document.say(text)
    document.stream_thoughts(text, 1.0)
    document.stream_text(text)
    document.plan(1, [PlannedCall(call_id="a", name=text, target=text, permission="auto")])
    card = document.card("a", "")
    card.state, card.note, card.error, card.output = "failed", text, text, OutputBuffer()
    card.output.feed(text)
    document.remark(text)
    document.end("failed", text, [text])
    async with room(document) as (view, _):
        view.find(text)
        shown = "".join(screen(view))
        assert not {"\x1b", "\x07", "\x00", "\u202e", "\ud800"} & set(shown)
