"""A text in pieces reads like the text."""

from hypothesis import given
from hypothesis import strategies as st

from codeagent.tui.transcript.blocks import Pieces


@given(st.lists(st.text(alphabet="ab\n", max_size=5)), st.integers(0, 40), st.booleans())
def test_pieces_read_like_the_whole(pieces: list[str], count: int, read_between: bool) -> None:
    grown = Pieces()
    for piece in pieces:
        grown.append(piece)
        if read_between:
            assert grown.text.endswith(piece)
    whole = "".join(pieces)
    assert grown.last(count) == (whole[-count:] if count else "")
    assert grown.since(max(0, len(whole) - count)) == grown.last(count)
    assert (grown.text, grown.length, grown.newlines) == (whole, len(whole), whole.count("\n"))


def test_a_replaced_text_is_counted_so_that_a_reader_begins_again() -> None:
    grown = Pieces("one")
    grown.replace("two\n")
    assert (grown.text, grown.length, grown.newlines, grown.replaced) == ("two\n", 4, 1, 1)
