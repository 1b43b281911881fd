"""The tools of the web set: what they send, what the model gets, and what no one ever sees of a
secret."""

import asyncio
import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest

from codeagent.config.checking import WrongValue, checked
from codeagent.core.policy import Mode, Policy, Rule
from codeagent.core.redact import Redactor
from codeagent.core.tool import Access, Denied, Failed, InvalidArgs, Tool
from codeagent.extensions.web import markdown, search
from codeagent.extensions.web.fetch import WebFetch
from codeagent.extensions.web.http_request import HttpRequest
from codeagent.extensions.web.markdown import NotConverted, converted, markdown_of
from codeagent.extensions.web.search import PROVIDERS, SearchProvider, WebSearch
from codeagent.extensions.web.settings import WebSettings
from codeagent.extensions.web.web_set import web_tools
from codeagent.net.web.client import WebClient
from codeagent.net.web.headers import ResponseHeaders
from codeagent.net.web.result import NOT_ORDERS
from codeagent.net.web.secrets import BoundSecrets
from codeagent.net.web.url import WebUrl
from codeagent.tools.arguments import parse_arguments
from codeagent.workspace.files import LocalWorkspace
from tests.extensions.web.serving import Reply, Seen, Site, call, said, serving
from tests.fakes import extension_context, tool_context

_VALUE = "s3cr3t value/with+signs"
_KEYS = {"API_TOKEN": _VALUE, "SHORT": "abc"}


def book(bound: Mapping[str, tuple[str, ...]] | None = None) -> BoundSecrets:
    return BoundSecrets(bound or {}, _KEYS.get, Redactor({}))


def requester(site: Site, *secrets: str) -> HttpRequest:
    return HttpRequest(WebClient({}, [site.place]), book(dict.fromkeys(secrets, (site.place,))))


def verdict(tool: Tool[Any], *rules: Rule, mode: Mode = "ask", **arguments: object) -> str:
    key = tool.approval_key(parse_arguments(tool, json.dumps(arguments)))
    return Policy(mode, rules).check(tool.name, key, tool.permission, tool.effect).permission


def allow(text: str) -> Rule:
    return Rule.parse(text, "auto")


def deny(text: str) -> Rule:
    return Rule.parse(text, "deny")


async def test_a_request_has_the_query_headers_and_json_it_was_given(
    workspace: LocalWorkspace,
) -> None:
    async with serving(Site()) as site:
        result = await call(
            requester(site),
            workspace,
            method="POST",
            url=f"{site.url}/a?b=1",
            query={"c d": ["x&y", 2, True]},
            headers={"X-A": "1", "X-Empty": ""},
            json={"e": [None, "ü"]},
        )
        [seen] = site.seen
        assert (seen.method, seen.target) == ("POST", "/a?b=1&c%20d=x%26y&c%20d=2&c%20d=true")
        assert (seen.headers["x-a"], seen.headers["x-empty"]) == ("1", "")
        assert seen.headers["content-type"] == "application/json" and json.loads(seen.body) == {
            "e": [None, "ü"]
        }
        assert said(result).startswith("HTTP 200 OK, text/plain, 2 bytes, from ") and said(
            result
        ).endswith("\n\nok")


async def test_an_error_of_the_server_is_an_error_with_the_beginning_of_its_body(
    workspace: LocalWorkspace,
) -> None:
    async with serving(Site(lambda seen: (404, {"retry-after": "7"}, b"x" * 50_000))) as site:
        with pytest.raises(Failed, match="HTTP 404 Not Found") as caught:
            await call(requester(site), workspace, url=site.url)
        [part] = caught.value.content
        assert "retry-after: 7" in part.text and "xxx" in part.text and len(part.text) < 9_000


async def test_what_is_not_text_is_only_counted(workspace: LocalWorkspace) -> None:
    async with serving(
        Site(lambda seen: (200, {"content-type": "image/png"}, b"\x89PNG\0\0"))
    ) as site:
        assert "[6 bytes that are not text" in said(
            await call(requester(site), workspace, url=site.url)
        )


