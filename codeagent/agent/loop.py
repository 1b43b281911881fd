"""Turns: ask the model, run its calls in batches, take what the person typed, until nothing is left.

prompt ─▶ deliver steering ─▶ limits ─▶ ask the model ─▶ calls? ──no──▶ queued text? ──no──▶ done
                ▲                                          │ yes              │ yes
                │                                    batch by batch           │
                └───────────── every call answered ◀───────┴──────────────────┘
"""

import time
from dataclasses import dataclass

from codeagent.agent.asking import Asking
from codeagent.agent.batches import Strategy, run_ordered
from codeagent.agent.emitter import Emitter
from codeagent.agent.executor import Executor
from codeagent.agent.gate import Gate
from codeagent.agent.limits import Limits, Meter, Reached
from codeagent.agent.outcome import Settled
from codeagent.agent.steering import Steering
from codeagent.agent.stopped import Tally
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import ModelError, RunCancelled
from codeagent.core.events import (
    BatchFinished,
    BatchPlanned,
    LimitReached,
    MessageAdded,
    Notice,
    RunReason,
    TurnFinished,
    TurnStarted,
)
from codeagent.core.messages import AssistantMessage, Message, ToolCall, UserMessage
from codeagent.core.model import Model, ModelRequest
from codeagent.core.tool import Cancelled, Skipped, ToolDefinition

_NUDGES = 2
"""How often in a row the model is told that its answer was empty or cut off."""


@dataclass(frozen=True)
class Conversation:
    """What stays the same from turn to turn, so that the provider's cache holds."""

    model: Model
    system_prompt: str
    tools: tuple[ToolDefinition, ...]
    strategy: Strategy
    limits: Limits


