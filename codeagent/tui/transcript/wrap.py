"""Plain text as rows behind a gutter."""

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from codeagent.core.sanitize import visible
from codeagent.tui.rendering import rows
from codeagent.tui.rendering.lines import Line


def paragraph(
    text: str, width: int, style: Style | None = None, *, first: str = "", gutter_style: Style | None = None
) -> list[Line]:
    """Wrapped text; `first` stands in front of its first row, blanks in front of the others."""
    indent = cell_len(first)
    head, rest = Segment(first, gutter_style), Segment(" " * indent)
    wrapped = rows.wrap([(text, style)], width - indent)
    return [
        rows.draw(row, gutter=[rest if number else head] if first else (), start=indent)
        for number, row in enumerate(wrapped)
    ]


def indented(drawn: Line, gutter: Segment) -> Line:
    """The line with a gutter in front of it."""
    strip = Strip([gutter, *drawn.strip], drawn.strip.cell_length + gutter.cell_length)
    return Line(strip, drawn.text, drawn.start + gutter.cell_length, drawn.joins)


def clipped(drawn: Line, width: int) -> Line:
    """The line, without what is beyond `width` cells."""
    if drawn.strip.cell_length <= width:
        return drawn
    return Line(drawn.strip.crop(0, width), drawn.text, drawn.start, drawn.joins)


def flat(text: str, most: int = 2_000) -> str:
    """The beginning of a text as one line that only shows."""
    return " ".join(visible(text[:most]).split())


def cut(text: str, width: int) -> str:
    """At most `width` cells, the end replaced with `…`."""
    if cell_len(text) <= width:
        return text
    return "" if width < 1 else set_cell_size(text, width - 1).rstrip() + "…"
