"""A question of the agent's with its answers, as lines."""

from collections.abc import Iterator

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from codeagent.core.display import QuestionBlock
from codeagent.tui.rendering.lines import Line
from codeagent.tui.rendering.marked import marked_lines
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.widgets.approval_body import blank
from codeagent.tui.widgets.line_pane import Piece


def question_pieces(question: QuestionBlock, picked: int | None) -> tuple[Piece, ...]:
    """The question as Markdown, then the numbered answers; `picked` is the one Enter takes, from 0."""
    options = (_option(at, text, picked == at) for at, text in enumerate(question.options))
    return (_asked(question.question), *((blank,) if question.options else ()), *options)


def _asked(text: str) -> Piece:
    def make(width: int, palette: Palette) -> Iterator[Line]:
        # markdown_it is heavy: it is not needed before the first question.
        from codeagent.tui.rendering.markdown import render_markdown

        yield from render_markdown(text, width, palette)

    return make


def _option(at: int, text: str, picked: bool) -> Piece:
    def make(width: int, palette: Palette) -> Iterator[Line]:
        mark = "› " if picked else "  "
        number = f"{at + 1}. " if at < 9 else "   "
        style = palette.strong if picked else palette.text
        for row, found in enumerate(marked_lines(text, max(1, width - 5), palette)):
            lead = mark + number if row == 0 else " " * 5
            yield _behind(lead, found, palette.accent if picked else palette.muted, style)

    return make


def _behind(lead: str, found: Line, lead_style: Style, style: Style) -> Line:
    """A line with something in front that is not copied."""
    body = Strip(Segment.apply_style(found.strip, style))
    return Line(Strip([Segment(lead, lead_style), *body]), found.text, found.start + len(lead), found.joins)
