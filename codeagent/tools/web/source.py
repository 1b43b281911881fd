"""The set `web`: requests, pages and, if a provider is configured, searches."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.core.redact import Redactor
from codeagent.core.tool import NotFound, Tool
from codeagent.core.toolbox import ToolProblem
from codeagent.net.addresses import Address, Resolve, is_public, system_resolve
from codeagent.tools.source import ListedTool, Listing
from codeagent.tools.web.client import WebClient
from codeagent.tools.web.fetch import WebFetch
from codeagent.tools.web.http_request import HttpRequest
from codeagent.tools.web.search import PROVIDERS, WebSearch
from codeagent.tools.web.secrets import FindSecret, SecretBook
from codeagent.tools.web.url import WebUrl

WEB = "web"


@dataclass(frozen=True)
class WebOptions:
    """What the user configured under `[web]`."""

    search: str = ""
    """One of PROVIDERS; empty: no searches."""
    search_url: str = ""
    private_hosts: tuple[str, ...] = ()
    """Hosts that may be at addresses which are not public, such as `localhost:8000`."""
    secrets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The hosts that each secret may be sent to."""


class WebSource:
    """A ToolSource whose tools are made at once, since they cost nothing; the library is loaded with a request."""

    name = WEB

    def __init__(
        self,
        options: WebOptions,
        environment: Mapping[str, str],
        find: FindSecret,
        redactor: Redactor,
        resolve: Resolve = system_resolve,
        allowed: Callable[[Address], bool] = is_public,
    ) -> None:
        """Raises ValueError for a host or an address that is not one."""
        self._client = WebClient(environment, options.private_hosts, resolve, allowed)
        bound = dict(options.secrets)
        provider = PROVIDERS.get(options.search)
        problems = []
        if options.search and provider is None:
            problems.append(ToolProblem("web.search", f"{options.search!r} is not one of {', '.join(PROVIDERS)}"))
        if provider is not None and not (provider.url or options.search_url):
            problems.append(ToolProblem("web.search_url", f"{options.search} needs the address of your own"))
            provider = None
        secrets = SecretBook(bound, find, redactor)
        tools: list[Tool[Any]] = [HttpRequest(self._client, secrets), WebFetch(self._client, secrets.clean)]
        if provider is not None:
            own = SecretBook(
                {provider.key: (WebUrl.parse(provider.url).place,)} if provider.key else {}, find, redactor
            )
            tools.append(WebSearch(self._client, own, provider, options.search_url))
        self._tools = {tool.name: tool for tool in tools}
        listed = tuple(ListedTool(tool.name, tool.description) for tool in tools)
        self._listing = Listing(listed, tuple(problems), about="requests to public hosts: APIs, pages, searches")

    async def start(self, changed: Callable[[], None]) -> None:
        """Nothing to begin."""

    def list(self) -> Listing:
        return self._listing

    def get(self, name: str) -> Tool[Any]:
        try:
            return self._tools[name]
        except KeyError:
            raise NotFound(f"Tool not found: {name}") from None

    async def close(self) -> None:
        await self._client.close()
