"""The `mcpServers` of one file, in the spelling that other programs use; nothing here is started or
filled in."""

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from codeagent.config.layers import line_of_text
from codeagent.core.dataclass import dataclass
from codeagent.core.durations import as_seconds
from codeagent.core.errors import ConfigError
from codeagent.core.hosts import HostRule
from codeagent.core.redact import is_secret_name
from codeagent.core.sanitize import one_line, visible
from codeagent.core.toolbox import BUILT_IN_SETS, ToolProblem
from codeagent.extensions.mcp.config import (
    SERVER_NAME,
    LoginClient,
    ServerConfig,
    ServerPlace,
    WantedVariable,
)

Origin = Literal["user", "project"]
MOST_SERVERS = 100
_STDIO = ("stdio",)
_HTTP = ("http", "streamable-http", "streamable_http", "streamableHttp")
_MILLISECONDS = 1000.0
"""A number from here on is in milliseconds, as some programs write it."""
_HIDDEN = "…"
_WORKSPACE = "${workspaceFolder}"
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _seconds(value: Any) -> Any:
    if isinstance(value, int | float) and value >= _MILLISECONDS:
        return value / 1000
    return as_seconds(value)


def written_timeout(seconds: float) -> float:
    """Return the number that an entry has for these seconds."""
    return seconds * 1000 if seconds >= _MILLISECONDS else seconds


_Timeout = Annotated[float | None, BeforeValidator(_seconds)]


class _OAuth(BaseModel):
    """The `oauth` of an entry, in the spellings of several programs."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, defer_build=True)

    client_id: str = Field("", validation_alias=AliasChoices("clientId", "client_id"))
    secret: str = Field("", validation_alias=AliasChoices("clientSecret", "client_secret"))
    port: int = Field(
        0, validation_alias=AliasChoices("callbackPort", "callback_port"), ge=0, lt=65536
    )

    @property
    def client(self) -> LoginClient | None:
        return LoginClient(self.client_id, self.secret, self.port) if self.client_id else None


class _Entry(BaseModel):
    """One value of `mcpServers`, before anything that needs more than one key is checked."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, defer_build=True)

    command: str = ""
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    cwd: str = ""
    url: str = Field("", validation_alias=AliasChoices("url", "httpUrl", "serverUrl"))
    headers: dict[str, str] = Field(default_factory=dict)
    oauth: _OAuth = Field(default_factory=lambda: _OAuth())
    transport: str = Field("", validation_alias=AliasChoices("type", "transport"))
    disabled: bool = False
    enabled: bool = True
    timeout: _Timeout = Field(None, gt=0, allow_inf_nan=False)
    start_timeout: _Timeout = Field(
        None, gt=0, allow_inf_nan=False, validation_alias="startTimeout"
    )
    where: ServerPlace = "sandbox"
    hosts: list[str] = Field(default_factory=list)
    write: bool = False


@dataclass(frozen=True)
class ServerEntry:
    """A server as its file writes it: `${NAME}` is not filled in yet."""

    config: ServerConfig
    place: Origin
    trusted: bool = True
    given: frozenset[str] = frozenset()
    """The variables of the user's that a project's server may have; the user's own may have all."""

    @property
    def transport(self) -> Literal["stdio", "http"]:
        return "http" if self.config.url else "stdio"

    @property
    def shown(self) -> str:
        """What would run or be reached, on one line; the secrets of the user's own file are
        hidden."""
        config, mine = self.config, self.place == "user"
        if config.url:
            return visible(_shown_url(config.url) if mine else config.url)
        command = shlex.join([config.command, *(_shown_args(config.args) if mine else config.args)])
        return visible(f"{command} (in {config.cwd})" if config.cwd else command)

    @property
    def details(self) -> tuple[str, ...]:
        """What it is given and may do besides, one phrase each.

        Of the secrets in the user's own file, only the names; a project's file holds no secret of
        the user's, so all of it is said, and which variables it wants.
        """
        config = self.config
        phrases = [
            *(_named(config) if self.place == "user" else _whole(config)),
            *([f"may reach {', '.join(config.hosts)}"] if config.hosts else []),
            *(
                ["runs on this machine, outside the sandbox"]
                if not config.url and config.where == "machine"
                else []
            ),
            *(["may write in the workspace"] if config.write else []),
            *(variable.line for variable in self.wants),
            *([] if config.enabled else ["disabled"]),
        ]
        return tuple(map(visible, phrases))

    @property
    def wants(self) -> tuple[WantedVariable, ...]:
        """The variables that a project's entry wants; empty for the user's own, which gets what it
        names."""
        if self.place == "user":
            return ()
        found: dict[str, tuple[str | None, dict[str, None]]] = {}
        for place, text in _texts(self.config):
            for reference in _VARIABLE.findall(text):
                name, has_default, default = reference.partition(":-")
                if _NAME.fullmatch(name) is not None:
                    known, places = found.get(name, (default if has_default else None, {}))
                    found[name] = (known if has_default else None, places | {place: None})
        return tuple(
            WantedVariable(name, tuple(places), default, name in self.given)
            for name, (default, places) in found.items()
        )

    def filled_in(self, environment: Mapping[str, str]) -> ServerConfig:
        """Replace the variables that it may have. Raises ConfigError that names one that is
        missing."""
        return filled_in(self.config, environment, None if self.place == "user" else self.given)


