"""The keys that tool files, recipes, agents and groups have in common: lengths of time, lists of
tools, limits and `inputs:`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from codeagent.core.budget import as_seconds
from codeagent.core.errors import ConfigError
from codeagent.core.patterns import checked_names, split_names
from codeagent.core.recipes import InputType, RecipeInput, StepLimits
from codeagent.core.yaml_text import Path
from codeagent.tools.faults import text_or_json
from codeagent.tools.files.report import YamlReport

INPUT_NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"


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


def _tools(value: Any) -> Any:
    """Accept names separated by commas as a list."""
    if not isinstance(value, str) and not (
        isinstance(value, list) and all(isinstance(one, str) for one in value)
    ):
        raise ValueError("write a list of the names of tools")
    try:
        return list(split_names(value) if isinstance(value, str) else checked_names(value))
    except ConfigError as error:
        raise ValueError(str(error)) from error


Tools = Annotated[list[str] | None, BeforeValidator(_tools, json_schema_input_type=list[str] | str)]
"""None only if the key is missing: a key without a value would else allow every tool."""


class LimitFields(YamlSection):
    """The limits of one step; those of the settings apply as well."""

    max_turns: int | None = Field(default=None, ge=1, description="Answers from the model.")
    max_calls: int | None = Field(default=None, ge=1, description="Tool calls.")
    max_tokens: int | None = Field(
        default=None, ge=1, description="Tokens, input and output together."
    )
    max_seconds: Seconds | None = Field(
        default=None, description="Elapsed time, as a number or as `10m`."
    )
    timeout_per_call: Seconds | None = Field(
        default=None, description="The time of each tool call, as a number of seconds or as `30s`."
    )
    budget: float | None = Field(
        default=None, gt=0, description="US dollars; needs a model whose price is known."
    )

    def over(self, outer: "LimitFields") -> StepLimits:
        """Return these limits, with those that are not set taken from the outer ones."""
        own = self.model_dump(exclude_none=True)
        return StepLimits(**{**outer.model_dump(exclude_none=True), **own})


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
            one.name,
            one.type,
            required,
            description=one.description,
            choices=tuple(one.choices or ()),
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
