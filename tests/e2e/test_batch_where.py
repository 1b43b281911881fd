"""Batches that root does not run on the machine itself: as an ordinary user, and in a container."""

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.product import Product, running
from tests.e2e.test_batch import Batch
from tests.effort import part, up_to
from tests.images import small_image
from tests.needs import give_up
from tests.warm import ROOT

SOMEBODY = 65534
TASKS = up_to(1, 6)
SOCKET = Path("/var/run/docker.sock")
PYTHON = (sys.base_prefix, sys.prefix, str(ROOT))
"""The folders that a `codeagent` of this Python needs."""


@pytest.fixture
def batch() -> Iterator[Batch]:
    """A batch in a folder that everybody may enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        product = Product(Path(folder, "work"), Path(folder, "home"))
        product.workspace.mkdir()
        product.home.mkdir()
        made = Batch(product)
        tasks = (made.task(number, check="grep -q more a.txt") for number in range(TASKS))
        made.write(*tasks)
        yield made


def run(batch: Batch, before: Sequence[str], sandbox: str) -> None:
    """Run the batch with a command line that begins like this."""
    words = [sys.executable, "-P", "-m", "codeagent", *batch.words, "--sandbox", sandbox]
    done = subprocess.run(
        [*before, *words],
        cwd=batch.product.workspace,
        env=batch.product.environment | {"HOME": str(batch.product.home)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [record["state"] for record in batch.records] == ["passed"] * TASKS
    assert all("+more" in batch.patch(record) for record in batch.records)
    assert not [*batch.results.glob("*/copy"), *(batch.results / "begun").iterdir()]
    assert not any(str(batch.product.home).encode() in line for line in running())


def as_somebody(home: Path) -> list[str]:
    """The beginning of a command line that makes the folder belong to an ordinary user and runs the rest
    as that user, who may use the engine. Python and /etc are readable even if only root may enter
    their folders."""
    lines = ["set -e"]
    closed = {path: folder for path in PYTHON if (folder := _closed(Path(path))) is not None}
    for number, path in enumerate(closed):
        lines += [f"mkdir {home}/{number}", f"mount --bind {shlex.quote(path)} {home}/{number}"]
    lines += [f"mount -t tmpfs -o mode=755 codeagent-test {each}" for each in {*closed.values()}]
    for number, path in enumerate(closed):
        lines += [f"mkdir -p {shlex.quote(path)}"]
        lines += [f"mount --move {home}/{number} {shlex.quote(path)}", f"rmdir {home}/{number}"]
    if _closed(Path("/etc")):
        lines += [f"cp -a /etc {home}", f"chmod 755 {home}/etc", f"mount --bind {home}/etc /etc"]
    lines += [f"chown -R {SOMEBODY}:{SOMEBODY} {home.parent}"]
    group = SOCKET.stat().st_gid if SOCKET.exists() else SOMEBODY
    who = f"--reuid={SOMEBODY} --regid={SOMEBODY} --groups={group}"
    lines += [f'exec setpriv {who} --bounding-set=-all --inh-caps=-all "$@"']
    return ["unshare", "--mount", "sh", "-c", "\n".join(lines), "sh"]


def _closed(path: Path) -> Path | None:
    """The outermost folder of a path that others may not enter."""
    folders = [*reversed(path.parents), path]
    return next((each for each in folders if not each.stat().st_mode & 0o001), None)


@pytest.mark.root
@pytest.mark.docker
@pytest.mark.soak
@pytest.mark.parametrize("sandbox", part(["docker", "off"], 1))
def test_an_ordinary_user_can_run_a_batch(batch: Batch, sandbox: str) -> None:
    before = as_somebody(batch.product.home)
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        give_up("there are no namespaces here")
    run(batch, before, sandbox)
    written = [*batch.results.rglob("*"), *batch.product.home.glob("state/**/*")]
    assert {path.lstat().st_uid for path in written} == {SOMEBODY}


@pytest.mark.docker
@pytest.mark.soak
@pytest.mark.parametrize("sandbox", part(["docker", "off"], 1))
def test_a_batch_runs_in_a_container(batch: Batch, sandbox: str) -> None:
    programs = [path for path in ("/usr", "/lib", "/lib64", "/etc") if Path(path).exists()]
    read = [f"{path}:{path}:ro" for path in {*programs, *PYTHON}]
    home = str(batch.product.home.parent)
    volumes = [*read, f"{home}:{home}", *([f"{SOCKET}:{SOCKET}"] if sandbox == "docker" else [])]
    environment = batch.product.environment | {"HOME": str(batch.product.home)}
    options = [word for volume in volumes for word in ("--volume", volume)]
    options += [
        word for name, value in environment.items() for word in ("--env", f"{name}={value}")
    ]
    options += ["--workdir", str(batch.product.workspace), "--network", "none", "--rm"]
    with small_image() as image:
        run(batch, ["docker", "run", *options, image], sandbox)
