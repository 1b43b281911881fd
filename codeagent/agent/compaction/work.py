"""Carries out a compaction: asks the hooks and the model, and replaces nothing before the user has
read the summary."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, assert_never

from codeagent.agent.calls import kept_text
from codeagent.agent.compaction.known_files import DetailsInContext, KnownFiles
from codeagent.agent.compaction.plan import (
    Asking,
    Attempts,
    CompactionPlan,
    GrowingLength,
    NoSummary,
    NotCompacted,
    SummaryContext,
    TokenGauge,
    length_of,
    make_cut,
    make_plan,
    measured,
    note_of,
    request_characters,
    to_summarize,
)
from codeagent.agent.emitter import Emitter
from codeagent.agent.environment import ToolEnvironment
from codeagent.agent.hooks.hook import Deny, PlannedCompaction
from codeagent.agent.limits import BudgetMeter
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
    preview,
)
from codeagent.core.errors import CodeagentError, ModelError, RunCancelled
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.messages import Message, ToolCall, ToolMessage, Usage, text_of
from codeagent.core.model import ModelAnswer, ModelRequest
from codeagent.core.notes import pin_note
from codeagent.core.notices import (
    OWN_TEXT_FILLS,
    CompactionBegun,
    CompactionFailed,
    PinsChanged,
    SummaryWritten,
)
from codeagent.core.sanitize import quoted
from codeagent.core.tool import ToolResult
from codeagent.session.fold import History
from codeagent.session.transcript import ToolDetails

if TYPE_CHECKING:  # most conversations are never summarized
    from codeagent.agent.compaction.requests import Review, SummaryRequests

_HANDLE = lazy_regex(r'output_read\(id="([^"]+)"\)')
_SAME = 200
"""How many characters have to be equal for a result to be the beginning of what its handle
holds."""
_REFUSED_SHARE = 0.75
"""The share that is kept at most of a conversation that was refused as too long."""
_NEAR = 0.85
"""The share of the window from which a refusal for no known reason counts as one for the length."""
_PAID_ATTEMPTS = 2
"""Requests for a summary in one compaction."""
_UNANSWERABLE = ("auth", "rate_limit", "connection")
"""Failures that the run's own next request meets as well: a shorter conversation does not help."""
_NOT_SHORTER = "the summary is not shorter than what it would replace"
_OWN_WORDS = "there is nothing yet that could be left out but your own messages"
_LONGEST_PIN = 2_000
_MOST_PINS = 50


