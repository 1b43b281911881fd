"""Makes the JSON Schema of a YAML tool, and what its template needs to know, from the parameters in the file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codeagent.core.tool import Tool
from codeagent.tools.schema import faults_of, nearest_or_all, problems_of, tool_schema
from codeagent.tools.user.templates import Parameter
from codeagent.tools.user.yaml_model import ParameterFields, YamlReport
from codeagent.tools.user.yaml_text import Path
from codeagent.tools.user.yaml_tools import AccessWord

_SAY_THE_TYPE = frozenset({"enum", "const", "anyOf", "oneOf", "allOf", "$ref"})


@dataclass(frozen=True)
class YamlArguments:
    """The arguments that a tool takes."""

    schema: dict[str, Any]
    parameters: dict[str, Parameter]
    paths: dict[str, AccessWord | None]
    preset: dict[str, Any]


def own_arguments(fields: Sequence[ParameterFields], path: Path, report: YamlReport) -> YamlArguments:
    """The arguments of a tool with a template."""
    properties: dict[str, Any] = {}
    parameters: dict[str, Parameter] = {}
    paths: dict[str, AccessWord | None] = {}
    for at, one in enumerate(fields):
        here = (*path, at)
        if one.name in properties:
            report.error((*here, "name"), f"there is another parameter {one.name}")
        if "value" in one.model_fields_set:
            report.error((*here, "value"), "only a tool with builtin has set values; write it into the template")
        properties[one.name] = _property(one, here, report)
        kind = _type_of(properties[one.name])
        if "array" in kind and kind != ["array"]:
            report.error((*here, "schema"), "a parameter is either a list or not a list; give one type")
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
    """The arguments of a tool made from a built-in one: those listed, or all of them if none is."""
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
        report.error(path, f"{inner.name} needs {', '.join(lacking)}: list it, or set it with value")
    return YamlArguments(_object(properties, required), {}, {}, preset)


def _narrowing(one: ParameterFields, known: dict[str, Any], here: Path, report: YamlReport) -> dict[str, Any]:
    """What the file adds to a property of a built-in tool."""
    kind = "string" if one.type == "path" else one.type
    if kind is not None and known.get("type") not in (None, kind):
        report.error((*here, "type"), f"it is {known['type']} in the built-in tool")
    added = dict(one.schema_ or {})
    _check_schema({**known, **added}, (*here, "schema"), report)
    return _described(added, one, here, report)


def _property(one: ParameterFields, here: Path, report: YamlReport) -> dict[str, Any]:
    written = dict(one.schema_ or {})
    kind = "string" if one.type == "path" else one.type
    if kind is not None and written.get("type", kind) != kind:
        report.error((*here, "schema", "type"), f"it says {written['type']}, and type says {one.type}")
    if kind is None and not (_SAY_THE_TYPE | {"type"}) & written.keys():
        kind = "string"
    schema = ({"type": kind} if kind is not None else {}) | written
    if one.type == "path":
        schema.setdefault("minLength", 1)
    _check_schema(schema, (*here, "schema"), report)
    return _described(schema, one, here, report)


def _described(schema: dict[str, Any], one: ParameterFields, here: Path, report: YamlReport) -> dict[str, Any]:
    """The schema with the parameter's description and default."""
    if one.description:
        schema["description"] = one.description
    if "default" in one.model_fields_set:
        if one.required:
            report.error((*here, "required"), "what is required has no default")
        _check_fits(schema, one.name, one.default, (*here, "default"), report)
        schema["default"] = one.default
    return schema


def _check_schema(schema: dict[str, Any], here: Path, report: YamlReport) -> None:
    for problem in problems_of(schema):
        report.error(here, problem)


def _check_fits(schema: dict[str, Any], name: str, value: Any, here: Path, report: YamlReport) -> None:
    if problems_of(schema):
        return
    for fault in faults_of(_object({name: schema}, []), {name: value}):
        report.error(here, f"it {fault.text.removeprefix('Input ')}")


def _is_required(one: ParameterFields) -> bool:
    return one.required if one.required is not None else "default" not in one.model_fields_set


def _type_of(schema: dict[str, Any]) -> list[str]:
    """Without null."""
    kind = schema.get("type", "mixed")
    kinds = kind if isinstance(kind, list) else [kind]
    return [str(one) for one in kinds if one != "null"] or ["mixed"]


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    needed = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}
