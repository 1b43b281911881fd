"""The keys that are allowed in a YAML tool file, and the arguments made from its parameters.

Errors, documentation and the editors' schema come from this one model.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypeGuard

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    WithJsonSchema,
    model_validator,
)

from codeagent.core.dataclass import dataclass
from codeagent.core.hosts import HostRule
from codeagent.core.tool import Tool
from codeagent.core.yaml_text import Path
from codeagent.extensions.user_tools.decorator import ToolApproval
from codeagent.extensions.user_tools.templates import Parameter, filled, placeholders
from codeagent.tools.faults import nearest_or_all
from codeagent.tools.files.fields import InputFields, Seconds, Version, YamlSection
from codeagent.tools.files.report import YamlReport
from codeagent.tools.schema import tool_schema
from codeagent.tools.schema_check import faults_of, problems_of

_DAY = 86_400
MOST_TOOLS = 100
"""The most tools in one file."""
AccessWord = Literal["read", "write"]
ParameterType = Literal["string", "integer", "number", "boolean", "array", "object", "path"]
PARAMETER_NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"
VARIABLE_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
_SAY_THE_TYPE = frozenset({"enum", "const", "anyOf", "oneOf", "allOf", "$ref"})


def _is_texts(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def _network(value: Any) -> bool | list[str]:
    if isinstance(value, bool):
        return value
    if _is_texts(value):
        return [_host(host) for host in value]
    raise ValueError("write true, false, or a list of host names")


def _argv_item(value: Any) -> str | list[str]:
    if isinstance(value, str) or _is_texts(value):
        return value
    if isinstance(value, bool | int | float):
        raise ValueError("an item is text; put it in quotes")
    raise ValueError("an item is text, or a list of texts that are left out together")


def _host(value: str) -> str:
    HostRule.parse(host_sample(value))
    return value if placeholders(value) else value.lower()


def host_sample(host: str) -> str:
    """Return the host with a sample name for each input, the same one for the same input."""
    names = {one.name for one in placeholders(host)}
    return filled(
        host, {name: f"x{hashlib.sha256(name.encode()).hexdigest()[:16]}.x" for name in names}
    )


def _paths(value: Any) -> Any:
    """Use a plain list of globs for both reading and changing."""
    if not isinstance(value, list):
        return value
    if _is_texts(value) and all(value):
        return {"read": value, "write": value}
    raise ValueError("write a list of globs, or a list each for read and write")


def _restrictions(value: Any) -> Any:
    """Use a plain list as the list of paths."""
    return {"paths": value} if isinstance(value, list) else value


def _builtin(value: Any) -> Any:
    if value is None or value is True or isinstance(value, str):
        return value
    raise ValueError(
        "write true, or the name of a built-in tool; leave it out for a tool with a command"
    )


def _at_most_a_day(seconds: float) -> float:
    if seconds > _DAY:
        raise ValueError(f"it should be less than or equal to {_DAY}")
    return seconds


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise ValueError("a schema is a mapping")


Host = Annotated[str, AfterValidator(_host)]
Builtin = Annotated[
    str | bool | None, BeforeValidator(_builtin, json_schema_input_type=str | Literal[True] | None)
]
Network = Annotated[
    Any,
    BeforeValidator(_network),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "boolean"},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ]
        }
    ),
]
ArgvItem = Annotated[
    Any,
    BeforeValidator(_argv_item),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ]
        }
    ),
]


class PathRules(YamlSection):
    """Globs relative to the workspace, as in rules: `*` stops at `/`, `**` does not."""

    read: list[str] | None = Field(default=None, min_length=1, description="What may be read.")
    write: list[str] | None = Field(default=None, min_length=1, description="What may be changed.")

    @property
    def alike(self) -> bool:
        """Whether the same globs apply to reading and changing, so that a tool that does only one
        is fine."""
        return self.read == self.write


class RestrictionFields(YamlSection):
    paths: Annotated[
        PathRules | None,
        BeforeValidator(_paths, json_schema_input_type=PathRules | list[str] | None),
    ] = Field(
        default=None,
        description="Where arguments of type path may lead; a plain list applies to reading and changing.",
    )
    commands: list[str] | None = Field(
        default=None,
        min_length=1,
        description="Command prefixes, such as `git log`: every command of the line must begin with one of them.",
    )
    hosts: list[Host] | None = Field(
        default=None, min_length=1, description="What the command may reach; see network."
    )


class ParameterFields(YamlSection):
    name: str = Field(pattern=f"^{PARAMETER_NAME}$", description="The name that the model uses.")
    type: ParameterType | None = Field(
        default=None,
        description="`path` is a text that names a file in the workspace. Default: what the schema says, or string.",
    )
    required: bool | None = Field(
        default=None, description="Default: true, unless there is a default."
    )
    schema_: Annotated[dict[str, Any], BeforeValidator(_mapping)] | None = Field(
        default=None,
        alias="schema",
        description="Further JSON Schema keywords: enum, minimum, pattern, items, …",
    )
    default: Any = Field(default=None, description="Used if the model leaves it out.")
    value: Any = Field(
        default=None, description="Only with builtin: a fixed value, which the model does not see."
    )
    description: str = Field(default="", description="Tells the model what to give.")
    allow_dash: bool = Field(
        default=False, description="The value may begin with -, and so look like an option."
    )
    access: AccessWord | None = Field(
        default=None,
        description="For a path: which list of restrictions.paths applies. Default: every given list.",
    )


class ToolFields(YamlSection):
    """A tool. Exactly one of argv, command and builtin says what it does."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9_-]{1,64}$", description="The name that the model calls."
    )
    label: str | None = Field(
        default=None, description="The name shown to the user. Default: name."
    )
    description: str | None = Field(
        default=None, description="What it does and when to use it, for the model."
    )
    builtin: Builtin = Field(
        default=None,
        description="A built-in tool that is given another name and tighter limits; true: the one of this name, in "
        "whose place this one is.",
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
        description="A line for bash. {{args.x}} is plain, in double or in single quotes, and never becomes shell "
        "syntax.",
    )
    parameters: list[ParameterFields] = Field(
        default_factory=list, description="What the model gives."
    )
    inputs: list[InputFields] = Field(
        default_factory=list,
        description="What the user gives to the running recipe, for {{inputs.x}}; the model does not see it.",
    )
    approval: ToolApproval | None = Field(
        default=None,
        description="effects: it is tried out, and what it would change is asked about; only in the sandbox. auto "
        "holds only in your own folder; in a project's file it means prompt.",
    )
    restrictions: Annotated[
        RestrictionFields | None,
        BeforeValidator(_restrictions, json_schema_input_type=RestrictionFields | list[str] | None),
    ] = Field(
        default=None,
        description="Limits that apply whatever was allowed; a plain list means paths.",
    )
    timeout: Annotated[Seconds, AfterValidator(_at_most_a_day)] | None = Field(
        default=None, description="Seconds, or text such as `30s`; default: 120, at most a day."
    )
    mode: Literal["direct", "background"] = Field(
        default="direct", description="background: it runs as a job."
    )
    network: Network = Field(
        default=False, description="false, true (any public host), or a list of hosts."
    )
    cwd: str | None = Field(
        default=None, min_length=1, description="A folder of the workspace. Default: its root."
    )
    env: dict[str, str] = Field(
        default_factory=dict, description="Variables; their values may contain placeholders."
    )
    max_calls: int | None = Field(default=None, ge=1, description="Calls in one run.")
    hint: str = Field(default="", description="A sentence for the system prompt.")
    documentation: str = Field(
        default="", description="The full documentation, in Markdown; the model reads it with info."
    )
    require_info: bool = Field(
        default=False,
        description="Calls are refused until the model has read the documentation with info.",
    )


