"""A tool for each operation of a document, and how any request to its server is addressed, shown
and sent."""

import asyncio
import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any
from urllib.parse import unquote

from codeagent.core.dataclass import dataclass
from codeagent.core.display import TextBlock
from codeagent.core.hosts import is_loopback
from codeagent.core.policy import ApprovalKey, EquivalentCall
from codeagent.core.sanitize import one_line, visible
from codeagent.core.tool import (
    BaseChanged,
    InvalidArgs,
    OpenArgs,
    Preview,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
)
from codeagent.extensions.openapi.files import digest_of, paths_in, read_files
from codeagent.extensions.openapi.plan import BODY, Plan, Scheme
from codeagent.extensions.openapi.writing import (
    FilePart,
    body_of,
    headers_of,
    pairs_of,
    path_of,
    query_of,
)
from codeagent.net.web.client import WebClient, WebRequest
from codeagent.net.web.headers import checked_headers
from codeagent.net.web.result import result_of
from codeagent.net.web.secrets import BoundSecrets, basic
from codeagent.net.web.url import WebUrl

_LONGEST_DESCRIPTION = 600
_ACCEPT = "application/json, text/*;q=0.8, */*;q=0.5"
_DOT_SEGMENT = re.compile(r"(?:^|[/\\])\.{1,2}(?:;[^/\\]*)?(?:[/\\]|$)")
"""Matches `.` or `..`, also with parameters, which some servers ignore."""
_TIMES_ENCODED = 3
Way = tuple[Scheme, ...]


@dataclass(frozen=True)
class Caller:
    """Sends requests to the server of a document, with the credentials that the user named for
    it."""

    document: str
    """The user's name for the document."""
    client: WebClient
    secrets: BoundSecrets
    credentials: Mapping[str, str] = field(default_factory=dict)
    """The names of secrets, by security scheme."""

    def way(self, security: tuple[Way, ...]) -> Way:
        """Return the first way to authenticate for which there are secrets; empty if there is
        none."""
        usable = (
            way
            for way in security
            if way and all(one.kind and one.id in self.credentials for one in way)
        )
        return next(usable, ())

    def notes(self, security: tuple[Way, ...]) -> list[str]:
        """Return what the user is told about the credentials of a call."""
        return [f"with the secret {self.credentials[one.id]}" for one in self.way(security)]

    def sensitive(self, server: WebUrl, security: tuple[Way, ...]) -> str | None:
        """Return why a call is asked about in every mode; None if a mode may answer for the
        user."""
        away = () if is_loopback(server.host) else (f"network access to {server.place}",)
        return ", ".join((*away, *self.notes(security))) or None

    def hint(self, security: tuple[Way, ...]) -> str:
        """Return a hint for a refused call without credentials; empty if it had them, or none are
        defined."""
        if not security or self.way(security) or () in security:
            return ""
        names = one_line(" or ".join("+".join(one.id for one in way) for way in security), 200)
        return (
            f"it was called without credentials, and takes {names}: the user can name a secret with "
            f"codeagent tools add openapi … --name {self.document} --secret SCHEME=NAME"
        )

    async def send(
        self, server: WebUrl, request: WebRequest, security: tuple[Way, ...], cookie: str = ""
    ) -> ToolResult:
        """Send a request with its credentials; follow redirects only below the server's path.
        Raises ToolError."""
        url, headers, query, cookies = (
            request.url,
            dict(request.headers),
            [request.url.query],
            [cookie],
        )
        for scheme in self.way(security):
            value = await self.secrets.value(self.credentials[scheme.id], url)
            match scheme.kind:
                case "bearer":
                    headers["Authorization"] = f"Bearer {value}"
                case "basic":
                    headers["Authorization"] = f"Basic {basic(value)}"
                case "header":
                    headers = {
                        name: one
                        for name, one in headers.items()
                        if name.lower() != scheme.name.lower()
                    }
                    headers[scheme.name] = value
                case "query":
                    query.append(pairs_of({scheme.name: value}))
                case _:
                    cookies.append(pairs_of({scheme.name: value}))
        if any(cookies):
            headers["Cookie"] = "; ".join(one for one in cookies if one)
        whole = WebUrl(
            url.scheme, url.host, url.port, url.path, "&".join(part for part in query if part)
        )
        base = server.path.rstrip("/") + "/"
        if not any(name.lower() == "accept" for name in headers):
            headers["Accept"] = _ACCEPT
        sent = WebRequest(request.method, whole, checked_headers(headers), request.body)

        def stays_below(target: WebUrl) -> bool:
            return f"{target.path}/".startswith(base) and not may_climb(target.path)

        response = await self.client.send(sent, follow=stays_below)
        hint = self.hint(security) if response.status in (401, 403) else ""
        return await asyncio.to_thread(result_of, response, self.secrets.clean, hint=hint)


