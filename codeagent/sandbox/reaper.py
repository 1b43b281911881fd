"""Containers whose agent is gone: found by label, removed at the next start."""

import os
from pathlib import Path

from codeagent.sandbox.docker import Engine

LABEL = "codeagent=1"


def labels(session: str, instance: str, root: str) -> dict[str, str]:
    """What every container carries, so that nobody adopts or removes a stranger's."""
    return {
        "codeagent": "1",
        "codeagent.session": session,
        "codeagent.instance": instance,
        "codeagent.pid": str(os.getpid()),
        "codeagent.owner": owner(os.getpid()) or "",
        "codeagent.workspace": root,
    }


def reap(engine: Engine) -> int:
    """Remove our containers whose process is dead; returns how many."""
    strays = [facts for facts in engine.containers(LABEL) if is_stray(facts.labels.get("codeagent.owner", ""))]
    for facts in strays:
        engine.remove(facts.container_id)
    return len(strays)


def is_stray(label: str) -> bool:
    """Whether the process that wrote `label` is certainly gone.

    Never for a process of another pid namespace: its pids mean nothing here.
    """
    boot, _, rest = label.partition("/")
    namespace, _, rest = rest.partition("/")
    pid = rest.partition("/")[0]
    if not pid.isdigit() or namespace != _namespace():
        return False
    return boot != _boot() or owner(int(pid)) != label


def owner(pid: int) -> str | None:
    """`boot/namespace/pid/start`: names one process for ever, also after its pid was given to another."""
    try:
        start = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except OSError:
        return None
    return f"{_boot()}/{_namespace()}/{pid}/{start}"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())
