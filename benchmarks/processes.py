"""What a process and its children use: memory, each shared page counted once, and processor
time."""

import os
import time
from collections import defaultdict
from pathlib import Path

_PER_SECOND = os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """Proportional set size (PSS) of the process and all it started."""
    return sum(map(_pss_kb, _tree(pid))) / 1024


def cpu_seconds(pid: int) -> float:
    """All threads, also those that have ended, and the children: exact but for those that were
    waited for."""
    return sum(_cpu(each) for each in _tree(pid))


def _tree(pid: int) -> list[int]:
    children = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            children[int(_stat(path)[1])].append(int(path.parent.name))
        except OSError:
            continue  # it has just ended
    found = [pid]
    for each in found:
        found += children[each]
    return found


def _stat(path: Path) -> list[str]:
    """The fields after the program's name: state, parent, …"""
    return path.read_text().rpartition(") ")[2].split()


def _pss_kb(pid: int) -> int:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next(
        (int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0
    )


def _cpu(pid: int) -> float:
    try:
        waited_for = sum(map(int, _stat(Path(f"/proc/{pid}/stat"))[13:15])) / _PER_SECOND
        return (
            time.clock_gettime(~pid << 3 | 2) + waited_for
        )  # the kernel's number of another process's clock
    except OSError:
        return 0.0