@dataclass(frozen=True)
class ServerList:
    """What one file says."""

    entries: tuple[ServerEntry, ...] = ()
    problems: tuple[ToolProblem, ...] = field(default=())


def parse_servers(raw: bytes, shown: str, place: Origin) -> ServerList:
    """Read the bytes of a file that messages call `shown`. A broken entry is a problem and keeps
    only itself out."""
    try:
        text, data = decoded(raw, shown)
    except ConfigError as error:
        where, _, what = str(error).partition(": ")
        return ServerList(problems=(ToolProblem(where, f"{what}; its servers are not used"),))
    servers = data.get("mcpServers", {})
    if not isinstance(servers, dict):
        line = line_of_text(text, (), "mcpServers")
        return ServerList(
            problems=(ToolProblem(f"{shown}:{line}: mcpServers", "it must be an object"),)
        )
    problems = [
        ToolProblem(
            f"{shown}:{line_of_text(text, (), key)}: {one_line(key, 80)}",
            "not used; servers are in mcpServers",
            "warning",
        )
        for key in data
        if key not in ("mcpServers", "$schema")
    ]
    entries: list[ServerEntry] = []
    for name, given in list(servers.items())[:MOST_SERVERS]:

        def at(*keys: str, name: str = name) -> str:
            line = line_of_text(text, (), "mcpServers", name, *keys)
            return f"{shown}:{line}: {one_line('.'.join((name, *keys)), 120)}"

        entry, found = _parsed(name, given, shown, place, at)
        entries += () if entry is None else (entry,)
        problems += found
    if len(servers) > MOST_SERVERS:
        problems.append(
            ToolProblem(shown, f"only the first {MOST_SERVERS} of {len(servers)} servers are used")
        )
    return ServerList(tuple(entries), tuple(problems))


def decoded(raw: bytes, shown: str) -> tuple[str, dict[str, Any]]:
    """Return the file's text and its object. Raises ConfigError that begins with `file:line: `."""
    try:
        text = raw.decode("utf-8-sig")
        data = json.loads(text) if text.strip() else {}
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown}:{raw[: error.start].count(10) + 1}: not UTF-8") from error
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{shown}:{error.lineno}: not JSON ({one_line(error.msg, 80)})"
        ) from error
    except (RecursionError, ValueError) as error:
        raise ConfigError(
            f"{shown}:1: not JSON that can be read (nested too deeply, or a number too long)"
        ) from error
    if not isinstance(data, dict):
        raise ConfigError(f"{shown}:1: not a JSON object with mcpServers")
    return text, data


