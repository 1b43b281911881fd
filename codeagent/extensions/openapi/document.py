"""An OpenAPI 3.0 or 3.1 document: its operations by name, its servers, and its references."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urljoin

from codeagent.core.dataclass import dataclass
from codeagent.core.sanitize import one_line
from codeagent.extensions.openapi.reading import BadDocument, read_text
from codeagent.net.web.url import WebUrl

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
GENERIC = "generic_request"
"""The name of the tool for any other request; operations never get it."""
LONGEST_SUMMARY = 120
_MOST_OPERATIONS = 10_000
MOST_STEPS = 32
"""How many references may lead to another one in a row."""
_WORD = re.compile(r"[^A-Za-z0-9-]+")
_INDEX = re.compile(r"[0-9]{1,6}")
_VARIABLE = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Operation:
    """An operation as an entry of a list."""

    name: str
    """Unique in the document, of letters, digits, `_` and `-`."""
    method: str
    """In upper case."""
    path: str
    summary: str = ""
    tags: tuple[str, ...] = ()
    id: str = ""
    """The document's own id; empty if it has none."""

    @property
    def reads(self) -> bool:
        return self.method in ("GET", "HEAD", "OPTIONS", "TRACE")


class ApiDocument:
    """A document that was read; no part of it is assumed to be well formed."""

    def __init__(self, root: Any) -> None:
        """Raises BadDocument if it is not an OpenAPI document of a supported version."""
        if not isinstance(root, dict):
            raise BadDocument("it is not an OpenAPI document: not an object")
        if "swagger" in root:
            raise BadDocument("it is Swagger 2.0; convert it to OpenAPI 3 first")
        version = str(root.get("openapi") or "")
        if not re.match(r"3\.[01](\.|$)", version):
            said = f"OpenAPI {one_line(version, 20)}" if version else "a document without openapi:"
            raise BadDocument(f"it is {said}; 3.0 and 3.1 are supported")
        if not isinstance(root.get("paths", {}), dict):
            raise BadDocument("its paths are not an object")
        self.root = root
        self.version = version

    @classmethod
    def read(cls, data: bytes) -> "ApiDocument":
        """Read a document from JSON or YAML. Blocks. Raises BadDocument."""
        return cls(read_text(data))

    @property
    def title(self) -> str:
        info = self.root.get("info")
        return one_line(str(info.get("title") or ""), 100) if isinstance(info, dict) else ""

    def operations(self, longest: int = 64) -> tuple[tuple[Operation, ...], tuple[str, ...]]:
        """Return all operations in order, with names of at most `longest` characters, and why
        others cannot be used.

        Raises BadDocument.
        """
        found: list[Operation] = []
        problems: list[str] = []
        taken: dict[str, int] = {GENERIC: 1}
        for path, method, item in self._each():
            if len(found) >= _MOST_OPERATIONS:
                raise BadDocument(f"it has more than {_MOST_OPERATIONS:,} operations")
            try:
                operation = self.follow(self.follow(item)[method])
            except BadDocument as error:
                problems.append(f"{method.upper()} {one_line(path, 200)}: {error}")
                continue
            own = operation.get("operationId")
            own = own if isinstance(own, str) else ""
            name = _unique(_cleaned(own) or _cleaned(f"{method}_{path}") or method, longest, taken)
            found.append(
                Operation(
                    name,
                    method.upper(),
                    path,
                    summary=_summary(operation),
                    tags=_tags(operation),
                    id=own,
                )
            )
        return tuple(found), tuple(problems)

    def operation(self, one: Operation) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the path item, and the operation in it. Raises BadDocument."""
        item = self.follow(self.root["paths"][one.path])
        return item, self.follow(item[one.method.lower()])

    def follow(self, node: Any) -> dict[str, Any]:
        """Return the object that a reference leads to, or the object itself. Raises BadDocument."""
        for _ in range(MOST_STEPS):
            if not isinstance(node, dict):
                raise BadDocument("it has something else where an object is expected")
            reference = node.get("$ref")
            if not isinstance(reference, str):
                return node
            rest = {key: value for key, value in node.items() if key in ("summary", "description")}
            target = self.target(reference)
            node = (
                {**target, **rest}
                if rest and isinstance(target, dict) and "$ref" not in target
                else target
            )
        raise BadDocument(
            f"a reference leads to references without end: {one_line(str(reference), 200)}"
        )

    def target(self, reference: str) -> Any:
        """Return what a reference leads to, which may be another reference. Raises BadDocument."""
        shown = one_line(reference, 200)
        if not reference.startswith("#"):
            raise BadDocument(
                f"it refers to another document, {shown}; put it beside a local file, or join both first"
            )
        start, *parts = unquote(reference[1:]).split("/")
        if start:
            raise BadDocument(f"the reference {shown} is not a path like #/components/schemas/Name")
        node: Any = self.root
        for part in parts:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and _INDEX.fullmatch(key) and int(key) < len(node):
                node = node[int(key)]
            else:
                raise BadDocument(f"the reference {shown} leads nowhere")
        return node

    def server(self, *places: Any, base: str = "") -> WebUrl:
        """Return the first server that an object names, with variables at their defaults; the last
        object is the root.

        `base` is the address that relative ones are resolved against. Raises BadDocument.
        """
        for place in (*places, self.root):
            servers = place.get("servers") if isinstance(place, dict) else None
            if isinstance(servers, list) and servers and isinstance(servers[0], dict):
                return _server(servers[0], base)
        return _server({"url": "/"}, base)

    def _each(self) -> Iterator[tuple[str, str, Any]]:
        for path, item in self.root.get("paths", {}).items():
            try:
                methods = self.follow(item) if path.startswith("/") else {}
            except BadDocument:
                methods = dict.fromkeys(["get"])  # reported as a problem of one operation
            yield from ((path, method, item) for method in METHODS if method in methods)


def _server(server: dict[str, Any], base: str) -> WebUrl:
    variables = server.get("variables")
    defaults = variables if isinstance(variables, dict) else {}

    def default(match: re.Match[str]) -> str:
        one = defaults.get(match[1])
        return str(one.get("default", "")) if isinstance(one, dict) else match[0]

    text = _VARIABLE.sub(default, str(server.get("url") or "/"))
    try:
        return WebUrl.parse(urljoin(base, text) if base else text)
    except ValueError as error:
        raise BadDocument(
            f"its server {one_line(text, 200)} cannot be used ({error}); give --server URL"
        ) from None


def _summary(operation: dict[str, Any]) -> str:
    said = operation.get("summary") or operation.get("description") or ""
    return one_line(str(said), LONGEST_SUMMARY)


def _tags(operation: dict[str, Any]) -> tuple[str, ...]:
    tags = operation.get("tags")
    return tuple(one_line(str(tag), 60) for tag in tags) if isinstance(tags, list) else ()


def _cleaned(name: str) -> str:
    """`repos/list-for-user` → `repos_list-for-user`, and `get_/users/{id}` → `get_users_id`."""
    return _WORD.sub("_", name).strip("_")


def _unique(name: str, longest: int, taken: dict[str, int]) -> str:
    """Return the name, cut and numbered if necessary; `taken` counts how often each was used."""
    name = name[:longest]
    while name in taken:
        taken[name] += 1
        end = f"_{taken[name]}"
        numbered = name[: longest - len(end)] + end
        if numbered not in taken:
            name = numbered
    taken[name] = 1
    return name
