"""One request to the model: its stream as events, what is kept if it breaks off, and what follows
if it is unusable."""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from codeagent.agent.batches import BROKE_OFF, EarlyCalls
from codeagent.agent.emitter import Emitter
from codeagent.agent.executor import Executor
from codeagent.agent.permissions import Permissions
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ModelError, ModelErrorKind
from codeagent.core.events import (
    MessageAdded,
    Notice,
    ProviderToolUsed,
    ReasoningDelta,
    TextDelta,
    ToolCallAdded,
    ToolCallDelta,
)
from codeagent.core.json_types import JsonValue
from codeagent.core.memory import OutputStore
from codeagent.core.messages import AssistantMessage, ToolCall, Usage, UserMessage
from codeagent.core.model import (
    Adapted,
    AnswerBegun,
    CallClosed,
    CallGrowing,
    FellBack,
    Heartbeat,
    Model,
    ModelAnswer,
    ModelEvent,
    ModelRequest,
    ProviderUse,
    ReasoningPiece,
    Retrying,
    TextPiece,
    ToolsLeftOut,
    from_now_on,
)
from codeagent.core.notices import ModelFellBack, ModelRetried
from codeagent.core.tool import Cancelled

if TYPE_CHECKING:  # most answers are too short
    from codeagent.agent.repetition import Part, RepetitionWatch

_OFFLINE = ("code_execution", "image_generation")
"""The provider's tools that do not bring in text of others."""
_CUT_CALLS = 3
"""How many answers in a row may break off within their calls; the results of the calls tell the
model."""
_READ_AT = 512
"""Characters of an answer that are searched for repetition together."""
_ELSEWHERE = "the provider's search"
"""Whose text the model has read, see `Policy.heard`."""


_Piece = TextDelta | ReasoningDelta | ToolCallDelta


class AnswerSoFar:
    """What came of an answer: counts it if it is stopped, and notices if it repeats itself."""

    def __init__(self, most_repeated: int) -> None:
        """`most_repeated`: tokens that may repeat the same span."""
        self._most = most_repeated
        self._begun: AnswerBegun | None
        self._void()

    def take(self, event: ModelEvent) -> str:
        """Read on; return how the answer repeats itself, a clause, once that is too much."""
        match event:
            case AnswerBegun() as begun:
                self._begun = begun
            case TextPiece(text):
                return self._read("text", text)
            case ReasoningPiece(text):
                return self._read("thinking", text)
            case CallGrowing(_, _, text):
                return self._read("arguments", text)
            case Retrying() | FellBack() | Adapted():
                self._void()
        return ""

    async def usage(self) -> Usage:
        """Estimate what the answer used, if it is stopped here."""
        if self._begun is None:
            return Usage()
        return await asyncio.to_thread(
            self._begun.count, AssistantMessage(text="".join(self._came))
        )

    def _void(self) -> None:
        self._begun = None
        self._came: list[str] = []
        self._unread: list[tuple[Part, str]] = []
        self._length = 0
        self._watch: RepetitionWatch | None = None
        self._told = False

    def _read(self, part: "Part", text: str) -> str:
        self._came.append(text)
        if self._told:
            return ""
        self._unread.append((part, text))
        self._length += len(text)
        if self._length < _READ_AT:
            return ""
        if self._watch is None:
            from codeagent.agent.repetition import RepetitionWatch  # most answers are too short

            self._watch = RepetitionWatch(self._most)
        said = next(filter(None, (self._watch.add(*piece) for piece in self._unread)), "")
        self._unread = []
        self._length = 0
        self._told = bool(said)
        return said


