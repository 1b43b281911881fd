"""Builds the whole profile of the container, from a few plain values to the engine's JSON."""

import json
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.sandbox.spec import Bind, SandboxLimits, View

KEEPER = 65533
"""Uid and gid of the container's main process: not those of the work, so that work cannot end
it."""
HOME = "/home/agent"
PROXY_FOLDER = "/run/codeagent"
"""Where the folder of the proxy's socket is mounted."""
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {
    "HOME": HOME,
    "USER": "agent",
    "LOGNAME": "agent",
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "CI": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "explicit",
}
"""The environment of a command, besides PATH, the image's own variables and the call's mark.

Commands that only read run without approval, and `git status` is one: so git must not take a folder
for a repository because files of the workspace make it look like one, with a configuration that
names programs. And running the tests is to change nothing: Python writes no bytecode beside them.
"""

_READ_ONLY_DEVICES = {
    "/dev": "ro,dev,nosuid,noexec,mode=755,size=64k",
    "/dev/shm": "rw,nosuid,nodev,noexec,mode=1777,size=64m",
}
"""The engine's own /dev belongs to root and stays writable: work that runs as root could replace
/dev/null in it."""
_SET_ID_BITS = 0o6000
_CREATES = 0o100 | 0o20000000
"""O_CREAT and the bit of O_TMPFILE that no other flag has."""
_WITHHELD = frozenset(
    {"io_uring_setup", "io_uring_enter", "io_uring_register", "openat2", "socketcall"}
)
"""openat2 and socketcall take their arguments through a pointer, which a filter cannot see;
programs fall back."""
_ENOSYS = 38
_MODE_ARGUMENT = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "creat": 1}
_FLAGS_AND_MODE_ARGUMENTS = {"open": (1, 2), "openat": (2, 3)}
_SOCKET_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK; above all not AF_VSOCK, which no network namespace
holds back."""
_MKNOD_MODE_ARGUMENT = {"mknod": 1, "mknodat": 2}
_FILE_TYPE = 0o170000
_PLAIN_TYPES = (0, 0o010000, 0o100000, 0o140000)
"""What mknod may make: a file (0 means the same), a FIFO, a socket; never a device."""


@dataclass(frozen=True)
class ContainerSpec:
    """What differs from one container to the next."""

    image: str
    root: str
    """Working directory of every command."""
    uid: int
    gid: int
    """Of the work, for the home directory; the container itself starts as KEEPER."""
    binds: tuple[Bind, ...]
    path: str
    limits: SandboxLimits
    variables: tuple[tuple[str, str], ...] = ()
    """What commands have in their environment besides ENVIRONMENT and PATH."""
    seccomp_file: str = ""
    """A file with the filter of `seccomp_filter`, for Podman, which takes only a file; empty for
    the filter itself."""
    user_namespace: str = ""
    """`keep-id`: the user's own uid is the same inside; for Podman without root."""
    view: View | None = None
    """The view of the workspace that it is; None: it has scratch and loopback of its own."""
    layer: tuple[str, str] | None = None
    """The folder that is shown at the root, and one with `upper`, which gets the changes, and
    `work`, which is the kernel's; None: the root is a bind like any other."""


def create_arguments(spec: ContainerSpec, labels: dict[str, str]) -> dict[str, Any]:
    """Return the body of `POST /containers/create`."""
    environment = ENVIRONMENT | {"PATH": spec.path} | dict(spec.variables)
    limits = {"core": 0, "nofile": 4096} | ({"nproc": 4096} if spec.seccomp_file else {})
    devices, terminals = (_READ_ONLY_DEVICES, [_terminals(labels)]) if spec.uid == 0 else ({}, [])
    return {
        "Image": spec.image,
        "Entrypoint": [],
        "Cmd": ["cat"],
        "User": f"{KEEPER}:{KEEPER}",
        "Env": [f"{name}={value}" for name, value in sorted(environment.items())],
        "WorkingDir": "/",
        **({} if spec.view else {"Hostname": "sandbox"}),
        "Labels": labels | {"codeagent.profile": profile_hash(spec)},
        "Healthcheck": {"Test": ["NONE"]},
        "AttachStdin": True,
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdout": False,
        "AttachStderr": False,
        "Tty": False,
        "NetworkDisabled": spec.view is None,
        "HostConfig": {
            "AutoRemove": True,
            "Init": True,
            "NetworkMode": f"container:{spec.view.container_id}" if spec.view else "none",
            "Privileged": False,
            "CapDrop": ["ALL"],
            "SecurityOpt": [
                "no-new-privileges",
                f"seccomp={spec.seccomp_file or seccomp_filter()}",
            ],
            "ReadonlyRootfs": True,
            "Tmpfs": {**(_memory(spec) if spec.seccomp_file else {}), **devices},
            "Mounts": [
                *(_mount(bind) for bind in spec.binds),
                *([_overlay(spec.root, spec.layer, labels)] if spec.layer else []),
                *([] if spec.seccomp_file else _scratch(spec, labels)),
                *terminals,
            ],
            "IpcMode": "private",
            **({"UsernsMode": spec.user_namespace} if spec.user_namespace else {}),
            "CgroupnsMode": "private",
            "PidsLimit": spec.limits.pids,
            "Memory": spec.limits.memory_bytes,
            "MemorySwap": spec.limits.memory_bytes,
            "NanoCpus": int(spec.limits.cpus * 1e9),
            "Ulimits": [
                {"Name": name, "Soft": most, "Hard": most} for name, most in limits.items()
            ],
            "LogConfig": {"Type": "none", "Config": {}},
            "RestartPolicy": {"Name": "no"},
        },
    }


