"""Makes the model of a function's arguments from its signature, type hints and docstring."""

import inspect
import json
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Annotated, Any, Self, get_args, get_origin

import typing_extensions
from pydantic import (
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    ValidationError,
    create_model,
    model_serializer,
)
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticUndefined, to_jsonable_python

from codeagent.core.dataclass import dataclass
from codeagent.core.tool import ToolArgs, ToolContext

_UNIONS = (typing.Union, types.UnionType)
_ARGUMENTS = re.compile(
    r"^([ \t]*)(?:args|arguments|parameters|params):[ \t]*$", re.IGNORECASE | re.MULTILINE
)
"""Matches the heading of the Google style in its many spellings."""
_BLANKS = re.compile(r"[ \t]*\n[ \t]*(?=\S)")
_VARIADIC: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
_EMPTY = inspect.Parameter.empty
_PYDANTIC_ONLY = ("model_validate", "model_dump")


class NotATool(Exception):
    """A function cannot be a tool; the message has every reason, one per line."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class FunctionArgs(ToolArgs):
    """The arguments of a function: the fields are what the function gets, but a dump is the JSON of
    the call.

    So the user approves, and the log has, exactly what was asked for, whatever the function's types
    turn it into.
    """

    model_config = ConfigDict(
        arbitrary_types_allowed=False, validate_default=False, serialize_by_alias=True
    )

    _given: dict[str, Any] | None = PrivateAttr(default=None)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        args = super().model_validate_json(json_data, **options)
        args._given = json.loads(json_data)
        return args

    @property
    def given(self) -> dict[str, Any]:
        """The call's own arguments as plain JSON, without defaults."""
        return self.model_dump(mode="json", exclude_unset=True)

    @property
    def canonical(self) -> str:
        """A text that is equal for all spellings of the same arguments."""
        return json.dumps(self.given, sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    @model_serializer(mode="wrap")
    def _as_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        if self._given is not None:
            return self._given
        dumped: dict[str, Any] = handler(self)
        return dumped


@dataclass(frozen=True)
class FunctionSchema:
    """The description of a function for a model, and how to call it."""

    model: type[FunctionArgs]
    description: str
    context: str | None
    """The parameter that gets the `ToolContext`."""
    undocumented: tuple[str, ...] = ()
    """Parameters that the docstring describes but the function does not have."""
    _fields: tuple[tuple[str, str, bool], ...] = field(default=())
    """Each parameter, its field in the model, and whether it is positional, in the order of the
    signature."""
    _made: frozenset[str] = frozenset()
    """The parameters whose default is not in the signature."""

    def call(self, args: FunctionArgs, ctx: ToolContext) -> tuple[list[Any], dict[str, Any]]:
        """Return the function's positional and named arguments, as values of the declared types."""
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
        """Return the arguments by parameter, as JSON: those given, and defaults from a `Field`."""
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
    """Describe a function to a model; `description` replaces the docstring's. Raises NotATool with
    every reason."""
    parameters = inspect.signature(function).parameters
    told, described = read_docstring(inspect.unwrap(function).__doc__)
    text = (description or told).strip()
    reasons: list[str] = []
    if not text:
        reasons.append(
            "it has no docstring, which tells the model what the tool does and when to use it"
        )
    for name, parameter in parameters.items():
        if (stars := _VARIADIC.get(parameter.kind)) is not None:
            reasons.append(
                f"{stars}{name} cannot be described to a model; name the parameters, or take one list"
            )
        elif parameter.annotation is _EMPTY:
            reasons.append(f"parameter {name!r} has no type hint, as in {name}: str")
    if reasons:
        raise NotATool(tuple(reasons))
    return _schema_of(
        function.__name__, parameters, resolved_hints(function, parameters), described, text
    )


def _schema_of(
    name: str,
    parameters: Mapping[str, inspect.Parameter],
    hints: dict[str, Any],
    described: Mapping[str, str],
    text: str,
) -> FunctionSchema:
    contexts = [name for name, hint in hints.items() if is_context(hint)]
    if len(contexts) > 1:
        raise NotATool(
            (f"{' and '.join(contexts)} are both a ToolContext; only one parameter may be",)
        )
    context = contexts[0] if contexts else None
    definitions: dict[str, Any] = {}
    fields: list[tuple[str, str, bool]] = []
    reasons: list[str] = []
    for number, (key, parameter) in enumerate(parameters.items()):
        attribute = f"p{number}_{key.strip('_')}" if _is_taken(key) else key
        fields.append((key, attribute, parameter.kind is inspect.Parameter.POSITIONAL_ONLY))
        if key == context:
            continue
        hint = _described(hints[key], parameter.default, described.get(key))
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
    unknown = tuple(key for key in described if key not in parameters)
    made = frozenset(
        key
        for key, parameter in parameters.items()
        if parameter.default is _EMPTY or isinstance(parameter.default, FieldInfo)
    )
    return FunctionSchema(
        model, text, context, undocumented=unknown, _fields=tuple(fields), _made=made
    )


def _is_taken(name: str) -> bool:
    """Whether pydantic reserves that name."""
    return name.startswith(("_", *_PYDANTIC_ONLY)) or hasattr(FunctionArgs, name)


def _described(hint: Any, default: Any, from_docstring: str | None) -> Any:
    """Return the hint with one description: from its own `Field`, its annotation, or the
    docstring."""
    extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    if any(isinstance(extra, FieldInfo) and extra.description for extra in (*extras, default)):
        return hint
    texts = [extra for extra in extras if isinstance(extra, str)]
    description = texts[0] if texts else from_docstring
    return Annotated[hint, Field(description=description)] if description else hint


def _problems(name: str, definition: Any) -> Iterator[str]:
    """Return why this parameter (its hint, or hint and default) cannot be described, or why its
    default is wrong."""
    try:
        model = create_model("Parameter", __base__=FunctionArgs, value=definition)
        schema = model.model_json_schema()
    except (PydanticUserError, TypeError, NameError, RecursionError) as error:
        why = (str(error) or type(error).__name__).partition("\n")[0]
        yield f"the type of {name!r} cannot be described in JSON Schema: {why}"
        return
    if _holds_bytes(schema):
        yield f"{name!r} holds bytes, which JSON does not have; take str, or pydantic.Base64Bytes for base64"
        return
    given = model.model_fields["value"].default
    if given is ... or given is PydanticUndefined:
        return
    hint = definition[0] if isinstance(definition, tuple) else definition
    bearer = create_model("Default", __base__=FunctionArgs, value=(hint, ...))
    try:
        bearer.model_validate({bearer.model_fields["value"].alias or "value": given})
    except ValidationError as error:
        instead = f"; write {name}: … | None = None" if given is None else ""
        yield f"the default of {name!r}, {given!r:.100}, does not fit its type: {error.errors()[0]['msg']}{instead}"


def _holds_bytes(node: Any) -> bool:
    if isinstance(node, list):
        return any(_holds_bytes(item) for item in node)
    if not isinstance(node, dict):
        return False
    if node.get("type") == "string" and node.get("format") == "binary":
        return True
    return any(
        _holds_bytes(value)
        for key, value in node.items()
        if key not in ("default", "const", "enum", "examples")
    )


def resolved_hints(
    function: Callable[..., Any], parameters: Mapping[str, inspect.Parameter]
) -> dict[str, Any]:
    """Return the hint of each parameter that has one; strings are resolved where the function is
    defined.

    Raises NotATool. Names imported only for type checking are unknown, except `ToolContext`.
    """
    namespace = {"ToolContext": ToolContext, **inspect.unwrap(function).__globals__}
    hints: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if parameter.annotation is inspect.Parameter.empty:
            continue
        bearer = types.SimpleNamespace(__annotations__={name: parameter.annotation})
        try:
            hints[name] = typing.get_type_hints(bearer, globalns=namespace, include_extras=True)[
                name
            ]
        except Exception as error:
            why = str(error) or type(error).__name__
            raise NotATool((f"the type hint of {name!r} cannot be resolved: {why}",)) from None
    for hint in [*hints.values(), *namespace.values()]:
        _make_readable(hint)
    return hints


def is_context(hint: Any) -> bool:
    """Whether the hint is `ToolContext`, even if optional or annotated."""
    if hint is ToolContext:
        return True
    origin = get_origin(hint)
    if origin is typing.Annotated:
        return is_context(get_args(hint)[0])
    options = [option for option in get_args(hint) if option is not type(None)]
    return origin in _UNIONS and len(options) == 1 and is_context(options[0])


def _make_readable(hint: Any) -> None:
    """Replace each `typing.TypedDict`, which pydantic refuses before Python 3.12, with a twin."""
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
    """Replaces a TypedDict with another of the same shape, made once so that it may contain
    itself."""

    def __init__(self) -> None:
        self._made: Any = None

    def __call__(self, original: type, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if self._made is None:
            hints = typing.get_type_hints(original, include_extras=True)
            required: frozenset[str] = original.__required_keys__  # type: ignore[attr-defined]  # a TypedDict has it
            fields = {name: _bare(hint) for name, hint in hints.items()}
            shape = {
                name: hint if name in required else typing_extensions.NotRequired[hint]
                for name, hint in fields.items()
            }
            for hint in fields.values():
                _make_readable(hint)
            make: Any = typing_extensions.TypedDict
            self._made = make(original.__name__, shape)
        return handler.generate_schema(self._made)


def _bare(hint: Any) -> Any:
    required = (
        typing.Required,
        typing.NotRequired,
        typing_extensions.Required,
        typing_extensions.NotRequired,
    )
    return get_args(hint)[0] if get_origin(hint) in required else hint


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return what the function does, and the descriptions of its parameters by name.

    The style is Google, numpy, reST or epydoc, whichever finds the most; else it is plain text.
    Sections about results and errors are left out.
    """
    cleaned = inspect.cleandoc(text or "").strip()
    if not cleaned:
        return "", {}
    import docstring_parser  # 20 ms that only user-defined tools need

    try:
        parsed = docstring_parser.parse(_ARGUMENTS.sub(r"\1Args:", text or ""))
    except docstring_parser.ParseError:
        return cleaned, {}
    described = {
        name.strip().lstrip("*"): _one_paragraph(parameter.description)
        for parameter in parsed.params
        if parameter.args[0] != "attribute" and parameter.description
        for name in parameter.arg_name.split(",")
    }
    body = [part.strip() for part in (parsed.short_description, parsed.long_description) if part]
    gap = "\n\n" if parsed.blank_after_short_description else "\n"
    return gap.join(body), described


def _one_paragraph(text: str) -> str:
    """Join the lines of each paragraph; blank lines stay."""
    return "\n\n".join(
        _BLANKS.sub(" ", part.strip()) for part in re.split(r"\n[ \t]*\n", text.strip())
    )
