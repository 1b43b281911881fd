"""What every wire has to know of the tools that a provider runs itself: how a request declares
them, what an answer cites, and what goes back as it came."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from codeagent.core.messages import (
    AssistantMessage,
    Message,
    ProviderContent,
    ToolMessage,
    WebSource,
)
from codeagent.core.model import ModelRequest, ProviderUse
from codeagent.core.sanitize import one_line
from codeagent.llm.providers import OnWire, Target

_MOST_SOURCES = 50
_OURS = ("function_call", "computer_call", "local_shell_call")
"""The calls among OpenAI's items that it leaves to us."""


class ProviderTools:
    """What an extension knows of these tools; as it is here, there are none."""

    def declared(self, target: Target, model: str, *, searches: bool) -> Mapping[str, OnWire]:
        """Return how each tool that the target's provider runs for the model is declared, by its
        name.

        `searches`: what is between us and the server passes on the wish for a search in chat
        completions.
        """
        return {}

    def of_block(self, call: Mapping[str, Any], result: Mapping[str, Any]) -> ProviderUse | None:
        """Read a call of Anthropic's, empty if an earlier answer made it, and its `…_tool_result`
        block."""
        return None

    def of_item(self, item: Mapping[str, Any]) -> ProviderUse | None:
        """Read an item of OpenAI's responses: a call that OpenAI ran."""
        return None

    def of_notes(self, notes: Iterable[Any]) -> ProviderUse | None:
        """Read which files in OpenAI's container the notes to an answer name."""
        return None


MakeProviderTools = Callable[[], ProviderTools]
"""Called once one of these tools is declared, or an answer used one: most conversations have
none."""


def declared_in(request: ModelRequest, target: Target) -> list[OnWire]:
    """Return how the request's provider tools are declared to this server, in order; others are
    left out."""
    rows = target.provider_tools
    return [rows[tool.name] for tool in request.tools if tool.at_provider and tool.name in rows]


def left_out(request: ModelRequest, has: Collection[str]) -> tuple[str, ...]:
    """Return the request's provider tools that are not among these."""
    return tuple(tool.name for tool in request.tools if tool.at_provider and tool.name not in has)


def content_for(message: Message, target: Target) -> ProviderContent | None:
    """Return what came from this very provider, to be sent back as it came."""
    content = _content(message)
    return content if content is not None and content.origin == target.owner else None


def with_calls(
    content: ProviderContent, kind: str, calls: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the items as they came, with our `calls` in the places of theirs, which are of the type
    `kind`.

    A call may have another id, name or arguments by now; one that was dropped is left out.
    """
    left = iter(calls)
    for item in content.items:
        if item.get("type") != kind:
            yield dict(item)
        elif (call := next(left, None)) is not None:
            yield {**item, **call}
    yield from left


def sendable(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages, with only the text and the calls of each answer that its provider would
    refuse.

    It refuses a call of its own tools without a result, unless that may still come, and a result
    without the call, such as after a compaction.
    """
    if not any(map(_content, messages)):
        return messages
    known: set[str] = set()
    out: list[Message] = []
    for at, message in enumerate(messages):
        content = _content(message)
        if content is None:
            out.append(message)
        elif (
            _is_abandoned(content, islice(messages, at + 1, None))
            or not content.results <= known | content.begun
        ):
            out.append(_without_content(message))
        else:
            known |= content.begun
            out.append(message)
    return out


def _is_abandoned(content: ProviderContent, following: Iterable[Message]) -> bool:
    """Tell whether a result is missing that can no longer come: only the results of our calls may
    come before it."""
    missing = content.unfinished
    for message in following if missing else ():
        match message:
            case ToolMessage():
                pass
            case AssistantMessage(provider_content=ProviderContent() as more):
                missing -= more.results
            case _:
                return bool(missing)
    return False


def _content(message: Message) -> ProviderContent | None:
    return message.provider_content if isinstance(message, AssistantMessage) else None


def _without_content(message: Message) -> Message:
    """Leave the thoughts out, too, unless calls follow them: an answer must not end with them."""
    assert isinstance(message, AssistantMessage)
    return replace(
        message, provider_content=None, thinking=message.thinking if message.calls else ()
    )


def new_containers(message: AssistantMessage, before: Iterable[Message]) -> int:
    """Count the containers that the answer's code ran in and that no earlier answer names: each is
    charged once."""
    known = {place for one in before for place in _containers(one)}
    return len(_containers(message) - known)


def _containers(message: Message) -> set[str]:
    content = _content(message)
    items = () if content is None else content.items
    return {str(item["container_id"]) for item in items if "container_id" in item}


def sources_of(found: Iterable[Any]) -> tuple[WebSource, ...]:
    """Read results and citations, some of them bare addresses, each page once; what has no address
    is left out."""
    pages: dict[str, WebSource] = {}
    for one in objects_in([{"url": one} if isinstance(one, str) else one for one in found]):
        inner = one.get("url_citation")
        page = inner if isinstance(inner, dict) else one
        url = one_line(str(page.get("url") or ""), 500)
        if url and len(pages) < _MOST_SOURCES:
            pages.setdefault(
                url, WebSource(title=one_line(str(page.get("title") or ""), 200), url=url)
            )
    return tuple(pages.values())


def is_provider_call(item: Mapping[str, Any]) -> bool:
    """Tell whether an item of OpenAI's responses is a call that OpenAI ran."""
    kind = str(item.get("type"))
    return kind.endswith("_call") and kind not in _OURS


def without_images(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the item of OpenAI's without the images in it, which are kept as files; it finds its
    own by their ids."""
    match item:
        case {"type": "image_generation_call", "id": image_id}:
            return {"type": "image_generation_call", "id": image_id}
        case {"type": "code_interpreter_call", "outputs": list(outputs)}:
            return {
                **item,
                "outputs": [one for one in objects_in(outputs) if one.get("type") != "image"],
            }
        case _:
            return dict(item)


def objects_in(found: Any) -> list[dict[str, Any]]:
    return (
        [one for one in found if isinstance(one, dict)] if isinstance(found, list | tuple) else []
    )
