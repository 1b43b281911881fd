"""Requests leave only for addresses that were checked, whatever a name or a server says."""

import asyncio
import gzip
import re

import pytest

from codeagent.core.sanitize import one_line
from codeagent.core.tool import Denied, Failed, InvalidArgs, TimedOut
from codeagent.net.addresses import Address
from codeagent.net.web.client import MOST_REDIRECTS, WebClient, WebRequest
from codeagent.net.web.headers import checked_headers
from codeagent.net.web.url import WebUrl
from tests.extensions.web.serving import FlippingNames, Reply, Seen, Site, serving
from tests.sandbox.egress.test_egress_addresses import NOT_PUBLIC
from tests.table import for_each

_FAR, _NEAR = "127.0.0.2", "127.0.0.1"
"""In these tests the first of them counts as public."""


def far_only(address: Address) -> bool:
    return str(address) == _FAR


def get(url: str, **headers: str) -> WebRequest:
    return WebRequest("GET", WebUrl.parse(url), headers)


@pytest.mark.soak(tried=1, row="egress")
@pytest.mark.parametrize("address", NOT_PUBLIC)
async def test_a_name_that_leads_near_is_refused(address: str) -> None:
    client = WebClient({}, resolve=FlippingNames(address))
    with pytest.raises(Denied, match="not public"):
        await client.send(get("https://inside.example/"))


@pytest.mark.soak(tried=1, row="egress")
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "[fc00::1]", "localhost"]
)
async def test_an_address_that_is_near_is_refused(host: str) -> None:
    with pytest.raises(
        Denied, match=rf"not public.*; the user may add {re.escape(host)}:8080 to web.private_hosts"
    ):
        await WebClient({}).send(get(f"http://{host}:8080/latest/meta-data"))


async def test_one_near_address_among_far_ones_is_enough() -> None:
    client = WebClient({}, resolve=FlippingNames(f"{_FAR} {_NEAR}"), allowed=far_only)
    with pytest.raises(Denied, match="not public"):
        await client.send(get("https://both.example/"))


@pytest.mark.soak(tried=1, row="egress")
async def test_a_name_whose_answer_flips_never_leads_near() -> None:
    """What was checked is what is connected to; the next request is checked again."""
    async with serving(Site(host=_FAR)) as far, serving(Site(host=_NEAR, port=far.port)) as near:
        names = FlippingNames(_FAR, _NEAR)
        client = WebClient({}, resolve=names, allowed=far_only)
        response = await client.send(get(f"http://flips.example:{far.port}/"))
        assert (response.status, response.body, names.asked) == (200, b"ok", 1)
        assert far.seen[0].headers["host"] == f"flips.example:{far.port}"
        with pytest.raises(Denied, match="not public"):
            await client.send(get(f"http://flips.example:{far.port}/"))
        assert (far.connections, near.connections) == (1, 0)


@pytest.mark.soak(tried=1, row="egress")
async def test_a_redirect_is_checked_as_a_request_of_its_own() -> None:
    async with serving(Site(lambda seen: (302, {"location": "/next"}, b""), host=_FAR)) as far:
        client = WebClient({}, resolve=FlippingNames(_FAR, _NEAR), allowed=far_only)
        with pytest.raises(Denied, match="not public"):
            await client.send(get(f"http://flips.example:{far.port}/"))
        assert far.connections == 1


@pytest.mark.soak(tried=1, row="egress")
async def test_a_redirect_to_another_host_is_handed_back() -> None:
    def answer(seen: Seen) -> Reply:
        return 302, {"location": f"{other.url}/secret"}, b""

    async with serving(Site()) as other, serving(Site(answer)) as site:
        client = WebClient({}, [site.place, other.place])
        response = await client.send(get(f"{site.url}/", authorization="Bearer x"))
        assert (response.status, str(response.redirect)) == (302, f"{other.url}/secret")
        assert other.connections == 0


