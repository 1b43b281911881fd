"""Pages for going back: choose an earlier moment, see the changes file by file, confirm them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from rich.cells import cell_len, set_cell_size
from textual.app import ComposeResult
from textual.containers import Container
from textual.events import Resize

from codeagent.core.checkpoints import ChangedFile, Changes, Node, Rewind
from codeagent.core.dataclass import dataclass
from codeagent.tui.bindings import bindings
from codeagent.tui.pages.page import Page, TextPane
from codeagent.tui.pages.picker import Picker
from codeagent.tui.parts.guard import TOO_SOON
from codeagent.tui.parts.line_pane import LinePane, Piece, diff_piece, wrapped_piece
from codeagent.tui.parts.marked_list import PickerRow
from codeagent.tui.rendering.diff import DiffRow, counts, diff_rows
from codeagent.tui.rendering.lines import Line, cut_middle, flat, line, paragraph
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.transcript.spelling import counted

_COMPARED = 100
"""Files whose lines are counted; further ones only show what happens to them."""
_LARGEST = 200_000
"""Bytes of the largest file that is compared."""
_MINE = "you edited it, too"
Answer = Literal["all", "not mine", ""]
Describe = Callable[[str], Awaitable[Sequence[Piece]]]
"""Returns what going back to the row of that key would do."""
CURRENT = ""
"""The key of the row that changes nothing."""
_WIDE = 100
"""Cells from which on the preview is beside the list."""
_BELOW = 6
"""Rows of the preview below the list."""
_AROUND = 4
_PAUSE = 0.15
"""Seconds that the mark rests on a row before its preview is made, which compares the whole
workspace."""


@dataclass(frozen=True)
class FileRow:
    """A row of the page: what the change of one file, from now to then, looks like."""

    path: str
    words: str
    """What going back does to the file: `+1 −2`, `is removed`, `comes back`."""
    edited: bool
    mine: tuple[DiffRow, ...] = ()
    """For a file that the user edited too: the change since the agent left it."""
    diff: tuple[DiffRow, ...] = ()
    """For such a file: the change that going back would make."""


async def file_rows(
    rewind: Rewind, point: str, files: Sequence[ChangedFile]
) -> tuple[FileRow, ...]:
    """Return a row for each file, in their order. Raises CheckpointError."""
    rows = [await _row(rewind, point, file) for file in files[:_COMPARED]]
    return (*rows, *map(_uncompared, files[_COMPARED:]))


def changes_pieces(rows: Sequence[FileRow], changes: Changes, *, diffs: bool) -> tuple[Piece, ...]:
    """Return all rows, what cannot be restored, and if `diffs` the lines of files that the user
    edited."""
    out = [_files(rows)]
    if changes.refused:
        out.append(
            _staying("These stay, because another codeagent changed them too:", changes.refused)
        )
    if changes.left_out:
        out.append(_staying("Not recorded, so not restored:", changes.left_out))
    for row in rows if diffs else ():
        if row.mine:
            out += [
                _heading(f"{row.path}, your edits since the agent"),
                diff_piece(row.mine, row.path, split=False),
            ]
        if row.diff:
            out += [
                _heading(f"{row.path}, from now to then"),
                diff_piece(row.diff, row.path, split=False),
            ]
    return tuple(out)


async def _row(rewind: Rewind, point: str, file: ChangedFile) -> FileRow:
    row = _uncompared(file)
    if file.change != "modified" and not file.edited:
        return row
    now, then = await rewind.node(None, file.path), await rewind.node(point, file.path)
    before, after = _text(now), _text(then)
    if before is None or after is None:
        return row
    rows = await asyncio.to_thread(diff_rows, before, after)
    if file.change == "modified":
        added, removed = counts(rows)
        row = replace(row, words=f"+{added} −{removed}")
    if not file.edited:
        return row
    return replace(row, mine=await _mine(rewind, file.path, before), diff=rows)


async def _mine(rewind: Rewind, path: str, now: str) -> tuple[DiffRow, ...]:
    """Return the user's change to the file since the agent's; empty if it cannot be compared."""
    agents = _text(await rewind.left_by_agent(path))
    return (
        () if agents is None or agents == now else await asyncio.to_thread(diff_rows, agents, now)
    )


def _uncompared(file: ChangedFile) -> FileRow:
    """Return a row that does not say how many lines change."""
    words = {"added": "is removed", "deleted": "comes back", "modified": "changes back"}
    return FileRow(file.path, words[file.change], file.edited)


def _text(node: Node | None) -> str | None:
    """Return the file's text; None if it cannot be compared by lines."""
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


