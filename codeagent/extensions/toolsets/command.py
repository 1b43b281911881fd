"""`codeagent tools sets`: lists toolsets, and the tools of one."""

import argparse
import asyncio
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from codeagent.changes.diff import count
from codeagent.commands.arguments import add_cwd, add_flag, print_json, say, workspace_of
from codeagent.commands.tools import tools_of
from codeagent.config.local_environment import LocalEnvironment
from codeagent.console.colour import for_eyes
from codeagent.console.table import Column, print_table
from codeagent.core.errors import ConfigError
from codeagent.core.sanitize import one_line
from codeagent.core.tool import NotFound
from codeagent.tools.available import Toolset
from codeagent.tools.catalog import ToolCatalog

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_STATES = {"waiting": "off", "ready": "off", "starting": "starting", "failed": "failed"}

_COLUMNS = (Column("SET", "cyan"), Column("IS"), Column("TOOLS", right=True), Column("ABOUT"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="the tools of this set")
    add_flag(parser, "--json", "as one JSON list")
    add_cwd(parser)


async def main(args: argparse.Namespace, app: "App") -> int:
    """Print every toolset, or the tools of one. Starts all sources, and waits for them. Raises
    ConfigError."""
    local = LocalEnvironment.of_user(workspace_of(args.cwd))
    async with tools_of(args, local, app) as catalog:
        toolsets = catalog.toolsets
        available = toolsets.available
        if args.name is not None:
            return _print_tools(await ready_set(catalog, args.name), as_json=args.json)
        await asyncio.gather(
            *(
                available.ready(source)
                for source in {one.source for one in available.all().values()}
            )
        )
        await catalog.refresh()
        for problem in toolsets.problems():
            say(f"codeagent: {problem.level}: {one_line(str(problem), 1000)}")
        facts = toolsets.facts()
    if args.json:
        print_json([asdict(one) for one in facts])
        return 0
    rows = [
        (
            one.name,
            f"{one.in_use} on" if one.in_use else _STATES[one.state],
            count(one.tools, "tool"),
            one.about,
        )
        for one in facts
    ]
    widest = max((len(one.name) for one in facts), default=0) + 2
    plain = (
        f"{name:<{widest}}{state:<10}{tools:>11}  {one_line(about, 80)}".rstrip()
        for name, state, tools, about in rows
    )
    print_table(_COLUMNS, rows, plain)
    if not rows and for_eyes(sys.stderr):
        say("no set of tools is offered; offer under [toolsets] in your settings names some")
    return 0


async def ready_set(catalog: ToolCatalog, name: str) -> Toolset:
    """Return a toolset. Raises ConfigError if it does not exist, or its source failed."""
    try:
        toolset = await catalog.toolsets.available.ready(name)
    except NotFound as error:
        raise ConfigError(str(error)) from None
    if toolset.state != "ready":
        raise ConfigError(f"{name} is not available: {toolset.reason or 'it is still starting'}")
    return toolset


def _print_tools(toolset: Toolset, *, as_json: bool) -> int:
    if as_json:
        print_json(
            [
                {"name": tool.name, "summary": tool.summary, "tags": list(tool.tags)}
                for tool in toolset.tools
            ]
        )
        return 0
    rows = [(tool.name, tool.summary) for tool in toolset.tools]
    widest = min(64, max((len(name) for name, _ in rows), default=0)) + 2
    plain = (
        f"{one_line(name, 64):<{widest}}{one_line(summary, 100)}".rstrip() for name, summary in rows
    )
    print_table((Column("TOOL", "cyan"), Column("DOES")), rows, plain)
    return 0
