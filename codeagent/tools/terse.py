"""The definition of a built-in tool as a model gets it with every request: without what it need not know beforehand."""

from typing import Any

_SEEN_IN_ERRORS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "minItems", "maxItems", "minLength", "maxLength"}
)
"""A call past a bound gets a result that names the bound; few calls come near one."""
_NO_NEWS: tuple[Any, ...] = ("", ".", [], 0)
"""False is 0."""


def terse(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without bounds, without empty defaults, and without saying that no further argument is allowed.

    Arguments are checked against the whole schema all the same.
    """
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _SEEN_IN_ERRORS or (key == "additionalProperties" and value is False):
            continue
        if key == "default" and value in _NO_NEWS:
            continue
        plain[key] = {name: _below(one) for name, one in value.items()} if key == "properties" else _below(value)
    return plain


def _below(value: Any) -> Any:
    match value:
        case dict():
            return terse(value)
        case list():
            return [_below(item) for item in value]
        case _:
            return value
