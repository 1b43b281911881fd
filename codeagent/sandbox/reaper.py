"""Containers whose agent is gone: found by label, removed at the next start."""

import os

from codeagent.sandbox.docker import Engine
from codeagent.sandbox.thaw import is_stray, owner

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
