"""One request to the model: its stream as events, and what is kept if it breaks off."""

import asyncio
import base64
from dataclasses import replace
from typing import assert_never

from codeagent.agent.emitter import Emitter
from codeagent.agent.executor import Executor
from codeagent.agent.permissions import Permissions
from codeagent.core.errors import ModelError
from codeagent.core.events import Notice, ProviderToolUsed, ReasoningDelta, TextDelta, ToolCallAdded
from codeagent.core.json_types import JsonValue
from codeagent.core.messages import AssistantMessage, ToolCall, Usage
from codeagent.core.model import (
    CallClosed,
    FellBack,
    Heartbeat,
    Model,
    ModelAnswer,
    ModelRequest,
    ProviderUse,
    ReasoningPiece,
    Retrying,
    TextPiece,
    ToolsLeftOut,
)
from codeagent.core.notices import ModelFellBack, ModelRetried
from codeagent.core.ports import OutputStore
from codeagent.core.tool import Cancelled

_OFFLINE = ("code_execution", "image_generation")
"""The provider's tools that do not bring in text of others."""
_ELSEWHERE = "the provider's search"
"""Whose text the model has read, see `Policy.heard`."""


class StreamedAnswer:
    """Receives one answer. Calls that were announced but are not part of it get a result, too."""

    def __init__(self, emitter: Emitter, executor: Executor, known_ids: set[str], permissions: Permissions) -> None:
        """`known_ids`: the ids of every call so far; those of calls that are dropped here are added."""
        self._emitter = emitter
        self._executor = executor
        self._permissions = permissions
        self._known_ids = known_ids
        self._text: list[str] = []
        self._void = False
        """The text is that of an attempt that failed; the first piece of the next one replaces it."""
        self._kind: type[TextDelta | ReasoningDelta] | None = None
        """Whether a piece was emitted in this turn of the event loop; the others are in `_merged`."""
        self._merged: list[str] = []
        self._announced: dict[str, ToolCall] = {}
        self.usage = Usage()

    async def receive(self, model: Model, request: ModelRequest) -> AssistantMessage:
        """Send the request; return the answer, its call ids unique in the session. Raises ModelError."""
        answer: AssistantMessage | None = None
        try:
            async for event in model.stream(request):
                match event:
                    case TextPiece(text):
                        self._keep(text)
                        self._show(TextDelta, text)
                    case ReasoningPiece(text):
                        self._show(ReasoningDelta, text)
                    case ProviderUse():
                        self._emit_merged()
                        await take_use(event, self._emitter, self._executor.outputs, self._permissions)
                    case ModelAnswer(message, usage):
                        answer, self.usage = message, usage
                    case _:
                        self._take(event)
        finally:
            self._emit_merged()
        if answer is None:
            raise ModelError("the model's stream ended without an answer", kind="cut")
        calls = tuple(self._announce(call) for call in answer.calls)
        for call in calls:
            del self._announced[call.id]
        self._drop_announced()
        return replace(answer, calls=calls)

    def partial(self) -> AssistantMessage | None:
        """Return what to keep of an answer that broke off: the text that came last, without its calls."""
        self._drop_announced()
        text = "".join(self._text)
        return AssistantMessage(text=text, stop="cut") if text.strip() else None

    def _show(self, kind: type[TextDelta | ReasoningDelta], text: str) -> None:
        """Emit a piece; those that follow in the same turn of the event loop become one event."""
        if kind is not self._kind:
            self._emit_merged()
            self._kind = kind
            self._emitter.emit(kind(text=text))
            asyncio.get_running_loop().call_soon(self._turn)
        else:
            self._merged.append(text)

    def _turn(self) -> None:
        self._emit_merged()
        self._kind = None

    def _emit_merged(self) -> None:
        if self._merged and self._kind is not None:
            text = "".join(self._merged)
            self._merged.clear()
            self._emitter.emit(self._kind(text=text))

    def _take(self, event: CallClosed | ToolsLeftOut | Heartbeat | Retrying | FellBack) -> None:
        self._emit_merged()
        match event:
            case CallClosed(call):
                self._announce(call)
            case ToolsLeftOut():
                self._emitter.emit(tools_left_out(event))
            case Heartbeat():
                pass
            case Retrying():
                self._forget(event)
            case FellBack():
                self._replace_model(event)
            case _:
                assert_never(event)

    def _announce(self, call: ToolCall) -> ToolCall:
        """Return the call with an id that no earlier answer used; it is announced once."""
        unique = call if call.id not in self._known_ids else replace(call, id=self._fresh(call.id))
        if unique.id not in self._announced:
            self._announced[unique.id] = unique
            self._emitter.emit(ToolCallAdded(call_id=unique.id, name=unique.name, arguments=unique.arguments))
        return unique

    def _fresh(self, call_id: str) -> str:
        number = 2
        while f"{call_id}_{number}" in self._known_ids:
            number += 1
        return f"{call_id}_{number}"

    def _keep(self, text: str) -> None:
        if self._void:
            self._text.clear()
        self._void = False
        self._text.append(text)

    def _forget(self, retry: Retrying) -> None:
        self._drop_announced()
        self._void = True
        self._emitter.emit(retried(retry))

    def _replace_model(self, change: FellBack) -> None:
        self._drop_announced()
        self._text.clear()
        self._emitter.emit(fell_back(change))

    def _drop_announced(self) -> None:
        for call in self._announced.values():
            self._executor.refuse(call, Cancelled("the answer broke off before it was complete; nothing ran"))
        self._known_ids.update(self._announced)
        self._announced.clear()


def retried(retry: Retrying) -> ModelRetried:
    """Return the notice that a request is repeated."""
    text = f"{retry.reason}; attempt {retry.attempt} in {retry.delay:.1f} s"
    return ModelRetried(text=text, reason=retry.reason, attempt=retry.attempt, delay_s=round(retry.delay, 3))


def fell_back(change: FellBack) -> ModelFellBack:
    """Return the notice that another model took over."""
    text = f"{change.reason}; continuing with {change.model}"
    return ModelFellBack(text=text, reason=change.reason, model=change.model)


def tools_left_out(event: ToolsLeftOut) -> Notice:
    """Return the notice that the provider does not have these tools."""
    text = f"{event.model} has no {' or '.join(event.names)} of its provider's own that can be used here: not sent"
    data: dict[str, JsonValue] = {"model": event.model, "tools": list(event.names)}
    return Notice(level="warning", code="tools.not_at_provider", text=text, data=data)


async def take_use(use: ProviderUse, emitter: Emitter, outputs: OutputStore, permissions: Permissions) -> None:
    """Log what the provider's own tool did, and note that the model has read text of others.

    Even a call in this very answer may be due to that text.
    """
    emitter.emit(await asyncio.to_thread(_kept, use, outputs))
    if use.sources or use.tool not in _OFFLINE:
        permissions.hear(_ELSEWHERE)
        permissions.begin_request()


def _kept(use: ProviderUse, outputs: OutputStore) -> ProviderToolUsed:
    """Return the use as it is logged, with its images saved; an image that cannot be saved is reported."""
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
