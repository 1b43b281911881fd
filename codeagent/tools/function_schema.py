"""From a function's signature, hints and docstring to the model of its arguments."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from codeagent.core.tool import ToolContext
from codeagent.tools.docstrings import Docstring, read_docstring
from codeagent.tools.function_arguments import FunctionArgs
from codeagent.tools.hints import UnknownName, is_context, resolved
from codeagent.tools.schema import arguments_schema

_VARIADIC: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_EMPTY = inspect.Parameter.empty
_PYDANTIC_ONLY = ("model_validate", "model_dump")


class NotATool(Exception):
    """The function cannot be a tool; carries every reason, a line each."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


@dataclass(frozen=True)
class FunctionSchema:
    """How a model calls a function."""

    model: type[FunctionArgs]
    description: str
    context: str | None
    """The parameter that gets the `ToolContext`."""
    undocumented: tuple[str, ...] = ()
    """What the docstring describes and the function does not take."""
    _fields: tuple[tuple[str, str, bool], ...] = field(default=())
    """Parameter, its field in the model, and whether it goes by position; in the order of the signature."""
    _made: frozenset[str] = frozenset()
    """Parameters whose default is not in the signature."""

    @property
    def json_schema(self) -> dict[str, Any]:
        return arguments_schema(self.model)

    def call(self, args: FunctionArgs, ctx: ToolContext) -> tuple[list[Any], dict[str, Any]]:
        """What the function is called with: values of the types it declares."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for parameter, attribute, by_position in self._fields:
            value = ctx if parameter == self.context else getattr(args, attribute)
            if by_position:
                positional.append(value)
            else:
                named[parameter] = value
        return positional, named

    def plain(self, args: FunctionArgs) -> dict[str, Any]:
        """By parameter, as JSON: what was given, and the defaults that a `Field` made, not the signature."""
        given, out = args.given, {}
        for parameter, attribute, _ in self._fields:
            if parameter == self.context:
                continue
            about = self.model.model_fields[attribute]
            key = about.alias or attribute
            if key in given:
                out[parameter] = given[key]
            elif parameter in self._made:
                out[parameter] = to_jsonable_python(getattr(args, attribute))
        return out


def function_schema(function: Callable[..., Any], description: str | None = None) -> FunctionSchema:
    """`description` replaces the docstring's. Raises NotATool with everything that is wrong at once."""
    parameters = inspect.signature(function).parameters
    docstring = read_docstring(inspect.unwrap(function).__doc__)
    text = (description or docstring.text).strip()
    reasons: list[str] = []
    if not text:
        reasons.append("it has no docstring; the model reads there what the tool does and when to use it")
    for name, parameter in parameters.items():
        if (stars := _VARIADIC.get(parameter.kind)) is not None:
            reasons.append(f"{stars}{name} cannot be described to a model; name the parameters, or take one list")
        elif parameter.annotation is _EMPTY:
            reasons.append(f"parameter {name!r} has no type hint, as in {name}: str")
    if reasons:
        raise NotATool(tuple(reasons))
    try:
        hints = resolved(function, parameters)
    except UnknownName as error:
        raise NotATool((f"the type hint of {error.parameter!r} cannot be resolved: {error}",)) from None
    return _schema_of(function.__name__, parameters, hints, docstring, text)


def _schema_of(
    name: str, parameters: Mapping[str, inspect.Parameter], hints: dict[str, Any], docstring: Docstring, text: str
) -> FunctionSchema:
    contexts = [name for name, hint in hints.items() if is_context(hint)]
    if len(contexts) > 1:
        raise NotATool((f"{' and '.join(contexts)} both want the ToolContext; one parameter may",))
    context = contexts[0] if contexts else None
    definitions: dict[str, Any] = {}
    fields: list[tuple[str, str, bool]] = []
    reasons: list[str] = []
    for number, (key, parameter) in enumerate(parameters.items()):
        attribute = f"p{number}_{key.strip('_')}" if _is_taken(key) else key
        fields.append((key, attribute, parameter.kind is inspect.Parameter.POSITIONAL_ONLY))
        if key == context:
            continue
        hint = _described(hints[key], parameter.default, docstring.parameters.get(key))
        if attribute != key:
            hint = Annotated[hint, Field(alias=key)]
        definition = hint if parameter.default is _EMPTY else (hint, parameter.default)
        found = list(_problems(key, definition))
        if not found:
            definitions[attribute] = definition
        reasons += found
    if reasons:
        raise NotATool(tuple(reasons))
    model = create_model(name, __base__=FunctionArgs, **definitions)
    unknown = tuple(key for key in docstring.parameters if key not in parameters)
    made = frozenset(
        key
        for key, parameter in parameters.items()
        if parameter.default is _EMPTY or isinstance(parameter.default, FieldInfo)
    )
    return FunctionSchema(model, text, context, unknown, tuple(fields), made)


def _is_taken(name: str) -> bool:
    """pydantic has another use for fields of that name."""
    return name.startswith(("_", *_PYDANTIC_ONLY)) or hasattr(FunctionArgs, name)


def _described(hint: Any, default: Any, from_docstring: str | None) -> Any:
    """With one description: the hint's own `Field`, else the text it is annotated with, else the docstring's."""
    extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    if any(isinstance(extra, FieldInfo) and extra.description for extra in (*extras, default)):
        return hint
    texts = [extra for extra in extras if isinstance(extra, str)]
    description = texts[0] if texts else from_docstring
    return Annotated[hint, Field(description=description)] if description else hint


def _problems(name: str, definition: Any) -> Iterator[str]:
    """Why this parameter (its hint, or that and its default) cannot be described, or its default is none."""
    try:
        model = create_model("Parameter", __base__=FunctionArgs, value=definition)
        schema = model.model_json_schema()
    except (PydanticUserError, TypeError, NameError, RecursionError) as error:
        yield f"the type of {name!r} cannot be described in JSON Schema: {_first_line(error)}"
        return
    if _holds_bytes(schema):
        yield f"{name!r} holds bytes, which JSON has not; take str, or pydantic.Base64Bytes for base64"
        return
    given = model.model_fields["value"].default
    if given is ... or given is PydanticUndefined:
        return
    hint = definition[0] if isinstance(definition, tuple) else definition
    bearer = create_model("Default", __base__=FunctionArgs, value=(hint, ...))
    try:
        bearer.model_validate(_by_alias(bearer, given))
    except ValidationError as error:
        instead = f"; write {name}: … | None = None" if given is None else ""
        yield f"the default of {name!r}, {given!r:.100}, does not fit its type: {error.errors()[0]['msg']}{instead}"


def _by_alias(model: type[BaseModel], value: Any) -> dict[str, Any]:
    return {model.model_fields["value"].alias or "value": value}


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).partition("\n")[0]


def _holds_bytes(node: Any) -> bool:
    if isinstance(node, list):
        return any(_holds_bytes(item) for item in node)
    if not isinstance(node, dict):
        return False
    if node.get("type") == "string" and node.get("format") == "binary":
        return True
    return any(
        _holds_bytes(value) for key, value in node.items() if key not in ("default", "const", "enum", "examples")
    )
