"""How to call an operation: its parameters, body and credentials, as the document describes
them."""

import re
from collections.abc import Iterator
from dataclasses import field
from itertools import chain, count
from typing import Any, Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.json_types import JsonValue
from codeagent.core.sanitize import one_line
from codeagent.extensions.openapi.document import ApiDocument, Operation
from codeagent.extensions.openapi.reading import BadDocument
from codeagent.extensions.openapi.schemas import Schemas, described
from codeagent.net.web.headers import METHOD_OVERRIDES

BODY = "body"
"""The argument for the body."""
BodyKind = Literal["json", "form", "multipart", "text"]
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 64
_MOST_PARAMETERS = 500
_LONGEST_DOCUMENTATION = 20_000
_PLACES = ("path", "query", "header", "cookie")
_STYLES = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""The styles by place; the first is the default."""
_NOT_OFFERED = frozenset(
    {
        "accept",
        "content-type",
        "authorization",
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "cookie",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "proxy-authorization",
        "proxy-connection",
        *METHOD_OVERRIDES,
    }
)
"""Headers that are not parameters, or that the client sets itself."""


@dataclass(frozen=True)
class Style:
    """How a value is serialised."""

    name: str
    explode: bool
    reserved: bool = False
    """Reserved characters are not encoded."""
    media: str = ""
    """Its own media type; if there is one, it is written as that, and `name` is ignored."""


@dataclass(frozen=True)
class ApiParameter:
    argument: str
    """The model's name for it."""
    name: str
    """The name on the wire."""
    place: str
    """`path`, `query`, `header` or `cookie`."""
    style: Style
    required: bool = False


@dataclass(frozen=True)
class Body:
    kind: BodyKind
    media: str
    required: bool
    encoding: dict[str, Style] = field(default_factory=dict)
    """How the properties of a form are serialised, if the document says so."""
    files: frozenset[str] = frozenset()
    """The properties of a multipart body that are files or lists of files; a body of kind `text` is
    itself a text or a file."""


@dataclass(frozen=True)
class Scheme:
    """A way to authenticate."""

    id: str
    """The document's name for it."""
    kind: Literal["bearer", "basic", "header", "query", "cookie", ""]
    """The kind; empty if it is not supported."""
    name: str = ""
    """The name of the header, the query parameter or the cookie."""


@dataclass(frozen=True)
class Plan:
    operation: Operation
    parameters: tuple[ApiParameter, ...]
    body: Body | None
    security: tuple[tuple[Scheme, ...], ...]
    """Alternative ways to authenticate, each of schemes that are used together; empty if not
    needed."""
    schema: dict[str, JsonValue]
    """The schema of the arguments."""
    description: str
    documentation: str = ""
    """Everything that the document says about the operation, in Markdown; empty if the description
    says it all."""


def plan_of(document: ApiDocument, operation: Operation) -> Plan:
    """Return the plan of an operation. Raises BadDocument."""
    item, raw = document.operation(operation)
    schemas = Schemas(document)
    properties: dict[str, Any] = {}
    required: list[str] = []
    parameters: list[ApiParameter] = []
    for node in _parameters(document, item, raw):
        if len(parameters) == _MOST_PARAMETERS:
            raise BadDocument(f"it has more than {_MOST_PARAMETERS} parameters")
        parameter = _parameter(node, properties)
        parameters.append(parameter)
        properties[parameter.argument] = _parameter_schema(node, schemas)
        required += [parameter.argument] if parameter.required else []
    missing = set(re.findall(r"\{([^{}]+)\}", operation.path)) - {
        one.name for one in parameters if one.place == "path"
    }
    if missing:
        raise BadDocument(
            f"its path has {one_line(', '.join(sorted(missing)), 200)}, which is not among its parameters"
        )
    body, body_schema = _body(document, raw, schemas)
    if body is not None:
        properties[BODY] = body_schema
        required += [BODY] if body.required else []
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if required:
        schema["required"] = required
    said = " ".join(
        part for part in (operation.summary, f"({operation.method} {operation.path})") if part
    )
    return Plan(
        operation,
        tuple(parameters),
        body,
        security=security_of(document, raw),
        schema=schema,
        description=said,
        documentation=_documentation(raw),
    )


def _documentation(raw: dict[str, Any]) -> str:
    text = raw.get("description")
    return (
        text[:_LONGEST_DOCUMENTATION].strip()
        if isinstance(text, str) and raw.get("summary")
        else ""
    )


