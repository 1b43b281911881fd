"""Carries out a compaction: asks the hooks and the model, and replaces nothing before the user has read the summary."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import assert_never

from codeagent.agent.calls import ToolEnvironment
from codeagent.agent.compaction.facts import FileFacts
from codeagent.agent.compaction.plan import (
    CompactionPlan,
    GrowingLength,
    KeptFacts,
    TokenGauge,
    length_of,
    make_plan,
    measured,
    note_of,
    preview,
    request_characters,
    to_summarize,
)
from codeagent.agent.emitter import Emitter
from codeagent.agent.hooks.hook import Deny, PlannedCompaction
from codeagent.agent.limits import BudgetMeter, RunMeter
from codeagent.agent.model_request import fell_back, retried, take_use, tools_left_out
from codeagent.agent.permissions import Permissions
from codeagent.agent.queue import MessageQueue
from codeagent.core.acts import AnswerSummary, Compact, ContextAct, Pin, Refused, Unpin
from codeagent.core.cancel import CancelToken
from codeagent.core.compaction import (
    CompactionCause,
    ContextCompacted,
    PrunedResult,
    compacted,
    is_kept,
    open_questions,
)
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError, ModelError, RunCancelled
from codeagent.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage, text_of
from codeagent.core.model import FellBack, Model, ModelAnswer, ModelRequest, ProviderUse, Retrying, ToolsLeftOut
from codeagent.core.notes import pin_note
from codeagent.core.notices import CompactionBegun, CompactionFailed, PinsChanged, SummaryWritten
from codeagent.core.sanitize import quoted
from codeagent.core.tool import ToolResult
from codeagent.session.fold import History, ToolDetails

_HANDLE = re.compile(r'output_read\(id="([^"]+)"\)')
_SAME = 200
"""How many characters have to be equal for a result to be the beginning of what its handle holds."""
_GROWN = 0.05
"""The share of the window that must be added after an attempt before the next one is made unasked."""
_NOT_SHORTER = "the summary is not shorter than what it would replace"
_LONGEST_PIN = 2_000
_MOST_PINS = 50


@dataclass(frozen=True)
class Asking:
    """What a compaction works with: the request that would be sent now, the model it goes to, and its meter."""

    request: ModelRequest
    model: Model
    meter: RunMeter
    attended: bool
    """Whether the user reads this conversation; they do not read a child's."""


class _NotCompacted(CodeagentError):
    """Why nothing was replaced, as a phrase."""


