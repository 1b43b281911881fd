"""`codeagent mcp test` and `codeagent mcp login`, which talk to the server."""

import argparse
from typing import TYPE_CHECKING

from codeagent.commands.arguments import say, settings_of, workspace_of
from codeagent.config.local_environment import LocalEnvironment
from codeagent.core.errors import ConfigError, SandboxUnavailable
from codeagent.core.sanitize import one_line, visible
from codeagent.disk.private import UnsafeFile
from codeagent.extensions.mcp.config import diff_lines
from codeagent.extensions.mcp.entry import ServerEntry
from codeagent.extensions.mcp.servers import log_in, one_server, server_files
from codeagent.extensions.mcp.source import McpSource
from codeagent.tools.source import Listing

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_LAST_LINES = 20
"""Lines shown of what a server wrote."""


async def test(args: argparse.Namespace, app: "App") -> int:
    """Start a server and list its tools; return 1 if it, or a tool, waits or did not start. Raises
    ConfigError."""
    local, entry = local_of(args), _entry(args)
    settings = settings_of(args, local.workspace)
    async with one_server(app, settings, local, entry) as source:
        await source.start(lambda: None)
        if source.held and args.agree:
            await _agree(source)
            await source.start(lambda: None)
        if source.changed and args.agree and not source.held:
            await _agree(source)
        elif source.changed:
            _show_changes(source)
            does = "starts it" if source.held else "uses them"
            say(f"codeagent mcp test {source.name} --agree {does} as they are now")
        listing = source.list()
        _show(source, listing, local)
        if entry.config.write:
            say(
                f"{source.name} may write in the workspace, but not in this test, where nobody would inspect it"
            )
        return 0 if listing.state == "ready" and not source.changed else 1


async def login(args: argparse.Namespace) -> int:
    """Log in to a server; return 1 if that failed. Raises ConfigError."""
    local, entry = local_of(args), _entry(args)
    if not entry.config.url:
        raise ConfigError(f"{args.name} is not reached over HTTP, so there is nothing to log in to")

    def tell(url: str) -> None:
        say(f"open this address to log in; codeagent waits until you are done:\n\n{visible(url)}\n")

    where, listing = await log_in(local, entry, tell, browser=not args.no_browser)
    problems = [local.redactor.clean(one_line(problem.text, 1000)) for problem in listing.problems]
    if listing.state != "ready":
        say(f"codeagent: {args.name}: {'; '.join(problems) or 'it did not answer'}")
        return 1
    print(
        f"logged in to {args.name}; the login is kept in {where}"
        if where
        else f"{args.name} does not require a login"
    )
    return 0


def local_of(args: argparse.Namespace) -> LocalEnvironment:
    return LocalEnvironment.of_user(workspace_of(args.cwd))


def _entry(args: argparse.Namespace) -> ServerEntry:
    """Return the server, if it may be started. Raises ConfigError."""
    servers = server_files(local_of(args)).read()
    entry = servers.get(args.name)
    if not entry.trusted:
        what = "; ".join((entry.shown, *entry.details))
        does = "reach" if entry.config.url else "run"
        raise ConfigError(
            f"{args.name} comes from this project, which is not trusted, so it was not started: it would {does} "
            f"{what}; codeagent mcp trust trusts it"
        )
    return entry


def _show(source: McpSource, listing: Listing, local: LocalEnvironment) -> None:
    """Print the tools and, on standard error, problems and the server's own output."""
    clean = local.redactor.clean
    for problem in listing.problems:
        say(f"{problem.level}: {clean(one_line(problem.text, 1000))}")
    if source.record.lines:
        say(f"the end of what {source.name} wrote besides the protocol:")
    for line in source.record.lines[-_LAST_LINES:]:
        say(f"  {clean(line)}")
    if listing.state == "ready":
        print(
            f"{source.name}, {source.where}: {len(listing.tools)} tool{'s' * (len(listing.tools) != 1)}"
        )
    for tool in listing.tools:
        print(f"  {tool.name:<40} {clean(one_line(tool.summary, 100))}".rstrip())


async def _agree(source: McpSource) -> None:
    """Agree to what is shown. Raises ConfigError."""
    _show_changes(source)
    try:
        agreed = await source.agree({change.now.said for change in source.changed})
    except (SandboxUnavailable, UnsafeFile, OSError) as error:
        raise ConfigError(f"what you agreed to could not be kept: {error}") from error
    if not agreed:
        raise ConfigError(
            f"{source.name} changed while it was shown, so nothing was agreed to; look at it again"
        )


def _show_changes(source: McpSource) -> None:
    for change in source.changed:
        for line in diff_lines(change.diff):
            print(visible(line))
