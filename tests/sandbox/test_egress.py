"""Commands that may reach hosts: what they reach, and what nobody else does."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from codeagent.core.errors import SandboxUnavailable
from codeagent.core.sandbox import Command
from codeagent.net.addresses import is_public
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.egress.internet import Internet
from tests.sandbox.egress.proxying import Names, Origin, listening
from tests.sandboxes import Ran, make_repository, opened

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("way-out") / "project")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(project: Path) -> AsyncIterator[DockerSandbox]:
    """One whose every name leads to this machine's loopback, which is let through."""
    internet = Internet(resolve=Names(), allowed=lambda _: True)
    async with opened(project, project.parent / "state", internet) as sandbox:
        yield sandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[Origin]:
    async with listening(Origin()) as server:
        yield server


@pytest.fixture
def origin(server: Origin) -> Origin:
    """One server for all tests, so that a container that may reach it serves them all, too."""
    server.connections = 0
    return server


@pytest.fixture
def allowed(origin: Origin) -> str:
    return f"origin.example:{origin.port}"


async def run(sandbox: DockerSandbox, text: str, *hosts: str, read_only: bool = False) -> Ran:
    ran = Ran()
    ran.result = await sandbox.run(Command(text, "call", read_only, hosts, apart=True), ran)
    return ran


def fetch(url: str) -> str:
    """With what every image with Python has; prints the answer or what went wrong."""
    get = f"print(u.urlopen('{url}', timeout=20).read().decode())"
    return f'python3 -c "import urllib.request as u\ntry: {get}\nexcept Exception as e: print(e)"'


async def test_a_command_reaches_the_hosts_it_names_and_no_other_and_the_result_says_so(
    box: DockerSandbox, origin: Origin, allowed: str
) -> None:
    ran = await run(
        box,
        fetch(f"http://{allowed}/a") + ";" + fetch(f"http://evil.example:{origin.port}/"),
        allowed,
    )
    assert ran.stdout.startswith(b"ok\n") and b"403" in ran.stdout
    assert ran.result.notices == (
        f"network: 1 request to {allowed} allowed; "
        f"1 request to evil.example:{origin.port} refused (not among the hosts of this command)",
    )
    assert origin.connections == 1


class Asked:
    """Somebody who is asked about each host, and answers once the test says so (a Reach)."""

    def __init__(self) -> None:
        self.wanted = asyncio.Event()
        self.answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.is_off = False
        self.is_open = False
        self.noted: list[tuple[str, str | None]] = []

    async def admit(self, name: str, port: int, *, named: bool) -> str | None:
        self.wanted.set()
        why = await self.answer
        self.is_off = bool(self.noted)  # turned off while the second one waited
        return why

    def note(self, host: str, refused: str | None) -> None:
        self.noted.append((host, refused))


async def test_a_connection_waits_for_an_answer_and_nothing_passes_once_the_network_is_off(
    box: DockerSandbox, origin: Origin, allowed: str
) -> None:
    asked, ran = Asked(), Ran()
    text = ";".join(fetch(f"http://{allowed}/{path}") for path in ("held", "late"))
    task = asyncio.create_task(box.run(Command(text, "call", hosts=(allowed,), reach=asked), ran))
    await asked.wanted.wait()
    assert (origin.connections, ran.stdout) == (0, b"")
    asked.answer.set_result(None)
    result = await task
    assert ran.stdout.startswith(b"ok\n")
    assert b"GET /held" in origin.received and b"GET /late" not in origin.received
    assert "refused (the network was turned off)" in result.notices[0]
    assert asked.noted == [(allowed, None), (allowed, "the network was turned off")]


async def test_it_has_no_network_besides(box: DockerSandbox, origin: Origin, allowed: str) -> None:
    text = (
        "grep -c : /proc/net/dev; "
        f"(echo > /dev/tcp/127.0.0.1/{origin.port}) 2>/dev/null && echo BREACH; "
        f"(echo > /dev/tcp/origin.example/{origin.port}) 2>/dev/null && echo BREACH; "
        "getent hosts origin.example && echo BREACH; env -u http_proxy -u HTTP_PROXY "
    )
    ran = await run(box, text + fetch(f"http://origin.example:{origin.port}/"), allowed)
    assert ran.stdout.startswith(b"1\n") and b"BREACH" not in ran.stdout
    assert origin.connections == 0


