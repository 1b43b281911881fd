"""Makes a container: engine, image, mounts, start; and tests it, with one exec whose answers are
judged here.

`launch` blocks, and belongs in a thread.
"""

import os
import secrets
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import EngineError, SandboxUnavailable
from codeagent.core.ports import CHECK, SandboxInfo
from codeagent.core.sanitize import visible
from codeagent.disk.locks import try_lock
from codeagent.disk.opens import create_file, open_regular
from codeagent.sandbox import packages
from codeagent.sandbox.engine import Engine, labels, probe_socket, reap
from codeagent.sandbox.exec_stream import ExecTarget, run_script
from codeagent.sandbox.freeze import process_list
from codeagent.sandbox.git_view import view_of
from codeagent.sandbox.guard import Container, SessionResources
from codeagent.sandbox.image import (
    ImageChoice,
    choose_image,
    python_links,
    search_path,
    start_scripts,
)
from codeagent.sandbox.mounts import (
    NOT_ALL_MASKED,
    PinnedEntry,
    PinnedRoot,
    Secrets,
    is_utf8,
    submounts,
)
from codeagent.sandbox.profile import (
    HOME,
    KEEPER,
    PROXY_FOLDER,
    Bind,
    ContainerSpec,
    create_arguments,
    seccomp_filter,
)
from codeagent.sandbox.spec import SandboxSpec
from codeagent.sandbox.work_user import WorkUser, WorkUserChoice, choose_user

_TEST_SECONDS = 15.0
_REAP_SECONDS = 3.0
"""How long a start waits for what dead processes left to be removed; that may take longer, beside
it."""
_OWNED = "files written inside are seen outside, with the workspace's owner"
_SEES_NOTHING = "use an engine on this machine that sees this directory (docker context ls)"
_OWN_KERNEL = (
    "gVisor's runsc has a kernel of its own, in which the sandbox's walls cannot be checked: make runc the "
    "default-runtime in /etc/docker/daemon.json"
)
_REFUSALS = (
    ("bind source path does not exist", _SEES_NOTHING),
    ("invalid mount config", _SEES_NOTHING),
    (
        "container-init binary not found",
        "install Podman's init program: sudo apt-get install catatonit",
    ),
    ("in root network namespace", _OWN_KERNEL),
)
"""What an engine says when it refuses a container, and what to do about it."""
_EXPECTED = {
    "CapEff": "0000000000000000",
    "CapBnd": "0000000000000000",
    "NoNewPrivs": "1",
    "Seccomp": "2",
}


def launch(
    spec: SandboxSpec,
    resources: SessionResources,
    instance: str,
    stale: str | None,
    on_progress: Callable[[str], None],
    why_root: str = "",
) -> Container:
    """Make and start a container, once the `stale` one, given by its id, is gone. Raises
    SandboxUnavailable.

    `why_root`: see `choose_user`.
    """
    root, engine = resources.opened()
    podman = probe_socket(
        engine.socket_path
    )  # before anything is asked that a hanging engine would not answer
    try:
        if stale is not None:
            engine.remove(stale)
    except EngineError as refusal:
        problem = f"the old sandbox cannot be removed: {refusal}"
        raise SandboxUnavailable(problem, "codeagent sandbox prune") from refusal
    try:
        _reap_strays(engine)
        with choose_user(root, why_root) as work:
            return _start(spec, resources, instance, work, on_progress, podman=podman)
    except EngineError as refusal:
        if work.user.mapped:
            why_root = f"the engine refuses mounts with mapped ids: {refusal}"
            return launch(spec, resources, instance, stale, on_progress, why_root)
        usual = "codeagent sandbox test shows more; codeagent sandbox build makes another image"
        remedy = next((remedy for said, remedy in _REFUSALS if said in str(refusal)), usual)
        raise SandboxUnavailable(f"the engine refused the sandbox: {refusal}", remedy) from refusal


