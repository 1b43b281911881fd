"""A page that shows a change of a file hunk by hunk: the common base of the review of a call and of
`/diff`."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from textual import on
from textual.events import Key

from codeagent.tui.bindings import bindings
from codeagent.tui.keymap import keymap_of
from codeagent.tui.pages.page import Page
from codeagent.tui.parts.guard import TOO_SOON
from codeagent.tui.parts.hunk_pane import HunkPane, HunkRows
from codeagent.tui.parts.line_pane import SPLIT_FROM, LinePane
from codeagent.tui.parts.rows import Part

ResultT = TypeVar("ResultT")
VIEWS = ("{hunks.split} columns", "{hunks.full} all lines")
"""The hints of the keys that draw a change in another way."""


class DiffPage(Page[ResultT], inherit_bindings=False):
    """Keys move between hunks and scroll; until the page could be read, only the one that closes it
    works."""

    BINDINGS = bindings("hunks")

    def __init__(self, title: str) -> None:
        self.pane: HunkPane
        super().__init__(title, HunkPane(self.heading))
        self.shows_everything = False

    @abstractmethod
    def heading(self, at: int) -> Sequence[Part]:
        """Return the row above a hunk."""

    @abstractmethod
    def draw(self) -> None:
        """Show in title and footer how far the user is."""

    @abstractmethod
    def rows(self) -> tuple[HunkRows, ...]:
        """Return the hunks as the pane draws them, with all unchanged lines if
        `shows_everything`."""

    @abstractmethod
    def copied(self, at: int) -> str:
        """Return a hunk as text for the clipboard."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of hunks of the change that is shown."""

    def several(self, *hints: str) -> Sequence[str]:
        """Return hints for moving between hunks and for all of them; nothing if there is only
        one."""
        return ("{hunks.next} {hunks.previous} hunks", *hints) if self.count > 1 else ()

    def on_mount(self) -> None:
        self.draw()

    def on_key(self, event: Key) -> None:
        """Ignore keys pressed too soon: they may have been meant for something else."""
        if (
            self.focused is None
            and not self.guard.quiet
            and event.key not in keymap_of(self).keys_of("hunks.close")
        ):
            self.say(TOO_SOON)
            event.stop()
            event.prevent_default()

    def whole(self) -> str:
        return self.copied(self.pane.current) if self.count else ""

    def action_hunk(self, step: int) -> None:
        self.say("")
        if self.count:
            self.pane.go_to_hunk(self.pane.current + step)
        self.draw()

    def action_split(self) -> None:
        fits = self.pane.toggle_split()
        self.say(
            ""
            if fits
            else f"two columns need {SPLIT_FROM} cells; there are {self.pane.layout_width}"
        )
        self.draw()

    def action_everything(self) -> None:
        self.shows_everything = not self.shows_everything
        differs = self.pane.replace_hunks(self.rows())
        self.say("" if differs else "all lines of the file are shown")
        self.draw()

    @on(LinePane.Moved)
    def _moved(self) -> None:
        self.call_after_refresh(self._look)

    def _look(self) -> None:
        if self.is_attached:
            self.pane.look()
            self.draw()
