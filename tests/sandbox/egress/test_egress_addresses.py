"""Which addresses are never connected to, whatever name leads there (SECURITY.md T31, T36)."""

import ipaddress
from pathlib import Path

import pytest

from codeagent.net.addresses import is_ours, is_public
from tests.sandbox.egress.proxying import Origin, connect, get, listening, proxying
from tests.table import for_each

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
async def test_a_name_that_leads_there_is_refused_with_the_reason(tmp_path: Path, text: str) -> None:
    async with proxying(tmp_path, allowed=is_public) as ground:
        ground.names.known["pypi.org"] = (ipaddress.ip_address(text),)
        grant = ground.grant("*")
        assert b"not public" in await ground.say(connect(grant, "pypi.org:443"))
        assert b"not public" in await ground.say(get(grant, "http://pypi.org/"))
        assert grant.notice() == ("network: 2 requests to pypi.org refused (it leads to an address that is not public)")


async def test_one_bad_address_among_good_ones_is_enough(tmp_path: Path) -> None:
    async with proxying(tmp_path, allowed=is_public) as ground:
        ground.names.known["pypi.org"] = tuple(map(ipaddress.ip_address, ("93.184.215.14", "10.0.0.1")))
        assert b"not public" in await ground.say(connect(ground.grant("*"), "pypi.org:443"))


async def test_a_listed_address_that_is_near_is_refused_too(tmp_path: Path) -> None:
    async with proxying(tmp_path, allowed=is_public) as ground, listening(Origin()) as origin:
        grant = ground.grant(f"127.0.0.1:{origin.port}")
        assert b"not public" in await ground.say(get(grant, f"http://127.0.0.1:{origin.port}/"))
        assert origin.connections == 0


@pytest.mark.soak(tried=3, row="egress")
async def test_a_name_is_asked_for_once_in_a_command_so_that_its_answer_cannot_change(tmp_path: Path) -> None:
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