def _start(
    spec: SandboxSpec,
    resources: SessionResources,
    instance: str,
    work: WorkUserChoice,
    on_progress: Callable[[str], None],
    *,
    podman: bool,
) -> Container:
    """Make and start a container. Raises SandboxUnavailable, EngineError."""
    root, engine = resources.opened()
    image = choose_image(engine, spec, on_progress)
    protected = _mountable(root.protected())
    hidden = resources.secrets()
    view, unviewed = view_of(
        resources.around.place, hidden.masked, spec.state_dir, (root.uid, root.gid)
    )
    cache = _package_cache(spec, root.uid, image)
    folders = [str(root.path), *(path for path, _ in resources.around.mounts)]
    folders += [bind.source for bind in (*spec.binds, *cache.binds)]
    folders += [
        bind.source for bind in image.binds if Path(bind.source).is_relative_to(spec.home)
    ]  # may be private
    work.show(folders if view is None else [*folders, str(view.folder)])
    own = state_files(spec.state_dir, work.user.uid, work.user.gid)
    links = python_links(spec.virtual_env, image.python)
    python = (start_scripts(spec.state_dir, links),) if links else ()
    path = search_path(image.path, links, spec.virtual_env)
    binds = _binds(spec, own, resources, image, protected, hidden)
    binds = binds if view is None else view.over(binds)
    arguments = create_arguments(
        ContainerSpec(
            image=image.reference,
            root=str(root.path),
            uid=work.user.uid,
            gid=work.user.gid,
            binds=work.over(_nameable(binds + cache.binds)) + python,
            path=path,
            variables=_variables(spec) + cache.variables + work.user.variables,
            seccomp_file=_filter_file(spec.state_dir) if podman else "",
            user_namespace="keep-id" if podman and _is_rootless(engine) else "",
            memory_bytes=spec.memory_bytes,
            tmp_bytes=spec.tmp_bytes,
            pids=spec.pids,
            cpus=spec.cpus,
        ),
        labels(spec.session, instance, str(root.path)),
    )
    with resources.creating() as unwanted:
        container_id, stdin = engine.run(arguments, unwanted)
    processes = process_list(engine, container_id)
    mounts = resources.around.mounts + cache.mounts
    told = (*resources.around.warnings, *filter(None, (spec.image_note, image.note)))
    warnings = (*_warnings(hidden), *filter(None, (unviewed,)), *cache.warnings)
    made = (
        image.reference,
        image.origin,
        protected,
        hidden,
        mounts,
        told,
        warnings,
        path,
        view,
        work.user,
    )
    return Container(container_id, stdin, processes, *made)


def _reap_strays(engine: Engine) -> None:
    """Remove the containers of dead processes; one that the engine cannot remove does not keep
    another from starting.

    An engine may never answer about a container that was paused while a command was about to run in
    it.
    """

    def work() -> None:
        with suppress(EngineError, SandboxUnavailable):  # the next start tries again
            reap(engine)

    thread = threading.Thread(target=work, name="codeagent-reap", daemon=True)
    thread.start()
    thread.join(_REAP_SECONDS)


def state_files(state_dir: Path, uid: int, gid: int) -> tuple[Path, Path, Path]:
    """Return the empty file that masks secrets, and the container's passwd and group; make what is
    missing.

    Raises SandboxUnavailable.
    """
    folder = state_dir / "sandbox"
    keeper = f"keeper:x:{KEEPER}:{KEEPER}::/:/bin/false\n"
    root = "" if uid == 0 else "root:x:0:0::/:/bin/false\n"
    passwd = f"agent:x:{uid}:{gid}::{HOME}:/bin/bash\n{root}{keeper}"
    group = f"agent:x:{gid}:\n" + ("" if gid == 0 else "root:x:0:\n") + f"keeper:x:{KEEPER}:\n"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return (
            _written(folder / "empty", ""),
            _written(folder / f"passwd-{uid}-{gid}", passwd),
            _written(folder / f"group-{gid}", group),
        )
    except OSError as error:
        raise SandboxUnavailable(
            f"the sandbox's files cannot be kept in {folder} ({error.strerror})",
            "make it writable, or set XDG_STATE_HOME to a folder that is",
        ) from error


