"""The tools that a provider runs itself: how each is declared on the wire, and how an answer that
used them is kept."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from fnmatch import fnmatchcase
from itertools import islice

from codeagent.core.dataclass import dataclass
from codeagent.core.messages import AssistantMessage, Message, ProviderContent, ToolMessage
from codeagent.core.model import ModelRequest
from codeagent.llm.providers import Target, WireFormat
from codeagent.llm.wire import Wire

DeclaredTools = Mapping[str, Collection[str]]
"""Which of its provider's tools a model has, by a pattern over the model's name; the first that
matches counts."""


@dataclass(frozen=True)
class OnWire:
    """What a request needs to declare one tool."""

    tool: Wire | None = None
    """Its entry in the list of tools; None if it has none."""
    fields: Wire = field(default_factory=dict)
    """Fields of the request itself."""
    beta: str = ""
    """The beta that a header has to name."""
    include: str = ""
    """What to ask for besides, so that the answer says what the tool did."""


_TABLE: Mapping[WireFormat, Mapping[str, OnWire]] = {
    "anthropic": {
        "web_search": OnWire({"type": "web_search_20250305", "name": "web_search"}),
        "code_execution": OnWire(
            {"type": "code_execution_20250825", "name": "code_execution"},
            beta="code-execution-2025-08-25",
        ),
    },
    "responses": {
        "web_search": OnWire({"type": "web_search"}, include="web_search_call.action.sources"),
        "code_execution": OnWire(
            {"type": "code_interpreter", "container": {"type": "auto"}},
            include="code_interpreter_call.outputs",
        ),
        "image_generation": OnWire({"type": "image_generation"}),
    },
    "chat": {"web_search": OnWire(fields={"web_search_options": {}})},
}
_OF_FORMAT = {"anthropic": "anthropic", "responses": "openai"}
"""Whose models have all tools of a format, unless the settings say otherwise."""


def with_provider_tools(
    target: Target, name: str, declared: DeclaredTools, *, searches: bool
) -> Target:
    """Return the target with the tools that its provider runs for the model `name`.

    `searches`: what is between us and the server passes on the wish for a search in chat
    completions.
    """
    rows = _TABLE[target.format]
    said = next((tools for pattern, tools in declared.items() if fnmatchcase(name, pattern)), None)
    if said is None:
        known = (
            searches and target.format == "chat" and bool(target.facts.get("supports_web_search"))
        )
        said = rows if known or _OF_FORMAT.get(target.format) == target.provider else ()
    return replace(target, provider_tools=frozenset(rows) & frozenset(said))


def declared_in(request: ModelRequest, target: Target) -> list[OnWire]:
    """Return how the request's provider tools are declared to this server, in order; others are
    left out."""
    rows = _TABLE[target.format]
    named = (tool.name for tool in request.tools if tool.at_provider)
    return [rows[name] for name in named if name in target.provider_tools]


def left_out(request: ModelRequest, has: Collection[str]) -> tuple[str, ...]:
    """Return the request's provider tools that are not among these."""
    return tuple(tool.name for tool in request.tools if tool.at_provider and tool.name not in has)


def content_for(message: Message, target: Target) -> ProviderContent | None:
    """Return what came from this very provider, to be sent back as it came."""
    content = _content(message)
    return content if content is not None and content.origin == target.owner else None


def with_calls(content: ProviderContent, kind: str, calls: Sequence[Wire]) -> Iterator[Wire]:
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