async def test_redirects_within_the_host_are_followed_up_to_a_limit() -> None:
    def answer(seen: Seen) -> Reply:
        left = int(seen.target.strip("/"))
        return (302, {"location": f"/{left - 1}"}, b"") if left else (200, {}, b"there")

    async with serving(Site(answer)) as site:
        client = WebClient({}, [site.place])
        response = await client.send(get(f"{site.url}/{MOST_REDIRECTS}", authorization="Bearer x"))
        assert response.body == b"there" and str(response.url) == f"{site.url}/0"
        assert {seen.headers["authorization"] for seen in site.seen} == {"Bearer x"}
        with pytest.raises(Failed, match=f"more than {MOST_REDIRECTS} redirects"):
            await client.send(get(f"{site.url}/{MOST_REDIRECTS + 1}"))


async def test_a_redirected_post_is_not_sent_again() -> None:
    async with serving(Site(lambda seen: (307, {"location": "/other"}, b""))) as site:
        client = WebClient({}, [site.place])
        response = await client.send(WebRequest("POST", WebUrl.parse(f"{site.url}/"), {}, b"x"))
        assert response.status == 307 and len(site.seen) == 1


async def test_a_redirect_that_the_caller_does_not_want_is_handed_back() -> None:
    async with serving(Site(lambda seen: (302, {"location": "/admin"}, b""))) as site:
        client = WebClient({}, [site.place])
        response = await client.send(
            get(f"{site.url}/v1/x"), follow=lambda url: url.path.startswith("/v1/")
        )
        assert response.redirect is not None and len(site.seen) == 1


async def test_a_body_is_read_up_to_the_cap_even_if_it_unpacks_to_more() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    async with serving(Site(lambda seen: (200, {"content-encoding": "gzip"}, bomb))) as site:
        client = WebClient({}, [site.place])
        response = await client.send(get(f"{site.url}/"), largest=100_000)
        assert (len(response.body), response.complete) == (100_000, False)


BOMB = gzip.compress(bytes(200_000_000), 1)
CANNOT_BE_READ: dict[str, tuple[dict[str, str], bytes, str]] = {
    "packed twice": (
        {"content-encoding": "gzip, gzip"},
        gzip.compress(BOMB),
        "unpacks to more than can be taken in",
    ),
    "packed nine times": (
        {"content-encoding": ", ".join(["gzip"] * 9)},
        BOMB,
        "could not be unpacked",
    ),
    "no gzip": ({"content-encoding": "gzip"}, b"nonsense" * 100, "could not be unpacked"),
    "no brotli": ({"content-encoding": "br"}, b"\xff" * 500, "could not be unpacked"),
    "an unknown packing": ({"content-encoding": "snappy"}, b"x", "could not be unpacked"),
    "a long header": ({"x": "a" * 400_000}, b"x", "the head of its answer is too large"),
    "many headers": ({f"x{number}": "a" * 100 for number in range(6000)}, b"x", "ended too early"),
    "a length that is no number": ({"content-length": "banana"}, b"x", "is not HTTP"),
    "a header with a NUL": ({"a\0b": "c"}, b"x", "is not HTTP"),
    "chunks that are none": ({"transfer-encoding": "chunked"}, b"zz\r\nabc", "ended too early"),
}


@pytest.mark.parametrize("case", CANNOT_BE_READ)
async def test_what_cannot_be_read_is_said_in_one_line_with_what_was_kept_and_the_next_step(
    case: str,
) -> None:
    headers, body, words = CANNOT_BE_READ[case]
    async with serving(Site(lambda seen: (200, headers, body))) as site:
        with pytest.raises(Failed) as failed:
            await WebClient({}, [site.place]).send(get(f"{site.url}/"))
    said = str(failed.value)
    assert (
        said.startswith(f"no answer from {site.place}: ")
        and words in said
        and "what had come was dropped; " in said
    )
    assert said == one_line(said, 400) and "pycurl" not in said and "pause" not in said


async def test_a_body_that_is_packed_twice_and_is_no_bomb_is_read() -> None:
    packed = gzip.compress(gzip.compress(b"hello"))
    async with serving(
        Site(lambda seen: (200, {"content-encoding": "gzip, gzip"}, packed))
    ) as site:
        response = await WebClient({}, [site.place]).send(get(f"{site.url}/"))
        assert (response.body, response.complete) == (b"hello", True)


