"""What a question shows, whole: nothing of what is asked is cut, folded away or made to look like something else."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.display import DiffBlock, DisplayBlock, QuestionBlock, UnknownBlock
from codeagent.core.policy import ALWAYS_ASKS
from codeagent.core.sanitize import visible
from codeagent.tui.rendering.block_text import text_of_block
from codeagent.tui.rendering.diff import DiffRow, counts, diff_rows
from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.marked import marked_lines
from codeagent.tui.rendering.palette import PLAIN, Palette
from codeagent.tui.stage import ASK_USER
from codeagent.tui.widgets.diff_piece import diff_piece
from codeagent.tui.widgets.line_pane import Piece

_CONTEXT = 2
"""Unchanged lines above the first change and below the last."""
_BESIDE_PATH = 48
"""Cells of a title that are not the path: the tool, counts, age and edges."""


@dataclass(frozen=True)
class Asked:
    """A question with what is expensive to know about it."""

    waiting: ApprovalRequested
    rows: tuple[tuple[DiffRow, ...], ...]
    """Of each diff, in order."""
    changed: tuple[int, int] | None
    """Lines added and removed; None where nothing is changed."""

    @property
    def question(self) -> QuestionBlock | None:
        """The agent's question to the person; None where a call waits for permission."""
        if self.waiting.name != ASK_USER:
            return None
        found = (block for block in self.waiting.blocks if isinstance(block, QuestionBlock))
        return next(found, QuestionBlock(question=self.waiting.target))

    @property
    def diff(self) -> DiffBlock | None:
        """The change that may be answered hunk by hunk."""
        diffs = [block for block in self.waiting.blocks if isinstance(block, DiffBlock)]
        return diffs[0] if self.waiting.by_hunk and len(diffs) == 1 else None

    @property
    def editable(self) -> bool:
        """It may be asked again about other arguments."""
        return bool(self.waiting.arguments)

    @property
    def whole(self) -> bool:
        """All of it can be shown."""
        return not any(isinstance(block, UnknownBlock) for block in self.waiting.blocks)


def asked(waiting: ApprovalRequested) -> Asked:
    """Compare the texts of the question's diffs."""
    diffs = [block for block in waiting.blocks if isinstance(block, DiffBlock)]
    rows = tuple(_without_edges(diff_rows(each.before, each.after, each.start_line)) for each in diffs)
    pairs = [counts(each) for each in rows]
    changed = (sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)) if pairs else None
    return Asked(waiting, rows, changed)


def _without_edges(rows: tuple[DiffRow, ...]) -> tuple[DiffRow, ...]:
    """With a few unchanged lines above the first change and below the last: the card has few rows."""
    changes = [at for at, row in enumerate(rows) if row.kind not in ("same", "gap")]
    if not changes:
        return rows
    inner = rows[max(0, changes[0] - _CONTEXT) : changes[-1] + 1 + _CONTEXT]
    return tuple(row for at, row in enumerate(inner) if row.kind != "gap" or 0 < at < len(inner) - 1)


def pieces(question: Asked, *, split: bool, heading: str = "") -> tuple[Piece, ...]:
    """The reason, then every block; `heading` comes before them where several questions are listed."""
    waiting = question.waiting
    out: list[Piece] = []
    if heading:
        out.append(_marked(f"{heading}  {waiting.name}  {waiting.target}", "strong"))
    if waiting.reason and waiting.reason != ALWAYS_ASKS:
        out.append(_marked(waiting.reason, "warning", lead="⚠ "))
    if not waiting.blocks:
        out.append(_marked(f"{waiting.name} {waiting.target}", "text"))
    rows = iter(question.rows)
    for block in waiting.blocks:
        out.extend(_block(block, waiting, rows, split))
    return tuple(out)


def _block(
    block: DisplayBlock, waiting: ApprovalRequested, rows: Iterator[Sequence[DiffRow]], split: bool
) -> tuple[Piece, ...]:
    if isinstance(block, DiffBlock):
        return (_path(block.path, waiting), diff_piece(next(rows), block.path, split=split))
    return tuple(_marked(said.text, said.style) for said in text_of_block(block))


def _marked(text: str, style: str, *, lead: str = "") -> Piece:
    """All of a text, in the palette's style of that name but for what `marked_lines` points out.

    `lead` stands in front of its first line, and is not copied.
    """
    indent = cell_len(lead)

    def make(width: int, palette: Palette) -> Iterator[Line]:
        plain, wanted = {None, PLAIN, palette.text}, getattr(palette, style)
        for row, found in enumerate(marked_lines(text, max(1, width - indent), palette)):
            front = (Segment(" " * indent if row else lead, wanted),) if lead else ()
            segments = (Segment(part, wanted if own in plain else own) for part, own, _ in found.strip)
            yield replace(found, strip=Strip([*front, *segments]), start=found.start + indent)

    return make


def _path(path: str, waiting: ApprovalRequested) -> Piece:
    """The path of a diff where the title may not show all of it."""

    def make(width: int, palette: Palette) -> Iterator[Line]:
        if path != waiting.target or visible(path) != path or cell_len(path) > width - _BESIDE_PATH:
            yield from marked_lines(path, width, palette)

    return make


def blank(width: int, palette: Palette) -> Iterator[Line]:
    """A piece of one empty line."""
    yield line([])