class ToolsetFields(YamlSection):
    """A toolset of some tools of a source: those that match any of the names, tags and paths."""

    name: str = Field(pattern=f"^{PARAMETER_NAME}$", description="What the model turns on.")
    source: str = Field(
        min_length=1, description="A server, a document or another set, by its name."
    )
    about: str = Field(
        default="", description="What the tools are good for, in one line, for the model."
    )
    tools: list[str] = Field(
        default_factory=list, description="Names of tools; `*` and `?` are wildcards."
    )
    tags: list[str] = Field(
        default_factory=list, description="Tags of operations in an API document."
    )
    paths: list[str] = Field(
        default_factory=list, description="Paths of operations, such as `/users/*`."
    )

    @model_validator(mode="after")
    def _selects_something(self) -> Self:
        if not (self.tools or self.tags or self.paths):
            raise ValueError("give tools, tags or paths")
        return self


class FileFields(YamlSection):
    """Several tools or toolsets, and what the tools have in common."""

    name: str = Field(default="", description="For readers; it has no effect.")
    version: Version = Field(default="", description="For readers; it has no effect.")
    description: str = Field(default="", description="For readers; it has no effect.")
    inputs: list[InputFields] = Field(
        default_factory=list, description="The inputs of all tools of the file."
    )
    tools: list[Any] = Field(
        default_factory=list, min_length=1, max_length=MOST_TOOLS, description="The tools."
    )
    toolsets: list[ToolsetFields] = Field(
        default_factory=list,
        min_length=1,
        max_length=MOST_TOOLS,
        description="Sets of tools that other sources bring; each is off until it is turned on.",
    )


