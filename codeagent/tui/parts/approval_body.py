"""The body of a question, in full: nothing is cut, folded away or made to look like something
else."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DiffBlock, DisplayBlock, QuestionBlock
from codeagent.core.json_types import MAIN
from codeagent.core.policy import ALWAYS_ASKS
from codeagent.core.sanitize import visible
from codeagent.tui.parts.line_pane import (
    Piece,
    blank,
    diff_piece,
    markdown_piece,
    marked_piece,
    wrapped_piece,
)
from codeagent.tui.rendering.diff import DiffRow, counts, diff_rows
from codeagent.tui.rendering.lines import Line, flat
from codeagent.tui.rendering.marked import marked_lines
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.state import ASK_USER
from codeagent.tui.transcript.render_call import text_of_block

_CONTEXT = 2
"""Unchanged lines shown above the first change and below the last."""
_BESIDE_PATH = 48
"""Cells of a title that are not for the path: the tool, counts, age and edges."""


@dataclass(frozen=True)
class Asked:
    """A question, with facts about it that are expensive to compute."""

    waiting: ApprovalRequested
    rows: tuple[tuple[DiffRow, ...], ...]
    """The rows of each diff, in order."""
    changed: tuple[int, int] | None
    """Numbers of lines added and removed; None if it does not change a file."""

    @property
    def question(self) -> QuestionBlock | None:
        """The agent's question to the user; None if a call is waiting for permission."""
        if self.waiting.name != ASK_USER:
            return None
        found = (block for block in self.waiting.blocks if isinstance(block, QuestionBlock))
        return next(found, QuestionBlock(question=self.waiting.target))

    @property
    def by_hunk(self) -> tuple[DiffBlock, ...]:
        """The changes that may be answered hunk by hunk, one per file; empty if there is only one
        answer for all."""
        diffs = tuple(block for block in self.waiting.blocks if isinstance(block, DiffBlock))
        return diffs if self.waiting.by_hunk else ()


def asked(waiting: ApprovalRequested) -> Asked:
    """Compare the texts of the question's diffs."""
    diffs = [block for block in waiting.blocks if isinstance(block, DiffBlock)]
    rows = tuple(
        _without_edges(diff_rows(each.before, each.after, each.start_line)) for each in diffs
    )
    pairs = [counts(each) for each in rows]
    changed = (sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)) if pairs else None
    return Asked(waiting, rows, changed)


def _without_edges(rows: tuple[DiffRow, ...]) -> tuple[DiffRow, ...]:
    """Keep only a few unchanged lines above the first change and below the last, because the card
    has few rows."""
    changes = [at for at, row in enumerate(rows) if row.kind not in ("same", "gap")]
    if not changes:
        return rows
    inner = rows[max(0, changes[0] - _CONTEXT) : changes[-1] + 1 + _CONTEXT]
    return tuple(
        row for at, row in enumerate(inner) if row.kind != "gap" or 0 < at < len(inner) - 1
    )


def asker(waiting: ApprovalRequested) -> str:
    """Return `reviewer.1: ` if a child asks; empty if the main agent does."""
    return "" if waiting.agent == MAIN else f"{flat(waiting.agent)}: "


def pieces(
    question: Asked, *, split: bool, heading: str = "", about: bool = False
) -> tuple[Piece, ...]:
    """Return whose tool it is, the reason, then every block; `heading` comes first if several
    questions are listed.

    `about`: with what the tool says about itself, before the call.
    """
    waiting = question.waiting
    out: list[Piece] = []
    if heading:
        out.append(
            marked_piece(f"{heading}  {asker(waiting)}{waiting.name}  {waiting.target}", "strong")
        )
    if waiting.whose:
        out.append(marked_piece(f"a tool of {waiting.whose}", "accent"))
    if about:
        out.append(wrapped_piece("It says about itself, in words that nobody checked:", "muted"))
        out += (marked_piece(waiting.about, "text", lead="  "), blank)
    if waiting.reason and waiting.reason != ALWAYS_ASKS:
        out.append(marked_piece(waiting.reason, "warning", lead="⚠ "))
    if not waiting.blocks:
        out.append(marked_piece(f"{waiting.name} {waiting.target}", "text"))
    rows = iter(question.rows)
    for block in waiting.blocks:
        out.extend(_block(block, waiting, rows, split))
    return tuple(out)


def _block(
    block: DisplayBlock, waiting: ApprovalRequested, rows: Iterator[Sequence[DiffRow]], split: bool
) -> tuple[Piece, ...]:
    if isinstance(block, DiffBlock):
        return (_path(block.path, waiting), diff_piece(next(rows), block.path, split=split))
    return tuple(marked_piece(said.text, said.style) for said in text_of_block(block))


def _path(path: str, waiting: ApprovalRequested) -> Piece:
    """Return the path of a diff if the title may not show all of it."""

    def make(width: int, palette: Palette) -> Iterator[Line]:
        if path != waiting.target or visible(path) != path or cell_len(path) > width - _BESIDE_PATH:
            yield from marked_lines(path, width, palette)

    return make


def question_pieces(question: QuestionBlock, picked: int | None) -> tuple[Piece, ...]:
    """Return the question as Markdown, then the numbered answers; `picked` is the marked one, from
    0."""
    options = (_option(at, text, picked == at) for at, text in enumerate(question.options))
    return (markdown_piece(question.question), *((blank,) if question.options else ()), *options)


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
    """Return a line with a lead that is not copied."""
    body = Strip(Segment.apply_style(found.strip, style))
    return Line(
        Strip([Segment(lead, lead_style), *body]), found.text, found.start + len(lead), found.joins
    )
