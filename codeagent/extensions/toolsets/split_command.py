"""`codeagent tools split`: has a model divide a large toolset into smaller ones."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from codeagent.changes.diff import count
from codeagent.commands.arguments import add_cwd, add_flag, say, settings_of, workspace_of
from codeagent.commands.tools import tools_of
from codeagent.config.local_environment import LocalEnvironment
from codeagent.core.errors import ConfigError
from codeagent.core.messages import Usage
from codeagent.extensions.toolsets.command import ready_set
from codeagent.extensions.toolsets.splits import SplitFailed, split

if TYPE_CHECKING:
    from codeagent.commands.ports import App


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--model", metavar="M", help="any model that --model of codeagent run takes"
    )
    parser.add_argument("--api-base", metavar="URL", help="address of the model's server")
    add_flag(parser, "--again", "also if it was split and has the same tools")
    add_cwd(parser)


async def main(args: argparse.Namespace, app: "App") -> int:
    """Divide a toolset, which stays divided while it has the same tools. Raises CodeagentError."""
    local = LocalEnvironment.of_user(workspace_of(args.cwd))
    settings = await asyncio.to_thread(settings_of, args, local.workspace)
    async with tools_of(args, local, app) as catalog:
        toolset = await ready_set(catalog, args.name)
        if toolset.name != toolset.source:
            raise ConfigError(f"{toolset.name} is part of {toolset.source}; only that can be split")
        parts = catalog.toolsets.available.parts(toolset.source)
        if parts and not args.again:
            print(
                f"{toolset.name} is split, and has the same tools: {', '.join(parts)}; --again splits it again"
            )
            return 0
        try:
            listing = catalog.toolsets.sources.listing(toolset.source)
            made = await split(toolset.source, listing, settings, local, app)
        except SplitFailed as error:
            say(f"codeagent: {error} ({_cost(error.usage)})")
            return 1
    for group in made.groups:
        print(f"{group.name}: {count(len(group.tools), 'tool')}, {group.about}")
    print(_cost(made.usage))
    return 0


def _cost(usage: Usage) -> str:
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
    return f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{cost}"