def file_schema() -> dict[str, Any]:
    """The JSON Schema of a tool file, for editors."""
    tool, many = (model.model_json_schema(by_alias=True) for model in (ToolFields, FileFields))
    definitions = many.pop("$defs", {}) | tool.pop("$defs", {})
    definitions["Tool"] = tool
    many["properties"]["tools"]["items"] = {"$ref": "#/$defs/Tool"}
    many["anyOf"] = [{"required": ["tools"]}, {"required": ["toolsets"]}]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A tool file of codeagent",
        "description": "One tool, or lists under `tools` and `toolsets`.",
        "anyOf": [{"$ref": "#/$defs/Tool"}, many],
        "$defs": definitions,
    }


SECTIONS: dict[str, type[BaseModel]] = {
    "": ToolFields,
    "inputs": InputFields,
    "parameters": ParameterFields,
    "restrictions": RestrictionFields,
    "paths": PathRules,
}
"""The models of the sections of a tool, by their key."""
FILE_SECTIONS = SECTIONS | {"": FileFields, "toolsets": ToolsetFields}


@dataclass(frozen=True)
class YamlArguments:
    """The arguments of a tool."""

    schema: dict[str, Any]
    parameters: dict[str, Parameter]
    paths: dict[str, AccessWord | None]
    preset: dict[str, Any]


def own_arguments(
    fields: Sequence[ParameterFields], path: Path, report: YamlReport
) -> YamlArguments:
    """Return the arguments of a tool with a template."""
    properties: dict[str, Any] = {}
    parameters: dict[str, Parameter] = {}
    paths: dict[str, AccessWord | None] = {}
    for at, one in enumerate(fields):
        here = (*path, at)
        if one.name in properties:
            report.error((*here, "name"), f"there is another parameter {one.name}")
        if "value" in one.model_fields_set:
            report.error(
                (*here, "value"),
                "only a tool with builtin has set values; write it into the template",
            )
        properties[one.name] = _property(one, here, report)
        kind = _type_of(properties[one.name])
        if "array" in kind and kind != ["array"]:
            report.error(
                (*here, "schema"), "a parameter is either a list or not a list; give one type"
            )
        parameters[one.name] = Parameter(
            one.name,
            "path" if one.type == "path" else kind[0] if len(kind) == 1 else "mixed",
            may_be_missing=not _is_required(one) and "default" not in one.model_fields_set,
            allow_dash=one.allow_dash,
        )
        if one.type == "path":
            paths[one.name] = one.access
        elif one.access is not None:
            report.error((*here, "access"), "only a parameter of type path has it")
    required = [one.name for one in fields if _is_required(one)]
    return YamlArguments(_object(properties, required), parameters, paths, {})


