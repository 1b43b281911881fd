"""Asks the user a server's question in the middle of a call: field by field, always in the server's name."""

import math
from collections.abc import Callable, Mapping
from operator import ge, gt, le, lt
from typing import Any, Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.ports import Asker
from codeagent.core.sanitize import one_line
from codeagent.core.tool import ToolContext

_MOST_FIELDS = 20
_MOST_OPTIONS = 9
_MOST_TRIES = 3
"""How often a field is asked for before the form is declined."""
_BOUNDS: tuple[tuple[str, str, Callable[[float, float], bool]], ...] = (
    ("minimum", "at least {}", ge),
    ("exclusiveMinimum", "more than {}", gt),
    ("maximum", "at most {}", le),
    ("exclusiveMaximum", "less than {}", lt),
    ("minLength", "at least {} characters", ge),
    ("maxLength", "at most {} characters", le),
    ("minItems", "at least {} of them", ge),
    ("maxItems", "at most {} of them", le),
)
"""Each bound of a field: its keyword, how it is said, and what must hold between the answer's size and it."""
_LONGEST_MESSAGE = 500
_YES, _NO = "yes", "no"
_LEFT_OUT = "leave it empty"
Value = str | int | float | bool | list[str]
Content = dict[str, Value | None]


@dataclass(frozen=True)
class Reaction:
    """The answer to the server."""

    action: Literal["accept", "decline", "cancel"]
    content: Content | None = None


async def ask_for_server(server: str, params: Mapping[str, Any], asker: Asker, ctx: ToolContext) -> Reaction:
    """Ask for what `params` of `elicitation/create`, a JSON object, request. Raises RunCancelled.

    Declines forms with too many fields. A field whose answer is not valid is asked for again, and the form declined
    if it never is. Addresses are never opened.
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
        question = f"{intro} {label}{said_bounds(about)}"
        options = tuple(_choices(about))
        if about.get("type") == "array":
            question += (
                f" (several, separated by commas: {one_line(', '.join(options), 300)})"
                if options
                else " (separated by commas)"
            )
        leaving = () if needed else (_LEFT_OUT,)
        shown = () if about.get("type") == "array" else options[: _MOST_OPTIONS - len(leaving)]
        problem = ""
        for _ in range(_MOST_TRIES):
            reply = await asker.ask(ctx.call_id, problem + question, (*shown, *leaving), ctx.cancel)
            if reply.answer is None:
                return Reaction("cancel")
            if reply.answer in leaving:
                break
            try:
                content[name] = _within(_value(reply.answer.strip(), about), about)
                break
            except ValueError:
                problem = f"'{one_line(reply.answer, 60)}' was not sent: it is not what the field takes. "
        else:
            return Reaction("decline")
    return Reaction("accept", content)


def said_bounds(about: Mapping[str, Any]) -> str:
    """Return the bounds of a field as ` (at least 1, at most 10)`; empty if it has none."""
    said = [words.format(f"{about[key]:g}") for key, words, _ in _BOUNDS if _is_bound(about.get(key))]
    return f" ({', '.join(said)})" if said else ""


def _within(value: Value, about: Mapping[str, Any]) -> Value:
    """Return the value. Raises ValueError if it is outside the field's bounds."""
    kinds: tuple[str, ...]
    match value:
        case bool():
            return value
        case int() | float():
            size, kinds = float(value), ("imum", "Minimum", "Maximum")
        case str():
            size, kinds = float(len(value)), ("Length",)
        case _:
            size, kinds = float(len(value)), ("Items",)
    for key, _, holds in _BOUNDS:
        if key.endswith(kinds) and _is_bound(about.get(key)) and not holds(size, about[key]):
            raise ValueError(value)
    return value


def _is_bound(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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


def _value(answer: str, about: Mapping[str, Any]) -> Value:
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
