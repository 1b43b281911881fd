"""A race: a process that swaps a directory and a link to outside as fast as it can."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fakes import put

CANARY = "CANARY-7f3a"
INSIDE = "inside-value"
_EXCHANGE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
os.chdir(sys.argv[1])
print("ready", flush=True)
while True:
    if libc.renameat2(-100, b"d", -100, b"s", 2) != 0:
        sys.exit(f"renameat2: {os.strerror(ctypes.get_errno())}")
"""


@dataclass(frozen=True)
class Arena:
    """`root/d` is a directory and `root/s` a link to `outside`, or the other way round."""

    root: Path
    outside: Path

    def outside_state(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.outside)): path.read_bytes()
            for path in self.outside.rglob("*")
        }


def make_arena(folder: Path) -> Arena:
    root, outside = folder / "project", folder / "outside"
    put(root, "d/f.txt", f"{INSIDE}\n")
    put(outside, "f.txt", f"{CANARY} {INSIDE}\n")
    put(outside, f"{CANARY}.txt", f"{CANARY}\n")
    (root / "s").symlink_to(outside)
    return Arena(root, outside)


@contextmanager
def swapping(root: Path) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", _EXCHANGE, str(root)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
        assert process.poll() is None, "the swapping process died, so nothing was tested"
    finally:
        process.kill()
        process.communicate()


def naive_read(root: Path, path: str) -> str | None:
    """What every breached agent did: resolve, compare, then open."""
    target = (root / path).resolve()
    if not target.is_relative_to(root.resolve()):
        return None
    return target.read_text()
