"""What is docked above the composer and waits for the person: a question, else a boundary."""

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Vertical

from codeagent.tui.stage import Stage
from codeagent.tui.widgets.approval import ApprovalCard
from codeagent.tui.widgets.boundary_card import BoundaryCard
from codeagent.tui.widgets.guard import TOO_SOON


class CardDock(Vertical):
    """Shows one card at a time, questions first; messages of the cards pass through.

    `now` gives seconds since the epoch.
    """

    DEFAULT_CSS = """
    CardDock {
        width: 1fr;
        height: auto;
    }
    """

    def __init__(self, stage: Stage, *, now: Callable[[], float]) -> None:
        super().__init__()
        self._stage = stage
        self.approval = ApprovalCard(stage.desk, now=now)
        self.boundary = BoundaryCard(stage)

    def compose(self) -> ComposeResult:
        yield self.approval
        yield self.boundary

    def on_descendant_focus(self) -> None:
        self._stage.status.set(on_card=True)

    def on_descendant_blur(self) -> None:
        self._stage.status.set(on_card=False)

    def ring(self, bell: bool) -> None:
        """Whether what waits for the person rings once."""
        self.approval.rings = self.boundary.rings = bell

    def typed(self) -> None:
        """The person typed or pasted in the composer."""
        self.approval.typed()
        self.boundary.typed()

    def take_focus(self) -> bool:
        """Give the keys to what waits; False where nothing does."""
        if self._stage.desk.waiting:
            self.approval.take_focus()
            return True
        if self._stage.boundary.now is None:
            return False
        self.boundary.take_focus()
        return True

    def press(self, key: str) -> bool:
        """A key with Alt, from the composer; False where it is none of theirs."""
        return self.approval.press(key) if self._stage.desk.waiting else self.boundary.press(key)

    @property
    def too_soon(self) -> str:
        """Why a key of the composer that ends a pause does not count yet; empty where it does."""
        return TOO_SOON if self.boundary.is_new else ""
