"""What the proxy lets through and what it does not, for requests to a host that is allowed."""

import asyncio
import socket
from pathlib import Path

import pytest

from codeagent.core.hosts import HostRule
from codeagent.sandbox.egress.grant import Grant, RequestRefused
from codeagent.sandbox.egress.internet import Internet
from codeagent.sandbox.egress.proxy import SOCKET, EgressProxy
from tests.sandbox.egress.proxying import (
    Ground,
    Names,
    Origin,
    client_hello,
    connect,
    get,
    listening,
    login,
    proxying,
)

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


async def tunnelled(ground: Ground, grant: Grant, target: str, *pieces: bytes) -> bytes:
    """What comes back through a tunnel once `pieces` were sent into it, one after the other."""
    reader, writer = await ground.connect()
    writer.write(connect(grant, target))
    assert await reader.readuntil(b"\r\n\r\n") == ESTABLISHED
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


class ToOrigin(Internet):
    """Connects to the origin whatever the port, so that rules without a port can be tried."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin

    async def connect(
        self, name: str, port: int, grant: Grant
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._origin.port)


async def test_nobody_gets_in_without_the_credential_of_a_running_command(tmp_path: Path) -> None:
    async with proxying(tmp_path) as ground, listening(Origin()) as origin:
        grant = ground.grant(f"pypi.org:{origin.port}")
        request = get(grant, f"http://pypi.org:{origin.port}/")
        for wrong in (
            b"",
            b"Basic",
            b"Basic !",
            b"Bearer " + grant.token.encode(),
            b"Basic Y29kZWFnZW50Og==",
        ):
            line = b"Proxy-Authorization: " + wrong + b"\r\n"
            assert b" 407 " in await ground.say(request.replace(login(grant), line))
        assert b" 407 " in await ground.say(request.replace(login(grant), b""))
        ground.proxy.end(grant)
        assert b" 407 " in await ground.say(request), "the command has ended"
        assert origin.connections == 0


async def test_the_first_commands_may_open_it_at_once(tmp_path: Path) -> None:
    proxy = EgressProxy(tmp_path, Internet())
    await asyncio.gather(proxy.open(), proxy.open())
    assert (proxy.folder / SOCKET).exists()
    await proxy.close()


async def test_a_credential_is_good_for_its_own_hosts_only(tmp_path: Path) -> None:
    async with proxying(tmp_path) as ground, listening(Origin()) as origin:
        one, other = (
            ground.grant(f"one.example:{origin.port}"),
            ground.grant(f"other.example:{origin.port}"),
        )
        assert one.token != other.token
        assert b" 403 " in await ground.say(get(one, f"http://other.example:{origin.port}/"))
        assert b" 200 " in await ground.say(get(other, f"http://other.example:{origin.port}/"))


async def test_the_end_of_a_command_ends_its_connections(tmp_path: Path) -> None:
    async with proxying(tmp_path) as ground, listening(Origin(greeting=b"SSH-2.0\r\n")) as origin:
        grant = ground.grant(f"git.example:{origin.port}")
        reader, writer = await ground.connect()
        writer.write(connect(grant, f"git.example:{origin.port}"))
        assert await reader.readexactly(len(ESTABLISHED) + 9) == ESTABLISHED + b"SSH-2.0\r\n"
        ground.proxy.end(grant)
        with pytest.raises((ConnectionError, EOFError)):
            await reader.readexactly(1)
        writer.close()


async def test_a_request_goes_on_as_one_to_the_server_itself_without_what_is_for_the_proxy(
    tmp_path: Path,
) -> None:
    async with proxying(tmp_path) as ground, listening(Origin()) as origin:
        grant = ground.grant(f"pypi.org:{origin.port}")
        more = b"Accept: */*\r\nProxy-Connection: keep-alive\r\nConnection: X-Hop\r\nX-Hop: 1\r\nUpgrade: h2c\r\n"
        answer = await ground.say(get(grant, f"http://PyPI.org:{origin.port}/a?b=%20", more=more))
        assert answer == origin.answer
        assert (
            origin.received
            == (
                f"GET /a?b=%20 HTTP/1.1\r\nHost: pypi.org:{origin.port}\r\naccept: */*\r\nConnection: close\r\n\r\n"
            ).encode()
        )


async def test_a_second_request_behind_the_first_is_never_passed_on(tmp_path: Path) -> None:
    async with proxying(tmp_path) as ground, listening(Origin()) as origin:
        grant = ground.grant(f"pypi.org:{origin.port}")
        here = f"http://pypi.org:{origin.port}/"
        smuggled = b"GET /smuggled HTTP/1.1\r\nHost: evil.example\r\n\r\n"
        sized, chunked = b"Content-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n"
        for body in (
            b"",
            get(grant, here, more=sized) + b"body",
            get(grant, here, more=chunked) + b"4;x=y\r\nbody\r\n0\r\n\r\n",
        ):
            await ground.say(
                (body or get(grant, here)) + smuggled + get(grant, "http://evil.example/")
            )
        assert origin.connections == 3
        assert origin.received.count(b"body") == 2
        assert b"smuggled" not in origin.received and b"evil" not in origin.received
        assert b"4\r\nbody\r\n0\r\n\r\n" in origin.received


@pytest.mark.soak(tried=1, row="egress")
@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 1\r\nContent-Length: 2\r\n",
        b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: x\r\n",
        b"Content-Length: +1\r\n",
        b"Content-Length: 1,1\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length : 1\r\n",
        b" folded: 1\r\n",
        b"X: a\nHost: evil.example\r\n",
        b"X: a\rb\r\n",
        b"X: \0\r\n",
        b"no colon\r\n",
        b": empty\r\n",
        b"Bad Name: 1\r\n",
        b"X: 1\r\n" * 200,
    ],
)
async def test_what_two_readers_could_read_in_two_ways_is_refused(
    tmp_path: Path, head: bytes
) -> None:
    async with proxying(tmp_path) as ground, listening(Origin()) as origin:
        grant = ground.grant(f"pypi.org:{origin.port}")
        answer = await ground.say(get(grant, f"http://pypi.org:{origin.port}/", more=head))
        assert answer.startswith(b"HTTP/1.1 4")
        assert origin.connections == 0


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1",
        b"GET https://pypi.org/ HTTP/1.1",
        b"GET ftp://pypi.org/ HTTP/1.1",
        b"GET //pypi.org/ HTTP/1.1",
        b"GET http://pypi.org/ HTTP/2.0",
        b"GET http://pypi.org/",
        b"GET  http://pypi.org/ HTTP/1.1",
        b"",
        b"\x16\x03\x01",
        b"CONNECT http://pypi.org/ HTTP/1.1",
        b"CONNECT pypi.org HTTP/1.1",
        b"CONNECT /pypi.org:443 HTTP/1.1",
        b"\x05\x01\x00",
    ],
)
async def test_another_kind_of_request_is_refused(tmp_path: Path, line: bytes) -> None:
    async with proxying(tmp_path) as ground:
        grant = ground.grant("*")
        assert b" 400 " in await ground.say(
            line + b"\r\nHost: pypi.org\r\n" + login(grant) + b"\r\n"
        )
        assert ground.names.asked == []


async def test_a_head_that_does_not_end_is_refused(tmp_path: Path) -> None:
    async with proxying(tmp_path) as ground:
        head = b"GET http://pypi.org/ HTTP/1.1\r\n" + b"X: y\r\n" * 20_000
        assert (await ground.say(head)).startswith((b"HTTP/1.1 431", b""))


async def test_a_tunnel_is_for_tls_to_the_host_that_was_asked_for(tmp_path: Path) -> None:
    async with proxying(tmp_path) as ground, listening(Origin(answer=b"server")) as origin:
        ground.proxy._internet = ToOrigin(origin)
        grant = ground.grant("pypi.org", "other.example")
        hello = client_hello("pypi.org")
        assert await tunnelled(ground, grant, "pypi.org:443", hello) == b"server"
        assert (
            await tunnelled(
                ground, grant, "pypi.org:443", *(hello[at : at + 1] for at in range(len(hello)))
            )
            == b"server"
        )
        assert origin.received == hello * 2
        assert await tunnelled(ground, grant, "pypi.org:443", client_hello(None)) == b"server"
        origin.received = b""
        for first in (
            client_hello("other.example"),
            client_hello("evil.example"),
            client_hello("a.pypi.org"),
            b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            b"SSH-2.0-x\r\n",
            hello[:-1],
            b"\x16",
            b"\x16\x02\0\0\0",
            b"\x16\x03\x01\0\0" + hello,
            b"\x15" + hello[1:],
            hello[:5] + b"\x02" + hello[6:],
        ):
            assert await tunnelled(ground, grant, "pypi.org:443", first) == b""
        assert origin.received == b"", "not a byte of them is passed on"
    assert "3 requests to pypi.org allowed" in grant.notice()
    assert "3 requests to pypi.org refused (TLS names another host)" in grant.notice()


async def test_a_tunnel_that_hides_its_name_is_only_for_who_may_reach_every_host(
    tmp_path: Path,
) -> None:
    hello = client_hello("pypi.org")
    size = int.from_bytes(hello[3:5], "big")
    hidden = bytearray(hello + b"\xfe\x0d\x00\x00")
    hidden[3:5], hidden[6:9] = (size + 4).to_bytes(2, "big"), (size).to_bytes(3, "big")
    at = 5 + 4 + 2 + 32
    at += 1 + hello[at]
    at += 2 + int.from_bytes(hello[at : at + 2], "big")
    at += 1 + hello[at]
    hidden[at : at + 2] = (int.from_bytes(hello[at : at + 2], "big") + 4).to_bytes(2, "big")
    async with proxying(tmp_path) as ground, listening(Origin(answer=b"server")) as origin:
        ground.proxy._internet = ToOrigin(origin)
        assert (
            await tunnelled(ground, ground.grant("pypi.org"), "pypi.org:443", bytes(hidden)) == b""
        )
        assert (
            await tunnelled(ground, ground.grant("*"), "pypi.org:443", bytes(hidden)) == b"server"
        )


async def test_a_rule_that_names_a_port_lets_other_protocols_through_and_still_reads_tls(
    tmp_path: Path,
) -> None:
    async with proxying(tmp_path) as ground, listening(Origin(answer=b"server")) as origin:
        target = f"git.example:{origin.port}"
        grant = ground.grant(target)
        assert await tunnelled(ground, grant, target, b"SSH-2.0-x\r\n") == b"server"
        assert await tunnelled(ground, grant, target, client_hello("evil.example")) == b""
        assert origin.received == b"SSH-2.0-x\r\n"


async def test_bytes_of_a_command_are_counted_over_all_its_connections(tmp_path: Path) -> None:
    async with proxying(tmp_path) as ground, listening(Origin(answer=b"x" * 3000)) as origin:
        target = f"git.example:{origin.port}"
        grant = Grant((HostRule.parse(target),), byte_limit=5000)
        ground.proxy._grants[grant.token] = grant
        assert await tunnelled(ground, grant, target, b"a") == b"x" * 3000
        assert len(await tunnelled(ground, grant, target, b"a")) < 3000
        assert "more than 5000 bytes in one command" in grant.notice()
        said = await ground.say(connect(grant, target))
        assert said.startswith(b"HTTP/1.1 403") and said.endswith(
            b"in one command: nothing more is passed on\n"
        )


async def test_connections_of_a_command_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeagent.sandbox.egress.grant.MOST_CONNECTIONS", 2)
    async with proxying(tmp_path) as ground, listening(Origin(greeting=b"hi")) as origin:
        target = f"git.example:{origin.port}"
        grant = ground.grant(target)
        kept = [await ground.connect() for _ in range(2)]
        for reader, writer in kept:
            writer.write(connect(grant, target))
            await reader.readexactly(len(ESTABLISHED))
        assert b"more than 2 connections" in await ground.say(connect(grant, target))
        for _, writer in kept:
            writer.close()


async def test_the_notice_counts_by_host_and_never_floods(tmp_path: Path) -> None:
    async with proxying(tmp_path) as ground, listening(Origin()) as origin:
        grant = ground.grant(f"pypi.org:{origin.port}")
        assert grant.notice() == "network: no request was made"
        await ground.say(get(grant, f"http://pypi.org:{origin.port}/"))
        await ground.say(get(grant, "http://evil.example/"))
        assert grant.notice() == (
            f"network: 1 request to pypi.org:{origin.port} allowed; "
            "1 request to evil.example refused (not among the hosts of this command)"
        )
        await ground.say(connect(grant, "evil_name:443"))
        for number in range(50):
            await ground.say(connect(grant, f"h{number}.example:443"))
        assert "and 44 more hosts" in grant.notice()
        assert len(grant.notice()) < 1000
        assert grant.notice().isprintable()


async def test_the_proxy_listens_on_a_socket_below_a_folder_of_ours_alone_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    async with proxying(tmp_path) as ground:
        folder = ground.proxy.folder
        assert folder.parent.stat().st_mode & 0o777 == 0o700
        assert [path.name for path in folder.iterdir()] == [SOCKET]
        assert all(server.family == socket.AF_UNIX for server in ground.proxy._server.sockets)  # type: ignore[union-attr]  # it is open
    assert not folder.parent.exists()


def test_hosts_are_counted_each_up_to_a_thousand_and_together_after_that() -> None:
    grant = Grant((HostRule.parse("*"),))
    for number in range(5000):
        grant.refused(f"{number}.example", 443, "no such name")
        grant.allowed(f"{number}.example", 443)
    assert len(grant._refused) == len(grant._allowed) == 1001
    assert "4000 requests to other hosts refused (too many)" in grant.notice()


async def test_names_are_looked_up_for_a_thousand_hosts_in_one_command() -> None:
    grant = Grant((HostRule.parse("*"),))
    grant.pinned = dict.fromkeys((f"{number}.example" for number in range(1000)), ())
    with pytest.raises(RequestRefused, match="more than 1000 hosts"):
        await Internet(resolve=Names(), allowed=lambda _: True).connect(
            "one.more.example", 443, grant
        )
