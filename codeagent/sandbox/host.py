"""The opt-in without walls: commands run on this machine, in a session of their own. Only by explicit choice."""

import asyncio
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from codeagent.core.errors import SandboxUnavailable
from codeagent.core.ports import Command, CommandResult, OnOutput, SandboxInfo
from codeagent.core.redact import is_secret_name
from codeagent.sandbox.background import to_the_end
from codeagent.sandbox.execution import DRAIN_SECONDS, LONGEST_ARGUMENT

_MARK = "CODEAGENT_CALL"
_PIECE = 64 * 1024
_TERM_SECONDS = 2.0
_KILL_SECONDS = 2.0
_STEP = 0.02
_POLL_SECONDS = 0.05
_ALSO_SECRET = frozenset({"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS"})


@dataclass(frozen=True)
class _Process:
    pid: int
    parent: int
    session: int
    marked: bool


class _Pipe:
    """A pipe whose reading end can be closed while a child still holds the other."""

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.ReadTransport, write_fd: int) -> None:
        self.reader = reader
        self.write_fd = write_fd
        self._transport = transport
        self._left = False

    @classmethod
    async def open(cls) -> "_Pipe":
        read_fd, write_fd = os.pipe()
        reader = asyncio.StreamReader(limit=_PIECE)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_fd, "rb", 0)
        )
        return cls(reader, transport, write_fd)

    def leave_to_child(self) -> None:
        if not self._left:
            os.close(self.write_fd)
        self._left = True

    def close(self) -> None:
        self.leave_to_child()
        self._transport.close()


class HostSandbox:
    """`codeagent.core.ports.Sandbox` without a container; confines nothing."""

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        """`environment` is this process's; variables that hold secrets are left out for commands."""
        self._root = root
        self._environment = {
            name: value
            for name, value in environment.items()
            if not is_secret_name(name) and name not in _ALSO_SECRET and name != _MARK
        }

    async def start(self, on_progress: Callable[[str], None]) -> SandboxInfo:
        return SandboxInfo(
            kind="host",
            image="",
            image_origin="none",
            user=f"{os.getuid()}:{os.getgid()}",
            network="open",
            warnings=("there is no sandbox: commands run on this machine with your rights",),
        )

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        """See the port."""
        mark = secrets.token_hex(8)
        stdout, stderr = await _Pipe.open(), await _Pipe.open()
        try:
            process = await self._spawn(command.text.encode("utf-8", "replace"), mark, stdout, stderr)
        except BaseException:
            stdout.close()
            stderr.close()
            raise
        outputs = [
            asyncio.create_task(_pass_on(stdout.reader, "stdout", on_output)),
            asyncio.create_task(_pass_on(stderr.reader, "stderr", on_output)),
        ]
        try:
            await _ended(process, outputs)
            await _drain(outputs)
            return CommandResult(exit_code=process.returncode, left_running=len(_family(process.pid, mark)))
        except asyncio.CancelledError:
            killed = await to_the_end(_stop(process, mark))
            await to_the_end(_drain(outputs, swallow=True))
            return CommandResult(exit_code=None, stopped=True, killed=killed)
        except BaseException:
            await to_the_end(_stop(process, mark))
            raise
        finally:
            for output in outputs:
                output.cancel()
            stdout.close()
            stderr.close()

    async def close(self) -> None:
        """Nothing outlives a command but what it left running on purpose."""

    async def _spawn(self, script: bytes, mark: str, stdout: "_Pipe", stderr: "_Pipe") -> asyncio.subprocess.Process:
        with tempfile.TemporaryFile() as file:
            short = len(script) <= LONGEST_ARGUMENT and b"\0" not in script
            if not short:
                file.write(script)
                file.seek(0)
            arguments = ["-c", script.decode()] if short else [f"/dev/fd/{file.fileno()}"]
            try:
                return await asyncio.create_subprocess_exec(
                    "bash",
                    *arguments,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=stdout.write_fd,
                    stderr=stderr.write_fd,
                    cwd=self._root,
                    env=self._environment | {_MARK: mark},
                    start_new_session=True,
                    pass_fds=() if short else (file.fileno(),),
                )
            except OSError as error:
                raise SandboxUnavailable(f"bash cannot be started: {error.strerror}", "install bash") from error
            finally:
                stdout.leave_to_child()
                stderr.leave_to_child()


async def _pass_on(reader: asyncio.StreamReader, stream: Literal["stdout", "stderr"], on_output: OnOutput) -> None:
    while piece := await reader.read(_PIECE):
        await on_output(stream, piece)


async def _ended(process: asyncio.subprocess.Process, outputs: list[asyncio.Task[None]]) -> None:
    """Returns when the process has exited, whoever still holds its pipes; raises what `on_output` raised."""
    waiting = asyncio.create_task(process.wait())
    try:
        while process.returncode is None:
            await asyncio.wait({waiting, *outputs}, timeout=_POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for output in outputs:
                if output.done():
                    output.result()
            if all(output.done() for output in outputs):
                await asyncio.wait({waiting}, timeout=_POLL_SECONDS)
    finally:
        waiting.cancel()


async def _drain(outputs: list[asyncio.Task[None]], *, swallow: bool = False) -> None:
    """Pass on what is still in the pipes; a child may hold them for ever."""
    done, _ = await asyncio.wait(outputs, timeout=DRAIN_SECONDS)
    for output in done:
        if not swallow:
            output.result()
        elif not output.cancelled():
            output.exception()


async def _stop(process: asyncio.subprocess.Process, mark: str) -> int:
    """TERM, two seconds, KILL to everything the command started; returns how many there were."""
    seen: set[int] = set()
    for number, seconds in ((signal.SIGTERM, _TERM_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
        end = time.monotonic() + seconds
        signalled: set[int] = set()
        while (family := _family(process.pid, mark)) and time.monotonic() < end:
            for pid in family if number == signal.SIGKILL else family - signalled:
                _signal(pid, number)
            signalled |= family
            seen |= family
            await asyncio.sleep(_STEP)
    if process.returncode is None:
        _signal(-process.pid, signal.SIGKILL)
    return len(seen)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _family(leader: int, mark: str) -> set[int]:
    """Pids of a command's processes: by its mark, its session, or their parents. Empty without /proc."""
    processes = list(_processes(mark))
    family = {process.pid for process in processes if process.marked or process.session == leader}
    while more := {process.pid for process in processes if process.parent in family} - family:
        family |= more
    return family


def _processes(mark: str) -> Iterator[_Process]:
    word = f"{_MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent, _, session = (folder / "stat").read_text(errors="replace").rpartition(") ")[2].split()[:4]
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if state not in ("Z", "X"):
            yield _Process(int(folder.name), int(parent), int(session), word in environment)