def _filter_file(state_dir: Path) -> str:
    """Return the path of a file with the seccomp filter; write it if it is missing. Raises
    SandboxUnavailable."""
    try:
        return str(_written(state_dir / "sandbox" / "seccomp.json", seccomp_filter()))
    except OSError as error:
        problem = (
            f"the sandbox's system call filter cannot be kept in {state_dir} ({error.strerror})"
        )
        raise SandboxUnavailable(
            problem, "make it writable, or set XDG_STATE_HOME to a folder that is"
        ) from error


def _is_rootless(engine: Engine) -> bool:
    """Tell whether the engine runs as an ordinary user, who owns its socket."""
    return Path(engine.socket_path).stat().st_uid != 0


def _written(path: Path, text: str) -> Path:
    """Write a file that everybody may read, unless it is there; two containers may be made at
    once."""
    if path.is_symlink() or not path.exists() or path.read_text(encoding="ascii") != text:
        new = path.with_name(f"{path.name}-{secrets.token_hex(8)}")
        fd = create_file(new, 0o444)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(text)
            os.fchmod(fd, 0o444)
        new.replace(path)
    return path


def _mountable(protected: tuple[PinnedEntry, ...]) -> tuple[PinnedEntry, ...]:
    for found in protected:
        if found.kind not in ("directory", "file"):
            raise SandboxUnavailable(
                f"{found.name} is a {found.kind}, which cannot be protected from commands",
                f"make {found.name} a plain directory, or remove it",
            )
    return protected


def _nameable(binds: tuple[Bind, ...]) -> tuple[Bind, ...]:
    """Raise SandboxUnavailable if the engine cannot be given a path, which then could not be
    protected or hidden."""
    for path in (path for bind in binds for path in (bind.source, bind.target)):
        if not is_utf8(path):
            raise SandboxUnavailable(
                f"{visible(path)} has to be mounted, but its name is not UTF-8, which the Docker engine needs",
                "rename or remove it",
            )
    return binds


def _binds(
    spec: SandboxSpec,
    own: tuple[Path, Path, Path],
    resources: SessionResources,
    image: ImageChoice,
    protected: tuple[PinnedEntry, ...],
    hidden: Secrets,
) -> tuple[Bind, ...]:
    root, _ = resources.opened()
    empty, passwd, group = own
    return (
        *image.binds,
        Bind(str(passwd), "/etc/passwd"),
        Bind(str(group), "/etc/group"),
        *(Bind(path, path, recursive=False) for path, _ in resources.around.mounts),
        *spec.binds,
        *_workspace(root, spec.read_only_workspace),
        *(Bind(found.path, found.path) for found in protected),
        *(Bind(str(empty), path) for path in sorted(found.path for found in hidden.masked)),
        *(() if spec.egress_folder is None else (Bind(str(spec.egress_folder), PROXY_FOLDER),)),
    )


