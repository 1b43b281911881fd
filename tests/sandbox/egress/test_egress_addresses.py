"""Which addresses are never connected to, whatever name leads there."""

import ipaddress
from pathlib import Path

import pytest

from codeagent.core.hosts import HostRule
from codeagent.net.addresses import is_ours, is_private, is_public
from codeagent.sandbox.egress.grant import Grant, RequestRefused
from codeagent.sandbox.egress.internet import Internet
from tests.sandbox.egress.proxying import Origin, connect, get, listening, proxying
from tests.table import for_each

REFUSED = (
    "it leads to an address that is not public; only the user can allow a private one: "
    "private_hosts under [network]"
)
_NEAR = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.255.255.254 169.254.0.1
169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1 192.168.255.255
198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 168.63.129.16
:: ::1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:169.254.169.254 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b:1::1
100::1 2001::1 2001:0:7f00:1:: 2001:10::1 2001:20::1 2001:db8::1 2002:7f00:1:: 2002:808:808:: 3fff::1 fc00::1 fd00::1
fd00:ec2::254 fe80::1 fe80::1%1 feff::1 ff02::1 ff05::2 5f00::1 4000::1
"""
NOT_PUBLIC = _NEAR.split()
_FAR = """
1.1.1.1 8.8.8.8 93.184.215.14 100.63.255.255 100.128.0.1 172.15.0.1 172.32.0.1
2606:4700::1111 2a00:1450::1
"""


@for_each("text", NOT_PUBLIC)
def test_an_address_that_is_near_or_special_is_not_public(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


@for_each("text", _FAR.split())
def test_an_address_of_the_internet_is_public(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


def test_this_machine_knows_its_own_addresses_whatever_their_numbers() -> None:
    assert is_ours(ipaddress.ip_address("127.0.0.1"))
    assert not is_ours(ipaddress.ip_address("93.184.215.14"))


@pytest.mark.soak(tried=2, row="egress")
@pytest.mark.parametrize("text", NOT_PUBLIC)
async def test_a_name_that_leads_there_is_refused_with_the_reason(
    tmp_path: Path, text: str
) -> None:
    async with proxying(tmp_path, allowed=is_public) as ground:
        ground.names.known["pypi.org"] = (ipaddress.ip_address(text),)
        grant = ground.grant("*")
        assert b"not public" in await ground.say(connect(grant, "pypi.org:443"))
        assert b"not public" in await ground.say(get(grant, "http://pypi.org/"))
        assert grant.notice() == f"network: 2 requests to pypi.org refused ({REFUSED})"


async def test_one_bad_address_among_good_ones_is_enough(tmp_path: Path) -> None:
    async with proxying(tmp_path, allowed=is_public) as ground:
        ground.names.known["pypi.org"] = tuple(
            map(ipaddress.ip_address, ("93.184.215.14", "10.0.0.1"))
        )
        assert b"not public" in await ground.say(connect(ground.grant("*"), "pypi.org:443"))


async def test_a_listed_address_that_is_near_is_refused_too(tmp_path: Path) -> None:
    async with proxying(tmp_path, allowed=is_public) as ground, listening(Origin()) as origin:
        grant = ground.grant(f"127.0.0.1:{origin.port}")
        assert b"not public" in await ground.say(get(grant, f"http://127.0.0.1:{origin.port}/"))
        assert origin.connections == 0


@pytest.mark.soak(tried=3, row="egress")
async def test_a_name_is_asked_for_once_in_a_command_so_that_its_answer_cannot_change(
    tmp_path: Path,
) -> None:
    async with proxying(tmp_path) as ground, listening(Origin()) as origin:
        grant = ground.grant(f"pypi.org:{origin.port}")
        for _ in range(3):
            assert b"ok" in await ground.say(get(grant, f"http://pypi.org:{origin.port}/"))
            ground.names.known["pypi.org"] = (ipaddress.ip_address("10.0.0.1"),)
        assert ground.names.asked == ["pypi.org"]


async def test_a_name_that_does_not_resolve_is_refused(tmp_path: Path) -> None:
    async with proxying(tmp_path) as ground:
        ground.names.known["gone.example"] = ()
        grant = ground.grant("*")
        assert b" 502 " in await ground.say(connect(grant, "gone.example:443"))
        assert grant.notice() == "network: 1 request to gone.example refused (no such name)"


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Where connections go, none of which is made."""
    found: list[tuple[str, int]] = []

    async def note(host: str, port: int) -> None:
        found.append((host, port))

    monkeypatch.setattr("asyncio.open_connection", note)
    return found


def inside(*addresses: str) -> Internet:
    """The Internet of a user who named `mirror.corp:443`, where every name has these addresses."""

    async def resolve(name: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, ...]:
        return tuple(map(ipaddress.ip_address, addresses))

    return Internet(resolve=resolve, private=(HostRule.parse("mirror.corp:443"),))


@for_each(
    "address",
    ["10.1.2.3", "172.16.9.9", "192.168.77.7", "100.64.9.9", "fd12:3456::7", "93.184.215.14"],
)
async def test_a_private_host_that_the_user_named_is_reached(
    reached: list[tuple[str, int]], address: str
) -> None:
    reached.clear()
    await inside(address).connect("mirror.corp", 443, Grant(()))
    assert reached == [(address, 443)]


@for_each(
    ("name", "port", "addresses"),
    [
        ("mirror.corp", 80, ("10.1.2.3",)),
        ("mirror.corp", 8443, ("10.1.2.3",)),
        ("other.corp", 443, ("10.1.2.3",)),
        ("a.mirror.corp", 443, ("10.1.2.3",)),
        ("evil-mirror.corp", 443, ("10.1.2.3",)),
        ("10.1.2.3", 443, ("10.1.2.3",)),
        ("mirror.corp", 443, ("10.1.2.3", "127.0.0.1")),
        ("mirror.corp", 443, ("127.0.0.1",)),
        ("mirror.corp", 443, ("::1",)),
        ("mirror.corp", 443, ("169.254.169.254",)),
        ("mirror.corp", 443, ("fe80::1",)),
        ("mirror.corp", 443, ("fd00:ec2::254",)),
        ("mirror.corp", 443, ("100.100.100.200",)),
        ("mirror.corp", 443, ("::ffff:10.1.2.3",)),
        ("mirror.corp", 443, ("0.0.0.0",)),
    ],
)
async def test_nothing_but_the_named_host_at_its_port_is_reached_at_a_private_address(
    reached: list[tuple[str, int]], name: str, port: int, addresses: tuple[str, ...]
) -> None:
    with pytest.raises(RequestRefused, match=r"private_hosts under \[network\]"):
        await inside(*addresses).connect(name, port, Grant(()))
    assert reached == []


async def test_a_named_host_is_still_reached_only_by_a_command_that_may_reach_it() -> None:
    with pytest.raises(RequestRefused, match="not among the hosts"):
        await Grant((HostRule.parse("pypi.org"),)).rule_for("mirror.corp", 443)


def test_no_address_of_this_machine_is_private() -> None:
    assert not is_private(ipaddress.ip_address("127.0.0.1")) and is_private(
        ipaddress.ip_address("10.1.2.3")
    )
