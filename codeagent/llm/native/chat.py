"""OpenAI's chat completions, and the variants of their streams that other servers send."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from codeagent.core.budget import Effort
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.messages import AssistantMessage, Message, Thinking
from codeagent.core.model import ModelRequest
from codeagent.llm.errors import ProviderError
from codeagent.llm.per_message import Converted, PerMessage, encoded, in_order, json_body
from codeagent.llm.provider_tools import declared_in, sources_of
from codeagent.llm.providers import Target
from codeagent.llm.stream import CallPiece, Delta, ProviderWork, StreamPiece
from codeagent.llm.usage import field, read_usage
from codeagent.llm.wire import Wire, chat_messages, thinking_arguments, to_tools

_NEW_LIMIT = lazy_regex(r"o\d|gpt-[5-9](?!-chat)")
"""OpenAI's models that take `max_completion_tokens` instead of `max_tokens`."""
_THINKING_SWITCH = {"deepseek"}
"""Thinking has a switch there, besides its effort."""
_REASONING_BACK = {"deepseek", "moonshot"}
"""They refuse answers that come back without their reasoning, if the model thinks."""
_BLANK = " "
_CITING = ("annotations", "search_results", "citations")
"""Where servers say what an answer cites: as OpenAI does, as Perplexity does, or as bare
addresses."""


class ChatWriter:
    """Writes the requests of one model."""

    def __init__(self, target: Target, effort: Effort | None) -> None:
        self._asked = _thinking(target, effort)
        switched_off = effort == "off" and target.provider in _THINKING_SWITCH
        thinks = bool(target.facts.get("supports_reasoning")) and not switched_off
        self._messages = PerMessage(
            partial(_message, reasoning=target.provider in _REASONING_BACK and thinks)
        )

    def body(self, request: ModelRequest, target: Target) -> bytes:
        new_limit = target.provider == "openai" and _NEW_LIMIT.match(
            target.bare_name.rpartition("/")[2]
        )
        head: Wire = {
            "model": target.bare_name,
            "max_completion_tokens" if new_limit else "max_tokens": target.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "tools": to_tools(request.tools, "openai") or None,
            **{
                name: value
                for one in declared_in(request, target)
                for name, value in one.fields.items()
            },
            **self._asked,
            **(target.endpoint.changes if target.endpoint is not None else {}),
        }
        head = {name: value for name, value in head.items() if value is not None}
        system = [encoded({"role": "system", "content": request.system})] if request.system else []
        return json_body(
            head, "messages", [*system, *in_order(self._messages(request.messages), _from_results)]
        )


def _thinking(target: Target, effort: Effort | None) -> Wire:
    """Return the fields that ask for an effort; there are none for a model known not to think."""
    word = thinking_arguments(effort, "openai", target.max_tokens, target.facts).get(
        "reasoning_effort"
    )
    if word is None or target.provider not in _THINKING_SWITCH:
        return {} if word is None else {"reasoning_effort": word}
    if effort == "off":
        return {"thinking": {"type": "disabled"}}
    return {"reasoning_effort": word, "thinking": {"type": "enabled"}}


def _message(message: Message, *, reasoning: bool) -> Converted[bytes]:
    converted = chat_messages(message)
    (wire,) = converted.items
    if wire["content"] is None:
        del wire["content"]
    if reasoning and isinstance(message, AssistantMessage):
        wire["reasoning_content"] = "".join(block.text for block in message.thinking) or _BLANK
    return Converted((encoded(wire),), tuple(map(encoded, converted.images)), converted.in_batch)


def _from_results(images: list[bytes]) -> bytes:
    return b'{"role":"user","content":[%b]}' % b",".join(images)


class ChatReader:
    """Reads one stream.

    Some servers never say why they stop. Their last event is the usage alone: after that, nothing
    is missing.
    """

    def __init__(self) -> None:
        self._finish: str | None = None
        self._closing = False

    def read(self, event: Any) -> Iterator[StreamPiece]:
        """Read one event, or an object of a library that stands for one. Raises ProviderError."""
        error = field(event, "error")
        if error:
            raise ProviderError(error)
        delta, usage = read_delta(event), read_usage(event)
        self._finish = delta.finish or self._finish
        self._closing = usage is not None and replace(delta, work=None) == Delta()
        yield StreamPiece(delta, usage)

    def end(self) -> Iterator[StreamPiece]:
        if self._finish is None and self._closing:
            yield StreamPiece(Delta(finish="stop"))


def read_delta(chunk: Any) -> Delta:
    """Read the first choice of the chunk; fields that a server leaves out, or sends as null, are
    empty."""
    choices = field(chunk, "choices")
    if not choices:
        return Delta(work=_cited(chunk))
    choice = choices[0]
    finish = field(choice, "finish_reason") or None
    delta = field(choice, "delta") or field(choice, "message")
    if delta is None:
        return Delta(work=_cited(chunk), finish=finish)
    content = field(delta, "content")
    text, reasoning = _from_parts(content) if isinstance(content, list) else (_text(content), "")
    thinking = tuple(map(_block, field(delta, "thinking_blocks") or ()))
    if not thinking:
        reasoning += _text(field(delta, "reasoning_content")) or _text(field(delta, "reasoning"))
        thinking = (Thinking(text=reasoning),) if reasoning else ()
    pieces = [piece for piece in field(delta, "tool_calls") or () if piece is not None]
    if not pieces and (legacy := field(delta, "function_call")) is not None:
        pieces = [{"index": 0, "function": legacy}]
    return Delta(
        text=text + _text(field(delta, "refusal")),
        thinking=thinking,
        calls=tuple(map(_call, pieces)),
        work=_cited(delta) or _cited(chunk),
        finish=str(finish) if finish else None,
    )


def _cited(said: Any) -> ProviderWork | None:
    """Return what a delta, or a chunk beside its choices, cites; None if it cites nothing."""
    lists = (found for name in _CITING if isinstance(found := field(said, name), list))
    cited = sources_of(chain.from_iterable(lists))
    return ProviderWork(cited=cited) if cited else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _from_parts(parts: list[Any]) -> tuple[str, str]:
    """Return the text and the reasoning of content that comes as a list of typed parts."""
    text, reasoning = "", ""
    for part in parts:
        if field(part, "type") == "thinking":
            thought = field(part, "thinking")
            reasoning += (
                thought
                if isinstance(thought, str)
                else "".join(_text(field(p, "text")) for p in thought or ())
            )
        else:
            text += part if isinstance(part, str) else _text(field(part, "text"))
    return text, reasoning


def _block(block: Any) -> Thinking:
    if field(block, "type") == "redacted_thinking":
        return Thinking(redacted=_text(field(block, "data")))
    return Thinking(
        text=_text(field(block, "thinking")), signature=field(block, "signature") or None
    )


def _call(piece: Any) -> CallPiece:
    function, index = field(piece, "function"), field(piece, "index")
    return CallPiece(
        index=index if isinstance(index, int) else None,
        id=_text(field(piece, "id")) or None,
        name=_text(field(function, "name")) or None,
        arguments=_text(field(function, "arguments")),
    )
