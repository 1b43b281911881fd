"""The keys that are allowed in a YAML tool file, and how a problem with one of them is reported.

Errors, documentation and the editors' schema come from this one model.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import ErrorDetails

from codeagent.core.hosts import HostRule
from codeagent.core.toolbox import ToolProblem
from codeagent.tools.catalog import ToolFile
from codeagent.tools.schema import kind_of, nearest_or_all, quoted, text_or_json
from codeagent.tools.user.templates import Flaw
from codeagent.tools.user.yaml_text import Path, YamlDocument

ParameterType = Literal["string", "integer", "number", "boolean", "array", "object", "path"]
PARAMETER_NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"
VARIABLE_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
_SHAPES = {
    "string_type": "a text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def _network(value: Any) -> bool | list[str]:
    if isinstance(value, bool):
        return value
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return value
    raise ValueError("write true, false, or a list of host names")


def _argv_item(value: Any) -> str | list[str]:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return value
    if isinstance(value, bool | int | float):
        raise ValueError("an item is text; put it in quotes")
    raise ValueError("an item is text, or a list of texts that are dropped together")


def _host(value: str) -> str:
    HostRule.parse(value)
    return value.lower()


def _paths(value: Any) -> Any:
    """Take a list of globs for both reading and changing."""
    if not isinstance(value, list):
        return value
    if value and all(isinstance(item, str) and item for item in value):
        return {"read": value, "write": value}
    raise ValueError("write a list of globs, or read and write with a list each")


def _restrictions(value: Any) -> Any:
    """Take a list for one of paths."""
    return {"paths": value} if isinstance(value, list) else value


def _schema(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise ValueError("a schema is a mapping")


Host = Annotated[str, AfterValidator(_host)]
Network = Annotated[
    Any,
    BeforeValidator(_network),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]
ArgvItem = Annotated[
    Any,
    BeforeValidator(_argv_item),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]


class YamlSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class PathRules(YamlSection):
    """Globs, relative to the workspace, as in rules: `*` stops at `/`, `**` does not."""

    read: list[str] | None = Field(default=None, min_length=1, description="What may be read.")
    write: list[str] | None = Field(default=None, min_length=1, description="What may be changed.")

    @property
    def alike(self) -> bool:
        """The same holds for reading and for changing, so that whichever a tool does not do may be left unsaid."""
        return self.read == self.write


class RestrictionFields(YamlSection):
    paths: Annotated[PathRules | None, BeforeValidator(_paths, json_schema_input_type=PathRules | list[str] | None)] = (
        Field(
            default=None,
            description="Where the arguments of type path may lead; a list holds for reading and for changing.",
        )
    )
    commands: list[str] | None = Field(
        default=None,
        min_length=1,
        description="Beginnings of commands, as `git log`: every command of the line must begin with one of them.",
    )
    hosts: list[Host] | None = Field(default=None, min_length=1, description="What the command may reach; see network.")


class ParameterFields(YamlSection):
    name: str = Field(pattern=f"^{PARAMETER_NAME}$", description="What the model calls it.")
    type: ParameterType | None = Field(
        default=None,
        description="`path` is a text that names a file in the workspace. Default: what the schema says, or string.",
    )
    required: bool | None = Field(default=None, description="Default: true, unless there is a default.")
    schema_: Annotated[dict[str, Any], BeforeValidator(_schema)] | None = Field(
        default=None, alias="schema", description="Further JSON Schema keywords: enum, minimum, pattern, items, …"
    )
    default: Any = Field(default=None, description="What holds where the model leaves it out.")
    value: Any = Field(default=None, description="Only with builtin: always this; the model does not see it.")
    description: str = Field(default="", description="What belongs there, for the model.")
    allow_dash: bool = Field(default=False, description="The value may begin with - and so look like an option.")
    access: Literal["read", "write"] | None = Field(
        default=None, description="Of a path: which list of restrictions.paths holds. Default: each that is given."
    )


class ToolFields(YamlSection):
    """One tool. Exactly one of argv, command and builtin says what it does."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="What the model calls.")
    label: str | None = Field(default=None, description="What the user reads. Default: the name.")
    description: str | None = Field(default=None, description="What it does and when to use it, for the model.")
    builtin: str | None = Field(
        default=None, description="A built-in tool that is given another name and tighter limits."
    )
    argv: list[ArgvItem] | None = Field(
        default=None,
        min_length=1,
        description="Program and arguments; no shell. {{args.x}} is exactly what the model gave. An item whose "
        "argument is missing is dropped; a list within is dropped as a whole.",
    )
    command: str | None = Field(
        default=None,
        min_length=1,
        description="A line for bash. {{args.x}} never becomes shell syntax, wherever it stands.",
    )
    parameters: list[ParameterFields] = Field(default_factory=list, description="What the model gives.")
    approval: Literal["auto", "prompt", "deny"] | None = Field(
        default=None, description="auto holds only in your own folder; in a project's file it means prompt."
    )
    restrictions: Annotated[
        RestrictionFields | None,
        BeforeValidator(_restrictions, json_schema_input_type=RestrictionFields | list[str] | None),
    ] = Field(default=None, description="What it may not go beyond; a list is one of paths.")
    timeout: float | None = Field(default=None, gt=0, le=86_400, description="Seconds; default: 120.")
    mode: Literal["direct", "background"] = Field(default="direct", description="background: it runs as a job.")
    network: Network = Field(default=False, description="false, true (any public host), or a list of hosts.")
    cwd: str | None = Field(default=None, min_length=1, description="A folder of the workspace. Default: its root.")
    env: dict[str, str] = Field(default_factory=dict, description="Variables; their values may hold placeholders.")
    max_calls: int | None = Field(default=None, ge=1, description="Calls in one run.")
    hint: str = Field(default="", description="A sentence for the system prompt.")
    documentation: str = Field(default="", description="All there is to say, Markdown; the model reads it with info.")


