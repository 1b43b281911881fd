"""No spelling of a target gets past the list of hosts: 0 of them reach a
server."""

from pathlib import Path

import pytest

from tests.sandbox.egress.proxying import Ground, Origin, connect, get, listening, login, proxying

_PLAIN = """
evil.example pypi.org.evil.example pypi.org-evil.example pypi.orgevil.example evilpypi.org evil-pypi.org xpypi.org
pypi.or pypi.orgg pypi org pypi.org.org org pypi.org.local pypi.org.localhost a.pypi.org www.pypi.org
example.org evilexample.org example.org.evil.example a.example.org.evil.example aexample.org .example.org ..example.org
-.example.org a..example.org a.example.orgx a.example.com *.example.org *.pypi.org * a_b.example.org
xn--pypi-.org xn--pyp-jma.org xn--pypi-43a.org pypi.xn--org pypi.org.xn--p1ai
pypi.org. pypi.org.. .pypi.org pypi..org pypi.org.evil.example. a.example.org.
pypi%2eorg pypi.org%00 pypi.org%00.evil.example evil.example%00.pypi.org pypi.org%2f pypi.org%0d%0a pypi.org%20
%70ypi.org evil.example%2f.example.org evil.example%23.example.org evil.example%3f.example.org
pypi.org@evil.example evil.example@pypi.org user:pass@pypi.org pypi.org:443@evil.example @pypi.org pypi.org@
evil.example#.example.org evil.example?.example.org evil.example/.example.org evil.example\\.example.org pypi.org#
pypi.org? evil.example;.example.org evil.example,pypi.org pypi.org,evil.example evil.example|pypi.org pypi.org'
"pypi.org" <pypi.org> (pypi.org) {pypi.org} pypi.org$ pypi.org! ~pypi.org pypi.org+ =pypi.org pypi.org&
127.0.0.1 127.1 127.0.1 127.0.0.01 0127.0.0.1 0177.0.0.1 0x7f.0.0.1 0x7f.1 0x7f000001 2130706433 017700000001 0 0.0.0.0
127.0.0.1. 1.1 localhost localhost. LOCALHOST ip6-localhost 10.0.0.1 169.254.169.254 0xa9fea9fe 2852039166
0251.0376.0251.0376 169.254.43518 metadata metadata.google.internal 100.64.0.1 192.168.0.1
[::1] [::] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1] [::ffff:7f00:1] [::127.0.0.1] [fe80::1] [fe80::1%lo] [::1%25lo]
[0000::1] [::1 ::1] ::1 [fd00::1] [64:ff9b::7f00:1] [2002:7f00:1::] [::ffff:0:127.0.0.1] [127.0.0.1] [pypi.org]
[v1.pypi.org] [::1].example.org [::ffff:169.254.169.254] 1.1.1.1 8.8.8.8 [2606:4700:4700::1111] 3.example 1.2.3.4.5
"""
OTHERS = [
    *_PLAIN.split(),
    "evil.example\0.example.org",
    "evil.example\0.pypi.org",
    "pypi.org\0",
    "pypi.org\t",
    "pypi.org\v",
    "pypi.org\x7f",
    "evil.example .example.org",
    "evil.example\r.example.org",
    "evil.example\n.example.org",
    "pypi.org\u3002evil.example",
    "\u0440ypi.org",
    "py\u0440i.org",
    "pypi\uff0eorg",
    "pypi\u3002org",
    "p\u00adypi.org",
    "pypi.org\u200b",
    "\u24dfypi.org",
    "PY\u0130PI.ORG",
    "evil.example\u2100.example.org",
    "evil.example\udcff.example.org",
    "\ufeffpypi.org",
    "127\u30020.0.1",
    "\u2460\u2461\u2466.0.0.1",
    "\uff11\uff12\uff17.0.0.1",
    "a" * 64 + ".example.org",
    "a." * 130 + "example.org",
]
SAME = ["pypi.org", "PYPI.ORG", "PyPi.Org", "a.example.org", "a.b.example.org", "A.Example.ORG"]