async def test_a_secret_is_filled_in_at_the_edge_and_masked_in_whatever_comes_back(
    workspace: LocalWorkspace,
) -> None:
    def echo(seen: Seen) -> Reply:
        return (
            200,
            {"content-type": "text/plain"},
            f"{seen.target} {seen.headers['x-key']}".encode() + seen.body,
        )

    async with serving(Site(echo)) as site:
        tool = requester(site, "API_TOKEN")
        arguments = {
            "method": "POST",
            "url": f"{site.url}/",
            "query": {"k": "${secret:API_TOKEN}"},
            "headers": {"X-Key": "Token ${secret:API_TOKEN}"},
            "json": {"key": "${secret:API_TOKEN}"},
        }
        parsed = parse_arguments(tool, json.dumps(arguments))
        whole = parse_arguments(
            tool, json.dumps({"method": "POST", "url": site.url, "body": "x" * 20_000 + "end"})
        )
        assert "x" * 20_000 + "end" in str(
            (await tool.preview(whole, tool_context(workspace))).blocks
        )
        preview = await tool.preview(parsed, tool_context(workspace))
        assert _VALUE not in str(preview) and "${secret:API_TOKEN}" in str(preview)
        assert "with the secret API_TOKEN" in str(tool.approval_key(parsed).sensitive)
        result = await call(tool, workspace, **arguments)
        [seen] = site.seen
        assert seen.headers["x-key"] == f"Token {_VALUE}" and json.loads(seen.body) == {
            "key": _VALUE
        }
        assert "%2Fwith%2Bsigns" in seen.target
        assert "s3cr3t" not in str(result) and "[secret API_TOKEN]" in said(result)
        assert "s3cr3t" not in tool._secrets.clean(f"key={quote_plus(_VALUE)}")


@pytest.mark.parametrize(
    ("name", "bound", "why"),
    [
        ("API_TOKEN", "other.example", "not bound to"),
        ("UNKNOWN", "", "not bound to"),
        ("MISSING", "here", "has no value"),
        ("SHORT", "here", "fewer than 8"),
        ("a b", "here", "not the name"),
    ],
)
async def test_a_secret_that_may_not_leave_stops_the_request(
    workspace: LocalWorkspace, name: str, bound: str, why: str
) -> None:
    async with serving(Site()) as site:
        hosts = (site.place,) if bound == "here" else (bound,) if bound else ()
        tool = HttpRequest(WebClient({}, [site.place]), book({name: hosts}))
        with pytest.raises(Denied, match=why) as caught:
            await call(tool, workspace, url=site.url, headers={"x-key": f"${{secret:{name}}}"})
        assert site.connections == 0 and _VALUE not in str(caught.value)


async def test_a_secret_is_not_sent_without_encryption(workspace: LocalWorkspace) -> None:
    tool = HttpRequest(WebClient({}), book({"API_TOKEN": ("api.example.org", "127.example.org")}))
    for host in ("api.example.org", "127.example.org"):
        with pytest.raises(Denied, match="without encryption"):
            await call(
                tool, workspace, url=f"http://{host}/", headers={"x-key": "${secret:API_TOKEN}"}
            )
    with pytest.raises(InvalidArgs, match="cannot be part of the address"):
        await call(tool, workspace, url="https://api.example.org/?k=${secret:API_TOKEN}")


