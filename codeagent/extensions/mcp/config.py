"""MCP servers as they are configured: what to start or reach, where, and how long to wait."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from difflib import unified_diff
from types import MappingProxyType
from typing import Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.display import DiffBlock
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.toolbox import SourceState

ServerPlace = Literal["sandbox", "machine"]

SERVER_NAME = lazy_regex(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?=[A-Za-z0-9-])){0,31}", re.ASCII)
"""The valid names of a server. They are part of its tools' names, `mcp__SERVER__TOOL`, and so
neither contain `__` nor end with `_`."""


@dataclass(frozen=True)
class LoginClient:
    """The OAuth client by which a server knows this program; without one, each login registers a
    client."""

    client_id: str
    secret: str = ""
    """Treated as a secret; empty if the client has none."""
    port: int = 0
    """Port of the loopback address to which the browser returns; 0: any free one."""


@dataclass(frozen=True)
class ServerConfig:
    """One entry of `mcpServers`; either `command` or `url` is set. Values have no `${…}` left in
    them."""

    name: str
    """Unique; see SERVER_NAME."""
    command: str = ""
    """The program of a server on stdio."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Its variables beside a minimal environment; the values are treated as secrets."""
    cwd: str = ""
    """Where it is said to run, relative to the workspace; see `extensions.mcp.program` for
    where it does."""
    url: str = ""
    """The address of a server over streamable HTTP."""
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Sent with every request; the values are treated as secrets."""
    client: LoginClient | None = None
    where: ServerPlace = "sandbox"
    """Where a server on stdio runs: in the session's sandbox, or on the machine because the user
    said so."""
    hosts: tuple[str, ...] = ()
    """What a server in the sandbox may reach, as for a command; empty: no network at all."""
    write: bool = False
    """Whether a server in the sandbox may write in the workspace, except in plan mode; because the
    user said so."""
    timeout: float = 60.0
    """Seconds that one call may take."""
    start_timeout: float = 30.0
    """Seconds that it may take to start and list its tools."""
    from_project: bool = False
    """Whether the project's file configures it, rather than the user's."""

    @property
    def is_powerful(self) -> bool:
        """Whether it has more than a command in the sandbox: variables, hosts, or the user's rights
        on this machine."""
        return bool(self.env or self.hosts) or self.where == "machine"


@dataclass(frozen=True)
class WantedVariable:
    """A variable of the user's that a project's server wants."""

    name: str
    places: tuple[str, ...]
    """Where its value would go, a phrase such as `its address` each."""
    default: str | None
    """What the server takes if the variable is not given; None: it is then not started."""
    given: bool

    @property
    def line(self) -> str:
        state = "given" if self.given else "not given"
        instead = (
            f", so it is {self.default or 'empty'}"
            if self.default is not None and not self.given
            else ""
        )
        return f"wants your {self.name}, for {' and '.join(self.places)}: {state}{instead}"


@dataclass(frozen=True)
class ServerStatus:
    """One configured server, as the user sees it."""

    name: str
    transport: Literal["stdio", "http"]
    place: Literal["user", "project"]
    """Whether the user's or the project's file configures it."""
    shown: str
    """What is run or reached, on one line: without secrets if it is the user's, whole if it is the
    project's."""
    details: tuple[str, ...]
    """What else it is given, wants and may do, one phrase each; never cut."""
    state: SourceState | Literal["untrusted", "disabled"]
    tools: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """What is wrong and how to mend it, one line each."""
    wrote: tuple[str, ...] = ()
    """The last lines it wrote outside the protocol."""
    changed: tuple[DiffBlock, ...] = ()
    """What waits for the user's consent, because it is new or has changed: the program in the
    workspace, without which the server is not started, or its tools and instructions."""
    wants: tuple[WantedVariable, ...] = ()
    """The variables of the user's that it wants; empty if it is the user's."""

    @property
    def said(self) -> tuple[str, ...]:
        """Return all that a question about starting it, or giving it something, shows."""
        return (self.shown, *self.details)


def diff_lines(diff: DiffBlock) -> Iterator[str]:
    """Yield what waits for the user's consent, beside what they agreed to."""
    names = (f"{diff.path} as you agreed to it", f"{diff.path} as it is now")
    return unified_diff(diff.before.splitlines(), diff.after.splitlines(), *names, lineterm="")


class ListedServers:
    """The servers of one conversation, as its page sees them."""

    def list(self) -> tuple[ServerStatus, ...]:
        """Return what is configured, and how each is doing."""
        return ()


def login_name(config: ServerConfig) -> str:
    """Return the name under which a login is kept: one for each address, so that no token goes to
    another one."""
    digest = hashlib.sha256(config.url.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"MCP_{config.name.replace('-', '_')}_{digest}".upper()
