"""A function's type hints as types, whatever way they were written."""

import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_origin

import typing_extensions
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema

from codeagent.core.tool import ToolContext

_UNIONS = (typing.Union, types.UnionType)


class UnknownName(Exception):
    """A hint names what is not defined; carries the parameter and the reason."""

    def __init__(self, parameter: str, reason: str) -> None:
        super().__init__(reason)
        self.parameter = parameter


def resolved(function: Callable[..., Any], parameters: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    """The hint of each parameter that has one; strings are looked up where the function is defined.

    Raises UnknownName. What only type checkers import is unknown, but for `ToolContext`.
    """
    namespace = {"ToolContext": ToolContext, **inspect.unwrap(function).__globals__}
    hints: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if parameter.annotation is inspect.Parameter.empty:
            continue
        bearer = types.SimpleNamespace(__annotations__={name: parameter.annotation})
        try:
            hints[name] = typing.get_type_hints(bearer, globalns=namespace, include_extras=True)[name]
        except Exception as error:
            raise UnknownName(name, str(error) or type(error).__name__) from None
    for hint in [*hints.values(), *namespace.values()]:
        _make_readable(hint)
    return hints


def is_context(hint: Any) -> bool:
    """`ToolContext`, also where it may be None or is annotated."""
    if hint is ToolContext:
        return True
    origin = get_origin(hint)
    if origin is typing.Annotated:
        return is_context(get_args(hint)[0])
    options = [option for option in get_args(hint) if option is not type(None)]
    return origin in _UNIONS and len(options) == 1 and is_context(options[0])


def _make_readable(hint: Any) -> None:
    """pydantic takes `typing.TypedDict` from Python 3.12 on only; until then its twin stands in."""
    if sys.version_info >= (3, 12):
        return
    if type(hint).__module__ == "typing" and isinstance(hint, type) and typing.is_typeddict(hint):
        if "__get_pydantic_core_schema__" not in vars(hint):
            hint.__get_pydantic_core_schema__ = classmethod(_Twin())  # type: ignore[attr-defined]  # pydantic's hook
        return
    if isinstance(hint, type) and get_origin(hint) is None:
        return
    for part in get_args(hint):
        _make_readable(part)


class _Twin:
    """Describes one TypedDict by another of the same shape, made once so that it may hold itself."""

    def __init__(self) -> None:
        self._made: Any = None

    def __call__(self, original: type, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if self._made is None:
            hints = typing.get_type_hints(original, include_extras=True)
            required: frozenset[str] = original.__required_keys__  # type: ignore[attr-defined]  # a TypedDict has it
            fields = {name: _bare(hint) for name, hint in hints.items()}
            shape = {
                name: hint if name in required else typing_extensions.NotRequired[hint] for name, hint in fields.items()
            }
            for hint in fields.values():
                _make_readable(hint)
            make: Any = typing_extensions.TypedDict
            self._made = make(original.__name__, shape)
        return handler.generate_schema(self._made)


def _bare(hint: Any) -> Any:
    required = (typing.Required, typing.NotRequired, typing_extensions.Required, typing_extensions.NotRequired)
    return get_args(hint)[0] if get_origin(hint) in required else hint