class StreamedAnswer:
    """Receives one answer. Calls that were announced but are not part of it get a result, too."""

    def __init__(
        self,
        emitter: Emitter,
        executor: Executor,
        known_ids: set[str],
        permissions: Permissions,
        early: EarlyCalls,
        *,
        most_repeated: int,
        attended: bool,
    ) -> None:
        """`known_ids`: the ids of every call so far; those of calls that are dropped here are
        added.

        `early` is offered each call whose block closes. `most_repeated`: see AnswerSoFar;
        `attended`: a user is there, who can stop the answer.
        """
        self._so_far = AnswerSoFar(most_repeated)
        self._attended = attended
        self._early = early
        self._emitter = emitter
        self._executor = executor
        self._permissions = permissions
        self._known_ids = known_ids
        self._text: list[str] = []
        self._void = False
        """The text is that of an attempt that failed; the first piece of the next one replaces
        it."""
        self._shown: _Piece | None = None
        """The piece that was emitted in this turn of the event loop; what continues it is in
        `_merged`."""
        self._merged: list[str] = []
        self._announced: dict[str, ToolCall] = {}
        self.usage = Usage()
        """Of the whole answer; an estimate if it was stopped."""

    async def receive(self, model: Model, request: ModelRequest) -> AssistantMessage:
        """Send the request; return the answer, its call ids unique in the session. Raises
        ModelError."""
        answer: AssistantMessage | None = None
        events = model.stream(request)
        try:
            async for event in events:
                match event:
                    case TextPiece(text):
                        self._keep(text)
                        self._show(TextDelta(text=text))
                    case ReasoningPiece(text):
                        self._show(ReasoningDelta(text=text))
                    case CallGrowing(call_id, name, text):
                        self._show(
                            ToolCallDelta(call_id=self._unused(call_id), name=name, text=text)
                        )
                    case ProviderUse():
                        self._emit_merged()
                        await take_use(
                            event, self._emitter, self._executor.outputs, self._permissions
                        )
                    case ModelAnswer(message, usage):
                        answer = message
                        self.usage = usage
                    case Retrying() | FellBack():
                        await self._begin_again(event)
                    case _:
                        self._take(event)
                if said := self._so_far.take(event):
                    self._point_out(said)
        finally:
            self._emit_merged()
            if answer is None:
                await close_stream(events)
                self.usage = await self._so_far.usage()
        if answer is None:
            raise ModelError("the model's stream ended without an answer", kind="cut")
        calls = tuple(self._announce(call) for call in answer.calls)
        for call in calls:
            del self._announced[call.id]
        await self._drop_announced()
        self._early.close()
        return replace(answer, calls=calls)

    async def partial(self) -> AssistantMessage | None:
        """Return what to keep of an answer that broke off: the text that came last, without its
        calls."""
        await self._drop_announced()
        text = "".join(self._text)
        return AssistantMessage(text=text, stop="cut") if text.strip() else None

    def _point_out(self, repeats: str) -> None:
        """Raises ModelError if nobody is there to stop the answer."""
        self._emit_merged()
        if not self._attended:
            advice = "ask again, choose another model, or raise limits.max_repeated_tokens"
            raise ModelError(
                f"{repeats}; it was stopped, and what came of it is kept: {advice}", kind="cut"
            )
        text = f"{repeats}; stop it if it is of no use"
        self._emitter.warn("model.repeats", text)

    def _show(self, piece: _Piece) -> None:
        """Emit a piece; those that continue it in the same turn of the event loop become one
        event."""
        if self._shown is not None and replace(self._shown, text=piece.text) == piece:
            self._merged.append(piece.text)
            return
        self._emit_merged()
        self._shown = piece
        self._emitter.emit(piece)
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._emit_merged()
        self._shown = None

    def _emit_merged(self) -> None:
        if self._merged and self._shown is not None:
            text = "".join(self._merged)
            self._merged.clear()
            self._emitter.emit(replace(self._shown, text=text))

    def _take(self, event: AnswerBegun | CallClosed | ToolsLeftOut | Adapted | Heartbeat) -> None:
        self._emit_merged()
        match event:
            case CallClosed(call, certain):
                self._early.offer(self._announce(call), certain=certain)
            case ToolsLeftOut():
                self._emitter.emit(tools_left_out(event))
            case Adapted(text):
                self._emitter.notice("model.adapted", text)
            case AnswerBegun() | Heartbeat():
                pass
            case _:
                assert_never(event)

    def _announce(self, call: ToolCall) -> ToolCall:
        """Return the call with an id that no earlier answer used; it is announced once."""
        unique = replace(call, id=self._unused(call.id))
        if unique.id not in self._announced:
            self._announced[unique.id] = unique
            self._emitter.emit(
                ToolCallAdded(call_id=unique.id, name=unique.name, arguments=unique.arguments)
            )
        return unique

    def _unused(self, call_id: str) -> str:
        """Return the id, or one made of it if an earlier answer used it."""
        if call_id not in self._known_ids:
            return call_id
        number = 2
        while f"{call_id}_{number}" in self._known_ids:
            number += 1
        return f"{call_id}_{number}"

    def _keep(self, text: str) -> None:
        if self._void:
            self._text.clear()
        self._void = False
        self._text.append(text)

    async def _begin_again(self, event: Retrying | FellBack) -> None:
        """Drop what was announced, because the answer begins again; its text is kept until the new
        one comes.

        The text of a model that was given up is not kept.
        """
        self._emit_merged()
        await self._drop_announced()
        match event:
            case Retrying():
                self._void = True
                self._emitter.emit(retried(event))
            case FellBack():
                self._text.clear()
                self._emitter.emit(fell_back(event))

    async def _drop_announced(self) -> None:
        begun = await self._early.discard(self._announced)
        for call in self._announced.values():
            if call.id not in begun:
                self._executor.refuse(call, Cancelled(f"{BROKE_OFF}; this call did not run"))
        self._known_ids.update(self._announced)
        self._announced.clear()


async def close_stream(events: AsyncIterator[ModelEvent]) -> None:
    """Close the stream of an answer; one that was left before its end would keep its connection."""
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()


