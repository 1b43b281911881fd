"""`codeagent mcp`: manages the configured MCP servers, in the user's own file and in the
project's."""

import argparse
import os
import re
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from codeagent.commands.actions import OwnAction, add_actions, run_added
from codeagent.commands.arguments import (
    add_cwd,
    add_flag,
    add_list,
    completed_by,
    duration,
    print_json,
    say,
    workspace_of,
)
from codeagent.config.keys import KeyStore
from codeagent.config.local_environment import config_dir
from codeagent.console.table import Column, print_table
from codeagent.core.errors import ConfigError
from codeagent.core.sanitize import one_line, visible
from codeagent.extensions.mcp import PROJECT_FILE
from codeagent.extensions.mcp.config import login_name
from codeagent.extensions.mcp.entries import written_timeout
from codeagent.extensions.mcp.entry import ServerEntry
from codeagent.extensions.mcp.files import ConfiguredServers, ServerFiles

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_FROM = {"user": "yours", "project": "project"}
_COLUMNS = (Column("SERVER", "cyan"), Column("KIND"), Column("FROM", "dim"), Column("STATE"))
_MOST_FILES = 20
"""Files named of what was trusted."""
_UNTRUSTED = f"not trusted, so it is not started: read {PROJECT_FILE}, then run codeagent mcp trust"


def _add_list(parser: argparse.ArgumentParser) -> None:
    add_flag(parser, "--json", "as one JSON object")
    add_cwd(parser)


def _add_add(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "codeagent mcp add NAME [options] URL\n"
        "       codeagent mcp add NAME [options] -- COMMAND [ARG ...]"
    )
    add = parser.add_argument
    add("name", metavar="NAME", help="its tools are called mcp__NAME__TOOL")
    add(
        "target",
        metavar="URL | COMMAND",
        nargs="+",
        help="what to reach, or after -- what to start, in an empty folder; '${workspaceFolder}' is this one",
    )
    add_list(parser, "--env", "NAME=VALUE", "a variable for the command; may be ${NAME}")
    add_list(parser, "--header", "NAME=VALUE", 'such as "Authorization=Bearer ${TOKEN}"')
    add_list(parser, "--host", "HOST", "what it may reach from the sandbox")
    add_flag(parser, "--machine", "run it on this machine rather than in the sandbox")
    add_flag(parser, "--write", "let it write in the workspace from the sandbox")
    add("--client-id", metavar="ID", help="log in as this OAuth client, which you registered")
    add("--client-secret", metavar="${NAME}", help="the variable with that client's secret")
    add(
        "--callback-port",
        metavar="PORT",
        type=int,
        help="of http://127.0.0.1:PORT/callback, as you registered it",
    )
    add("--timeout", metavar="SECONDS", type=duration, help="how long one call may take")
    add_cwd(parser)


def _add_name(parser: argparse.ArgumentParser) -> None:
    name = parser.add_argument("name", metavar="NAME")
    completed_by(name, f"{__name__}:names")
    add_cwd(parser)


def names(args: argparse.Namespace, app: "App") -> dict[str, str]:
    """Return the configured servers, each with its command or address. Raises ConfigError."""
    return {
        entry.config.name: entry.shown
        for entry in ServerFiles(config_dir(), workspace_of(args.cwd)).read().entries
    }


def _add_trust(parser: argparse.ArgumentParser) -> None:
    add_list(
        parser,
        "--give",
        "SERVER=NAME",
        "the server gets your variable NAME, wherever the file says ${NAME}; repeatable",
    )
    add_cwd(parser)


