"""A command that must not write: the kernel refuses every change, and all that only reads works."""

import asyncio
import os
import shutil
import stat
import subprocess
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path

import pytest
import pytest_asyncio

from codeagent.core.sandbox import Command
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import engine_socket
from tests.conftest import MakeSandbox
from tests.effort import part
from tests.sandboxes import Ran, batch, make_repository, opened, parts, run, sandbox_spec

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module")]
PYTHON_WRITES = (
    "open('hello.py', 'w')",
    "open('hello.py', 'r+b').write(b'x')",
    "os.write(os.open('hello.py', os.O_RDWR), b'x')",
    "os.open('new', os.O_CREAT | os.O_WRONLY)",
    "os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600)",
    "os.truncate('hello.py', 0)",
    "os.utime('hello.py', (1, 1))",
    "os.utime('.', (1, 1))",
    "os.chmod('hello.py', 0o777)",
    "os.chmod('.', 0o777)",
    "os.chown('hello.py', os.getuid(), os.getgid())",
    "os.setxattr('hello.py', 'user.x', b'y')",
    "os.removexattr('kept', 'user.kept')",
    "os.link('hello.py', 'linked')",
    "os.link('hello.py', '/tmp/linked')",
    "os.symlink('/etc', 'link')",
    "os.rename('hello.py', 'test_hello.py')",
    "os.rename('/tmp/mine', 'hello.py')",
    "os.replace('folder', 'folder2')",
    "os.mkdir('made')",
    "os.rmdir('empty')",
    "os.unlink('hello.py')",
    "os.mkfifo('fifo')",
    "os.mknod('node', 0o100644)",
    "socket.socket(socket.AF_UNIX).bind('sock')",
    "mmap.mmap(os.open('hello.py', os.O_RDWR), 0).write(b'x')",
    "mmap.mmap(os.open('hello.py', os.O_RDONLY), 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)",
    "os.fchmod(os.open('hello.py', os.O_RDONLY), 0o777)",
    "os.ftruncate(os.open('hello.py', os.O_RDONLY), 0)",
    "os.posix_fallocate(os.open('hello.py', os.O_RDWR), 0, 9000)",
    "os.copy_file_range(os.open('kept', 0), os.open('hello.py', os.O_WRONLY), 5)",
    "os.write(os.open('/proc/self/fd/%d' % os.open('hello.py', os.O_RDONLY), os.O_RDWR), b'x')",
    "os.write(os.open('/proc/self/cwd/hello.py', os.O_RDWR), b'x')",
    "os.write(os.open('/proc/self/root' + os.getcwd() + '/hello.py', os.O_RDWR), b'x')",
    "os.open('/proc/%d/cwd/new' % os.getppid(), os.O_CREAT | os.O_WRONLY)",
    "os.open('sub/dir/new', os.O_CREAT | os.O_WRONLY)",
    "shutil.copy('/etc/passwd', 'copied')",
    "shutil.rmtree('folder')",
    "sqlite3.connect('data.db').execute('create table t (x)')",
)
SHELL_WRITES = (
    "touch new",
    "touch hello.py",
    "echo x > hello.py",
    "echo x >> hello.py",
    ": > new",
    "exec 3<> hello.py",
    "mkdir made",
    "rm -f hello.py; [ ! -e hello.py ]",
    "rm -rf folder",
    "ln -s x link",
    "ln hello.py linked",
    "ln hello.py /tmp/linked",
    "mv hello.py moved",
    "mv hello.py /tmp/moved",
    "chmod 777 hello.py",
    "chmod -R a+rwx .",
    "chown $(id -u) hello.py",
    "truncate -s 0 hello.py",
    "dd if=/dev/zero of=hello.py bs=1 count=1 conv=notrunc",
    "echo x | tee hello.py",
    "sed -i s/hello/x/ hello.py",
    'perl -e \'open(F, "+<", "hello.py") or exit 1; print F 1\'',
    "cp /etc/passwd copied",
    "install -m 755 /etc/passwd copied",
    "tar -cf made.tar hello.py",
    "mkfifo fifo",
    "sort -o hello.py hello.py",
    "echo x > sub/dir/new",
    "echo x > nested/new",
    "git add hello.py",
    "git commit --allow-empty -m x",
    "git checkout -b other",
    "git init sub",
    "git config user.name x",
    "git stash",
    "mount -o remount,rw .",
    "mount -o remount,rw,bind .",
    "mount --bind /tmp .",
    "umount -l .",
    "unshare -Urm mount -o remount,rw .",
    "unshare -Urm sh -c 'mount --bind . /tmp && touch /tmp/hello.py'",
    "echo x > /proc/self/root$PWD/hello.py",
    "echo x > /proc/self/cwd/hello.py",
    "echo x > /proc/$$/cwd/hello.py",
    "echo x > /proc/1/root$PWD/hello.py",
    "for p in /proc/[0-9]*; do echo x > $p/cwd/hello.py && exit 0; done; false",
    "cd .. && touch $OLDPWD/new",
)


