"""Start `codeagent`, or a program around its screen, by a fork of a process that has imported it
already.

Importing costs half a second of processor time; a fork costs ten milliseconds. What runs is the
same: `codeagent.cli.main`, or the file, with its own descriptors, environment, folder, session and
controlling terminal; at the end threads are waited for, exit functions run and streams flushed.
Tests that are about the start or the interpreter's own end use `subprocess`.

The server is this module run as a program: one for all workers of a test run, started when it is
first needed, and ended with the process that began the run. With arguments, this module as a
program is `codeagent` with these arguments: what other code starts by a command line.
"""

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

ROOT = Path(__file__).parents[1]
PRELOADED = (
    "codeagent.cli",
    "codeagent.commands.chat",
    "codeagent.commands.launcher",
    "codeagent.extensions.mcp.command",
    "codeagent.extensions.mcp_serve.command",
    "codeagent.commands.run",
    "codeagent.app.work",
    "codeagent.tui.app",
    "codeagent.tui.session_client",
    "markdown_it",
    "codeagent.tui.pages.opening",
    "codeagent.llm.native.model",
    "codeagent.extensions.mcp_serve.server",
    "codeagent.sandbox.docker_sandbox",
    "codeagent.sandbox.host",
    "codeagent.sandbox.launch",
    "docker",
    "pygments.lexers.python",
)
RUN = "CODEAGENT_TESTS_RUN"
"""The variable with the id of the process that began the run; set in `conftest.py`, inherited by
its workers."""


class WarmProcess:
    """A running `codeagent`, or the Python file `program`, with the part of `subprocess.Popen` that
    tests use.

    `stdin`, `stdout` and `stderr` are descriptors, files, `subprocess.DEVNULL` or (not stdin)
    `subprocess.PIPE`. `terminal`: it leads a session of its own whose controlling terminal is
    `stdin`, and cards take keys at once: how long they take none at first is tested with a clock
    that a test moves, see `tests/tui/guards.py`.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        program: str = "",
        env: Mapping[str, str],
        cwd: Path | None = None,
        stdin: Any = subprocess.DEVNULL,
        stdout: Any = subprocess.DEVNULL,
        stderr: Any = subprocess.DEVNULL,
        terminal: bool = False,
    ) -> None:
        self.returncode: int | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        opened: list[int] = []
        given = []
        for name, stream in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr)):
            if stream == subprocess.DEVNULL:
                opened.append(os.open(os.devnull, os.O_RDWR))
                given.append(opened[-1])
            elif stream == subprocess.PIPE:
                reading, writing = os.pipe()
                opened.append(writing)
                given.append(writing)
                setattr(self, name, os.fdopen(reading))
            else:
                given.append(stream if isinstance(stream, int) else stream.fileno())
        asked = {
            "argv": [*arguments],
            "program": program,
            "env": dict(env),
            "cwd": str(cwd or Path.cwd()),
            "terminal": terminal,
        }
        message = json.dumps(asked).encode("utf-8", "surrogateescape")
        self._connection = _connect()
        socket.send_fds(self._connection, [len(message).to_bytes(4)], given)
        self._connection.sendall(message)
        for fd in opened:
            os.close(fd)
        self.pid = int.from_bytes(_received(self._connection, 4))

    def poll(self) -> int | None:
        """The exit code, negative after a signal; None while it runs."""
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self._collect()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        if self.returncode is None and not select.select([self._connection], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("codeagent", timeout or 0)
        return self._collect()

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that comes out of the pipes, until both are closed and the process has ended."""
        deadline = time.monotonic() + (timeout or 3600)
        texts = {stream: b"" for stream in (self.stdout, self.stderr) if stream is not None}
        with selectors.DefaultSelector() as reading:
            for stream in texts:
                reading.register(stream, selectors.EVENT_READ)
            while reading.get_map():
                if not (ready := reading.select(max(0, deadline - time.monotonic()))):
                    raise subprocess.TimeoutExpired("codeagent", timeout or 0)
                for key, _ in ready:
                    data = os.read(key.fd, 65536)
                    texts[key.fileobj] += data  # type: ignore[index]  # the files registered above
                    if not data:
                        reading.unregister(key.fileobj)
        self.wait(max(0.01, deadline - time.monotonic()))
        read = [
            texts[stream].decode() if stream is not None else ""
            for stream in (self.stdout, self.stderr)
        ]
        return read[0], read[1]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _collect(self) -> int:
        if self.returncode is None:
            self.returncode = int.from_bytes(_received(self._connection, 4), signed=True)
            self._connection.close()
        return self.returncode


