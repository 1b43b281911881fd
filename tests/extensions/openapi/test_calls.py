"""Operations of a real application, called through their tools: what was sent comes back equal."""

import asyncio
import base64
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeagent.core.errors import WorkspaceError
from codeagent.core.policy import Mode, Policy, Rule
from codeagent.core.redact import Redactor
from codeagent.core.tool import (
    BaseChanged,
    Denied,
    Failed,
    InvalidArgs,
    NotFound,
    Tool,
    ToolError,
    ToolResult,
)
from codeagent.extensions.openapi.document import ApiDocument
from codeagent.extensions.openapi.source import DocumentOptions, OpenApiSource
from codeagent.net.web.client import LARGEST_REQUEST, WebClient
from codeagent.net.web.secrets import BoundSecrets
from codeagent.tools.arguments import parse_arguments
from codeagent.workspace.files import LocalWorkspace
from tests.extensions.openapi.serving_api import Api, serving_api
from tests.extensions.web.serving import Site, call, said, serving
from tests.fakes import tool_context

TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
SECRETS = {"TOKEN": "t0ken-with-12345", "LOGIN": "ada:s3cret-password"}
_CREDENTIALS = {
    "HTTPBearer": "TOKEN",
    "HTTPBasic": "LOGIN",
    "APIKeyHeader": "TOKEN",
    "APIKeyQuery": "TOKEN",
}


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with serving_api() as running:
        yield running


class Calls:
    """The tools of a document, called as a model calls them."""

    def __init__(self, source: OpenApiSource, workspace: LocalWorkspace) -> None:
        self.source = source
        self._workspace = workspace

    async def __call__(self, operation: str, **arguments: object) -> Any:
        """The JSON that the operation answers with."""
        return json.loads(said(await self.result(operation, **arguments)).partition("\n\n")[2])

    async def result(self, operation: str, **arguments: object) -> ToolResult:
        return await call(self.tool(operation), self._workspace, **arguments)

    def tool(self, operation: str) -> Tool[Any]:
        names = [one.name for one in self.source.list().tools]
        return self.source.get(
            operation if operation in names else next(name for name in names if operation in name)
        )


async def opened(
    document: ApiDocument, place: str, workspace: LocalWorkspace, **options: Any
) -> Calls:
    given = {"hosts": (place,), "server": f"http://{place}/", **options}
    secrets = BoundSecrets(dict.fromkeys(SECRETS, (place,)), SECRETS.get, Redactor({}))
    source = OpenApiSource(
        DocumentOptions("echo", **given), lambda: document, WebClient({}, [place]), secrets
    )
    await source.start(lambda: None)
    return Calls(source, workspace)


@pytest.fixture
async def calls(api: Api, tmp_path: Path) -> Calls:
    return await opened(
        ApiDocument(api.document), api.place, LocalWorkspace(tmp_path), credentials=_CREDENTIALS
    )


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=TEXT,
    number=st.integers(-(2**53), 2**53),
    many=st.lists(TEXT, max_size=3),
    value=JSON,
    data=st.binary(),
)
def test_whatever_is_sent_comes_back_equal(
    api: Api, tmp_path: Path, text: str, number: int, many: list[str], value: Any, data: bytes
) -> None:
    async def body() -> None:
        echo = await opened(ApiDocument(api.document), api.place, LocalWorkspace(tmp_path))
        path = text.replace("/", "") or "x"  # Starlette decodes a path before it is matched
        if path not in (".", ".."):
            assert await echo("path", text=path, number=number) == {"text": path, "number": number}
        sent = {"text": text, "flag": True, "many": many}
        assert await echo("query_query", **sent) == {**sent, "many": many or None}
        item = {
            "name": text,
            "tags": many,
            "parent": {"name": "p", "tags": [], "parent": None, "price": 1.5},
        }
        assert await echo("takes_json", body=item) == {**item, "price": None}
        assert await echo("takes_anything", body={"value": value}) == {"value": value}
        assert await echo("takes_form", body={"text": text, "many": many}) == {
            "text": text,
            "many": many or None,
        }
        file = {"base64": base64.b64encode(data).decode(), "filename": "ü.bin", "type": "image/png"}
        parts = await echo("takes_parts", body={"text": text, "file": file})
        assert parts == {
            "text": text,
            "name": "ü.bin",
            "type": "image/png",
            "content": file["base64"],
        }
        plain = (
            "".join(letter for letter in text if letter.isascii() and letter.isprintable()).strip()
            or "x"
        )
        assert await echo("header_header", **{"x-text": plain}) == {"text": plain}
        assert await echo("cookie_cookie", text="abc") == {"text": "abc"}

    asyncio.run(body())


