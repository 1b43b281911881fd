"""The tool for requests to the server of a document that are not operations of it, within the
user's filters."""

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote

from pydantic import Field, create_model, model_validator

from codeagent.core.dataclass import dataclass
from codeagent.core.json_types import JsonValue
from codeagent.core.policy import ApprovalKey
from codeagent.core.tool import (
    InvalidArgs,
    Preview,
    Tool,
    ToolArgs,
    ToolContext,
    ToolError,
    ToolResult,
)
from codeagent.extensions.openapi.tool import (
    Caller,
    Way,
    may_climb,
    request_key,
    request_preview,
    url_below,
)
from codeagent.extensions.openapi.writing import json_body, pairs_of
from codeagent.net.web.client import WebRequest
from codeagent.net.web.headers import checked_headers
from codeagent.net.web.url import WebUrl

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_OTHER_METHOD = "_method"
"""A field that many servers take for the method, whatever the request says."""


@dataclass(frozen=True)
class Admitted:
    """Which requests the filters of a document let through."""

    paths: tuple[str, ...] = ()
    """Patterns of which one must match the path, as it is and decoded; empty: any path."""
    methods: tuple[str, ...] = _METHODS

    @property
    def all_methods(self) -> bool:
        return self.methods == _METHODS

    def narrowed(self, methods: Sequence[str]) -> "Admitted":
        """Keep only these methods."""
        return replace(self, methods=tuple(one for one in self.methods if one in methods))

    def has_path(self, path: str) -> bool:
        return not self.paths or all(
            any(fnmatchcase(read, pattern) for pattern in self.paths)
            for read in (path, unquote(path))
        )

    def __str__(self) -> str:
        """Name the methods and paths, for the model; empty if every request is admitted."""
        methods = "" if self.all_methods else ", ".join(self.methods)
        paths = f"paths like {' or '.join(self.paths)}" if self.paths else ""
        return " to ".join(part for part in (methods, paths) if part)


class GenericArgs(ToolArgs):
    """The arguments; `json` is the name on the wire, as in `http_request`."""

    path: Annotated[
        str, Field(description="Below the server's own path, such as /users/7", max_length=4000)
    ]
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = "GET"
    query: Annotated[dict[str, JsonValue], Field(description="Encoded for you")] = Field({})
    headers: dict[str, str] = Field({})
    data: Annotated[JsonValue, Field(alias="json", description="The body, sent as JSON")] = None

    @model_validator(mode="after")
    def _path_stays_below(self) -> Self:
        if may_climb(self.path):
            raise ValueError("path must begin with one /, without . or .. and backslashes")
        if "?" in self.path or "#" in self.path:
            raise ValueError("path must not contain ? or #; use query")
        return self


class GenericRequest(Tool[GenericArgs]):
    """Makes any admitted request to the server of a document, below its path, with the document's
    credentials."""

    permission = "prompt"
    source = "openapi"

    def __init__(
        self,
        name: str,
        server: WebUrl,
        security: tuple[Way, ...],
        caller: Caller,
        *,
        title: str,
        admitted: Admitted,
    ) -> None:
        self.name = name
        self.label = "Request"
        kind = f"a request ({admitted})" if str(admitted) else "any request"
        self.description = (
            f"Make {kind} to {server}, for everything that is not an operation of its own."
        )
        self.Args = GenericArgs if admitted.all_methods else _args_with(admitted.methods)
        self.effect = "anything"
        self.origin = title or caller.document
        self.restricted = {"hosts": (server.place,)}
        self._admitted = admitted
        self._server = server
        self._security = security
        self._caller = caller

    def approval_key(self, args: GenericArgs) -> ApprovalKey:
        try:
            key = request_key(args.method, self._url(args))
        except ToolError:
            key = ApprovalKey(
                "text", (f"{args.method} {args.path}",), opaque=True, server=self._server.place
            )
        return replace(key, sensitive=self._caller.sensitive(self._server, self._security))

    def proposal(self, args: GenericArgs) -> str:
        return f"{self.name}({args.method} *)" if args.method == "GET" else ""

    async def preview(self, args: GenericArgs, ctx: ToolContext) -> Preview:
        return request_preview(
            self._request(args), self._caller.notes(self._security), "", args.data
        )

    async def run(self, args: GenericArgs, ctx: ToolContext) -> ToolResult:
        return await self._caller.send(self._server, self._request(args), self._security)

    def _request(self, args: GenericArgs) -> WebRequest:
        """Raises InvalidArgs."""
        headers = dict(args.headers)
        if any(name.lower() in ("authorization", "cookie") for name in headers):
            raise InvalidArgs("credentials are added for you; leave Authorization and Cookie out")
        fields = {*args.query, *(args.data if isinstance(args.data, dict) else ())}
        if not self._admitted.all_methods and _OTHER_METHOD in fields:
            raise InvalidArgs(
                f"leave {_OTHER_METHOD} out: only {', '.join(self._admitted.methods)} is admitted"
            )
        body = None if args.data is None else json_body(args.data)
        if body is not None and not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = "application/json"
        return WebRequest(args.method, self._url(args), checked_headers(headers), body)

    def _url(self, args: GenericArgs) -> WebUrl:
        """Raises InvalidArgs."""
        if not self._admitted.has_path(args.path):
            raise InvalidArgs(f"the user admitted only {self._admitted}; nothing was sent")
        return url_below(self._server, args.path, pairs_of(args.query))


def _args_with(methods: tuple[str, ...]) -> type[GenericArgs]:
    """Make arguments that take only these methods, so that the model sees no other."""
    default: Any = "GET" if "GET" in methods else ...
    kind: Any = Literal[methods]
    return create_model("GenericArgs", __base__=GenericArgs, method=(kind, default))
