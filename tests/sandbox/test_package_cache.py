"""Containers of one workspace share the package cache: what a second install takes from it, and who
has it at all."""

import asyncio
import hashlib
import io
import os
import zipfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from pathlib import Path

import pytest
import pytest_asyncio

from codeagent.app.sandbox import docker_sandbox
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import SandboxSettings, Settings
from codeagent.core.sandbox import Command, StdioProgram
from codeagent.sandbox import tasks
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.egress.internet import Internet
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.image import configured_image
from codeagent.sandbox.launch import _package_cache
from codeagent.sandbox.packages import INSIDE, VARIABLES, PackageCache, package_cache
from codeagent.sandbox.tasks import GIB, Room
from tests.sandbox.egress.proxying import Names
from tests.sandboxes import MIB, Ran, make_repository, opened, sandbox_spec

pytestmark = pytest.mark.asyncio(loop_scope="module")
NO_PIP = 77


def wheel() -> bytes:
    """The package `kept`, of half a megabyte that does not compress."""
    data, info = io.BytesIO(), "kept-1.0.dist-info"
    files = {
        "kept.py": b"answer = 42\n",
        "kept.bin": os.urandom(MIB // 2),
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: kept\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in {**files, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(name, content)
    return data.getvalue()


@dataclass
class Index:
    """A package index on loopback that answers as PyPI does."""

    wheel: bytes = field(default_factory=wheel)
    port: int = 0
    requests: Counter[str] = field(default_factory=Counter)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        self.requests[path] += 1
        name = "kept-1.0-py3-none-any.whl"
        digest = hashlib.sha256(self.wheel).hexdigest()
        page = f'<a href="/files/{name}#sha256={digest}">{name}</a>'.encode()
        kind, age, body = (
            ("application/octet-stream", "max-age=365000000, immutable, public", self.wheel)
            if path.startswith("/files/")
            else ("text/html", "max-age=600, public", page)
        )
        head = (
            f"HTTP/1.1 200 OK\r\nDate: {formatdate(usegmt=True)}\r\nContent-Type: {kind}\r\nCache-Control: {age}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    @property
    def downloads(self) -> int:
        return sum(count for path, count in self.requests.items() if path.startswith("/files/"))


@asynccontextmanager
async def serving() -> AsyncIterator[Index]:
    index = Index()
    server = await asyncio.start_server(index.serve, "127.0.0.1", 0)
    index.port = server.sockets[0].getsockname()[1]
    try:
        yield index
    finally:
        server.close()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> PackageCache:
    base = tmp_path_factory.mktemp("packages")
    return package_cache(base / "state", make_repository(base / "project"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(cache: PackageCache) -> AsyncIterator[DockerSandbox]:
    """Every name leads to this machine's loopback, which is let through."""
    internet = Internet(resolve=Names(), allowed=lambda _: True)
    state_dir = cache.workspace.parent / "state"
    async with opened(
        cache.workspace, state_dir, internet, packages=cache, package_bytes=4 * MIB
    ) as sandbox:
        yield sandbox


async def run(box: DockerSandbox, text: str, *hosts: str, read_only: bool = False) -> Ran:
    ran = Ran()
    ran.result = await box.run(Command(text, "call", read_only, hosts, apart=True), ran)
    return ran


async def install(box: DockerSandbox, index: Index, also: str) -> None:
    """Install in the container for a list of hosts; `also` makes it another list, so another
    container."""
    host = f"index.example:{index.port}"
    pip = "python3 -m pip --disable-pip-version-check install --no-deps --target $d"
    text = (
        f"python3 -m pip --version >/dev/null || exit {NO_PIP}; d=$(mktemp -d); "
        f"{pip} --index-url http://{host}/simple --trusted-host index.example kept && "
        "cmp $d/kept.py - <<< 'answer = 42'"
    )
    ran = await run(box, text, host, also)
    if ran.result.exit_code == NO_PIP:
        pytest.skip("the image has no pip")
    assert ran.result.exit_code == 0, ran


@pytest.mark.docker
async def test_a_second_install_in_a_new_container_downloads_nothing_even_if_two_install_at_once(
    box: DockerSandbox, cache: PackageCache
) -> None:
    async with serving() as index:
        await asyncio.gather(install(box, index, "one.example"), install(box, index, "two.example"))
        assert index.downloads in (1, 2)
        first = index.downloads
        await install(box, index, "three.example")
        assert index.downloads == first
    assert cache.size() > MIB // 2


@pytest.mark.docker
async def test_commands_without_network_have_it_and_what_may_change_nothing_or_is_a_server_does_not(
    box: DockerSandbox, cache: PackageCache
) -> None:
    look = f"env | grep -c {INSIDE}; ls -d {INSIDE}; true"
    there = await run(
        box, f"{look}; echo x > {INSIDE}/seen; chmod u+s {INSIDE}/seen; mknod {INSIDE}/device c 1 3"
    )
    assert there.stdout.decode().splitlines() == ["5", INSIDE]
    assert there.stderr.count(b"Operation not permitted") == 2
    assert (cache.folder / "files" / "seen").read_text() == "x\n"
    assert (await run(box, look, read_only=True)).stdout == b"0\n"
    program = await box.start_program(StdioProgram(("bash", "-c", f"{look}; echo done")))
    said = b""
    async for stream, piece in program.output():
        said += piece if stream == "stdout" else b""
        if b"done" in said:
            break
    await program.close()
    assert said == b"0\ndone\n"


@pytest.mark.docker
@pytest.mark.parametrize("hosts", [("one.example",), ()], ids=["network", "much written"])
async def test_it_is_trimmed_after_a_command_and_running_containers_keep_it(
    box: DockerSandbox, cache: PackageCache, hosts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(box, "_untrimmed", Room(cache.workspace))
    free = tasks.free_bytes(cache.workspace) - (0 if hosts else MIB)
    monkeypatch.setattr(tasks, "free_bytes", lambda folder: free)
    await run(
        box,
        f"mkdir -p {INSIDE}/pip && head -c 6M /dev/zero > {INSIDE}/pip/hog; sync {INSIDE}/pip/hog",
        *hosts,
    )
    assert box._trimming is not None
    await box._trimming
    assert cache.size() <= 4 * MIB
    assert (
        await run(box, f"echo again > {INSIDE}/again && cat {INSIDE}/again")
    ).stdout == b"again\n"


@pytest.mark.docker
async def test_a_command_that_fills_the_disk_through_it_is_stopped(
    box: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = {True: 100 * GIB, False: 100 * GIB}
    monkeypatch.setattr(tasks, "free_bytes", lambda folder: free["packages" in folder.parts])
    monkeypatch.setattr(tasks, "LOOK_SECONDS", 0.01)
    ran = Ran()
    task = asyncio.create_task(box.run(Command("echo go; sleep 600", "call"), ran))
    await ran.printed(b"go")
    free[True] = 90 * GIB
    result = await task
    assert result.stopped
    assert "10.0 GiB of disk space were used" in result.notices[-1]


@pytest.mark.docker
async def test_without_a_usable_folder_nothing_is_kept_and_a_warning_says_so(
    cache: PackageCache, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    broken = replace(cache, folder=tmp_path / "file" / "cache")
    async with opened(cache.workspace, cache.workspace.parent / "state", packages=broken) as box:
        warnings = (await box.start(lambda _: None)).warnings
        assert (
            f"what commands download to install is not kept: {broken.folder} (Not a directory)"
            in warnings
        )
        assert (await run(box, f"ls -d {INSIDE}; env | grep -c {INSIDE}")).stdout == b"0\n"


class Images(Engine):
    """An engine whose images set these variables."""

    def __init__(self, *variables: str) -> None:
        self._variables = variables

    def image(self, reference: str) -> tuple[str, ...] | None:
        return self._variables


async def test_a_place_that_the_image_sets_is_kept_because_packages_may_be_there(
    cache: PackageCache,
) -> None:
    spec = sandbox_spec(cache.workspace, cache.workspace.parent / "state", packages=cache)
    for variables, missing in (
        (("PATH=/bin",), set()),
        (
            ("CARGO_HOME=/usr/local/cargo", "npm_config_cache=/npm"),
            {"CARGO_HOME", "npm_config_cache"},
        ),
        (("GOPATH=/go",), {"GOMODCACHE"}),
    ):
        mounted = _package_cache(spec, os.getuid(), configured_image(Images(*variables), "theirs"))
        assert VARIABLES.keys() - dict(mounted.variables).keys() == missing
        assert len(mounted.binds) == 1


async def test_the_settings_say_how_large_it_may_be_and_a_copy_of_the_workspace_shares_it(
    tmp_path: Path,
) -> None:
    root, copy = tmp_path / "project", tmp_path / "copy"
    root.mkdir()
    copy.mkdir()
    local, settings = (
        LocalEnvironment(root, tmp_path / "state", {}),
        Settings(sandbox=SandboxSettings(package_bytes=MIB)),
    )
    spec = docker_sandbox(settings, local, root, "s").spec
    assert (spec.packages, spec.limits.package_bytes) == (
        package_cache(tmp_path / "state", root),
        MIB,
    )
    moved = replace(local, workspace=copy, copy_of=root)
    assert docker_sandbox(settings, moved, copy, "s").spec.packages == spec.packages
    assert (
        docker_sandbox(settings, replace(local, workspace=copy), copy, "s").spec.packages
        != spec.packages
    )
    none = Settings(sandbox=SandboxSettings(package_bytes=0))
    assert docker_sandbox(none, local, root, "s").spec.packages is None
