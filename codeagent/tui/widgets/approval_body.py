"""What a question shows, whole: nothing of what is asked is cut, folded away or made to look like something else."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from codeagent.core.sanitize import visible
from codeagent.tui.rendering.diff import DiffRow, counts, diff_rows
from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.marked import marked_lines
from codeagent.tui.rendering.palette import PLAIN, Palette
from codeagent.tui.rendering.shown import (
    Shown,
    ShownDiff,
    ShownFiles,
    ShownImage,
    ShownMarkdown,
    ShownQuestion,
    ShownTerminal,
    ShownText,
    ShownUnknown,
)
from codeagent.tui.stage import Waiting
from codeagent.tui.widgets.diff_piece import diff_piece
from codeagent.tui.widgets.line_pane import Piece

ASK_USER = "ask_user"
_BESIDE_PATH = 48
"""Cells of a title that are not the path: the tool, counts, age and edges."""


@dataclass(frozen=True)
class Asked:
    """A question with what is expensive to know about it."""

    waiting: Waiting
    rows: tuple[tuple[DiffRow, ...], ...]
    """Of each diff, in order."""
    changed: tuple[int, int] | None
    """Lines added and removed; None where nothing is changed."""

    @property
    def question(self) -> ShownQuestion | None:
        """The agent's question to the person; None where a call waits for permission."""
        if self.waiting.name != ASK_USER:
            return None
        found = (block for block in self.waiting.shown if isinstance(block, ShownQuestion))
        return next(found, ShownQuestion(self.waiting.target))

    @property
    def diff(self) -> ShownDiff | None:
        """The change that may be answered hunk by hunk."""
        diffs = [block for block in self.waiting.shown if isinstance(block, ShownDiff)]
        return diffs[0] if self.waiting.by_hunk and len(diffs) == 1 else None

    @property
    def editable(self) -> bool:
        """It may be asked again about other arguments."""
        return bool(self.waiting.arguments)

    @property
    def whole(self) -> bool:
        """All of it can be shown."""
        return not any(isinstance(block, ShownUnknown) for block in self.waiting.shown)


def asked(waiting: Waiting) -> Asked:
    """Compare the texts of the question's diffs."""
    diffs = [block for block in waiting.shown if isinstance(block, ShownDiff)]
    rows = tuple(_without_edges(diff_rows(each.before, each.after, each.start_line)) for each in diffs)
    pairs = [counts(each) for each in rows]
    changed = (sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)) if pairs else None
    return Asked(waiting, rows, changed)


def _without_edges(rows: tuple[DiffRow, ...]) -> tuple[DiffRow, ...]:
    """Without what only says how much of the file is unchanged above and below: the card has few rows."""
    inner = rows[1:] if rows and rows[0].kind == "gap" else rows
    return inner[:-1] if inner and inner[-1].kind == "gap" else inner


def pieces(question: Asked, *, split: bool, heading: str = "") -> tuple[Piece, ...]:
    """The reason, then every block; `heading` comes before them where several questions are listed."""
    waiting = question.waiting
    out: list[Piece] = []
    if heading:
        out.append(_marked(f"{heading}  {waiting.name}  {waiting.target}", "strong"))
    if waiting.reason:
        out.append(_marked(f"asked because: {waiting.reason}", "muted"))
    if not waiting.shown:
        out.append(_marked(f"{waiting.name} {waiting.target}", "text"))
    rows = iter(question.rows)
    for block in waiting.shown:
        out.extend(_block(block, waiting, rows, split))
    return tuple(out)


def _block(block: Shown, waiting: Waiting, rows: Iterator[Sequence[DiffRow]], split: bool) -> tuple[Piece, ...]:
    match block:
        case ShownText(text) | ShownMarkdown(text):
            return (_marked(text, "text"),)
        case ShownTerminal(command, output):
            printed = (_marked(output, "muted"),) if output else ()
            return (_marked(f"$ {command}", "text"), *printed)
        case ShownDiff(path):
            return (_path(path, waiting), diff_piece(next(rows), path, split=split))
        case ShownFiles(paths):
            return tuple(_marked(path, "text") for path in paths)
        case ShownImage(path, media_type):
            return (_marked(f"image {path} ({media_type})", "text"),)
        case ShownQuestion(question, options):
            return (_marked("\n".join((question, *options)), "text"),)
        case ShownUnknown(type):
            return (_marked(f"a block of the kind {type}, which this version cannot show", "error"),)
        case _:
            assert_never(block)


def _marked(text: str, style: str) -> Piece:
    """All of a text, in the palette's style of that name but for what `marked_lines` points out."""

    def make(width: int, palette: Palette) -> Iterator[Line]:
        plain, wanted = {None, PLAIN, palette.text}, getattr(palette, style)
        for found in marked_lines(text, width, palette):
            segments = (Segment(part, wanted if own in plain else own) for part, own, _ in found.strip)
            yield replace(found, strip=Strip(segments))

    return make


def _path(path: str, waiting: Waiting) -> Piece:
    """The path of a diff where the title may not show all of it."""

    def make(width: int, palette: Palette) -> Iterator[Line]:
        if path != waiting.target or visible(path) != path or cell_len(path) > width - _BESIDE_PATH:
            yield from marked_lines(path, width, palette)

    return make


def blank(width: int, palette: Palette) -> Iterator[Line]:
    """A piece of one empty line."""
    yield line([])