class Compaction:
    """Makes room in the context of one conversation."""

    def __init__(
        self,
        environment: ToolEnvironment,
        emitter: Emitter,
        spending: BudgetMeter,
        queue: MessageQueue,
        permissions: Permissions,
        history: History,
    ) -> None:
        self._permissions = permissions
        self._environment = environment
        self._emitter = emitter
        self._spending = spending
        self._queue = queue
        self._line = history.line
        self._pins = history.compactions.pins
        self._questions = dict(history.compactions.questions)
        self._files = KnownFiles(environment.workspace, history.details)
        self.in_context = DetailsInContext(history.details, environment.recall.forget, history.line)
        self._gauge = TokenGauge()
        self._length = GrowingLength()
        self._refused: dict[str, int] = {}
        """Characters of the smallest request that was refused as too long, by model."""
        self._own_text_fills = history.compactions.own_text_fills
        """The user was told so: their next prompt sends it as a file."""
        self._attempts = Attempts()
        self._asked: str | None = None
        """The hint of a compaction that the user wants at the next boundary."""
        self._review: Review | None = None
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
                self._emitter.notice(
                    "compaction.asked", "the conversation is compacted at the next boundary"
                )
            case AnswerSummary():
                if self._review is None:
                    return Refused("no summary waits for an answer; nothing was changed")
                return self._review.answer(act)
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
            self.in_context.add(details)
            self._files.add(details)

    def answered(self, request: ModelRequest, usage: Usage) -> None:
        """Learn from an answered request how many characters a token has."""
        self._gauge.learn(self._length.of(self._line.items, request), usage)
        self._attempts.answered()

    def is_too_long(self, error: ModelError, asking: Asking) -> bool:
        """Whether the provider refused the request as too long, or for no known reason when it was
        near the window."""
        if error.kind != "bad_request" or error.status not in (400, 422):
            return error.kind == "context_window"
        window, size = self._window(asking), self._gauge.tokens(request_characters(asking.request))
        return window is not None and size >= window * _NEAR

    def overflowed(self, asking: Asking, counted: int | None) -> None:
        """Take note that a request was refused as too long; `counted`: the provider's count of its
        tokens, if known."""
        length, model = request_characters(asking.request), asking.model.name
        self._gauge.learn(length, Usage(input_tokens=counted or 0))
        self._refused[model] = min(length, self._refused.get(model, length))
        self._attempts.refused()

    def explain(self, asking: Asking) -> None:
        """Say what fills the window, now that nothing can be left out, and what the user can do."""
        from codeagent.agent.compaction.own_text import what_fills  # most conversations fit

        notice = what_fills(asking.request, self._gauge, self._window(asking))
        self._own_text_fills = notice.code == OWN_TEXT_FILLS
        self._emitter.emit(notice)

    async def at_boundary(self, asking: Asking, token: CancelToken) -> bool:
        """Compact if it is due; True if the conversation was changed. Raises RunCancelled."""
        hint = self._asked
        self._asked = None
        if hint is not None:
            return await self.compact("user", asking, token, hint)
        window, size = (
            self._window(asking),
            self._gauge.tokens(self._length.of(self._line.items, asking.request)),
        )
        if window is None or not self._attempts.is_due(
            size, window, self._environment.preferences.context.compact_at
        ):
            return False
        return await self.compact("window", asking, token)

    async def compact(
        self, cause: CompactionCause, asking: Asking, token: CancelToken, hint: str = ""
    ) -> bool:
        """Replace what can be replaced; False if nothing was, and then the user is told. Raises
        RunCancelled."""
        self._emitter.emit(CompactionBegun(text="compacting the conversation", cause=cause))
        event: ContextCompacted | None = None
        size = self._gauge.tokens(request_characters(asking.request))
        try:
            event = await self._made(cause, asking, token, hint)
        except (RunCancelled, asyncio.CancelledError):
            self._failed(cause, "it was stopped")
            raise
        except CodeagentError as error:
            self._failed(cause, str(error))
        except Exception as error:
            self._failed(cause, f"internal error: {type(error).__name__}: {error}")
        finally:
            summarized = event is not None and bool(event.summary or not event.note)
            after = size if event is None else event.after_tokens
            self._attempts.made(size, after, self._window(asking) or size, summarized=summarized)
        if event is not None:
            self._apply(self._emitter.emit(event))
        return event is not None

    def _failed(self, cause: CompactionCause, why: str) -> None:
        self._emitter.emit(
            CompactionFailed(
                text=f"not compacted: {why}; the conversation is as it was", cause=cause
            )
        )

    async def _made(
        self, cause: CompactionCause, asking: Asking, token: CancelToken, hint: str
    ) -> ContextCompacted:
        """Make the event that says what replaces what. Raises CodeagentError, RunCancelled."""
        messages = asking.request.messages
        if (why := self._spending.exhausted()) is not None:
            raise NotCompacted(why)
        size = self._gauge.tokens(request_characters(asking.request))
        judged = PlannedCompaction(cause, hint, len(messages), size)
        answer = await token.guard(self._environment.hooks.compaction(judged))
        if isinstance(answer, Deny):
            raise NotCompacted(answer.why)
        room, why = self._room(cause, asking), _OWN_WORDS
        gaining: ContextCompacted | None = None
        plan = make_plan(messages, room, summarize=cause == "user")
        if plan is not None and plan.tail == len(messages):
            gaining = await self._left_by(plan, cause, asking)
        elif plan is not None:
            hints = "\n".join(filter(None, (hint, *map(quoted, answer))))
            try:
                gaining = await self._summarized(plan, cause, asking, hints, token)
            except NoSummary as failure:
                if cause == "user":
                    raise
                why = str(failure)
        token.raise_if_cancelled()  # an answer that came while it was being stopped
        if gaining is None and cause != "user" and (cut := make_cut(messages, room)) is not None:
            gaining = await self._left_by(cut, cause, asking)
            if gaining is not None and gaining.note:
                from codeagent.agent.compaction.summary import (
                    unsummarized,
                )  # most summaries can be used

                self._emitter.emit(unsummarized(why, gaining))
        if gaining is None and cause != "user" and self._own_text_fills:
            gaining = self._as_files(cause, asking, room)
        if gaining is None:
            raise NotCompacted(why if plan is None or why != _OWN_WORDS else _NOT_SHORTER)
        return gaining

    async def _left_by(
        self, plan: CompactionPlan, cause: CompactionCause, asking: Asking, summary: str = ""
    ) -> ContextCompacted | None:
        """Return the event that carries out the plan; None if the conversation would not become
        shorter."""
        return self._event(plan, cause, asking, await self._kept(asking.request.messages))(summary)

    def _event(
        self, plan: CompactionPlan, cause: CompactionCause, asking: Asking, kept: SummaryContext
    ) -> Callable[[str], ContextCompacted | None]:
        """Return what makes the event of a summary; it returns None if the conversation would not
        become shorter."""
        pruned = tuple(self._pruned(message, unseen=plan.unseen) for message in plan.pruned)
        noted = plan.tail < len(asking.request.messages)

        def of(summary: str) -> ContextCompacted | None:
            event = ContextCompacted(
                cause=cause,
                tail=plan.tail,
                note=note_of(kept, summary) if noted else "",
                pins=self._pins if noted else None,
                summary=summary,
                pruned=pruned,
                replaced=0,
                before_tokens=self._gauge.tokens(request_characters(asking.request)),
                after_tokens=0,
            )
            return measured(event, asking.request, self._gauge)

        return of

    def _as_files(
        self, cause: CompactionCause, asking: Asking, room: int
    ) -> ContextCompacted | None:
        """Return the event that makes files of the user's longest texts; None if there are none."""
        from codeagent.agent.compaction.own_text import as_files  # most conversations fit

        event = as_files(
            asking.request, cause, room, partial(kept_text, self._environment.outputs, "prompt")
        )
        return None if event is None else measured(event, asking.request, self._gauge)

    def _window(self, asking: Asking) -> int | None:
        known = self._environment.preferences.context.window or asking.model.context_window
        refused = self._gauge.tokens(self._refused.get(asking.model.name, 0))
        return min(filter(None, (known, refused)), default=None)

    def _room(self, cause: CompactionCause, asking: Asking) -> int:
        """Return how many characters the messages may fill; the present number if the window is
        unknown."""
        everything = request_characters(asking.request)
        held = length_of(asking.request.messages)
        window = self._window(asking)
        room = held if window is None else self._gauge.characters(window) - (everything - held)
        return max(1, min(room, round(held * _REFUSED_SHARE)) if cause == "overflow" else room)

    @cached_property
    def _requests(self) -> "SummaryRequests":
        from codeagent.agent.compaction.requests import (
            SummaryRequests,
        )  # most conversations are never summarized

        return SummaryRequests(
            self._environment,
            self._emitter,
            self._permissions,
            spending=self._spending,
            gauge=self._gauge,
        )

    async def _reviewed(self, summary: str, cause: CompactionCause, token: CancelToken) -> str:
        """Wait until the user accepts, edits or refuses the summary; in mode auto not for ever if
        they did not ask.

        Raises NotCompacted, RunCancelled.
        """
        from codeagent.agent.compaction.requests import Review  # as above

        waits = self._permissions.mode != "auto" or cause == "user"
        patience = None if waits else self._environment.preferences.context.review_seconds
        self._review = review = Review(summary, self._emitter)
        try:
            with self._spending.waiting():
                return await review.accepted(patience, token)
        finally:
            self._review = None

    async def _summarized(
        self,
        plan: CompactionPlan,
        cause: CompactionCause,
        asking: Asking,
        hints: str,
        token: CancelToken,
    ) -> ContextCompacted | None:
        """Return the event with a summary, which the user accepted; they are not asked about one
        that gains nothing.

        Raises NoSummary, CodeagentError, RunCancelled.
        """
        from codeagent.agent.compaction.summary import (
            wanted,
        )  # most conversations are never summarized

        size = self._gauge.tokens(request_characters(asking.request))
        if cause != "user" and not self._attempts.pays(size):
            raise NoSummary("the last one was of no help")
        made = self._event(plan, cause, asking, await self._kept(asking.request.messages))
        room, wrong = self._room(cause, asking), ""
        for attempt in range(_PAID_ATTEMPTS):
            if attempt and (over := self._spending.exhausted()) is not None:
                raise NoSummary(f"{wrong}; {over}")
            head = to_summarize(asking.request.messages, plan.tail, room)
            if head is None:
                raise NoSummary(
                    wrong or "what would be summarized does not fit into the model's window"
                )
            request = replace(
                asking.request, messages=(*head, wanted(hints, wrong)), purpose="summary"
            )
            await self._emitter.sync()
            try:
                answer = await token.guard(self._requests.answer(asking, request))
            except ModelError as error:
                if error.kind in _UNANSWERABLE and self._still_fits(cause, asking):
                    raise
                wrong = str(error)
                if error.kind == "context_window":
                    room //= 2
                continue
            wrong = self._told(answer, asking, head, made)
            if not wrong:
                summary = answer.message.text.strip()
                return made(
                    await self._reviewed(summary, cause, token)
                    if self._reviews(asking)
                    else summary
                )
        raise NoSummary(wrong)

    def _still_fits(self, cause: CompactionCause, asking: Asking) -> bool:
        """Whether the conversation can be sent as it is."""
        size, window = self._gauge.tokens(request_characters(asking.request)), self._window(asking)
        return cause != "overflow" and (window is None or size < window)

    def _reviews(self, asking: Asking) -> bool:
        return asking.attended and self._environment.preferences.context.review

    def _told(
        self,
        answer: ModelAnswer,
        asking: Asking,
        head: Sequence[Message],
        made: Callable[[str], ContextCompacted | None],
    ) -> str:
        """Count and report the answer to a request for a summary; return why it cannot be used,
        empty if it can."""
        from codeagent.agent.compaction.summary import wrong_with  # as above

        self._requests.count(asking, answer.usage)
        summary = answer.message.text.strip()
        wrong = wrong_with(answer.message) or ("" if made(summary) is not None else _NOT_SHORTER)
        self._emitter.emit(
            SummaryWritten(
                text="a summary was written",
                summary=summary,
                usage=answer.usage,
                asked=self._reviews(asking) and not wrong,
                replaces=sum(not is_kept(message) for message in head),
            )
        )
        return wrong

    async def _kept(self, messages: Sequence[Message]) -> SummaryContext:
        return SummaryContext(
            todo=tuple(map(str, self._environment.state.todo.items)),
            questions=open_questions(messages, self._questions),
            files=await asyncio.to_thread(self._files.lines),
        )

    def _pruned(self, message: ToolMessage, *, unseen: bool) -> PrunedResult:
        """Keep the whole result where `output_read` finds it, unless it is there already."""
        text = text_of(message.content)
        if (handle := self._handle_of(text)) is None:
            handle = kept_text(self._environment.outputs, message.call_id, text)
        return PrunedResult(call_id=message.call_id, text=preview(text, handle, unseen=unseen))

    def _handle_of(self, text: str) -> str | None:
        """Return the handle of a result that was cut when it was made, checked: any text may name a
        handle."""
        outputs, found = self._environment.outputs, _HANDLE.findall(text)
        if not found or found[-1] not in outputs.handles():
            return None
        first = outputs.read(found[-1], 1, 1).lines
        return found[-1] if first and first[0][:_SAME] == text.partition("\n")[0][:_SAME] else None

    def _apply(self, event: ContextCompacted) -> None:
        if event.note:
            self._questions[event.note] = open_questions(self._line.items, self._questions)
        self._own_text_fills = False
        self._line.replace(compacted(self._line.items, event))
        pruned = {one.call_id for one in event.pruned}
        left = [item.call_id for item in self._line.items if isinstance(item, ToolMessage)]
        self.in_context.keep_only(call_id for call_id in left if call_id not in pruned)

    def _pin(self, text: str) -> Refused | None:
        if not text or len(text) > _LONGEST_PIN or len(self._pins) == _MOST_PINS:
            return Refused(
                f"a pin is 1 to {_LONGEST_PIN} characters, and there are at most {_MOST_PINS}; not pinned"
            )
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
