"""The keys that are allowed in a recipe, as a prompt with front matter or as a file of steps.

Errors, documentation and the editors' schema come from this one model.
"""

from typing import Any

from pydantic import BaseModel, Field

from codeagent.core.policy import Mode, NetworkLevel
from codeagent.core.recipes import NAME
from codeagent.tools.files.fields import InputFields, LimitFields, Tools, Version, YamlSection


class _Scope(YamlSection):
    tools: Tools = Field(
        default=None, description="The only tools that may be called; others are not sent."
    )
    model: str | None = Field(
        default=None, min_length=1, description="As in `--model`; default: the session's."
    )
    mode: Mode | None = Field(default=None, description="A project's recipe can only tighten it.")
    network: NetworkLevel | None = Field(
        default=None, description="What commands may reach; it can only tighten."
    )
    limits: LimitFields = Field(
        default=LimitFields(), description="A project's recipe can only lower them."
    )


class PromptFields(_Scope):
    """The front matter of `NAME.md`; the text below it is the prompt."""

    name: str | None = Field(
        default=None, pattern=f"^{NAME.pattern}$", description="Default: the file's."
    )
    version: Version = Field(default="", description="For readers; it has no effect.")
    description: str = Field(default="", description="One line for the list.")
    inputs: list[InputFields] = Field(default_factory=list, description="What the user gives.")


class StepFields(_Scope):
    """One step; keys that it leaves out are taken from the top of the file."""

    id: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="For `{{steps.ID.text}}`; default: its number.",
    )
    prompt: str = Field(
        min_length=1, description="With `{{inputs.x}}`, and `{{steps.ID.text}}` of steps before it."
    )


class RecipeFields(PromptFields):
    """A file of steps."""

    steps: list[StepFields] = Field(
        min_length=1, max_length=100, description="The steps in order; each is a run of its own."
    )


def recipe_schema() -> dict[str, Any]:
    """The JSON Schema of a file of steps, for editors."""
    schema = RecipeFields.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "A recipe of codeagent",
    }


SECTIONS: dict[str, type[BaseModel]] = {
    "": RecipeFields,
    "inputs": InputFields,
    "limits": LimitFields,
    "steps": StepFields,
}
PROMPT_SECTIONS = SECTIONS | {"": PromptFields}
