"""What a server's configuration says of it: where its calls go, how long they may take, and what
they could do."""

from urllib.parse import urlsplit

from codeagent.core.hosts import is_loopback
from codeagent.core.sanitize import one_line
from codeagent.extensions.mcp.config import ServerConfig


class DescribedServer:
    """A server as its configuration describes it."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config

    @property
    def name(self) -> str:
        return self._config.name

    @property
    def where(self) -> str:
        """Where calls go, as a phrase."""
        if self._config.url:
            return f"at {one_line(self._config.url.partition('?')[0], 200)}"
        return (
            "in the sandbox"
            if self._config.where == "sandbox"
            else "on this machine, outside the sandbox"
        )

    @property
    def sensitive(self) -> str:
        """Why its calls are asked about in every mode, as a phrase; empty if a mode may answer for
        the user."""
        config = self._config
        holds = [*config.env, *config.headers, *(["a login"] if config.client is not None else [])]
        on_machine = not config.url and config.where == "machine"
        phrases = []
        if self.hosts and not is_loopback(self.hosts[-1]):
            phrases.append(f"network access to {self.hosts[0]}")
        if config.hosts:
            phrases.append(f"it may reach {', '.join(config.hosts)}")
        if holds:
            phrases.append(f"it holds {', '.join(holds)}")
        if on_machine:
            phrases.append("it runs on this machine, outside the sandbox")
        return one_line("; ".join(phrases), 300)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host that its calls go to, with and without its port; empty if it is a program."""
        parts = urlsplit(self._config.url)
        return (
            tuple(dict.fromkeys((parts.netloc.rpartition("@")[2], parts.hostname or "")))
            if parts.netloc
            else ()
        )

    @property
    def may_write(self) -> bool:
        """Whether it could change the workspace, in a mode other than plan: only a server in the
        sandbox can be kept from it."""
        return bool(self._config.url) or self._config.where == "machine" or self._config.write

    @property
    def runs_here(self) -> bool:
        """Whether its program runs in the sandbox or on this machine."""
        return not self._config.url

    @property
    def seconds(self) -> float:
        """How long a call may take."""
        return self._config.timeout
