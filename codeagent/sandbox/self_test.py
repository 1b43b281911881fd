"""The self-test of a container: one exec inside, whose answers are judged here, outside."""

import os
import secrets
from collections import defaultdict
from contextlib import nullcontext, suppress

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import EngineError
from codeagent.core.sandbox import CHECK, SandboxInfo
from codeagent.disk.locks import try_lock
from codeagent.disk.opens import create_file, open_regular
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import is_rootless
from codeagent.sandbox.exec_stream import ExecTarget, run_script
from codeagent.sandbox.guard import Container
from codeagent.sandbox.mounts import PinnedRoot
from codeagent.sandbox.work_user import WorkUser

_TEST_SECONDS = 15.0
_OWNED = "files written inside are seen outside, with the workspace's owner"
OWN_KERNEL = (
    "gVisor's runsc has a kernel of its own, in which the sandbox's walls cannot be checked: make runc the "
    "default-runtime in /etc/docker/daemon.json"
)
_EXPECTED = {
    "CapEff": "0000000000000000",
    "CapBnd": "0000000000000000",
    "NoNewPrivs": "1",
    "Seccomp": "2",
}


@dataclass(frozen=True)
class SelfTest:
    """The result of a self-test, one phrase for each check."""

    passed: tuple[str, ...]
    failed: tuple[str, ...]
    """Empty if the sandbox may be used."""
    missing_tools: tuple[str, ...] = ()


async def self_test(
    engine: Engine, target: ExecTarget, root: PinnedRoot, container: Container, *, read_only: bool
) -> SelfTest:
    """Run the self-test. Raises EngineError if the container does not answer."""
    guarded, layer = container.guarded, container.layer
    name = f"{CHECK}{secrets.token_hex(8)}"
    reply = f"{name}-reply"
    nonce = secrets.token_hex(16)
    with nullcontext(root.fd) if layer is None else layer.upper() as folder:
        try:
            held = _write(folder, name, nonce)
        except OSError as error:
            return SelfTest((), (f"the workspace cannot be written to ({error.strerror})",))
        try:
            arguments = [name, "" if read_only else reply, *(path for path, _ in guarded)]
            output = await run_script(engine, target, "check", arguments, _TEST_SECONDS)
            leaked = layer is not None and _read(root.fd, reply) is not None
            replied = None if read_only or leaked else _read(folder, reply)
        finally:
            for left in (reply, name):
                _remove(folder, left)
            os.close(held)
    answers: dict[str, list[str]] = defaultdict(list)
    for line in output.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition("=")
        answers[key].append(value)
    if not answers["done"]:
        raise EngineError(
            f"the container has no usable bash: {output.decode('utf-8', 'replace')[:200].strip()}"
        )
    inodes = [str(os.fstat(root.fd).st_ino), *(str(inode) for _, inode in guarded)]
    compared = slice(None) if layer is None else slice(1, None)  # a view has a root of its own
    same = answers["nonce"] == [nonce] and answers["inode"][compared] == inodes[compared]
    return judge(
        answers,
        same,
        None if read_only else (replied or ("", -1)) == (nonce, root.uid),
        container.user,
    )


def judge(
    answers: dict[str, list[str]], same_workspace: bool, written: bool | None, user: WorkUser
) -> SelfTest:
    """Judge the answers; `written`: a file written inside arrived outside with the right owner,
    None: not tried."""
    uid = user.uid
    checks = [
        ("the workspace inside is this workspace", same_workspace),
        ("no network but loopback", set(answers["interface"]) <= {"lo"}),
        ("nothing protected is writable", not answers["writable"]),
        ("the processes of a command can be told from others", answers["numbered"] == ["yes"]),
        (f"commands run as uid {uid}", answers["uid"] == [str(uid)]),
    ]
    if written is not None:
        checks.append((_OWNED, written))
    checks += [(f"{key} is {value}", answers[key] == [value]) for key, value in _EXPECTED.items()]
    failed = [what for what, holds in checks if not holds]
    failed += [f"writable: {name}" for name in answers["writable"]]
    missing = tuple(
        tool for tool in ("git", "python3", "rg", "make") if tool not in answers["tool"]
    )
    return SelfTest(tuple(what for what, holds in checks if holds), tuple(failed), missing)


def remedy_of(test: SelfTest, engine: Engine) -> str:
    """Return what to do about a failed self-test."""
    if {"NoNewPrivs is 1", "Seccomp is 2"} <= {*test.failed}:
        return OWN_KERNEL
    if test.failed == (_OWNED,) and is_rootless(engine.socket_path):
        return (
            "Docker without root gives what commands write another owner: use Podman without root (systemctl --user "
            "start podman.socket; export DOCKER_HOST=unix://$XDG_RUNTIME_DIR/podman/podman.sock), or Docker with root"
        )
    return "codeagent sandbox test shows all of it; the engine must run on this machine and see this directory"


def _write(folder: int, name: str, text: str) -> int:
    """Write a file and keep it open and locked, so that a cleanup sees that it is in use. Raises
    OSError."""
    fd = create_file(name, 0o644, within=folder)
    with suppress(OSError):  # a file system without locks
        try_lock(fd)
    os.fchmod(fd, 0o644)
    os.write(fd, f"{text}\n".encode("ascii"))
    return fd


def _read(folder: int, name: str) -> tuple[str, int] | None:
    try:
        fd = open_regular(name, within=folder)
    except OSError:
        return None
    with os.fdopen(fd, encoding="utf-8", errors="replace") as file:
        return file.read(1000), os.fstat(fd).st_uid


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


def describe(container: Container, test: SelfTest) -> SandboxInfo:
    """Describe a container that may be used."""
    absent = (
        (f"commands in the sandbox will not find {', '.join(missing)}",)
        if (missing := test.missing_tools)
        else ()
    )
    return SandboxInfo(
        kind="docker",
        image=container.image,
        image_origin=container.image_origin,
        user=container.user.describe(),
        network="none",
        warnings=(*container.told, *container.warnings, *absent),
        told=container.told,
    )