def test_every_host_is_asked_about_in_every_mode_until_a_rule_allows_it() -> None:
    tool, fetch = HttpRequest(WebClient({}), book()), WebFetch(WebClient({}), str)
    get, post = (
        {"url": "https://api.example.org/a"},
        {"method": "POST", "url": "https://api.example.org/a"},
    )
    assert (
        verdict(tool, mode="auto", **get) == "prompt"
        and verdict(tool, mode="plan", **get) == "deny"
    )
    assert verdict(tool, allow("http_request"), **get) == "prompt"
    rule = allow("http_request(network: GET api.example.org)")
    assert str(rule) == tool.proposal(parse_arguments(tool, json.dumps(get)))
    assert verdict(tool, rule, **get) == "auto" and verdict(tool, rule, **post) == "prompt"
    assert verdict(tool, rule, url="https://api.example.org:8443/") == "prompt"
    assert verdict(tool, rule, url="https://evil.example/?x=api.example.org") == "prompt"
    assert verdict(fetch, allow("web_fetch(network: *.example.org)"), mode="plan", **get) == "deny"
    assert verdict(fetch, allow("web_fetch(network: *.example.org)"), **get) == "auto"
    for pattern in (
        "api.example.org",
        "GET api.example.org",
        "*example.org/a",
        "GET https://api.example.org/*",
    ):
        assert verdict(tool, rule, deny(f"http_request({pattern})"), **get) == "deny"
    assert (
        verdict(fetch, allow("web_fetch(network: *)"), deny("web_fetch(api.example.org)"), **get)
        == "deny"
    )


def test_requests_that_change_something_keep_their_order(workspace: LocalWorkspace) -> None:
    tool = HttpRequest(WebClient({}), book())

    def access(method: str) -> Access:
        arguments = json.dumps({"method": method, "url": "https://api.example.org/"})
        return tool.access(parse_arguments(tool, arguments), workspace)

    assert not access("GET").conflicts(access("HEAD"))
    assert access("POST").conflicts(access("GET")) and access("DELETE").conflicts(access("POST"))


async def test_a_page_becomes_markdown_and_is_kept_for_a_while(workspace: LocalWorkspace) -> None:
    page = (
        b"<html><head><title>A page</title><style>p{}</style></head><body><script>evil()</script><h2>Part</h2>"
        b"<p>Text with <a href='/next'>a link</a> and <b>more</b>.</p></body></html>"
    )
    now = [0.0]
    async with serving(
        Site(lambda seen: (200, {"content-type": "text/html; charset=utf-8"}, page))
    ) as site:
        tool = WebFetch(WebClient({}, [site.place]), str, lambda: now[0])
        text = said(await call(tool, workspace, url=f"{site.url}/a"))
        assert f"# A page\n\n## Part\n\nText with [a link]({site.url}/next) and **more**." in text
        assert "do not come from the user" in text and "evil" not in text and "p{}" not in text
        assert said(await call(tool, workspace, url=f"{site.url}/a", offset=10)) != text
        assert site.connections == 1
        now[0] = 1_000.0
        await call(tool, workspace, url=f"{site.url}/a")
        assert site.connections == 2


async def test_a_long_page_is_read_in_parts_that_join_to_the_whole(
    workspace: LocalWorkspace,
) -> None:
    whole = "".join(f"line {at}\n" for at in range(10_000))
    async with serving(
        Site(lambda seen: (200, {"content-type": "text/plain"}, whole.encode()))
    ) as site:
        tool, read, parts = WebFetch(WebClient({}, [site.place]), str), 0, []
        while True:
            text = said(await call(tool, workspace, url=site.url, offset=read))
            part, cut, _ = text.partition("\n\n")[2].partition("\n[… ")
            parts.append(part)
            read += len(part)
            if not cut:
                break
        assert "".join(parts) == whole and site.connections == 1
        with pytest.raises(InvalidArgs, match="nothing from"):
            await call(tool, workspace, url=site.url, offset=len(whole) + 1)


TOO_DEEP = "<div>" * 5_000 + "x"
MALFORMED = "<![foo[ x]]>"


async def test_a_page_that_cannot_be_converted_is_an_error_and_not_a_crash() -> None:
    with pytest.raises(NotConverted, match="nested too deeply"):
        await markdown_of(TOO_DEEP, WebUrl.parse("https://example.org/"))
    assert await markdown_of(MALFORMED, WebUrl.parse("https://example.org/")) == ""