class Loop:
    """One run: from a prompt to a reason for stopping."""

    def __init__(
        self,
        conversation: Conversation,
        history: list[Message],
        executor: Executor,
        emitter: Emitter,
        steering: Steering,
        gate: Gate,
    ) -> None:
        self._conversation = conversation
        self._history = history
        self._executor = executor
        self._emitter = emitter
        self._steering = steering
        self._gate = gate
        self._call_ids = {
            call.id for message in history if isinstance(message, AssistantMessage) for call in message.calls
        }
        self._batches = 0
        self._nudged = 0
        self.meter = Meter(conversation.limits)
        self.tally = Tally()
        self.text = ""

    async def run(self, token: CancelToken) -> RunReason:
        """Raises RunCancelled, ModelError or SessionWriteError; every call has its result even then."""
        while True:
            token.raise_if_cancelled()
            await self._gate.wait(self._batches + 1, token)
            self._history += self._steering.deliver_notes() + self._steering.deliver_steering()
            if (reached := self.meter.before_request()) is not None:
                return self._limit(reached)
            answer = await self._turn(token)
            if answer.calls:
                if (reached := self.meter.after_calls()) is not None:
                    return self._limit(reached)
                continue
            if self._nudge(answer):
                continue
            queued = self._steering.deliver_steering() or self._steering.deliver_follow_up()
            if not queued:
                return "denied" if self.meter.denied and not self.meter.executed else "done"
            self._history += queued

    def _limit(self, reached: Reached) -> RunReason:
        self._emitter.emit(LimitReached(**self._emitter.head(), limit=reached.limit, maximum=reached.maximum))
        return "limit"

    async def _turn(self, token: CancelToken) -> AssistantMessage:
        self.meter.turns += 1
        turn = self.meter.turns
        self._emitter.emit(TurnStarted(**self._emitter.head(), turn=turn))
        asking = Asking(self._emitter, self._executor, self._call_ids)
        stop: AssistantMessage | None = None
        try:
            await self._emitter.sync()
            stop = answer = await token.guard(asking.ask(self._conversation.model, self._request()))
            self._add(answer)
            if answer.calls:
                await self._run_calls(answer, token)
            return answer
        except (ModelError, RunCancelled):
            if stop is None:
                self.tally.stream_closed = token.cancelled
                if (partial := asking.partial()) is not None:
                    self._add(partial)
            raise
        finally:
            self.meter.usage += asking.usage
            self._emitter.emit(
                TurnFinished(**self._emitter.head(), turn=turn, stop=stop.stop if stop else "cut", usage=asking.usage)
            )

    def _request(self) -> ModelRequest:
        fixed = self._conversation
        return ModelRequest(fixed.system_prompt, tuple(self._history), fixed.tools)

    def _add(self, answer: AssistantMessage) -> None:
        """An empty answer is not added: providers reject it when it is sent back."""
        if not (answer.text or answer.calls):
            return
        self.text = answer.text or self.text
        self._history.append(answer)
        self._call_ids.update(call.id for call in answer.calls)
        self._emitter.emit(MessageAdded(**self._emitter.head(), message=answer))

    async def _run_calls(self, answer: AssistantMessage, token: CancelToken) -> None:
        """Afterwards every call is answered in the history, in source order, whatever happened."""
        settled: dict[str, Settled] = {}
        try:
            await self._run_batches(answer, settled, token)
        finally:
            for call in answer.calls:
                if call.id not in settled:
                    settled[call.id] = self._executor.refuse(call, Cancelled(token.reason or "the run ended"))
            self._history += [settled[call.id].message for call in answer.calls]
            self.tally.add((item.result for item in settled.values()), stopped=token.cancelled)
            for result in (item.result for item in settled.values()):
                self.meter.executed += result.executed
                self.meter.denied += result.error is not None and result.error.kind == "denied"

    async def _run_batches(self, answer: AssistantMessage, settled: dict[str, Settled], token: CancelToken) -> None:
        if answer.stop == "length":
            cut_off = Skipped("Not executed: your answer was cut off by the output limit. Ask again with less at once.")
            settled |= {call.id: self._executor.refuse(call, cut_off) for call in answer.calls}
            return
        left = self.meter.calls_left()
        allowed = answer.calls if left is None else answer.calls[:left]
        self.meter.calls += len(allowed)
        self.meter.refused += len(answer.calls) - len(allowed)
        for batch in self._conversation.strategy.cut(allowed):
            if token.cancelled:
                return
            await self._gate.wait(self._batches + 1, token)
            if interrupts := self._steering.interrupts:
                quoted = "; ".join(f"“{item.text}”" for item in interrupts)
                settled |= {
                    call.id: self._executor.refuse(call, Skipped(f"Skipped: the user interrupted with {quoted}"))
                    for call in allowed
                    if call.id not in settled
                }
                break
            await self._batch(batch, settled, token)
        over = Skipped(f"Skipped: the limit of {self._conversation.limits.max_calls} calls is reached")
        settled |= {call.id: self._executor.refuse(call, over) for call in answer.calls[len(allowed) :]}

    async def _batch(self, batch: tuple[ToolCall, ...], settled: dict[str, Settled], token: CancelToken) -> None:
        self._batches += 1
        number, started = self._batches, time.monotonic()
        planned = tuple(self._executor.plan(call) for call in batch)
        self._emitter.emit(BatchPlanned(**self._emitter.head(), batch=number, calls=planned))

        async def execute(call: ToolCall) -> None:
            settled[call.id] = await self._executor.execute(call, token)

        try:
            await run_ordered(batch, self._executor.access, execute)
        finally:
            ran = sum(settled[call.id].result.executed for call in batch if call.id in settled)
            self._emitter.emit(
                BatchFinished(
                    **self._emitter.head(),
                    batch=number,
                    executed=ran,
                    skipped=len(batch) - ran,
                    duration_ms=round((time.monotonic() - started) * 1000),
                )
            )

    def _nudge(self, answer: AssistantMessage) -> bool:
        """Tell the model that its answer was empty or cut off; a few times, then leave it at that."""
        if answer.text and answer.stop != "length":
            self._nudged = 0
            return False
        if self._nudged >= _NUDGES:
            if answer.text:
                return False
            raise ModelError("the model answered nothing, several times over; the session is kept", kind="server")
        self._nudged += 1
        text = (
            "(Your answer was cut off by the output limit. Go on from there, in smaller pieces.)"
            if answer.stop == "length"
            else "(Your answer was empty. Go on, or say in a sentence that you are done.)"
        )
        note = UserMessage.from_text(text, source="note")
        self._history.append(note)
        self._emitter.emit(Notice(**self._emitter.head(), level="warning", code="model.nudge", text=text))
        self._emitter.emit(MessageAdded(**self._emitter.head(), message=note))
        return True
