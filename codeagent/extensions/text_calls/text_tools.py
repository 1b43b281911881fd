"""Gives tools to a model as text, when it has no native calls or its provider refuses them."""

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, assert_never

from codeagent.core.messages import (
    AssistantMessage,
    ContentPart,
    ImagePart,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
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
)
from codeagent.extensions.text_calls.protocol import (
    AnswerPiece,
    BrokenCall,
    ParsedCall,
    Retracted,
    Text,
)
from codeagent.llm.folded_roles import merged
from codeagent.llm.retry import ModelWrapper
from codeagent.llm.wire import from_result_of

if TYPE_CHECKING:  # the parsers, which most models never need
    from codeagent.extensions.text_calls.formats import TextProtocol
    from codeagent.extensions.text_calls.reader import Reader

_NAMELESS = "tool_call"
"""Replaces the name of the tool in a block that gives none."""
_REPORT_ENDS = ":\n"
_SHORTEST_CALL = 40
"""Characters of an answer that are held back before they are said to be those of a call."""
_WAS_THINKING = "this block was part of your thinking, so nothing ran"


class TextToolModel(ModelWrapper):
    """A model whose calls are text of one protocol; the loop sees the same events as with native
    calls.

    A block that must not run becomes a call too, with arguments that are not JSON and begin with
    the reason: its error result tells the model, and the user.
    """

    def __init__(self, inner: Model, protocol: "TextProtocol") -> None:
        super().__init__(inner)
        self._protocol = protocol

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream as `Model.stream` does. What the model writes while it has no tools is text."""
        tools = tuple(tool for tool in request.tools if not tool.at_provider)
        answer = _Answer(self._protocol.parser(tools), reads=bool(tools))
        async for event in self._inner.stream(as_text(request, self._protocol)):
            match event:
                case TextPiece(text):
                    for found in answer.add(text):
                        yield found
                    if answer.held_back:
                        yield CallGrowing("", "", text)
                case (
                    AnswerBegun()
                    | ReasoningPiece()
                    | CallGrowing()
                    | CallClosed()
                    | ProviderUse()
                    | ToolsLeftOut()
                    | Heartbeat()
                ):
                    yield event
                case Retrying() | FellBack() | Adapted():
                    answer = _Answer(self._protocol.parser(tools), reads=bool(tools))
                    yield event
                case ModelAnswer(message, usage):
                    for found in answer.end():
                        yield found
                    yield ModelAnswer(answer.message(message), usage)
                case _:
                    assert_never(event)


class _Answer:
    """One answer as its text comes in."""

    def __init__(self, parser: "Reader", *, reads: bool) -> None:
        self._parser = parser
        self._reads = reads
        self._text: list[str] = []
        self._calls: list[ToolCall] = []
        self._unread = 0

    @property
    def held_back(self) -> bool:
        """Whether so much came without a word to show that it is most likely a call."""
        return self._unread >= _SHORTEST_CALL

    def add(self, text: str) -> Iterator[ModelEvent]:
        self._unread += len(text)
        return self._events(self._parser.feed(text) if self._reads else [Text(text)])

    def end(self) -> Iterator[ModelEvent]:
        return self._events(self._parser.close() if self._reads else [])

    def message(self, whole: AssistantMessage) -> AssistantMessage:
        """Return the text without the blocks, and the calls; native calls stay."""
        calls = (*whole.calls, *self._calls)
        stop = "tool_calls" if self._calls and whole.stop == "end" else whole.stop
        return replace(whole, text="".join(self._text), calls=calls, stop=stop)

    def _events(self, pieces: list[AnswerPiece]) -> Iterator[ModelEvent]:
        for piece in pieces:
            self._unread = 0
            match piece:
                case Text(text):
                    self._text.append(text)
                    yield TextPiece(text)
                case ParsedCall(name, arguments):
                    yield self._closed(name, arguments)
                case BrokenCall(name, raw, why):
                    yield self._closed(name or _NAMELESS, f"{why}{_REPORT_ENDS}{raw}")
                case Retracted():
                    refused = f"{_WAS_THINKING}{_REPORT_ENDS}"
                    self._calls = [
                        replace(call, arguments=refused + call.arguments) for call in self._calls
                    ]
                case _:
                    assert_never(piece)

    def _closed(self, name: str, arguments: str) -> CallClosed:
        call = ToolCall(id=f"call_{os.urandom(16).hex()}", name=name, arguments=arguments)
        self._calls.append(call)
        return CallClosed(
            call, certain=False
        )  # what follows may show that it was part of the thinking


def as_text(request: ModelRequest, protocol: "TextProtocol") -> ModelRequest:
    """Return the request without native calls; like any other, it only appends to the one
    before."""
    system = request.system
    if tools := tuple(tool for tool in request.tools if not tool.at_provider):
        section = protocol.render_tools(tools)
        system = f"{system}\n\n{section}" if system else section
    others = tuple(tool for tool in request.tools if tool.at_provider)
    return ModelRequest(system, tuple(merged(_rendered(request.messages, protocol))), others)


def _rendered(messages: Sequence[Message], protocol: "TextProtocol") -> Iterator[Message]:
    for _, group in groupby(messages, lambda message: isinstance(message, ToolMessage)):
        results: list[ToolMessage] = []
        for message in group:
            match message:
                case ToolMessage():
                    results.append(message)
                case AssistantMessage() if message.calls:
                    written = [
                        *filter(None, [message.text]),
                        *map(protocol.render_call, message.calls),
                    ]
                    yield replace(message, text="\n".join(written), calls=(), stop="end")
                case _:
                    yield message
        if results:
            yield _results(results, protocol)


def _results(results: Sequence[ToolMessage], protocol: "TextProtocol") -> UserMessage:
    content: list[ContentPart] = [TextPart(text=protocol.render_results(results))]
    for result in results:
        images = [part for part in result.content if isinstance(part, ImagePart)]
        if images:
            content += [TextPart(text=from_result_of(result)), *images]
    return UserMessage(content=tuple(content), source="note")
