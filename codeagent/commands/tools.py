"""`codeagent tools`: lists the tools of a run, trusts a project's own, and checks a tool file."""

import argparse
import json
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Literal

from codeagent.bootstrap import Place, describe_tools
from codeagent.commands.arguments import add_cwd, print_json, say, workspace_of
from codeagent.commands.tool_run import add_run_arguments, run_tool
from codeagent.config.paths import config_dir, state_dir
from codeagent.core.errors import ConfigError
from codeagent.core.redact import Redactor
from codeagent.core.sanitize import one_line, visible_json
from codeagent.core.tool import NotFound, Tool, ToolDefinition
from codeagent.core.toolbox import Toolbox
from codeagent.disk.opens import read_regular
from codeagent.session.outputs import FileOutputs
from codeagent.tools.catalog import ToolFile, ToolLoader
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.user.python import PythonLoader, marked_in
from codeagent.tools.user.yaml_loader import YamlLoader
from codeagent.workspace.files import LocalWorkspace

_UNTRUSTED = (
    "not loaded: this project's tool files are not trusted as they are now; read them, then codeagent tools trust"
)
_LARGEST = 1 << 20
_IMPORTED = "--trust-project imports it, which finds more"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="every tool, and what is wrong with which tool file")
    listing.add_argument("--json", action="store_true", help="as one JSON list")
    listing.add_argument(
        "--problems", action="store_true", help="only what is wrong with tool files; exit code 1 where anything is"
    )
    showing = actions.add_parser("show", help="one tool with its arguments")
    showing.add_argument("name", metavar="NAME")
    showing.add_argument("--json", action="store_true", help="as one JSON object")
    checking = actions.add_parser("check", help="everything that is wrong with a tool file; its tools are not used")
    checking.add_argument("file", metavar="FILE", type=Path, help="relative to the workspace")
    trusting = actions.add_parser(
        "trust", help="load this project's tool files as they are now, here and in later sessions"
    )
    distrusting = actions.add_parser("distrust", help="load no tool file of this project any more")
    running = actions.add_parser("run", help="call one tool as a model would, to try it")
    add_run_arguments(running)
    add_cwd(listing, showing, checking, running, trusting, distrusting)
    for action in (listing, showing, checking, running):
        action.add_argument(
            "--trust-project", action="store_true", help="load the project's tool files as they are now"
        )


def main(args: argparse.Namespace) -> int | Coroutine[Any, Any, int]:
    trust = getattr(args, "trust_project", False)
    place = Place(workspace_of(args.cwd), state_dir(), dict(os.environ), config_dir=config_dir(), trust_project=trust)
    match args.action:
        case "list":
            return _list(args, place)
        case "show":
            return _show(args, place)
        case "check":
            return check_file(place.workspace / args.file, str(args.file), place)
        case "trust":
            return _trust(place)
        case "distrust":
            return _distrust(place)
        case _:
            return run_tool(args, place)


async def _trust(place: Place) -> int:
    catalog = describe_tools(place)
    waiting = catalog.now.untrusted
    if not waiting:
        print("there is nothing to trust: this project has no tool files, or they are trusted as they are")
        return 0
    await catalog.trust()
    print(f"trusted as they are now, for this folder: {one_line(', '.join(waiting), 1000)}")
    return 0


async def _distrust(place: Place) -> int:
    await describe_tools(place).distrust()
    print("no tool file of this project is loaded from now on")
    return 0


def _list(args: argparse.Namespace, place: Place) -> int:
    tools = describe_tools(place)
    box = tools.now
    if args.problems:
        return _problems(box, as_json=args.json)
    _complain(box)
    definitions = {definition.name: definition for definition in tools.definitions()}
    found = [_facts(tool, definitions[tool.name]) for tool in tools]
    if args.json:
        print_json(found)
        return 0
    widest = max((len(facts["name"]) for facts in found), default=0) + 2
    for facts in found:
        start = f"{facts['name']:<{widest}}{facts['approval']:<8}{facts['source']:<9}"
        print(start + one_line(facts["description"], 80))
        if facts["origin"]:
            print(f"{'':<{widest}}{one_line(facts['origin'], 100)}")
    return 0


def _problems(box: Toolbox, *, as_json: bool) -> int:
    if as_json:
        found = [{"where": one.where, "level": one.level, "text": one.text} for one in box.problems]
        found += [{"where": name, "level": "untrusted", "text": _UNTRUSTED} for name in box.untrusted]
        print_json(found)
    else:
        for problem in box.problems:
            print(f"{problem.level}: {one_line(str(problem), 1000)}")
        for name in box.untrusted:
            print(f"untrusted: {one_line(name, 200)}: {_UNTRUSTED}")
    return 1 if box.problems or box.untrusted else 0


