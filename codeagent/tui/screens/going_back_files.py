"""What going back would do to each file, in words and as a diff."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from codeagent.core.checkpoints import Node
from codeagent.core.rewind import ChangedFile, Changes, Rewind
from codeagent.tui.rendering.diff import DiffRow, counts, diff_rows
from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.rendering.rows import wrap
from codeagent.tui.widgets.diff_piece import diff_piece
from codeagent.tui.widgets.fitting import cut_middle, flat
from codeagent.tui.widgets.line_pane import Piece

_COMPARED = 100
"""Files whose lines are counted; of more, only what happens to them is said."""
_LARGEST = 200_000
"""Bytes up to which a file is compared."""
_MINE = "you edited it, too"


@dataclass(frozen=True)
class FileRow:
    path: str
    words: str
    """What going back does to it: `+1 −2`, `is removed`, `comes back`."""
    edited: bool
    mine: tuple[DiffRow, ...] = ()
    """Of a file that the person edited as well: from how the agent left it to how it is now."""
    diff: tuple[DiffRow, ...] = ()
    """Of such a file: from now to then."""


async def file_rows(rewind: Rewind, point: str, files: Sequence[ChangedFile]) -> tuple[FileRow, ...]:
    """A row for each file, in their order. Raises CheckpointError."""
    rows = [await _row(rewind, point, file) for file in files[:_COMPARED]]
    return (*rows, *(FileRow(file.path, _plain_words(file), file.edited) for file in files[_COMPARED:]))


def changes_pieces(rows: Sequence[FileRow], changes: Changes, *, diffs: bool) -> tuple[Piece, ...]:
    """All rows, what cannot be brought back, and with `diffs` the lines of files the person edited."""
    out = [_files(rows)]
    if changes.left_out:
        out.append(_left_out(changes.left_out))
    for row in rows if diffs else ():
        if row.mine:
            out += [_heading(f"{row.path}, your edits since the agent"), diff_piece(row.mine, row.path, split=False)]
        if row.diff:
            out += [_heading(f"{row.path}, from now to then"), diff_piece(row.diff, row.path, split=False)]
    return tuple(out)


def counted(count: int, one: str) -> str:
    return f"1 {one}" if count == 1 else f"{count} {one}s"


def said(text: str, style: str = "text") -> Piece:
    """A text whole, in the palette's style of that name."""

    def make(width: int, palette: Palette) -> Iterator[Line]:
        for row in wrap([(text, getattr(palette, style))], width):
            yield line(row.parts, joins=row.joins)

    return make


async def _row(rewind: Rewind, point: str, file: ChangedFile) -> FileRow:
    if file.change != "modified" and not file.edited:
        return FileRow(file.path, _plain_words(file), file.edited)
    now, then = await rewind.node(None, file.path), await rewind.node(point, file.path)
    before, after = _text(now), _text(then)
    if before is None or after is None:
        return FileRow(file.path, _plain_words(file), file.edited)
    rows = await asyncio.to_thread(diff_rows, before, after)
    added, removed = counts(rows)
    words = f"+{added} −{removed}" if file.change == "modified" else _plain_words(file)
    if not file.edited:
        return FileRow(file.path, words, False)
    return FileRow(file.path, words, True, await _mine(rewind, file.path, before), rows)


async def _mine(rewind: Rewind, path: str, now: str) -> tuple[DiffRow, ...]:
    """What the person did to the file since the agent; nothing where that cannot be compared."""
    agents = _text(await rewind.left_by_agent(path))
    return () if agents is None or agents == now else await asyncio.to_thread(diff_rows, agents, now)


def _plain_words(file: ChangedFile) -> str:
    return {"added": "is removed", "deleted": "comes back", "modified": "changes back"}[file.change]


def _text(node: Node | None) -> str | None:
    """None where it cannot be compared by lines."""
    if node is None:
        return ""
    if node.kind == "link" or len(node.data) > _LARGEST or b"\0" in node.data:
        return None
    return node.data.decode(errors="replace")


def _files(rows: Sequence[FileRow]) -> Piece:
    def make(width: int, palette: Palette) -> Iterator[Line]:
        beside = max((cell_len(row.words) for row in rows), default=0)
        mine = cell_len(_MINE) + 2 if any(row.edited for row in rows) else 0
        longest = max((cell_len(flat(row.path)) for row in rows), default=0)
        column = max(8, min(longest, width - beside - mine - 2))
        for row in rows:
            path = set_cell_size(cut_middle(flat(row.path), column), column)
            words = f"  {row.words}" + " " * (beside - cell_len(row.words))
            parts = [(path, palette.text), (words, palette.muted)]
            if row.edited:
                parts.append((f"  {_MINE}", palette.warning))
            yield line(parts)

    return make


def _left_out(phrases: Sequence[str]) -> Piece:
    def make(width: int, palette: Palette) -> Iterator[Line]:
        yield line([])
        yield line([("Not seen, and not brought back:", palette.muted)])
        for phrase in phrases:
            for row in wrap([(phrase, palette.muted)], max(4, width - 2)):
                yield line([("  ", None), *row.parts], joins=row.joins)

    return make


def _heading(text: str) -> Piece:
    def make(width: int, palette: Palette) -> Iterator[Line]:
        yield line([])
        yield from said(text, "strong")(width, palette)

    return make
