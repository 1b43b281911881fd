"""What is docked above the composer and waits for the user, and what is answered to it."""

from collections.abc import Callable

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from codeagent.core.acts import Answer
from codeagent.core.display import HunkAnswer
from codeagent.tui.pages.commanded import Chat
from codeagent.tui.parts.approval import ApprovalCard
from codeagent.tui.parts.boundary_card import BoundaryCard
from codeagent.tui.parts.boundary_sheet import BoundaryAct
from codeagent.tui.parts.guard import TOO_SOON
from codeagent.tui.state import UiState


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

    def __init__(self, state: UiState, *, now: Callable[[], float]) -> None:
        super().__init__()
        self._state = state
        self.approval = ApprovalCard(state.approvals, now=now)
        self.boundary = BoundaryCard(state)

    def compose(self) -> ComposeResult:
        yield self.approval
        yield self.boundary

    def on_descendant_focus(self) -> None:
        self._state.status.set(on_card=True)

    def on_descendant_blur(self) -> None:
        self._state.status.set(on_card=False)

    def ring(self, bell: bool) -> None:
        """Whether what waits for the user rings once."""
        self.approval.rings = self.boundary.rings = bell

    def typed(self) -> None:
        """The user typed or pasted in the composer."""
        self.approval.typed()
        self.boundary.typed()

    def take_focus(self) -> bool:
        """Give the keys to what waits; False where nothing does."""
        if self._state.approvals.waiting:
            self.approval.take_focus()
            return True
        if self._state.boundary.now is None:
            return False
        self.boundary.take_focus()
        return True

    def press(self, key: str) -> bool:
        """A key with Alt, from the composer; False if it is not one of theirs."""
        return self.approval.press(key) if self._state.approvals.waiting else self.boundary.press(key)

    @property
    def too_soon(self) -> str:
        """Why a key of the composer that ends a pause does not count yet; empty where it does."""
        return TOO_SOON if self.boundary.is_new else ""


class AnsweredCards(CardDock):
    """The dock of a chat screen; what a card no longer needs passes through."""

    def __init__(self, chat: Chat, act: Callable[[BoundaryAct], None], *, now: Callable[[], float]) -> None:
        """`act` does what is wanted at a boundary. `now` gives seconds since the epoch."""
        super().__init__(chat.state, now=now)
        self._chat = chat
        self._act = act

    @on(ApprovalCard.Answered)
    def _answered(self, message: ApprovalCard.Answered) -> None:
        if self._chat.client is None:
            return
        if (refused := self._chat.client.do(Answer(message.approval_id, message.decision))) is not None:
            self._chat.tell(refused.reason)

    @on(ApprovalCard.HunksWanted)
    def _choose_hunks(self, message: ApprovalCard.HunksWanted) -> None:
        from codeagent.tui.pages.hunk_review import HunkReview  # not needed before the first change

        def take(answers: tuple[HunkAnswer, ...] | None) -> None:
            if answers is not None and not self.approval.take_hunks(message.approval_id, answers):
                self._chat.tell("the question is no longer pending; nothing was changed")

        self.app.push_screen(HunkReview(message.diff), take)

    @on(ApprovalCard.Told)
    def _not_answered(self, message: ApprovalCard.Told) -> None:
        self._chat.tell(message.text)
        self._chat.restore(message.back)

    @on(BoundaryCard.Wanted)
    def _at_boundary(self, message: BoundaryCard.Wanted) -> None:
        self._act(message.act)
