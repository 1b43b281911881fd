"""OpenAI's responses API: requests as a list of items, and streams of typed events."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any

from codeagent.core.budget import Effort
from codeagent.core.dataclass import dataclass
from codeagent.core.messages import Message, Thinking, Usage
from codeagent.core.model import ModelRequest, ProviderUse
from codeagent.llm.errors import ProviderError
from codeagent.llm.per_message import Converted, PerMessage, encoded, in_order, json_body
from codeagent.llm.provider_tools import (
    MakeProviderTools,
    ProviderTools,
    content_for,
    declared_in,
    is_provider_call,
    sources_of,
    with_calls,
    without_images,
)
from codeagent.llm.providers import Target
from codeagent.llm.stream import CallPiece, Delta, ProviderWork, StreamPiece
from codeagent.llm.usage import count
from codeagent.llm.wire import Wire, chat_messages, thinking_arguments, to_tools

_CALL = "function_call"
_THOUGHTS = "reasoning.encrypted_content"
"""Asked for where the provider's own tools are: it refuses what they did without the thoughts that
led to it."""
_NOTHING = StreamPiece()


class ResponsesWriter:
    """Writes the requests of one model."""

    def __init__(self, target: Target, effort: Effort | None) -> None:
        thinking = thinking_arguments(effort, "openai", target.max_tokens, target.facts)
        self._asked: Wire = (
            {"reasoning": {"effort": thinking["reasoning_effort"]}} if thinking else {}
        )
        self._items = PerMessage(partial(_items, target=target))

    def body(self, request: ModelRequest, target: Target) -> bytes:
        limit = {} if target.max_tokens is None else {"max_output_tokens": target.max_tokens}
        head: Wire = {"model": target.bare_name, **limit, **self._asked}
        if target.facts.get("supports_native_streaming") is not False:
            head["stream"] = True
        if request.system:
            head["instructions"] = request.system
        own = declared_in(request, target)
        functions = [each["function"] for each in to_tools(request.tools, "openai")]
        called = [{"type": "function", **function, "strict": False} for function in functions]
        if called or own:
            head["tools"] = [*called, *(one.tool for one in own)]
        if own:
            thoughts = [_THOUGHTS] if target.facts.get("supports_reasoning") else []
            head["include"] = [*thoughts, *(one.include for one in own if one.include)]
        return json_body(head, "input", in_order(self._items(request.messages), _from_results))


def _items(message: Message, target: Target) -> Converted[bytes]:
    converted = chat_messages(message)
    (wire,) = converted.items
    if (content := content_for(message, target)) is not None:
        return Converted(tuple(map(encoded, with_calls(content, _CALL, [*_calls_of(wire)]))))
    images = tuple(encoded(_part(part, "input_text")) for part in converted.images)
    return Converted(tuple(map(encoded, _of_message(wire))), images, converted.in_batch)


def _of_message(wire: Wire) -> Iterator[Wire]:
    content = wire["content"]
    if wire["role"] == "tool":
        output = [{"type": "input_text", "text": content}]
        yield {"type": "function_call_output", "call_id": wire["tool_call_id"], "output": output}
        return
    if content is not None:
        kind = "output_text" if wire["role"] == "assistant" else "input_text"
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        yield {
            "type": "message",
            "role": wire["role"],
            "content": [_part(part, kind) for part in parts],
        }
    yield from _calls_of(wire)


def _calls_of(wire: Wire) -> Iterator[Wire]:
    for call in wire.get("tool_calls", ()):
        yield {"type": _CALL, "call_id": call["id"], **call["function"]}


def _part(part: Wire, kind: str) -> Wire:
    if part["type"] == "text":
        return {"type": kind, "text": part["text"]}
    return {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}


def _from_results(images: list[bytes]) -> bytes:
    return b'{"type":"message","role":"user","content":[%b]}' % b",".join(images)


@dataclass
class _Heard:
    """Which parts of one call were passed on."""

    id: bool = False
    name: bool = False
    arguments: bool = False


class ResponsesReader:
    """Reads one stream.

    Servers differ in where they say a call's id, name and arguments: when it begins, in pieces,
    when it ends, or only in the list at the end of the answer. Whatever comes first counts; what
    repeats it is left out.
    """

    def __init__(self, tools: MakeProviderTools = ProviderTools) -> None:
        self._tools = tools
        self._heard: dict[int, _Heard] = {}
        self._text = False
        self._items: list[tuple[int, dict[str, Any]]] = []
        """The items that have ended, each with its place."""

    def read(self, event: dict[str, Any]) -> Iterable[StreamPiece]:
        """Read one event. Raises ProviderError."""
        delta = event.get("delta")
        match event.get("type"):
            case "response.output_text.delta" | "response.refusal.delta" if isinstance(delta, str):
                self._text = True
                return (StreamPiece(Delta(text=delta)),)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" if (
                isinstance(delta, str)
            ):
                return (StreamPiece(Delta(thinking=(Thinking(text=delta),))),)
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                return (StreamPiece(Delta(thinking=(Thinking(text="\n"),))),)
            case "response.function_call_arguments.delta" if isinstance(delta, str) and delta:
                index = _index(event)
                self._heard.setdefault(index, _Heard()).arguments = True
                return _calls(CallPiece(index, arguments=delta))
            case "response.function_call_arguments.done":
                return _calls(*self._rest(_index(event), event, None))
            case "response.output_item.added":
                return _calls(*self._item(_index(event), event.get("item"), begins=True))
            case "response.output_item.done":
                return (*self._ends(_index(event), event.get("item")),)
            case "response.completed" | "response.incomplete":
                return self._ended(event.get("response") or {})
            case "response.failed" | "response.cancelled" | "error":
                raise _failure(event)
            case _:
                return (_NOTHING,)

    def end(self) -> Iterable[StreamPiece]:
        return ()

    def _ends(self, index: int, item: Any) -> Iterator[StreamPiece]:
        """Yield what the end of an item says: the rest of a call, or what a tool of the provider's
        own did."""
        if isinstance(item, dict):
            self._items.append((index, item))
            if uses := self._uses([item]):
                yield StreamPiece(Delta(work=ProviderWork(uses)))
        yield from _calls(*self._item(index, item))
        heard = self._heard.get(index)
        if (
            heard is not None and heard.name and heard.arguments
        ):  # else the rest is in the list at the end
            yield from _calls(CallPiece(index, ends=True))

    def _uses(self, items: Iterable[dict[str, Any]]) -> tuple[ProviderUse, ...]:
        """Return what the provider's own tools did, according to those of the items that are calls
        of them."""
        found = (self._tools().of_item(item) for item in items if is_provider_call(item))
        return tuple(use for use in found if use is not None)

    def _item(self, index: int, item: Any, *, begins: bool = False) -> Iterator[CallPiece]:
        """Yield what is new of a call; one that has ended without an id of its own has that of its
        item."""
        if isinstance(item, dict) and item.get("type") == _CALL:
            yield from self._rest(
                index, item, item.get("call_id") or (None if begins else item.get("id"))
            )

    def _rest(self, index: int, item: dict[str, Any], call_id: str | None) -> Iterator[CallPiece]:
        """Yield what no earlier event said."""
        heard = self._heard.setdefault(index, _Heard())
        new_id = None if heard.id else call_id or None
        name = None if heard.name else item.get("name") or None
        arguments = "" if heard.arguments else item.get("arguments") or ""
        heard.id = heard.id or bool(new_id)
        heard.name = heard.name or bool(name)
        heard.arguments = heard.arguments or bool(arguments)
        if new_id or name or arguments:
            yield CallPiece(index, new_id, name, arguments)

    def _ended(self, response: dict[str, Any]) -> Iterator[StreamPiece]:
        """Yield what only the whole response says; a new call counts only if none was heard of: the
        indices differ."""
        items = [item for item in response.get("output") or () if isinstance(item, dict)]
        known = set(self._heard) or set(range(len(items)))
        calls = [
            piece
            for index in sorted(known)
            if index < len(items)
            for piece in self._item(index, items[index])
        ]
        text = "" if self._text else "".join(map(_text_of, items))
        reason = (response.get("incomplete_details") or {}).get("reason")
        finish = "length" if reason == "max_output_tokens" else reason or "stop"
        ended = [item for _, item in sorted(self._items, key=itemgetter(0))] or items
        used = any(map(is_provider_call, ended))
        notes = [*chain.from_iterable(map(_annotations, ended))]
        noted = self._tools().of_notes(notes) if notes else None
        work = ProviderWork(
            (*self._uses([] if self._items else items), *([] if noted is None else [noted])),
            sources_of(notes),
            tuple(map(without_images, ended)) if used else (),
        )
        delta = Delta(text=text, calls=tuple(calls), work=work, finish=finish)
        searches = sum(item.get("type") == "web_search_call" for item in ended)
        yield StreamPiece(delta, _usage(response.get("usage"), searches))


def _calls(*pieces: CallPiece) -> tuple[StreamPiece]:
    return (StreamPiece(Delta(calls=pieces)) if pieces else _NOTHING,)


def _index(event: dict[str, Any]) -> int:
    index = event.get("output_index")
    return index if isinstance(index, int) else 0


def _text_of(item: dict[str, Any]) -> str:
    parts = item.get("content") if item.get("type") == "message" else None
    return "".join(
        part.get("text") or part.get("refusal") or ""
        for part in parts or ()
        if isinstance(part, dict)
    )


def _annotations(item: dict[str, Any]) -> Iterator[Any]:
    for part in item.get("content") or () if item.get("type") == "message" else ():
        yield from (part.get("annotations") or ()) if isinstance(part, dict) else ()


def _usage(figures: Any, searches: int) -> Usage | None:
    if not isinstance(figures, dict) or not (
        figures.get("input_tokens") or figures.get("output_tokens")
    ):
        return None
    return Usage(
        input_tokens=count(figures, "input_tokens"),
        output_tokens=count(figures, "output_tokens"),
        cache_read_tokens=count(figures.get("input_tokens_details"), "cached_tokens"),
        reasoning_tokens=count(figures.get("output_tokens_details"), "reasoning_tokens"),
        searches=searches,
    )


def _failure(event: dict[str, Any]) -> ProviderError:
    response = event.get("response") or event
    return ProviderError(response.get("error") or response)
