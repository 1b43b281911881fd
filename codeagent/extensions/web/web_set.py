"""The toolset `web`: requests, pages and, if a provider is configured, searches."""

from collections.abc import Mapping
from typing import Any

from codeagent.core.redact import Redactor
from codeagent.core.tool import Tool
from codeagent.extensions.web.fetch import WebFetch
from codeagent.extensions.web.http_request import HttpRequest
from codeagent.extensions.web.search import PROVIDERS, WebSearch
from codeagent.net.web.client import WebClient
from codeagent.net.web.secrets import FindSecret, SecretBook
from codeagent.net.web.url import WebUrl


def web_tools(
    client: WebClient,
    find: FindSecret,
    redactor: Redactor,
    *,
    bound: Mapping[str, tuple[str, ...]],
    search: str | None = None,
    search_url: str | None = None,
) -> tuple[Tool[Any], ...]:
    """Make the tools of the set.

    `bound`: the hosts that each secret may be sent to. `search`: one of PROVIDERS, or None without
    searches. `search_url`: the address for a provider that does not have one.
    """
    secrets = SecretBook(bound, find, redactor)
    tools: list[Tool[Any]] = [HttpRequest(client, secrets), WebFetch(client, secrets.clean)]
    if search is not None:
        provider = PROVIDERS[search]
        url = search_url or provider.url
        own = {provider.key: (WebUrl.parse(url).place,)} if provider.key else {}
        tools.append(WebSearch(client, SecretBook(own, find, redactor), provider, url))
    return tuple(tools)