def retried(retry: Retrying) -> ModelRetried:
    """Return the notice that a request is repeated."""
    often = (
        f"attempt {retry.attempt} of {retry.attempts}"
        if retry.attempts
        else f"attempt {retry.attempt}"
    )
    return ModelRetried(
        text=f"{retry.reason}; {often} in {retry.delay:.1f} s",
        reason=retry.reason,
        attempt=retry.attempt,
        delay_s=round(retry.delay, 3),
        attempts=retry.attempts,
    )


def fell_back(change: FellBack) -> ModelFellBack:
    """Return the notice that another model took over."""
    text = f"{change.reason}; continuing with {change.model}{from_now_on(change.server)}"
    return ModelFellBack(text=text, reason=change.reason, model=change.model, server=change.server)


def tools_left_out(event: ToolsLeftOut) -> Notice:
    """Return the notice that the provider does not have these tools."""
    text = f"{event.model} has no {' or '.join(event.names)} of its provider's own that can be used here: not sent"
    data: dict[str, JsonValue] = {"model": event.model, "tools": list(event.names)}
    return Notice(level="warning", code="tools.not_at_provider", text=text, data=data)


async def take_use(
    use: ProviderUse, emitter: Emitter, outputs: OutputStore, permissions: Permissions
) -> None:
    """Log what the provider's own tool did, and note that the model has read text of others.

    Even a call in this very answer may be due to that text.
    """
    emitter.emit(await asyncio.to_thread(_kept, use, outputs))
    if use.sources or use.tool not in _OFFLINE:
        permissions.hear(_ELSEWHERE)
        permissions.begin_request()


def _kept(use: ProviderUse, outputs: OutputStore) -> ProviderToolUsed:
    """Return the use as it is logged, with its images saved; an image that cannot be saved is
    reported."""
    paths, problem = list[str](), use.error
    for image in use.images:
        suffix = f".{image.media_type.removeprefix('image/')}"
        try:
            paths.append(outputs.keep_image(suffix, base64.b64decode(image.data)))
        except OSError as error:
            problem = f"an image could not be saved: {error.strerror or error}"
    return ProviderToolUsed(
        tool=use.tool,
        target=use.target,
        output=use.output,
        sources=use.sources,
        images=tuple(paths),
        files=use.files,
        error=problem,
    )


@dataclass(frozen=True)
class _Flaw:
    """What is wrong with an answer."""

    what: str
    """Follows `the answer`."""
    note: str
    """What the model is told."""
    advice: str
    """The user's next step, if it happens again."""
    kind: ModelErrorKind = "server"


_EMPTY = _Flaw(
    "was empty",
    "(Your answer was empty. Go on, or say in a sentence that you are done.)",
    "ask again, or choose another model",
)
_THOUGHTS = _Flaw(
    "was nothing but thinking",
    "(Your answer was nothing but thinking. Go on, or say in a sentence that you are done.)",
    "ask again, or choose another model",
)
_CUT_OFF = _Flaw(
    "was cut off by the output limit",
    "(Your answer was cut off by the output limit. Go on from there, in smaller pieces.)",
    "ask for the rest, or for less at once",
)
_REFUSED = _Flaw(
    "was stopped by the provider because of its content",
    "(Your answer was stopped because of its content. Go on without that, or say in a sentence what you cannot do.)",
    "ask for it in another way, or choose another model",
    "content_policy",
)


class Nudges:
    """Counts the unusable answers in a row within one run."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._in_a_row = 0

    def after(self, answer: AssistantMessage) -> UserMessage | None:
        """Return what to tell the model, as it was emitted; None if the answer counts.

        Raises ModelError if it was told before and there is nothing to show.
        """
        if (flaw := _flaw_of(answer)) is None:
            self._in_a_row = 0
            return None
        self._in_a_row += 1
        if self._in_a_row > (_CUT_CALLS if answer.calls else 1):
            self._explain(answer, flaw)
            return None
        if answer.calls:
            return None
        self._emitter.warn("model.nudge", f"the answer {flaw.what}: the model was asked to go on")
        note = UserMessage.from_text(flaw.note, source="note")
        self._emitter.emit(MessageAdded(message=note))
        return note

    def _explain(self, answer: AssistantMessage, flaw: _Flaw) -> None:
        said = f"the answer {flaw.what}"
        if answer.calls or not answer.text.strip():
            raise ModelError(
                f"{said}, several times over; the session is kept: {flaw.advice}", kind=flaw.kind
            )
        self._in_a_row = 0
        self._emitter.warn("model.incomplete", f"{said} again, and is not complete: {flaw.advice}")


def _flaw_of(answer: AssistantMessage) -> _Flaw | None:
    match answer.stop:
        case "length":
            return _CUT_OFF
        case "content_filter" if not answer.calls:
            return _REFUSED
    if answer.calls or answer.text.strip() or answer.provider_content:
        return None
    return _THOUGHTS if answer.thinking else _EMPTY
