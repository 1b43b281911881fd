"""Turns what rich draws into lines for a terminal, whose only escape codes are our own styles."""

from io import StringIO
from typing import Any

from rich.color import ColorSystem
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.theme import Theme

from codeagent.core.sanitize import visible


def lines_of(
    drawn: RenderableType, columns: int | None = None, *, colours: bool, theme: Theme | None = None
) -> list[str]:
    """Return the lines with their escape codes, in the sixteen colours of the terminal's theme, and
    without blanks at their ends, which would be copied with them. `columns` defaults to the
    terminal's."""
    console = Console(
        file=StringIO(),
        width=columns,
        theme=theme,
        color_system="standard",
        force_terminal=True,
        emoji=False,
        legacy_windows=False,
    )
    rows = console.render_lines(drawn, pad=False)
    return ["".join(_spelled(each, colours=colours) for each in _trimmed(row)) for row in rows]


def _trimmed(row: list[Segment]) -> list[Segment]:
    while row and not row[-1].text.strip():
        row = row[:-1]
    if row:
        last = row[-1]
        row = [*row[:-1], Segment(last.text.rstrip(), last.style)]
    return row


def _spelled(segment: Segment, *, colours: bool) -> str:
    # By now, a reference in Markdown such as &#27; has become a character.
    text = visible(segment.text).replace("\n", " ")
    style: Any = segment.style
    if style is None:
        return text
    return str(
        (style if colours else style.without_color).render(text, color_system=ColorSystem.STANDARD)
    )
