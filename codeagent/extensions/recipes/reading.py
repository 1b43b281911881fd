"""Makes recipes of files: prompts with front matter, files of steps, and the commands of other
programs.

It only parses: nothing of a file runs or takes effect before the recipe is run.
"""

import re
from collections.abc import Iterable, Sequence

from codeagent.core.dataclass import dataclass
from codeagent.core.recipes import (
    ARGUMENTS,
    NAME,
    PLACEHOLDER,
    RESERVED,
    Recipe,
    RecipeInput,
    RecipeStep,
)
from codeagent.core.sanitize import one_line
from codeagent.core.toolbox import ToolProblem
from codeagent.core.yaml_text import Path, Unreadable, YamlDocument, documents, front_matter
from codeagent.extensions.recipes.model import (
    PROMPT_SECTIONS,
    SECTIONS,
    PromptFields,
    RecipeFields,
    StepFields,
)
from codeagent.tools.faults import kind_of, nearest_or_all
from codeagent.tools.files.fields import declared_inputs
from codeagent.tools.files.report import YamlReport, validated
from codeagent.tools.files.workflows import import_hint, is_workflow
from codeagent.tools.folders import ToolFile

_FOREIGN = ".claude/commands/"
"""The folder in which another program has its commands."""
_MEANT = re.compile(r"\{\{\s*[A-Za-z_][\w.-]*\s*\}\}")
_LONGEST_DESCRIPTION = 200
_NOT_USED = {
    "allowed-tools": "a recipe allows nothing here; what may run is asked about as always",
    "model": "it names a model of another program; /model chooses one",
    "hooks": "no hooks are taken from a command",
}
_USED = ("description", "argument-hint")
_RUNS = re.compile(r"!`[^`\n]+`")


@dataclass(frozen=True)
class LoadedRecipe:
    """The recipe of a file; None if there is an error."""

    recipe: Recipe | None
    problems: tuple[ToolProblem, ...] = ()


def load_recipe(file: ToolFile) -> LoadedRecipe:
    """Never raises: a broken file is a problem and disables only itself."""
    try:
        if file.path.suffix in (".yaml", ".yml"):
            return _load_steps(file)
        found, body = front_matter(file.content)
        head = found or YamlDocument({}, {})
        report = YamlReport(file, head)
        if file.place == "project" and file.shown.startswith(_FOREIGN):
            recipe = _foreign(file, head, body, report)
        else:
            recipe = _prompt(file, head, body, report)
    except Unreadable as error:
        return LoadedRecipe(None, (ToolProblem(f"{file.shown}:{error.line}", str(error)),))
    return LoadedRecipe(None if report.has_errors else recipe, report.problems)


def _load_steps(file: ToolFile) -> LoadedRecipe:
    found = documents(file.content)
    if len(found) != 1:
        return LoadedRecipe(
            None, (ToolProblem(f"{file.shown}:1", "a recipe is one document with steps"),)
        )
    report = YamlReport(file, found[0])
    if is_workflow(found[0].value):
        report.error((), import_hint(file.shown))
        return LoadedRecipe(None, report.problems)
    recipe = _steps(file, found[0], report)
    return LoadedRecipe(None if report.has_errors else recipe, report.problems)


def _prompt(file: ToolFile, head: YamlDocument, body: str, report: YamlReport) -> Recipe | None:
    if (fields := validated(PromptFields, head.value, report, PROMPT_SECTIONS)) is None:
        return None
    if not body.strip():
        report.error((), "the prompt below the front matter is missing")
    inputs = declared_inputs(fields.inputs, ("inputs",), report)
    step = _step(StepFields(prompt=body or " "), fields, "1")
    _check_placeholders([((), step)], inputs, report)
    return _recipe(file, fields, (step,), inputs, report)


def _steps(file: ToolFile, document: YamlDocument, report: YamlReport) -> Recipe | None:
    if isinstance(document.value, dict) and "steps" not in document.value:
        report.error((), "a recipe in YAML has steps; a prompt of one step is a file NAME.md")
        return None
    if (fields := validated(RecipeFields, document.value, report, SECTIONS)) is None:
        return None
    inputs = declared_inputs(fields.inputs, ("inputs",), report)
    steps = [_step(one, fields, str(number)) for number, one in enumerate(fields.steps, 1)]
    for at, step in enumerate(steps):
        if step.id in [other.id for other in steps[:at]]:
            report.error(("steps", at, "id"), f"there is another step {step.id}")
    _check_placeholders(
        [(("steps", at, "prompt"), step) for at, step in enumerate(steps)], inputs, report
    )
    return _recipe(file, fields, tuple(steps), inputs, report)


