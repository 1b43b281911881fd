"""The `web_search` tool: a query to the search provider that the user configured."""

import json
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import Field

from codeagent.core.dataclass import dataclass
from codeagent.core.display import TextBlock
from codeagent.core.policy import NETWORK, ApprovalKey
from codeagent.core.sanitize import one_line
from codeagent.core.tool import Failed, Preview, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.net.web.client import WebClient, WebRequest
from codeagent.net.web.result import NOT_ORDERS, result_of
from codeagent.net.web.secrets import BoundSecrets
from codeagent.net.web.url import WebUrl
from codeagent.tools.arguments import written

_MOST_RESULTS = 20
_LONGEST_SNIPPET = 500


@dataclass(frozen=True)
class SearchProvider:
    """How to query a provider of web searches, and where its results are."""

    url: str
    """The address; empty if the user has to give their own."""
    key: str = ""
    """The name of the secret with its key; empty if it does not need one."""
    header: str = ""
    """The header with the key."""
    prefix: str = ""
    """The text before the key, such as `Bearer `."""
    query: str = "q"
    """The parameter, or the field of the JSON body, for the query."""
    count: str = ""
    """The parameter or field for the number of results."""
    fixed: str = ""
    """Parameters added to the address."""
    posts: bool = False
    """Whether the query is posted as JSON."""
    results: tuple[str, ...] = ("results",)
    """The keys that lead to the list of results."""
    marked: tuple[str, str] | None = None
    """A field that every answer has, and its value; without the first key of `results`, nothing was
    found."""
    snippet: str = "content"


PROVIDERS: Mapping[str, SearchProvider] = {
    "searxng": SearchProvider("", fixed="format=json"),
    "brave": SearchProvider(
        "https://api.search.brave.com/res/v1/web/search",
        "BRAVE_API_KEY",
        "X-Subscription-Token",
        count="count",
        results=("web", "results"),
        marked=("type", "search"),
        snippet="description",
    ),
    "tavily": SearchProvider(
        "https://api.tavily.com/search",
        "TAVILY_API_KEY",
        "Authorization",
        "Bearer ",
        query="query",
        count="max_results",
        posts=True,
    ),
}


class WebSearchArgs(ToolArgs):
    query: Annotated[str, Field(min_length=1, max_length=400), written("query")]
    limit: Annotated[int, Field(ge=1, le=_MOST_RESULTS)] = 8


class WebSearch(Tool[WebSearchArgs]):
    """Needs approval, because the query leaves this machine; a rule may allow it."""

    name = "web_search"
    label = "Web search"
    description = "Search the web: titles, addresses and snippets. Read a result with web_fetch."
    Args = WebSearchArgs
    permission = "prompt"
    effect = "nothing"
    concurrency = "shared"

    def __init__(
        self, client: WebClient, secrets: BoundSecrets, provider: SearchProvider, url: str
    ) -> None:
        """Raises ValueError if `url` is not an address."""
        self._client = client
        self._secrets = secrets
        self._provider = provider
        self._url = WebUrl.parse(url)

    def target(self, args: WebSearchArgs) -> str:
        return args.query

    def approval_key(self, args: WebSearchArgs) -> ApprovalKey:
        place = self._url.place
        said = f"network access: the query goes to {place}"
        host = f"{self._url.host}:{self._url.port}"
        return ApprovalKey(
            "text", (args.query,), sensitive=said, network=True, server=place, host=host
        )

    def proposal(self, args: WebSearchArgs) -> str:
        return f"{self.name}({NETWORK}*)"

    async def preview(self, args: WebSearchArgs, ctx: ToolContext) -> Preview:
        return Preview(args.query, (TextBlock(text=f"Search {self._url.place} for: {args.query}"),))

    async def run(self, args: WebSearchArgs, ctx: ToolContext) -> ToolResult:
        response = await self._client.send(await self._request(args), seconds=30)
        if response.status >= 400 or response.redirect is not None:
            return result_of(response, self._secrets.clean)
        try:
            found = _found(json.loads(response.body), self._provider)
            lines = [
                _line(at, one, self._provider.snippet)
                for at, one in enumerate(found[: args.limit], 1)
            ]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise Failed(
                f"{self._url.place} answered with something other than search results"
            ) from None
        text = self._secrets.clean("\n\n".join([NOT_ORDERS, *lines])) if lines else "Nothing found."
        return ToolResult.from_text(text, details={"results": len(lines)})

    async def _request(self, args: WebSearchArgs) -> WebRequest:
        provider, url = self._provider, self._url
        headers = {"accept": "application/json"}
        if provider.key:
            headers[provider.header] = provider.prefix + await self._secrets.value(
                provider.key, url
            )
        if provider.posts:
            body = json.dumps({provider.query: args.query, provider.count: args.limit}).encode()
            return WebRequest("POST", url, {**headers, "content-type": "application/json"}, body)
        asked = [f"{provider.query}={quote(args.query, safe='')}", provider.fixed]
        asked += [f"{provider.count}={args.limit}"] if provider.count else []
        query = "&".join(part for part in (url.query, *asked) if part)
        return WebRequest("GET", WebUrl(url.scheme, url.host, url.port, url.path, query), headers)


def _found(answer: Any, provider: SearchProvider) -> Any:
    """Return the results in an answer. Raises KeyError, TypeError."""
    if provider.marked is not None and provider.results[0] not in answer:
        name, value = provider.marked
        return [] if answer[name] == value else answer[provider.results[0]]
    for name in provider.results:
        answer = answer[name]
    return answer


def _line(at: int, result: Any, snippet: str) -> str:
    title, address = (
        one_line(str(result.get("title") or ""), 200),
        one_line(str(result["url"]), 500),
    )
    said = one_line(str(result.get(snippet) or ""), _LONGEST_SNIPPET)
    return f"{at}. {title}\n   {address}" + (f"\n   {said}" if said else "")
