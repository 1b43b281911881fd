"""What the user wants at a boundary, as acts: from the card's keys and from commands."""

from typing import Literal, assert_never

from codeagent.core import acts
from codeagent.core.acts import Refused
from codeagent.core.budget import Budget
from codeagent.core.errors import CodeagentError
from codeagent.core.sanitize import one_line
from codeagent.tui.pages.commanded import Chat
from codeagent.tui.parts.boundary_sheet import BoundaryAct, Continue, StartPlan, WriteCall, WritePlan, WrittenCall
from codeagent.tui.parts.call_edit import call_edit
from codeagent.tui.parts.external_editor import edit_in_editor
from codeagent.tui.session_client import SessionClient
from codeagent.tui.state import Paused, PausedCall, PlanReady

_NO_PLAN = "no plan is ready: /plan and a goal begins one"
_NOT_PAUSED = "nothing is paused: /step on pauses before the next batch"


class Stepping:
    """Says what cannot be done in one line, on the card where there is one; nothing written is lost."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    async def do(self, act: BoundaryAct) -> None:
        """Editors are waited for. Raises CodeagentError; the card takes keys again then."""
        client = await self._chat.ready()
        card = self._chat.boundary_card
        try:
            match act:
                case Continue():
                    self._resume(client, act)
                case acts.SkipCall():
                    self._told(client.do(act))
                case WriteCall():
                    card.call_edited(act.call_id, act.edit, await self._edited(act))
                case WrittenCall():
                    self._edit(client, act)
                case StartPlan():
                    client.do(acts.SetMode(act.mode))
                    client.do(acts.Prompt(f"Carry out this plan:\n\n{act.text}"))
                case WritePlan():
                    text = await edit_in_editor(self._chat.app, act.text)
                    if not card.change_plan(text):
                        self._keep(text, _NO_PLAN)
                case _:
                    assert_never(act)
        except CodeagentError:
            card.not_sent()
            raise

    async def run(self, name: Literal["step", "plan", "budget", "stop"], argument: str) -> None:
        """One of the commands. Raises CodeagentError."""
        match name:
            case "step":
                await self._step(argument)
            case "plan":
                await self._plan(argument)
            case "budget":
                await self._budget(argument)
            case "stop":
                await self._stop()
            case _:
                assert_never(name)

    async def _step(self, argument: str) -> None:
        """`/step [on|off|go|skip N [why]|edit N]`."""
        word, _, rest = argument.partition(" ")
        client = await self._chat.ready()
        match word:
            case "":
                client.do(acts.Step(not self._chat.state.status.now.stepping))
            case "on" | "off" if not rest:
                client.do(acts.Step(word == "on"))
            case "go" if not rest:
                self._paused()
                await self.do(Continue())
            case "skip" | "edit":
                await self._do_to_one(word, rest.strip())
            case _:
                self._chat.tell(f"/step takes on, off, go, skip N or edit N, not '{one_line(argument, 40)}'")

    async def _plan(self, argument: str) -> None:
        """`/plan [goal|start [accept-edits]|edit]`."""
        match argument:
            case "start":
                await self.do(StartPlan(self._ready_plan(), "ask"))
            case "start accept-edits":
                await self.do(StartPlan(self._ready_plan(), "accept-edits"))
            case "edit":
                await self.do(WritePlan(self._ready_plan()))
            case _:
                client = await self._chat.ready()
                client.do(acts.SetMode("plan"))
                if argument:
                    client.do(acts.Steer(argument))

    async def _budget(self, argument: str) -> None:
        """`/budget [$2|200k tokens|30 min|10 batches|off]`. Raises ConfigError."""
        client = await self._chat.ready()
        if argument:
            client.do(acts.SetBudget(None if argument.strip().lower() == "off" else Budget.parse(argument)))
        self._chat.tell(f"budget: {self._chat.state.status.now.budget or client.budget or 'none'}")

    async def _stop(self) -> None:
        refused = (await self._chat.ready()).do(acts.Stop())
        if refused is not None:
            jobs = self._chat.state.status.now.jobs
            self._chat.tell(refused.reason + ("; /stop and a job's name stops that" if jobs else ""))

    async def _do_to_one(self, word: str, rest: str) -> None:
        number, _, reason = rest.partition(" ")
        call = self._call(number)
        if word == "skip":
            await self.do(acts.SkipCall(call.call_id, reason.strip()))
            return
        edit = call_edit(call.name, call.arguments)
        if edit is None:
            raise CodeagentError("the arguments of that call are not JSON: it cannot be edited")
        await self.do(WriteCall(call.call_id, edit, edit.text))

    async def _edited(self, act: WriteCall) -> str:
        return await edit_in_editor(self._chat.app, act.written, suffix=act.edit.suffix)

    def _resume(self, client: SessionClient, act: Continue) -> None:
        if act.step is not None:
            client.do(acts.Step(act.step))
        self._told(client.do(acts.Resume()))

    def _edit(self, client: SessionClient, act: WrittenCall) -> None:
        refused = client.do(acts.EditCall(act.call_id, act.arguments))
        if refused is None:
            return
        if not self._chat.boundary_card.refuse(act.call_id, act.written, refused.reason):
            self._keep(act.written, refused.reason)

    def _told(self, refused: Refused | None) -> None:
        if refused is not None:
            self._chat.tell(refused.reason)

    def _keep(self, text: str, problem: str) -> None:
        """What was written for something that is gone."""
        self._chat.restore(text)
        self._chat.tell(f"{one_line(problem, 80)}; what you wrote is in your line")

    def _paused(self) -> Paused:
        if not isinstance(now := self._chat.state.boundary.now, Paused):
            raise CodeagentError(_NOT_PAUSED)
        return now

    def _call(self, number: str) -> PausedCall:
        calls = self._paused().calls
        if not number.isdecimal() or not 1 <= int(number) <= len(calls):
            raise CodeagentError(f"there is no call '{one_line(number, 20)}': the batch has {len(calls)}")
        return calls[int(number) - 1]

    def _ready_plan(self) -> str:
        if not isinstance(self._chat.state.boundary.now, PlanReady):
            raise CodeagentError(_NO_PLAN)
        return self._chat.boundary_card.plan
