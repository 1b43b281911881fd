"""Reads the `mcpServers` of one file, in the spelling that other programs use, and says what is
wrong with them."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from codeagent.config.extensions import built_in_sets
from codeagent.config.toml_lines import line_of_text
from codeagent.core.budget import as_seconds
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.hosts import HostRule
from codeagent.core.sanitize import one_line
from codeagent.core.toolbox import ToolProblem
from codeagent.extensions.mcp.config import SERVER_NAME, LoginClient, ServerConfig, ServerPlace
from codeagent.extensions.mcp.entry import Origin, ServerEntry

MOST_SERVERS = 100
_STDIO = ("stdio",)
_HTTP = ("http", "streamable-http", "streamable_http", "streamableHttp")
_MILLISECONDS = 1000.0
"""A number from here on is in milliseconds, as some programs write it."""
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
class ServerList:
    """What one file says."""

    entries: tuple[ServerEntry, ...] = ()
    problems: tuple[ToolProblem, ...] = ()


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
    if name in built_in_sets():
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
        ToolProblem(at(*keys), why, "warning") for keys, why in _unused(entry, given, place)
    ]
    return _server_entry(name, entry, shown, place), problems


def _unused(
    entry: _Entry, given: Mapping[str, object], place: Origin
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the keys that have no effect, and why."""
    for key in entry.model_extra or ():
        yield (key,), "not used by codeagent"
    if entry.oauth.client is None and "oauth" in given:
        yield ("oauth",), "not used without clientId"
    else:
        for key in entry.oauth.model_extra or ():
            yield ("oauth", key), "not used by codeagent"
    if place == "project" and entry.where == "machine":
        yield (
            ("where",),
            "a project cannot choose this, so it runs in the sandbox; codeagent mcp add --machine is for your own",
        )
    if place == "project" and entry.write:
        yield (
            ("write",),
            "a project cannot choose this, so it may only read; codeagent mcp add --write is for your own",
        )
    elif entry.write and (entry.url or entry.where == "machine"):
        yield ("write",), "not used: it is for a server in the sandbox"


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


def _server_entry(name: str, entry: _Entry, shown: str, place: Origin) -> ServerEntry:
    times = {"timeout": entry.timeout, "start_timeout": entry.start_timeout}
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
        from_project=place == "project",
        **{key: seconds for key, seconds in times.items() if seconds is not None},
    )
    return ServerEntry(config, shown, enabled=entry.enabled and not entry.disabled)
