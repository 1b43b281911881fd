"""Parameters in every style and bodies of every kind, as the tables of the specification write
them."""

import base64
from email import message_from_bytes
from email.policy import HTTP
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.tool import InvalidArgs
from codeagent.extensions.openapi.document import ApiDocument
from codeagent.extensions.openapi.plan import Plan, plan_of
from codeagent.extensions.openapi.writing import FilePart, body_of, headers_of, path_of, query_of
from codeagent.tools.schema_check import faults_of
from tests.table import for_each

_LIST = ["blue", "black", "brown"]
_OBJECT = {"R": 100, "G": 200, "B": 150}


def plan(
    *parameters: dict[str, Any], path: str = "/x", body: dict[str, Any] | None = None, **root: Any
) -> Plan:
    operation: dict[str, Any] = {"parameters": list(parameters)}
    if body is not None:
        operation["requestBody"] = {"content": body}
    document = ApiDocument({"openapi": "3.1.0", "paths": {path: {"post": operation}}, **root})
    [one] = document.operations()[0]
    return plan_of(document, one)


def parameter(
    place: str, style: str | None = None, explode: bool | None = None, **more: Any
) -> dict[str, Any]:
    given = {"name": "color", "in": place, "style": style, "explode": explode, "schema": {}, **more}
    return {name: value for name, value in given.items() if value is not None}


@for_each(
    ("style", "explode", "value", "written"),
    [
        ("form", False, "", "color="),
        ("form", False, "blue", "color=blue"),
        ("form", False, _LIST, "color=blue,black,brown"),
        ("form", False, _OBJECT, "color=R,100,G,200,B,150"),
        ("form", True, _LIST, "color=blue&color=black&color=brown"),
        ("form", True, _OBJECT, "R=100&G=200&B=150"),
        (None, None, _LIST, "color=blue&color=black&color=brown"),
        ("spaceDelimited", False, _LIST, "color=blue%20black%20brown"),
        ("spaceDelimited", False, _OBJECT, "color=R%20100%20G%20200%20B%20150"),
        ("pipeDelimited", False, _LIST, "color=blue%7Cblack%7Cbrown"),
        ("pipeDelimited", False, _OBJECT, "color=R%7C100%7CG%7C200%7CB%7C150"),
        ("deepObject", True, _OBJECT, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
        (
            "deepObject",
            True,
            {"a": {"b": [1, 2]}},
            "color%5Ba%5D%5Bb%5D%5B%5D=1&color%5Ba%5D%5Bb%5D%5B%5D=2",
        ),
        ("deepObject", True, _LIST[:2], "color%5B%5D=blue&color%5B%5D=black"),
        ("deepObject", True, "blue", "color=blue"),
        ("form", True, True, "color=true"),
        ("form", True, None, ""),
        ("form", True, "a&b=c#d+e/f g", "color=a%26b%3Dc%23d%2Be%2Ff%20g"),
    ],
)
def test_a_query_has_each_style(
    style: str | None, explode: bool | None, value: object, written: str
) -> None:
    assert query_of(plan(parameter("query", style, explode)), {"color": value}) == written


@for_each(
    ("style", "explode", "value", "written"),
    [
        ("simple", False, "blue", "blue"),
        ("simple", False, _LIST, "blue,black,brown"),
        ("simple", False, _OBJECT, "R,100,G,200,B,150"),
        ("simple", True, _OBJECT, "R=100,G=200,B=150"),
        ("label", False, "blue", ".blue"),
        ("label", False, _LIST, ".blue,black,brown"),
        ("label", False, _OBJECT, ".R,100,G,200,B,150"),
        ("label", True, _LIST, ".blue.black.brown"),
        ("label", True, _OBJECT, ".R=100.G=200.B=150"),
        ("matrix", False, "blue", ";color=blue"),
        ("matrix", False, _LIST, ";color=blue,black,brown"),
        ("matrix", False, _OBJECT, ";color=R,100,G,200,B,150"),
        ("matrix", True, _LIST, ";color=blue;color=black;color=brown"),
        ("matrix", True, _OBJECT, ";R=100;G=200;B=150"),
    ],
)
def test_a_path_has_each_style(style: str, explode: bool, value: object, written: str) -> None:
    made = plan(parameter("path", style, explode, required=True), path="/v/{color}/w")
    assert path_of(made, {"color": value}) == f"/v/{written}/w"


def test_headers_and_cookies_are_written_and_reserved_characters_left_where_the_document_says_so() -> (
    None
):
    made = plan(
        {**parameter("header", explode=False), "name": "X-A"},
        {**parameter("cookie"), "name": "c"},
        {**parameter("query", allowReserved=True), "name": "q"},
        {"name": "filter", "in": "query", "content": {"application/json": {"schema": {}}}},
    )
    given = {"X-A": _LIST, "c": "a b", "q": "/a?b;c&d#e", "filter": {"a": [1]}}
    assert headers_of(made, given) == {"X-A": "blue,black,brown", "Cookie": "c=a%20b"}
    assert query_of(made, given) == "q=/a?b;c%26d%23e&filter=%7B%22a%22%3A%5B1%5D%7D"


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_no_value_leaves_its_place_in_the_path(value: str) -> None:
    made = plan(parameter("path", required=True), path="/v1/{color}/end")
    try:
        path = path_of(made, {"color": value})
    except InvalidArgs:
        assert value in (".", "..")
        return
    assert path.split("/")[::3] == ["", "end"] and path.count("/") == 3
    assert not set(path) & set("?#\\ \r\n") and path.isascii()


@for_each("value", [".", "..", "", None, []])
def test_a_path_value_that_would_name_another_path_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgs, match="another path"):
        path_of(plan(parameter("path", required=True), path="/v1/{color}"), {"color": value})


