"""`codeagent recipes`: lists, shows and checks recipes, and trusts a project's; also reads
`--recipe`."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.commands.actions import actions_in
from codeagent.commands.arguments import (
    add_cwd,
    add_flag,
    completed_by,
    named_inputs,
    print_json,
    read_named,
    say,
    say_problems,
    workspace_of,
)
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import LIMITS, Settings
from codeagent.console.table import Column, print_table
from codeagent.core.acts import RunRecipe
from codeagent.core.errors import ConfigError
from codeagent.core.recipes import (
    Recipe,
    Recipes,
    RecipeStep,
    StepLimits,
    find_recipe,
    require_trust,
)
from codeagent.core.sanitize import one_line, visible
from codeagent.tools.folders import LARGEST_FILE, ToolFile

if TYPE_CHECKING:
    from codeagent.commands.ports import App
    from codeagent.tools.catalog import ToolCatalog

_COLUMNS = (Column("RECIPE", "cyan"), Column(), Column("DOES"))
_UNTRUSTED = "not trusted as they are now; read them, then run codeagent recipes trust"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = actions_in(parser)
    listing = actions.add_parser("list", help="every recipe, and the problems of their files")
    add_flag(listing, "--json", "as one JSON list")
    showing = actions.add_parser("show", help="one recipe with its inputs and steps")
    completed_by(showing.add_argument("name", metavar="NAME"), "recipes")
    add_flag(showing, "--json", "as one JSON object")
    checking = actions.add_parser("check", help="every problem of a recipe's file")
    checking.add_argument("file", metavar="FILE", type=Path, help="relative to the workspace")
    importing = actions.add_parser(
        "import", help="convert a workflow of AWF into a recipe and a tool file"
    )
    importing.add_argument("file", metavar="FILE", type=Path, help="relative to the workspace")
    importing.add_argument(
        "--to", metavar="DIR", help="write into this folder of the workspace, such as .codeagent"
    )
    importing.add_argument(
        "--name", metavar="NAME", help="the name of the recipe (default: the workflow's)"
    )
    add_flag(importing, "--partly", "write it even if something in the workflow has no counterpart")
    actions.add_parser("trust", help="trust this project's recipes as they are now, in this folder")
    actions.add_parser("distrust", help="stop trusting this project's recipes")
    add_cwd(*actions.choices.values())


def main(args: argparse.Namespace, app: "App") -> int:
    """Run the command. Raises ConfigError."""
    local = LocalEnvironment.of_user(workspace_of(args.cwd))
    match args.action:
        case "check":
            return _check(local.workspace / args.file, str(args.file), local, app)
        case "import":
            from codeagent.extensions.recipes.import_command import (
                import_workflow,
            )  # reads YAML, which a list need not

            return import_workflow(args, local, app)
        case "list":
            return _list(app.read_recipes(local), as_json=args.json)
        case "show":
            return _show(find_recipe(app.read_recipes(local), args.name), as_json=args.json)
        case "trust":
            return _trust(app.read_recipes(local))
        case _:
            app.read_recipes(local).distrust()
            print("the recipes of this project are no longer trusted")
            return 0


def chosen_recipe(
    args: argparse.Namespace, settings: Settings, local: LocalEnvironment, app: "App"
) -> tuple[RunRecipe, Settings]:
    """Return the recipe and inputs of `--recipe` and `--input`. Raises ConfigError."""
    if args.prompt is not None:
        raise ConfigError("give PROMPT or --recipe, not both; nothing was run")
    given = named_inputs(args.input)
    _refuse_file(args.recipe, local)
    recipe = find_recipe(app.read_recipes(local), args.recipe)
    require_trust(recipe)
    firm = args.mode is not None or any(getattr(args, name, None) is not None for name in LIMITS)
    resumed = args.resume is not None or args.go_on
    run = RunRecipe(recipe, recipe.values(given), tightens=firm, proceed=resumed)
    return run, settings


def _refuse_file(given: str, local: LocalEnvironment) -> None:
    """Raise ConfigError if a file is given instead of a name."""
    path = local.workspace / given
    if not given.endswith((".yaml", ".yml", ".md")) or not path.is_file():
        return
    from codeagent.extensions.recipes.reading import load_recipe  # only to say what the file is

    loaded = load_recipe(ToolFile(path, given, read_named(path, given, LARGEST_FILE), "project"))
    problems = [str(problem) for problem in loaded.problems if problem.level == "error"]
    by_name = "recipes are run by name, and are read from commands/ and .codeagent/commands/"
    raise ConfigError(
        "; ".join(
            [*(problems or [f"{one_line(given, 200)} is a file: {by_name}"]), "nothing was run"]
        )
    )


def _list(recipes: Recipes, *, as_json: bool) -> int:
    if as_json:
        print_json([_facts(recipe) for recipe in recipes.listed])
    elif not recipes.listed and not recipes.problems:
        print("no recipe is here; they are read from commands/ and .codeagent/commands/")
    else:
        rows = [
            (
                f"/{one.name} {one.usage}".rstrip(),
                "" if one.trusted else "not trusted",
                one.description,
            )
            for one in recipes.listed
        ]
        print_table(_COLUMNS, rows, _lines(recipes))
    say_problems(recipes.problems)
    if recipes.untrusted:
        say(f"{', '.join(map(visible, recipes.untrusted))}: {_UNTRUSTED}")
    return 0


def _lines(recipes: Recipes) -> Iterator[str]:
    for recipe in recipes.listed:
        mark = "" if recipe.trusted else " (not trusted)"
        yield f"{recipe.name:<20} {recipe.description}{mark}"
        yield f"{'':<20} {visible(recipe.where)}{': ' if recipe.usage else ''}{recipe.usage}"


def _show(recipe: Recipe, *, as_json: bool) -> int:
    if as_json:
        print_json(_facts(recipe))
        return 0
    print(f"{recipe.name} {recipe.version}".rstrip())
    print(
        f"{recipe.description}\nfrom {visible(recipe.where)}{'' if recipe.trusted else ' (not trusted)'}"
    )
    widest = max([14, *(len(one.name) for one in recipe.inputs)]) + 2
    for one in recipe.inputs:
        needed = (
            "required"
            if one.required
            else "optional"
            if one.default is None
            else f"default {one.default}"
        )
        print(f"  {one.name:<{widest}}{one.means}, {needed}. {visible(one.description)}".rstrip())
    for step in recipe.steps:
        print(
            f"\n[{step.id}]{''.join(f' {word}' for word in _scope(step))}\n{visible(step.prompt.rstrip())}"
        )
    return 0


def _scope(step: RecipeStep) -> list[str]:
    """Return what applies to the step, as `key=value`."""
    given = {
        "tools": None if step.tools is None else ",".join(step.tools),
        "model": step.model,
        "mode": step.mode,
    }
    given |= {name: getattr(step.limits, name) for name in StepLimits.__dataclass_fields__}
    return [f"{name}={value}" for name, value in given.items() if value is not None]


def _facts(recipe: Recipe) -> dict[str, Any]:
    return {
        "name": recipe.name,
        "version": recipe.version,
        "description": recipe.description,
        "where": recipe.where,
        "trusted": recipe.trusted,
        "inputs": [
            {
                "name": one.name,
                "type": one.type,
                "required": one.required,
                "default": one.default,
                "choices": list(one.choices),
                "description": one.description,
            }
            for one in recipe.inputs
        ],
        "steps": [
            {
                "id": step.id,
                "prompt": step.prompt,
                **dict(word.split("=", 1) for word in _scope(step)),
            }
            for step in recipe.steps
        ],
    }


def _trust(recipes: Recipes) -> int:
    waiting = recipes.untrusted
    recipes.trust()
    print(
        "nothing waits for your trust"
        if not waiting
        else f"trusted as they are now: {', '.join(waiting)}"
    )
    return 0


def _misnamed(recipe: Recipe, catalog: "ToolCatalog") -> str:
    """Say what is wrong with the tools that the steps list, as far as it is known without starting
    a source.

    A tool of a file that waits for trust may be listed: the recipe runs once the file is trusted.
    """
    waiting = catalog.files.waiting()
    listed = (
        (step.id, [name for name in step.tools or () if name not in waiting])
        for step in recipe.steps
    )
    found = ((step, catalog.names.surely_misnamed_in(names)) for step, names in listed)
    return next((f"tools of step {name}: {wrong}" for name, wrong in found if wrong), "")


def _check(path: Path, shown: str, local: LocalEnvironment, app: "App") -> int:
    """Return 0 if the recipe can be used, 2 if not. Raises ConfigError if the file cannot be
    read."""
    from codeagent.extensions.recipes.reading import (
        load_recipe,  # only a check needs it, not a list
    )

    own = local.config_dir
    is_own = own is not None and path.resolve().is_relative_to(own.resolve())
    content = read_named(path, shown, LARGEST_FILE)
    loaded = load_recipe(ToolFile(path, shown, content, "user" if is_own else "project"))
    say_problems(loaded.problems)
    if loaded.recipe is None:
        return 2
    if wrong := _misnamed(loaded.recipe, app.describe_tools(local)):
        say(f"{shown}: {wrong}")
        return 2
    steps = len(loaded.recipe.steps)
    print(f"{shown}: /{loaded.recipe.name}, {steps} step{'s' * (steps != 1)}")
    return 0