def _step(fields: StepFields, outer: PromptFields, number: str) -> RecipeStep:
    """Return a step, with keys that it leaves out taken from those of all steps."""
    tools = fields.tools if fields.tools is not None else outer.tools
    return RecipeStep(
        fields.id or number,
        fields.prompt,
        None if tools is None else tuple(dict.fromkeys(tools)),
        model=fields.model or outer.model,
        mode=fields.mode or outer.mode,
        limits=fields.limits.over(outer.limits),
        network=fields.network or outer.network,
    )


def _recipe(
    file: ToolFile,
    fields: PromptFields,
    steps: tuple[RecipeStep, ...],
    inputs: tuple[RecipeInput, ...],
    report: YamlReport,
) -> Recipe:
    name = fields.name or file.path.stem
    _check_name(name, report)
    about = one_line(fields.description or _first_line(steps[0].prompt), _LONGEST_DESCRIPTION)
    return Recipe(
        name,
        about,
        steps,
        where=file.shown,
        place=file.place,
        inputs=inputs,
        version=fields.version,
        trusted=file.place == "user",
    )


def _check_name(name: str, report: YamlReport) -> None:
    if NAME.fullmatch(name) is None:
        report.error(
            ("name",), f"{one_line(name, 64)!r} is not a name; use 1 to 64 letters, digits, _ or -"
        )
    elif name.lower() in RESERVED:
        report.error(("name",), f"/{name.lower()} is built in; give the recipe another name")


def _first_line(prompt: str) -> str:
    return next((line.strip("# ") for line in prompt.splitlines() if line.strip("# ")), "")


def _check_placeholders(
    steps: Sequence[tuple[Path, RecipeStep]], inputs: Iterable[RecipeInput], report: YamlReport
) -> None:
    """Report placeholders that name nothing, and inputs that are not used."""
    known = [one.name for one in inputs]
    used: set[str] = set()
    before: list[str] = []
    for path, step in steps:
        for found in PLACEHOLDER.finditer(step.prompt):
            if (name := found["input"]) is not None:
                used.add(name)
                if name not in known:
                    hint = nearest_or_all(name, known, lambda one: f"{{{{inputs.{one}}}}}")
                    report.error(path, f"{found[0]} does not name an input{hint}", source=found[0])
            elif found["step"] not in before:
                report.error(path, f"{found[0]} does not name an earlier step", source=found[0])
        for meant in _MEANT.findall(step.prompt):
            if PLACEHOLDER.fullmatch(meant) is None:
                report.warn(
                    path, f"{meant} is not a placeholder; the model reads it as it is", source=meant
                )
        before.append(step.id)
    for at, name in enumerate(known):
        if name not in used:
            report.warn(("inputs", at), f"{name} is not used in a prompt")


def _foreign(file: ToolFile, head: YamlDocument, body: str, report: YamlReport) -> Recipe | None:
    """Read another program's command: only its prompt and description are used, not what would
    allow or run things."""
    if not isinstance(head.value, dict):
        report.error((), f"the front matter is a mapping, not {kind_of(head.value)}")
        return None
    if not body.strip():
        report.error((), "the prompt below the front matter is missing")
    for key in _NOT_USED.keys() & head.value.keys():
        report.warn((key,), _NOT_USED[key])
    for other in head.value.keys() - {*_NOT_USED, *_USED}:
        meant = nearest_or_all(other, [*_USED, *_NOT_USED], most=1)
        report.warn((other,), f"a command of another program has no such key here{meant}")
    for command in _RUNS.findall(body):
        report.warn(
            (), f"{one_line(command, 60)} is not run; the model reads it as it is", source=command
        )
    given = head.value.get("description")
    about = one_line(given if isinstance(given, str) else _first_line(body), _LONGEST_DESCRIPTION)
    hint = head.value.get("argument-hint")
    arguments = RecipeInput(
        ARGUMENTS, required=False, default="", description=hint if isinstance(hint, str) else ""
    )
    name = file.path.stem
    _check_name(name, report)
    step = RecipeStep("1", body)
    trusted = file.place == "user"
    return Recipe(
        name,
        about,
        (step,),
        where=file.shown,
        place=file.place,
        inputs=(arguments,),
        trusted=trusted,
        numbered=True,
    )
