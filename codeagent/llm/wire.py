"""Turns a request into messages and tools in the form of chat completions, which litellm takes, for
two families.

Both families get the same bytes for the same history: a request only appends to the one before.
Only the Anthropic family gets its thinking back, with signatures, and cache markers. The result of
a failed call says so: by a flag if the format has one, else in its first line.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile, takewhile
from typing import Any

from codeagent.core.budget import Effort
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.messages import (
    AssistantMessage,
    ContentPart,
    ImagePart,
    Message,
    TextPart,
    ToolMessage,
    UserMessage,
    shows_images,
)
from codeagent.core.model import ModelRequest
from codeagent.core.sanitize import one_line
from codeagent.core.tool import ToolDefinition
from codeagent.llm.per_message import Converted, in_order
from codeagent.llm.providers import Family, Target
from codeagent.llm.stream import is_object

Wire = dict[str, Any]

MARKED = {"cache_control": {"type": "ephemeral"}}
"""Ends a prefix of the request that Anthropic keeps for the next one."""
_NO_TEXT = "(no output)"
_IMAGE_FOLLOWS = "(the image follows in the next message)"
_UNREAD = "(an image, which this model cannot read)"
_ERROR = "[error]"
_NO_NAME = "invalid_tool_name"
_LONGEST_NAME = 64
_BUDGETS = {"off": 0, "low": 4_096, "medium": 12_288, "high": 32_768}
_LEAST_BUDGET = 1_024
"""Anthropic accepts no smaller one."""
_ROOM_FOR_WORDS = 2_048
_UNUSABLE = lazy_regex("[^A-Za-z0-9_-]")


def to_messages(
    request: ModelRequest, family: Family, *, error_flag: bool = True, thinking: bool = True
) -> list[Wire]:
    """Return the system prompt and the transcript, new objects each time: litellm changes what it
    is given.

    `error_flag`: the Anthropic family's adapter passes `is_error` on; without it, and for the other
    family, the text of a failed call's result begins with `[error]`. `thinking`: the model gets its
    thinking back.
    """
    if family == "openai":
        shown = in_order(map(chat_messages, request.messages), from_results)
        return [{"role": "system", "content": request.system}, *shown]
    system: Wire = {
        "role": "system",
        "content": [{"type": "text", "text": request.system, **MARKED}],
    }
    messages = [
        anthropic_message(each, error_flag=error_flag, thinks=thinking) for each in request.messages
    ]
    if messages:
        messages[-1] = _marked(messages[-1])
    return [system, *messages]


def thinking_arguments(
    effort: Effort | None,
    family: Family,
    max_tokens: int | None,
    facts: Mapping[str, Any],
    room: int | None = None,
) -> Wire:
    """Return the arguments of litellm's `acompletion`; `facts` is its table's entry for the model,
    empty if none.

    There are none for None, nor for a model known not to think. `max_tokens` is for the answer
    alone: if the thinking counts as part of it, the limit is raised, to at most `room`; there is
    none if that is too little.
    """
    if effort is None or (facts and not facts.get("supports_reasoning")):
        return {}
    if family == "openai":
        return {
            "reasoning_effort": _effort_word(effort, facts),
            "allowed_openai_params": ["reasoning_effort"],
        }
    if effort == "off":
        return {}
    if facts.get("supports_adaptive_thinking") and (
        isinstance(effort, str) or not facts.get("supports_legacy_thinking")
    ):
        return {"reasoning_effort": _level(effort)}
    limit = min(facts.get("max_output_tokens") or math.inf, room or math.inf)
    if limit <= _LEAST_BUDGET or max_tokens is None:
        return {}
    wanted = _BUDGETS[effort] if isinstance(effort, str) else effort
    budget = max(min(wanted, int(min(limit, 2**31)) - _ROOM_FOR_WORDS), _LEAST_BUDGET)
    return {
        "thinking": {"type": "enabled", "budget_tokens": budget},
        "max_tokens": max(int(min(max_tokens + budget, limit)), budget + 1),
    }


def said_thinking(effort: Effort, target: Target) -> str:
    """Return how the model is asked to think that much, in a few words; empty if it is not asked."""
    asked = thinking_arguments(effort, target.family, target.max_tokens, target.facts, target.room)
    match asked:
        case {"thinking": {"budget_tokens": int(most)}}:
            return f"up to {most:,} tokens of thinking"
        case {"reasoning_effort": str(word)}:
            return f"asked for as effort {word}"
        case _:
            return "it is not asked to think"


def asked_effort(
    effort: Effort | None, family: Family, messages: Sequence[Message]
) -> tuple[Effort | None, bool]:
    """Return the effort to ask for in this request, and whether the model gets its thinking
    back."""
    if family == "anthropic" and effort not in (None, "off") and not may_think(messages):
        return None, False
    return effort, effort != "off"


def may_think(messages: Sequence[Message]) -> bool:
    """Tell whether thinking is allowed: Anthropic refuses it in the middle of a turn that began
    without."""
    from_last = dropwhile(
        lambda message: not isinstance(message, AssistantMessage), reversed(messages)
    )
    parts = [
        *takewhile(lambda message: isinstance(message, AssistantMessage), from_last)
    ]  # of one that was paused
    answers = [message for message in parts if isinstance(message, AssistantMessage)]
    if not answers or not answers[0].calls:
        return True
    blocks = (block for answer in answers for block in answer.thinking)
    return any(block.signature is not None or block.redacted is not None for block in blocks)


def _effort_word(effort: Effort, facts: Mapping[str, Any]) -> str:
    """Return OpenAI's word; for `off` the least there is, if the model cannot do without."""
    if effort == "off":
        none = not facts or facts.get("supports_none_reasoning_effort")
        return (
            "none"
            if none
            else "minimal"
            if facts.get("supports_minimal_reasoning_effort")
            else "low"
        )
    return _level(effort)


