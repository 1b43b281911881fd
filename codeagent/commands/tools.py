"""`codeagent tools`: lists the tools of a run, trusts a project's own, checks a tool file, and
calls one tool.

`run` makes a call with a script instead of a model, so the call takes the usual path.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.commands.actions import OwnAction, add_actions, run_added
from codeagent.commands.arguments import (
    add_choice_of_tools,
    add_cwd,
    add_flag,
    add_list,
    add_sandbox,
    completed_by,
    named_inputs,
    print_json,
    read_named,
    refuse_if_off,
    say,
    say_problems,
    settings_of,
    workspace_of,
)
from codeagent.commands.tool_call import ToolCallReader, call_arguments
from codeagent.config.extensions import all_extensions, file_kind
from codeagent.config.layers import extensions_of
from codeagent.config.local_environment import LocalEnvironment, user_config_file
from codeagent.config.sessions import Task
from codeagent.config.settings import Settings
from codeagent.console.colour import for_eyes
from codeagent.console.table import Column, print_table
from codeagent.core.acts import RunRecipe
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.extension import InFolders, ProjectFiles, resolved
from codeagent.core.recipes import Recipe, RecipeInput, RecipeStep, checked_values
from codeagent.core.sanitize import one_line
from codeagent.core.tool import Denied, NotFound, Tool, ToolDefinition
from codeagent.core.toolbox import Toolbox
from codeagent.tools.catalog import ToolCatalog
from codeagent.tools.folders import LARGEST_FILE, DefinedTool, Loaded, ToolFile
from codeagent.tools.registry import Named
from codeagent.tools.schema import tool_schema

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_UNTRUSTED = (
    "not loaded: this project's tool files are not trusted as they are now; read them, then run "
    "codeagent tools trust"
)
_ON_SCREEN = {"auto": "allow", "prompt": "ask", "deny": "deny"}
"""What users read for each approval; programs read the names that files use."""
_COLUMNS = (
    Column("TOOL", "cyan"),
    Column("APPROVAL"),
    Column("FROM", "dim", cut=True),
    Column("DOES", cut=True),
)
_IMPORTED = "--trust-project imports it, which finds more"


def _add_list(parser: argparse.ArgumentParser) -> None:
    add_flag(parser, "--json", "as one JSON list")
    add_flag(parser, "--problems", "only the problems of tool files; exit code 1 if there are any")
    add_choice_of_tools(parser)
    _add_place(parser)


def _add_show(parser: argparse.ArgumentParser) -> None:
    completed_by(parser.add_argument("name", metavar="NAME"), "tools")
    add_flag(parser, "--json", "as one JSON object")
    add_choice_of_tools(parser)
    _add_place(parser)


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="relative to the workspace")
    _add_inputs(parser)
    _add_place(parser)


def _add_run(parser: argparse.ArgumentParser) -> None:
    completed_by(parser.add_argument("name", metavar="NAME"), "tools")
    parser.add_argument(
        "given",
        metavar="ARG=VALUE",
        nargs="*",
        help="an argument; VALUE is JSON unless the parameter is text",
    )
    parser.add_argument("--json", metavar="OBJECT", help="all arguments as one JSON object")
    add_flag(parser, "--yes", "approve the call; what is denied stays denied")
    add_sandbox(parser, "off runs commands on this machine")
    _add_inputs(parser)
    add_choice_of_tools(parser)
    _add_place(parser)


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    add_list(parser, "--input", "NAME=VALUE", "an input of the tool; repeatable")


def _add_place(parser: argparse.ArgumentParser) -> None:
    add_cwd(parser)
    add_flag(parser, "--trust-project", "load the project's tool files as they are now")


_ACTIONS = {
    "list": OwnAction("every tool, and the problems of tool files", _add_list),
    "show": OwnAction("one tool with its arguments", _add_show),
    "check": OwnAction("every problem of a tool file, without using its tools", _add_check),
    "trust": OwnAction("trust this project's tool files as they are now, in this folder", add_cwd),
    "distrust": OwnAction("stop trusting this project's tool files", add_cwd),
    "run": OwnAction("call a tool as a model would, to try it", _add_run),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_actions(parser, "tools", _ACTIONS)


def main(args: argparse.Namespace, app: "App") -> int | Coroutine[Any, Any, int]:
    if args.action not in _ACTIONS:
        return run_added(args, app, "tools", _ACTIONS)
    trust = getattr(args, "trust_project", False)
    local = LocalEnvironment.of_user(workspace_of(args.cwd), trust_project=trust)
    match args.action:
        case "list":
            return _list(args, local, app)
        case "show":
            return _show(args, local, app)
        case "check":
            path = local.workspace / args.file
            for check in (each.check for each in _files_of_extensions() if each.check):
                code: int | None = resolved(check)(path, str(args.file))
                if code is not None:
                    return code
            tools = app.describe_tools(local)
            return _check(args.file, local, tools, named_inputs(args.input))
        case "trust":
            return _trust(local, app)
        case "distrust":
            return _distrust(local, app)
        case _:
            return _run(args, local, app)


def _files_of_extensions() -> Iterator[InFolders]:
    """Yield what the extensions that are on say of their files. Raises ConfigError."""
    for each in extensions_of(user_config_file()).on:
        yield each.in_folders


def _project_files(local: LocalEnvironment, each_of: Iterable[InFolders]) -> list[ProjectFiles]:
    """Return the files of the project, besides those of tools, that need trust."""
    return [resolved(each.trust)(local) for each in each_of if each.trust]


@asynccontextmanager
async def tools_of(
    args: argparse.Namespace, local: LocalEnvironment, app: "App"
) -> AsyncIterator[ToolCatalog]:
    """Return the tools of a conversation with these arguments, including toolsets that are on from
    its start.

    Raises CodeagentError.
    """
    settings = await asyncio.to_thread(settings_of, args, local.workspace)
    catalog = await asyncio.to_thread(app.describe_tools, local, settings)
    if wrong := catalog.unlisted(certain=True):
        raise ConfigError(wrong[0])
    try:
        await catalog.toolsets.first_ready()
        await catalog.refresh()
        yield catalog
    finally:
        await catalog.toolsets.sources.close()


async def _trust(local: LocalEnvironment, app: "App") -> int:
    catalog = app.describe_tools(local)
    others = _project_files(local, _files_of_extensions())
    waiting = [*catalog.now.untrusted, *(name for files in others for name in files.untrusted())]
    if not waiting:
        print("nothing to trust: this project has no tool files, or they are already trusted")
        return 0
    await catalog.files.trust()
    for files in others:
        files.trust()
    print(f"trusted as they are now, for this folder: {one_line(', '.join(waiting), 1000)}")
    return 0


async def _distrust(local: LocalEnvironment, app: "App") -> int:
    # Trust would outlast the switch, so this is about the files of those that are off, too.
    await app.describe_tools(local, Settings()).files.distrust()
    every = (each.in_folders for each in all_extensions().on)
    for files in _project_files(local, every):
        files.distrust()
    print("this project's tool files will not be loaded from now on")
    return 0


async def _list(args: argparse.Namespace, local: LocalEnvironment, app: "App") -> int:
    async with tools_of(args, local, app) as tools:
        box = tools.now
        definitions = {definition.name: definition for definition in tools.definitions()}
        found = [_facts(tool, definitions[tool.name]) for tool in tools]
    for facts, now in zip(found, box.tools, strict=True):
        facts["toolset"] = now.toolset
    if args.problems:
        return _problems(box, as_json=args.json)
    _complain(box)
    if args.json:
        print_json(found)
        return 0
    rows = [
        (
            facts["name"],
            _ON_SCREEN[facts["approval"]],
            _where(facts) or facts["source"],
            facts["description"],
        )
        for facts in found
    ]
    print_table(_COLUMNS, rows, _plain_list(found))
    return 0


def _plain_list(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    widest = max((len(facts["name"]) for facts in found), default=0) + 2
    for facts in found:
        start = f"{facts['name']:<{widest}}{facts['approval']:<8}{facts['source']:<9}"
        yield start + one_line(facts["description"], 80)
        if where := _where(facts):
            yield f"{'':<{widest}}{one_line(where, 100)}"


def _where(facts: Mapping[str, Any]) -> str:
    toolset = f"toolset {facts['toolset']}" if facts["toolset"] else ""
    return ", ".join(filter(None, (facts["origin"], toolset)))


def _problems(box: Toolbox, *, as_json: bool) -> int:
    if as_json:
        found = [{"where": one.where, "level": one.level, "text": one.text} for one in box.problems]
        found += [
            {"where": name, "level": "untrusted", "text": _UNTRUSTED} for name in box.untrusted
        ]
        print_json(found)
    else:
        for problem in box.problems:
            print(f"{problem.level}: {one_line(str(problem), 1000)}")
        for name in box.untrusted:
            print(f"untrusted: {one_line(name, 200)}: {_UNTRUSTED}")
    return 1 if box.problems or box.untrusted else 0


def _complain(box: Toolbox) -> None:
    """Report on standard error why an expected tool is missing."""
    for problem in box.problems:
        say(f"codeagent: {problem.level}: {one_line(str(problem), 1000)}")
    for name in box.untrusted:
        say(f"codeagent: {one_line(name, 200)}: {_UNTRUSTED}")


async def _show(args: argparse.Namespace, local: LocalEnvironment, app: "App") -> int:
    async with tools_of(args, local, app) as tools:
        try:
            tool = tools.get(args.name)
        except (NotFound, Denied) as error:
            _complain(tools.now)
            say(f"codeagent: {error}")
            return 2
        [definition] = [one for one in tools.definitions() if one.name == tool.name]
    facts = _facts(tool, definition)
    if args.json:
        print_json(facts)
    else:
        print(_described(facts))
    return 0


def _facts(tool: Tool[Any], definition: ToolDefinition) -> dict[str, Any]:
    return {
        "name": tool.name,
        "label": tool.label,
        "source": tool.source,
        "origin": tool.origin,
        "description": definition.description,
        "approval": tool.permission,
        "effect": tool.effect,
        "mode": tool.mode,
        "concurrency": tool.concurrency,
        "sandboxed": tool.sandboxed,
        "hint": tool.hint,
        "timeout": tool.timeout,
        "max_calls": tool.max_calls,
        "require_info": tool.require_info,
        "restrictions": {name: list(values) for name, values in tool.restricted.items()},
        "parameters": definition.parameters,
    }


def _described(facts: dict[str, Any]) -> str:
    required = facts["parameters"].get("required", [])
    approval = facts["approval"]
    approval = _ON_SCREEN[approval] if for_eyes(sys.stdout) else approval
    lines = [f"{facts['name']} ({facts['source']}, approval: {approval})", facts["description"]]
    lines += [f"from {facts['origin']}", ""] if facts["origin"] else [""]
    parameters = facts["parameters"].get("properties", {})
    widest = max([14, *map(len, (*parameters, *facts["restrictions"]))]) + 2
    for name, schema in parameters.items():
        kind = schema.get("type") or "/".join(
            str(option.get("type")) for option in schema.get("anyOf", [])
        )
        needed = "required" if name in required else "optional"
        lines.append(
            f"  {name:<{widest}}{kind}, {needed}. {schema.get('description', '')}".rstrip()
        )
    if facts["restrictions"]:
        lines += ["", "restricted to"]
        lines += [
            f"  {name:<{widest}}{', '.join(values)}"
            for name, values in facts["restrictions"].items()
        ]
    return "\n".join(lines)


@dataclass(frozen=True)
class _Marked:
    """A tool of a Python file that was not imported."""

    name: str
    origin: str
    source: str = "python"


def _check(
    given: Path, local: LocalEnvironment, tools: ToolCatalog, inputs: Mapping[str, str]
) -> int:
    """Return 0 if the tools in the `given` file can be used, with these inputs, 2 if not.

    Raises ConfigError if the file cannot be read, or the inputs do not fit.

    `path` is absolute, `shown` is its name in messages. A file that runs when it is loaded, such as
    a Python file, is loaded only if it is trusted as it is now; else it is only read.
    """
    path, shown = local.workspace / given, str(given)
    loads = file_kind(path.name)
    if loads is not None:
        refuse_if_off(loads[0].name, shown)
    own = local.config_dir
    is_own = own is not None and path.resolve().is_relative_to(own.resolve())
    file = ToolFile(
        path, shown, read_named(path, shown, LARGEST_FILE), "user" if is_own else "project"
    )
    trusted = is_own or local.trust_project or tools.files.has_loaded(file.content)
    found: Sequence[Named]
    if loads is not None and (look := loads[1].look) and not trusted:
        names, problems = resolved(look)(file)
        loaded = Loaded(problems=tuple(problems))
        found = [_Marked(name, shown) for name in names]
    else:
        loaded, trusted = tools.files.load(file), True
        found = loaded.tools
        names = [tool.name for tool in found]
        names += [f"toolset {group.name}" for group in loaded.groups]
        names += [f"agent {agent.name}" for agent in loaded.agents]
    wrong = [
        *loaded.problems,
        *tools.refusals(file, found),
        *tools.names.misnamed_agents(loaded.agents),
    ]
    say_problems(wrong)
    if any(problem.level == "error" for problem in wrong):
        return 2
    print(f"{shown}: {', '.join(names) or 'no tool'}")
    if inputs:
        _check_inputs(shown, loaded.tools, inputs)
    if not trusted:
        say(f"{shown}: read and not imported, because it is not trusted as it is; {_IMPORTED}")
    return 0


def _check_inputs(shown: str, tools: Sequence[Tool[Any]], given: Mapping[str, str]) -> None:
    """Print the restrictions of each tool with these inputs. Raises ConfigError if they do not
    fit."""
    declared = {one.name: one for tool in tools for one in _inputs_of(tool)}
    values = checked_values(tuple(declared.values()), given, f"{shown}: these inputs do not fit:")
    for tool in tools:
        try:
            restrictions = (
                tool.restricted_with(values) if isinstance(tool, DefinedTool) else tool.restricted
            )
        except Denied as error:
            raise ConfigError(f"{shown}: {tool.name}: {error}") from None
        for name, held in restrictions.items():
            print(f"{tool.name}: {name}: {one_line(', '.join(held), 400)}")


def _inputs_of(tool: Tool[Any]) -> tuple[RecipeInput, ...]:
    return tool.inputs if isinstance(tool, DefinedTool) else ()


async def _run(args: argparse.Namespace, local: LocalEnvironment, app: "App") -> int:
    """Return the exit code: 0 if it succeeded, 1 if it failed, 2 if the call was invalid, 4 if it
    was not allowed.

    Raises ConfigError.
    """
    async with tools_of(args, local, app) as tools:
        try:
            tool = tools.get(args.name)
        except (NotFound, Denied) as error:
            waiting = ", ".join(tools.now.untrusted)
            hint = (
                f"; not trusted as it is now: {waiting}; read it, then run codeagent tools trust"
                if waiting
                else ""
            )
            raise ConfigError(f"{error}{hint}") from None
        arguments = (
            args.json if args.json is not None else call_arguments(args.given, tool_schema(tool))
        )
        recipe = _as_recipe(tool, named_inputs(args.input))
    if args.json is not None and args.given:
        raise ConfigError("give --json or ARG=VALUE, not both; nothing was run")
    return await _call(args, local, app, arguments, recipe)


def _as_recipe(tool: Tool[Any], given: Mapping[str, str]) -> RunRecipe:
    """Return a recipe whose only step calls the tool with these inputs. Raises ConfigError if they
    do not fit."""
    inputs = _inputs_of(tool)
    values = checked_values(inputs, given, f"{tool.name} was not run; see --input:")
    steps = (RecipeStep("1", "Call the tool."),)
    recipe = Recipe(tool.name, "", steps, tool.origin, place="user", inputs=inputs, trusted=True)
    return RunRecipe(recipe, values)


async def _call(
    args: argparse.Namespace, local: LocalEnvironment, app: "App", arguments: str, recipe: RunRecipe
) -> int:
    with tempfile.TemporaryDirectory(prefix="codeagent-") as folder:
        script = Path(folder) / "call.json"
        script.write_text(
            json.dumps([{"calls": [[args.name, arguments]]}, {"text": "Done."}]), encoding="utf-8"
        )
        args.model = f"script:{script}"
        args.mode = "ask"
        settings = settings_of(args, local.workspace)
        front = ToolCallReader(local.redactor, approve=args.yes)
        task = Task(
            recipe if recipe.values else "Call the tool.", local, settings, lists_changes=False
        )
        await app.work(task, front)
        return front.code
