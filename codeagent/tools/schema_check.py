"""Checks values against a JSON Schema, and whether a schema can be used at all."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from codeagent.tools.faults import Fault, kind_of, unknown_argument

_LONGEST_PATTERN = 500
_PATTERN_SECONDS = 0.2
_DEEPEST = 32
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
