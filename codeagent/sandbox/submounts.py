"""File systems that are mounted below the workspace: a read-only mount of the workspace says nothing about them."""

import os
import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_WHERE = 4
_ESCAPED = re.compile(rb"\\([0-7]{3})")


def submounts(root: Path) -> tuple[str, ...]:
    """Where they are, as absolute paths; none where the system does not list its mounts."""
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except OSError:
        return ()
    raw = (_ESCAPED.sub(lambda match: bytes([int(match[1], 8)]), line.split()[_WHERE]) for line in lines)
    below = os.fsencode(root) + b"/"
    return tuple(dict.fromkeys(os.fsdecode(path) for path in raw if path.startswith(below)))