class OperationTool(Tool[OpenArgs]):
    """Calls one operation. Modes never answer for the user if it leaves this machine or goes with a
    secret."""

    Args = OpenArgs
    permission = "prompt"
    source = "openapi"

    def __init__(
        self, name: str, plan: Plan, server: WebUrl, caller: Caller, *, title: str
    ) -> None:
        operation = plan.operation
        self.name = name
        self.label = operation.summary or name
        self.description = one_line(plan.description, _LONGEST_DESCRIPTION)
        self.documentation = plan.documentation
        self.schema = plan.schema
        self.effect = "nothing" if operation.reads else "anything"
        self.concurrency = "shared" if operation.reads else "exclusive"
        self.origin = f"{title or caller.document}: {operation.method} {operation.path}"
        self.restricted = {"hosts": (server.place,)}
        self._plan = plan
        self._server = server
        self._caller = caller

    def approval_key(self, args: OpenArgs) -> ApprovalKey:
        """Return `GET /v1/users/7`, followed by the host and the whole address, for rules that deny
        or ask.

        Rules that keep a file from `read` keep it from being sent.
        """
        given = _given(args)
        paths = tuple(posixpath.normpath(path) for path in paths_in(self._plan, given))
        does = (EquivalentCall("read", ApprovalKey("path", paths)),) if paths else ()
        why = self._caller.sensitive(self._server, self._plan.security)
        return replace(self._key(given), does=does, sensitive=why)

    def _key(self, given: Mapping[str, Any]) -> ApprovalKey:
        operation = self._plan.operation
        try:
            url = self._url(given)
        except ToolError:
            return ApprovalKey(
                "text",
                (f"{operation.method} {operation.path}",),
                opaque=True,
                server=self._server.place,
            )
        return request_key(operation.method, url)

    def proposal(self, args: OpenArgs) -> str:
        return f"{self.name}({self._plan.operation.method} *)"

    async def preview(self, args: OpenArgs, ctx: ToolContext) -> Preview:
        given, files = await self._with_files(_given(args), ctx)
        notes = [f"with the file {one.path}, {len(one.content):,} bytes" for one in files]
        notes += self._caller.notes(self._plan.security)
        cookie, body = headers_of(self._plan, given).get("Cookie", ""), _given(args).get(BODY)
        shown = request_preview(self._request(given), notes, cookie, body)
        return replace(shown, base=digest_of(files))

    async def run(self, args: OpenArgs, ctx: ToolContext) -> ToolResult:
        given, files = await self._with_files(_given(args), ctx)
        if ctx.base is not None and ctx.base != digest_of(files):
            raise BaseChanged
        cookie = headers_of(self._plan, given).get("Cookie", "")
        return await self._caller.send(
            self._server, self._request(given), self._plan.security, cookie
        )

    async def _with_files(
        self, given: dict[str, Any], ctx: ToolContext
    ) -> tuple[dict[str, Any], list[FilePart]]:
        """Return the arguments with the contents of named files, and these files. Raises ToolError,
        WorkspaceError."""
        if not paths_in(self._plan, given):
            return given, []
        return await asyncio.to_thread(read_files, self._plan, given, ctx.workspace)

    def _request(self, given: Mapping[str, Any]) -> WebRequest:
        """Raises InvalidArgs."""
        headers = {
            name: value for name, value in headers_of(self._plan, given).items() if name != "Cookie"
        }
        body, media = body_of(self._plan, given)
        if media:
            headers["Content-Type"] = media
        return WebRequest(
            self._plan.operation.method, self._url(given), checked_headers(headers), body
        )

    def _url(self, given: Mapping[str, Any]) -> WebUrl:
        """Raises InvalidArgs."""
        return url_below(self._server, path_of(self._plan, given), query_of(self._plan, given))


def _given(args: OpenArgs) -> dict[str, Any]:
    return args.model_extra or {}


def may_climb(path: str) -> bool:
    """Whether a server might read the path as another one, however often it decodes it."""
    for _ in range(_TIMES_ENCODED):
        if (
            not path.startswith("/")
            or path.startswith("//")
            or _DOT_SEGMENT.search(path)
            or "\\" in path
        ):
            return True
        path = unquote(path)
    return False


def url_below(server: WebUrl, path: str, query: str) -> WebUrl:
    """Return the address of a path below a server's own. Raises InvalidArgs."""
    port = "" if server.port == (443 if server.scheme == "https" else 80) else f":{server.port}"
    base = f"{server.scheme}://{server.host}{port}{server.path.rstrip('/')}"
    try:
        url = WebUrl.parse(f"{base}{path}")
        return WebUrl.parse(f"{url}{'&' if url.query else '?'}{query}" if query else str(url))
    except ValueError as error:
        raise InvalidArgs(str(error)) from None


def request_key(method: str, url: WebUrl) -> ApprovalKey:
    runs = (url.place, url.host, f"{method} {url}", str(url))
    return ApprovalKey("text", (f"{method} {url.path}",), runs=runs, server=url.place)


def request_preview(request: WebRequest, notes: list[str], cookie: str, body: Any) -> Preview:
    """Return everything that would be sent; `body` is as the model gave it, not yet written as a
    form or parts."""
    lines = [
        f"{request.method} {request.url}",
        *(f"{name}: {value}" for name, value in request.headers.items()),
    ]
    lines += [f"Cookie: {cookie}"] if cookie else []
    lines += notes
    if body is not None:
        lines += [
            "",
            body if isinstance(body, str) else json.dumps(body, indent=2, ensure_ascii=False),
        ]
    return Preview(f"{request.method} {request.url}", (TextBlock(text=visible("\n".join(lines))),))
