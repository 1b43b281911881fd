"""Runs the calls of an answer in batches; whatever happens, each call gets exactly one result."""

from collections import Counter
from collections.abc import Mapping, Sequence

from codeagent.agent.batches import EarlyCalls, PlannedBatch, run_ordered
from codeagent.agent.calls import Denials, StopReport, tool_message
from codeagent.agent.conversation import Conversation, RunContext
from codeagent.agent.limits import TOO_OFTEN, RepeatCounter, RunMeter
from codeagent.agent.work_time import part
from codeagent.core.approval_events import ASK_USER
from codeagent.core.cancel import CancelToken
from codeagent.core.events import BatchFinished
from codeagent.core.messages import AssistantMessage, ToolCall
from codeagent.core.tool import Cancelled, Skipped, ToolResult


class AnswerCalls:
    """Runs the calls of one run's answers."""

    def __init__(
        self,
        conversation: Conversation,
        context: RunContext,
        meter: RunMeter,
        stop_report: StopReport,
    ) -> None:
        self._conversation = conversation
        self._context = context
        self._executor = context.executor
        self._meter = meter
        self._stop_report = stop_report
        self._repeats = RepeatCounter(self._executor.calls.repeatable, self._executor.calls.unread)
        self._repeated: Mapping[str, int] = {}
        self._called: Counter[str] = Counter()
        self._denials = Denials(ASK_USER)
        self.batches = 0
        """How many there were."""

    @property
    def repeated(self) -> int:
        """How many answers in a row had the same call, for that of the last answer which was
        repeated most."""
        return max(self._repeated.values(), default=0)

    @property
    def denied(self) -> bool:
        """Whether calls were denied, and nothing like them was done since."""
        return bool(self._denials.kinds)

    def may_begin(self, call: ToolCall, number: int) -> bool:
        """Whether a call may begin after `number` others of an answer that is still coming."""
        waits = self._context.gate.is_shut or any(
            item.kind == "interrupt" for item in self._context.queue.waiting
        )
        if (
            waits
            or not self._conversation.early_reads
            or number == self._conversation.strategy.most
        ):
            return False
        limited = (
            number == self._meter.calls_left() or self._executor.calls.most_calls(call) is not None
        )
        repeated = self._repeats.coming(call) >= TOO_OFTEN
        return not limited and not repeated and self._executor.calls.may_begin_early(call)

    async def run(self, answer: AssistantMessage, early: EarlyCalls, token: CancelToken) -> None:
        """Run the calls; whatever happens, the history then holds a result for each, in source
        order."""
        settled: dict[str, ToolResult] = {}
        try:
            await self._run_batches(answer, early, settled, token)
        finally:
            settled |= await early.stop(token.reason or "the run ended")
            for call in answer.calls:
                if call.id not in settled:
                    settled[call.id] = self._executor.refuse(
                        call, Cancelled(token.reason or "the run ended")
                    )
            self._context.line.items.extend(
                tool_message(call, settled[call.id]) for call in answer.calls
            )
            for call in answer.calls:
                self._context.compaction.note(call, settled[call.id])
            self._stop_report.add(settled.values(), stopped=token.cancelled)
            planning = self._context.permissions.mode == "plan"
            self._denials.note(answer.calls, settled, self._executor.calls.kind, planning=planning)

    async def _run_batches(
        self,
        answer: AssistantMessage,
        early: EarlyCalls,
        settled: dict[str, ToolResult],
        token: CancelToken,
    ) -> None:
        if answer.stop == "length":
            cut_off = Skipped(
                "Not executed: your answer was cut off by the output limit. Ask again with less at once."
            )
            self._meter.calls += len(early.ids)
            settled |= await early.results()
            settled |= {
                call.id: self._executor.refuse(call, cut_off)
                for call in answer.calls
                if call.id not in settled
            }
            return
        self._repeated = self._repeats.note(answer.calls)
        left = self._meter.calls_left()
        allowed = answer.calls if left is None else answer.calls[:left]
        self._meter.calls += len(allowed)
        self._meter.refused += len(answer.calls) - len(allowed)
        settled |= self._too_often(allowed[len(early.ids) :])
        for batch in self._conversation.strategy.cut(
            [call for call in allowed if call.id not in settled]
        ):
            if token.cancelled:
                return
            if await self._batch(batch, early, settled, token):
                quoted = "; ".join(f"“{item.text}”" for item in self._context.queue.interrupts)
                why = f"Skipped: the user interrupted{' with ' * bool(quoted)}{quoted}"
                settled |= {
                    call.id: self._executor.refuse(call, Skipped(why))
                    for call in allowed
                    if call.id not in settled
                }
                break
        over = Skipped(
            f"Skipped: the limit of {self._conversation.limits.max_calls} calls is reached"
        )
        settled |= {
            call.id: self._executor.refuse(call, over) for call in answer.calls[len(allowed) :]
        }

    def _too_often(self, calls: Sequence[ToolCall]) -> dict[str, ToolResult]:
        """Return error results for the calls that exceed what their tool allows in one run."""
        refused = {}
        for call in calls:
            self._called[call.name] += 1
            most = self._executor.calls.most_calls(call)
            if most is not None and self._called[call.name] > most:
                why = (
                    f"Not executed: {call.name} may be called {most} times in one run, and it was."
                )
                refused[call.id] = self._executor.refuse(call, Skipped(why))
        return refused

    async def _batch(
        self,
        batch: tuple[ToolCall, ...],
        early: EarlyCalls,
        settled: dict[str, ToolResult],
        token: CancelToken,
    ) -> bool:
        """Plan the batch, let the user step in, and run it; True if they interrupted and it did not
        run."""
        self.batches += 1
        number = self.batches
        planned = PlannedBatch(number, batch, self._executor, self._context.emitter, early.ids)
        planned.tell()
        try:
            with part() as spent:
                await self._context.gate.wait(number, token, planned)
                if await self._context.queue.admit(token) or self._context.queue.interrupts:
                    settled |= await early.results()
                    return True
                await self._run_planned(number, planned, early, settled, token)
        finally:
            settled |= planned.settled | await early.stop(token.reason or "the run ended")
            ran = sum(settled[call.id].executed for call in batch if call.id in settled)
            self._context.emitter.emit(
                BatchFinished(
                    batch=number,
                    executed=ran,
                    skipped=len(batch) - ran,
                    duration_ms=spent.milliseconds,
                )
            )
        return False

    async def _run_planned(
        self,
        number: int,
        planned: PlannedBatch,
        early: EarlyCalls,
        settled: dict[str, ToolResult],
        token: CancelToken,
    ) -> None:
        targets = planned.targets

        async def execute(call: ToolCall) -> None:
            edited, repeated = call.id in planned.edited, self._repeated[call.id]
            settled[call.id] = await early.result(call.id) or await self._executor.execute(
                call, token, edited=edited, repeated=repeated
            )

        if targets:
            await token.guard(
                self._context.checkpoints.before_batch(
                    number, targets, commands=planned.runs_commands
                )
            )
        self._context.spending.add_batch()
        try:
            await run_ordered(planned.left, self._executor.calls.access, execute)
        finally:
            if targets:
                self._context.checkpoints.after_batch(number, targets)
