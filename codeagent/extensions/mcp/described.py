"""What a server's configuration says of it: where its calls go, how long they may take, and what
they could do."""

from urllib.parse import urlsplit

from codeagent.core.hosts import is_loopback
from codeagent.core.sanitize import one_line
from codeagent.extensions.mcp.config import ServerConfig


class DescribedServer:
    """The part of `server_tool.CallsServer` that follows from the configuration alone."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config

    @property
    def name(self) -> str:
        return self._config.name

    @property
    def server(self) -> str:
        return self._config.name

    @property
    def where(self) -> str:
        if self._config.url:
            return f"at {one_line(self._config.url.partition('?')[0], 200)}"
        return (
            "in the sandbox"
            if self._config.where == "sandbox"
            else "on this machine, outside the sandbox"
        )

    @property
    def sensitive(self) -> str:
        config = self._config
        holds = [*config.env, *config.headers, *(["a login"] if config.client is not None else [])]
        on_machine = not config.url and config.where == "machine"
        phrases = (
            f"network access to {self.hosts[0]}"
            if self.hosts and not is_loopback(self.hosts[-1])
            else "",
            f"it may reach {', '.join(config.hosts)}" if config.hosts else "",
            f"it holds {', '.join(holds)}" if holds else "",
            "it runs on this machine, outside the sandbox" if on_machine else "",
        )
        return one_line("; ".join(filter(None, phrases)), 300)

    @property
    def hosts(self) -> tuple[str, ...]:
        parts = urlsplit(self._config.url)
        return (
            tuple(dict.fromkeys((parts.netloc.rpartition("@")[2], parts.hostname or "")))
            if parts.netloc
            else ()
        )

    @property
    def may_write(self) -> bool:
        """Implement `server_tool.CallsServer`: whether it could change the workspace, in a mode
        other than plan."""
        return bool(self._config.url) or self._config.where == "machine" or self._config.write

    @property
    def runs_here(self) -> bool:
        """Implement `server_tool.CallsServer`."""
        return not self._config.url

    @property
    def seconds(self) -> float:
        return self._config.timeout