def allowing(ground: Ground, origin: Origin) -> tuple[bytes, bytes]:
    """A template of each kind of request, with HOST and the origin's port."""
    grant = ground.grant(f"pypi.org:{origin.port}", f"*.example.org:{origin.port}")
    return (connect(grant, f"HOST:{origin.port}"), get(grant, f"http://HOST:{origin.port}/x"))


@pytest.mark.soak(tried=2 * len(OTHERS), row="egress")
async def test_none_of_so_many_hosts_is_reached_but_those_that_are_named(tmp_path: Path) -> None:
    assert len(set(OTHERS)) >= 120
    async with proxying(tmp_path) as ground, listening(Origin(greeting=b"hi")) as origin:
        tunnel, plain = allowing(ground, origin)
        for host in OTHERS:
            name = host.encode("utf-8", "surrogateescape")
            for request in (tunnel, plain):
                answer = await ground.say(request.replace(b"HOST", name))
                assert not answer.startswith(b"HTTP/1.1 2"), host
            assert origin.connections == 0, host
        assert set(ground.names.asked) == set(), "a name that is not allowed is not even looked up"
        for number, host in enumerate(SAME, start=1):
            answer = await ground.say(plain.replace(b"HOST", host.encode()))
            assert answer.endswith(b"ok"), host
            assert origin.connections == number


async def test_other_ports_of_a_host_that_is_named_are_not_reached(tmp_path: Path) -> None:
    async with proxying(tmp_path) as ground, listening(Origin()) as origin:
        grant = ground.grant("pypi.org", "example.org:1")
        for port in (
            str(origin.port),
            f"0{origin.port}",
            f"+{origin.port}",
            f" {origin.port}",
            f"{origin.port + 65536}",
            hex(origin.port),
            "",
            "0",
            "-1",
            "443x",
            "\u0664\u0664\u0663",
        ):
            for host in ("pypi.org", "example.org"):
                answer = await ground.say(connect(grant, f"{host}:{port}"))
                assert answer.startswith(b"HTTP/1.1 4"), (host, port)
                if port != "":
                    await ground.say(get(grant, f"http://{host}:{port}/"))
        assert origin.connections == 0


async def test_an_empty_list_reaches_nothing(tmp_path: Path) -> None:
    async with proxying(tmp_path) as ground, listening(Origin()) as origin:
        grant = ground.grant()
        for host in SAME:
            assert b" 403 " in await ground.say(get(grant, f"http://{host}/"))
            assert b" 403 " in await ground.say(connect(grant, f"{host}:443"))
        assert (origin.connections, ground.names.asked) == (0, [])


async def test_every_name_does_not_mean_addresses_or_other_ports(tmp_path: Path) -> None:
    async with proxying(tmp_path) as ground, listening(Origin()) as origin:
        grant = ground.grant("*")
        for target in (
            f"127.0.0.1:{origin.port}",
            "127.0.0.1:443",
            "[::1]:80",
            f"any.example:{origin.port}",
        ):
            assert b" 403 " in await ground.say(connect(grant, target))
        assert origin.connections == 0


async def test_another_host_in_the_header_is_refused(tmp_path: Path) -> None:
    async with proxying(tmp_path) as ground, listening(Origin()) as origin:
        grant = ground.grant(f"pypi.org:{origin.port}")
        here = f"http://pypi.org:{origin.port}/"
        for said in (
            "evil.example",
            "pypi.org",
            f"evil.example:{origin.port}",
            f"pypi.org.:{origin.port}",
            "",
            "\0",
        ):
            assert b" 400 " in await ground.say(get(grant, here, said))
        twice = get(grant, here, more=b"host: evil.example\r\n")
        assert b" 400 " in await ground.say(twice)
        none = b"GET %s HTTP/1.1\r\n%s\r\n" % (here.encode(), login(grant))
        assert b" 400 " in await ground.say(none)
        assert origin.connections == 0
        assert b" 200 " in await ground.say(get(grant, here))
