"""A server as a file writes it: what of it is shown, which variables it wants, and what it is once
they are filled in."""

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.redact import is_secret_name
from codeagent.core.sanitize import one_line, visible
from codeagent.extensions.mcp.config import ServerConfig, WantedVariable

Origin = Literal["user", "project"]
_HIDDEN = "…"
_WORKSPACE = "${workspaceFolder}"
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class ServerEntry:
    """A server as its file writes it: `${NAME}` is not filled in yet."""

    config: ServerConfig
    file: str = ""
    """Of those that configure it, as shown to the user."""
    enabled: bool = True
    trusted: bool = True
    given: frozenset[str] = frozenset()
    """The variables of the user's that a project's server may have; the user's own may have all."""

    @property
    def place(self) -> Origin:
        return "project" if self.config.from_project else "user"

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
        return tuple(map(visible, self._phrases()))

    def _phrases(self) -> Iterator[str]:
        config = self.config
        yield from _named(config) if self.place == "user" else _whole(config)
        if config.hosts:
            yield f"may reach {', '.join(config.hosts)}"
        if not config.url and config.where == "machine":
            yield "runs on this machine, outside the sandbox"
        if config.write:
            yield "may write in the workspace"
        yield from (variable.line for variable in self.wants)
        if not self.enabled:
            yield "disabled"

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

    return replace(entry, config=_started_with(config, fill))


def _started_with(config: ServerConfig, fill: Callable[[str], str]) -> ServerConfig:
    """Fill in what a program is started with."""
    return replace(
        config,
        command=fill(config.command),
        args=tuple(map(fill, config.args)),
        env=MappingProxyType({name: fill(text) for name, text in config.env.items()}),
        cwd=fill(config.cwd),
    )


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
        _started_with(config, fill),
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
