"""Documents as people write them, and as nobody should: read, or refused with the reason."""

import copy
import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.extensions.openapi.document import ApiDocument
from codeagent.extensions.openapi.plan import Plan, plan_of
from codeagent.extensions.openapi.reading import BadDocument, read_text
from codeagent.extensions.openapi.source import chosen, listed_operations, longest_name
from codeagent.tools.schema_check import faults_of, problems_of
from tests.table import for_each

SHOP: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Shop", "version": "1"},
    "servers": [
        {"url": "https://{region}.shop.example/v1", "variables": {"region": {"default": "eu"}}}
    ],
    "security": [{"key": []}],
    "paths": {
        "/users/{id}": {
            "parameters": [
                {"$ref": "#/components/parameters/Id"},
                {"name": "q", "in": "query", "schema": {}},
            ],
            "get": {
                "tags": ["people"],
                "summary": "Show\none",
                "description": "Shows **one**.",
                "parameters": [
                    {
                        "name": "q",
                        "in": "query",
                        "required": True,
                        "schema": {"type": "integer", "nullable": True},
                    },
                    {"name": "id", "in": "header", "schema": {"type": "string"}},
                    {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                ],
            },
            "put": {
                "operationId": "users/replace it",
                "requestBody": {"$ref": "#/components/requestBodies/Person"},
            },
        },
        "/loop": {"$ref": "#/components/pathItems/loop"},
        "/other~file": {"post": {"operationId": "users/replace it", "security": []}},
    },
    "components": {
        "parameters": {
            "Id": {
                "name": "id",
                "in": "path",
                "required": True,
                "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
                "description": "Which one",
            }
        },
        "pathItems": {"loop": {"delete": {"description": "Ends it"}}},
        "requestBodies": {
            "Person": {
                "required": True,
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Person"}}
                },
            }
        },
        "schemas": {
            "Named": {
                "properties": {"name": {"type": "string", "default": "x"}},
                "required": ["name"],
            },
            "Person": {
                "allOf": [
                    {"$ref": "#/components/schemas/Named"},
                    {
                        "type": "object",
                        "properties": {
                            "id": {"type": "integer", "readOnly": True},
                            "friends": {
                                "type": "array",
                                "items": {"$ref": "#/components/schemas/Person"},
                            },
                        },
                        "required": ["id"],
                    },
                ]
            },
        },
        "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
    },
}


def planned(document: ApiDocument) -> dict[str, Plan]:
    return {one.name: plan_of(document, one) for one in document.operations()[0]}


@for_each(
    "text",
    [
        json.dumps(SHOP),
        json.dumps(SHOP, indent=1),
        yaml.safe_dump(SHOP),
        "\ufeff" + json.dumps(SHOP),
    ],
)
def test_a_document_is_the_same_from_json_yaml_and_an_object(text: str) -> None:
    assert ApiDocument.read(text.encode()).root == ApiDocument(SHOP).root


def test_operations_have_names_of_their_own() -> None:
    found, problems = ApiDocument(SHOP).operations()
    assert [(one.name, one.method, one.path, one.summary, one.tags) for one in found] == [
        ("get_users_id", "GET", "/users/{id}", "Show one", ("people",)),
        ("users_replace_it", "PUT", "/users/{id}", "", ()),
        ("delete_loop", "DELETE", "/loop", "Ends it", ()),
        ("users_replace_it_2", "POST", "/other~file", "", ()),
    ]
    assert problems == ()
    [*names, generic] = listed_operations("shop", found, ())
    assert names[0].name == "shop__get_users_id" and generic.name == "shop__generic_request"


@given(st.lists(st.text(max_size=80), max_size=12), st.text("abc", min_size=1, max_size=20))
def test_names_are_unique_and_fit_whatever_the_document_says(ids: list[str], document: str) -> None:
    paths = {
        f"/{at}": {"get": {"operationId": one}}
        for at, one in enumerate([*ids, "generic_request", "x" * 99, "x" * 98])
    }
    found, _ = ApiDocument({"openapi": "3.1.0", "paths": paths}).operations(longest_name(document))
    names = [one.name for one in listed_operations(document, found, ())]
    assert len(set(names)) == len(names) == len(paths) + 1
    assert all(
        len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() for name in names
    )


