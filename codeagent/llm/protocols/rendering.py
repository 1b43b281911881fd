"""Calls and results as JSON text, for the protocols that are made of it."""

import json

from codeagent.core.messages import ContentPart, TextPart, ToolCall, ToolMessage
from codeagent.llm.protocols.json_calls import is_object

_NO_TEXT = "(no output)"
_IMAGE_FOLLOWS = "(the image follows this message's text)"


def call_json(call: ToolCall) -> str:
    """`{"name": …, "arguments": …}`; arguments that are no object go back as the model wrote them."""
    name = json.dumps(call.name, ensure_ascii=False)
    if is_object(call.arguments) or not call.arguments.strip():
        return f'{{"name": {name}, "arguments": {call.arguments.strip() or "{}"}}}'
    return call.arguments if name in call.arguments else f'{{"name": {name}, "arguments": {call.arguments}}}'


def result_json(number: int, result: ToolMessage) -> str:
    """One line; no tag can be closed from within it."""
    about = {"call": number, "name": result.name, "content": result_text(result.content)}
    if result.is_error:
        about["error"] = True
    return json.dumps(about, ensure_ascii=False).replace("</", "<\\/")


def result_text(content: tuple[ContentPart, ...]) -> str:
    texts = [part.text if isinstance(part, TextPart) else _IMAGE_FOLLOWS for part in content]
    return "\n".join(text for text in texts if text) or _NO_TEXT
