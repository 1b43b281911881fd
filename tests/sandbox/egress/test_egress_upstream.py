"""Where this machine itself reaches the Internet through a proxy: rules hold, and the connection
goes through it."""

import asyncio
import ipaddress
from pathlib import Path

import pytest

from codeagent.net.addresses import UpstreamProxy, is_public, upstream_of
from codeagent.sandbox.egress.internet import internet_of
from tests.sandbox.egress.proxying import Origin, client_hello, connect, get, listening, proxying


class Upstream(Origin):
    """Answers CONNECT, and what comes behind it as an origin does."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.received += await reader.readuntil(b"\r\n\r\n")
        if b"refused.example" in self.received:
            writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await super().serve(reader, writer)


async def test_a_request_that_is_allowed_goes_through_it_by_name(tmp_path: Path) -> None:
    async with listening(Upstream()) as upstream:
        own = UpstreamProxy("127.0.0.1", upstream.port, tls=False, authorization="Basic b3du")
        async with proxying(tmp_path, own) as ground:
            ground.names.known["pypi.org"] = ()
            grant = ground.grant("pypi.org")
            assert (await ground.say(get(grant, "http://pypi.org/"))).endswith(b"ok")
            head, _, behind = upstream.received.partition(b"\r\n\r\n")
            assert head.startswith(b"CONNECT pypi.org:80 HTTP/1.1\r\n") and b"Basic b3du" in head
            assert b"b3du" not in behind and grant.token.encode() not in upstream.received
            assert (
                await ground.say(connect(grant, "pypi.org:443") + client_hello("pypi.org"), b"ok")
            ).endswith(b"ok")


async def test_rules_hold_before_it_is_asked(tmp_path: Path) -> None:
    async with listening(Upstream()) as upstream:
        own = UpstreamProxy("127.0.0.1", upstream.port, tls=False)
        async with proxying(tmp_path, own, is_public) as ground:
            ground.names.known["inside.example"] = (ipaddress.ip_address("10.0.0.1"),)
            assert b" 403 " in await ground.say(
                connect(ground.grant("pypi.org"), "evil.example:443")
            )
            assert b"not public" in await ground.say(
                connect(ground.grant("*"), "inside.example:443")
            )
            assert b" 403 " in await ground.say(connect(ground.grant("*"), "10.0.0.1:443"))
            assert upstream.received == b""


async def test_its_refusal_and_its_silence_are_said(tmp_path: Path) -> None:
    async with listening(Upstream()) as upstream:
        own = UpstreamProxy("127.0.0.1", upstream.port, tls=False)
        async with proxying(tmp_path / "a", own) as ground:
            answer = await ground.say(connect(ground.grant("*"), "refused.example:443"))
            assert b" 502 " in answer and b"own proxy refused" in answer
    async with proxying(tmp_path / "b", own) as ground:
        assert b"did not answer" in await ground.say(connect(ground.grant("*"), "pypi.org:443"))


def test_it_is_read_from_the_environment() -> None:
    assert upstream_of({}) is None
    assert upstream_of({"https_proxy": ""}) is None
    assert upstream_of({"HTTPS_PROXY": "proxy.example:3128"}) == UpstreamProxy(
        "proxy.example", 3128, tls=False
    )
    found = upstream_of({"https_proxy": "https://me:p%40ss@proxy.example"})
    assert found == UpstreamProxy(
        "proxy.example", 443, tls=True, authorization="Basic bWU6cEBzcw=="
    )
    assert "bWU6" not in repr(found)


@pytest.mark.parametrize(
    "address", ["socks5://proxy.example:1080", "http://", "http://proxy.example:x"]
)
def test_one_that_cannot_be_used_is_an_error(address: str) -> None:
    with pytest.raises(ValueError, match="https_proxy"):
        upstream_of({"https_proxy": address})


async def test_where_it_cannot_be_used_nothing_is_reached_without_it(tmp_path: Path) -> None:
    async with proxying(tmp_path) as ground:
        ground.proxy._internet = internet_of({"all_proxy": "socks5://proxy.example:1080"})
        answer = await ground.say(connect(ground.grant("*"), "pypi.org:443"))
        assert b" 502 " in answer and b"https_proxy" in answer
