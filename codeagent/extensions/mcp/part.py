"""What the extension adds to a conversation whose user or project configures servers; a
conversation without any imports nothing else of it."""

from collections.abc import Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, assert_never

from codeagent.agent.parts import ConversationPart, Host, Opening
from codeagent.core.acts import AgreeToServer, GiveVariables, RestartServer, ServerAct, TrustServers
from codeagent.core.errors import ConfigError
from codeagent.core.sanitize import visible
from codeagent.disk.opens import may_exist
from codeagent.extensions.mcp import PROJECT_FILE, USER_FILE
from codeagent.tools.extension import ExtensionContext
from codeagent.tools.source import ToolSource

if TYPE_CHECKING:  # most conversations have no servers
    from codeagent.extensions.mcp.servers import McpServers


def conversation_parts(opening: Opening) -> tuple[ConversationPart, ...]:
    """Return the configured servers; nothing if no file configures any. Blocks on small files."""
    folder = opening.place.config_dir
    own = () if folder is None else (folder / USER_FILE,)
    if not any(map(may_exist, (*own, opening.root / PROJECT_FILE))):
        return ()
    from codeagent.extensions.mcp.servers import servers_of  # as above

    return (servers_of(opening),)


def sources(context: ExtensionContext) -> Iterable[ToolSource]:
    """Return the servers that may be started."""
    servers = _of(context.parts)
    return () if servers is None else servers.sources


def remarks(context: ExtensionContext) -> Iterator[tuple[str, str]]:
    servers = _of(context.parts)
    if servers is not None and servers.waiting:
        yield "mcp.untrusted", visible(servers.waiting)


def change(host: Host, act: ServerAct) -> Coroutine[Any, Any, None]:
    """Return the coroutine that carries out the user's choice. Raises ConfigError if there are no
    servers."""
    servers = _of(host.parts)
    if servers is None:
        raise ConfigError("no MCP server is configured; codeagent mcp add adds one")
    match act:
        case TrustServers(trusted, seen):
            return servers.trust(trusted, seen)
        case GiveVariables(name, variables, seen):
            return servers.give(name, variables, seen)
        case RestartServer(name):
            return servers.restart(name)
        case AgreeToServer(name, seen):
            return servers.agree(name, seen)
        case _:
            assert_never(act)


def _of(parts: Iterable[object]) -> "McpServers | None":
    from codeagent.extensions.mcp.servers import McpServers  # there is a file of servers, or an act

    return next((part for part in parts if isinstance(part, McpServers)), None)
