"""An MCP server as it is configured: what to start or to reach, where, and for how long to wait."""

import re
from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Literal, Protocol

from codeagent.core.dataclass import dataclass

ServerPlace = Literal["sandbox", "machine"]

SERVER_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?=[A-Za-z0-9-])){0,31}", re.ASCII)
"""What a server may be called: it is part of its tools' names, `mcp__SERVER__TOOL`, and so neither holds `__` nor
ends with `_`."""


@dataclass(frozen=True)
class ServerConfig:
    """One entry of `mcpServers`; either `command` or `url` is set. Values are as the server gets them: no `${…}`."""

    name: str
    """Unique; see SERVER_NAME."""
    command: str = ""
    """The program of a server on stdio."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """All that it gets beside a minimal base; the values are treated as secrets."""
    cwd: str = ""
    """Where it runs, relative to the workspace; empty: the workspace itself."""
    url: str = ""
    """Of a server over streamable HTTP."""
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Sent with every request; the values are treated as secrets."""
    where: ServerPlace = "sandbox"
    """Where a server on stdio runs: in the session's sandbox, or on the machine because the user said so."""
    hosts: tuple[str, ...] = ()
    """What a server in the sandbox may reach, as for a command; empty: no network at all."""
    timeout: float = 60.0
    """Seconds that one call may take."""
    start_timeout: float = 30.0
    """Seconds that it may take until its tools are listed."""
    enabled: bool = True
    origin: str = ""
    """The file that names it, for people."""


class SecretStore(Protocol):
    """Keeps what the login to a server gave, for later sessions; methods may block, and raise ConfigError."""

    def find(self, variable: str) -> str | None: ...

    def keep_secret(self, variable: str, value: str) -> str:
        """Return where it is kept, as a phrase."""

    def forget(self, variable: str) -> None: ...