@dataclass(frozen=True)
class _MountedCache:
    """What a container has of the package cache."""

    binds: tuple[Bind, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    mounts: tuple[tuple[str, int], ...] = ()
    """Path inside and inode."""
    warnings: tuple[str, ...] = ()


def _package_cache(spec: SandboxSpec, uid: int, image: ImageChoice) -> _MountedCache:
    """Open the package cache, except for a container that may change nothing: nothing watches how
    much it writes."""
    if spec.packages is None or spec.read_only_workspace:
        return _MountedCache()
    try:
        folder, inode = spec.packages.open(uid)
    except OSError as error:
        why = f"what commands download to install is not kept: {spec.packages.folder} ({error.strerror})"
        return _MountedCache(warnings=(why,))
    bind = Bind(str(folder), packages.INSIDE, read_only=False, recursive=False)
    variables = packages.variables_beside(image.sets)
    return _MountedCache((bind,), tuple(variables.items()), ((packages.INSIDE, inode),))


def _variables(spec: SandboxSpec) -> tuple[tuple[str, str], ...]:
    return () if spec.virtual_env is None else (("VIRTUAL_ENV", str(spec.virtual_env)),)


def _workspace(root: PinnedRoot, read_only: bool) -> tuple[Bind, ...]:
    here = str(root.path)
    if not read_only:
        return (Bind(here, here, read_only=False),)
    below = submounts(root.path)
    return (
        Bind(here, here, recursive=False),
        *(Bind(path, path, recursive=False) for path in below),
    )


def _warnings(hidden: Secrets) -> tuple[str, ...]:
    warnings = []
    names = sorted(found.name for found in hidden.masked)
    if names:
        shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        warnings.append(f"empty in bash, because they look like secrets ({len(names)}): {shown}")
    if not hidden.complete:
        warnings.append(f"the workspace is large: {NOT_ALL_MASKED}")
    return tuple(warnings)


@dataclass(frozen=True)
class SelfTest:
    """The result of a self-test, one phrase for each check."""

    passed: tuple[str, ...]
    failed: tuple[str, ...]
    """Empty if the sandbox may be used."""
    missing_tools: tuple[str, ...] = ()


async def self_test(
    engine: Engine, target: ExecTarget, root: PinnedRoot, container: Container, read_only: bool
) -> SelfTest:
    """Run the self-test. Raises EngineError if the container does not answer."""
    guarded = container.guarded
    name = f"{CHECK}{secrets.token_hex(8)}"
    reply, nonce = f"{name}-reply", secrets.token_hex(16)
    try:
        held = _write(root, name, nonce)
    except OSError as error:
        return SelfTest((), (f"the workspace cannot be written to ({error.strerror})",))
    try:
        arguments = [name, "" if read_only else reply, *(path for path, _ in guarded)]
        output = await run_script(engine, target, "check", arguments, _TEST_SECONDS)
        replied = None if read_only else _read(root, reply)
    finally:
        for left in (reply, name):
            _remove(root, left)
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
    same = answers["nonce"] == [nonce] and answers["inode"] == inodes
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
        return _OWN_KERNEL
    if test.failed == (_OWNED,) and _is_rootless(engine):
        return (
            "Docker without root gives what commands write another owner: use Podman without root (systemctl --user "
            "start podman.socket; export DOCKER_HOST=unix://$XDG_RUNTIME_DIR/podman/podman.sock), or Docker with root"
        )
    return "codeagent sandbox test shows all of it; the engine must run on this machine and see this directory"


def _write(root: PinnedRoot, name: str, text: str) -> int:
    """Write a file and keep it open and locked, so that a cleanup sees that it is in use. Raises
    OSError."""
    fd = create_file(name, 0o644, within=root.fd)
    with suppress(OSError):  # a file system without locks
        try_lock(fd)
    os.fchmod(fd, 0o644)
    os.write(fd, f"{text}\n".encode("ascii"))
    return fd


def _read(root: PinnedRoot, name: str) -> tuple[str, int] | None:
    try:
        fd = open_regular(name, within=root.fd)
    except OSError:
        return None
    with os.fdopen(fd, encoding="utf-8", errors="replace") as file:
        return file.read(1000), os.fstat(fd).st_uid


def _remove(root: PinnedRoot, name: str) -> None:
    try:
        os.unlink(name, dir_fd=root.fd)
    except FileNotFoundError:
        return


def describe(container: Container, test: SelfTest) -> SandboxInfo:
    """Describe a container that may be used."""
    absent = (
        (f"not in the sandbox: {', '.join(missing)}",) if (missing := test.missing_tools) else ()
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
