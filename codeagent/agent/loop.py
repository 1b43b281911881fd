"""Turns: ask the model, run its calls in batches, take what the user typed, until nothing is left.

prompt ─▶ limits, budget ─▶ deliver the queue ─▶ ask the model ─▶ calls? ──no──▶ queued text? ──no──▶ done
               ▲                                                    │ yes              │ yes
               │                              batch by batch: plan, wait for the       │
               │                              user, checkpoint, run, boundary          │
               └─────────────────────── every call answered ◀───────┴──────────────────┘
"""

from collections.abc import Collection

from codeagent.agent.answer_calls import AnswerCalls
from codeagent.agent.batches import EarlyCalls
from codeagent.agent.calls import StopReport
from codeagent.agent.compaction.plan import Asking
from codeagent.agent.conversation import Conversation, RunContext
from codeagent.agent.limits import TOO_OFTEN, RunMeter
from codeagent.agent.model_request import Nudges, StreamedAnswer
from codeagent.agent.prompt import mode_note
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import ModelError
from codeagent.core.events import LimitReached, MessageAdded, RunReason, TurnFinished, TurnStarted
from codeagent.core.messages import AssistantMessage, Message, is_at_work
from codeagent.core.model import ModelRequest
from codeagent.core.policy import Mode
from codeagent.core.tool import ToolResult

_MOST_TOO_LONG = 5
"""How often in a row a conversation is compacted because the provider refuses it as too long."""