REFUSED_ANYWHERE = (
    "mount",
    "/proc/1/",
    "/proc/[0-9]",
    "/tmp/linked",
    "exec 3<>",
    "/tmp/mine",
    "ftruncate",
    "O_RDONLY), 0, mmap",
    "O_TMPFILE",
)
"""What the usual container refuses too, or what leaves no trace: no control for it."""
CONTROLS = [
    probe
    for probe in (*SHELL_WRITES, *PYTHON_WRITES)
    if not any(word in probe for word in REFUSED_ANYWHERE)
]
_ATTEMPT = """
import mmap, os, shutil, socket, sqlite3
open('/tmp/mine', 'w').close()
try:
    {call}
except (OSError, sqlite3.OperationalError, ValueError) as error:
    print('refused', error)
else:
    print('BREACH')
"""


def fill(root: Path) -> None:
    """What the probes work on."""
    for name in ("folder/inner", "folder2", "empty", "sub/dir", "nested"):
        (root / name).mkdir(parents=True)
    (root / "folder" / "file").write_text("x\n")
    (root / "kept").write_text("kept\n")
    try:
        os.setxattr(root / "kept", "user.kept", b"1")
    except OSError:
        return


def attempt(probe: str) -> str:
    """A probe as a command line."""
    if probe in SHELL_WRITES:
        return f"({probe}) < /dev/null"
    return f"python3 - <<'END'{_ATTEMPT.format(call=probe)}END"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A repository with a file system mounted below it, where this machine lets us."""
    root = make_repository(tmp_path_factory.mktemp("read-only") / "project")
    fill(root)
    (root / ".env").write_text("KEY=1\n")
    mounted = (
        subprocess.run(
            ["mount", "-t", "tmpfs", "none", root / "nested"], capture_output=True
        ).returncode
        == 0
    )
    if mounted:
        (root / "nested" / "there").write_text("there\n")
    yield root
    if mounted:
        subprocess.run(["umount", root / "nested"], check=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DockerSandbox]:
    sandbox = DockerSandbox(sandbox_spec(project, tmp_path_factory.mktemp("state")))
    await reading(sandbox, "true")
    yield sandbox
    await sandbox.close()


async def reading(sandbox: DockerSandbox, text: str) -> Ran:
    ran = Ran()
    ran.result = await sandbox.run(Command(text, "call", read_only=True, apart=True), ran)
    return ran


def fingerprint(root: Path) -> str:
    """Everything a command could change: names, bytes, modes, owners, times, links, attributes."""
    digest = sha256()
    for path in [root, *sorted(root.rglob("*"))]:
        status = path.lstat()
        digest.update(
            f"{path} {status.st_mode} {status.st_uid} {status.st_gid} {status.st_nlink}".encode()
        )
        digest.update(f"{status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}".encode())
        if stat.S_ISREG(status.st_mode):
            digest.update(path.read_bytes() + repr(os.listxattr(path)).encode())
    return digest.hexdigest()


@pytest.mark.soak(tried=len(SHELL_WRITES))
async def test_no_program_changes_anything(box: DockerSandbox, project: Path) -> None:
    before = fingerprint(project)
    probes = {probe: attempt(probe) for probe in part(SHELL_WRITES, 24)}
    ran = await reading(box, batch(probes))
    assert [probe for probe, tried in parts(ran, probes).items() if tried.exit_code == 0] == []
    assert fingerprint(project) == before


@pytest.mark.soak(tried=len(PYTHON_WRITES))
async def test_no_system_call_changes_anything(box: DockerSandbox, project: Path) -> None:
    before = fingerprint(project)
    probes = {probe: attempt(probe) for probe in part(PYTHON_WRITES, 20)}
    ran = await reading(box, batch(probes))
    assert [
        probe
        for probe, tried in parts(ran, probes).items()
        if not tried.stdout.startswith(b"refused")
    ] == []
    assert fingerprint(project) == before


@pytest.mark.soak(tried=len(CONTROLS))
async def test_where_writing_is_allowed_the_same_probes_write(tmp_path: Path) -> None:
    """The positive control: what fails above fails because of the mount."""
    template = make_repository(tmp_path / "projects/template")
    fill(template)
    identity = "GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x"
    probes, before = {}, {}
    for number, probe in enumerate(part(CONTROLS, 20)):
        project = shutil.copytree(template, template.parent / f"p{number}", symlinks=True)
        probes[probe] = f"cd {project.name}; export {identity}\n{attempt(probe)}"
        before[probe] = (project, fingerprint(project))
    async with opened(template.parent, tmp_path / "state") as sandbox:
        ran = await run(sandbox, batch(probes))
    parts(ran, probes)
    assert [
        probe for probe, (project, was) in before.items() if fingerprint(project) == was
    ] == [], ran


WORKS = {
    "cat hello.py": b"return 'hello'",
    "grep -rn hello . | head -1": b"hello",
    "git status --short | sort | head -1": b"??",
    "git log --oneline": b"first",
    "git diff --stat; echo done": b"done",
    "python3 -B -m unittest 2>&1 | tail -1": b"OK",
    "python3 -m unittest 2>&1 | tail -1": b"OK",
    "echo x > /tmp/x && cat /tmp/x": b"x",
    "echo x > ~/x && cat ~/x": b"x",
    "find . -name '*.py' | sort | head -1": b"./hello.py",
    "sort hello.py > /tmp/sorted && wc -l < /tmp/sorted": b"2",
    "printf 'all:\\n\\techo built > /tmp/out\\n' > /tmp/Makefile && make -s -f /tmp/Makefile && cat /tmp/out": b"built",
    "cat <<'END'\nhere\nEND": b"here",
}
"""Command lines that only read, and what they print."""


async def test_what_only_reads_works(box: DockerSandbox) -> None:
    ran = await reading(box, batch({command: command for command in WORKS}))
    for command, done in parts(ran, WORKS).items():
        assert done.exit_code == 0 and WORKS[command] in done.stdout, command


def is_mounted(path: Path) -> bool:
    return path.is_mount()


async def test_a_file_system_mounted_below_is_read_only_too_and_can_be_read(
    box: DockerSandbox, project: Path
) -> None:
    if not is_mounted(project / "nested"):
        pytest.skip("this machine does not let us mount")
    ran = await reading(box, "cat nested/there; touch nested/new; echo $?")
    assert ran.stdout == b"there\n1\n"
    assert (await run(box, "touch nested/new && rm nested/new; echo $?")).stdout == b"0\n"


async def test_its_tmp_and_its_processes_are_its_own(box: DockerSandbox) -> None:
    await run(box, "touch /tmp/usual; sleep 300.5 > /dev/null 2>&1 &")
    ran = await reading(box, "ls /tmp; touch /tmp/quiet; grep -lz 300[.]5 /proc/[0-9]*/cmdline")
    assert b"usual" not in ran.stdout
    assert b"cmdline" not in ran.stdout
    assert b"quiet" not in (await run(box, "ls /tmp")).stdout


async def test_changes_made_elsewhere_are_seen_at_once(box: DockerSandbox, project: Path) -> None:
    await run(box, "echo fresh > folder/fresh")
    assert (await reading(box, "cat folder/fresh")).stdout == b"fresh\n"
    (project / "folder" / "fresh").unlink()
    assert (await reading(box, "cat folder/fresh")).result.exit_code == 1


async def test_a_secret_is_masked_there_too(box: DockerSandbox, project: Path) -> None:
    assert (project / ".env").read_text() == "KEY=1\n"
    ran = await reading(box, "cat .env")
    assert (ran.stdout, ran.result.exit_code) == (b"", 0)


async def test_what_the_user_creates_meanwhile_is_left_alone(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    """A command that cannot write did not make it."""
    root = tmp_path / "plain"
    root.mkdir()
    sandbox = await make_sandbox(root)
    ran = Ran()
    text = "echo go; until [ -d .git ]; do sleep 0.02; done"
    task = asyncio.create_task(sandbox.run(Command(text, "call", read_only=True), ran))
    await ran.printed(b"go")
    (root / ".git").mkdir()
    assert (await task).notices == ()
    assert (root / ".git").is_dir()


async def test_it_is_made_by_the_first_command_that_needs_it_and_closed_with_the_other(
    make_sandbox: MakeSandbox, workspace_dir: Path
) -> None:
    async def containers() -> int:
        listed = await Engine(engine_socket(os.environ.get("DOCKER_HOST"))).ask(
            "GET", "/containers/json", {"all": 1}
        )
        return sum(
            facts["Labels"].get("codeagent.workspace") == str(workspace_dir) for facts in listed
        )

    sandbox = await make_sandbox(workspace_dir)
    await run(sandbox, "true")
    assert await containers() == 1
    await reading(sandbox, "true")
    await reading(sandbox, "true")
    assert await containers() == 2
    await sandbox.close()
    async with asyncio.timeout(30):  # nothing runs in them any longer, and the engine removes them
        while await containers():
            continue


async def test_a_cancel_and_a_leftover_process_are_as_with_any_command(box: DockerSandbox) -> None:
    ran = Ran()
    task = asyncio.create_task(
        box.run(Command("sleep 600 & echo go; wait", "call", read_only=True), ran)
    )
    await ran.printed(b"go")
    task.cancel()
    result = await task
    assert (result.stopped, result.killed) == (True, 2)
    assert (await reading(box, "sleep 300 & exit 3")).result.left_running == 1
