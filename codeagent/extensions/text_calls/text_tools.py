"""Gives tools to a model as text, when it has no native calls or its provider refuses them."""

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import groupby
from typing import TYPE_CHECKING, assert_never

from codeagent.core.errors import ModelError
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
from codeagent.llm.errors import refuses_roles, refuses_tools
from codeagent.llm.learned import Learned
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


class NativeFirstModel(ModelWrapper):
    """A model with native calls until its provider refuses them; from then on, the same
    conversation as text."""

    def __init__(self, inner: Model, protocol: str, learned: Learned | None = None) -> None:
        """`protocol` is the name of the one for text; `learned`: what is known about the model's
        server."""
        super().__init__(inner)
        self._learned = learned or Learned()
        self._protocol = protocol
        self._as_text: TextToolModel | None = None
        self._lacked = False
        """Whether the server said that its template has no tools, which may change when it is
        restarted."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        await self._learned.look()
        if self._lacked and not self._learned.lacks_tools:
            self._lacked = False
            self._as_text = None
            yield Adapted(
                f"{self.name}: its server says that its template has tools; they are sent as such"
            )
        if self._as_text is None and self._learned.lacks_tools:
            self._lacked = True
            self._as_text = self._text_model()
            yield Adapted(
                f"{self.name}: its server says that its template has no tools; they are written as text"
                f" ({self._protocol})"
            )
        if self._as_text is not None:
            events = self._as_text.stream(request)
        else:
            events = self._unless_refused(
                request, partial(self._needs_text, request), partial(self._in_text, request)
            )
        async for event in events:
            yield event

    async def _in_text(self, request: ModelRequest, error: ModelError) -> AsyncIterator[ModelEvent]:
        self._as_text = self._text_model()
        yield Retrying(
            f"{error}; tools are written as text from here on ({self._protocol})", 2, 0.0
        )
        async for event in self._as_text.stream(request):
            yield event

    def _needs_text(self, request: ModelRequest, error: ModelError) -> bool:
        """Tell whether calls and results were refused: by what runs the model, or by the roles of
        its template."""
        if request.tools and refuses_tools(error):
            return True
        return refuses_roles(error) and any(
            isinstance(one, ToolMessage) for one in request.messages
        )

    def _text_model(self) -> "TextToolModel":
        from codeagent.extensions.text_calls.formats import (
            PROTOCOLS,  # parsers that most models never need
        )

        return TextToolModel(self._inner, PROTOCOLS[self._protocol])


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


def merged(messages: Iterator[Message]) -> Iterator[Message]:
    """Join user messages that follow each other: many chat templates refuse two in a row."""
    for _, group in groupby(messages, lambda message: isinstance(message, UserMessage)):
        users: list[UserMessage] = []
        for message in group:
            if isinstance(message, UserMessage):
                users.append(message)
            else:
                yield message
        if users:
            yield reduce(_joined, users)


def _joined(one: UserMessage, other: UserMessage) -> UserMessage:
    """Join two messages; two texts become one text: some servers accept nothing else."""
    match (*one.content, *other.content):
        case (TextPart(text=first), TextPart(text=second)):
            return UserMessage.from_text(f"{first}\n\n{second}", one.source)
        case parts:
            return replace(one, content=parts)