def narrowed_arguments(
    fields: Sequence[ParameterFields], inner: Tool[Any], path: Path, report: YamlReport
) -> YamlArguments:
    """Return the arguments of a tool made from a built-in one: those listed, or all if none is
    listed."""
    schema = tool_schema(inner)
    known: Mapping[str, Any] = schema.get("properties", {})
    needed: list[str] = schema.get("required", [])
    properties: dict[str, Any] = {} if fields else dict(known)
    preset: dict[str, Any] = {}
    required = [] if fields else list(needed)
    for at, one in enumerate(fields):
        here = (*path, at)
        if one.name not in known:
            hint = nearest_or_all(one.name, known)
            report.error((*here, "name"), f"{inner.name} has no argument {one.name}{hint}")
            continue
        if one.access is not None or one.allow_dash:
            key = "access" if one.access is not None else "allow_dash"
            report.error((*here, key), "only a tool with argv or command has it")
        if one.name in properties or one.name in preset:
            report.error((*here, "name"), f"there is another parameter {one.name}")
        narrowed = {**known[one.name], **_narrowing(one, known[one.name], here, report)}
        if "value" in one.model_fields_set:
            preset[one.name] = one.value
            _check_fits(narrowed, one.name, one.value, (*here, "value"), report)
            continue
        properties[one.name] = narrowed
        if (one.name in needed and "default" not in one.model_fields_set) or one.required:
            required.append(one.name)
    lacking = [name for name in needed if fields and name not in properties and name not in preset]
    if lacking and not report.has_errors:
        report.error(
            path, f"{inner.name} needs {', '.join(lacking)}: list it, or set it with value"
        )
    return YamlArguments(_object(properties, required), {}, {}, preset)


def _narrowing(
    one: ParameterFields, known: dict[str, Any], here: Path, report: YamlReport
) -> dict[str, Any]:
    """Return what the file adds to a property of a built-in tool."""
    kind = "string" if one.type == "path" else one.type
    if kind is not None and known.get("type") not in (None, kind):
        report.error((*here, "type"), f"it is {known['type']} in the built-in tool")
    added = dict(one.schema_ or {})
    _check_schema({**known, **added}, (*here, "schema"), report)
    return _with_default(added, one, here, report)


def _property(one: ParameterFields, here: Path, report: YamlReport) -> dict[str, Any]:
    written = dict(one.schema_ or {})
    kind = "string" if one.type == "path" else one.type
    if kind is not None and written.get("type", kind) != kind:
        report.error(
            (*here, "schema", "type"),
            f"the schema says {written['type']}, but type says {one.type}",
        )
    if kind is None and not (_SAY_THE_TYPE | {"type"}) & written.keys():
        kind = "string"
    schema = ({"type": kind} if kind is not None else {}) | written
    if one.type == "path":
        schema.setdefault("minLength", 1)
    _check_schema(schema, (*here, "schema"), report)
    return _with_default(schema, one, here, report)


def _with_default(
    schema: dict[str, Any], one: ParameterFields, here: Path, report: YamlReport
) -> dict[str, Any]:
    """Return the schema with the parameter's description and default."""
    if one.description:
        schema["description"] = one.description
    if "default" in one.model_fields_set:
        if one.required:
            report.error((*here, "required"), "a required parameter cannot have a default")
        _check_fits(schema, one.name, one.default, (*here, "default"), report)
        schema["default"] = one.default
    return schema


def _check_schema(schema: dict[str, Any], here: Path, report: YamlReport) -> None:
    for problem in problems_of(schema):
        report.error(here, problem)


def _check_fits(
    schema: dict[str, Any], name: str, value: Any, here: Path, report: YamlReport
) -> None:
    if problems_of(schema):
        return
    for fault in faults_of(_object({name: schema}, []), {name: value}):
        report.error(here, f"it {fault.text.removeprefix('Input ')}")


def _is_required(one: ParameterFields) -> bool:
    return one.required if one.required is not None else "default" not in one.model_fields_set


def _type_of(schema: dict[str, Any]) -> list[str]:
    """Return the type of a schema, without null."""
    kind = schema.get("type", "mixed")
    kinds = kind if isinstance(kind, list) else [kind]
    return [str(one) for one in kinds if one != "null"] or ["mixed"]


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    needed = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}
