"""The card of the chat screen: does what the user chooses there, and says in one line what cannot
be done."""

from collections.abc import Callable
from typing import assert_never

from codeagent.core.acts import (
    Act,
    Answer,
    AnswerSummary,
    EditCall,
    Prompt,
    Resume,
    SetMode,
    SkipCall,
    Step,
)
from codeagent.core.display import HunkAnswer
from codeagent.core.errors import CodeagentError
from codeagent.core.sanitize import one_line
from codeagent.tui.pages.outbox import Outbox
from codeagent.tui.parts.card import Card
from codeagent.tui.parts.card_content import (
    BoundaryAct,
    CardAct,
    ChooseHunks,
    Continue,
    StartPlan,
    Tell,
    UseSummary,
    WrittenCall,
)
from codeagent.tui.state import UiState


class ChatCard(Card):
    """Sends answers at once; what the user wants at a boundary waits for the conversation. Typed
    text is never lost.

    `now` gives seconds since the epoch.
    """

    def __init__(self, state: UiState, outbox: Outbox, *, now: Callable[[], float]) -> None:
        super().__init__(state, self._want, now=now)
        self._outbox = outbox

    async def at_boundary(self, wanted: BoundaryAct) -> None:
        """Do what the user wants at a boundary, with the card or a command.

        Raises CodeagentError; the card then accepts keys again.
        """
        try:
            await self._at_boundary(wanted)
        except CodeagentError:
            self.not_sent()
            raise

    async def _at_boundary(self, wanted: BoundaryAct) -> None:
        client = await self._outbox.ready()
        match wanted:
            case Continue(step=step):
                if step is not None:
                    client.do(Step(step))
                self._act(Resume())
            case SkipCall():
                self._act(wanted)
            case WrittenCall(call_id=call_id, arguments=arguments, written=written):
                refused = client.do(EditCall(call_id, arguments))
                if refused is not None and not self.refuse(call_id, refused.reason):
                    self._state.give_back(written)
                    self._tell(f"{one_line(refused.reason, 80)}; your text is in the composer")
            case StartPlan(text=text, mode=mode):
                client.do(SetMode(mode))
                client.do(Prompt(f"Carry out this plan:\n\n{text}"))
            case UseSummary(text=text, seen=seen):
                self._act(AnswerSummary(text, seen))
            case _:
                assert_never(wanted)

    def _want(self, wanted: CardAct) -> None:
        match wanted:
            case Answer():
                self._act(wanted)
            case ChooseHunks():
                self._choose_hunks(wanted)
            case Tell():
                self._tell(wanted.text)
                self._state.give_back(wanted.back)
            case _:
                self.app.run_worker(self._told(wanted))

    def _choose_hunks(
        self, wanted: ChooseHunks, given: tuple[HunkAnswer, ...] = (), at: int = 0
    ) -> None:
        """Ask about the file at that index; `given` has the answers for those before it. Going back
        gives no answer."""
        from codeagent.tui.pages.hunk_review import HunkReview  # not needed until the first change

        def take(answers: tuple[HunkAnswer, ...] | None) -> None:
            if answers is None:
                return
            if at + 1 < len(wanted.diffs):
                self._choose_hunks(wanted, (*given, *answers), at + 1)
            elif not self.take_hunks(wanted.approval_id, (*given, *answers)):
                self._tell("the question is no longer pending; nothing was changed")

        self.app.push_screen(HunkReview(wanted.diffs[at], at + 1, len(wanted.diffs)), take)

    async def _told(self, wanted: BoundaryAct) -> None:
        try:
            await self.at_boundary(wanted)
        except CodeagentError as error:
            self._tell(str(error))

    def _act(self, act: Act) -> None:
        client = self._outbox.client
        if client is not None and (refused := client.do(act)) is not None:
            self._tell(refused.reason)

    def _tell(self, text: str) -> None:
        self._state.status.set(notice=text)