def test_parameters_of_the_path_are_kept_unless_the_operation_replaces_them() -> None:
    plan = planned(ApiDocument(SHOP))["get_users_id"]
    assert [(one.argument, one.name, one.place) for one in plan.parameters] == [
        ("id", "id", "path"),
        ("q", "q", "query"),
        ("header_id", "id", "header"),
    ]
    assert plan.schema["properties"] == {
        "id": {"type": "integer", "exclusiveMinimum": 0, "description": "Which one"},
        "q": {"type": ["integer", "null"]},
        "header_id": {"type": "string"},
    }
    assert plan.schema["required"] == ["id", "q"]
    assert (plan.description, plan.documentation) == (
        "Show one (GET /users/{id})",
        "Shows **one**.",
    )


def test_arguments_have_names_of_their_own_that_every_provider_takes() -> None:
    given = ["a[]", "a", "a_2", "body", "ü", "x" * 70, "x" * 71, "query_a", "a."]
    parameters = [
        {"name": name, "in": place, "schema": {}}
        for name in given
        for place in ("query", "header", "cookie")
    ]
    get = {"get": {"parameters": parameters}}
    plan = planned(ApiDocument({"openapi": "3.1.0", "paths": {"/a": get}}))["get_a"]
    names = [one.argument for one in plan.parameters]
    assert len(set(names)) == len(names) == 27 and "body" not in names
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) for name in names)


def test_a_body_is_written_out_once_without_what_only_the_server_sets() -> None:
    plans = planned(ApiDocument(SHOP))
    assert plans["users_replace_it"].schema["properties"]["body"] == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": 'Default: "x".'},
            "friends": {
                "type": "array",
                "items": {"type": "object", "description": "as Person above"},
            },
        },
        "required": ["name"],
    }
    assert [one.id for one in plans["get_users_id"].security[0]] == ["key"] and plans[
        "users_replace_it_2"
    ].security == ()


@for_each(
    ("only", "names"),
    [
        (["tag:people"], ["get_users_id"]),
        (["method:get", "method:PUT"], ["get_users_id", "users_replace_it"]),
        (["path:/users/*", "method:put"], ["users_replace_it"]),
        (["id:users/*"], ["users_replace_it", "users_replace_it_2"]),
        (["id:delete_loop"], ["delete_loop"]),
    ],
)
def test_filters_of_a_kind_add_up_and_kinds_narrow(only: list[str], names: list[str]) -> None:
    assert [one.name for one in chosen(ApiDocument(SHOP).operations()[0], only)] == names


@for_each("only", ["tag:", "colour:red", "people", "tag:nobody"])
def test_a_filter_that_is_not_one_or_fits_nothing_is_refused(only: str) -> None:
    with pytest.raises(BadDocument, match=r"not a filter|no operation matches"):
        chosen(ApiDocument(SHOP).operations()[0], [only])


def test_servers_take_their_defaults_and_belong_to_the_documents_own_place() -> None:
    assert str(ApiDocument(SHOP).server()) == "https://eu.shop.example/v1"
    relative = ApiDocument({"openapi": "3.0.0", "servers": [{"url": "../v2"}]})
    assert (
        str(relative.server(base="https://shop.example/docs/openapi.json"))
        == "https://shop.example/v2"
    )
    with pytest.raises(BadDocument, match="give --server URL"):
        relative.server()


def alias_bomb() -> str:
    levels = [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, 12)]
    return "\n".join(["a0: &a0 x", *levels])


