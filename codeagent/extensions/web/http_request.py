"""The `http_request` tool: one request to one host, with secrets by reference."""

import asyncio
import json
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote

from pydantic import Field, model_validator

from codeagent.core.display import TextBlock
from codeagent.core.json_types import JsonValue
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import visible
from codeagent.core.tool import (
    EXCLUSIVE,
    SHARED,
    Access,
    InvalidArgs,
    Preview,
    Tool,
    ToolArgs,
    ToolContext,
    ToolResult,
)
from codeagent.extensions.web.access import host_key, host_proposal, parsed_url
from codeagent.net.web.client import SECONDS, WebClient, WebRequest
from codeagent.net.web.headers import checked_headers
from codeagent.net.web.result import result_of
from codeagent.net.web.secrets import BoundSecrets, references_in
from codeagent.net.web.url import WebUrl
from codeagent.tools.arguments import AS_SECONDS

LONGEST_SECONDS = 300.0
Scalar = str | int | float | bool


class HttpRequestArgs(ToolArgs):
    """`json` is the name on the wire; the field needs another one, because pydantic's models have a
    `json` method."""

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = "GET"
    url: str
    headers: Annotated[dict[str, str], Field(description="A value may be ${secret:NAME}")] = Field(
        {}
    )
    query: Annotated[
        dict[str, Scalar | list[Scalar]], Field(description="Added to the URL, encoded")
    ] = Field({})
    body: Annotated[str | None, Field(description="Sent as it is")] = None
    data: Annotated[JsonValue, Field(alias="json", description="Sent as JSON instead of body")] = (
        None
    )
    timeout: Annotated[
        float, Field(gt=0, le=LONGEST_SECONDS, description="Seconds"), AS_SECONDS
    ] = SECONDS

    @model_validator(mode="after")
    def _has_one_body(self) -> Self:
        if self.body is not None and self.data is not None:
            raise ValueError("give body or json, not both")
        if self.method in ("GET", "HEAD") and (self.body is not None or self.data is not None):
            raise ValueError(f"a {self.method} request has no body; use query")
        return self


class HttpRequest(Tool[HttpRequestArgs]):
    """Needs approval for every host, in every mode, unless a rule allows the method and the
    host."""

    name = "http_request"
    label = "HTTP request"
    description = (
        "Make one HTTP request to a public host and get status and body; redirects to another "
        "host are not followed."
    )
    Args = HttpRequestArgs
    permission = "prompt"
    effect = "anything"

    def __init__(self, client: WebClient, secrets: BoundSecrets) -> None:
        self._client = client
        self._secrets = secrets

    def access(self, args: HttpRequestArgs, workspace: Workspace) -> Access:
        """Return the access: a request that changes something elsewhere runs alone, in order."""
        return SHARED if args.method in ("GET", "HEAD", "OPTIONS") else EXCLUSIVE

    def time_limit(self, args: HttpRequestArgs) -> float | None:
        return args.timeout + 5

    def target(self, args: HttpRequestArgs) -> str:
        return f"{args.method} {args.url}"

    def approval_key(self, args: HttpRequestArgs) -> ApprovalKey:
        secrets = references_in(args.headers, args.query, args.body, args.data)
        return host_key(args.url, method=args.method, secrets=secrets)

    def proposal(self, args: HttpRequestArgs) -> str:
        return host_proposal(self.name, args.url, self.approval_key(args))

    def refuse(self, args: HttpRequestArgs, ctx: ToolContext) -> None:
        url = parsed_url(args.url)
        self._client.refuse_address(url)
        for name in references_in(args.headers, args.query, args.body, args.data):
            self._secrets.refuse_unbound(name, url)

    async def preview(self, args: HttpRequestArgs, ctx: ToolContext) -> Preview:
        parsed_url(args.url)
        checked_headers(args.headers)
        lines = [
            f"{args.method} {args.url}",
            *(f"{name}: {value}" for name, value in args.headers.items()),
        ]
        lines += [f"?{name}={_plain(value)}" for name, value in args.query.items()]
        body = (
            args.body if args.data is None else json.dumps(args.data, indent=2, ensure_ascii=False)
        )
        if body:
            lines += ["", body]
        return Preview(self.target(args), (TextBlock(text=visible("\n".join(lines))),))

    async def run(self, args: HttpRequestArgs, ctx: ToolContext) -> ToolResult:
        url = parsed_url(args.url)
        query = await self._secrets.filled(args.query, url)
        headers = checked_headers(await self._secrets.filled(checked_headers(args.headers), url))
        body = await self._body(args, headers, url)
        request = WebRequest(args.method, _with_query(url, query), headers, body)
        response = await self._client.send(request, seconds=args.timeout)
        return await asyncio.to_thread(result_of, response, self._secrets.clean)

    async def _body(
        self, args: HttpRequestArgs, headers: dict[str, str], url: WebUrl
    ) -> bytes | None:
        """Return the body; its type is added to the headers if they have none."""
        if args.data is None and args.body is None:
            return None
        kind = "text/plain; charset=utf-8" if args.data is None else "application/json"
        if not any(name.lower() == "content-type" for name in headers):
            headers["content-type"] = kind
        filled = await self._secrets.filled(args.body if args.data is None else args.data, url)
        return (filled if args.data is None else json.dumps(filled)).encode(
            "utf-8", "surrogatepass"
        )


def _with_query(url: WebUrl, query: dict[str, Any]) -> WebUrl:
    """Return the address with the query. Raises InvalidArgs if it becomes too long."""
    pairs = [
        (name, one)
        for name, value in query.items()
        for one in (value if isinstance(value, list) else [value])
    ]
    added = "&".join(
        f"{quote(name, safe='')}={quote(_plain(value), safe='')}" for name, value in pairs
    )
    joined = "&".join(part for part in (url.query, added) if part)
    try:
        return WebUrl.parse(str(WebUrl(url.scheme, url.host, url.port, url.path, joined)))
    except ValueError as error:
        raise InvalidArgs(str(error)) from None


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
