"""A line as it is drawn, and as it is copied."""

from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from codeagent.core.sanitize import visible


@dataclass(frozen=True)
class Line:
    """One row of the screen.

    `strip` is drawn; `text` is what copying the row gives: no gutter, no padding at its end.
    """

    strip: Strip
    text: str = ""
    start: int = 0
    """Cells of gutter in front of `text` in `strip`."""
    joins: str | None = None
    """None: in a copy the row begins a line. Otherwise it goes on with the row before, and this comes in between."""


def segment(text: str, style: Style | None = None) -> Segment:
    """The one way text becomes something drawable: what would act on a terminal is shown instead."""
    return Segment(visible(text).replace("\n", "␊").replace("\t", "    "), style)


def line(parts: Iterable[tuple[str, Style | None]], *, gutter: Segment | None = None, joins: str | None = None) -> Line:
    """A row from (text, style) pairs, each made safe by `segment`."""
    body = [segment(text, style) for text, style in parts if text]
    start = 0 if gutter is None else cell_len(gutter.text)
    segments = body if gutter is None else [gutter, *body]
    return Line(Strip(segments), "".join(part.text for part in body).rstrip(), start, joins)
