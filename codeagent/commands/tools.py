"""`codeagent tools`: lists the tools of a run, trusts a project's own, checks a tool file, and
calls one tool.

`run` makes a call with a script instead of a model, so the call takes the usual path.
"""

import argparse
import json
import tempfile
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.commands.arguments import (
    add_choice_of_tools,
    add_cwd,
    named_inputs,
    print_json,
    read_named,
    say,
    settings_of,
    workspace_of,
)
from codeagent.commands.tool_call import ToolCallReader, call_arguments
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.sessions import Task
from codeagent.core.acts import RunRecipe
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.recipes import Recipe, RecipeInput, RecipeStep, checked_values
from codeagent.core.sanitize import one_line, visible_json
from codeagent.core.tool import Denied, NotFound, Tool, ToolDefinition
from codeagent.core.toolbox import Toolbox
from codeagent.extensions.openapi.command import (
    add_document,
    add_document_arguments,
    check_document,
    document_files,
    is_document,
    remove_document,
)
from codeagent.extensions.toolsets.command import list_sets, split_set, tools_of
from codeagent.extensions.user_tools.python import PythonLoader, marked_in
from codeagent.tools.catalog import Named, ToolCatalog
from codeagent.tools.folders import LARGEST_FILE, Loaded, ToolFile
from codeagent.tools.schema import tool_schema

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_UNTRUSTED = (
    "not loaded: this project's tool files are not trusted as they are now; read them, then run "
    "codeagent tools trust"
)
_IMPORTED = "--trust-project imports it, which finds more"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="every tool, and the problems of tool files")
    listing.add_argument("--json", action="store_true", help="as one JSON list")
    listing.add_argument(
        "--problems",
        action="store_true",
        help="only the problems of tool files; exit code 1 if there are any",
    )
    showing = actions.add_parser("show", help="one tool with its arguments")
    showing.add_argument("name", metavar="NAME")
    showing.add_argument("--json", action="store_true", help="as one JSON object")
    sets = actions.add_parser("sets", help="the sets of further tools, and how each is doing")
    sets.add_argument("name", metavar="NAME", nargs="?", help="the tools of this set")
    sets.add_argument("--json", action="store_true", help="as one JSON list")
    splitting = actions.add_parser(
        "split", help="have a model divide a large set into smaller ones, once"
    )
    splitting.add_argument("name", metavar="NAME")
    splitting.add_argument(
        "--model", metavar="M", help="any model that --model of codeagent run takes"
    )
    splitting.add_argument("--api-base", metavar="URL", help="address of the model's server")
    splitting.add_argument(
        "--again", action="store_true", help="also if it was split and has the same tools"
    )
    checking = actions.add_parser(
        "check", help="every problem of a tool file, without using its tools"
    )
    checking.add_argument("file", metavar="FILE", type=Path, help="relative to the workspace")
    add_document_arguments(actions)
    trusting = actions.add_parser(
        "trust", help="trust this project's tool files as they are now, in this folder"
    )
    distrusting = actions.add_parser("distrust", help="stop trusting this project's tool files")
    running = actions.add_parser("run", help="call a tool as a model would, to try it")
    running.add_argument("name", metavar="NAME")
    running.add_argument(
        "given",
        metavar="ARG=VALUE",
        nargs="*",
        help="an argument; VALUE is JSON unless the parameter is text",
    )
    running.add_argument("--json", metavar="OBJECT", help="all arguments as one JSON object")
    running.add_argument(
        "--yes", action="store_true", help="approve the call; what is denied stays denied"
    )
    running.add_argument(
        "--sandbox", choices=("docker", "off"), help="off runs commands on this machine"
    )
    for action in (checking, running):
        action.add_argument(
            "--input",
            metavar="NAME=VALUE",
            action="append",
            default=[],
            help="an input of the tool; repeatable",
        )
    for action in (listing, showing, running):
        add_choice_of_tools(action)
    add_cwd(listing, showing, checking, running, trusting, distrusting, sets, splitting)
    for action in (listing, showing, checking, running):
        action.add_argument(
            "--trust-project",
            action="store_true",
            help="load the project's tool files as they are now",
        )


def main(args: argparse.Namespace, app: "App") -> int | Coroutine[Any, Any, int]:
    trust = getattr(args, "trust_project", False)
    local = LocalEnvironment.of_user(workspace_of(args.cwd), trust_project=trust)
    match args.action:
        case "list":
            return _list(args, local, app)
        case "show":
            return _show(args, local, app)
        case "sets":
            return list_sets(args, local, app)
        case "split":
            return split_set(args, local, app)
        case "add":
            return add_document(args, local, app)
        case "remove":
            return remove_document(args, local)
        case "check" if is_document(local.workspace / args.file):
            return check_document(local.workspace / args.file, str(args.file))
        case "check":
            tools = app.describe_tools(local)
            return _check(args.file, local, tools, named_inputs(args.input))
        case "trust":
            return _trust(local, app)
        case "distrust":
            return _distrust(local, app)
        case _:
            return _run(args, local, app)


