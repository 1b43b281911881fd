"""An MCP server as it is configured: what to start or to reach, where, and for how long to wait."""

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Literal, Protocol, assert_never

from codeagent.core.acts import AgreeToServer, RestartServer, ServerAct, TrustServers
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DiffBlock
from codeagent.core.errors import ConfigError
from codeagent.core.toolbox import SourceState

ServerPlace = Literal["sandbox", "machine"]

SERVER_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?=[A-Za-z0-9-])){0,31}", re.ASCII)
"""What a server may be called: it is part of its tools' names, `mcp__SERVER__TOOL`, and so neither holds `__` nor
ends with `_`."""


@dataclass(frozen=True)
class LoginClient:
    """The OAuth client that a server knows this program as; without one, each login registers a client by itself."""

    client_id: str
    secret: str = ""
    """Treated as a secret; empty: the client has none."""
    port: int = 0
    """Of the loopback address to which the browser comes back; 0: any that is free."""


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
    client: LoginClient | None = None
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
    """The file that names it, as the user is shown it."""


@dataclass(frozen=True)
class ServerFacts:
    """One configured server, as the user sees it."""

    name: str
    transport: Literal["stdio", "http"]
    place: Literal["user", "project"]
    """Whose file names it."""
    shown: str
    """What runs or is reached, on one line and without secrets."""
    details: tuple[str, ...]
    """What it is given and may do besides, one phrase each."""
    state: SourceState | Literal["untrusted", "disabled"]
    tools: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """What is wrong and what would be right, one line each."""
    wrote: tuple[str, ...] = ()
    """The last lines it wrote besides the protocol."""
    changed: tuple[DiffBlock, ...] = ()
    """Tools, and instructions, that wait for the user's agreement: they say something else than before, or are new."""


@dataclass(frozen=True)
class ServerText:
    """Something that a user's prompt takes from a server by naming it: a resource, or a prompt."""

    name: str
    """`SERVER:RESOURCE` or `SERVER:PROMPT`, as it is typed behind `@` or `/`."""
    about: str = ""
    """One line, in the server's words."""
    inputs: tuple[tuple[str, str], ...] = ()
    """Of a prompt: its arguments, and words about each."""


class ServerBook(Protocol):
    """The MCP servers of a conversation; the methods raise ConfigError, and change nothing then."""

    def list(self) -> tuple[ServerFacts, ...]: ...

    async def texts(self, kind: Literal["resource", "prompt"]) -> tuple[ServerText, ...]:
        """Ask the servers that are ready what a prompt can take from them; one that does not answer is left out."""

    def tell_reads(self, hear: Callable[[str], None]) -> None:
        """From now on, call `hear` with the name of each server that a prompt takes text from."""

    async def trust(self, trusted: bool) -> None:
        """Trust the project's servers as they are now and start them; or no longer, which holds for later sessions."""

    async def restart(self, name: str) -> None:
        """End it and start it again; returns before it is ready."""

    async def agree(self, name: str, seen: tuple[str, ...]) -> None:
        """Use what changed and says what the user has `seen`."""


def change_servers(book: ServerBook | None, act: ServerAct) -> Awaitable[None]:
    """Return what does what the user chose. Raises ConfigError if there are no servers."""
    if book is None:
        raise ConfigError("no MCP server is configured; codeagent mcp add adds one")
    match act:
        case TrustServers(trusted):
            return book.trust(trusted)
        case RestartServer(name):
            return book.restart(name)
        case AgreeToServer(name, seen):
            return book.agree(name, seen)
        case _:
            assert_never(act)


class SecretStore(Protocol):
    """Keeps what the login to a server gave, for later sessions; methods may block, and raise ConfigError."""

    def find(self, variable: str) -> str | None: ...

    def keep_secret(self, variable: str, value: str) -> str:
        """Return where it is kept, as a phrase."""

    def forget(self, variable: str) -> None: ...


def login_name(config: ServerConfig) -> str:
    """Return the name a login is kept under: one for each address, so that no token goes to another one."""
    digest = hashlib.sha256(config.url.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"MCP_{config.name.replace('-', '_')}_{digest}".upper()
