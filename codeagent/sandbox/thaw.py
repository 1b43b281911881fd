"""Records what is frozen for a checkpoint before it is, so that it is resumed or ended if this
process is killed.

This file is also a program: a process of its own that waits for this one to end. So it imports only
the standard library.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

_ENGINE_SECONDS = 10.0
_TRIES = 5
_WATCHDOG_SECONDS = 2.0
FrozenProcess = tuple[int, int]
"""Pid, and start in ticks since boot: together they identify a process for ever."""
FrozenContainer = tuple[str, str]
"""The engine's socket, and the container's id."""


class FrozenList:
    """One session's list of what is frozen, as a file and with a watchdog; both are made when first
    needed."""

    def __init__(self, state_dir: Path) -> None:
        self._file = _folder(state_dir) / f"{os.getpid()}-{os.urandom(4).hex()}.json"
        self._processes: set[FrozenProcess] = set()
        self._containers: set[FrozenContainer] = set()
        self._watchdog: subprocess.Popen[bytes] | None = None

    def add(
        self, processes: Iterable[FrozenProcess] = (), containers: Iterable[FrozenContainer] = ()
    ) -> None:
        """Record what is about to be frozen. Raises OSError."""
        self._processes |= set(processes)
        self._containers |= set(containers)
        self._write()
        if self._watchdog is None or self._watchdog.poll() is not None:
            self._watchdog = _watchdog(self._file)

    def remove(
        self, processes: Iterable[FrozenProcess] = (), containers: Iterable[FrozenContainer] = ()
    ) -> None:
        """Forget what was resumed, or is gone."""
        self._processes -= set(processes)
        self._containers -= set(containers)
        with suppress(
            OSError
        ):  # what stays on the list is resumed once more, which changes nothing
            self._write()

    def close(self) -> None:
        """Let the watchdog end, which ends what is still on the list. Idempotent."""
        watchdog = self._watchdog
        self._watchdog = None
        if watchdog is None or watchdog.stdin is None:
            return
        watchdog.stdin.close()
        try:
            watchdog.wait(_WATCHDOG_SECONDS)
        except subprocess.TimeoutExpired:
            return  # it waits for an engine, and ends by itself

    def _write(self) -> None:
        if not self._processes and not self._containers:
            self._file.unlink(missing_ok=True)
            return
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._file.with_suffix(".tmp")
        facts = {
            "owner": owner(os.getpid()),
            "processes": [*self._processes],
            "containers": [*self._containers],
        }
        new.write_text(json.dumps(facts), encoding="utf-8")
        new.replace(self._file)


def thaw_left(state_dir: Path) -> int:
    """Thaw what killed sessions left frozen and their watchdogs could not thaw; return how many
    sessions. Blocks."""
    files = [
        file
        for file in _folder(state_dir).glob("*.json")
        if is_stray(str(_facts(file).get("owner")))
    ]
    for file in files:
        thaw(file)
    return len(files)


def thaw(file: Path) -> None:
    """Resume the processes on the list; remove its containers, which can no longer be used."""
    facts = _facts(file)
    for pid, start in facts.get("processes", []):
        if _started(pid) == str(start):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGCONT)
    ended = [_end(engine, container) for engine, container in facts.get("containers", [])]
    if all(ended):
        file.unlink(missing_ok=True)


def is_stray(label: str) -> bool:
    """Tell whether the process that wrote `label` is certainly gone.

    False for a process of another pid namespace: its pids mean nothing here.
    """
    boot, _, rest = label.partition("/")
    namespace, _, rest = rest.partition("/")
    pid = rest.partition("/")[0]
    if not pid.isdigit() or namespace != _namespace():
        return False
    return boot != _boot() or owner(int(pid)) != label


def owner(pid: int) -> str | None:
    """Return `boot/namespace/pid/start`, which identifies a process for ever, even after its pid is
    reused."""
    start = _started(pid)
    return None if start is None else f"{_boot()}/{_namespace()}/{pid}/{start}"


def _started(pid: int) -> str | None:
    try:
        return (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()[19]
        )
    except OSError:
        return None


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


def _folder(state_dir: Path) -> Path:
    return state_dir / "sandbox" / "frozen"


def _facts(file: Path) -> dict[str, Any]:
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _end(engine: str, container: str) -> bool:
    """Remove a container; return whether it is gone. A pause may be in progress, so it is not just
    resumed."""
    import http.client  # only once a container was left

    for attempt in range(_TRIES):
        connection = http.client.HTTPConnection("engine")
        try:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(_ENGINE_SECONDS)
            connection.sock.connect(engine)
            connection.request("DELETE", f"/containers/{container}?force=1&v=1")
            if connection.getresponse().status in (204, 404):
                return True
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        time.sleep(0.2 * attempt)
    return False


def _watchdog(file: Path) -> subprocess.Popen[bytes]:
    """Start a process in its own session that waits until this one closes its standard input, or
    ends.

    Raises OSError.
    """
    from codeagent.core.host_programs import (
        THAWING,
        open_program,
    )  # not for the program that this file is as well

    return open_program(
        THAWING,
        [sys.executable, "-I", "-S", __file__, str(file)],
        folder="/",
        environment={},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


if __name__ == "__main__":
    sys.stdin.buffer.read()
    if os.path.lexists(sys.argv[1]):
        thaw(Path(sys.argv[1]))
