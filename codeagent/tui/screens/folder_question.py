"""Asks before codeagent works in a folder that is no project, or lets commands read a git directory elsewhere."""

import time
from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from codeagent.core.sanitize import visible
from codeagent.tui.screens.title_row import HintRow, TitleRow
from codeagent.tui.widgets.guard import Guard


class FolderQuestion(ModalScreen[bool]):
    """Gives True only for `y`, and not for one that was typed before the question could be read."""

    DEFAULT_CSS = """
    FolderQuestion {
        align: left bottom;
        background: $background;
        & > Vertical { height: auto; background: $surface; color: $foreground; }
        & Static { height: auto; padding: 1 3; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "work here", show=False, id="question.yes"),
        Binding("n,enter,escape,ctrl+c", "answer(False)", "leave", show=False, id="question.no"),
    ]
    AUTO_FOCUS = ""
    TITLE = "Work here?"
    ASKED = "work here anyway?"
    HINTS: ClassVar[list[str]] = ["n no, leave (the default)", "y yes, work here"]

    def __init__(self, text: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`text`: what this folder is, as `this is your home folder, not a project`."""
        super().__init__()
        self._text = text
        self._guard = Guard(clock)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield TitleRow(self.TITLE)
            yield Static(f"{visible(self._text)}: {self.ASKED}", markup=False)
            yield HintRow(self.HINTS)

    def on_mount(self) -> None:
        self._guard.close()

    def action_answer(self, answer: bool) -> None:
        if not answer or self._guard.admits("y"):
            self.dismiss(answer)


class GitQuestion(FolderQuestion):
    """The same for a git directory that a worktree or a submodule uses; `text` names it."""

    TITLE = "Use this git directory?"
    ASKED = (
        "may commands in the sandbox read it, and may commits you approve be written to it? "
        "Commands cannot change it, and without it git does not work in bash."
    )
    HINTS: ClassVar[list[str]] = ["n no (the default)", "y yes, always for this folder"]
