"""Programs under strace: what they do is written down, or they are killed at one of their system calls."""

from pathlib import Path


def writing_down(calls: str, log: Path) -> tuple[str, ...]:
    """What to put before a command so that these calls, of all its processes, are in the file `log`."""
    return "strace", "-f", "-y", "-s", "4096", "--seccomp-bpf", "-e", f"trace={calls}", "-o", str(log)


def killing_at(calls: str, nth: int) -> tuple[str, ...]:
    """What to put before a command so that it is killed at the nth of these calls; each thread counts its own."""
    return "strace", "-f", "-o", "/dev/null", f"--inject={calls}:signal=KILL:when={nth}"
