"""JSON Schemas of tool arguments: makes them from models, checks arguments, and words the
faults."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

from codeagent.core.dataclass import dataclass
from codeagent.core.deferred import BaseModel
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import one_line
from codeagent.core.tool import Tool, ToolDefinition
from codeagent.core.toolbox import ToolProblem

LONGEST_QUOTE = 200
_MOST_NAMED = 40
_SUBJECT = lazy_regex(r"(?:Input|String|List|Tuple|Set|Dictionary|Value|Number) (?=should )")
_VALUES = frozenset(["default", "const", "enum", "examples"])
"""Keywords that hold data, not a schema."""
_NAMED = frozenset(["properties", "patternProperties"])
_LONGEST_PATTERN = 500
_PATTERN_SECONDS = 0.2
_SEEN_IN_ERRORS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "minItems", "maxItems", "minLength", "maxLength"}
)
"""Bounds, which the model is not told in advance: a call beyond one gets a result that names it."""
_UNSAID: tuple[tuple[str, Any], ...] = (
    ("additionalProperties", False), ("default", ""), ("default", "."), ("default", []), ("default", 0),
)  # fmt: skip  # a table, many words to the line
"""How False is written, which equals 0 in Python."""
_DEEPEST = 32
_SHARE = 0.2
"""Of the model's window, for the definitions of toolsets."""
_USUAL_WINDOW = 128_000
"""Tokens, if the model's window is unknown."""
_BYTES_OF_A_TOKEN = 3
"""Of a schema, which has many short words and signs."""
_LONGEST_DEFINITION = 6_000
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = {
    "string": "a valid string",
    "integer": "a valid integer",
    "number": "a valid number",
    "boolean": "a valid boolean",
    "array": "a valid list",
    "object": "an object",
    "null": "null",
}
_BOUNDS = {
    "minimum": "should be greater than or equal to {}",
    "exclusiveMinimum": "should be greater than {}",
    "maximum": "should be less than or equal to {}",
    "exclusiveMaximum": "should be less than {}",
    "multipleOf": "should be a multiple of {}",
    "minLength": "should have at least {} characters",
    "maxLength": "should have at most {} characters",
    "minItems": "should have at least {} items",
    "maxItems": "should have at most {} items",
    "minProperties": "should have at least {} keys",
    "maxProperties": "should have at most {} keys",
    "pattern": "should match the pattern {}",
}


@dataclass(frozen=True)
class Fault:
    """One fault in the arguments of a call."""

    where: str
    """The place, such as `path` or `edits.0.old_string`; empty for the arguments as a whole."""
    text: str
    """A phrase without a subject; for an unknown argument the nearest names, if there are any."""
    kind: Literal["wrong", "missing", "unknown", "broken"] = "wrong"
    """`broken`: it matches the schema but does not make sense; the text is then a whole
    sentence."""
    given: Any = None

    def __hash__(self) -> int:
        return hash((self.where, self.text, self.kind))

    def said(self, tool: str) -> str:
        """Return the line for the model."""
        match self.kind:
            case "missing":
                return (
                    f"Validation Error: Missing required argument '{self.where}' for tool '{tool}'"
                )
            case "unknown":
                return f"Validation Error: Unknown argument '{self.where[:LONGEST_QUOTE]}' for tool '{tool}'{self.text}"
            case "broken":
                subject = f"Argument {self.where!r}: " if self.where else ""
                return f"Validation Error: {subject}{self.text} for tool '{tool}'"
            case "wrong":
                subject = f"Argument '{self.where}'" if self.where else "The arguments"
                given = (
                    f"; got {kind_of(self.given)} {quoted(text_or_json(self.given))}"
                    if self.where
                    else ""
                )
                return f"Validation Error: {subject} for tool '{tool}' {_SUBJECT.sub('', self.text)}{given}"

    def in_words(self, whole: str) -> str:
        """Return the line for a value other than a call's arguments; `whole` names that value."""
        text = {"missing": "is missing", "unknown": "is not a key of the schema"}.get(
            self.kind, self.text
        )
        return f"{self.where or whole} {text}"


def unknown_argument(where: str, name: str, known: Iterable[str]) -> Fault:
    """Return the fault for an unknown argument, with the nearest names: `old` is close enough to
    `old_string`."""
    return Fault(where, nearest_names(name, known, cutoff=0.4), "unknown")