def upload(path: str, **more: str) -> dict[str, Any]:
    return {"text": "x", "file": {"path": path, **more}}


async def test_a_file_of_the_workspace_is_sent_as_it_is(calls: Calls, tmp_path: Path) -> None:
    data = bytes(range(256)) * 100
    (tmp_path / "build").mkdir()
    (tmp_path / "build/a.png").write_bytes(data)
    sent = {"text": "x", "content": base64.b64encode(data).decode()}
    assert await calls("takes_parts", body=upload("build/a.png")) == {
        **sent,
        "name": "a.png",
        "type": "image/png",
    }
    named = upload("./build/a.png", filename="b", type="text/x")
    assert await calls("takes_parts", body=named) == {**sent, "name": "b", "type": "text/x"}
    raw = {"type": "application/octet-stream", "content": sent["content"]}
    assert await calls("takes_raw", body={"path": "build/a.png"}) == raw
    assert await calls("takes_raw", body={"base64": sent["content"]}) == raw


async def test_the_card_shows_the_whole_body(calls: Calls) -> None:
    for operation, arguments in (
        ("takes_anything", {"body": {"value": "x" * 20_000 + "end"}}),
        ("generic", {"method": "POST", "path": "/a", "json": {"value": "x" * 20_000 + "end"}}),
    ):
        tool = calls.tool(operation)
        preview = await tool.preview(
            parse_arguments(tool, json.dumps(arguments)), tool_context(calls._workspace)
        )
        assert "x" * 20_000 + "end" in str(preview.blocks)