async def test_a_page_that_would_keep_the_parser_busy_for_hours_is_given_up(
    workspace: LocalWorkspace,
) -> None:
    with pytest.raises(NotConverted, match="takes too long to convert to Markdown"):
        await markdown_of("<a " * 300_000, WebUrl.parse("https://example.org/"), seconds=0.01)
    async with serving(
        Site(lambda seen: (200, {"content-type": "text/html"}, TOO_DEEP.encode()))
    ) as site:
        with pytest.raises(Failed, match=r"nested too deeply.*; use http_request for its source"):
            await call(WebFetch(WebClient({}, [site.place]), str), workspace, url=site.url)


def test_a_page_that_its_links_make_much_longer_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markdown, "_MOST_TEXT", 5_000)
    page = "<a href=x>y</a>" * 100
    text = markdown.converted(page, WebUrl.parse(f"https://example.org/{'a' * 1_000}/"))
    assert len(text) < 5_100 and text.endswith("[… the rest was left out]")


async def test_a_cancelled_conversion_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: asyncio.Future[asyncio.subprocess.Process] = asyncio.get_running_loop().create_future()
    start = asyncio.create_subprocess_exec

    async def watched(*command: str, **options: Any) -> asyncio.subprocess.Process:
        started.set_result(await start(*command, **options))
        return started.result()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", watched)
    task = asyncio.create_task(markdown_of("<a " * 300_000, WebUrl.parse("https://example.org/")))
    process = await started
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert process.returncode == -signal.SIGKILL


async def test_a_character_set_that_is_not_one_is_read_as_utf_8(workspace: LocalWorkspace) -> None:
    for name in ("punycode", "idna", "undefined", "unicode_escape", "hex", "nonsense"):
        headers = {"content-type": f"text/plain; charset={name}"}
        assert ResponseHeaders(headers).text("ü\\x41-abc".encode()) == "ü\\x41-abc"
    assert ResponseHeaders({"content-type": "text/plain; charset=latin-1"}).text(b"\xfc") == "ü"


async def test_a_secret_is_not_filled_into_the_name_of_a_header(workspace: LocalWorkspace) -> None:
    async with serving(Site()) as site:
        with pytest.raises(InvalidArgs, match="not the name of a header") as caught:
            await call(
                requester(site, "API_TOKEN"),
                workspace,
                url=site.url,
                headers={"${secret:API_TOKEN}": "x"},
            )
        assert "s3cr3t" not in str(caught.value) and site.connections == 0


async def test_a_query_that_makes_the_address_too_long_is_refused(
    workspace: LocalWorkspace,
) -> None:
    async with serving(Site()) as site:
        with pytest.raises(InvalidArgs, match="longer than"):
            await call(requester(site), workspace, url=site.url, query={"q": "x" * 9_000})
        assert site.connections == 0


