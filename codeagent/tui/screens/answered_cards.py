"""What the person says on a card is done on the conversation."""

from collections.abc import Callable

from textual import on

from codeagent.core.acts import Answer
from codeagent.core.hunks import HunkAnswer
from codeagent.tui.screens.commanded import Chat
from codeagent.tui.widgets.approval import ApprovalCard
from codeagent.tui.widgets.boundary_acts import BoundaryAct
from codeagent.tui.widgets.boundary_card import BoundaryCard
from codeagent.tui.widgets.card_dock import CardDock


class AnsweredCards(CardDock):
    """The dock of a chat screen; what a card has no use for any more passes through."""

    def __init__(self, chat: Chat, act: Callable[[BoundaryAct], None], *, now: Callable[[], float]) -> None:
        """`act` does what is wanted at a boundary. `now` gives seconds since the epoch."""
        super().__init__(chat.stage, now=now)
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
        from codeagent.tui.screens.hunks import HunkReview  # not needed before the first change

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