async def _trust(local: LocalEnvironment, app: "App") -> int:
    catalog, documents = app.describe_tools(local), document_files(local)
    waiting = (
        *catalog.now.untrusted,
        *(f"{one.name} (OpenAPI)" for one in documents.read() if not one.trusted),
    )
    if not waiting:
        print("nothing to trust: this project has no tool files, or they are already trusted")
        return 0
    await catalog.trust()
    documents.trust()
    print(f"trusted as they are now, for this folder: {one_line(', '.join(waiting), 1000)}")
    return 0


async def _distrust(local: LocalEnvironment, app: "App") -> int:
    await app.describe_tools(local).distrust()
    document_files(local).distrust()
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
    widest = max((len(facts["name"]) for facts in found), default=0) + 2
    for facts in found:
        start = f"{facts['name']:<{widest}}{facts['approval']:<8}{facts['source']:<9}"
        print(start + one_line(facts["description"], 80))
        toolset = f"toolset {facts['toolset']}" if facts["toolset"] else ""
        if where := ", ".join(filter(None, (facts["origin"], toolset))):
            print(f"{'':<{widest}}{one_line(where, 100)}")
    return 0


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
    print(visible_json(json.dumps(facts, indent=2)) if args.json else _described(facts))
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
    lines = [
        f"{facts['name']} ({facts['source']}, approval: {facts['approval']})",
        facts["description"],
    ]
    lines += [f"from {facts['origin']}", ""] if facts["origin"] else [""]
    for name, schema in facts["parameters"].get("properties", {}).items():
        kind = schema.get("type") or "/".join(
            str(option.get("type")) for option in schema.get("anyOf", [])
        )
        needed = "required" if name in required else "optional"
        lines.append(f"  {name:<16}{kind}, {needed}. {schema.get('description', '')}".rstrip())
    if facts["restrictions"]:
        lines += ["", "restricted to"]
        lines += [
            f"  {name:<16}{', '.join(values)}" for name, values in facts["restrictions"].items()
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

    A Python file is imported only if it is
    trusted as it is now, because importing runs it; other Python files are only read.
    """
    path, shown = local.workspace / given, str(given)
    own = local.config_dir
    is_own = own is not None and path.resolve().is_relative_to(own.resolve())
    file = ToolFile(
        path, shown, read_named(path, shown, LARGEST_FILE), "user" if is_own else "project"
    )
    trusted = is_own or local.trust_project or tools.has_loaded(file.content)
    found: Sequence[Named]
    if path.name.endswith(PythonLoader.suffixes) and not trusted:
        names, problems = marked_in(file)
        loaded = Loaded(problems=tuple(problems))
        found = [_Marked(name, shown) for name in names]
    else:
        loaded, trusted = tools.load(file), True
        found = loaded.tools
        names = [tool.name for tool in found]
        names += [f"toolset {group.name}" for group in loaded.groups]
        names += [f"agent {agent.name}" for agent in loaded.agents]
    wrong = [*loaded.problems, *tools.refusals(file, found), *tools.misnamed_agents(loaded.agents)]
    for problem in wrong:
        say(f"{problem.level}: {problem}" if problem.level == "warning" else str(problem))
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
    from codeagent.extensions.user_tools.yaml_tools import (
        inputs_of,
        restricted_with,
    )  # only tools of YAML files have inputs

    declared = {one.name: one for tool in tools for one in inputs_of(tool)}
    values = checked_values(tuple(declared.values()), given, f"{shown}: these inputs do not fit:")
    for tool in tools:
        try:
            restrictions = restricted_with(tool, values)
        except Denied as error:
            raise ConfigError(f"{shown}: {tool.name}: {error}") from None
        for name, held in restrictions.items():
            print(f"{tool.name}: {name}: {one_line(', '.join(held), 400)}")


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
    inputs: tuple[RecipeInput, ...] = ()
    if tool.source == "yaml":
        from codeagent.extensions.user_tools.yaml_tools import (
            inputs_of,
        )  # only tools of YAML files have inputs

        inputs = inputs_of(tool)
    values = checked_values(inputs, given, f"{tool.name} was not run; see --input:")
    steps = (RecipeStep("1", "Call the tool."),)
    return RunRecipe(
        Recipe(tool.name, "", steps, tool.origin, "user", inputs, trusted=True), values
    )


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
