"""`codeagent tools sets` and `tools split`: list toolsets, and split a large one into smaller
ones."""

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from codeagent.commands.arguments import print_json, say, settings_of
from codeagent.config.local_environment import LocalEnvironment
from codeagent.core.errors import ConfigError
from codeagent.core.messages import Usage
from codeagent.core.sanitize import one_line
from codeagent.core.tool import NotFound
from codeagent.extensions.toolsets.splits import SplitFailed, split
from codeagent.tools.catalog import ToolCatalog
from codeagent.tools.source import Toolset

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_STATES = {"waiting": "off", "ready": "off", "starting": "starting", "failed": "failed"}


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
        await catalog.toolsets.close()


async def list_sets(args: argparse.Namespace, local: LocalEnvironment, app: "App") -> int:
    """Print every toolset, or the tools of one. Starts all sources, and waits for them. Raises
    ConfigError."""
    async with tools_of(args, local, app) as catalog:
        toolsets = catalog.toolsets
        if args.name is not None:
            return _print_tools(await _ready(catalog, args.name), as_json=args.json)
        await asyncio.gather(
            *(toolsets.ready(source) for source in {one.source for one in toolsets.all().values()})
        )
        await catalog.refresh()
        for problem in toolsets.problems():
            say(f"codeagent: {problem.level}: {one_line(str(problem), 1000)}")
        facts = toolsets.facts()
    if args.json:
        print_json([asdict(one) for one in facts])
        return 0
    widest = max((len(one.name) for one in facts), default=0) + 2
    for one in facts:
        state = f"{one.in_use} on" if one.in_use else _STATES[one.state]
        print(
            f"{one.name:<{widest}}{state:<10}{_counted(one.tools):>11}  {one_line(one.about, 80)}".rstrip()
        )
    return 0


async def split_set(args: argparse.Namespace, local: LocalEnvironment, app: "App") -> int:
    """Have a model divide a toolset, which stays divided while it has the same tools. Raises
    CodeagentError."""
    settings = await asyncio.to_thread(settings_of, args, local.workspace)
    async with tools_of(args, local, app) as catalog:
        toolset = await _ready(catalog, args.name)
        if toolset.name != toolset.source:
            raise ConfigError(f"{toolset.name} is part of {toolset.source}; only that can be split")
        parts = catalog.toolsets.parts(toolset.source)
        if parts and not args.again:
            print(
                f"{toolset.name} is split, and has the same tools: {', '.join(parts)}; --again splits it again"
            )
            return 0
        try:
            made = await split(
                toolset.source, catalog.toolsets.listing(toolset.source), settings, local
            )
        except SplitFailed as error:
            say(f"codeagent: {error} ({_cost(error.usage)})")
            return 1
    for group in made.groups:
        print(f"{group.name}: {_counted(len(group.tools))}, {group.about}")
    print(_cost(made.usage))
    return 0


async def _ready(catalog: ToolCatalog, name: str) -> Toolset:
    """Return a toolset. Raises ConfigError if it does not exist, or its source failed."""
    try:
        toolset = await catalog.toolsets.ready(name)
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
    widest = min(64, max((len(tool.name) for tool in toolset.tools), default=0)) + 2
    for tool in toolset.tools:
        print(f"{one_line(tool.name, 64):<{widest}}{one_line(tool.summary, 100)}".rstrip())
    return 0


def _counted(tools: int) -> str:
    return f"{tools:,} tool{'s' * (tools != 1)}"


def _cost(usage: Usage) -> str:
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
    return f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{cost}"
