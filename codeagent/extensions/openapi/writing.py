"""Writes the arguments of a call into a request: parameters in every style, and bodies as JSON,
form or multipart."""

import base64
import binascii
import json
import mimetypes
import re
import secrets
from collections.abc import Mapping
from dataclasses import field
from typing import Any
from urllib.parse import quote

from codeagent.core.dataclass import dataclass
from codeagent.core.tool import InvalidArgs
from codeagent.extensions.openapi.plan import BODY, ApiParameter, Body, Plan, Style, kind_of

_RESERVED = ":/?@!$'()*,;"
"""Characters that `allowReserved` leaves unencoded, except those that end a value: `&`, `=`, `#`,
`+`, brackets."""
_SEPARATORS = {
    "form": ",",
    "spaceDelimited": "%20",
    "pipeDelimited": "%7C",
    "simple": ",",
    "label": ".",
    "matrix": ",",
}
_DOTS = re.compile(r"(?:\.|%2e){1,2}", re.IGNORECASE)
_VARIABLE = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class FilePart:
    """A workspace file, read for a body."""

    path: str
    content: bytes = field(repr=False)
    filename: str
    type: str
    """The media type; if empty, from the document, else from the name."""


def path_of(plan: Plan, arguments: Mapping[str, Any]) -> str:
    """Return the operation's path with encoded values. Raises InvalidArgs for one that would change
    the path."""
    values = {
        one.name: (one, arguments.get(one.argument))
        for one in plan.parameters
        if one.place == "path"
    }

    def value(match: re.Match[str]) -> str:
        parameter, given = values[match[1]]
        text = _styled(parameter.name, given, parameter.style, "")
        if not text:
            raise InvalidArgs(
                f"argument '{parameter.argument}' is empty, which would be another path"
            )
        return text

    path = "/".join(_VARIABLE.sub(value, part) for part in plan.operation.path.split("/"))
    if any(_DOTS.fullmatch(part) for part in path.split("/")):
        raise InvalidArgs("a value is . or .., which would be another path")
    return path


def query_of(plan: Plan, arguments: Mapping[str, Any]) -> str:
    pairs = [
        _pairs(one.name, arguments[one.argument], one.style)
        for one in _given(plan, arguments, "query")
    ]
    return "&".join(pair for pair in pairs if pair)