def _parsed(
    name: str, given: object, shown: str, place: Origin, at: Callable[..., str]
) -> tuple[ServerEntry | None, list[ToolProblem]]:
    if SERVER_NAME.fullmatch(name) is None:
        text = "a server's name is 1 to 32 letters, digits, - and single _, and begins with a letter or digit"
        return None, [ToolProblem(at(), f"{text}; give it another name")]
    if name in BUILT_IN_SETS:
        return None, [
            ToolProblem(
                at(), f"{name} is the name of a built-in set of tools; give the server another name"
            )
        ]
    if not isinstance(given, dict):
        return None, [ToolProblem(at(), "it must be an object with command or url")]
    try:
        entry = _Entry.model_validate(
            {key: value for key, value in given.items() if value is not None}
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        keys = [str(part) for part in first["loc"]]
        return None, [ToolProblem(at(*keys), first["msg"][:1].lower() + first["msg"][1:])]
    if wrong := _wrong(entry):
        key, text = wrong
        return None, [ToolProblem(at(*((key,) if key in given else ())), text)]
    problems = [
        ToolProblem(at(key), "not used by codeagent", "warning") for key in entry.model_extra or ()
    ]
    if entry.oauth.client is None and "oauth" in given:
        problems.append(ToolProblem(at("oauth"), "not used without clientId", "warning"))
    else:
        extra = entry.oauth.model_extra or ()
        problems += [
            ToolProblem(at("oauth", key), "not used by codeagent", "warning") for key in extra
        ]
    if place == "project" and entry.where == "machine":
        text = "a project cannot choose this, so it runs in the sandbox; codeagent mcp add --machine is for your own"
        problems.append(ToolProblem(at("where"), text, "warning"))
    if place == "project" and entry.write:
        text = "a project cannot choose this, so it may only read; codeagent mcp add --write is for your own"
        problems.append(ToolProblem(at("write"), text, "warning"))
    elif entry.write and (entry.url or entry.where == "machine"):
        problems.append(
            ToolProblem(at("write"), "not used: it is for a server in the sandbox", "warning")
        )
    return ServerEntry(_config(name, entry, shown, place), place), problems


def _wrong(entry: _Entry) -> tuple[str, str] | None:
    """Return the key and what is wrong with it, if it cannot be used."""
    stdio, http = entry.transport in _STDIO, entry.transport in _HTTP
    texts = (entry.command, *entry.args, *entry.env, *entry.env.values(), entry.cwd, entry.url)
    checks = (
        (
            entry.transport == "sse",
            "type",
            "the transport sse is not supported; most such servers also offer http",
        ),
        (
            bool(entry.transport) and not (stdio or http),
            "type",
            "the transports are stdio and http",
        ),
        (
            bool(entry.command) == bool(entry.url),
            "command",
            "give either command (stdio) or url (http)",
        ),
        (stdio and bool(entry.url), "type", "a server with a url has the transport http"),
        (http and bool(entry.command), "type", "a server with a command has the transport stdio"),
        (bool(entry.command) and not entry.command.strip(), "command", "it is empty"),
        (
            bool(entry.url) and not _is_url(entry.url),
            "url",
            "it must begin with http:// or https:// and name a host",
        ),
        (
            entry.oauth.client is not None and bool(entry.command),
            "oauth",
            "a login is for a server with a url",
        ),
        (any("\0" in text for text in texts), "command", "it holds a NUL character"),
        (
            not all(map(_is_host, entry.hosts)),
            "hosts",
            "write example.org, *.example.org or example.org:8443",
        ),
        (
            any(not name or "=" in name for name in entry.env),
            "env",
            "a variable's name is empty or holds =",
        ),
        (
            not all(_HEADER.fullmatch(name) for name in entry.headers),
            "headers",
            "a name is not that of an HTTP header",
        ),
        (
            any(re.search(r"[\r\n\0]", text) for text in entry.headers.values()),
            "headers",
            "a value has several lines",
        ),
    )
    return next(((key, text) for is_wrong, key, text in checks if is_wrong), None)


def _is_host(text: str) -> bool:
    try:
        HostRule.parse(text)
    except ValueError:
        return False
    return True


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.netloc)
    except ValueError:
        return False


def _config(name: str, entry: _Entry, shown: str, place: Origin) -> ServerConfig:
    config = ServerConfig(
        name,
        command=entry.command,
        args=tuple(entry.args),
        env=MappingProxyType(dict(entry.env)),
        cwd=entry.cwd,
        url=entry.url,
        headers=MappingProxyType(dict(entry.headers)),
        client=entry.oauth.client,
        where=entry.where if place == "user" else "sandbox",
        hosts=tuple(entry.hosts),
        write=entry.write and place == "user" and not entry.url and entry.where == "sandbox",
        enabled=entry.enabled and not entry.disabled,
        origin=shown,
        from_project=place == "project",
    )
    config = config if entry.timeout is None else replace(config, timeout=entry.timeout)
    return (
        config
        if entry.start_timeout is None
        else replace(config, start_timeout=entry.start_timeout)
    )


def in_workspace(entry: ServerEntry, workspace: Path) -> ServerEntry:
    """Replace `${workspaceFolder}`, as other programs spell it, by the path of the workspace, links
    followed.

    It stays, as a variable that nothing sets, if that path would itself be read as a variable.
    """
    path, config = str(workspace.resolve()), entry.config
    if "${" in path:
        return entry

    def fill(text: str) -> str:
        return text.replace(_WORKSPACE, path)

    filled = replace(
        config,
        command=fill(config.command),
        args=tuple(map(fill, config.args)),
        env=MappingProxyType({name: fill(text) for name, text in config.env.items()}),
        cwd=fill(config.cwd),
    )
    return replace(entry, config=filled)


