"""A model that plays a script, as strict about its input as a real provider."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence

from codeagent.core.errors import ModelError, ModelErrorKind, TranscriptError
from codeagent.core.messages import AssistantMessage, Message, ToolMessage, Usage, UserMessage, text_of
from codeagent.core.model import Answer, ModelEvent, ModelRequest
from codeagent.core.transcript import TranscriptCheck
from codeagent.llm.script import ScriptedError, Turn
from codeagent.llm.stream import Accumulator, CallPiece, Delta

_PIECE = re.compile(r"\S{1,12}\s*|\s+")
_PIECES_PER_BREATH = 32
"""The loop gets a turn that often, so that a long answer without delays stays cancellable."""
_CHARACTERS_PER_TOKEN = 4
_KINDS: dict[int, ModelErrorKind] = {
    401: "auth",
    403: "auth",
    408: "timeout",
    413: "context_window",
    429: "rate_limit",
    529: "overloaded",
}


class ScriptedModel:
    """Plays one turn per request, in small pieces like a stream.

    Raises TranscriptError for messages no provider would take, ModelError `script` where the script
    has no more turns or expected another input.
    """

    def __init__(self, turns: Sequence[Turn], *, name: str = "script", context_window: int = 200_000) -> None:
        self._turns = tuple(turns)
        self._name = name
        self._context_window = context_window
        self._played = 0
        self._read = _Read()

    @property
    def name(self) -> str:
        return self._name

    @property
    def context_window(self) -> int | None:
        return self._context_window

    async def close(self) -> None:
        return None

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if not self._read.leads_to(request.messages):
            self._read = _Read()
        problems = self._read.go_on(request.messages)
        if problems:
            raise TranscriptError(f"{self._name}: the transcript is malformed: {'; '.join(problems)}")
        number, turn = self._next(request.messages)
        accumulator = Accumulator(self._read.check.call_ids)
        for count, delta in enumerate(_deltas(turn, number), start=1):
            if turn.delay_ms:
                await asyncio.sleep(turn.delay_ms / 1000)
            elif count % _PIECES_PER_BREATH == 0:
                await asyncio.sleep(0)
            for event in accumulator.add(delta):
                yield event
        if turn.error is not None:
            raise self._failure(turn.error, number)
        closed, message = accumulator.finish(self._name)
        for call in closed:
            yield call
        yield Answer(message, _usage(request, self._read.characters, message))

    def _next(self, messages: Sequence[Message]) -> tuple[int, Turn]:
        if self._played == len(self._turns):
            raise ModelError(
                f"{self._name}: the script has no turn {self._played + 1}; it ends after {self._played}", kind="script"
            )
        turn = self._turns[self._played]
        self._played += 1
        newest = newest_input(messages)
        if turn.expect is not None and not re.search(turn.expect, newest):
            raise ModelError(
                f"{self._name}: turn {self._played} expected {turn.expect!r} in the newest input, which is"
                f" {_shortened(newest)!r}",
                kind="script",
            )
        return self._played, turn

    def _failure(self, error: ScriptedError, number: int) -> ModelError:
        kind = _KINDS.get(error.status, "server" if error.status >= 500 else "bad_request")
        return ModelError(
            f"{self._name}: turn {number} fails with status {error.status}"
            + (f": {error.message}" if error.message else ""),
            kind=kind,
            status=error.status,
            retryable=error.status in (408, 429) or error.status >= 500,
            retry_after=error.retry_after,
        )


class _Read:
    """What is known of the transcript so far; a longer one is only read on."""

    def __init__(self) -> None:
        self.check = TranscriptCheck()
        self.characters = 0
        self._messages: tuple[Message, ...] = ()
        self._problems: list[str] = []

    def leads_to(self, messages: tuple[Message, ...]) -> bool:
        """Whether what was read is the beginning of `messages`."""
        same = zip(self._messages, messages, strict=False)
        return len(messages) >= len(self._messages) and all(mine is other for mine, other in same)

    def go_on(self, messages: tuple[Message, ...]) -> list[str]:
        """Read the rest; returns everything that is wrong."""
        for message in messages[len(self._messages) :]:
            self._problems += self.check.read(message)
            self.characters += _length(message)
        self._messages = messages
        return self._problems + self.check.unanswered()


def _deltas(turn: Turn, number: int) -> Iterator[Delta]:
    """The turn as a provider would send it: reasoning, text, calls one after the other, the reason to stop."""
    for piece in _PIECE.findall(turn.reasoning):
        yield Delta(reasoning=piece)
    for piece in _PIECE.findall(turn.text):
        yield Delta(text=piece)
    for index, (name, arguments) in enumerate(turn.calls):
        yield Delta(calls=(CallPiece(index, f"call_{number}_{index}", name),))
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        for piece in _PIECE.findall(raw):
            yield Delta(calls=(CallPiece(index, arguments=piece),))
    if turn.error is None:
        yield Delta(finish=turn.stop or ("tool_calls" if turn.calls else "end"))


def newest_messages(messages: Sequence[Message]) -> list[Message]:
    """Those since the last answer."""
    newest: list[Message] = []
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            break
        newest.append(message)
    return newest[::-1]


def newest_input(messages: Sequence[Message]) -> str:
    """The texts of the messages since the last answer."""
    return "\n".join(text_of(message.content) for message in newest_messages(messages) if message.role != "assistant")


def _usage(request: ModelRequest, read: int, message: AssistantMessage) -> Usage:
    """A plausible count, four characters to the token; a script costs nothing."""
    sent = len(request.system) + sum(len(tool.description) + len(str(tool.parameters)) for tool in request.tools)
    sent += read
    thought = sum(len(block.text) for block in message.thinking)
    return Usage(
        input_tokens=_tokens(sent),
        output_tokens=_tokens(_length(message)),
        reasoning_tokens=_tokens(thought),
        cost_usd=0.0,
        estimated=True,
    )


def _length(message: Message) -> int:
    match message:
        case UserMessage(content=content) | ToolMessage(content=content):
            return len(text_of(content))
        case AssistantMessage(text=text, thinking=thinking, calls=calls):
            thought = sum(len(block.text) for block in thinking)
            return len(text) + thought + sum(len(call.name) + len(call.arguments) for call in calls)


def _tokens(characters: int) -> int:
    return -(-characters // _CHARACTERS_PER_TOKEN)


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "…"