async def test_no_other_command_sees_the_way_out_or_can_take_it(
    box: DockerSandbox, origin: Origin, allowed: str
) -> None:
    ran = Ran()
    task = asyncio.create_task(
        box.run(Command("env | grep -i _proxy; echo ready; sleep 100", "a", hosts=(allowed,)), ran)
    )
    await ran.printed(b"ready")
    address = next(
        line for line in ran.stdout.decode().splitlines() if line.startswith("http_proxy=")
    )
    look = (
        "env | grep -i proxy && echo BREACH; ls /run/codeagent 2>/dev/null && echo BREACH; "
        "cat /proc/[0-9]*/environ 2>/dev/null | grep -az -i proxy && echo BREACH; "
        "find / -path /proc -prune -o -type s -print 2>/dev/null | grep . && echo BREACH; "
        f"{address} {fetch(f'http://{allowed}/')}"
    )
    for read_only in (False, True):
        assert b"BREACH" not in (await run(box, look, read_only=read_only)).stdout
    task.cancel()
    assert (await task).stopped
    later = await run(box, f"{address} {fetch(f'http://{allowed}/')}", allowed)
    assert b"407" in later.stdout, "the credential ended with its command"
    assert origin.connections == 0


async def test_commands_with_other_hosts_are_in_another_container(
    box: DockerSandbox, allowed: str
) -> None:
    ran = Ran()
    task = asyncio.create_task(
        box.run(Command("echo $http_proxy; echo ready; sleep 100", "a", hosts=(allowed,)), ran)
    )
    await ran.printed(b"ready")
    credential = ran.stdout.split()[0].decode()
    look = f"cat /proc/[0-9]*/environ | grep -azcF {credential}; ps -e | grep -c sleep"
    assert (await run(box, look, allowed)).stdout.split()[1] == b"1", "the positive control"
    other = await run(box, look, "other.example")
    assert other.stdout.split() == [b"0", b"0"]
    task.cancel()
    await task


@pytest.mark.parametrize("first", [False, True])
async def test_a_command_that_nobody_was_asked_about_shares_its_container_with_no_other(
    box: DockerSandbox, origin: Origin, allowed: str, first: bool
) -> None:
    running, alone = Ran(), Ran()
    text = "echo $http_proxy; echo ready; sleep 100"
    task = asyncio.create_task(box.run(Command(text, "a", hosts=(allowed,), alone=first), running))
    await running.printed(b"ready")
    credential = running.stdout.split()[0].decode()
    look = f"cat /proc/[0-9]*/environ | grep -azcF {credential}; ps -e | grep -c sleep; "
    text = look + fetch(f"http://{allowed}/")
    await box.run(Command(text, "b", hosts=(allowed,), alone=True, apart=True), alone)
    assert alone.stdout.split()[:2] == [b"0", b"0"]
    assert origin.connections == 1, "the allow test: it has a way out of its own"
    task.cancel()
    await task


async def test_it_works_on_the_same_workspace_which_may_be_read_only(
    box: DockerSandbox, project: Path, allowed: str
) -> None:
    await run(box, "echo made > made", allowed)
    assert (project / "made").read_text() == "made\n"
    ran = await run(box, "cat made; echo x > other", allowed, read_only=True)
    assert ran.stdout == b"made\n"
    assert not (project / "other").exists()


async def test_its_environment_holds_nothing_of_this_machine_but_the_way_to_the_proxy(
    box: DockerSandbox, monkeypatch: pytest.MonkeyPatch, allowed: str
) -> None:
    monkeypatch.setenv("https_proxy", "http://CANARY@proxy.example")
    monkeypatch.setenv("CANARY_KEY", "CANARY")
    plain, networked = (
        await run(box, "env -0 | sort -z"),
        await run(box, "env -0 | sort -z", allowed),
    )
    assert b"CANARY" not in networked.stdout

    def names(ran: Ran) -> set[str]:
        return {entry.partition("=")[0] for entry in ran.stdout.decode().split("\0") if entry}

    upper = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
    assert names(networked) - names(plain) == upper | {name.lower() for name in upper}


