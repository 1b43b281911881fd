"""Without a network nothing of a command reaches this machine or another one, by whatever kind
of socket."""

import socket
from collections.abc import Callable

import pytest

from codeagent.sandbox.docker_sandbox import DockerSandbox
from tests.effort import part
from tests.sandboxes import batch, parts, run
from tests.security.escape_probes import connect, py

HOSTS = (
    "172.17.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "1.1.1.1",
    "8.8.8.8",
    "192.168.0.1",
    "10.0.0.1",
    "100.64.0.1",
)
WAYS = {
    **{f"TCP to {host}": connect(host, "HOSTPORT") for host in ("127.0.0.1", *HOSTS[:3])},
    "TCP to this machine over IPv6": connect("::1", "HOSTPORT", "AF_INET6"),
    "TCP to a mapped address": connect("::ffff:172.17.0.1", "HOSTPORT", "AF_INET6"),
    **{f"DNS over UDP to {host}": connect(host, "53", kind="SOCK_DGRAM") for host in HOSTS},
    **{f"DNS over TCP to {host}": connect(host, "53") for host in HOSTS[3:5]},
    **{f"HTTPS to {host}": connect(host, "443") for host in HOSTS[3:5]},
    **{f"QUIC to {host}": connect(host, "443", kind="SOCK_DGRAM") for host in HOSTS[3:5]},
    "the engine's name server": connect("127.0.0.11", "53"),
    "IPv6 of the internet": connect("2606:4700:4700::1111", "443", "AF_INET6"),
    "a neighbour on the link": connect("fe80::1", "HOSTPORT", "AF_INET6"),
    "everybody on the link": connect("ff02::1", "53", "AF_INET6", "SOCK_DGRAM"),
    "SCTP": py(
        "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132).connect(('1.1.1.1', 80)); print('BREACH')"
    ),
    "a ping": py(
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1)\n"
        "s.sendto(b'\\x08\\0\\0\\0' * 2, ('1.1.1.1', 0)); print('BREACH')"
    ),
    "a broadcast": py(
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(1, 6, 1); "
        "s.sendto(b'x', ('255.255.255.255', 67)); print('BREACH')"
    ),
    "a raw packet": py("socket.socket(socket.AF_INET, socket.SOCK_RAW, 255); print('BREACH')"),
    "a frame": py("socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 768); print('BREACH')"),
    "the hypervisor": py("socket.socket(40, socket.SOCK_STREAM); print('BREACH')"),
    "bluetooth": py("socket.socket(31, socket.SOCK_RAW, 1).bind((0,)); print('BREACH')"),
    "an abstract socket": py(
        "socket.socket(socket.AF_UNIX).connect('\\0codeagent-direct-HOSTPORT'); print('BREACH')"
    ),
    "any abstract socket": "grep -q '@' /proc/net/unix && echo BREACH",
    "bash over TCP": "(exec 9<> /dev/tcp/172.17.0.1/HOSTPORT) 2> /dev/null && echo BREACH",
    "bash over UDP": "(echo x > /dev/udp/1.1.1.1/53) 2> /dev/null && echo BREACH",
    "a name": "getent hosts example.org > /dev/null 2>&1 && echo BREACH",
    "the name of this machine": "getent hosts host.docker.internal > /dev/null 2>&1 && echo BREACH",
    "curl": "curl -sm 2 http://172.17.0.1:HOSTPORT/ > /dev/null 2>&1 && echo BREACH",
    "git": "timeout 5 git ls-remote http://172.17.0.1:HOSTPORT/x > /dev/null 2>&1 && echo BREACH",
    "an address is added": "ip addr add 172.17.0.99/16 dev lo 2> /dev/null && echo BREACH",
    "an interface is made": "ip link add d type dummy 2> /dev/null && echo BREACH",
    "a tunnel is made": py("f = os.open('/dev/net/tun', os.O_RDWR); print('BREACH')"),
    "a route is made": "ip route add default dev lo 2> /dev/null && echo BREACH",
}


@pytest.mark.docker
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.soak(row="egress")
async def test_nothing_is_reached_directly(
    module_sandbox: DockerSandbox, tried: Callable[[int], None]
) -> None:
    with (
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        port = server.getsockname()[1]
        abstract.bind(f"\0codeagent-direct-{port}")
        abstract.listen()
        server.setblocking(False)
        with socket.create_connection(("127.0.0.1", port)):
            server.accept()[0].close()  # the control: there is somebody who would hear it
        ways = {name: WAYS[name].replace("HOSTPORT", str(port)) for name in part([*WAYS], 10)}
        ran = await run(module_sandbox, batch(ways))
        assert {
            name for name, done in parts(ran, ways).items() if b"BREACH" in done.stdout
        } == set()
        with pytest.raises(BlockingIOError):
            server.accept()
    tried(len(ways))
    assert len(WAYS) >= 40
