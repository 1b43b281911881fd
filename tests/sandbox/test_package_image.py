"""An image with the packages of a lock file, fetched from an index on loopback and used without a
network."""

import functools
import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

import pytest

from codeagent.core.errors import SandboxUnavailable
from codeagent.sandbox.egress.internet import NOT_PUBLIC, Internet, any_address
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import engine_socket
from codeagent.sandbox.image import ImageChoice, base_image, choose_image, package_tag, package_tags
from codeagent.sandbox.lock_files import Lock, read_locks
from codeagent.sandbox.package_image import PackageBuild, remedy_for
from codeagent.sandbox.spec import SandboxSpec
from tests.sandbox.egress.proxying import Names
from tests.sandboxes import opened, run, sandbox_spec

pytestmark = pytest.mark.docker
WHEEL = "greeting-1-py3-none-any.whl"


@functools.cache
def wheel() -> bytes:
    """A package with a module and two programs, one of which has the name of another program."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("greeting.py", "def main():\n    print('hello from the lock')\n")
        made.writestr(
            "greeting-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1\n"
        )
        made.writestr(
            "greeting-1.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        programs = "[console_scripts]\npytest = greeting:main\nls = greeting:main\n"
        made.writestr("greeting-1.dist-info/entry_points.txt", programs)
        made.writestr("greeting-1.dist-info/RECORD", "")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an index with that package."""
    folder = tmp_path_factory.mktemp("index")
    (folder / "simple/greeting").mkdir(parents=True)
    (folder / "simple/greeting" / WHEEL).write_bytes(wheel())
    (folder / "simple/greeting/index.html").write_text(f'<a href="{WHEEL}">{WHEEL}</a>')

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://index.example:{server.server_port}/simple"
        server.shutdown()


@pytest.fixture
def engine() -> Iterator[Engine]:
    with closing(Engine(engine_socket(None))) as engine:
        yield engine


def lock(workspace: Path, index: str, digest: str = "") -> None:
    digest = digest or hashlib.sha256(wheel()).hexdigest()
    (workspace / "requirements.txt").write_text(f"-i {index}\ngreeting==1 --hash=sha256:{digest}\n")


async def built(engine: Engine, spec: SandboxSpec, base: ImageChoice) -> str:
    build = PackageBuild(spec, base, read_locks(spec.root), lambda text: None)
    return await build.run(engine, lambda lock: Internet(resolve=Names(), allowed=any_address))


async def test_what_is_locked_works_without_a_network_until_the_lock_changes(
    engine: Engine, index: str, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / ".env").write_text("SECRET")
    lock(work, index)
    spec = sandbox_spec(work, tmp_path / "state")
    base = base_image(engine, spec, lambda text: None)
    earlier = package_tag(engine, spec, base)[:-1] + "x"
    engine.tag(base.reference, earlier)
    try:
        tag = await built(engine, spec, base)
        assert package_tags(engine, spec) == (tag,), "the earlier one is gone"
        async with opened(work, tmp_path / "state") as sandbox:
            info = await sandbox.start(lambda text: None)
            ran = await run(
                sandbox, "pytest; ls -d /tmp; python -c 'import greeting'; echo $VIRTUAL_ENV"
            )
        assert ran.stdout == b"hello from the lock\n/tmp\n/opt/codeagent/python\n", ran.stderr
        assert info.network == "none" and info.image_origin.endswith(
            ", with the packages of its lock files"
        )
        lock(work, index, "0" * 64)
        changed = choose_image(engine, spec, lambda text: None)
        assert (
            "sandbox build --packages installs them again" in changed.note
            and changed.reference == base.reference
        )
        with pytest.raises(
            SandboxUnavailable,
            match=r"requirements\.txt cannot be installed.*network: 2 requests to",
        ):
            await built(engine, spec, base)
        assert package_tags(engine, spec) == (tag,)
    finally:
        for made in package_tags(engine, spec):
            engine.remove_image(made)
    assert list((tmp_path / "state/sandbox").glob("packages-*")) == []


@pytest.mark.parametrize(("kind", "option"), [("python", "--index"), ("node", "--registry")])
def test_packages_from_a_private_address_fail_with_the_option_and_the_setting_that_help(
    kind: Literal["python", "node"], option: str
) -> None:
    lock = Lock("a lock", kind, "", 1, (), ())
    said = remedy_for(lock, (f"network: 1 request to pypi.org refused ({NOT_PUBLIC})",))
    assert option in said and "private_hosts under [network]" in said
    assert "private_hosts" not in remedy_for(lock, ("network: 1 request to pypi.org allowed",))
