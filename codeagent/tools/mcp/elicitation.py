"""Asks the user a server's question in the middle of a call: field by field, always in the server's name."""

import math
from collections.abc import Mapping
from typing import Any, Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.ports import Asker
from codeagent.core.sanitize import one_line
from codeagent.core.tool import ToolContext

_MOST_FIELDS = 20
_MOST_OPTIONS = 9
_LONGEST_MESSAGE = 500
_YES, _NO = "yes", "no"
_LEFT_OUT = "leave it empty"
Content = dict[str, str | int | float | bool | list[str] | None]


@dataclass(frozen=True)
class Reaction:
    """The answer to the server."""

    action: Literal["accept", "decline", "cancel"]
    content: Content | None = None


async def ask_for_server(server: str, params: Mapping[str, Any], asker: Asker, ctx: ToolContext) -> Reaction:
    """Ask for what `params` of `elicitation/create`, a JSON object, request. Raises RunCancelled.

    Declines forms with too many fields, and answers that are not valid. Addresses are never opened.
    """
    message = one_line(str(params.get("message") or ""), _LONGEST_MESSAGE)
    intro = f"The MCP server {server} asks, and gets your answer (never give it a password): {message}"
    if params.get("mode") == "url":
        question = f"{intro} It wants you to open {one_line(str(params.get('url')), 1000)} yourself."
        reply = await asker.ask(ctx.call_id, question, ("I have opened it", "decline"), ctx.cancel)
        return Reaction("accept" if reply.answer == "I have opened it" else "decline")
    schema = params.get("requestedSchema")
    fields = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(schema, Mapping) or not isinstance(fields, Mapping):
        return Reaction("decline")
    if len(fields) > _MOST_FIELDS:
        await ctx.on_progress(f"declined {server}'s form of {len(fields):,} fields: at most {_MOST_FIELDS} are asked")
        return Reaction("decline")
    if not fields:
        reply = await asker.ask(ctx.call_id, intro, (_YES, _NO), ctx.cancel)
        return Reaction("accept", {}) if reply.answer == _YES else Reaction("decline")
    content: Content = {}
    required = schema.get("required") or ()
    for name, about in fields.items():
        about = about if isinstance(about, Mapping) else {}
        needed = name in required
        label = one_line(str(about.get("title") or about.get("description") or name), 200)
        question = f"{intro} {label}"
        options = tuple(_choices(about))
        if about.get("type") == "array":
            question += (
                f" (several, separated by commas: {one_line(', '.join(options), 300)})"
                if options
                else " (separated by commas)"
            )
        leaving = () if needed else (_LEFT_OUT,)
        shown = () if about.get("type") == "array" else options[: _MOST_OPTIONS - len(leaving)]
        reply = await asker.ask(ctx.call_id, question, (*shown, *leaving), ctx.cancel)
        if reply.answer is None:
            return Reaction("cancel")
        if reply.answer in leaving:
            continue
        try:
            content[name] = _value(reply.answer.strip(), about)
        except ValueError:
            return Reaction("decline")
    return Reaction("accept", content)


def _choices(about: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    """Return the allowed values of a field, by the text shown for each; empty if any value is allowed."""
    match about:
        case {"type": "boolean"}:
            return {_YES: True, _NO: False}
        case {"type": "array", "items": Mapping() as items}:
            return _choices(items)
        case {"enum": [*values]}:
            pairs = [(value, value) for value in values]
        case {"oneOf": [*forms]} | {"anyOf": [*forms]}:
            pairs = [(form.get("title"), form.get("const")) for form in forms if isinstance(form, Mapping)]
        case _:
            return {}
    return {one_line(str(title or value), 100): value for title, value in pairs if isinstance(value, str | int | float)}


def _value(answer: str, about: Mapping[str, Any]) -> str | int | float | bool | list[str]:
    """Return the answer as the field's type. Raises ValueError if it is not valid."""
    choices = _choices(about)
    match about.get("type"):
        case "array":
            words = [word.strip() for word in answer.split(",") if word.strip()]
            return [str(_chosen(word, choices)) for word in words] if choices else words
        case "boolean" if answer.lower() in ("true", "false"):
            return answer.lower() == "true"
        case _ if choices:
            return _chosen(answer, choices)
        case "integer":
            return int(answer)
        case "number":
            if not math.isfinite(number := float(answer)):
                raise ValueError(answer)
            return number
        case _:
            return answer


def _chosen(answer: str, choices: Mapping[str, str | int | float | bool]) -> str | int | float | bool:
    """Return the value that was chosen by its shown text, or typed itself. Raises ValueError."""
    if answer in choices:
        return choices[answer]
    if answer in choices.values():
        return answer
    raise ValueError(answer)
