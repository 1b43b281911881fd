"""An engine that cannot be used: one line that says why, and one that says what to do."""

import asyncio
import io
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from docker.api.image import ImageApiMixin

from codeagent.core.errors import EngineError, SandboxUnavailable
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.engine import (
    BuildOptions,
    Engine,
    EngineVersions,
    is_stray,
    labels,
    owner,
    runtime_warning,
)
from codeagent.sandbox.engine_socket import engine_socket, probe_socket, unanswered
from codeagent.sandbox.exec_stream import ExecStream
from codeagent.sandbox.self_test import SelfTest, judge, remedy_of
from codeagent.sandbox.work_user import WorkUser
from tests.sandboxes import sandbox_spec
from tests.table import for_each


def complaint(path: Path) -> SandboxUnavailable:
    with pytest.raises(SandboxUnavailable) as caught:
        probe_socket(str(path))
    return caught.value


def test_no_socket_means_install_or_start_one(tmp_path: Path) -> None:
    problem = complaint(tmp_path / "none")
    assert "no socket" in str(problem)
    assert "install" in problem.remedy


def test_a_socket_nobody_listens_on_means_start_it(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead"))
    problem = complaint(tmp_path / "dead")
    assert "not running" in str(problem)
    assert "start" in problem.remedy


def test_no_permission_means_join_the_group() -> None:
    problem = unanswered("/s", PermissionError(13, "Permission denied"))
    assert "may not use" in str(problem)
    assert "usermod -aG docker" in problem.remedy


def test_the_reason_is_found_below_what_a_library_wraps_around_it() -> None:
    outer = RuntimeError("Error while fetching server API version")
    outer.__context__ = ConnectionError("aborted", FileNotFoundError(2, "No such file"))
    assert "no socket" in str(unanswered("/s", outer))


def test_something_else_on_the_socket_is_said(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "other"))
        other.listen()
        other.settimeout(0)
        with pytest.raises(SandboxUnavailable, match="does not answer"):
            raise unanswered(str(tmp_path / "other"), TimeoutError("timed out"))


@pytest.mark.parametrize("host", ["tcp://10.0.0.1:2375", "ssh://me@there"])
async def test_a_remote_engine_is_refused(host: str, tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="another machine") as caught:
        await DockerSandbox(sandbox_spec(tmp_path, tmp_path / "state", docker_host=host)).start(
            lambda _: None
        )
    assert "unset DOCKER_HOST" in caught.value.remedy


@pytest.mark.docker
def test_a_missing_image_is_none() -> None:
    engine = Engine(engine_socket(os.environ.get("DOCKER_HOST")))
    assert engine.image("codeagent-no-such-image:1") is None
    engine.close()


