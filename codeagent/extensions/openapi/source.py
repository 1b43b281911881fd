"""A document as a source of tools."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.core.hosts import HostRule
from codeagent.core.sanitize import one_line
from codeagent.core.tool import NotFound, Tool
from codeagent.core.toolbox import ToolProblem
from codeagent.extensions.openapi.document import GENERIC, METHODS, ApiDocument, Operation
from codeagent.extensions.openapi.generic import Admitted, GenericRequest
from codeagent.extensions.openapi.plan import plan_of, security_of
from codeagent.extensions.openapi.reading import BadDocument
from codeagent.extensions.openapi.tool import Caller, OperationTool
from codeagent.net.web.client import WebClient
from codeagent.net.web.secrets import BoundSecrets
from codeagent.net.web.url import WebUrl
from codeagent.tools.source import ListedTool, Listing

SEPARATOR = "__"
KINDS = ("id", "tag", "path", "method")
_MOST_PROBLEMS = 20
_LONGEST_PATH = 200


@dataclass(frozen=True)
class DocumentOptions:
    """The user's options for a document."""

    name: str
    hosts: tuple[str, ...]
    """The pinned hosts: only servers on them are called."""
    base: str = ""
    """The address of the document, which relative servers are resolved against."""
    server: str = ""
    """Replaces every server in the document."""
    only: tuple[str, ...] = ()
    """Filters such as `tag:pets`, `path:/users/*`, `method:get`, `id:list*`; one of each given kind
    must match.

    They hold for `generic_request` too.
    """
    credentials: Mapping[str, str] = field(default_factory=dict)
    """The names of secrets, by security scheme."""


class OpenApiSource:
    """Implements ToolSource: `start` reads the document, and each tool is made when it is first
    needed."""

    def __init__(
        self,
        options: DocumentOptions,
        read: Callable[[], ApiDocument],
        client: WebClient,
        secrets: BoundSecrets,
    ) -> None:
        """`read` blocks; it is called in a thread."""
        self.name = options.name
        self._options = options
        self._read = read
        self._caller = Caller(options.name, client, secrets, options.credentials)
        self._document: ApiDocument | None = None
        self._operations: dict[str, Operation] = {}
        self._tools: dict[str, Tool[Any]] = {}
        self._listing = Listing(state="waiting")

    async def start(self, changed: Callable[[], None]) -> None:
        """Read the document. Raises whatever `read` raises."""
        document, operations, problems = await asyncio.to_thread(self._loaded)
        self._document = document
        self._tools = {}
        self._operations = {self._full(one.name): one for one in operations}
        found = tuple(ToolProblem(self.name, text, "warning") for text in problems[:_MOST_PROBLEMS])
        about = about_of(document, len(operations))
        self._listing = Listing(
            listed_operations(self.name, operations, self._options.only), found, about=about
        )
        changed()

    def list(self) -> Listing:
        return self._listing

    def get(self, name: str) -> Tool[Any]:
        if name not in self._tools:
            self._tools[name] = self._made(name)
        return self._tools[name]

    async def close(self) -> None:
        return None

    def _loaded(self) -> tuple[ApiDocument, tuple[Operation, ...], tuple[str, ...]]:
        document = self._read()
        operations, problems = document.operations(longest_name(self.name))
        return document, chosen(operations, self._options.only), problems

    def _made(self, name: str) -> Tool[Any]:
        """Make a tool. Raises NotFound, with the reason if the document is at fault."""
        document = self._document
        if document is None:
            raise NotFound(f"the document {self.name} was not read yet")
        try:
            if (
                name == self._full(GENERIC)
                and (admitted := admitted_by(self._options.only)) is not None
            ):
                server, security = self._server(document), security_of(document, {})
                return GenericRequest(
                    name, server, security, self._caller, title=document.title, admitted=admitted
                )
            if name not in self._operations:
                raise NotFound(f"{self.name} has no operation {name}")
            operation = self._operations[name]
            plan = plan_of(document, operation)
            item, raw = document.operation(operation)
            return OperationTool(
                name, plan, self._server(document, raw, item), self._caller, title=document.title
            )
        except BadDocument as error:
            raise NotFound(f"{name} cannot be offered: {error}") from None

    def _server(self, document: ApiDocument, *places: Any) -> WebUrl:
        return pinned_server(document, self._options, *places)

    def _full(self, operation: str) -> str:
        return f"{self.name}{SEPARATOR}{operation}"