async def test_a_server_without_the_tls_that_was_asked_for_is_said_in_one_line() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 X\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    async with server:
        place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(
            Failed,
            match=f"no answer from {place}: no secure connection .*; nothing was read; check",
        ):
            await WebClient({}, [place]).send(get(f"https://{place}/"))


async def test_a_header_that_looks_like_a_status_line_is_a_header() -> None:
    async with serving(
        Site(lambda seen: (200, {"HTTP/nonsense": "y", "HTTP/1.1 999 x": "z"}, b"ok"))
    ) as site:
        response = await WebClient({}, [site.place]).send(get(site.url))
        assert (response.status, response.body, response.headers.get("http/nonsense")) == (
            200,
            b"ok",
            "y",
        )


async def test_a_post_without_a_body_names_no_type_of_one() -> None:
    async with serving(Site()) as site:
        await WebClient({}, [site.place]).send(WebRequest("POST", WebUrl.parse(site.url)))
        assert (
            "content-type" not in site.seen[0].headers
            and site.seen[0].headers["content-length"] == "0"
        )


@pytest.mark.soak(tried=1, row="egress")
async def test_a_server_that_does_not_finish_is_given_up_and_its_socket_closed() -> None:
    async with serving(Site(lambda seen: (200, {"content-length": "10"}, b"12345"))) as site:
        client = WebClient({}, [site.place])
        with pytest.raises(TimedOut, match=r"within 0\.2 s"):
            await client.send(get(f"{site.url}/"), seconds=0.2)
        await asyncio.wait_for(site.left.wait(), 10)


async def test_a_cancelled_request_closes_its_socket() -> None:
    asked = asyncio.Event()

    def answer(seen: Seen) -> Reply:
        asked.set()
        return 200, {"content-length": "10"}, b"1"

    async with serving(Site(answer)) as site:
        client = WebClient({}, [site.place])
        task = asyncio.create_task(client.send(get(f"{site.url}/")))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(site.left.wait(), 10)


async def test_a_name_that_nobody_knows_and_a_closed_port_are_said() -> None:
    async def unknown(name: str) -> tuple[Address, ...]:
        raise OSError("no")

    with pytest.raises(Failed, match=r"no such host: gone\.example"):
        await WebClient({}, resolve=unknown).send(get("https://gone.example/"))
    async with serving(Site()) as site:
        pass
    with pytest.raises(
        Failed, match=f"no answer from {site.place}: it refused the connection; nothing was read"
    ):
        await WebClient({}, [site.place]).send(get(site.url))


async def test_the_proxy_of_this_machine_is_used_as_commands_use_it_and_an_unusable_one_stops_the_request() -> (
    None
):
    async with serving(Site(lambda seen: (403, {}, b""))) as proxy:
        environment = {"https_proxy": proxy.url, "no_proxy": "*"}
        client = WebClient(environment, resolve=FlippingNames(_FAR), allowed=far_only)
        with pytest.raises(Failed, match="own proxy"):
            await client.send(get("http://far.example/"))
        assert (proxy.seen[0].method, proxy.seen[0].target) == ("CONNECT", "far.example:80")
        with pytest.raises(Denied, match="not public"):
            await WebClient(environment, resolve=FlippingNames(_NEAR)).send(
                get("http://near.example/")
            )
        assert proxy.connections == 1
    with pytest.raises(Failed, match="https_proxy"):
        await WebClient({"https_proxy": "socks5://x.example"}).send(get("https://far.example/"))


@for_each(
    "headers",
    [
        {"Host": "evil.example"},
        {"content-length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"Proxy-Authorization": "x"},
        {"a b": "c"},
        {"": "c"},
        {"X-A": "b\r\nHost: evil.example"},
        {"X-A": "b\0"},
        {"X-A": "ä"},
        {"X-A": "1", "x-a": "2"},
    ],
)
def test_headers_that_say_where_a_request_goes_or_ends_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidArgs):
        checked_headers(headers)