@pytest.mark.docker
async def test_a_configured_image_that_is_missing_is_not_pulled(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    spec = sandbox_spec(tmp_path / "w", tmp_path / "state", reference="codeagent-no-such-image:1")
    for begin in (DockerSandbox(spec).check(), DockerSandbox(spec).start(lambda _: None)):
        with pytest.raises(SandboxUnavailable, match="not on this machine") as caught:
            await begin
        assert "docker pull" in caught.value.remedy


@pytest.mark.docker
async def test_a_configured_image_that_cannot_be_a_name_is_refused_before_anything_starts(
    tmp_path: Path,
) -> None:
    (tmp_path / "w").mkdir()
    spec = sandbox_spec(tmp_path / "w", tmp_path / "state", reference="Not A Name")
    with pytest.raises(SandboxUnavailable, match="Not A Name"):
        await DockerSandbox(spec).check()


def test_only_a_container_of_a_dead_process_is_a_stray() -> None:
    mine = labels("s", "i", "/w")["codeagent.owner"]
    assert mine == owner(os.getpid())
    assert not is_stray(mine)
    head, _, start = mine.rpartition("/")
    assert is_stray(f"{head}/{int(start) - 1}"), "the same pid, another process"
    assert is_stray(f"another-boot/{mine.partition('/')[2]}")
    assert not is_stray("boot/pid:[1]/1/1"), "another pid namespace"
    assert not is_stray("")


def test_an_old_runtime_is_warned_about_and_a_fixed_one_is_not() -> None:
    for version, old in {
        "1.1.5+ds1": True,
        "1.2.7": True,
        "1.2.8": False,
        "1.3.2": True,
        "1.3.3": False,
        "1.4.0": False,
    }.items():
        assert (runtime_warning(version) is not None) is old, version
    assert "unknown" in (runtime_warning(None) or "")


OWNER = WorkUser(1000, 1000)
GOOD = {
    "interface": ["lo"],
    "writable": [],
    "uid": ["1000"],
    "CapEff": ["0" * 16],
    "CapBnd": ["0" * 16],
    "NoNewPrivs": ["1"],
    "Seccomp": ["2"],
    "tool": ["git", "python3", "rg", "make"],
    "numbered": ["yes"],
}


@for_each(
    ("key", "value"),
    [
        ("interface", ["lo", "eth0"]),
        ("writable", [".git"]),
        ("uid", ["0"]),
        ("CapEff", ["00000000a80425fb"]),
        ("CapBnd", ["0000000000000001"]),
        ("NoNewPrivs", ["0"]),
        ("Seccomp", ["0"]),
        ("Seccomp", []),
        ("numbered", []),
    ],
)
def test_the_self_test_fails_for_each_thing_that_does_not_hold(key: str, value: list[str]) -> None:
    assert judge(GOOD, True, True, OWNER).failed == ()
    assert judge(GOOD | {key: value}, True, True, OWNER).failed != ()


def test_the_self_test_fails_for_another_workspace() -> None:
    assert judge(GOOD, False, True, OWNER).failed == ("the workspace inside is this workspace",)
    assert judge(GOOD, True, False, OWNER).failed == (
        "files written inside are seen outside, with the workspace's owner",
    )
    assert judge(GOOD, True, None, OWNER).failed == ()


async def test_forty_requests_at_once_are_all_answered_and_print_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning of a library would come up on the screen, or among what a run prints."""
    everybody = asyncio.Barrier(40)
    body = b'{"ApiVersion": "1.44"}'

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                if not head.startswith(b"GET /version "):
                    await everybody.wait()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    server = await asyncio.start_unix_server(answer, tmp_path / "engine")
    engine = Engine(str(tmp_path / "engine"))
    answers = await asyncio.gather(*(engine.ask("GET", "/version") for _ in range(40)))
    assert answers == [{"ApiVersion": "1.44"}] * 40
    assert [
        record.getMessage() for record in caplog.records if record.name.startswith("urllib3")
    ] == []
    engine.close()
    server.close()


async def test_a_refusal_to_start_is_told_in_the_engines_own_words(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"message":"Container abc is paused, unpause it first"}\n'
        writer.write(b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()

    server = await asyncio.start_unix_server(answer, tmp_path / "engine")
    with pytest.raises(EngineError) as caught:
        await ExecStream.open(Engine(str(tmp_path / "engine")), "abc", tty=False)
    assert (str(caught.value), caught.value.status) == (
        "Container abc is paused, unpause it first",
        409,
    )
    server.close()


PODMAN = {
    "Version": "4.3.1",
    "ApiVersion": "1.41",
    "Components": [
        {"Name": "Podman Engine", "Version": "4.3.1"},
        {"Name": "OCI Runtime (runc)", "Version": "runc version 1.1.5+ds1\ncommit: 1.1.5"},
    ],
}


@pytest.mark.parametrize(
    ("header", "podman"),
    [("Libpod-Api-Version: 4.3.1", True), ("Docker-Experimental: false", False)],
)
def test_podman_is_known_by_its_answer(tmp_path: Path, header: str, podman: bool) -> None:
    path = str(tmp_path / "engine.sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(100)
                connection.sendall(
                    f"HTTP/1.0 200 OK\r\nApi-Version: 1.41\r\n{header}\r\n\r\nOK".encode()
                )

        thread = threading.Thread(target=answer)
        thread.start()
        assert probe_socket(path) is podman
        thread.join()


def test_podman_and_its_runc_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "call", lambda self, *request: PODMAN)
    assert Engine("/s").versions() == EngineVersions("Podman", "4.3.1", "1.41", "1.1.5+ds1")


@pytest.mark.parametrize(
    ("failed", "remedy"),
    [
        (
            ("the workspace inside is this workspace", "NoNewPrivs is 1", "Seccomp is 2"),
            "make runc the default-runtime",
        ),
        (
            ("files written inside are seen outside, with the workspace's owner",),
            "use Podman without root",
        ),
        (("Seccomp is 2",), "codeagent sandbox test shows all of it"),
    ],
)
def test_a_failed_self_test_says_what_to_do_about_the_engine(
    failed: tuple[str, ...], remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeagent.sandbox.self_test.is_rootless", lambda path: True)
    assert remedy in remedy_of(SelfTest((), failed), Engine("/s"))


@for_each("name, mode", [("Docker", "none"), ("Podman", "NetworkDisabled")])
def test_a_build_without_network_says_so_in_the_words_of_the_engine(name: str, mode: str) -> None:
    """Podman builds in the network of the host if it is asked for `none`."""
    asked: list[Any] = []

    class Builds:
        def build(self, **options: Any) -> list[Any]:
            asked.append(options["network_mode"])
            return []

    class Fake(Engine):
        def versions(self) -> EngineVersions:
            return EngineVersions(name, "1", "1", None)

        def call_library(self, request: Callable[[Any], Any]) -> Any:
            return request(Builds())

    for network in (False, True):
        Fake("/nowhere").build(
            io.BytesIO(), "D", BuildOptions("a:b", network=network), lambda line: None
        )
    assert asked == [mode, None]


@pytest.mark.parametrize("as_file", [True, False])
def test_an_import_may_take_as_long_as_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_file: bool
) -> None:
    class Posting(ImageApiMixin):
        def _url(self, path: str) -> str:
            return path

        def _post(self, url: str, **options: Any) -> None:
            posted.append(options)

        def _result(self, response: None) -> str:
            return ""

    posted: list[dict[str, Any]] = []
    (tmp_path / "root.tar").write_bytes(b"tar")
    monkeypatch.setattr(Engine, "call_library", lambda self, request: request(Posting()))
    monkeypatch.setattr(Engine, "image", lambda self, reference: "sha256:1")
    Engine("/s").import_image(str(tmp_path / "root.tar") if as_file else b"tar", "a:b", [])
    assert [(one["params"]["fromSrc"], one["timeout"]) for one in posted] == [("-", None)]
