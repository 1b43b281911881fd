"""Plain text that grows looks like the text."""

from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from codeagent.tui.rendering.growing import GrowingText
from codeagent.tui.rendering.lines import paragraph


@given(st.lists(st.text(alphabet="ab \n\t日\x1b", max_size=12), max_size=12), st.integers(6, 30))
def test_rows_are_those_of_the_whole_text_however_it_came(pieces: list[str], width: int) -> None:
    style = Style(dim=True)
    growing = GrowingText(width, style, "  ")
    for piece in pieces:
        growing.append(piece)
        assert growing.lines
    assert growing.lines == paragraph("".join(pieces), width, style, first="  ")