def filled_in(
    config: ServerConfig, environment: Mapping[str, str], given: Collection[str] | None = None
) -> ServerConfig:
    """Replace every `${NAME}` and `${NAME:-default}`. Raises ConfigError that names what is not set
    or not given.

    `given`: the only variables of the environment that may be used; None: all of them.
    """

    def value(match: re.Match[str]) -> str:
        name, has_default, default = match[1].partition(":-")
        if _NAME.fullmatch(name) is None:
            raise ConfigError(
                f"${{{one_line(match[1], 60)}}} is not ${{NAME}} or ${{NAME:-default}}"
            )
        if given is not None and name not in given:
            if has_default:
                return default
            give = f"codeagent mcp trust --give {config.name}={name}"
            raise ConfigError(f"it wants your variable {name}; give it with: {give}")
        found = environment.get(name, "")
        if found or has_default:
            return found or default
        if name in environment:
            return ""
        raise ConfigError(f"the variable {name} is not set; set it, or write ${{{name}:-default}}")

    def fill(text: str) -> str:
        return _VARIABLE.sub(value, text)

    client = config.client
    return replace(
        config,
        command=fill(config.command),
        args=tuple(map(fill, config.args)),
        env=MappingProxyType({name: fill(text) for name, text in config.env.items()}),
        cwd=fill(config.cwd),
        url=fill(config.url),
        client=client
        and replace(client, client_id=fill(client.client_id), secret=fill(client.secret)),
        headers=MappingProxyType({name: fill(text) for name, text in config.headers.items()}),
    )


def _texts(config: ServerConfig) -> Iterator[tuple[str, str]]:
    """Yield every text that variables are filled in to, with the place it has in the entry, as a
    phrase."""
    yield "its command", config.command
    for number, arg in enumerate(config.args, start=1):
        yield f"its argument {number}", arg
    for name, value in config.env.items():
        yield f"its variable {name}", value
    yield "its folder", config.cwd
    yield "its address", config.url
    for name, value in config.headers.items():
        yield f"its header {name}", value
    if config.client is not None:
        yield "its login's client", config.client.client_id
        yield "its login's secret", config.client.secret


def _named(config: ServerConfig) -> Iterator[str]:
    """Yield what a server is given, of secrets only the names."""
    if config.env:
        yield f"gets {', '.join(config.env)}"
    if config.headers:
        yield f"sends {', '.join(config.headers)}"
    if config.client is not None:
        yield f"logs in as {config.client.client_id}"


def _whole(config: ServerConfig) -> Iterator[str]:
    """Yield what a server is given, as its file writes it."""
    for name, value in config.env.items():
        yield f"gets {name}={value}"
    for name, value in config.headers.items():
        yield f"sends {name}: {value}"
    if config.client is not None:
        secret = config.client.secret
        yield f"logs in as {config.client.client_id}{f', with the secret {secret}' if secret else ''}"


def _hidden(text: str) -> str:
    """Hide a secret, but for the names of the variables in it."""
    parts = []
    for at, part in enumerate(_VARIABLE.split(text)):
        if at % 2:
            name, has_default, default = part.partition(":-")
            parts.append(f"${{{name}{has_default}{_HIDDEN if default else ''}}}")
        elif part:
            parts.append(_HIDDEN)
    return "".join(parts)


def _shown_args(args: tuple[str, ...]) -> list[str]:
    """Hide what follows an option such as `--api-key`, with `=` or as the next argument."""
    shown: list[str] = []
    hides = False
    for arg in args:
        option, equals, value = arg.partition("=")
        secret = is_secret_name(option.lstrip("-").replace("-", "_"))
        if hides and not arg.startswith("-"):
            shown.append(_hidden(arg))
        else:
            shown.append(f"{option}={_hidden(value)}" if secret and equals else arg)
        hides = secret and not equals and arg.startswith("-")
    return shown


def _shown_url(url: str) -> str:
    """Hide a login and the values of a query."""
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    query = re.sub(r"=([^&]+)", lambda match: f"={_hidden(match[1])}", parts.query)
    return urlunsplit((parts.scheme, f"{_hidden(login)}{at}{host}", parts.path, query, ""))
