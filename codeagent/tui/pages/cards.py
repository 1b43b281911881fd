"""What is docked above the composer and waits for the user, and the acts that come of it."""

from collections.abc import Callable
from typing import assert_never

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from codeagent.core.acts import Act, Answer, EditCall, Prompt, Resume, SetMode, SkipCall, Step
from codeagent.core.display import HunkAnswer
from codeagent.core.errors import CodeagentError
from codeagent.core.sanitize import one_line
from codeagent.tui.pages.outbox import Outbox
from codeagent.tui.parts.approval import ApprovalCard
from codeagent.tui.parts.boundary_card import BoundaryCard
from codeagent.tui.parts.boundary_sheet import BoundaryAct, Continue, StartPlan, WriteCall, WritePlan, WrittenCall
from codeagent.tui.parts.external_editor import edit_in_editor
from codeagent.tui.state import UiState

NO_PLAN = "no plan is ready: /plan and a goal begins one"


class CardDock(Vertical):
    """Shows one card at a time, questions first; what cannot be done is told in one line, and nothing written is lost.

    `now` gives seconds since the epoch.
    """

    DEFAULT_CSS = """
    CardDock {
        width: 1fr;
        height: auto;
    }
    """

    def __init__(self, state: UiState, outbox: Outbox, *, now: Callable[[], float]) -> None:
        super().__init__()
        self._state = state
        self._outbox = outbox
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

    async def at_boundary(self, wanted: BoundaryAct) -> None:
        """Do what is wanted at a boundary, by the card or a command; editors are waited for.

        Raises CodeagentError; the card takes keys again then.
        """
        try:
            await self._at_boundary(wanted)
        except CodeagentError:
            self.boundary.not_sent()
            raise

    async def _at_boundary(self, wanted: BoundaryAct) -> None:
        client = await self._outbox.ready()
        match wanted:
            case Continue(step=step):
                if step is not None:
                    client.do(Step(step))
                self._do(Resume())
            case SkipCall():
                self._do(wanted)
            case WriteCall(call_id=call_id, edit=edit, written=written):
                text = await edit_in_editor(self.app, written, suffix=edit.suffix)
                self.boundary.call_edited(call_id, edit, text)
            case WrittenCall(call_id=call_id, arguments=arguments, written=written):
                refused = client.do(EditCall(call_id, arguments))
                if refused is not None and not self.boundary.refuse(call_id, written, refused.reason):
                    self._keep(written, refused.reason)
            case StartPlan(text=text, mode=mode):
                client.do(SetMode(mode))
                client.do(Prompt(f"Carry out this plan:\n\n{text}"))
            case WritePlan(text=text):
                text = await edit_in_editor(self.app, text)
                if not self.boundary.change_plan(text):
                    self._keep(text, NO_PLAN)
            case _:
                assert_never(wanted)

    @on(ApprovalCard.Answered)
    def _answered(self, message: ApprovalCard.Answered) -> None:
        self._do(Answer(message.approval_id, message.decision))

    @on(ApprovalCard.HunksWanted)
    def _choose_hunks(self, message: ApprovalCard.HunksWanted) -> None:
        from codeagent.tui.pages.hunk_review import HunkReview  # not needed before the first change

        def take(answers: tuple[HunkAnswer, ...] | None) -> None:
            if answers is not None and not self.approval.take_hunks(message.approval_id, answers):
                self._tell("the question is no longer pending; nothing was changed")

        self.app.push_screen(HunkReview(message.diff), take)

    @on(ApprovalCard.Told)
    def _not_answered(self, message: ApprovalCard.Told) -> None:
        self._tell(message.text)
        self._state.give_back(message.back)

    @on(BoundaryCard.Wanted)
    def _wanted(self, message: BoundaryCard.Wanted) -> None:
        self.app.run_worker(self._told(message.act), exit_on_error=True)

    async def _told(self, wanted: BoundaryAct) -> None:
        try:
            await self.at_boundary(wanted)
        except CodeagentError as error:
            self._tell(str(error))

    def _do(self, act: Act) -> None:
        client = self._outbox.client
        if client is not None and (refused := client.do(act)) is not None:
            self._tell(refused.reason)

    def _keep(self, text: str, problem: str) -> None:
        """What was written for something that is gone."""
        self._state.give_back(text)
        self._tell(f"{one_line(problem, 80)}; what you wrote is in your line")

    def _tell(self, text: str) -> None:
        self._state.status.set(notice=text)
