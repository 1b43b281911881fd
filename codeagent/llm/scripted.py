"""A model that plays a script, as strict about its input as a real provider, and the file format of
the script."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from codeagent.core.deferred import BaseModel, ConfigDict, Field, field_validator
from codeagent.core.errors import ConfigError, ModelError, ModelErrorKind, TranscriptError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.messages import (
    AssistantMessage,
    Message,
    Thinking,
    ToolMessage,
    TranscriptCheck,
    Usage,
    UserMessage,
    text_of,
)
from codeagent.core.model import AnswerBegun, ModelAnswer, ModelEvent, ModelRequest, ToolsLeftOut
from codeagent.llm.provider_tools import left_out
from codeagent.llm.stream import Accumulator, CallPiece, Delta

PREFIX = "script:"
_PIECE = lazy_regex(r"\S{1,12}\s*|\s+")
_PIECES_PER_YIELD = 32
"""How often the event loop gets a turn, so that a long answer without delays can be cancelled."""
_CHARACTERS_PER_TOKEN = 4
_KINDS: dict[int, ModelErrorKind] = {
    401: "auth",
    403: "auth",
    408: "timeout",
    413: "context_window",
    429: "rate_limit",
    529: "overloaded",
}


class ScriptedError(BaseModel):
    """A failure of a provider, to be imitated."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    status: int = Field(ge=400, le=599)
    message: str = ""
    retry_after: float | None = Field(default=None, ge=0)
    """Seconds."""


