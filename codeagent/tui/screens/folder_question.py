"""Asks before codeagent works in a folder that is no project."""

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

    def __init__(self, text: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`text`: what this folder is, as `this is your home folder, not a project`."""
        super().__init__()
        self._text = text
        self._guard = Guard(clock)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield TitleRow("Work here?")
            yield Static(f"{visible(self._text)}: work here anyway?", markup=False)
            yield HintRow(["n no, leave (the default)", "y yes, work here"])

    def on_mount(self) -> None:
        self._guard.close()

    def action_answer(self, answer: bool) -> None:
        if not answer or self._guard.admits("y"):
            self.dismiss(answer)
