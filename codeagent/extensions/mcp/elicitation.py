"""Asks the user a server's question in the middle of a call: as one form, always in the server's
name."""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, Literal, cast

from codeagent.core.approval_events import Asker
from codeagent.core.dataclass import dataclass
from codeagent.core.display import FieldKind, FormField, QuestionBlock
from codeagent.core.forms import problem_of, read
from codeagent.core.sanitize import one_line
from codeagent.core.tool import ToolContext

_MOST_FIELDS = 20
_MOST_TRIES = 3
"""How often a form is asked for before it is declined."""
_BOUNDS = {
    "text": {"minLength": "at_least", "maxLength": "at_most"},
    "several": {"minItems": "at_least", "maxItems": "at_most"},
    "number": {
        "minimum": "at_least",
        "exclusiveMinimum": "more_than",
        "maximum": "at_most",
        "exclusiveMaximum": "less_than",
    },
}
"""The JSON Schema keywords that bound a field of each kind, and what the form calls them."""
_LONGEST_MESSAGE = 500
_LONGEST_LABEL = 60
_LONGEST_OPTION = 100
_YES, _NO = "yes", "no"
Value = str | int | float | bool | list[str]
Content = dict[str, Value | None]


@dataclass(frozen=True)
class Reaction:
    """The answer to the server."""

    action: Literal["accept", "decline", "cancel"]
    content: Content | None = None


async def ask_for_server(
    server: str, params: Mapping[str, Any], asker: Asker, ctx: ToolContext
) -> Reaction:
    """Ask for what `params` of `elicitation/create`, a JSON object, request. Raises RunCancelled.

    Declines forms with too many fields. A form with an answer that is not valid is asked for again,
    and declined if it never is. Addresses are never opened.
    """
    message = one_line(str(params.get("message") or ""), _LONGEST_MESSAGE)
    intro = (
        f"The MCP server {server} asks, and gets your answer (never give it a password): {message}"
    )
    if params.get("mode") == "url":
        text = f"{intro} It wants you to open {one_line(str(params.get('url')), 1000)} yourself."
        question = QuestionBlock(question=text, options=("I have opened it", "decline"))
        reply = await asker.ask(ctx.call_id, question, ctx.cancel)
        return Reaction("accept" if reply.answer == "I have opened it" else "decline")
    schema = params.get("requestedSchema")
    fields = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(schema, Mapping) or not isinstance(fields, Mapping):
        return Reaction("decline")
    if len(fields) > _MOST_FIELDS:
        await ctx.on_progress(
            f"declined {server}'s form of {len(fields):,} fields: at most {_MOST_FIELDS} are asked"
        )
        return Reaction("decline")
    if not fields:
        reply = await asker.ask(
            ctx.call_id, QuestionBlock(question=intro, options=(_YES, _NO)), ctx.cancel
        )
        return Reaction("accept", {}) if reply.answer == _YES else Reaction("decline")
    listed = schema.get("required")
    required = listed if isinstance(listed, list) else ()
    abouts = {
        str(name): about if isinstance(about, Mapping) else {} for name, about in fields.items()
    }
    form = tuple(_field(name, about, required=name in required) for name, about in abouts.items())
    problem = ""
    for _ in range(_MOST_TRIES):
        reply = await asker.ask(
            ctx.call_id, QuestionBlock(question=problem + intro, fields=form), ctx.cancel
        )
        if reply.answer is None:
            return Reaction("cancel")
        try:
            return Reaction("accept", _content(form, abouts, reply.answer))
        except ValueError as error:
            problem = f"Not sent: {one_line(str(error), 200)}. "
    return Reaction("decline")


def _field(name: str, about: Mapping[str, Any], *, required: bool) -> FormField:
    several = about.get("type") == "array"
    kind = _kind(about)
    options = _choices(about)
    default = about.get("default")
    begins = next(
        (
            text
            for text, value in options.items()
            if value == default and type(value) is type(default)
        ),
        "",
    )
    if not options and isinstance(default, str | int | float) and not isinstance(default, bool):
        begins = one_line(str(default), _LONGEST_MESSAGE)
    bounds = _BOUNDS[
        "several" if several else "number" if kind in ("integer", "number") else "text"
    ]
    return FormField(
        name=name,
        label=one_line(str(about.get("title") or about.get("description") or name), _LONGEST_LABEL),
        kind="text" if options else kind,
        options=tuple(options),
        several=several,
        required=required,
        begins=begins,
        **{
            said: bound
            for key, said in bounds.items()
            if (bound := _bound(about.get(key))) is not None
        },
    )


def _kind(about: Mapping[str, Any]) -> FieldKind:
    """Return what a field takes; a format that is not one of the protocol's is any text."""
    match about:
        case {"type": "integer" | "number" as kind} | {
            "format": "email" | "uri" | "date" | "date-time" as kind
        }:
            return cast("FieldKind", kind)
        case _:
            return "text"


def _content(
    form: tuple[FormField, ...], abouts: Mapping[str, Mapping[str, Any]], answer: str
) -> Content:
    """Return what was filled in, each value of its field's type. Raises ValueError if it is not
    valid."""
    try:
        given = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is not a form") from error
    if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
        raise ValueError("it is not a form")
    content: Content = {}
    for field in form:
        text = given.get(field.name, "").strip()
        if problem := problem_of(field, text):
            raise ValueError(f"{field.label}: {problem}")
        if text:
            choices = _choices(abouts[field.name])
            value = read(field, text)
            chosen = (
                [str(choices.get(word, word)) for word in value]
                if isinstance(value, list)
                else value
            )
            content[field.name] = choices.get(chosen, chosen) if isinstance(chosen, str) else chosen
    return content


def _bound(value: object) -> float | None:
    """Return a server's bound; None for what is not a number, or not a finite one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        bound = float(value)
    except OverflowError:  # an integer of some hundred digits
        return None
    return bound if isfinite(bound) else None


def _choices(about: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    """Return the allowed values of a field, by the text shown for each; empty if any value is
    allowed."""
    match about:
        case {"type": "boolean"}:
            return {_YES: True, _NO: False}
        case {"type": "array", "items": Mapping() as items}:
            return _choices(items)
        case {"enum": [*values], "enumNames": [*titles]} if len(titles) == len(values):
            pairs = list(zip(titles, values, strict=True))
        case {"enum": [*values]}:
            pairs = [(value, value) for value in values]
        case {"oneOf": [*forms]} | {"anyOf": [*forms]}:
            pairs = [
                (form.get("title"), form.get("const"))
                for form in forms
                if isinstance(form, Mapping)
            ]
        case _:
            return {}
    return {
        one_line(str(title or value), _LONGEST_OPTION): value
        for title, value in pairs
        if isinstance(value, str | int | float)
    }