def _level(effort: Effort) -> str:
    """Return the level that is nearest to a budget in tokens."""
    if isinstance(effort, str):
        return effort
    return next((word for word in ("low", "medium") if effort <= _BUDGETS[word]), "high")


def to_tools(tools: Sequence[ToolDefinition], family: Family) -> list[Wire]:
    """Return function tools; the last one carries the cache marker if the family has one."""
    wire: list[Wire] = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in tools
        if not tool.at_provider
    ]
    if wire and family == "anthropic":
        wire[-1] |= MARKED
    return wire


def in_words(message: Message) -> Message:
    """Return the message for a model that does not see images: as one text, with words in place of
    each image."""
    match message:
        case UserMessage(content=content) | ToolMessage(content=content) if shows_images(message):
            return replace(message, content=(TextPart(text=only_text(content, _UNREAD)),))
        case _:
            return message


def chat_messages(message: Message) -> Converted[Wire]:
    """Convert one message for the OpenAI family: a tool message holds only text, so its images come
    later."""
    match message:
        case UserMessage():
            return Converted(({"role": "user", "content": _user_content(message.content)},))
        case AssistantMessage():
            return Converted((_assistant(message, message.text),))
        case ToolMessage():
            text = only_text(message.content, _IMAGE_FOLLOWS)
            said = f"{_ERROR}\n{text}" if message.is_error else text
            shown = [_part(part) for part in message.content if isinstance(part, ImagePart)]
            label = {"type": "text", "text": from_result_of(message)}
            wire = {"role": "tool", "tool_call_id": message.call_id, "content": said}
            return Converted((wire,), (label, *shown) if shown else (), in_batch=True)


def from_result_of(result: ToolMessage) -> str:
    """Return the line above the images of a result; any name that a model made up stays on it."""
    return f"From the result of {one_line(result.name, _LONGEST_NAME)}:"


def from_results(images: list[Wire]) -> Wire:
    """Return the user message with the images of a batch of results."""
    return {"role": "user", "content": images}


def anthropic_message(message: Message, *, error_flag: bool, thinks: bool) -> Wire:
    """Convert one message for the Anthropic family."""
    match message:
        case UserMessage():
            return {"role": "user", "content": _parts(message.content)}
        case AssistantMessage():
            thinking = [
                {"type": "redacted_thinking", "data": block.redacted}
                if block.redacted is not None
                else {"type": "thinking", "thinking": block.text, "signature": block.signature}
                for block in message.thinking
                if thinks and (block.redacted is not None or block.signature is not None)
            ]
            text = message.text if message.text.strip() else ""
            wire = _assistant(message, text)
            return {**wire, "thinking_blocks": thinking} if thinking else wire
        case ToolMessage():
            parts = _parts(message.content)
            wire = {"role": "tool", "tool_call_id": message.call_id, "content": parts}
            if not message.is_error:
                return wire
            said = {"type": "text", "text": _ERROR}
            return {**wire, "is_error": True} if error_flag else {**wire, "content": [said, *parts]}


def _assistant(message: AssistantMessage, text: str) -> Wire:
    """Convert an answer; without text its content is null: an empty string would be rejected or
    replaced.

    An answer without calls must say something, even if it has thoughts: it must not end with them.
    """
    wire: Wire = {"role": "assistant", "content": text or (None if message.calls else _NO_TEXT)}
    if message.calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": _sendable_name(call.name),
                    # What was wrong with others is in the call's error result.
                    "arguments": call.arguments if is_object(call.arguments) else "{}",
                },
            }
            for call in message.calls
        ]
    return wire


def _sendable_name(name: str) -> str:
    """Return a name that every provider accepts: one bad name would make each later request of the
    session fail.

    The call's error result says which name the model wrote.
    """
    return _UNUSABLE.sub("_", name)[:_LONGEST_NAME] if name.strip() else _NO_NAME


def _user_content(content: tuple[ContentPart, ...]) -> str | list[Wire]:
    """Return one text as a plain string: some local servers accept nothing else."""
    match content:
        case (TextPart(text=text),):
            return text or _NO_TEXT
        case _:
            return _parts(content)


def only_text(content: tuple[ContentPart, ...], image: str) -> str:
    """Return the content as text alone; `image` stands for each image."""
    texts = [part.text if isinstance(part, TextPart) else image for part in content]
    return "\n".join(filter(None, texts)) or _NO_TEXT


def _parts(content: tuple[ContentPart, ...]) -> list[Wire]:
    """Leave out empty texts, since providers reject them; if nothing is left, words say so."""
    kept = [_part(part) for part in content if isinstance(part, ImagePart) or part.text.strip()]
    return kept or [{"type": "text", "text": _NO_TEXT}]


def _part(part: ContentPart) -> Wire:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ImagePart():
            return {
                "type": "image_url",
                "image_url": {"url": f"data:{part.media_type};base64,{part.data}"},
            }


def _marked(message: Wire) -> Wire:
    """Put the cache marker on the message's last part; an assistant's text becomes a part for
    it."""
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not content:
        return message
    return {**message, "content": [*content[:-1], {**content[-1], **MARKED}]}