_FORM = "application/x-www-form-urlencoded"
_DEEP = {"style": "deepObject", "explode": True}


@for_each(
    ("encoding", "value", "written"),
    [
        (None, "a b", "x=a b"),
        (None, None, ""),
        (None, _LIST, "x=blue&x=black&x=brown"),
        (None, _OBJECT, 'x={"R":100,"G":200,"B":150}'),
        (None, [{"a": 1}, {"b": 2}], 'x={"a":1}&x={"b":2}'),
        (_DEEP, "", "x="),
        (_DEEP, {"c": {"d": 2}}, "x[c][d]=2"),
        (_DEEP, ["card", "link"], "x[]=card&x[]=link"),
        (
            _DEEP,
            [{"price": "p1", "tax": ["t1"]}, {"price": "p2"}],
            "x[0][price]=p1&x[0][tax][]=t1&x[1][price]=p2",
        ),
        (_DEEP, {"items": [[1, 2], [3]]}, "x[items][0][]=1&x[items][0][]=2&x[items][1][]=3"),
        ({"style": "form", "explode": True}, _OBJECT, "R=100&G=200&B=150"),
        ({"style": "form", "explode": False}, _OBJECT, "x=R,100,G,200,B,150"),
        ({"explode": False}, _LIST, "x=blue,black,brown"),
        ({"style": "spaceDelimited", "explode": False}, _LIST, "x=blue black brown"),
        ({"style": "form", "contentType": "application/json"}, _OBJECT, "R=100&G=200&B=150"),
        ({"contentType": "application/json"}, ["a"], 'x=["a"]'),
        ({"contentType": "application/json"}, "a", 'x="a"'),
        ({"contentType": "application/vnd.api+json; charset=utf-8"}, {"a": True}, 'x={"a":true}'),
        ({"contentType": "text/plain"}, "a", "x=a"),
        ({"contentType": "text/plain"}, True, "x=true"),
        ({"contentType": 7, "style": 8}, "a", "x=a"),
    ],
)
def test_a_form_writes_each_value_as_the_document_says(
    encoding: dict[str, Any] | None, value: object, written: str
) -> None:
    made = plan(body={_FORM: {} if encoding is None else {"encoding": {"x": encoding}}})
    body, media = body_of(made, {"body": {"x": value}})
    assert (unquote(body.decode() if body else ""), media) == (written, _FORM)


