"""Programs under strace: what they do is written down, or they are killed at one of their system
calls."""

import os
import re
from pathlib import Path

STARTS = "clone,clone3,fork,vfork"
"""The calls by which processes make others."""
_CALL = re.compile(
    r'^(\d+) +(exec\w+|open\w*)\((?:AT_FDCWD<([^>]*)>|\d+<([^>]*)>)?(?:, )?"((?:[^"\\]|\\.)*)".* = \d+'
)
_UNFINISHED = " <unfinished ...>"
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)$")
_MADE = re.compile(r"^(\d+) .*\b(?:v?fork|clone3?)\b.* = (\d+)$")


def writing_down(calls: str, log: Path) -> tuple[str, ...]:
    """What to put before a command so that these calls, of all its processes, are in the file
    `log`."""
    return (
        "strace",
        "-f",
        "-y",
        "-s",
        "4096",
        "--seccomp-bpf",
        "-e",
        f"trace={calls}",
        "-o",
        str(log),
    )


def killing_at(calls: str, nth: int) -> tuple[str, ...]:
    """What to put before a command so that it is killed at the nth of these calls; each thread
    counts its own."""
    return "strace", "-f", "-o", "/dev/null", f"--inject={calls}:signal=KILL:when={nth}"


def whole_lines(log: Path) -> list[str]:
    """What was written down, a call in each line, in the order of their ends."""
    lines, begun = [], dict[str, str]()
    for line in log.read_text(errors="replace").splitlines():
        pid = line.partition(" ")[0]
        if line.endswith(_UNFINISHED):
            begun[pid] = line.removesuffix(_UNFINISHED)
        elif resumed := _RESUMED.search(line):
            lines.append(f"{begun.pop(pid, '')}{resumed[1]}")
        else:
            lines.append(line)
    return [*lines, *begun.values()]


def executed(log: Path) -> list[str]:
    """The programs that were executed, in order."""
    return [path for _, call, path in _calls(log) if call.startswith("exec")]


def touched(log: Path, *, but: frozenset[str] = frozenset()) -> list[str]:
    """What was executed or opened without an error by the programs that the first one started, and
    by theirs.

    The trace must have `STARTS` in it. `but`: names of programs that do not count.
    """
    made = [match.groups() for match in map(_MADE.search, whole_lines(log)) if match]
    first, *rest = [(pid, path) for pid, call, path in _calls(log) if call.startswith("exec")]
    begun = {pid for pid, path in rest if pid != first[0] and Path(path).name not in but}
    for parent, child in made:
        if parent in begun:
            begun.add(child)
    return [path for pid, _, path in _calls(log) if pid in begun]


def _calls(log: Path) -> list[tuple[str, str, str]]:
    """The process, the name and the path of each call that had no error."""
    found = map(_CALL.search, whole_lines(log))
    return [
        (call[1], call[2], os.path.normpath(Path(call[3] or call[4] or "", call[5])))
        for call in found
        if call is not None
    ]