def profile_hash(spec: ContainerSpec) -> str:
    """Return twelve hex digits that change with anything in the profile."""
    return sha256(f"{spec!r}{seccomp_filter()}".encode()).hexdigest()[:12]


@lru_cache(maxsize=1)
def seccomp_filter() -> str:
    """Return the pinned profile as JSON, without what no command needs.

    Taken away: io_uring, device nodes, unusual socket families, and every way to give a file a
    set-uid or set-gid bit, which would keep its meaning on the host, outside the container. The x32
    calls go, too: no distribution's programs make them, and the engine, which compiles the filter
    for every command, spends a third of that on them.
    """
    profile = json.loads(Path(__file__).with_name("seccomp.json").read_bytes())
    replaced = {"socket"} | _WITHHELD | _MODE_ARGUMENT.keys() | _FLAGS_AND_MODE_ARGUMENTS.keys()
    replaced |= _MKNOD_MODE_ARGUMENT.keys()
    for machine in profile["archMap"]:
        machine["subArchitectures"] = [
            name for name in machine["subArchitectures"] if name != "SCMP_ARCH_X32"
        ]
    for rule in profile["syscalls"]:
        rule["names"] = [name for name in rule["names"] if name not in replaced]
    absent = {"names": sorted(_WITHHELD), "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS}
    kept = [rule for rule in profile["syscalls"] if rule["names"]]
    profile["syscalls"] = [*kept, absent, *_narrowed_rules()]
    return json.dumps(profile, separators=(",", ":"))


def _narrowed_rules() -> list[dict[str, Any]]:
    rules = [_allow(name, _is(mode, _SET_ID_BITS, 0)) for name, mode in _MODE_ARGUMENT.items()]
    for name, (flags, mode) in _FLAGS_AND_MODE_ARGUMENTS.items():
        rules += [_allow(name, _is(mode, _SET_ID_BITS, 0)), _allow(name, _is(flags, _CREATES, 0))]
    for name, mode in _MKNOD_MODE_ARGUMENT.items():
        rules += [_allow(name, _is(mode, _FILE_TYPE | _SET_ID_BITS, kind)) for kind in _PLAIN_TYPES]
    return rules + [_allow("socket", _is(0, 0xFFFFFFFF, family)) for family in _SOCKET_FAMILIES]


def _allow(name: str, condition: dict[str, Any]) -> dict[str, Any]:
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": [condition]}


def _is(index: int, mask: int, value: int) -> dict[str, Any]:
    """Return the condition that argument `index`, masked, is `value`; the engine names them the
    other way round."""
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _memory(spec: ContainerSpec) -> dict[str, str]:
    """Return `/tmp` and the home directory as Podman takes them, which gives them no owner."""
    options = f"rw,exec,nosuid,nodev,size={spec.limits.tmp_bytes},mode=1777"
    return {"/tmp": options, HOME: options}


def _scratch(spec: ContainerSpec, labels: dict[str, str]) -> list[dict[str, Any]]:
    """Return `/tmp` and the home directory as volumes in memory, which other containers can share.

    They go with the last of these containers, and are labelled for the case that the engine leaves
    one.
    """
    size = f"nosuid,nodev,size={spec.limits.tmp_bytes}"
    options = {"/tmp": f"{size},mode=1777", HOME: f"{size},mode=0700,uid={spec.uid},gid={spec.gid}"}
    shared = ("", "") if spec.view is None else spec.view.scratch
    mounts = []
    for target, name in zip(options, shared, strict=True):
        mount: dict[str, Any] = {"Type": "volume", "Target": target}
        if name:
            mounts.append(mount | {"Source": name, "VolumeOptions": {"NoCopy": True}})
            continue
        driver = {"type": "tmpfs", "device": "tmpfs", "o": options[target]}
        mounts.append(mount | {"VolumeOptions": _new_volume(driver, labels)})
    return mounts


def _overlay(target: str, layer: tuple[str, str], labels: dict[str, str]) -> dict[str, Any]:
    """Return a mount that goes with the container; nothing of the layer is made durable."""
    lower, own = layer
    options = f"lowerdir={lower},upperdir={own}/upper,workdir={own}/work,userxattr,volatile"
    driver = {"type": "overlay", "device": "overlay", "o": options}
    volume = _new_volume(driver, labels)
    return {"Type": "volume", "Target": target, "VolumeOptions": volume}


def _new_volume(options: dict[str, str], labels: dict[str, str]) -> dict[str, Any]:
    driver = {"Name": "local", "Options": options}
    return {"NoCopy": True, "DriverConfig": driver, "Labels": labels}


def _terminals(labels: dict[str, str]) -> dict[str, Any]:
    """Return new pseudo-terminals for _READ_ONLY_DEVICES, which cover the engine's own.

    The volume goes with the container, and is labelled for the case that the engine leaves it.
    """
    options = "nosuid,noexec,newinstance,ptmxmode=0666,mode=620,gid=5"
    driver = {"type": "devpts", "device": "devpts", "o": options}
    return {"Type": "volume", "Target": "/dev/pts", "VolumeOptions": _new_volume(driver, labels)}


def _mount(bind: Bind) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": bind.source,
        "Target": bind.target,
        "ReadOnly": bind.read_only,
        "BindOptions": {"Propagation": "rprivate", "NonRecursive": not bind.recursive},
    }
