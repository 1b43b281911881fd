"""What YAML files have in common: strict sections, their error messages, `inputs:`, and the hint
for AWF's files."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from codeagent.core.durations import as_seconds
from codeagent.core.errors import ConfigError
from codeagent.core.recipes import InputType, RecipeInput
from codeagent.extensions.user_tools.yaml_text import Path, YamlReport
from codeagent.tools.schema import kind_of, nearest_or_all, quoted, text_or_json

INPUT_NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"
Fields = TypeVar("Fields", bound=BaseModel)
Sections = Mapping[str, type[BaseModel]]
"""The models of nested sections by their key; the empty key is that of the whole."""
_ONLY_THERE = frozenset({"type", "provider", "options", "tool_options"})
"""Keys that a step of a workflow has, and no step of a recipe."""
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


class YamlSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


def _version(value: Any) -> Any:
    """Accept `version: 1` as text."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


_DurationText = Annotated[str, Field(pattern=r"^(?:[0-9]+(?:\.[0-9]+)?(?:ms|[smhd]))+$")]
_AboveZero = Annotated[float, Field(gt=0)]
Seconds = Annotated[
    _AboveZero, BeforeValidator(as_seconds, json_schema_input_type=_AboveZero | _DurationText)
]
"""A number, or text such as `30s`."""
Version = Annotated[str, BeforeValidator(_version, json_schema_input_type=str | float)]


class InputFields(YamlSection):
    """An input, given by the user who runs the recipe, never by the model."""

    name: str = Field(pattern=f"^{INPUT_NAME}$", description="What `{{inputs.name}}` stands for.")
    type: InputType = Field(
        default="string", description="`path` is a path that stays in the workspace."
    )
    required: bool | None = Field(
        default=None, description="Default: true, unless there is a default."
    )
    default: Any = Field(default=None, description="Used if it is not given.")
    description: str = Field(default="", description="Tells the user what to give.")
    choices: list[str] | None = Field(
        default=None, min_length=1, description="For the type choice: the values to choose from."
    )


def declared_inputs(
    fields: Sequence[InputFields], path: Path, report: YamlReport
) -> tuple[RecipeInput, ...]:
    """Return the inputs of a file; problems are reported."""
    out: dict[str, RecipeInput] = {}
    for at, one in enumerate(fields):
        here = (*path, at)
        if one.name in out:
            report.error((*here, "name"), f"there is another input {one.name}")
        if (one.type == "choice") != (one.choices is not None):
            said = (
                "only an input of type choice has choices"
                if one.choices
                else "a choice needs choices, a list"
            )
            report.error((*here, "choices") if one.choices else here, said)
        has_default = one.default is not None
        if has_default and one.required:
            report.error((*here, "required"), "a required input cannot have a default")
        required = one.required if one.required is not None else not has_default
        made = RecipeInput(
            one.name, one.type, required, None, one.description, tuple(one.choices or ())
        )
        out[one.name] = replace(made, default=_default(one, made, here, report))
    return tuple(out.values())


def _default(one: InputFields, made: RecipeInput, here: Path, report: YamlReport) -> Any:
    if one.default is None:
        return None
    try:
        return made.parse(text_or_json(one.default))
    except ConfigError as error:
        report.error((*here, "default"), str(error))
        return None


def validated(
    model: type[Fields], value: Any, report: YamlReport, sections: Sections, path: Path = ()
) -> Fields | None:
    """Return the value at the path as the model; None if it is not valid, with every problem
    reported."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            _report_invalid(details, path, report, sections)
        return None


def _report_invalid(
    error: ErrorDetails, path: Path, report: YamlReport, sections: Sections
) -> None:
    """Report an error that pydantic found at or below the path."""
    own = tuple(error["loc"])
    if error["type"] == "missing":
        report.error((*path, *own[:-1]), f"{own[-1]} is missing")
    else:
        report.error((*path, *own), _phrase(error, own, sections))


def _phrase(error: ErrorDetails, path: tuple[int | str, ...], sections: Sections) -> str:
    context: Mapping[str, Any] = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            return "no such key" + _nearest(path, sections)
        case "literal_error":
            wanted = str(context["expected"]).replace("'", "")
            return f"write {wanted}, not {quoted(text_or_json(error['input']))}"
        case "string_pattern_mismatch" if path[-1:] == ("name",):
            most = "letters, digits, _ or -" + (
                ", and no digit or - first" if len(path) > 1 else ""
            )
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


def _nearest(path: tuple[int | str, ...], sections: Sections) -> str:
    names = [part for part in path[:-1] if isinstance(part, str)]
    section = sections.get(names[-1], sections[""]) if names else sections[""]
    known = [field.alias or name for name, field in section.model_fields.items()]
    return nearest_or_all(str(path[-1]), known, most=1)


def is_workflow(value: Any) -> bool:
    """Whether a document is a workflow of AWF, and so neither a recipe nor a tool file."""
    if not isinstance(value, dict):
        return False
    states = value.get("states")
    steps = value.get("steps")
    tools = value.get("tools")
    if isinstance(states, dict):
        return "steps" not in value and (
            "initial" in states or any(map(_is_foreign, states.values()))
        )
    if not isinstance(steps, list):
        return False
    return any(map(_is_foreign, steps)) or (
        isinstance(tools, list) and any(isinstance(one, dict) for one in tools)
    )


def import_hint(shown: str) -> str:
    """Say what to do with a workflow."""
    return f"this is a workflow of AWF: codeagent recipes import {shown} converts it into a recipe and a tool file"


def _is_foreign(step: Any) -> bool:
    return isinstance(step, dict) and not _ONLY_THERE.isdisjoint(step)
