"""The `web_fetch` tool: returns a page as Markdown, kept for a while so that reading on does not
need a request."""

import asyncio
import time
from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from codeagent.core.dataclass import dataclass
from codeagent.core.display import TextBlock
from codeagent.core.policy import ApprovalKey
from codeagent.core.tool import (
    Failed,
    InvalidArgs,
    Preview,
    Tool,
    ToolArgs,
    ToolContext,
    ToolResult,
)
from codeagent.extensions.web.access import host_key, host_proposal, parsed_url
from codeagent.extensions.web.markdown import NotConverted, markdown_of
from codeagent.net.web.client import WebClient, WebRequest, WebResponse
from codeagent.net.web.result import NOT_ORDERS, body_text, head_of, result_of

LARGEST_PAGE = 4 << 20
LONGEST_PART = 30_000
"""Characters that a call returns."""
_KEPT_SECONDS = 900.0
_MOST_KEPT = 16 << 20
"""Characters of all pages together."""
_PAGES = frozenset({"text/html", "application/xhtml+xml"})


class WebFetchArgs(ToolArgs):
    url: str
    offset: Annotated[int, Field(ge=0, description="Characters to skip, to read on")] = 0


@dataclass(frozen=True)
class _Page:
    """A fetched page."""

    head: str
    text: str
    at: float
    """When it was fetched, by the monotonic clock."""


class WebFetch(Tool[WebFetchArgs]):
    """Needs approval for every host, in every mode, unless a rule allows the host."""

    name = "web_fetch"
    label = "Fetch"
    description = "Fetch a public web page as Markdown; redirects to another host are not followed."
    Args = WebFetchArgs
    permission = "prompt"
    effect = "nothing"
    concurrency = "shared"

    def __init__(
        self,
        client: WebClient,
        clean: Callable[[str], str],
        clock: Callable[[], float] = time.monotonic,
    ):
        """`clean` masks secrets."""
        self._client = client
        self._clean = clean
        self._clock = clock
        self._kept: dict[str, _Page] = {}

    def target(self, args: WebFetchArgs) -> str:
        return args.url

    def approval_key(self, args: WebFetchArgs) -> ApprovalKey:
        return host_key(args.url)

    def proposal(self, args: WebFetchArgs) -> str:
        return host_proposal(self.name, args.url, self.approval_key(args))

    def refuse(self, args: WebFetchArgs, ctx: ToolContext) -> None:
        self._client.refuse_address(parsed_url(args.url))

    async def preview(self, args: WebFetchArgs, ctx: ToolContext) -> Preview:
        return Preview(args.url, (TextBlock(text=f"GET {parsed_url(args.url)}"),))

    async def run(self, args: WebFetchArgs, ctx: ToolContext) -> ToolResult:
        url = parsed_url(args.url)
        page = self._found(str(url))
        if page is None:
            response = await self._client.send(
                WebRequest(
                    "GET", url, {"accept": "text/html, text/markdown, text/*;q=0.9, */*;q=0.1"}
                ),
                largest=LARGEST_PAGE,
            )
            if response.status >= 400 or response.redirect is not None:
                return result_of(response, self._clean)
            page = self._keep(str(url), await self._page(response))
        part = page.text[args.offset : args.offset + LONGEST_PART]
        if not part and args.offset:
            raise InvalidArgs(
                f"the page has {len(page.text):,} characters; there is nothing from {args.offset:,} on"
            )
        end = args.offset + len(part)
        more = (
            f"\n[… {len(page.text) - end:,} more characters: offset={end}]"
            if end < len(page.text)
            else ""
        )
        return ToolResult.from_text(
            f"{page.head}\n{NOT_ORDERS}\n\n{part}{more}", details={"url": str(url)}
        )

    async def _page(self, response: WebResponse) -> _Page:
        text = body_text(response)
        if response.headers.kind in _PAGES:
            try:
                text = await markdown_of(text, response.url)
            except NotConverted as error:
                raise Failed(f"{error}; use http_request for its source") from None
        return _Page(head_of(response), await asyncio.to_thread(self._clean, text), self._clock())

    def _found(self, url: str) -> _Page | None:
        page = self._kept.get(url)
        return None if page is None or self._clock() - page.at > _KEPT_SECONDS else page

    def _keep(self, url: str, page: _Page) -> _Page:
        self._kept.pop(url, None)
        self._kept[url] = page
        while sum(len(one.text) for one in self._kept.values()) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return page