async def test_the_card_shows_a_file_and_what_was_seen_is_what_is_sent(
    calls: Calls, tmp_path: Path
) -> None:
    for name, body in (("takes_parts", upload("a")), ("takes_raw", {"path": "a"})):
        (tmp_path / "a").write_bytes(b"x" * 25_600)
        tool, context = calls.tool(name), tool_context(LocalWorkspace(tmp_path))
        parsed = parse_arguments(tool, json.dumps({"body": body}))
        preview = await tool.preview(parsed, context)
        assert "with the file a, 25,600 bytes" in str(preview.blocks)
        (tmp_path / "a").write_bytes(b"another")
        with pytest.raises(BaseChanged):
            await tool.run(parsed, replace(context, base=preview.base))


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "keys/id_rsa",
        ".git/config",
        "../outside",
        "/etc/passwd",
        "link",
        "linked/a",
        "out",
        "missing",
        "folder",
        "pipe",
        "large",
        "a\0b",
    ],
)
async def test_a_file_that_may_not_be_read_is_not_sent(api: Api, tmp_path: Path, path: str) -> None:
    root = tmp_path / "work"
    for name in (".env", "keys/id_rsa", ".git/config", "plain", "folder/a"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    (tmp_path / "outside").write_text("x")
    for link, target in (("link", "plain"), ("linked", "folder"), ("out", "../outside")):
        (root / link).symlink_to(target)
    os.mkfifo(root / "pipe")
    with (root / "large").open("wb") as large:
        large.truncate(LARGEST_REQUEST + 1)
    async with serving(Site()) as site:
        echo = await opened(
            ApiDocument(api.document), site.place, LocalWorkspace(root), server=site.url
        )
        for operation, body in (("takes_parts", upload(path)), ("takes_raw", {"path": path})):
            with pytest.raises((ToolError, WorkspaceError)):
                await echo.result(operation, body=body)
        assert site.connections == 0
        await echo.result("takes_parts", body=upload("plain"))
        await echo.result("takes_raw", body={"path": "plain"})
        assert site.connections == 2


async def test_what_rules_keep_from_read_is_not_sent_and_other_objects_are_not_read(
    calls: Calls,
) -> None:
    def verdict(name: str, body: dict[str, Any], *rules: Rule) -> str:
        tool = calls.tool(name)
        key = tool.approval_key(parse_arguments(tool, json.dumps({"body": body})))
        policy = Policy("ask", (Rule.parse("echo__*", "auto"), *rules))
        return policy.check(tool.name, key, "prompt", "anything").permission

    kept, asked = Rule.parse("read(private/**)", "deny"), Rule.parse("read(private/**)", "prompt")
    for name, body in (("takes_parts", upload), ("takes_raw", lambda path: {"path": path})):
        paths = ("private/a", "x/../private/a", "public/a")
        assert [verdict(name, body(path), kept) for path in paths] == ["deny", "deny", "auto"]
        assert verdict(name, body("private/a"), asked) == "prompt"
    assert await calls("takes_anything", body={"value": {"path": ".env"}}) == {
        "value": {"path": ".env"}
    }


async def test_each_kind_of_credential_is_added_and_masked_when_it_comes_back(calls: Calls) -> None:
    assert await calls("bearer") == {"got": "[secret TOKEN]"}
    assert await calls("with_basic") == {"user": "ada", "password": "[secret LOGIN]"}
    assert await calls("header_key") == {"length": len(SECRETS["TOKEN"])}
    assert await calls("query_key") == {"length": len(SECRETS["TOKEN"])}
    tool = calls.source.get("echo__query_key_query_key_get")
    preview = await tool.preview(parse_arguments(tool, "{}"), tool_context(calls._workspace))
    assert "with the secret TOKEN" in str(preview) and SECRETS["TOKEN"] not in str(preview)


async def test_credentials_are_sent_even_where_a_call_may_do_without(tmp_path: Path) -> None:
    async with serving(Site()) as site:
        schemes = {
            "key": {"type": "apiKey", "in": "cookie", "name": "k"},
            "other": {"type": "http", "scheme": "basic"},
        }
        get = {
            "security": [{}, {"other": []}, {"key": []}],
            "parameters": [{"name": "c", "in": "cookie"}],
        }
        root = {
            "openapi": "3.0.0",
            "paths": {"/a": {"get": get}},
            "components": {"securitySchemes": schemes},
        }
        echo = await opened(
            ApiDocument(root),
            site.place,
            LocalWorkspace(tmp_path),
            server=site.url,
            credentials={"key": "TOKEN"},
        )
        await echo.result("get_a", c="1")
        await echo.result("generic", path="/b", headers={"accept": "text/plain"})
        assert site.seen[0].headers["cookie"] == f"c=1; k={SECRETS['TOKEN']}"
        assert (site.seen[1].headers["accept"], site.seen[1].headers["cookie"]) == (
            "text/plain",
            f"k={SECRETS['TOKEN']}",
        )


async def test_a_call_without_credentials_says_what_is_missing(api: Api, tmp_path: Path) -> None:
    bare = await opened(ApiDocument(api.document), api.place, LocalWorkspace(tmp_path))
    with pytest.raises(Failed, match="HTTP 401") as caught:
        await bare.result("bearer")
    assert "--secret SCHEME=NAME" in caught.value.content[0].text


async def test_an_error_of_the_api_is_an_error_result_with_a_bounded_body(calls: Calls) -> None:
    assert "HTTP 204" in said(await calls.result("remove", number=1))
    with pytest.raises(Failed, match="HTTP 404 Not Found") as caught:
        await calls.result("remove", number=-1)
    assert (
        "no such item" in caught.value.content[0].text and len(caught.value.content[0].text) < 9_000
    )


async def test_arguments_are_checked_before_anything_is_sent(calls: Calls) -> None:
    with pytest.raises(InvalidArgs, match="'number'"):
        await calls.result("path", text="a", number="seven")
    with pytest.raises(InvalidArgs, match="Missing required argument 'text'"):
        await calls.result("query_query")
    with pytest.raises(InvalidArgs, match="line breaks"):
        await calls.result("header_header", **{"x-text": "a\r\nX-Evil: b"})


async def test_the_generic_request_stays_below_the_server(api: Api, tmp_path: Path) -> None:
    async with serving(Site()) as site:
        document = ApiDocument(
            {"openapi": "3.0.0", "paths": {}, "servers": [{"url": f"{site.url}/v1"}]}
        )
        echo = await opened(document, site.place, LocalWorkspace(tmp_path), server="")
        await echo.result(
            "generic", path="/users/7", query={"a": [1, "b c"]}, method="POST", json={"x": 1}
        )
        assert (site.seen[0].target, site.seen[0].body) == ("/v1/users/7?a=1&a=b%20c", b'{"x": 1}')
        for path in (
            "/../admin",
            "/%2e%2e/admin",
            "/a/%252e%252e/b",
            "//evil.example/",
            "/a/..;x/b",
            "users",
            "/a\\..\\b",
            "/a?b",
            "/a#b",
        ):
            with pytest.raises(InvalidArgs):
                await echo.result("generic", path=path)
        for headers in ({"Host": "evil.example"}, {"Authorization": "x"}, {"X": "a\r\nb"}):
            with pytest.raises(InvalidArgs):
                await echo.result("generic", path="/", headers=headers)
        assert site.connections == 1


@pytest.mark.parametrize(
    ("only", "taken", "refused"),
    [
        (["method:get"], {"path": "/x"}, {"path": "/pets/7", "method": "DELETE"}),
        (["method:p*"], {"path": "/x", "method": "POST"}, {"path": "/x"}),
        (["path:/pets/*"], {"path": "/pets/7", "method": "DELETE"}, {"path": "/admin"}),
        (["path:/pets/*"], {"path": "/pets/a%20b"}, {"path": "/%70ets/7"}),
        (["path:/pets/*", "method:get"], {"path": "/pets/7"}, {"path": "/pets/7", "method": "PUT"}),
        (
            ["method:get"],
            {"path": "/x"},
            {"path": "/x", "headers": {"X-HTTP-Method-Override": "DELETE"}},
        ),
        (
            ["method:get", "method:post"],
            {"path": "/x"},
            {"path": "/x", "method": "POST", "json": {"_method": "PUT"}},
        ),
        (
            [],
            {"path": "/x", "method": "DELETE"},
            {"path": "/x", "headers": {"x-method-override": "DELETE"}},
        ),
    ],
)
async def test_the_generic_request_makes_only_what_the_filters_admit(
    tmp_path: Path, only: list[str], taken: dict[str, Any], refused: dict[str, Any]
) -> None:
    async with serving(Site()) as site:
        pet: dict[str, Any] = {"parameters": [{"name": "id", "in": "path", "required": True}]}
        pet |= {method: {} for method in ("get", "put", "post", "delete", "patch")}
        document = ApiDocument({"openapi": "3.0.0", "paths": {"/pets/{id}": pet}})
        echo = await opened(document, site.place, LocalWorkspace(tmp_path), only=tuple(only))
        with pytest.raises(InvalidArgs):
            await echo.result("generic", **refused)
        assert site.connections == 0
        await echo.result("generic", **taken)
        assert [one.method for one in site.seen] == [taken.get("method", "GET")]


@pytest.mark.parametrize(
    "only", [["tag:pets"], ["id:list*"], ["tag:pets", "method:get"], ["method:trace"]]
)
async def test_filters_that_only_operations_have_leave_out_the_generic_request(
    tmp_path: Path, only: list[str]
) -> None:
    one = {"operationId": "list", "tags": ["pets"]}
    pets = {"get": one, "trace": {**one, "operationId": "list_hops"}}
    document = ApiDocument({"openapi": "3.0.0", "paths": {"/pets": pets}})
    echo = await opened(document, "127.0.0.1:1", LocalWorkspace(tmp_path), only=tuple(only))
    assert all("generic" not in tool.name for tool in echo.source.list().tools)
    with pytest.raises(NotFound):
        echo.source.get("echo__generic_request")


async def test_a_server_that_was_not_pinned_is_not_called(tmp_path: Path) -> None:
    async with serving(Site()) as site:
        paths = {"/a": {"get": {}}, "/b": {"servers": [{"url": site.url}], "get": {}}}
        document = ApiDocument(
            {"openapi": "3.0.0", "paths": paths, "servers": [{"url": "https://api.example.org"}]}
        )
        echo = await opened(document, "api.example.org", LocalWorkspace(tmp_path), server="")
        assert echo.source.get("echo__get_a").restricted == {"hosts": ("api.example.org",)}
        with pytest.raises(
            NotFound, match=r"not among the hosts pinned for it; add --host 127\.0\.0\.1"
        ):
            echo.source.get("echo__get_b")
        assert site.connections == 0


@pytest.mark.parametrize(
    "place", ["/admin", "{}/v1/../admin", "{}/v1/%2e%2e/admin", "{}/v1/..;/admin", "/v1/b/.%252e/x"]
)
async def test_a_redirect_out_of_the_server_is_not_followed(tmp_path: Path, place: str) -> None:
    async with serving(Site(lambda seen: (302, {"location": place.format(site.url)}, b""))) as site:
        document = ApiDocument({"openapi": "3.0.0", "paths": {"/a": {"get": {}}}})
        echo = await opened(document, site.place, LocalWorkspace(tmp_path), server=f"{site.url}/v1")
        assert "not followed" in said(await echo.result("get_a")) and len(site.seen) == 1


async def test_a_pinned_host_must_be_public_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    document = ApiDocument({"openapi": "3.0.0", "paths": {"/a": {"get": {}}}})
    options = DocumentOptions("echo", ("127.0.0.1",), server="http://127.0.0.1/")
    source = OpenApiSource(
        options, lambda: document, WebClient({}), BoundSecrets({}, SECRETS.get, Redactor({}))
    )
    await source.start(lambda: None)
    with pytest.raises(Denied, match="not public"):
        await call(source.get("echo__get_a"), LocalWorkspace(tmp_path))


async def test_rules_name_a_document_an_operation_or_a_path_and_plan_mode_only_reads(
    calls: Calls,
) -> None:
    def verdict(operation: str, *rules: Rule, mode: Mode = "ask", **arguments: object) -> str:
        tool = calls.source.get(f"echo__{operation}")
        key = tool.approval_key(parse_arguments(tool, json.dumps(arguments)))
        return Policy(mode, rules).check(tool.name, key, tool.permission, tool.effect).permission

    names = {one.name: one for one in calls.source.list().tools}
    get = next(name for name in names if "path_path" in name).removeprefix("echo__")
    remove = next(name for name in names if "remove" in name).removeprefix("echo__")
    here = {"text": "a/b", "number": 7}
    assert verdict(get, **here) == "prompt" and verdict(get, mode="plan", **here) == "prompt"
    assert (
        verdict(remove, number=1, mode="plan") == "deny"
        and verdict(remove, number=1, mode="accept-edits") == "prompt"
    )
    assert verdict(get, Rule.parse("echo__*", "auto"), **here) == "auto"
    assert verdict(remove, Rule.parse("echo__path*", "auto"), number=1) == "prompt"
    assert verdict(get, Rule.parse(f"echo__{get}(GET /path/a%2Fb/*)", "auto"), **here) == "auto"
    assert (
        verdict(
            get, Rule.parse("echo__*", "auto"), Rule.parse("echo__*(GET /path/*)", "deny"), **here
        )
        == "deny"
    )
    assert (
        verdict(get, Rule.parse("echo__*", "auto"), Rule.parse("*(127.0.0.1)", "deny"), **here)
        == "deny"
    )


async def test_mode_auto_asks_for_what_leaves_this_machine_or_takes_a_secret(
    api: Api, tmp_path: Path
) -> None:
    def reason(calls: Calls, operation: str, *rules: Rule) -> str:
        tool = calls.tool(operation)
        args = {"text": "a", "number": 7} if "path" in operation else {}
        key = tool.approval_key(parse_arguments(tool, json.dumps(args)))
        found = Policy("auto", rules).check(tool.name, key, tool.permission, tool.effect)
        return found.reason if found.permission == "prompt" else found.permission

    document, place = ApiDocument(api.document), LocalWorkspace(tmp_path)
    here = await opened(document, api.place, place, credentials=_CREDENTIALS)
    away = await opened(document, "api.example.org", place, server="https://api.example.org/")
    assert reason(here, "path") == "auto" and reason(here, "bearer") == "with the secret TOKEN"
    assert reason(away, "path") == "network access to api.example.org"
    assert reason(away, "path", Rule.parse("echo__*(GET *)", "auto")) == "auto"