async def test_what_it_leaves_running_is_stopped_and_the_result_says_so(
    box: DockerSandbox, allowed: str
) -> None:
    ran = await run(box, "sleep 300 & setsid sleep 300 & sleep 0.1", allowed)
    assert ran.result.left_running == 0
    assert "what the command left running was stopped" in ran.result.notices[-1]
    assert (await run(box, "ps -e | grep -c sleep", allowed)).stdout == b"0\n"


async def test_no_command_can_end_the_way_out_or_take_its_place(
    box: DockerSandbox, allowed: str
) -> None:
    text = f"kill -9 -1; pkill -9 -u keeper; rm -f /run/codeagent/*; {fetch(f'http://{allowed}/')}"
    await run(box, "bash -c 'kill -9 -1'", allowed)
    ran = await run(box, text.removeprefix("kill -9 -1; "), allowed)
    assert b"ok" in ran.stdout


async def test_a_port_of_the_command_is_shown_and_the_way_out_is_not(
    box: DockerSandbox, allowed: str
) -> None:
    ran = Ran()
    code = (
        "s = socket.create_server(('127.0.0.1', 8125)); print('ready', flush=True); time.sleep(99)"
    )
    text = f'python3 -c "import socket, time; {code}"'
    task = asyncio.create_task(box.run(Command(text, "call", hosts=(allowed,)), ran))
    await ran.printed(b"ready")
    assert await box.listening() == {8125}
    task.cancel()
    await task


async def test_it_is_still_while_the_sandbox_is_frozen(
    box: DockerSandbox, project: Path, allowed: str
) -> None:
    ran = Ran()
    text = "date +%N > tick; echo ready; while :; do date +%N > tick; sleep 0.01; done"
    task = asyncio.create_task(box.run(Command(text, "call", hosts=(allowed,)), ran))
    await ran.printed(b"ready")
    async with box.frozen():
        before = (project / "tick").read_bytes()
        await asyncio.sleep(0.2)
        assert (project / "tick").read_bytes() == before
    task.cancel()
    assert (await task).stopped


async def test_a_list_that_cannot_be_read_runs_nothing(box: DockerSandbox, project: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="nothing was run: 'http://x' is not a host"):
        await run(box, "touch ran", "one.example", "http://x")
    assert not (project / "ran").exists()


async def test_this_machine_and_what_is_near_it_are_not_reached_whatever_a_name_says(
    workspace_dir: Path, tmp_path: Path, origin: Origin
) -> None:
    async with opened(
        workspace_dir, tmp_path / "state", Internet(resolve=Names(), allowed=is_public)
    ) as sandbox:
        here = f"origin.example:{origin.port}"
        ran = await run(sandbox, fetch(f"http://{here}/"), here)
        assert b"403" in ran.stdout
        assert "not public" in ran.result.notices[0]
    assert origin.connections == 0


async def test_nothing_listens_on_this_machine_but_a_socket_that_is_gone_afterwards(
    workspace_dir: Path, tmp_path: Path
) -> None:
    def ports() -> set[str]:
        tables = (
            Path(f"/proc/self/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")
        )
        links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))  # noqa: PTH208  # iterdir holds one open
        ours = {str(link.readlink()) for link in links if link.is_symlink()}
        rows = [line.split() for table in tables for line in table]
        return {row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in ours}

    before = ports()
    async with opened(workspace_dir, tmp_path / "state", Internet()) as sandbox:
        await run(sandbox, "true", "one.example")
        assert ports() == before
        assert list((tmp_path / "state" / "sandbox").glob("egress-*"))
    assert not list((tmp_path / "state" / "sandbox").glob("egress-*"))
