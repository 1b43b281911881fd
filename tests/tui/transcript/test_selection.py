"""Selected text: stable names of rows, and what they read."""

from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Offset
from textual.selection import Selection

from codeagent.tui.rendering.lines import line, restyled
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.transcript.document import Document
from codeagent.tui.transcript.layout import BlockRow
from codeagent.tui.transcript.selection import selected_text
from codeagent.tui.transcript.sheet import Sheet

PLACES = st.builds(BlockRow, st.integers(0, 5_000), st.integers(0, 100_000))


def sheet() -> Sheet:
    document = Document()
    document.say("first question that is long enough to wrap")
    document.finish_answer("an answer\n\n- with\n- points")
    document.say("second")
    found = Sheet(document, lambda: 0.0, Palette())
    found.absorb(document.take_changes())
    found.set_width(40)
    return found


@given(PLACES, PLACES)
def test_names_of_rows_are_in_the_order_of_the_rows(one: BlockRow, other: BlockRow) -> None:
    assert BlockRow.decoded(one.encoded) == one
    assert (one.encoded < other.encoded) == ((one.index, one.line) < (other.index, other.line))


def test_everything_reads_without_gutters_and_with_wrapped_rows_joined() -> None:
    assert selected_text(sheet(), Selection(None, None)) == (
        "first question that is long enough to wrap\n\nan answer\n\n- with\n- points\n\nsecond"
    )


def test_a_part_reads_from_its_first_to_its_last_character() -> None:
    start, end = Offset(3, BlockRow(1, 1).encoded), Offset(3, BlockRow(2, 1).encoded)
    assert selected_text(sheet(), Selection(start, end)) == "answer\n\n- with\n- points\n\nsec"


def test_what_is_left_of_the_text_and_below_the_end_can_be_part_of_a_selection() -> None:
    start, end = Offset(-2, BlockRow(1, 1).encoded), Offset(9, BlockRow(3, 7).encoded)
    assert (
        selected_text(sheet(), Selection(start, end)) == "an answer\n\n- with\n- points\n\nsecond"
    )
    assert selected_text(sheet(), Selection(end, end)) == ""


def test_a_style_lies_on_top_of_some_characters_of_a_row() -> None:
    red, under = Style(color="red"), Style(underline=True)
    row = line([("wide 日本 text", red)], gutter=Segment("| "))
    strip = restyled(row, 5, 7, under).strip
    assert strip.text == "| wide 日本 text"
    assert [(part.text, part.style) for part in strip if part.style and part.style.underline] == [
        ("日本", red + under)
    ]
    assert restyled(row, 99, None, under) is row
