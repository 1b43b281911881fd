"""Nothing gets out of the container, and work goes on inside it."""

import hashlib
import os
import socket
import stat
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from codeagent.core.sandbox import Command
from codeagent.sandbox import work_user
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import engine_socket
from codeagent.sandbox.exec import CallMark, Execution
from codeagent.sandbox.exec_stream import ExecTarget
from codeagent.sandbox.image import choose_image
from codeagent.sandbox.packages import package_cache
from codeagent.sandbox.profile import ContainerSpec, create_arguments
from codeagent.sandbox.spec import Bind, SandboxLimits
from tests.effort import FACTOR, part
from tests.sandboxes import MIB, Ran, batch, make_repository, parts, sandbox_spec
from tests.security.escape_probes import ALONE, FIRES_IN_AN_ORDINARY_CONTAINER, PROBES

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module")]
MODES = {
    "read and write": (len(PROBES), {}),
    "read only": (0, {"read_only": True}),
    "network": (60, {"hosts": ("one.example",)}),
    "a view": (30, {}),
}
"""How many probes are tried in `make test`, where `tests/sandbox/test_read_only.py` stands for one;
and the fields of Command."""
THE_WAY_OUT = "any socket is reachable"
"""Where there is a network this is the proxy's socket, on purpose."""
PYTHON = (
    "$(for p in python3 "
    + f"{sys.base_prefix}/bin/python3; do $p -c 'import ensurepip' 2> /dev/null && echo $p && break; done)"
)
"""The first interpreter of the image that can make virtual environments."""


@dataclass
class Ground:
    """A workspace and, around it, what a breach would reach."""

    root: Path
    outside: Path
    state: Path
    port: int

    def fill(self, script: str) -> str:
        shadow = Path("/etc/shadow")
        digest = (
            hashlib.sha256(shadow.read_bytes()).hexdigest()
            if os.access(shadow, os.R_OK)
            else "unreadable"
        )
        places = {
            "OUTSIDE": str(self.outside),
            "STATE": str(self.state),
            "HOSTPORT": str(self.port),
            "HOSTSHADOW": digest,
        }
        for name, value in places.items():
            script = script.replace(name, value)
        return script


@pytest.fixture(
    scope="module", params=part(["another user", "root", "root, without mapped ids"], 1)
)
def owner(request: pytest.FixtureRequest) -> Iterator[int]:
    """Work runs as whoever owns the workspace; each way must hold, and other tests run in
    workspaces of root's."""
    if os.getuid() != 0:
        yield os.getuid()
        return
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "root, without mapped ids":
            patch.setattr(work_user, "_asked", lambda mapping, words: "the kernel cannot")
        yield 1000 if request.param == "another user" else 0


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory, owner: int) -> Iterator[Ground]:
    base = tmp_path_factory.mktemp("ground")
    root = make_repository(base / "project")
    (root / ".codeagent").mkdir()
    (root / ".env").write_text("API_KEY=CANARY\n")
    (root / "deploy").mkdir()
    (root / "deploy" / "id_ed25519").write_text("CANARY-KEY PRIVATE KEY\n")
    outside = base / "outside"
    outside.mkdir()
    (outside / "canary").write_text("untouched")
    own(root, owner)
    shared = Path(f"/dev/shm/canary-{os.getpid()}")
    shared.write_text("untouched")
    listener, abstract = socket.create_server(("0.0.0.0", 0)), socket.socket(socket.AF_UNIX)
    port = listener.getsockname()[1]
    abstract.bind(f"\0codeagent-canary-{port}")
    abstract.listen()
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)", "CANARY-PROCESS"]
    )
    os.environ["CANARY_API_KEY"] = "CANARY"
    yield Ground(root, outside, base / "state", port)
    del os.environ["CANARY_API_KEY"]
    process.kill()
    process.wait()
    listener.close()
    abstract.close()
    shared.unlink()