def _staying(lead: str, phrases: Sequence[str]) -> Piece:
    def make(width: int, palette: Palette) -> Iterator[Line]:
        yield line([])
        yield line([(lead, palette.muted)])
        for phrase in phrases:
            yield from paragraph(phrase, width, palette.muted, first="  ")

    return make


def _heading(text: str) -> Piece:
    def make(width: int, palette: Palette) -> Iterator[Line]:
        yield line([])
        yield from wrapped_piece(text, "strong")(width, palette)

    return make


class GoingBackPage(Page[None]):
    """`answer` is what the user wanted when the page closed: all files, only those they did not
    edit, or nothing.

    Keys pressed in the first half second, or held down, never take anything back.
    """

    BINDINGS = bindings("rewind")

    def __init__(
        self, title: str, rows: Sequence[FileRow], changes: Changes, *, verb: str = "undo it"
    ) -> None:
        """`verb` says what Enter does."""
        self.answer: Answer = ""
        self._edited = [row for row in rows if row.edited]
        self._rest = len(rows) - len(self._edited)
        lead = self._lead(len(rows))
        plain = "\n".join(
            [
                lead,
                *(f"{row.path}\t{row.words}" for row in rows),
                *changes.refused,
                *changes.left_out,
            ]
        )
        pieces = [
            wrapped_piece(lead),
            wrapped_piece(""),
            *changes_pieces(rows, changes, diffs=True),
        ]
        super().__init__(title, TextPane(pieces, plain), counted(len(rows), "file"))
        leaves = (
            ["{rewind.leave_mine} leaves what you edited"] if self._edited and self._rest else []
        )
        scrolls = "{page.page_up} {page.page_down} scroll"
        self.hints = (
            f"{{rewind.take_back}} {verb}",
            *leaves,
            "{page.close} changes nothing",
            scrolls,
        )

    def action_take(self, answer: Answer) -> None:
        if not self.guard.admits(answer):
            self.say(TOO_SOON)
        elif answer == "not mine" and not self._edited:
            self.say("you edited none of these files: Enter takes all of them back")
        elif answer == "not mine" and not self._rest:
            self.say("you edited every one of these files: nothing would be left to undo")
        else:
            self.answer = answer
            self.dismiss(None)

    def _lead(self, count: int) -> str:
        if not self._edited:
            return f"{counted(count, 'file')} would change:"
        mine = len(self._edited)
        some = "it" if mine == 1 else "them"
        return (
            f"You edited {mine} of {counted(count, 'file')} after the agent: "
            f"undoing {some} loses your edits, too (/redo restores them)."
        )


class RewindPicker(Picker):
    """Returns the id of a point, `CURRENT` for the present, None after Esc."""

    DEFAULT_CSS = """
    RewindPicker {
        & Container { height: auto; layout: vertical; }
        & Container.-wide { layout: horizontal; }
        & LinePane { padding: 0 1 0 3; color: $foreground; border-top: solid $surface-lighten-2; }
        & .-wide LinePane { width: 42%; border-top: none; }
        & .-wide PickerList { width: 1fr; }
    }
    """

    def __init__(self, rows: Sequence[PickerRow], describe: Describe) -> None:
        super().__init__("Rewind to before…", rows, marked=CURRENT, on_highlight=self._look)
        self._describe = describe
        self._pane = LinePane()
        self._both = Container()

    def body(self) -> ComposeResult:
        with self._both:
            yield self.list
            yield self._pane

    def on_mount(self) -> None:
        super().on_mount()
        self._look(CURRENT)

    def on_resize(self, event: Resize) -> None:
        wide = event.size.width >= _WIDE
        self._both.set_class(wide, "-wide")
        room = max(2, event.size.height * 3 // 4 - _AROUND)
        below = 0 if wide else min(_BELOW, room // 2)
        height = min(max(1, self._total), max(1, room - below))
        self.list.styles.height = max(height, min(room, 2 * _BELOW)) if wide else height
        self._pane.styles.height = self.list.styles.height if wide else below + 1

    def _look(self, key: str) -> None:
        self.run_worker(self._show(key), group="look", exclusive=True)

    async def _show(self, key: str) -> None:
        if key != CURRENT:
            await asyncio.sleep(_PAUSE)
        self._pane.show(await self._describe(key))


def nothing_changes() -> Sequence[Piece]:
    return (wrapped_piece("This is how it is now: nothing changes.", "muted"),)
