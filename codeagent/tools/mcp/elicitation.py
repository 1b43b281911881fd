"""A server's question in the middle of a call: asked field by field, always in the server's name."""

from collections.abc import Mapping
from typing import Any, Literal

from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.ports import Asker
from codeagent.core.sanitize import one_line

_MOST_FIELDS = 10
_MOST_OPTIONS = 9
_LONGEST_MESSAGE = 500
_YES, _NO = "yes", "no"
_BOOLEANS = {_YES: True, "true": True, _NO: False, "false": False}
Content = dict[str, str | int | float | bool | list[str] | None]


@dataclass(frozen=True)
class Reaction:
    """What the server is told."""

    action: Literal["accept", "decline", "cancel"]
    content: Content | None = None


async def ask_for_server(
    server: str, params: Mapping[str, Any], asker: Asker, call_id: str, token: CancelToken
) -> Reaction:
    """Ask what `params`, an `elicitation/create` as a JSON object, asks for. Raises RunCancelled.

    Declined: what is too much for a few questions, and an answer that does not fit. Addresses are never opened.
    """
    message = one_line(str(params.get("message") or ""), _LONGEST_MESSAGE)
    intro = f"The MCP server {server} asks, and gets your answer (never give it a password): {message}"
    if params.get("mode") == "url":
        question = f"{intro} It wants you to open {one_line(str(params.get('url')), 1000)} yourself."
        reply = await asker.ask(call_id, question, ("I have opened it", "decline"), token)
        return Reaction("accept" if reply.answer == "I have opened it" else "decline")
    schema = params.get("requestedSchema")
    fields = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(schema, Mapping) or not isinstance(fields, Mapping) or len(fields) > _MOST_FIELDS:
        return Reaction("decline")
    if not fields:
        reply = await asker.ask(call_id, intro, (_YES, _NO), token)
        return Reaction("accept", {}) if reply.answer == _YES else Reaction("decline")
    content: Content = {}
    required = schema.get("required") or ()
    for name, about in fields.items():
        about = about if isinstance(about, Mapping) else {}
        needed = name in required
        label = one_line(str(about.get("title") or about.get("description") or name), 200)
        question = f"{intro} {label}{'' if needed else ' (may be left empty)'}"
        reply = await asker.ask(call_id, question, _options(about), token)
        if reply.answer is None:
            return Reaction("cancel")
        if not reply.answer.strip() and not needed:
            continue
        try:
            content[name] = _value(reply.answer.strip(), about)
        except ValueError:
            return Reaction("decline")
    return Reaction("accept", content)


def _options(about: Mapping[str, Any]) -> tuple[str, ...]:
    values = about.get("enum")
    if about.get("type") == "boolean":
        return (_YES, _NO)
    if not isinstance(values, list):
        return ()
    return tuple(one_line(str(value), 100) for value in values[:_MOST_OPTIONS])


def _value(answer: str, about: Mapping[str, Any]) -> str | int | float | bool:
    """Raises ValueError if the answer is not what the field takes."""
    match about.get("type"):
        case "boolean":
            if answer.lower() not in _BOOLEANS:
                raise ValueError(answer)
            return _BOOLEANS[answer.lower()]
        case "integer":
            return int(answer)
        case "number":
            return float(answer)
        case _:
            values = about.get("enum")
            if isinstance(values, list) and answer not in values:
                raise ValueError(answer)
            return answer