def file_schema() -> dict[str, Any]:
    """The JSON Schema of a tool file, for editors."""
    tool = ToolFields.model_json_schema(by_alias=True)
    definitions = tool.pop("$defs", {})
    definitions["Tool"] = tool
    many = {
        "type": "object",
        "properties": {"tools": {"type": "array", "items": {"$ref": "#/$defs/Tool"}, "minItems": 1}},
        "required": ["tools"],
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A tool file of codeagent",
        "description": "One tool, or a list of them under `tools`.",
        "anyOf": [{"$ref": "#/$defs/Tool"}, many],
        "$defs": definitions,
    }


class YamlReport:
    """Collects the problems of one document, in the order of the lines."""

    def __init__(self, file: ToolFile, document: YamlDocument) -> None:
        self._shown = file.shown
        self._lines = file.content.decode("utf-8", "replace").split("\n")
        self._document = document
        self._found: dict[tuple[int, str, str], ToolProblem] = {}

    @property
    def problems(self) -> tuple[ToolProblem, ...]:
        return tuple(self._found[key] for key in sorted(self._found, key=lambda key: key[0]))

    @property
    def has_errors(self) -> bool:
        return any(problem.level == "error" for problem in self._found.values())

    def where(self, path: Path) -> str:
        return f"{self._shown}:{self._document.line(path)}"

    def error(self, path: Path, text: str, *, source: str = "") -> None:
        """`source` is what to look for in the lines below the key, to point at the very line."""
        self._add(path, text, source, warning=False)

    def warn(self, path: Path, text: str, *, source: str = "") -> None:
        self._add(path, text, source, warning=True)

    def flaw(self, path: Path, flaw: Flaw) -> None:
        self._add((*path, *flaw.at), flaw.text, flaw.source, warning=flaw.warning)

    def invalid(self, path: Path, error: ErrorDetails) -> None:
        """Report an error that pydantic found below the path."""
        own = tuple(error["loc"])
        if error["type"] == "missing":
            self.error((*path, *own[:-1]), f"{own[-1]} is missing")
            return
        self.error((*path, *own), _phrase(error, own))

    def _add(self, path: Path, text: str, source: str, *, warning: bool) -> None:
        line = self._line(path, source)
        key = _written(path)
        where = f"{self._shown}:{line}: {key}" if key else f"{self._shown}:{line}"
        self._found.setdefault((line, key, text), ToolProblem(where, text, "warning" if warning else "error"))

    def _line(self, path: Path, source: str) -> int:
        first = self._document.line(path)
        if not source:
            return first
        return next((n for n in range(first, len(self._lines) + 1) if source in self._lines[n - 1]), first)


def _written(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _phrase(error: ErrorDetails, path: tuple[int | str, ...]) -> str:
    context: Mapping[str, Any] = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            return "no such key" + _nearest(path)
        case "literal_error":
            return f"write {_unquoted(str(context['expected']))}, not {quoted(text_or_json(error['input']))}"
        case "string_pattern_mismatch" if path[-1:] == ("name",):
            most = "letters, digits, _ or -" + (", and no digit or - first" if len(path) > 1 else "")
            return f"{quoted(str(error['input']))} is not a name; use 1 to 64 {most}"
        case "value_error":
            return error["msg"].removeprefix("Value error, ")
        case "too_short" | "string_too_short":
            return "it is empty"
        case kind if kind in _SHAPES:
            plain = isinstance(error["input"], bool | int | float)
            hint = "; put it in quotes" if kind == "string_type" and plain else ""
            return f"{_SHAPES[kind]} is expected, not {kind_of(error['input'])}{hint}"
        case _:
            message = re.sub(r"^(?:Input|String|List) ", "it ", error["msg"])
            return message[:1].lower() + message[1:]


def _unquoted(expected: str) -> str:
    return expected.replace("'", "")


def _nearest(path: tuple[int | str, ...]) -> str:
    sections: dict[str, type[BaseModel]] = {
        "parameters": ParameterFields, "restrictions": RestrictionFields, "paths": PathRules,
    }  # fmt: skip
    names = [part for part in path[:-1] if isinstance(part, str)]
    section = sections.get(names[-1], ToolFields) if names else ToolFields
    known = [field.alias or name for name, field in section.model_fields.items()]
    return nearest_or_all(str(path[-1]), known, most=1)