def nearest_names(
    name: str,
    known: Iterable[str],
    form: Callable[[str], str] = str,
    *,
    most: int = 2,
    cutoff: float = 0.5,
) -> str:
    """Return `; did you mean a or b?`, each written in that form, or an empty text; case is
    ignored.

    `cutoff` is the least similarity of two names, from 0 to 1.
    """
    from difflib import get_close_matches  # only for a mistyped name

    by_lower = {one.lower(): form(one) for one in known}
    close = [
        by_lower[lower]
        for lower in get_close_matches(name.lower()[:100], by_lower, n=most, cutoff=cutoff)
    ]
    return f"; did you mean {' or '.join(close)}?" if close else ""


def nearest_or_all(
    name: str, known: Iterable[str], form: Callable[[str], str] = str, *, most: int = 2
) -> str:
    """Return the nearest names as `nearest_names` does, or else `; there are a, b, c`."""
    names = list(known)
    listed = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
    return nearest_names(name, names, form, most=most) or f"; there are {listed or 'none'}"


def quoted(text: str) -> str:
    return repr(printable(text[:LONGEST_QUOTE])) + ("…" if len(text) > LONGEST_QUOTE else "")


def printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def text_or_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def kind_of(value: Any) -> str:
    kinds = (
        (bool, "a boolean"),
        (int | float, "a number"),
        (str, "a string"),
        (list, "a list"),
        (type(None), "null"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "an object")


def arguments_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of an object, with references resolved in place, and without titles and
    empty defaults.

    A recursive type is written out once; below that it is an object that names it, because not
    every provider accepts references.
    """
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    plain = _plain(schema, definitions, ())
    plain.pop("description", None)
    return {"type": "object", "properties": {}, **plain}


def _plain(node: Any, definitions: dict[str, Any], within: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_plain(item, definitions, within) for item in node]
    if not isinstance(node, dict):
        return node
    node = _without_null(node)
    reference = node.get("$ref")
    if isinstance(reference, str):
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return {**_target(reference, definitions, within), **_plain(rest, definitions, within)}
    out = {}
    for key, value in node.items():
        if key in _NAMED:
            out[key] = {name: _plain(item, definitions, within) for name, item in value.items()}
        elif key in _VALUES:
            if not (key == "default" and (value is None or value is False)):
                out[key] = value
        elif key not in ("title", "discriminator"):
            out[key] = _plain(value, definitions, within)
    return out


def _target(reference: str, definitions: dict[str, Any], within: tuple[str, ...]) -> dict[str, Any]:
    name = reference.removeprefix("#/$defs/")
    definition = definitions[name]
    if name in within:
        kind = {"type": definition["type"]} if "type" in definition else {}
        return {**kind, "description": f"as {definition.get('title', name)} above"}
    target: dict[str, Any] = _plain(definition, definitions, (*within, name))
    target.pop("description", None)
    return target


def _without_null(node: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without null, if null means the same as leaving the argument out."""
    forms = node.get("anyOf")
    if (
        node.get("default", "") is not None
        or not isinstance(forms, list)
        or {"type": "null"} not in forms
    ):
        return node
    others = [form for form in forms if form != {"type": "null"}]
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return {**(others[0] if len(others) == 1 else {"anyOf": others}), **rest}


@cache
def _written_schemas() -> dict[str, dict[str, Any]]:
    return dict(json.loads(Path(__file__).with_name("schemas.json").read_text(encoding="utf-8")))


def _found_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a model; those of built-in tools are read from a file, so that a start
    builds no models."""
    written = _written_schemas().get(f"{model.__module__}.{model.__qualname__}")
    return arguments_schema(model) if written is None else written


_schema_of: Callable[[type[BaseModel]], dict[str, Any]] = lru_cache(maxsize=256)(_found_schema)
"""Cached: a start reads each schema twice, and a call its tool's several times."""


def tool_schema(tool: Tool[Any]) -> dict[str, Any]:
    """Return the schema for checking the tool's arguments and for the model; never change it."""
    return tool.schema if tool.schema is not None else _schema_of(tool.Args)


def shown_schema(tool: Tool[Any]) -> dict[str, Any]:
    """Return the schema for the model; that of a user-defined tool is unchanged."""
    schema = tool_schema(tool)
    shorter: dict[str, Any] = terse(schema) if tool.source == "builtin" else schema
    return shorter


class Definitions:
    """The definitions of tools for the model: bounded one by one, with room for all of them
    together."""

    def __init__(self, window: int | None = None) -> None:
        """`window`: the model's, in tokens; None if it is unknown."""
        self.window = window
        self.room = round((window or _USUAL_WINDOW) * _SHARE * _BYTES_OF_A_TOKEN)
        """The most bytes of all definitions of toolsets."""
        self.longest = min(_LONGEST_DEFINITION, self.room // 4)
        """The most bytes of one definition that is not built in."""
        self._sizes: WeakKeyDictionary[Tool[Any], int] = WeakKeyDictionary()

    def whole(self, tool: Tool[Any]) -> ToolDefinition:
        return ToolDefinition(tool.name, tool.description, shown_schema(tool), tool.at_provider)

    def of(self, tool: Tool[Any]) -> ToolDefinition:
        """Return the definition, cut if it is too long; the arguments are still checked against the
        whole one."""
        whole = self.whole(tool)
        if tool.source == "builtin" or tool.at_provider:
            return whole
        from codeagent.tools.cutting import (
            cut_definition,
            definition_bytes,
        )  # a first request has no such tools

        return (
            whole
            if definition_bytes(whole) <= self.longest
            else cut_definition(whole, self.longest)
        )

    def size(self, tool: Tool[Any]) -> int:
        """Return the bytes of the definition."""
        if tool not in self._sizes:
            from codeagent.tools.cutting import definition_bytes  # as above

            self._sizes[tool] = definition_bytes(self.of(tool))
        return self._sizes[tool]

    def fitting(
        self, tools: Mapping[Tool[Any], str]
    ) -> tuple[dict[Tool[Any], str], list[ToolProblem]]:
        """Return the first tools whose definitions fit together, and a problem for each source of
        the others.

        `tools`: each with the name of its source.
        """
        left = self.room
        kept: dict[Tool[Any], str] = {}
        out: dict[str, list[Tool[Any]]] = {}
        for tool, source in tools.items():
            size = self.size(tool)
            if size <= left:
                kept[tool] = source
                left -= size
            else:
                out.setdefault(source, []).append(tool)
        return kept, [
            ToolProblem(source, self._too_long(ones), partial=True) for source, ones in out.items()
        ]

    def _too_long(self, tools: Sequence[Tool[Any]]) -> str:
        names = one_line(", ".join(tool.name for tool in tools), 200)
        size = sum(map(self.size, tools))
        return f"the definitions of {names} take {size:,} bytes too many; all definitions may take {self.room:,}"


def terse(node: Any) -> Any:
    """Return the schema of a built-in tool for the model, short because it is sent with every
    request: without bounds.

    A default that is the first of an enum's values goes without saying. Arguments are still checked
    against the full schema.
    """
    if isinstance(node, list):
        return [terse(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            plain[key] = {name: terse(one) for name, one in value.items()}
        elif key == "default" and value in node.get("enum", ())[:1]:
            continue
        elif not (key in _SEEN_IN_ERRORS or (key, value) in _UNSAID):
            plain[key] = terse(value)
    return plain


def faults_of(schema: Mapping[str, Any], arguments: dict[str, Any]) -> tuple[Fault, ...]:
    """Return every fault of the arguments; empty if they are valid.

    Formats are not checked, nothing is fetched, and a pattern that takes too long counts as not
    matching.
    """
    try:
        found = [
            fault for error in _validator(schema).iter_errors(arguments) for fault in _faults(error)
        ]
    except Exception as error:  # a reference that leads nowhere, or in circles
        return (
            Fault("", f"cannot be checked: the tool's schema is broken ({type(error).__name__})"),
        )
    return tuple(dict.fromkeys(found))


def problems_of(schema: Any) -> tuple[str, ...]:
    """Return why a schema cannot be used, each as `place: reason` or a reason; empty if it can.

    Besides what the draft forbids, it refuses references to other documents, keys matched by
    patterns, patterns that do not compile or are too long, other drafts, and more than 32 levels.
    """
    if not isinstance(schema, dict):
        return (f"a schema is a mapping, not {kind_of(schema)}",)
    own = list(dict.fromkeys(_own_problems(schema, "", 0)))
    if own:
        return tuple(own)
    from jsonschema import Draft202012Validator, SchemaError  # not on the start-up path

    try:
        Draft202012Validator.check_schema(schema)
        _ = faults_of(schema, {})
    except SchemaError as error:
        where = ".".join(str(part) for part in error.absolute_path)
        return (f"{where}: {_first_line(error.message)}" if where else _first_line(error.message),)
    return ()


def _own_problems(node: Any, where: str, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        yield f"more than {_DEEPEST} levels deep"
        return
    if isinstance(node, list):
        for at, item in enumerate(node):
            yield from _own_problems(item, f"{where}[{at}]", depth + 1)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        inner = f"{where}.{key}" if where else str(key)
        if reason := _forbidden(str(key), value):
            yield f"{inner}: {reason}"
        if key not in ("enum", "const", "default", "examples"):
            yield from _own_problems(value, inner, depth + 1)


def _forbidden(key: str, value: Any) -> str | None:
    match key:
        case "$ref" if isinstance(value, str) and not value.startswith("#"):
            return "a reference must stay inside the schema (#/…); nothing is fetched"
        case "$id" | "$dynamicRef" | "$recursiveRef" if isinstance(value, str):
            return "not supported here"
        case "$schema" if isinstance(value, str) and value.rstrip("#") != _DRAFT:
            return f"only {_DRAFT} is supported"
        case "patternProperties" if isinstance(value, dict):
            return "keys matched by patterns are not supported; name the properties"
        case "pattern" if isinstance(value, str):
            return pattern_problem(value)
        case _:
            return None


def pattern_problem(pattern: str) -> str | None:
    if len(pattern) > _LONGEST_PATTERN:
        return f"the pattern is longer than {_LONGEST_PATTERN} characters"
    try:
        re.compile(pattern)
        _compiled(pattern)
    except Exception as error:  # each of the two libraries has an error of its own
        return f"the pattern does not compile: {error}"
    return None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    """Compile a pattern with a library that has timeouts, as matching may take exponential time."""
    import regex  # heavy, and few schemas have patterns

    return regex.compile(pattern)


def _matches_in_time(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if not isinstance(instance, str):
        return
    try:
        if _compiled(pattern).search(instance, timeout=_PATTERN_SECONDS) is None:
            yield ValidationError("no match")
    except TimeoutError:
        yield ValidationError("takes too long")


def _validator(schema: Mapping[str, Any]) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend
    from referencing import Registry

    bounded = extend(Draft202012Validator, {"pattern": _matches_in_time})
    return bounded(schema, registry=Registry())


def _faults(error: Any) -> Iterator[Fault]:
    where = ".".join(str(part) for part in error.absolute_path)
    value, given = error.validator_value, error.instance
    match error.validator:
        case "required":
            yield from (
                Fault(_below(where, name), "", "missing") for name in value if name not in given
            )
        case "additionalProperties" | "unevaluatedProperties" if (
            isinstance(given, dict) and value is False
        ):
            known = list(error.schema.get("properties", {}))
            for name in given:
                if name not in known:
                    yield unknown_argument(_below(where, name), name, known)
        case "type":
            names = [value] if isinstance(value, str) else value
            yield Fault(
                where, "should be " + " or ".join(_TYPES[name] for name in names), given=given
            )
        case "enum":
            yield Fault(where, f"should be {_or([_literal(item) for item in value])}", given=given)
        case "const":
            yield Fault(where, f"should be {_literal(value)}", given=given)
        case "anyOf" | "oneOf" if error.context:
            yield from _closest(error, where)
        case "oneOf":
            yield Fault(
                where, "matches more than one of the forms that the schema allows", given=given
            )
        case "pattern" if error.message == "takes too long":
            yield Fault(
                where,
                f"cannot be matched against the pattern {value!r} in reasonable time",
                given=given,
            )
        case "uniqueItems":
            yield Fault(where, "should have no item twice", given=given)
        case name if name in _BOUNDS:
            said = _BOUNDS[name].format(repr(value) if name == "pattern" else value)
            yield Fault(
                where,
                said if value != 1 else re.sub("(item|character|key)s$", r"\1", said),
                given=given,
            )
        case name:
            yield Fault(where, f"does not fit `{name}` of the schema", given=given)


def _closest(error: Any, where: str) -> Iterator[Fault]:
    """Return the faults for the closest form of a choice, or one sentence if every form requires
    another type."""
    inner = error.context
    if all(
        one.validator == "type" and not one.path and isinstance(one.validator_value, str)
        for one in inner
    ):
        names = " or ".join(dict.fromkeys(_TYPES[one.validator_value] for one in inner))
        yield Fault(where, f"should be {names}", given=error.instance)
        return
    from jsonschema.exceptions import relevance

    best = min(
        inner,
        key=lambda one: (len(one.relative_path) == 0, one.validator == "type", relevance(one)),
    )
    for fault in _faults(best):
        yield (
            replace(fault, text=f"{fault.text}, in one of its forms")
            if fault.kind == "wrong"
            else fault
        )


def _below(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _literal(value: Any) -> str:
    return (
        repr(value)
        if isinstance(value, str)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )


def _or(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} or {items[-1]}"


def _first_line(text: str) -> str:
    return text.partition("\n")[0][:300]
