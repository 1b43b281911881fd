"""The servers of configured files that can be started, and what keeps the others from that."""

from collections.abc import Mapping

from codeagent.core.errors import ConfigError
from codeagent.extensions.mcp.config import ServerConfig
from codeagent.extensions.mcp.files import ServerFiles


def usable(
    files: ServerFiles, environment: Mapping[str, str]
) -> tuple[tuple[ServerConfig, ...], tuple[str, ...]]:
    """Return the trusted ones with their variables, and why variables could not be filled in."""
    servers: list[ServerConfig] = []
    problems: list[str] = []
    for entry in files.read().entries:
        if not entry.trusted:
            continue
        try:
            servers.append(entry.filled_in(environment))
        except ConfigError as error:
            problems.append(str(error))
    return tuple(servers), tuple(problems)