def pinned_server(document: ApiDocument, options: DocumentOptions, *places: Any) -> WebUrl:
    """Return the server of an operation or, without `places`, of the document. Raises BadDocument
    unless pinned."""
    given = {"servers": [{"url": options.server}]} if options.server else None
    server = document.server(given, *places, base=options.base)
    if not any(
        HostRule.configured(host).matches(server.host, server.port) for host in options.hosts
    ):
        raise BadDocument(
            f"its server {server} is not among the hosts pinned for it; add --host {server.place}"
        )
    return server


def longest_name(document: str) -> int:
    """Return the most characters that an operation's name may add to the document's."""
    return 64 - len(document) - len(SEPARATOR)


def listed_operations(
    document: str, operations: Sequence[Operation], only: Sequence[str]
) -> tuple[ListedTool, ...]:
    """List the tools of a document; last the one for other requests, if `only` admits any. Raises
    BadDocument."""
    found = [
        ListedTool(
            f"{document}{SEPARATOR}{one.name}",
            one.summary or f"{one.method} {path}",
            one.tags,
            path,
        )
        for one in operations
        for path in [one_line(one.path, _LONGEST_PATH)]
    ]
    if admitted_by(only) is not None:
        found.append(
            ListedTool(f"{document}{SEPARATOR}{GENERIC}", "Any other request to the same server.")
        )
    return tuple(found)


def about_of(document: ApiDocument, operations: int) -> str:
    return f"{operations} operations of {document.title or 'an API'}"


def chosen(operations: Sequence[Operation], only: Sequence[str]) -> tuple[Operation, ...]:
    """Return operations that match every kind of filter. Raises BadDocument for a bad filter, or if
    none match."""
    patterns = _patterns(only)
    found = tuple(
        one
        for one in operations
        if all(_fits(one, kind, wanted) for kind, wanted in patterns.items())
    )
    if operations and not found:
        raise BadDocument(f"no operation matches {' '.join(only)}")
    return found


def admitted_by(only: Sequence[str]) -> Admitted | None:
    """Return which requests that are not operations the filters admit; None if none: only
    operations have tags and ids.

    Raises BadDocument for a bad filter.
    """
    patterns = _patterns(only)
    if patterns.keys() & {"tag", "id"}:
        return None
    wanted = patterns.get("method", ["*"])
    methods = tuple(
        one.upper() for one in METHODS if any(fnmatchcase(one, pattern) for pattern in wanted)
    )
    admitted = Admitted(tuple(patterns.get("path", ()))).narrowed(methods)
    return admitted if admitted.methods else None


def _patterns(only: Sequence[str]) -> dict[str, list[str]]:
    """Return the patterns by kind. Raises BadDocument for a bad filter."""
    patterns: dict[str, list[str]] = {}
    for text in only:
        kind, _, pattern = text.partition(":")
        if kind not in KINDS or not pattern:
            raise BadDocument(
                f"{text!r} is not a filter; write {', '.join(f'{one}:PATTERN' for one in KINDS)}"
            )
        patterns.setdefault(kind, []).append(pattern.lower() if kind == "method" else pattern)
    return patterns


def _fits(operation: Operation, kind: str, patterns: Sequence[str]) -> bool:
    values = {
        "id": (operation.id, operation.name),
        "tag": operation.tags,
        "path": (operation.path,),
        "method": (operation.method.lower(),),
    }[kind]
    return any(fnmatchcase(value, pattern) for value in values for pattern in patterns)