def launch(argv: Sequence[str], **options: Any) -> "subprocess.Popen[Any] | WarmProcess":
    """`argv` as a process: warm where it is `python -m codeagent …` or `python FILE.py …`, else by
    `subprocess`."""
    if list(argv[:3]) == [sys.executable, "-m", "codeagent"]:
        return WarmProcess(argv[3:], **options)
    if argv[0] == sys.executable and argv[1].endswith(".py"):
        return WarmProcess(argv[2:], program=argv[1], **options)
    if options.pop("terminal", False):
        options |= {"start_new_session": True, "preexec_fn": _take_terminal}
    return subprocess.Popen(argv, **options)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (more := connection.recv(size - len(data))):
            raise RuntimeError("the process that forks programs has died; its errors are above")
        data += more
    return data


def _address() -> str:
    return f"\0codeagent-tests-{os.environ[RUN]}"


def _connect() -> socket.socket:
    """To the server, which the first to ask starts: of two that start at once, one finds its
    address taken and ends."""
    connection = socket.socket(socket.AF_UNIX)
    deadline = time.monotonic() + 60
    started = False
    while time.monotonic() < deadline:
        with contextlib.suppress(ConnectionRefusedError):
            connection.connect(_address())
            return connection
        if not started:
            quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
            subprocess.Popen(
                [sys.executable, "-m", "tests.warm"], cwd=ROOT, start_new_session=True, **quiet
            )
            started = True
        time.sleep(0.02)
    raise RuntimeError("the process that forks programs did not start")


def _serve(requests: socket.socket, run: int) -> dict[str, Any]:
    """Fork for each request until the process that began the run ends; returns only in a fork, with
    its request."""
    running: dict[int, socket.socket] = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    ended = os.pidfd_open(run)
    while True:
        ready = select.select([requests, woken, ended], [], [])[0]
        if ended in ready:
            os._exit(0)
        if woken in ready:
            os.read(woken, 4096)
            _report(running)
        if requests not in ready:
            continue
        connection, _ = requests.accept()
        size, fds, _, _ = socket.recv_fds(connection, 4, 3)
        asked = json.loads(
            _received(connection, int.from_bytes(size)).decode("utf-8", "surrogateescape")
        )
        if (pid := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for other in [requests, connection, *running.values()]:
                other.close()
            for fd in (woken, wake, ended):
                os.close(fd)
            _become(asked, fds)
            return dict(asked)
        running[pid] = connection
        connection.sendall(pid.to_bytes(4))
        for fd in fds:
            os.close(fd)


def _report(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with contextlib.suppress(OSError), running.pop(pid) as connection:
            connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, signed=True))


def _become(asked: dict[str, Any], streams: list[int]) -> None:
    if asked["terminal"]:
        os.setsid()
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
        from codeagent.tui.parts import (
            guard,
        )  # imported before the fork, and not by what only asks for one

        guard.QUIET = guard.REPEAT = 0.0
    for fd, stream in enumerate(streams):
        os.dup2(stream, fd)
    for stream in streams:
        os.close(stream)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    tempfile.tempdir = None  # what was found for another environment
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(fd, mode, encoding="utf-8") for fd, mode in enumerate("rww")
    )
    sys.argv = [asked["program"] or str(ROOT / "codeagent/__main__.py"), *asked["argv"]]
    sys.path[0] = str(Path(asked["program"]).parent) if asked["program"] else asked["cwd"]
    for folder in asked["env"].get("PYTHONPATH", "").split(os.pathsep):
        sys.path.insert(1, folder)


def end(code: int) -> NoReturn:
    """Exit as the interpreter does, but without freeing a million objects one by one, which takes
    longer than a run."""
    threading._shutdown()  # waits for threads; has no public name
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.exit(
            code
        )  # a broken pipe or a closed stream: the interpreter itself decides what that means
    os._exit(code)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(WarmProcess(sys.argv[1:], env=os.environ, stdin=0, stdout=1, stderr=2).wait())
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(_address())
    except OSError:
        sys.exit()  # another worker was faster
    listening.listen(64)
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()
    asked = _serve(listening, int(os.environ[RUN]))
    if asked["program"]:
        runpy.run_path(asked["program"], run_name="__main__")
        end(0)
    else:
        from codeagent.cli import main

        end(main(asked["argv"]))