@for_each(
    ("text", "why"),
    [
        ('{"swagger": "2.0"}', "Swagger 2.0"),
        ('{"openapi": "3.2.0"}', "OpenAPI 3.2.0; 3.0 and 3.1"),
        ('{"openapi": "3.1.0", "paths": []}', "paths are not an object"),
        ("{}", "without openapi"),
        ("[1]", "not an object"),
        ("just text", "not an object"),
        ("", "empty"),
        ('{"a": NaN}', "NaN"),
        (r'{"a": "x\uD800"}', "surrogate"),
        (r'a: "x\uD800"', "surrogate|not YAML"),
        ('{"openapi": ', "not JSON"),
        ("a: [", "not YAML: line"),
        ("a: 1\n---\nb: 2\n", "more than one"),
        ('{"a":' + "[" * 101 + "]" * 101 + "}", "levels deep"),
        ('{"a":' * 50_000, "levels deep"),
        ("- " * 200 + "x", "levels deep"),
        (alias_bomb(), "more than 2,000,000 values"),
        ("a: &a [*a]", r"levels deep|undefined alias|not YAML"),
        ("a: &a\n  b: *a\n", "contains itself"),
        ("x: !!python/object/apply:os.system [echo]", "not an object|without openapi"),
        ("? [a]\n: b", "a key is not text"),
        ("\x80", "not"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(BadDocument, match=why):
        ApiDocument.read(text.encode("latin-1"))


def test_yaml_keeps_keys_and_dates_as_they_are_written_and_merges() -> None:
    text = "200: a\non: b\nno: c\nd: 2020-01-01\ne: &e {f: 1, g: 2}\nh: {<<: *e, g: 3}\ni: .inf\nj: 0o17"
    assert read_text(text.encode()) == {
        "200": "a",
        "on": "b",
        "no": "c",
        "d": "2020-01-01",
        "e": {"f": 1, "g": 2},
        "h": {"f": 1, "g": 3},
        "i": ".inf",
        "j": "0o17",
    }


@for_each(
    ("reference", "why"),
    [
        ("other.yaml#/a", "another document, other.yaml#/a; put it beside"),
        ("https://evil.example/x.json", "another document"),
        ("#/components/nowhere", "leads nowhere"),
        ("#/servers/²", "leads nowhere"),
        ("#Person", "not a path like #/components"),
        ("#/servers/" + "9" * 5_000, "leads nowhere"),
        ("#/components/parameters/Self", "without end"),
    ],
)
def test_a_reference_that_cannot_be_followed_stops_only_its_operation(
    reference: str, why: str
) -> None:
    root = copy.deepcopy(SHOP)
    root["components"]["parameters"] |= {"Self": {"$ref": "#/components/parameters/Self"}}
    root["paths"]["/bad"] = {"get": {"parameters": [{"$ref": reference}]}}
    root["paths"]["/gone"] = {"$ref": "#/components/pathItems/gone"}
    document = ApiDocument(root)
    found, problems = document.operations()
    assert len(found) == 5 and problems == (
        "GET /gone: the reference #/components/pathItems/gone leads nowhere",
    )
    with pytest.raises(BadDocument, match=why):
        plan_of(document, found[-1])
    assert plan_of(document, found[0]).operation.name == "get_users_id"


_JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.just("#/paths"),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["$ref", "type", "in", "name", "x"]), inner)
    ),
    max_leaves=4,
)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    return [path, *(place for key, one in inner for place in places(one, (*path, key)))]


@pytest.mark.soak(row="API documents")
@settings(max_examples=100, deadline=None)
@given(st.sampled_from(places(SHOP)), _JUNK)
def test_junk_anywhere_in_a_document_is_a_reason_and_never_a_crash(
    place: tuple[Any, ...], junk: Any
) -> None:
    root: Any = copy.deepcopy(SHOP)
    node = root
    for key in place[:-1]:
        node = node[key]
    if place:
        node[place[-1]] = junk
    try:
        document = ApiDocument(root if place else junk)
        found, _ = document.operations()
        document.server()
    except BadDocument:
        return
    for one in found:
        try:
            plan = plan_of(document, one)
        except BadDocument:
            continue
        assert problems_of(plan.schema) == ()