def _complain(box: Toolbox) -> None:
    """Say on standard error why an expected tool is missing."""
    for problem in box.problems:
        say(f"codeagent: {problem.level}: {one_line(str(problem), 1000)}")
    for name in box.untrusted:
        say(f"codeagent: {one_line(name, 200)}: {_UNTRUSTED}")


def _show(args: argparse.Namespace, place: Place) -> int:
    tools = describe_tools(place)
    try:
        tool = tools.get(args.name)
    except NotFound as error:
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
        "restrictions": {name: list(values) for name, values in tool.restricted.items()},
        "parameters": definition.parameters,
    }


def _described(facts: dict[str, Any]) -> str:
    required = facts["parameters"].get("required", [])
    lines = [f"{facts['name']} ({facts['source']}, approval: {facts['approval']})", facts["description"]]
    lines += [f"from {facts['origin']}", ""] if facts["origin"] else [""]
    for name, schema in facts["parameters"].get("properties", {}).items():
        kind = schema.get("type") or "/".join(str(option.get("type")) for option in schema.get("anyOf", []))
        needed = "required" if name in required else "optional"
        lines.append(f"  {name:<16}{kind}, {needed}. {schema.get('description', '')}".rstrip())
    if facts["restrictions"]:
        lines += ["", "restricted to"]
        lines += [f"  {name:<16}{', '.join(values)}" for name, values in facts["restrictions"].items()]
    return "\n".join(lines)


def check_file(path: Path, shown: str, place: Place) -> int:
    """Return 0 if the tools would be used, 2 if not. Raises ConfigError if the file cannot be read.

    `path` is absolute, `shown` is its name in messages. A Python file is imported only if it is trusted as it is,
    because importing runs it; any other Python file is only read.
    """
    file = ToolFile(path, shown, _content(path, shown), _kind(path, place))
    if path.suffix in PythonLoader.suffixes and not _is_trusted(file, place):
        return _read_only(file)
    workspace = LocalWorkspace(place.workspace)
    try:
        loaded = _loader(file, place, workspace).load(file)
    finally:
        workspace.close()
    for problem in loaded.problems:
        print(f"{problem.level}: {problem}" if problem.level == "warning" else str(problem), file=sys.stderr)
    if any(problem.level == "error" for problem in loaded.problems):
        return 2
    print(f"{shown}: {', '.join(tool.name for tool in loaded.tools) or 'no tool'}")
    return 0


def _is_trusted(file: ToolFile, place: Place) -> bool:
    return file.place == "user" or place.trust_project or describe_tools(place).has_loaded(file.content)


def _read_only(file: ToolFile) -> int:
    names, problems = marked_in(file)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 2
    print(f"{file.shown}: {', '.join(names) or 'no tool'}")
    print(f"{file.shown}: read and not imported, because it is not trusted as it is; {_IMPORTED}", file=sys.stderr)
    return 0


def _content(path: Path, shown: str) -> bytes:
    try:
        content = read_regular(path, follow=True, most=_LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"{shown} cannot be read: {reason}") from None
    if len(content) > _LARGEST:
        raise ConfigError(f"{shown} is larger than {_LARGEST >> 20} MiB; a tool file is not")
    return content


def _kind(path: Path, place: Place) -> Literal["project", "user"]:
    """Return where the file belongs; only one in the user's own folder may say that it needs no approval."""
    own = place.config_dir
    return "user" if own is not None and path.resolve().is_relative_to(own.resolve()) else "project"


def _loader(file: ToolFile, place: Place, workspace: LocalWorkspace) -> ToolLoader:
    """Raises ConfigError for a file of another kind."""
    outputs, reads = FileOutputs(place.state_dir / "none", Redactor({})), ReadTracker(workspace)
    builtins = {tool.name: tool for tool in describe_tools(place) if tool.source == "builtin"}
    loaders: tuple[ToolLoader, ...] = (PythonLoader(outputs), YamlLoader(outputs, reads, builtins))
    for loader in loaders:
        if file.path.suffix in loader.suffixes:
            return loader
    known = ", ".join(suffix for loader in loaders for suffix in loader.suffixes)
    raise ConfigError(f"{file.shown} is not a tool file; those end in {known}")