def headers_of(plan: Plan, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers and the cookies. The caller checks their values."""
    headers = {
        one.name: _in_header(value, one.style)
        for one in _given(plan, arguments, "header")
        for value in [arguments[one.argument]]
    }
    cookies = [
        _pairs(one.name, arguments[one.argument], one.style).replace("&", "; ")
        for one in _given(plan, arguments, "cookie")
    ]
    return headers | ({"Cookie": "; ".join(cookies)} if cookies else {})


def pairs_of(values: Mapping[str, Any]) -> str:
    """Return plain `name=value` pairs, joined by `&`; a list repeats its name."""
    return "&".join(
        _pairs(name, value, Style("form", True))
        for name, value in values.items()
        if value is not None
    )


def json_body(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def body_of(plan: Plan, arguments: Mapping[str, Any]) -> tuple[bytes | None, str]:
    """Return the body and its media type; None if there is no body. Raises InvalidArgs."""
    if plan.body is None or BODY not in arguments:
        return None, ""
    body, value = plan.body, arguments[BODY]
    match body.kind:
        case "json":
            media = body.media if "*" not in body.media else "application/json"
            return json_body(value), media
        case "form":
            pairs = [
                _pairs(name, one, _field_style(body, name, one))
                for name, one in _fields(value).items()
            ]
            return "&".join(pair for pair in pairs if pair).encode(), body.media
        case "multipart":
            return _multipart(body, _fields(value))
        case "text":
            return _raw(body, value)


def _raw(body: Body, value: Any) -> tuple[bytes, str]:
    """Return a text or a file as the whole body. Raises InvalidArgs."""
    media = "" if "*" in body.media else body.media
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass"), media or "application/octet-stream"
    if isinstance(value, dict) and value.keys().isdisjoint(_CONTENTS):
        raise InvalidArgs("the body is a file: give its path, text or base64")
    kind, _, content = _part(BODY, value, media)
    return content, kind


def _given(plan: Plan, arguments: Mapping[str, Any], place: str) -> list[ApiParameter]:
    return [
        one
        for one in plan.parameters
        if one.place == place and arguments.get(one.argument) is not None
    ]


def _fields(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgs("the body of a form must be an object with a value for each field")
    return {name: one for name, one in value.items() if one is not None}


def _field_style(body: Body, name: str, value: Any) -> Style:
    said = body.encoding.get(name)
    return (
        Style("form", True, media="application/json" if isinstance(value, dict) else "")
        if said is None
        else said
    )


def _pairs(name: str, value: Any, style: Style) -> str:
    """Return encoded `name=value` pairs, joined by `&`, for a query, a cookie or a form."""
    if style.media:
        return f"{_quoted(name)}={_quoted(_in_media(value, style.media))}"
    if style.name == "deepObject" and isinstance(value, dict | list):
        return "&".join(f"{_quoted(key)}={_quoted(one)}" for key, one in _deep(name, value))
    if style.explode and isinstance(value, dict):
        return "&".join(f"{_quoted(key)}={_text(one, style)}" for key, one in value.items())
    if style.explode and isinstance(value, list):
        return "&".join(f"{_quoted(name)}={_text(one, style)}" for one in value)
    return f"{_quoted(name)}={_joined(value, style, _SEPARATORS.get(style.name, ','))}"


def _deep(name: str, value: Any) -> list[tuple[str, str]]:
    """Return pairs such as `filter[a][b]` and its value, to any depth.

    The items of a list are `a[]`, as nearly every server reads them; if there are objects among
    them, `a[0]`, `a[1]`.
    """
    if isinstance(value, dict):
        return [pair for key, one in value.items() for pair in _deep(f"{name}[{key}]", one)]
    if not isinstance(value, list):
        return [(name, _plain(value))]
    counted = any(isinstance(one, dict | list) for one in value)
    return [
        pair
        for at, one in enumerate(value)
        for pair in _deep(f"{name}[{at if counted else ''}]", one)
    ]


def _styled(name: str, value: Any, style: Style, absent: str) -> str:
    """Return the text of a path parameter."""
    if value is None:
        return absent
    if style.media:
        return _quoted(_in_media(value, style.media))
    match style.name:
        case "label":
            parts = _exploded(value, style) if style.explode else [_joined(value, style, ",")]
            return "." + ".".join(parts)
        case "matrix" if style.explode and isinstance(value, dict):
            return "".join(f";{one}" for one in _exploded(value, style))
        case "matrix" if style.explode and isinstance(value, list):
            return "".join(f";{_quoted(name)}={_text(one, style)}" for one in value)
        case "matrix":
            return f";{_quoted(name)}={_joined(value, style, ',')}"
        case _:
            return (
                ",".join(_exploded(value, style)) if style.explode else _joined(value, style, ",")
            )


def _exploded(value: Any, style: Style) -> list[str]:
    if isinstance(value, dict):
        return [f"{_quoted(key)}={_text(one, style)}" for key, one in value.items()]
    return (
        [_text(one, style) for one in value] if isinstance(value, list) else [_text(value, style)]
    )


def _joined(value: Any, style: Style, separator: str) -> str:
    if isinstance(value, dict):
        return separator.join(
            part for key, one in value.items() for part in (_quoted(key), _text(one, style))
        )
    return (
        separator.join(_text(one, style) for one in value)
        if isinstance(value, list)
        else _text(value, style)
    )


def _in_header(value: Any, style: Style) -> str:
    if not style.media:
        return _plain_list(value, style.explode)
    return value if isinstance(value, str) and kind_of(style.media) != "json" else json.dumps(value)


def _plain_list(value: Any, explode: bool) -> str:
    """Return the value of a header, which is not encoded."""
    if isinstance(value, dict):
        between = "=" if explode else ","
        return ",".join(f"{key}{between}{_plain(one)}" for key, one in value.items())
    return ",".join(map(_plain, value)) if isinstance(value, list) else _plain(value)


def _text(value: Any, style: Style) -> str:
    return quote(_plain(value), safe=_RESERVED if style.reserved else "", errors="surrogatepass")


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


def _plain(value: Any) -> str:
    """Return a value as text: true and false in lower case, null as empty, nested values as
    JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else _json(value)


def _in_media(value: Any, media: str) -> str:
    return _json(value) if kind_of(media) == "json" else _plain(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _multipart(body: Body, fields: dict[str, Any]) -> tuple[bytes, str]:
    boundary = f"codeagent-{secrets.token_hex(16)}"
    parts: list[bytes] = []
    for name, value in fields.items():
        style = body.encoding.get(name)
        media = "" if style is None else style.media
        for one in value if isinstance(value, list) else [value]:
            kind, filename, content = _part(name, one, media)
            shown = f'; filename="{_in_quotes(filename)}"' if filename else ""
            head = f'--{boundary}\r\nContent-Disposition: form-data; name="{_in_quotes(name)}"{shown}\r\n'
            head += f"Content-Type: {kind}\r\n" if kind else ""
            parts.append(head.encode() + b"\r\n" + content + b"\r\n")
    return b"".join(
        [*parts, f"--{boundary}--\r\n".encode()]
    ), f"multipart/form-data; boundary={boundary}"


def _part(name: str, value: Any, media: str) -> tuple[str, str, bytes]:
    """Return media type, file name and content of a part. Raises InvalidArgs."""
    if isinstance(value, FilePart):
        kind = (
            value.type
            or media
            or mimetypes.guess_type(value.filename)[0]
            or "application/octet-stream"
        )
        return _checked_kind(name, kind), value.filename, value.content
    if isinstance(value, dict) and not value.keys().isdisjoint(_CONTENTS) and value.keys() <= _FILE:
        kind = _checked_kind(name, str(value.get("type") or media or "application/octet-stream"))
        filename = str(value.get("filename") or name)
        try:
            content = (
                base64.b64decode(str(value["base64"]), validate=True)
                if "base64" in value
                else str(value["text"]).encode("utf-8", "surrogatepass")
            )
        except binascii.Error:
            raise InvalidArgs(f"base64 of '{name}' is not Base64") from None
        return kind, filename, content
    if isinstance(value, dict | list):
        return media or "application/json", "", _json(value).encode("utf-8", "surrogatepass")
    return media, "", _plain(value).encode("utf-8", "surrogatepass")


def _checked_kind(name: str, kind: str) -> str:
    if not kind.isascii() or not kind.isprintable():
        raise InvalidArgs(f"the media type of '{name}' has characters that cannot be sent")
    return kind


_CONTENTS = frozenset({"text", "base64"})
_FILE = _CONTENTS | {"filename", "type"}


def _in_quotes(text: str) -> str:
    """Return a name as browsers write it, with line breaks and quotes percent-encoded."""
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