def _parameters(
    document: ApiDocument, item: dict[str, Any], raw: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield the parameters of the path, then those of the operation, which replace equal ones."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for place in (item, raw):
        listed = place.get("parameters")
        for node in listed if isinstance(listed, list) else []:
            one = document.follow(node)
            name, where = one.get("name"), one.get("in")
            if not isinstance(name, str) or where not in _PLACES:
                raise BadDocument(
                    "a parameter has no name, or is not in path, query, header or cookie"
                )
            if not (where == "header" and name.lower() in _NOT_OFFERED):
                found[str(where), name] = one
    yield from found.values()


def _parameter(node: dict[str, Any], taken: dict[str, Any]) -> ApiParameter:
    name, place = str(node["name"]), str(node["in"])
    plain = _NAME.sub("_", name).strip("_")[:_LONGEST_NAME] or place
    numbered = (f"{plain[: _LONGEST_NAME - 6]}_{number}" for number in count(2))
    names = chain((plain, f"{place}_{plain}"[:_LONGEST_NAME]), numbered)
    argument = next(one for one in names if one not in taken and one != BODY)
    content = node.get("content")
    media = str(next(iter(content), "")) if isinstance(content, dict) else ""
    return ApiParameter(
        argument,
        name,
        place,
        _style(node, place, media),
        place == "path" or node.get("required") is True,
    )


def _style(node: dict[str, Any], place: str, media: str = "") -> Style:
    """Return the style that a parameter or an encoding says, or the default."""
    style = node.get("style") if node.get("style") in _STYLES[place] else _STYLES[place][0]
    explode = node.get("explode")
    reserved = (
        place == "query" and node.get("allowReserved") is True
    )  # in a path, a / would lead elsewhere
    return Style(
        str(style), explode if isinstance(explode, bool) else style == "form", reserved, media
    )


def _parameter_schema(node: dict[str, Any], schemas: Schemas) -> dict[str, Any]:
    content = node.get("content")
    inner: Any = node.get("schema")
    if isinstance(content, dict) and content:
        media = next(iter(content.values()))
        inner = media.get("schema") if isinstance(media, dict) else None
    schema = schemas.converted(inner)
    said = described(node)
    return {**schema, "description": said} if said else schema


def _body(
    document: ApiDocument, raw: dict[str, Any], schemas: Schemas
) -> tuple[Body | None, dict[str, Any]]:
    if raw.get("requestBody") is None:
        return None, {}
    node = document.follow(raw["requestBody"])
    content = node.get("content")
    if not isinstance(content, dict) or not content:
        return None, {}
    found = min(content, key=lambda media: _KINDS.index(kind_of(media)))
    kind, media = kind_of(found), content[found]
    media = media if isinstance(media, dict) else {}
    schema = schemas.converted(media.get("schema"))
    if kind == "text":
        about = {key: schema[key] for key in ("description",) if key in schema}
        file = _file("type") if "*" in found else _file()
        schema = {"anyOf": [{"type": "string"}, file], **about}
    files: frozenset[str] = frozenset()
    if kind == "multipart" and isinstance(properties := schema.get("properties"), dict):
        given = {name: _file_or(one) for name, one in properties.items()}
        files = frozenset(name for name, one in given.items() if one is not properties[name])
        schema = {**schema, "properties": given}
    body = Body(
        kind, found, node.get("required") is True, _encoding(media.get("encoding"), kind), files
    )
    said = described(node)
    return body, {**schema, "description": said} if said else schema


_KINDS: tuple[BodyKind, ...] = ("json", "form", "multipart", "text")
"""The best first."""


def kind_of(media: str) -> BodyKind:
    """Return how a body of this media type is written."""
    kind = media.partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json") or kind in ("*/*", "application/*"):
        return "json"
    return {"application/x-www-form-urlencoded": "form", "multipart/form-data": "multipart"}.get(
        kind, "text"
    )  # type: ignore[return-value]  # mypy widens the values of a dict


def _encoding(node: Any, kind: BodyKind) -> dict[str, Style]:
    """Return how each property is written for which the document says so.

    In a form, a media type beside a style is ignored, as the specification demands.
    """
    found: dict[str, Style] = {}
    for name, one in node.items() if isinstance(node, dict) else ():
        if not isinstance(one, dict):
            continue
        given = one.get("contentType")
        media = given.partition(",")[0].strip() if isinstance(given, str) else ""
        if kind == "form" and not one.keys().isdisjoint(("style", "explode", "allowReserved")):
            found[str(name)] = _style(one, "query")
        elif media:
            found[str(name)] = Style("form", True, media=media)
    return found


def _file_or(schema: dict[str, Any]) -> dict[str, Any]:
    """Allow a file to be given as text, or as an object with its bytes or path and its name, also
    in a list.

    Returns any other schema unchanged.
    """
    if schema.get("type") == "array" and isinstance(items := schema.get("items"), dict):
        given = _file_or(items)
        return schema if given is items else {**schema, "items": given}
    is_file = schema.get("format") in ("binary", "byte", "base64") or "contentMediaType" in schema
    if schema.get("type") != "string" or not is_file:
        return schema
    said = {"description": schema["description"]} if "description" in schema else {}
    return {"anyOf": [{"type": "string"}, _file("filename", "type")], **said}


def _file(*more: str) -> dict[str, Any]:
    """Return the schema of a file; `more`: the other properties that it may have."""
    said = {"filename": {"type": "string"}, "type": {"type": "string", "description": "Media type"}}
    return {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "base64": {"type": "string"},
            "path": {"type": "string", "description": "The path of a file in the workspace"},
            **{name: said[name] for name in more},
        },
        "additionalProperties": False,
    }


def security_of(
    document: ApiDocument, raw: dict[str, Any], *, every: bool = False
) -> tuple[tuple[Scheme, ...], ...]:
    """Return the ways to authenticate an operation; `raw` is empty for a request that is not an
    operation.

    `every`: all schemes of the document, needed or not.
    """
    components = document.root.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, dict) else None
    known = schemes if isinstance(schemes, dict) else {}
    needed = raw.get("security", document.root.get("security"))
    if every or (needed is None and not raw):
        needed = [{name: []} for name in known] + [{}]
    if not isinstance(needed, list):
        return ()
    ways = []
    for one in needed:
        if isinstance(one, dict):
            ways.append(tuple(_scheme(document, str(name), known.get(name)) for name in one))
    return tuple(ways)


def _scheme(document: ApiDocument, name: str, node: Any) -> Scheme:
    if not isinstance(node, dict):
        return Scheme(name, "")
    one = document.follow(node)
    match one.get("type"), str(one.get("scheme") or "").lower(), one.get("in"), one.get("name"):
        case "http", "basic", _, _:
            return Scheme(name, "basic")
        case ("http", "bearer", _, _) | ("oauth2" | "openIdConnect", _, _, _):
            return Scheme(name, "bearer")
        case "apiKey", _, ("header" | "query" | "cookie") as place, str(wire):
            return Scheme(name, place, wire)
        case _:
            return Scheme(name, "")
