"""Without network, building the image of a repository reaches nothing, whatever its Dockerfile
says.

A server on loopback takes the place of every registry and every address. The engine is also given
the text itself, as a control: a shape that reaches nothing then would prove nothing.
"""

import io
import os
import socketserver
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.errors import ConfigError, EngineError, SandboxUnavailable
from codeagent.extensions.images.build import build
from codeagent.extensions.images.repository_image import RepositoryImage, read_repository_image
from codeagent.sandbox.described_image import BuildLimits
from codeagent.sandbox.engine import IMAGES, BuildOptions, Engine, local_engine
from tests.effort import part
from tests.images import small_image
from tests.security.dockerfile_shapes import FETCH, NONE
from tests.table import for_each

pytestmark = pytest.mark.docker

QUIET = BuildLimits(network=False, memory_bytes=0)
CONTROLLED = frozenset(part(FETCH, 20))


class Server(socketserver.ThreadingTCPServer):
    """Counts the connections, and answers each with one byte."""

    daemon_threads = True

    def __init__(self) -> None:
        self.reached = 0
        super().__init__(("127.0.0.1", 0), Answer)

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Answer(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Server)
        self.server.reached += 1
        with suppress(OSError):
            self.rfile.readline()
            self.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with small_image() as tag:
        yield tag


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with local_engine(os.environ.get("DOCKER_HOST")) as found:
        yield found


def filled_in(shape: str, base: str, server: Server) -> str:
    host = server.place
    text = (
        shape.replace("BASE", base)
        .replace("URL", f"http://{host}/x")
        .replace("TCP", host.replace(":", "/"))
    )
    return text.replace("HOST", host).replace("FILE", "file")


def described(text: str, server: Server, folder: Path) -> RepositoryImage | None:
    arguments = f'"GIVEN": "http://{server.place}/x", "IMAGE": "{server.place}/x"'
    (folder / ".devcontainer.json").write_text(
        f'{{"build": {{"dockerfile": "D", "args": {{{arguments}}}}}}}'
    )
    (folder / "D").write_bytes(text.encode())
    (folder / "file").write_text("x")
    with suppress(ConfigError):
        return read_repository_image(folder)
    return None


def only(text: str) -> bytes:
    """A context with a Dockerfile, which is called D, and a file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in (("D", text.encode()), ("file", b"x")):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def built_raw(engine: Engine, text: str, server: Server) -> None:
    """Give the engine the text itself, as it was before."""
    arguments = {"GIVEN": f"http://{server.place}/x", "IMAGE": f"{server.place}/x"}
    with suppress(EngineError):
        options = BuildOptions(f"{IMAGES}:repository-raw-{os.getpid()}", arguments=arguments)
        engine.build(io.BytesIO(only(text)), "D", options, lambda line: None)


@pytest.mark.timeout(600)
@pytest.mark.soak(tried=len(FETCH) + len(NONE), row="image builds")
@for_each(
    "shape, fetches", [*((shape, True) for shape in FETCH), *((shape, False) for shape in NONE)]
)
def test_a_build_without_network_reaches_nothing_however_its_dockerfile_is_spelled(
    tmp_path_factory: pytest.TempPathFactory,
    engine: Engine,
    server: Server,
    base: str,
    shape: str,
    fetches: bool,
) -> None:
    text = filled_in(shape, base, server)
    server.reached = 0
    image = described(text, server, tmp_path_factory.mktemp("repository"))
    if image is not None:
        with suppress(SandboxUnavailable):
            build(engine, image, QUIET, lambda line: None)
    assert server.reached == 0, "the build reached the server"
    if fetches and shape in CONTROLLED:
        built_raw(engine, text, server)
        assert server.reached > 0, "the control did not: this shape proves nothing"


def test_the_base_is_named_so_that_an_engine_that_has_lost_it_cannot_pull_it(
    engine: Engine, server: Server, base: str, tmp_path: Path
) -> None:
    name, ours = f"{server.place}/lost", f"{IMAGES}:tests-lost-{os.getpid()}"
    engine.build(
        io.BytesIO(only(f"FROM {base}\nENV LOST=1\n")), "D", BuildOptions(ours), lambda line: None
    )
    engine.call("POST", f"/images/{ours}/tag", {"repo": name})
    image = described(f"FROM {name}\nENV A=1\n", server, tmp_path)
    assert image is not None
    lost: list[str] = []

    class Losing(Engine):
        def build(self, *arguments: Any, **options: Any) -> None:
            for tag in (ours, name):
                engine.remove_image(tag)
                lost.append(tag)
            super().build(*arguments, **options)

    server.reached = 0
    with closing(Losing(engine.socket_path)) as losing, pytest.raises(SandboxUnavailable):
        build(losing, image, QUIET, lambda line: None)
    assert lost and server.reached == 0