class Loop:
    """One run: from a prompt to a reason for stopping."""

    def __init__(self, conversation: Conversation, context: RunContext) -> None:
        self._conversation = conversation
        self._line = context.line
        self._workspace = context.workspace
        self._compaction = context.compaction
        self._too_long = 0
        """How often in a row a request was refused as too long and the conversation compacted."""
        self._permissions = context.permissions
        self._executor = context.executor
        self._executor.contexts.begin_run(conversation.model, conversation.limits, context.line)
        self._emitter = context.emitter
        self._queue = context.queue
        self._gate = context.gate
        self._parts = context.parts
        self._spending = context.spending
        self._call_ids = context.call_ids
        self._nudges = Nudges(self._emitter)
        self._mode: Mode | None = self._permissions.mode
        self.meter = RunMeter(conversation.limits, above=context.above)
        self.stop_report = StopReport(lambda: context.jobs.running)
        self._calls = AnswerCalls(conversation, context, self.meter, self.stop_report)
        self.text = ""

    @property
    def _history(self) -> list[Message]:
        return self._line.items

    async def compact(self, hint: str, token: CancelToken) -> None:
        """Compact the conversation, and ask the model nothing else. Raises RunCancelled."""
        await self._compaction.compact("user", self._asking(), token, hint)

    async def run(self, token: CancelToken) -> RunReason:
        """Run turns until there is a reason to stop. Raises RunCancelled, ModelError,
        SessionWriteError, WorkspaceLost.

        Every call has its result even if it raises.
        """
        while True:
            token.raise_if_cancelled()
            await self._gate.wait(self._calls.batches + 1, token)
            self._workspace.check()
            if (reason := await self._limited(self.meter.before_request(), token)) is not None:
                return reason
            await self._within_budget(token)
            if (builder := self._conversation.prompt_builder) is not None:
                await builder.first_ready(token)
                await builder.at_boundary(self._emitter)
            if self._conversation.follow is not None:
                self._conversation.follow()
            await self._queue.admit(token)
            if not is_at_work(self._history):
                self._history.extend(self._queue.deliver_notes() + self._queue.deliver_steering())
                self._tell_mode()
                if await self._compaction.at_boundary(self._asking(), token):
                    self._mode = None  # the note about it may be gone
                    continue
            if (answer := await self._turn_or_compact(token)) is None:
                continue
            if answer.calls:
                if self._calls.repeated > TOO_OFTEN and not self._conversation.attended:
                    self._emitter.emit(LimitReached(limit="same_call", maximum=TOO_OFTEN))
                    return "limit"
                if (reason := await self._limited(self.meter.after_calls(), token)) is not None:
                    return reason
                self._nudge(answer)
                continue
            if (answer is self._history[-1] and answer.stop == "paused") or self._nudge(answer):
                continue
            if self._compaction.asked:
                await self._compaction.at_boundary(self._asking(), token)
            await self._queue.admit(token, follow_up=True)
            queued = self._queue.deliver_steering() or self._queue.deliver_follow_ups()
            if not queued and not self._queue.wakes:
                await self._parts.at_rest(token)
            if not queued and not self._queue.wakes:
                return "denied" if self._calls.denied else "done"
            self._history.extend(queued)

    async def _turn_or_compact(self, token: CancelToken) -> AssistantMessage | None:
        """Get an answer; None if the request was too long and the conversation was compacted.
        Raises ModelError."""
        try:
            return await self._turn(token)
        except ModelError as error:
            if (
                not self._compaction.is_too_long(error, self._asking())
                or self._too_long == _MOST_TOO_LONG
            ):
                raise
            self._compaction.overflowed(self._asking(), error.prompt_tokens)
            if not await self._compaction.compact("overflow", self._asking(), token):
                self._compaction.explain(self._asking())
                raise
            self._too_long += 1
            self._mode = None
            return None

    def _asking(self) -> Asking:
        return Asking(
            self._request(), self._conversation.model, self.meter, self._conversation.attended
        )

    def _tell_mode(self) -> None:
        if self._permissions.mode == self._mode:
            return
        self._mode = mode = self._permissions.mode
        if (note := mode_note(self._history, mode)) is not None:
            self._history.append(note)
            self._emitter.emit(MessageAdded(message=note))

    async def _limited(self, reached: LimitReached | None, token: CancelToken) -> RunReason | None:
        """Return why the run ends; None if no limit was reached, or the user allowed as much
        again."""
        if reached is None:
            return None
        self._emitter.emit(reached)
        if not self._conversation.attended:
            return "limit"
        text = f"the limit {reached.limit} = {reached.maximum:g} is reached"
        await self._gate.hold("limit", text, self._calls.batches + 1, token)
        self.meter.extend(reached)
        return None

    async def _within_budget(self, token: CancelToken) -> None:
        """Wait for the user while the next request would exceed their budget."""
        while (why := self._spending.exhausted()) is not None:
            budget = self._spending.budget
            if budget is not None:
                limit = LimitReached(limit=f"budget_{budget.kind}", maximum=self._spending.allowed)
                self._emitter.emit(limit)
            await self._gate.hold("budget", why, self._calls.batches + 1, token)
            if (
                self._spending.exhausted() is not None
            ):  # not already extended by another agent that waited here, too
                self._spending.extend()

    async def _turn(self, token: CancelToken) -> AssistantMessage:
        self.meter.turns += 1
        turn = self.meter.turns
        self._emitter.emit(TurnStarted(turn=turn))
        self._permissions.begin_request()
        self._compaction.in_context.hear()
        self._queue.begin_boundary()
        early = EarlyCalls(self._executor, self._calls.may_begin, self._discarded, token)
        streamed = self._streamed_answer(early)
        stop: AssistantMessage | None = None
        try:
            await self._emitter.sync()
            request = self._request()
            stop = answer = await token.guard(streamed.receive(self._conversation.model, request))
            self._compaction.answered(request, streamed.usage)
            self._too_long = 0
            self._add(answer)
            if answer.calls:
                await self._calls.run(answer, early, token)
            return answer
        finally:
            if stop is None:
                self.stop_report.stream_closed = token.cancelled
                if (partial := await streamed.partial()) is not None:
                    self._add(partial)
            self.meter.add_request(streamed.usage)
            self._spending.add_request(streamed.usage)
            self._emitter.emit(
                TurnFinished(turn=turn, stop=stop.stop if stop else "cut", usage=streamed.usage)
            )

    def _streamed_answer(self, early: EarlyCalls) -> StreamedAnswer:
        most, attended = self._conversation.limits.max_repeated_tokens, self._conversation.attended
        given = self._emitter, self._executor, self._call_ids, self._permissions, early
        return StreamedAnswer(*given, most_repeated=most, attended=attended)

    def _discarded(self, results: Collection[ToolResult]) -> None:
        """Take note of calls that ran for an answer that was discarded: the model never sees their
        results."""
        self.meter.calls += len(results)
        self._compaction.in_context.forget_others()
        self.stop_report.add(results, stopped=self.stop_report.stream_closed)

    def _request(self) -> ModelRequest:
        told = self._conversation.prompt_builder or self._conversation
        allow = self._conversation.allow
        tools = (*told.tools, *self._conversation.lent)
        if allow.lists:
            tools = tuple(tool for tool in tools if allow.allows(tool.name))
        withheld = [
            tool for tool in tools if tool.at_provider and self._not_for_provider(tool.name)
        ]
        if withheld:
            tools = tuple(tool for tool in tools if tool not in withheld)
        return ModelRequest(told.system_prompt, tuple(self._history), tools)

    def _not_for_provider(self, name: str) -> bool:
        """Whether the provider must not be told of its own tool: a call of it could not be refused
        here."""
        return self._permissions.denies(name) or self._executor.calls.held_back(name)

    def _add(self, answer: AssistantMessage) -> None:
        """Add the answer to the history unless it is empty: providers reject an empty one when it
        is sent back."""
        if not (answer.text.strip() or answer.calls or answer.provider_content):
            return
        self.text = answer.text or self.text
        self._history.append(answer)
        self._call_ids.update(call.id for call in answer.calls)
        self._emitter.emit(MessageAdded(message=answer))

    def _nudge(self, answer: AssistantMessage) -> bool:
        """Tell the model once if its answer is unusable. Raises ModelError if that did not help."""
        if (note := self._nudges.after(answer)) is None:
            return False
        self._history.append(note)
        return True
