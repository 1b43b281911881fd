"""What MCP servers get from the program that uses them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from codeagent.core.approval_events import Asker
from codeagent.core.dataclass import dataclass
from codeagent.core.sandbox import StartProgram
from codeagent.extensions.mcp.config import ServerConfig, ServerPlace


@dataclass(frozen=True)
class ServerHost:
    """What codeagent gives to its servers."""

    root: Path
    """The address of the workspace, which servers get as their root."""
    programs: Mapping[ServerPlace, StartProgram]
    """How servers on stdio are started, by place; a missing place cannot start any."""
    pins: Path
    """The folder with what tools said when the user agreed to them; tools must not be able to write
    there."""
    asker: Asker | None = None
    """Who answers a server's questions; None declines them."""
    auth: Callable[[ServerConfig], Any] = lambda config: None
    """Makes an `httpx2.Auth` for a server over HTTP, or None if not needed; called once for each
    connection."""
    clean: Callable[[str], str] = str
    """Masks secrets in what a server writes."""