_KEYWORDS = (
    "type",
    "nullable",
    "enum",
    "const",
    "format",
    "pattern",
    "minimum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxItems",
    "uniqueItems",
    "properties",
    "required",
    "items",
    "additionalProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "description",
    "default",
    "readOnly",
    "contentMediaType",
    "contentEncoding",
    "$ref",
)
_LIKELY = st.sampled_from(
    [
        "object",
        "string",
        "array",
        "null",
        "^a+$",
        "(a+)+$",
        "[",
        "binary",
        "#/components/x",
        0,
        1.5,
        -1,
    ]
)
_SCHEMA = st.recursive(
    st.none() | st.booleans() | _LIKELY,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYWORDS), inner, max_size=4)
    ),
    max_leaves=10,
)


@pytest.mark.soak(row="API documents")
@settings(max_examples=100, deadline=None)
@given(_SCHEMA)
def test_whatever_a_schema_holds_the_tool_gets_a_valid_one(schema: Any) -> None:
    body = {"content": {"multipart/form-data": {"schema": schema}}}
    root = {
        "openapi": "3.1.0",
        "paths": {"/a": {"post": {"requestBody": body}}},
        "components": {"x": {"type": 7}},
    }
    document = ApiDocument(root)
    try:
        plan = plan_of(document, document.operations()[0][0])
    except BadDocument:
        return
    assert problems_of(plan.schema) == ()


def test_an_operation_with_countless_parameters_is_refused() -> None:
    parameters = [{"name": f"a{'[' * at}", "in": "query"} for at in range(600)]
    with pytest.raises(BadDocument, match="more than 500 parameters"):
        planned(
            ApiDocument({"openapi": "3.1.0", "paths": {"/a": {"get": {"parameters": parameters}}}})
        )


def test_forms_that_differ_only_in_what_the_server_sets_do_not_refuse_each_other() -> None:
    forms = [
        {
            "type": "object",
            "properties": {"name": {"type": "string"}, at: {"type": "integer", "readOnly": True}},
            "required": ["name", at],
        }
        for at in ("planet_id", "moon_id")
    ]
    body = {"content": {"application/json": {"schema": {"oneOf": forms}}}}
    plan = planned(
        ApiDocument({"openapi": "3.1.0", "paths": {"/a": {"post": {"requestBody": body}}}})
    )["post_a"]
    assert faults_of(plan.schema, {"body": {"name": "x"}}) == ()


def test_a_schema_without_end_or_bounds_is_bounded() -> None:
    wide = {f"p{at}": {"$ref": "#/components/schemas/Wide"} for at in range(50)}
    schemas = {
        "Wide": {
            "type": "object",
            "properties": {f"q{at}": {"$ref": "#/components/schemas/Deep"} for at in range(50)},
        },
        "Deep": {
            "type": "object",
            "properties": {f"r{at}": {"$ref": "#/components/schemas/Wide"} for at in range(50)},
        },
    }
    body = {"content": {"application/json": {"schema": {"type": "object", "properties": wide}}}}
    root = {
        "openapi": "3.1.0",
        "paths": {"/a": {"post": {"requestBody": body}}},
        "components": {"schemas": schemas},
    }
    plan = planned(ApiDocument(root))["post_a"]
    assert len(json.dumps(plan.schema)) < 200_000 and problems_of(plan.schema) == ()


def test_a_long_chain_of_references_is_refused_and_not_a_crash() -> None:
    schemas = {f"S{at}": {"$ref": f"#/components/schemas/S{at + 1}"} for at in range(3_000)}
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}}}
    root = {
        "openapi": "3.1.0",
        "paths": {"/a": {"post": {"requestBody": body}}},
        "components": {"schemas": schemas},
    }
    with pytest.raises(BadDocument, match="without end"):
        planned(ApiDocument(root))
