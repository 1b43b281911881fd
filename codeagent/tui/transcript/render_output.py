"""What a call printed and showed, as rows: its newest lines, or all that is kept of it."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from rich.segment import Segment

from codeagent.core.display import DiffBlock, DisplayBlock, MarkdownBlock, TerminalBlock
from codeagent.tui.rendering.ansi import ansi_line
from codeagent.tui.rendering.block_text import text_of_block
from codeagent.tui.rendering.diff import LEAST_FOLDED, DiffRow, diff_rows, unified_lines
from codeagent.tui.rendering.lines import Line, indented, line, paragraph
from codeagent.tui.rendering.markdown import render_markdown
from codeagent.tui.rendering.output_buffer import OutputBuffer
from codeagent.tui.transcript.drawn import Drawn, Look, Spot
from codeagent.tui.transcript.spelling import counted

LIVE_ROWS = 8
BRIEF_DIFF_ROWS = 12
_CONTEXTS = (3, 1, 0)
"""Unchanged lines around a change: the fewer, the longer it is."""


def newest(output: OutputBuffer, count: int, look: Look) -> list[Line]:
    """The last lines of what was printed, each on one row."""
    return _behind_bar((_row(raw, look) for raw in output.last(count)), look)


def brief(output: OutputBuffer, count: int, look: Look) -> Drawn:
    """The last lines, and how many came before."""
    drawn = Drawn()
    before = output.total - count
    if before < LEAST_FOLDED:
        count = output.total
    else:
        drawn.add(_offer(f"… {counted(before, 'earlier line', 'earlier lines')} (click to expand)", look))
    drawn.lines += newest(output, count, look)
    return drawn


def whole(output: OutputBuffer, call_id: str, look: Look) -> Drawn:
    """All that is kept, and an offer of all there was where lines are missing."""
    kept = output.lines()
    gap = output.gap_at
    drawn = Drawn(_behind_bar((_row(raw, look) for raw in kept[:gap]), look))
    if gap is not None:
        missing = f"… {counted(output.dropped, 'line', 'lines')} more: Enter opens the whole output"
        offer = line([(missing, look.palette.accent)])
        drawn.add(Drawn(_behind_bar([offer], look), [Spot(0, 0, call_id, whole=True)]))
        drawn.lines += _behind_bar((_row(raw, look) for raw in kept[gap:]), look)
    return drawn


def diff(shown: DiffBlock, look: Look, most: int | None) -> Drawn:
    """A change; of a long one about `most` rows and how many follow, those that did not change left out first."""
    enough = float("inf") if most is None else most + LEAST_FOLDED
    rows = next((rows for rows in (rows_of(shown, context) for context in _CONTEXTS) if len(rows) < enough), None)
    if rows is not None:
        return Drawn(unified_lines(rows, look.width, look.palette, shown.path))
    rows = rows_of(shown, _CONTEXTS[-1])
    drawn = Drawn(unified_lines(rows[:most], look.width, look.palette, shown.path))
    drawn.add(_offer(f"… {len(rows[most:])} more rows (click to expand)", look))
    return drawn


@lru_cache(64)
def rows_of(shown: DiffBlock, context: int = _CONTEXTS[0]) -> Sequence[DiffRow]:
    """The rows of a change, before they are drawn, with `context` unchanged lines around each."""
    return diff_rows(shown.before, shown.after, shown.start_line, context)


def everything(blocks: Iterable[DisplayBlock], look: Look) -> list[Line]:
    """All a tool showed besides what it printed."""
    return [row for block in blocks for row in _shown(block, look)]


def _shown(block: DisplayBlock, look: Look) -> list[Line]:
    palette, width = look.palette, look.width
    match block:
        case DiffBlock():
            return diff(block, look, None).lines
        case MarkdownBlock():
            return render_markdown(block.text, width, palette)
        case TerminalBlock():
            return []
        case _:
            said = ((said.text.rstrip("\n"), getattr(palette, said.style)) for said in text_of_block(block))
            return [row for text, style in said for row in paragraph(text, width, style)]


def _row(raw: str, look: Look) -> Line:
    """A printed line on one row; what is too long for it is not shown, but copied."""
    drawn = ansi_line(raw, look.palette, look.palette.text)
    most = look.width - 2
    if drawn.strip.cell_length <= most:
        return drawn
    strip = drawn.strip.crop(0, max(0, most - 1))
    end = Segment("…", look.palette.muted)
    return Line(type(strip)([*strip, end], strip.cell_length + 1), drawn.text, drawn.start, drawn.joins)


def _offer(words: str, look: Look) -> Drawn:
    return Drawn([line([(words, look.palette.muted)])], [Spot(0, 0)])


def _behind_bar(found: Iterable[Line], look: Look) -> list[Line]:
    bar = Segment("│ ", look.palette.rule)
    return [indented(row, bar) for row in found]