class Turn(BaseModel):
    """One answer of the model."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, dict[str, Any] | str]] = Field(default_factory=list)
    """Tool name and arguments; a string is sent as it is, to be malformed on purpose."""
    stop: Literal["end", "tool_calls", "length", "content_filter"] | None = None
    delay_ms: float = Field(default=0, ge=0)
    """Before each piece of the stream, in milliseconds."""
    error: ScriptedError | None = None
    """Fail with this status after everything else in the turn."""
    summary: bool = False
    """Answer a request for a summary with it, and no other request; see docs/how-to/context.md."""
    expect: str | None = None
    """A regular expression found in the newest input; otherwise the run ends with an error."""

    @field_validator("expect")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return pattern


_SUMMARY = "The conversation went as the script says."
"""The answer to a request for a summary if the script has none left."""


def load_script(path: str) -> tuple[Turn, ...]:
    """Read the turns from a file. Raises ConfigError naming the file and the turn."""
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"the script {path} cannot be read: {reason}") from None
    return parse_script(text, path)


def parse_script(text: str, source: str) -> tuple[Turn, ...]:
    """Read the turns from JSON text; `source` names it in errors. Raises ConfigError."""
    try:
        turns = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the script {source} is not JSON: {error}") from None
    if not isinstance(turns, list) or not turns:
        raise ConfigError(f"the script {source} must be a list of turns, with at least one")
    return tuple(
        _turn(turn, f"the script {source}, turn {number}")
        for number, turn in enumerate(turns, start=1)
    )


def _turn(turn: object, place: str) -> Turn:
    from pydantic import ValidationError  # most models play no script

    try:
        return Turn.model_validate_json(json.dumps(turn))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise ConfigError(f"{place}: {where + ': ' if where else ''}{first['msg']}") from None


class ScriptedModel:
    """Plays one turn per request, in small pieces like a stream; a request for a summary has
    answers of its own.

    Raises TranscriptError for messages no provider would accept, ModelError `script` if the script
    has no more turns or expected another input.
    """

    context_window = 200_000

    def __init__(self, turns: Sequence[Turn], *, name: str = "script") -> None:
        self._turns = tuple(turn for turn in turns if not turn.summary)
        self._summaries = [turn for turn in turns if turn.summary]
        self.name = name
        self._played = self._asked = 0
        self._transcript = _Transcript()
        self._told: set[str] = set()

    async def close(self) -> None:
        return None

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if not self._transcript.begins(request.messages):
            self._transcript = _Transcript()
        problems = self._transcript.extend(request.messages)
        if problems:
            raise TranscriptError(
                f"{self.name}: the transcript is malformed: {'; '.join(problems)}"
            )
        if request.purpose == "summary":
            self._asked += 1
            number = -self._asked
            turn = self._summaries.pop(0) if self._summaries else Turn(text=_SUMMARY)
        else:
            number, turn = self._next(request.messages)
        if missing := tuple(name for name in left_out(request, ()) if name not in self._told):
            self._told.update(missing)
            yield ToolsLeftOut(self.name, missing)
        begun = False
        accumulator = Accumulator(self._transcript.check.call_ids)
        for count, delta in enumerate(_deltas(turn, number), start=1):
            if turn.delay_ms:
                await asyncio.sleep(turn.delay_ms / 1000)
            elif count % _PIECES_PER_YIELD == 0:
                await asyncio.sleep(0)
            for event in accumulator.add(delta):
                if not begun:
                    begun = True
                    yield AnswerBegun(partial(_usage, request, self._transcript.characters))
                yield event
        if turn.error is not None:
            raise self._failure(turn.error, number)
        last, message = accumulator.finish(self.name)
        for event in last:
            yield event
        yield ModelAnswer(message, _usage(request, self._transcript.characters, message))

    def _next(self, messages: Sequence[Message]) -> tuple[int, Turn]:
        if self._played == len(self._turns):
            raise ModelError(
                f"{self.name}: the script has no turn {self._played + 1}; it ends after {self._played}",
                kind="script",
            )
        turn = self._turns[self._played]
        self._played += 1
        newest = newest_input(messages)
        if turn.expect is not None and not re.search(turn.expect, newest):
            raise ModelError(
                f"{self.name}: turn {self._played} expected {turn.expect!r} in the newest input, which is"
                f" {_shortened(newest)!r}",
                kind="script",
            )
        return self._played, turn

    def _failure(self, error: ScriptedError, number: int) -> ModelError:
        kind = _KINDS.get(error.status, "server" if error.status >= 500 else "bad_request")
        return ModelError(
            f"{self.name}: turn {number} fails with status {error.status}"
            + (f": {error.message}" if error.message else ""),
            kind=kind,
            status=error.status,
            retryable=error.status in (408, 429) or error.status >= 500,
            retry_after=error.retry_after,
        )


class _Transcript:
    """The transcript as it was read so far; of a longer one, only the new messages are read."""

    def __init__(self) -> None:
        self.check = TranscriptCheck()
        self.characters = 0
        self._messages: tuple[Message, ...] = ()
        self._problems: list[str] = []

    def begins(self, messages: tuple[Message, ...]) -> bool:
        """Tell whether what was read is the beginning of `messages`."""
        same = zip(self._messages, messages, strict=False)
        return len(messages) >= len(self._messages) and all(mine is other for mine, other in same)

    def extend(self, messages: tuple[Message, ...]) -> list[str]:
        """Read the new messages; return everything that is wrong in the whole transcript."""
        for message in messages[len(self._messages) :]:
            self._problems += self.check.read(message)
            self.characters += _length(message)
        self._messages = messages
        return self._problems + self.check.unanswered()


def _deltas(turn: Turn, number: int) -> Iterator[Delta]:
    """Yield the turn as a provider would send it: reasoning, text, one call after the other, the
    reason to stop."""
    for piece in _PIECE.findall(turn.reasoning):
        yield Delta(thinking=(Thinking(text=piece),))
    for piece in _PIECE.findall(turn.text):
        yield Delta(text=piece)
    for index, (name, arguments) in enumerate(turn.calls):
        yield Delta(calls=(CallPiece(index, f"call_{number}_{index}", name),))
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        *pieces, last = _PIECE.findall(raw) or [""]
        for piece in pieces:
            yield Delta(calls=(CallPiece(index, arguments=piece),))
        yield Delta(calls=(CallPiece(index, arguments=last, ends=True),))
    if turn.error is None:
        yield Delta(finish=turn.stop or ("tool_calls" if turn.calls else "end"))


def newest_messages(messages: Sequence[Message]) -> list[UserMessage | ToolMessage]:
    """Return the messages since the last answer."""
    newest: list[UserMessage | ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            break
        newest.append(message)
    return newest[::-1]


def newest_input(messages: Sequence[Message]) -> str:
    """Return the text of the messages since the last answer."""
    return "\n".join(text_of(message.content) for message in newest_messages(messages))


def _usage(request: ModelRequest, read: int, message: AssistantMessage) -> Usage:
    """Return a plausible count, four characters to the token; a script costs nothing."""
    sent = len(request.system) + sum(
        len(tool.description) + len(str(tool.parameters)) for tool in request.tools
    )
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
