"""The toolset `web`: requests, pages and, if a provider is configured, searches."""

from typing import Any

from codeagent.core.tool import Tool
from codeagent.extensions.web.fetch import WebFetch
from codeagent.extensions.web.http_request import HttpRequest
from codeagent.extensions.web.search import PROVIDERS, WebSearch
from codeagent.extensions.web.settings import WebSettings
from codeagent.net.web.client import WebClient
from codeagent.net.web.secrets import BoundSecrets
from codeagent.net.web.url import WebUrl
from codeagent.tools.extension import ExtensionContext


def web_tools(context: ExtensionContext) -> tuple[Tool[Any], ...]:
    """Make the tools of the set; a search only if the settings name a provider."""
    web = context.settings.section("web", WebSettings)
    client = WebClient(context.environment, web.private_hosts)
    secrets = BoundSecrets(web.secrets, context.secret, context.redactor)
    tools: list[Tool[Any]] = [HttpRequest(client, secrets), WebFetch(client, secrets.clean)]
    if web.search is not None:
        provider = PROVIDERS[web.search]
        url = web.search_url or provider.url
        own = {provider.key: (WebUrl.parse(url).place,)} if provider.key else {}
        own_secrets = BoundSecrets(own, context.secret, context.redactor)
        tools.append(WebSearch(client, own_secrets, provider, url))
    return tuple(tools)