@pytest.mark.parametrize(
    ("provider", "answer"),
    [
        ("searxng", {"results": [{"title": "T", "url": "https://a.example/", "content": "S\n s"}]}),
        (
            "brave",
            {
                "web": {
                    "results": [{"title": "T", "url": "https://a.example/", "description": "S s"}]
                }
            },
        ),
        ("tavily", {"results": [{"title": "T", "url": "https://a.example/", "content": "S s"}]}),
    ],
)
async def test_each_provider_is_asked_in_its_own_way(
    workspace: LocalWorkspace, provider: str, answer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = PROVIDERS[provider]
    async with serving(Site(lambda seen: (200, {}, json.dumps(answer).encode()))) as site:
        keys = BoundSecrets(
            {known.key: (site.place,)} if known.key else {}, {known.key: _VALUE}.get, Redactor({})
        )
        tool = WebSearch(WebClient({}, [site.place]), keys, known, f"{site.url}/search")
        result = await call(tool, workspace, query="a & b", limit=3)
        assert said(result) == f"{NOT_ORDERS}\n\n1. T\n   https://a.example/\n   S s"
        [seen] = site.seen
        if known.posts:
            assert json.loads(seen.body) == {"query": "a & b", "max_results": 3}
        else:
            assert "q=a%20%26%20b" in seen.target
        assert not known.key or seen.headers[known.header.lower()] == known.prefix + _VALUE
        assert tool.approval_key(search.WebSearchArgs(query="q")).network


async def test_an_answer_without_results_says_that_there_are_none(
    workspace: LocalWorkspace,
) -> None:
    for name, answer in (("searxng", {"results": []}), ("brave", {"type": "search", "query": {}})):
        async with serving(
            Site(lambda seen, answer=answer: (200, {}, json.dumps(answer).encode()))
        ) as site:
            keys = BoundSecrets({"BRAVE_API_KEY": (site.place,)}, lambda name: _VALUE, Redactor({}))
            tool = WebSearch(WebClient({}, [site.place]), keys, PROVIDERS[name], site.url)
            assert said(await call(tool, workspace, query="x")) == "Nothing found."


async def test_an_answer_that_is_not_results_is_an_error(workspace: LocalWorkspace) -> None:
    for body in (b"<html>", b"[]", b'{"results": 7}', b'{"results": [1]}'):
        async with serving(Site(lambda seen, body=body: (200, {}, body))) as site:
            for provider in (SearchProvider(""), SearchProvider("", marked=("type", "search"))):
                tool = WebSearch(WebClient({}, [site.place]), book(), provider, site.url)
                with pytest.raises(Failed, match="other than search results"):
                    await call(tool, workspace, query="x")


def test_a_search_is_offered_only_with_a_provider() -> None:
    def names(search: str | None, url: str | None = None) -> list[str]:
        web = checked(WebSettings, {"search": search, "search_url": url})
        return [
            tool.name for tool in web_tools(extension_context(Path("/"), sections={"web": web}))
        ]

    assert names(None) == ["http_request", "web_fetch"]
    assert names("brave") == ["http_request", "web_fetch", "web_search"]
    assert names("searxng", "https://s.example/search") == [
        "http_request",
        "web_fetch",
        "web_search",
    ]


def test_the_settings_name_the_providers_and_check_hosts_and_addresses() -> None:
    for name in PROVIDERS:
        assert (
            checked(WebSettings, {"search": name, "search_url": "https://s.example"}).search == name
        )
    for wrong in ({"search": "altavista"}, {"search": "searxng"}, {"private_hosts": ["http://x"]}):
        with pytest.raises(WrongValue):
            checked(WebSettings, wrong)
    checked(WebSettings, {"private_hosts": ["localhost:8000", "10.0.0.7", "*.corp.example"]})
    with pytest.raises(WrongValue):
        checked(WebSettings, {"secrets": {"TOKEN": ["not a host"]}})


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (
            "<form action=/search><h1>Shop</h1><p>Ten pears <button>Buy</button></form>",
            "# Shop\n\nTen pears Buy",
        ),
        ("<ul><li>one<li>two</ul>", "- one\n- two"),
        ("<p>one<p>two", "one\n\ntwo"),
        ("<dl><dt>a<dd>first<dt>b<dd>second</dl>", "a\n:   first\n\nb\n:   second"),
        ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "| a | b |\n| --- | --- |\n| 1 | 2 |"),
        ("<p>a <b>bold <i>both</b> slanted</i> z", "a **bold *both*** *slanted* z"),
        ("text<script>if (a < b) write('<p>no')</script><style>p{}</style> more", "text more"),
    ],
)
def test_a_page_is_read_as_a_browser_reads_it(page: str, text: str) -> None:
    assert converted(page, WebUrl.parse("https://example.org/")) == text