def own(root: Path, uid: int) -> None:
    for path in [root, *root.rglob("*")]:
        os.chown(path, uid, uid, follow_symlinks=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(ground: Ground) -> AsyncIterator[DockerSandbox]:
    cache = package_cache(ground.state, ground.root)
    sandbox = DockerSandbox(sandbox_spec(ground.root, ground.state, packages=cache))
    await sandbox.start(lambda _: None)
    yield sandbox
    await sandbox.close()


def fingerprint(folder: Path) -> str:
    """Names, modes and contents of everything below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        digest.update(f"{path.relative_to(folder)} {status.st_mode} {status.st_uid}".encode())
        if stat.S_ISREG(status.st_mode):
            digest.update(path.read_bytes())
    return digest.hexdigest()


async def attempt(box: DockerSandbox, text: str, mode: str) -> Ran:
    ran, command = Ran(), Command(text, "call", apart=True, **MODES[mode][1])
    if mode != "a view":
        ran.result = await box.run(command, ran)
        return ran
    trial = await box.try_out(command, ran)
    ran.result = trial.result
    await trial.land(await trial.effects())
    await trial.close()
    return ran


@pytest.mark.soak(row="container probes")
@pytest.mark.parametrize("mode", [mode for mode, (usual, _) in MODES.items() if usual or FACTOR])
async def test_every_probe_is_stopped(
    box: DockerSandbox, ground: Ground, mode: str, tried: Callable[[int], None]
) -> None:
    git = fingerprint(ground.root / ".git")
    names = {*part([*PROBES], MODES[mode][0]), THE_WAY_OUT} - {ALONE}
    probes = {name: ground.fill(PROBES[name]) for name in names}
    ran, alone = await attempt(box, batch(probes), mode), await attempt(box, PROBES[ALONE], mode)
    fired = {name for name, probe in parts(ran, probes).items() if b"BREACH" in probe.stdout}
    assert fired <= ({THE_WAY_OUT} if mode == "network" else set())
    assert b"BREACH" not in alone.stdout, alone
    tried(len(probes) + 1)
    assert fingerprint(ground.root / ".git") == git
    assert (ground.outside / "canary").read_text() == "untouched"
    assert (ground.root / ".env").read_text() == "API_KEY=CANARY\n"


@pytest.mark.soak(tried=1, row="container probes")
async def test_after_all_probes_no_file_that_they_could_write_is_dangerous(
    box: DockerSandbox, ground: Ground
) -> None:
    assert box.spec.packages is not None
    modes = [
        (path, path.lstat())
        for top in (ground.root, box.spec.packages.folder / "files")
        for path in top.rglob("*")
    ]
    assert [str(path) for path, status in modes if status.st_mode & 0o6000] == []
    assert [
        str(path)
        for path, status in modes
        if stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode)
    ] == []
    assert {status.st_uid for _, status in modes} == {ground.root.stat().st_uid}


@pytest.mark.soak(tried=1, row="container probes")
async def test_the_probes_are_able_to_fire(tmp_path: Path) -> None:
    """The positive control: the same scripts in a container as `docker run` makes it."""
    ground = Ground(
        make_repository(tmp_path / "project"), tmp_path / "outside", tmp_path / "state", 1
    )
    (ground.root / ".codeagent").mkdir()
    (ground.root / ".env").write_text("CANARY")
    (ground.root / "deploy").mkdir()
    (ground.root / "deploy" / "id_ed25519").write_text("CANARY-KEY")
    fresh = "[ -d .git ] || git init -q .; mkdir -p .codeagent ~; echo CANARY > .env;"
    probes = {
        name: f"{fresh} {ground.fill(PROBES[name])}"
        for name in PROBES
        if name in FIRES_IN_AN_ORDINARY_CONTAINER
    }
    ran = await in_an_ordinary_container(ground, batch(probes))
    assert [
        name for name, tried in parts(ran, probes).items() if b"BREACH" not in tried.stdout
    ] == []


TRUSTING_GIT = ("GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
"""For root in a container, where the repository belongs to the user who runs the tests."""


async def in_an_ordinary_container(ground: Ground, text: str) -> Ran:
    path = engine_socket(os.environ.get("DOCKER_HOST"))
    engine = Engine(path)
    image = choose_image(engine, sandbox_spec(ground.root, ground.state), lambda _: None)
    here = str(ground.root)
    spec = ContainerSpec(
        image.reference,
        here,
        0,
        0,
        (*image.binds, Bind(here, here, read_only=False)),
        image.path,
        SandboxLimits(512 * MIB, 64 * MIB, 512, 2.0),
    )
    arguments = create_arguments(spec, {"codeagent": "1"})
    for hardening in ("CapDrop", "SecurityOpt", "ReadonlyRootfs", "Tmpfs"):
        del arguments["HostConfig"][hardening]
    mounts = arguments["HostConfig"]["Mounts"]
    arguments["HostConfig"]["Mounts"] = [each for each in mounts if each["Type"] == "bind"]
    arguments |= {"User": "0:0", "Env": [f"PATH={image.path}", "SECRET=CANARY", *TRUSTING_GIT]}
    container, stdin = engine.run(arguments)
    ran = Ran()
    try:
        target, command = ExecTarget(container, "0:0", here), Command(text, "call", apart=True)
        execution = await Execution.start(engine, target, command, CallMark("0" * 16, 1), ran)
        await execution.finish()
        await execution.close()
        return ran
    finally:
        stdin.close()
        engine.remove(container)
        engine.close()


LOOKS = {
    "git status": "git status --short | grep -q . || git status | grep -q 'On branch main'",
    "git log": "git log --oneline | grep -q first",
    "git show and blame": "git show HEAD:hello.py | grep -q def && git blame hello.py | grep -q def",
    "git grep": "git grep -q hello",
    "unittest": f"{PYTHON} -m unittest -q",
    "a bare virtual environment": f"{PYTHON} -m venv --without-pip /tmp/bare && /tmp/bare/bin/python -c 'print(42)'",
    "a virtual environment": f"{PYTHON} -m venv /tmp/venv && /tmp/venv/bin/python -c 'import sys; print(sys.prefix)'",
    "pip installs a local wheel into it": (
        "/tmp/venv/bin/pip install -q --no-index --find-links wheels answer"
        " && /tmp/venv/bin/python -c 'import answer; assert answer.VALUE == 42'"
    ),
    "python": f"{PYTHON} -c 'import ssl, sqlite3, json; print(1)'",
    "processes of python": (
        f"{PYTHON} -c 'import multiprocessing as m; p = m.get_context(\"fork\").Pool(2); print(p.map(abs, [-1, 2]))'"
    ),
    "threads": f"{PYTHON} -c 'import threading; t = threading.Thread(target=print); t.start(); t.join()'",
    "perl": "perl -e 'print 42' | grep -q 42",
    "awk and sed": "echo a b | awk '{print $2}' | sed s/b/c/ | grep -q c",
    "find and xargs": "find . -name '*.py' -print0 | xargs -0 grep -l hello | grep -q hello.py",
    "search": "if command -v rg > /dev/null; then rg -q hello; else grep -rq hello .; fi",
    "archives": "tar czf /tmp/a.tgz hello.py && tar xzf /tmp/a.tgz -C /tmp && grep -q def /tmp/hello.py",
    "a FIFO": "rm -f /tmp/fifo; mkfifo /tmp/fifo && (echo x > /tmp/fifo &) && grep -q x /tmp/fifo",
    "a server on loopback": (
        f'{PYTHON} -c \'import socket; s = socket.create_server(("127.0.0.1", 0));'
        " c = socket.create_connection(s.getsockname()); print(c)'"
    ),
    "a unix socket": (
        f"rm -f /tmp/sock; {PYTHON} -c 'import socket; s = socket.socket(socket.AF_UNIX);"
        ' s.bind("/tmp/sock")\''
    ),
    "ending its own processes": "sleep 100 & kill $! && ! wait $!",
    "the current user": '[ "$(id -un)" = agent ] && [ "$HOME" = ~ ] && [ -w ~ ]',
    "sort, uniq and wc": "[ $(printf 'b\\na\\nb\\n' | sort | uniq | wc -l) = 2 ]",
    "cut, tr, head and tail": "[ $(printf 'a:b\\nc:d\\n' | cut -d: -f2 | tr a-z A-Z | head -1 | tail -1) = B ]",
    "diff and cmp": "cmp -s hello.py hello.py && ! diff -q hello.py test_hello.py > /dev/null",
    "checksums and base64": "sha256sum hello.py | grep -q hello.py && [ $(echo x | base64 | base64 -d) = x ]",
    "gzip": "echo x | gzip | gunzip | grep -q x",
    "a function, a loop and an array": "f() { for x; do echo $x; done; }; a=(1 2 3); [ $(f ${a[@]} | wc -l) = 3 ]",
    "process substitution": "diff <(echo a) <(echo a)",
    "a trap": "(trap 'echo left' EXIT) | grep -q left",
    "a time limit": "timeout 0.1 sleep 9; [ $? = 124 ]",
    "a temporary file": "t=$(mktemp) && echo x > $t && grep -q x $t && rm $t",
    "stat, du and df": "stat -c %s hello.py | grep -q . && du -s . > /dev/null && df . > /dev/null",
    "the paths of the host": '[ "$(realpath hello.py)" = "$PWD/hello.py" ] && [ -d /usr/bin ]',
}
"""What reads the workspace only."""
SLOW = {"a virtual environment", "pip installs a local wheel into it"}
"""Two seconds of a processor; `tests/sandbox/test_package_image.py` stands for them in `make
test`."""
WORKS = LOOKS | {
    "git diff": "echo '# more' >> hello.py; git diff | grep -q '^+# more'",
    "a new file": "mkdir -p src/deep && echo x > src/deep/new.txt && grep -q x src/deep/new.txt",
    "an edit in place": "echo old > e1 && sed -i s/old/new/ e1 && grep -q new e1",
    "a rename and a removal": "echo x > r1 && mv r1 r2 && rm r2 && [ ! -e r2 ]",
    "an executable script": "printf '#!/bin/bash\\necho ran\\n' > s1 && chmod 755 s1 && ./s1 | grep -q ran",
    "a patch": (
        "printf -- '--- a/p1\\n+++ b/p1\\n@@ -1 +1 @@\\n-x\\n+y\\n' > /tmp/p; echo x > p1;"
        " patch -p1 < /tmp/p && grep -q y p1"
    ),
    "make": "printf 'all:\\n\\techo made\\n' > Makefile && make -s | grep -q made",
    "a symbolic link": "ln -sf hello.py link && grep -q def link",
    "a hard link": "echo x > h1 && ln -f h1 h2 && grep -q x h2",
    "a name that is not ASCII": "echo x > 'größe und mehr' && grep -q x 'größe und mehr'",
    "a copy of a folder": "cp -r .git /tmp/git && mkdir -p c1 && cp -r /tmp/git c1/x && rm -rf c1 /tmp/git",
    "a file that others may read": "touch m1 && chmod 640 m1 && [ $(stat -c %a m1) = 640 ]",
}


@pytest.mark.soak(row="container work")
@pytest.mark.parametrize("mode", part(list(MODES), 1))
async def test_ordinary_work_goes_on(
    box: DockerSandbox, ground: Ground, mode: str, tried: Callable[[int], None]
) -> None:
    """A view has the `/tmp` that earlier commands of the session have used."""
    make_wheel(ground.root / "wheels")
    works = LOOKS if mode == "read only" else WORKS
    works = {name: work for name, work in works.items() if FACTOR or name not in SLOW}
    ran = await attempt(box, batch(works), mode)
    assert {name: done for name, done in parts(ran, works).items() if done.exit_code != 0} == {}, (
        ran.stderr
    )
    tried(len(works))


def make_wheel(folder: Path) -> None:
    """A pure Python wheel without dependencies: module `answer`."""
    folder.mkdir(exist_ok=True)
    info = "answer-1.0.dist-info"
    with zipfile.ZipFile(folder / "answer-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("answer.py", "VALUE = 42\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: answer\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{info}/RECORD", "")