def _add_test(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    add_flag(parser, "--agree", "use its program and tools as they are now")


def _add_login(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    add_flag(parser, "--no-browser", "only print the address to open")


_ACTIONS = {
    "list": OwnAction("every configured server, and what is wrong with the files", _add_list),
    "add": OwnAction("add a server to your own file", _add_add),
    "remove": OwnAction("remove a server from your own file", _add_name),
    "trust": OwnAction(
        f"trust the servers of this project's {PROJECT_FILE} as they are now", _add_trust
    ),
    "distrust": OwnAction("stop trusting this project's servers", add_cwd),
    "test": OwnAction(
        "start a server and list its tools; exit code 1 if it cannot be used", _add_test
    ),
    "login": OwnAction("log in to a server over HTTP (OAuth), in your browser", _add_login),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_actions(parser, "mcp", _ACTIONS)


def main(args: argparse.Namespace, app: "App") -> int | Coroutine[Any, Any, int]:
    """Raises ConfigError."""
    if args.action not in _ACTIONS:
        return run_added(args, app, "mcp", _ACTIONS)
    if args.action in ("test", "login"):
        from codeagent.extensions.mcp import (
            reach as mcp_reach,  # with all that a conversation needs
        )

        return mcp_reach.test(args, app) if args.action == "test" else mcp_reach.login(args)
    files = ServerFiles(config_dir(), workspace_of(args.cwd))
    match args.action:
        case "list":
            return _list(files.read(), as_json=args.json)
        case "add":
            return _add(args, files)
        case "remove":
            _remove(args.name, files)
            print(f"removed {args.name} from {files.user_file}")
        case "trust":
            return _trust(files, args)
        case _:
            files.distrust()
            print("this project's servers will not be started from now on")
    return 0


def _list(servers: ConfiguredServers, *, as_json: bool) -> int:
    if as_json:
        problems = [
            {"where": one.where, "level": one.level, "text": one.text} for one in servers.problems
        ]
        print_json({"servers": [_facts(entry) for entry in servers.entries], "problems": problems})
        return 0
    for problem in servers.problems:
        say(f"codeagent: {problem.level}: {one_line(str(problem), 1000)}")
    if servers.entries:
        print_table(_COLUMNS, _rows(servers.entries), _lines(servers.entries))
    elif not servers.problems:
        print("no server is configured; codeagent mcp add NAME -- COMMAND adds one")
    return 0


def _facts(entry: ServerEntry) -> dict[str, Any]:
    config = entry.config
    return {
        "name": config.name,
        "transport": entry.transport,
        "from": _FROM[entry.place],
        "file": entry.file,
        "trusted": entry.trusted,
        "enabled": entry.enabled,
        "where": None if config.url else config.where,
        "starts": None if config.url else entry.shown,
        "url": entry.shown if config.url else None,
        "env": list(config.env),
        "headers": list(config.headers),
        "client": None if config.client is None else config.client.client_id,
        "hosts": list(config.hosts),
        "details": list(entry.details),
        "wants": [
            {"name": one.name, "for": list(one.places), "given": one.given} for one in entry.wants
        ],
        "write": config.write,
        "timeout": config.timeout,
    }


def _rows(entries: Sequence[ServerEntry]) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, transport, origin and state of each server, with its command or address on a line
    of its own.

    What a project's would be given and would reach is never cut: it is what trust is about.
    """
    for entry in entries:
        state = _state(entry) if entry.trusted else _UNTRUSTED
        yield entry.config.name, entry.transport, _FROM[entry.place], state
        for text in (entry.shown, *entry.details):  # each is one line, which the terminal wraps
            if text == "disabled":
                continue
            yield "", "", "", visible(text).replace("\n", "␊")


def _lines(entries: Sequence[ServerEntry]) -> Iterator[str]:
    widest = max(len(entry.config.name) for entry in entries) + 2
    for name, transport, place, text in _rows(entries):
        yield f"{name:<{widest}}" + (f"{transport:<7}{place:<9}{text}" if name else text)


def _state(entry: ServerEntry) -> str:
    if not entry.enabled:
        return "disabled"
    try:
        entry.filled_in(os.environ)
    except ConfigError as error:
        return one_line(str(error), 200)
    return f"not tested; codeagent mcp test {entry.config.name} starts it"


def _add(args: argparse.Namespace, files: ServerFiles) -> int:
    entry = files.add(args.name, _entry(args))
    print(f"added {args.name} to {files.user_file}: {one_line(entry.shown, 200)}")
    print(f"codeagent mcp test {args.name} starts it and lists its tools")
    return 0


def _remove(name: str, files: ServerFiles) -> None:
    """Remove a server and its login. Raises ConfigError."""
    login = ""
    for entry in files.read().entries:
        if entry.config.name == name and entry.trusted and entry.config.url:
            with suppress(ConfigError):  # a variable is missing: no login can have been kept
                login = login_name(entry.filled_in(os.environ))
    files.remove(name)
    if login:
        KeyStore(config_dir()).forget(login)


def _entry(args: argparse.Namespace) -> dict[str, Any]:
    """Return the server as it will be written into the file. Raises ConfigError."""
    first, *rest = args.target
    is_url = "://" in first
    if is_url and rest:
        raise ConfigError("a URL takes no arguments; nothing was added")
    wrong = ("env", "host", "machine", "write") if is_url else ("header", "client_id")
    for flag in wrong:
        if getattr(args, flag):
            kind = "a command" if is_url else "a URL"
            raise ConfigError(f"--{flag.replace('_', '-')} is for {kind}; nothing was added")
    if args.machine and args.write:
        raise ConfigError(
            "--write is for the sandbox, and with --machine it has your rights anyway; nothing was added"
        )
    entry: dict[str, Any] = (
        {"type": "http", "url": first} if is_url else {"command": first, "args": rest}
    )
    optional = {
        "env": _pairs("--env", args.env),
        "headers": _pairs("--header", args.header),
        "hosts": args.host,
        "where": "machine" if args.machine else "",
        "write": args.write,
        "timeout": args.timeout and written_timeout(args.timeout),
        "oauth": _client(args),
    }
    return entry | {key: value for key, value in optional.items() if value}


def _client(args: argparse.Namespace) -> dict[str, Any]:
    """Raises ConfigError."""
    given = {
        "clientId": args.client_id,
        "clientSecret": args.client_secret,
        "callbackPort": args.callback_port,
    }
    client = {key: value for key, value in given.items() if value is not None}
    if client and not args.client_id:
        raise ConfigError("--client-secret and --callback-port need --client-id; nothing was added")
    if args.client_secret is not None and not _REFERENCE.fullmatch(args.client_secret):
        raise ConfigError(
            "--client-secret must name a variable, as in '${LINEAR_SECRET}'; nothing was added"
        )
    return client


def _pairs(flag: str, given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise ConfigError(
                f"{flag} is NAME=VALUE, which {word.partition('=')[0][:80]!r} is not; nothing was added"
            )
        found[name] = value
    return found


def _given(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return each server with a variable for it. Raises ConfigError."""
    found: list[tuple[str, str]] = []
    for word in words:
        server, _, variable = word.partition("=")
        if not server or not variable:
            raise ConfigError(f"--give takes SERVER=NAME, not {word[:80]!r}; nothing was trusted")
        found.append((server, variable))
    return found


def _trust(files: ServerFiles, args: argparse.Namespace) -> int:
    problems = files.read().problems
    for problem in problems:
        say(f"codeagent: {problem.level}: {one_line(str(problem), 1000)}")
    entries = files.trust(give=_given(args.give))
    if not entries:
        if any(one.level == "error" and one.where.startswith(PROJECT_FILE) for one in problems):
            say(f"codeagent: nothing was trusted: repair {PROJECT_FILE} first")
            return 1
        print(f"nothing to trust: this project has no {PROJECT_FILE} with servers")
        return 0
    print(f"trusted as they are now, for this folder; a change of {PROJECT_FILE} ends it:")
    for line in _lines(entries):
        print(line)
    from codeagent.extensions.mcp.reach import local_of
    from codeagent.extensions.mcp.servers import (
        accept_programs,
    )  # imports everything that a conversation needs

    files_of_theirs = accept_programs(local_of(args), entries)
    if files_of_theirs:
        print(
            "with these files of their programs; a change of one is shown to you before it is run:"
        )
    for line in files_of_theirs[:_MOST_FILES]:
        print(f"  {line}")
    if (more := len(files_of_theirs) - _MOST_FILES) > 0:
        print(f"  and {more} more")
    return 0