def test_a_form_is_an_object_and_its_names_cannot_add_values() -> None:
    made = plan(body={_FORM: {"encoding": {"x": _DEEP}}})
    assert body_of(made, {"body": {"x": {"a&b": ["c =d"]}}}) == (
        b"x%5Ba%26b%5D%5B%5D=c%20%3Dd",
        _FORM,
    )
    with pytest.raises(InvalidArgs, match="an object"):
        body_of(made, {"body": "text"})


@for_each(
    ("media", "value", "sent"),
    [
        ("application/octet-stream", "text", (b"text", "application/octet-stream")),
        ("application/octet-stream", {"base64": "AP8="}, (b"\0\xff", "application/octet-stream")),
        ("image/*", {"base64": "AP8=", "type": "image/png"}, (b"\0\xff", "image/png")),
        ("image/*", FilePart("a/b.gif", b"GIF8", "b.gif", ""), (b"GIF8", "image/gif")),
        ("text/csv", FilePart("a.bin", b"1,2", "a.bin", ""), (b"1,2", "text/csv")),
    ],
)
def test_a_raw_body_is_a_text_or_a_file(media: str, value: object, sent: tuple[bytes, str]) -> None:
    made = plan(body={media: {"schema": {"type": "string", "format": "binary"}}})
    assert body_of(made, {"body": value}) == sent
    if isinstance(value, dict | str):
        assert faults_of(made.schema, {"body": value}) == ()


def test_a_raw_body_without_contents_is_refused() -> None:
    with pytest.raises(InvalidArgs, match="give its path, text or base64"):
        body_of(plan(body={"application/octet-stream": {}}), {"body": {}})


def test_parts_carry_texts_objects_and_files() -> None:
    made = plan(
        body={
            "multipart/form-data": {
                "schema": {"properties": {"f": {"type": "string", "format": "binary"}}}
            }
        }
    )
    data = bytes(range(256))
    file = {
        "base64": base64.b64encode(data).decode(),
        "filename": 'a"b\r\n.bin',
        "type": "image/png",
    }
    body, media = body_of(made, {"body": {"t": "ü", "o": {"a": 1}, "f": file, "l": [1, 2]}})
    assert body is not None
    parts = list(
        message_from_bytes(
            f"Content-Type: {media}\r\n\r\n".encode() + body, policy=HTTP
        ).iter_parts()
    )
    found = [
        (part.get_param("name", header="content-disposition"), part.get_content_type())
        for part in parts
    ]
    assert found == [
        ("t", "text/plain"),
        ("o", "application/json"),
        ("f", "image/png"),
        ("l", "text/plain"),
        ("l", "text/plain"),
    ]
    assert data in body and b'filename="a%22b%0D%0A.bin"' in body and b'{"a":1}' in body
    for wrong in ({"base64": "!"}, {"text": "x", "type": "a/b\r\nX: y"}):
        with pytest.raises(InvalidArgs):
            body_of(made, {"body": {"f": wrong}})


def test_of_several_media_types_json_is_taken_and_a_text_is_sent_as_it_is() -> None:
    made = plan(body={"text/plain": {}, "application/vnd.api+json": {"schema": {"type": "array"}}})
    assert body_of(made, {"body": [1, None]}) == (b"[1, null]", "application/vnd.api+json")
    assert body_of(plan(body={"application/xml": {}}), {"body": "<a/>"}) == (
        b"<a/>",
        "application/xml",
    )
    assert body_of(made, {}) == (None, "")


def test_a_value_that_may_hold_reserved_characters_stays_in_its_place_in_the_path() -> None:
    one = plan(parameter("path", allowReserved=True, required=True), path="/a/{color}/b")
    assert path_of(one, {"color": "x/y?z=1"}) == "/a/x%2Fy%3Fz%3D1/b"