class Compaction:
    """Makes room in the context of one conversation."""

    def __init__(
        self,
        around: ToolEnvironment,
        emitter: Emitter,
        spending: BudgetMeter,
        queue: MessageQueue,
        permissions: Permissions,
        history: History,
    ) -> None:
        self._permissions = permissions
        self._around, self._emitter, self._spending = around, emitter, spending
        self._queue, self._line = queue, history.line
        self._pins, self._questions = history.pins, dict(history.questions)
        self._files = FileFacts(around.workspace, history.details)
        self._details = {item.call_id: item for item in history.details if item.in_context}
        self._gauge, self._length = TokenGauge(), GrowingLength()
        self._refused: int | None = None
        """Characters of the smallest request that a provider refused as too long."""
        self._quiet_until = 0
        """The size in tokens below which nothing is tried unasked, set after an attempt that failed."""
        self._asked: str | None = None
        """The hint of a compaction that the user wants at the next boundary."""
        self._review: asyncio.Future[str | None] | None = None
        self._reviewing = ""
        """The summary that waits for the user."""

    @property
    def asked(self) -> bool:
        """Whether the user has asked for it at the next boundary."""
        return self._asked is not None

    def do(self, act: ContextAct) -> Refused | None:
        """Take a user's request during a run; without a run, `compact` is called."""
        match act:
            case Compact(hint):
                self._asked = hint
                self._emitter.notice("compaction.asked", "the conversation is compacted at the next boundary")
            case AnswerSummary(summary, seen):
                if self._review is None or self._review.done():
                    return Refused("no summary waits for an answer; nothing was changed")
                if seen is not None and seen != self._reviewing:
                    return Refused("another summary waits now; nothing was changed: look at it again")
                self._review.set_result(summary)
            case Pin(text):
                return self._pin(text.strip())
            case Unpin(number):
                return self._unpin(number)
            case _:
                assert_never(act)
        return None

    def take_back(self) -> None:
        """Drop what was asked for: the run was stopped before its next boundary."""
        if self.asked:
            self._asked = None
            self._failed("user", "the run was stopped first")

    def note(self, call: ToolCall, result: ToolResult) -> None:
        """Record what a finished call read or changed."""
        if result.executed and (details := ToolDetails.of(call.id, call.name, result)) is not None:
            self._details[call.id] = details
            self._files.add(details)

    def answered(self, request: ModelRequest, usage: Usage) -> None:
        """Learn from an answered request how many characters a token has."""
        self._gauge.learn(self._length.of(self._line.items, request), usage)

    def overflowed(self, request: ModelRequest) -> None:
        """Take note that the provider refused the request as too long: the window is smaller than that."""
        length = request_characters(request)
        self._refused = min(length, self._refused or length)

    async def at_boundary(self, asking: Asking, token: CancelToken) -> bool:
        """Compact if it is due; True if the conversation was changed. Raises RunCancelled."""
        hint, self._asked = self._asked, None
        if hint is not None:
            return await self.compact("user", asking, token, hint)
        window, size = self._window(asking), self._gauge.tokens(self._length.of(self._line.items, asking.request))
        if window is None or size < max(window * self._around.context.compact_at, self._quiet_until):
            return False
        return await self.compact("window", asking, token)

    async def compact(self, cause: CompactionCause, asking: Asking, token: CancelToken, hint: str = "") -> bool:
        """Replace what can be replaced; False if nothing was, and then the user is told. Raises RunCancelled."""
        self._emitter.emit(CompactionBegun(text="compacting the conversation", cause=cause))
        try:
            event = await self._made(cause, asking, token, hint)
        except (RunCancelled, asyncio.CancelledError):
            self._failed(cause, "it was stopped")
            raise
        except CodeagentError as error:
            self._failed(cause, str(error))
            return False
        except Exception as error:
            self._failed(cause, f"internal error: {type(error).__name__}: {error}")
            return False
        finally:
            self._rest(asking, self._gauge.tokens(request_characters(asking.request)))
        self._apply(self._emitter.emit(event))
        self._rest(asking, event.after_tokens)
        return True

    def _rest(self, asking: Asking, size: int) -> None:
        """Try nothing unasked until the request has grown well beyond `size` tokens."""
        self._quiet_until = size + round((self._window(asking) or size) * _GROWN)

    def _failed(self, cause: CompactionCause, why: str) -> None:
        self._emitter.emit(CompactionFailed(text=f"not compacted: {why}; the conversation is as it was", cause=cause))

    async def _made(self, cause: CompactionCause, asking: Asking, token: CancelToken, hint: str) -> ContextCompacted:
        """Make the event that says what replaces what. Raises CodeagentError, RunCancelled."""
        messages = asking.request.messages
        if (why := self._spending.exhausted()) is not None:
            raise _NotCompacted(why)
        size = self._gauge.tokens(request_characters(asking.request))
        judged = PlannedCompaction(cause, hint, len(messages), size)
        answer = await token.guard(self._around.hooks.compaction(judged))
        if isinstance(answer, Deny):
            raise _NotCompacted(answer.why)
        room = self._room(cause, asking)
        plan = make_plan(messages, room, summarize=cause == "user")
        if plan is None:
            raise _NotCompacted("there is nothing yet that could be left out but your own messages")
        event = ContextCompacted(
            cause=cause,
            tail=plan.tail,
            note="",
            summary="",
            pruned=tuple(self._pruned(message, unseen=plan.unseen) for message in plan.pruned),
            replaced=0,
            before_tokens=size,
            after_tokens=size,
        )
        if plan.tail < len(messages):
            facts = await self._facts(messages)

            def summarized(summary: str) -> ContextCompacted | None:
                made = replace(event, note=note_of(facts, summary), summary=summary, pins=self._pins)
                return measured(made, asking.request, self._gauge)

            hints = "\n".join(filter(None, (hint, *map(quoted, answer))))
            gaining = summarized(await self._summary(asking, plan, room, hints, token, summarized))
        else:
            gaining = measured(event, asking.request, self._gauge)
        token.raise_if_cancelled()  # an answer that came while it was being stopped
        if gaining is None:
            raise _NotCompacted(_NOT_SHORTER)
        return gaining

    def _window(self, asking: Asking) -> int | None:
        known = self._around.context.window or asking.model.context_window
        refused = None if self._refused is None else self._gauge.tokens(self._refused)
        return min(filter(None, (known, refused)), default=None)

    def _room(self, cause: CompactionCause, asking: Asking) -> int:
        """Return how many characters the messages may fill; the present number if the window is unknown."""
        everything = request_characters(asking.request)
        held = length_of(asking.request.messages)
        window = self._window(asking)
        room = held if window is None else self._gauge.characters(window) - (everything - held)
        return max(1, min(room, held) if cause == "overflow" else room)

    async def _summary(
        self,
        asking: Asking,
        plan: CompactionPlan,
        room: int,
        hints: str,
        token: CancelToken,
        summarized: Callable[[str], ContextCompacted | None],
    ) -> str:
        """Return the summary that the user accepted; they are not asked about one that gains nothing.

        Raises CodeagentError, RunCancelled.
        """
        head = to_summarize(asking.request.messages, plan.tail, room)
        if head is None:
            raise _NotCompacted("what would be summarized does not fit into the model's window")
        wanted = files("codeagent.agent").joinpath("prompts/compact.md").read_text("utf-8").strip()
        if hints:
            wanted += f"\n\n(Most of all, the summary must cover this:\n{hints}\n)"
        prompt = UserMessage.from_text(wanted, source="note")
        await self._emitter.sync()
        request = replace(asking.request, messages=(*head, prompt))
        answer = await token.guard(self._asked_model(asking.model, request))
        asking.meter.add_request(answer.usage)
        self._spending.add_request(answer.usage)
        summary, asked = answer.message.text.strip(), asking.attended and self._around.context.review
        wrong = _wrong_with(answer.message) or ("" if summarized(summary) is not None else _NOT_SHORTER)
        written = SummaryWritten(
            text="a summary was written",
            summary=summary,
            usage=answer.usage,
            asked=asked and not wrong,
            replaces=sum(not is_kept(message) for message in head),
        )
        self._emitter.emit(written)
        if wrong:
            raise _NotCompacted(wrong)
        return await self._reviewed(summary, token) if asked else summary

    async def _asked_model(self, model: Model, request: ModelRequest) -> ModelAnswer:
        answer: ModelAnswer | None = None
        async for event in model.stream(request):
            match event:
                case ModelAnswer():
                    answer = event
                case Retrying():
                    self._emitter.emit(retried(event))
                case FellBack():
                    self._emitter.emit(fell_back(event))
                case ProviderUse():
                    await take_use(event, self._emitter, self._around.outputs, self._permissions)
                case ToolsLeftOut():
                    self._emitter.emit(tools_left_out(event))
                case _:
                    pass  # only the whole summary is shown
        if answer is None:
            raise ModelError("the model's stream ended without an answer", kind="cut")
        self._gauge.learn(request_characters(request), answer.usage)
        return answer

    async def _reviewed(self, summary: str, token: CancelToken) -> str:
        """Wait until the user accepts, edits or refuses the summary. Raises _NotCompacted, RunCancelled."""
        self._review, self._reviewing = asyncio.get_running_loop().create_future(), summary
        try:
            with self._spending.waiting():
                answer = await token.guard(_wait_for(self._review))
        finally:
            self._review = None
        if answer is None:
            raise _NotCompacted("you kept the conversation")
        if not answer.strip():
            raise _NotCompacted("the summary was empty")
        return answer.strip()

    async def _facts(self, messages: Sequence[Message]) -> KeptFacts:
        return KeptFacts(
            todo=tuple(map(str, self._around.todo.items)),
            questions=open_questions(messages, self._questions),
            files=await asyncio.to_thread(self._files.lines),
        )

    def _pruned(self, message: ToolMessage, *, unseen: bool) -> PrunedResult:
        """Keep the whole result where `output_read` finds it, unless it is there already."""
        text = text_of(message.content)
        if (handle := self._handle_of(text)) is None:
            sink = self._around.outputs.create(message.call_id)
            sink.write(text)
            sink.close()
            handle = sink.handle
        return PrunedResult(call_id=message.call_id, text=preview(text, handle, unseen=unseen))

    def _handle_of(self, text: str) -> str | None:
        """Return the handle of a result that was cut when it was made, checked: any text may name a handle."""
        outputs, found = self._around.outputs, _HANDLE.findall(text)
        if not found or found[-1] not in outputs.handles():
            return None
        first = outputs.read(found[-1], 1, 1).lines
        return found[-1] if first and first[0][:_SAME] == text.partition("\n")[0][:_SAME] else None

    def _apply(self, event: ContextCompacted) -> None:
        if event.note:
            self._questions[event.note] = open_questions(self._line.items, self._questions)
        self._line.replace(compacted(self._line.items, event))
        pruned = {one.call_id for one in event.pruned}
        left = [item.call_id for item in self._line.items if isinstance(item, ToolMessage)]
        self._details = {key: self._details[key] for key in left if key in self._details and key not in pruned}
        self._around.forget(tuple(self._details.values()))

    def _pin(self, text: str) -> Refused | None:
        if not text or len(text) > _LONGEST_PIN or len(self._pins) == _MOST_PINS:
            return Refused(f"a pin is 1 to {_LONGEST_PIN} characters, and there are at most {_MOST_PINS}; not pinned")
        self._set_pins((*self._pins, text), added=text)
        return None

    def _unpin(self, number: int) -> Refused | None:
        if not 1 <= number <= len(self._pins):
            return Refused(f"pin {number} does not exist; nothing was changed")
        self._set_pins(self._pins[: number - 1] + self._pins[number:])
        return None

    def _set_pins(self, pins: tuple[str, ...], added: str = "") -> None:
        self._pins = pins
        said = f"pinned: {added}" if added else f"removed; {len(pins)} pinned"
        event = self._emitter.emit(PinsChanged(text=said, pins=pins, added=added))
        if (note := pin_note(event)) is not None:
            self._queue.add_note(note)


def _wrong_with(message: AssistantMessage) -> str:
    """Say why this is not a summary, as a phrase; empty if it is one."""
    if message.calls:
        return "the model called a tool in place of a summary"
    if not message.text.strip():
        return "the model wrote no summary"
    return "" if message.stop == "end" else f"the summary was cut off ({message.stop})"


async def _wait_for(answer: Awaitable[str | None]) -> str | None:
    return await answer
