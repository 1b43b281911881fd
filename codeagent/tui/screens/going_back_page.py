"""Asks before files go back: what would happen to each, and what of the person's own would be lost."""

import time
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from textual.binding import Binding, BindingType
from textual.events import Paste
from textual.widget import Widget

from codeagent.core.rewind import Changes
from codeagent.tui.screens.going_back_files import FileRow, changes_pieces, counted, said
from codeagent.tui.screens.page import Page, Pane
from codeagent.tui.screens.title_row import HintRow
from codeagent.tui.widgets.guard import TOO_SOON, Guard
from codeagent.tui.widgets.line_pane import LinePane, Piece

Answer = Literal["all", "not mine", ""]


class FilesPane(LinePane):
    DEFAULT_CSS = """
    FilesPane { padding: 1 2 0 2; }
    """

    def __init__(self, pieces: Sequence[Piece], plain: str) -> None:
        super().__init__()
        self._begin = tuple(pieces)
        self._plain = plain

    def on_mount(self) -> None:
        self.show(self._begin)

    def everything(self) -> str:
        return self._plain


class GoingBackPage(Page):
    """`answer` is what the person wants when it is closed: all files, only those that are not theirs, or nothing.

    No key takes anything back in the first half second, nor one that is held down.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,y", "take('all')", "take it back", show=False, id="rewind.take_back"),
        Binding("m", "take('not mine')", "leave what you edited", show=False, id="rewind.leave_mine"),
    ]

    def __init__(
        self,
        title: str,
        rows: Sequence[FileRow],
        changes: Changes,
        *,
        verb: str = "undo it",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`verb` says what Enter does. `clock` gives seconds that never go back."""
        super().__init__(title, counted(len(rows), "file"))
        self.answer: Answer = ""
        self._edited = [row for row in rows if row.edited]
        self._rest = len(rows) - len(self._edited)
        self._guard = Guard(clock)
        lead = self._lead(len(rows))
        plain = "\n".join([lead, *(f"{row.path}\t{row.words}" for row in rows), *changes.left_out])
        pieces = [said(lead), said(""), *changes_pieces(rows, changes, diffs=True)]
        self._pane = FilesPane(pieces, plain)
        leaves = ["m leaves what you edited"] if self._edited and self._rest else []
        self.hint_row = HintRow([f"Enter {verb}", *leaves, "Esc changes nothing", "PgUp PgDn scroll"])

    def pane(self) -> Pane:
        return self._pane

    def body(self) -> Sequence[Widget]:
        return [self._pane]

    def on_mount(self) -> None:
        self._guard.close()

    def on_paste(self, event: Paste) -> None:
        event.stop()
        self._guard.close()

    def action_take(self, answer: Answer) -> None:
        if not self._guard.admits(answer):
            self.hint_row.tell(TOO_SOON)
        elif answer == "not mine" and not self._edited:
            self.hint_row.tell("you edited none of these files: Enter takes all of them back")
        elif answer == "not mine" and not self._rest:
            self.hint_row.tell("you edited every one of these files: nothing would be left to undo")
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
