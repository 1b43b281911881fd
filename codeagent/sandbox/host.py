"""Runs commands on this machine without a sandbox, in a session of their own; only by explicit
choice."""

import asyncio
import errno
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

from codeagent.core.errors import SandboxUnavailable
from codeagent.core.host_programs import COMMAND, WATCHDOG, close_pipes, new_mark, start_program
from codeagent.core.messages import OutputStream
from codeagent.core.programs import find_program
from codeagent.core.redact import is_secret_name
from codeagent.core.sandbox import (
    Command,
    CommandResult,
    OnOutput,
    RunningProgram,
    SandboxInfo,
    SandboxSweep,
    StdioProgram,
    Trial,
)
from codeagent.core.watchdog import MARK
from codeagent.sandbox.freeze import FreezeLock
from codeagent.sandbox.process_tree import (
    ProcessTree,
    living,
    pause_all,
    resume_all,
    stop_all,
    ticks,
)
from codeagent.sandbox.tasks import (
    DRAIN_SECONDS,
    LONGEST_ARGUMENT,
    finish_left,
    in_thread,
    run_to_end,
    within_disk,
)
from codeagent.sandbox.thaw import FrozenList, thaw_left

_PIECE = 64 * 1024
_POLL_SECONDS = 0.05
_OPEN = "network: without a sandbox every command has this machine's network; a list of hosts does not restrict it"
_ALSO_SECRET = frozenset(
    {"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS"}
)


class HostSandbox:
    """Implements `codeagent.core.sandbox.Sandbox` without a container; confines nothing."""

    def __init__(self, root: Path, environment: Mapping[str, str], state_dir: Path) -> None:
        """`environment` is this process's; commands do not get variables that contain secrets."""
        self._root = root
        self._state_dir = state_dir
        self._frozen = FrozenList(state_dir)
        self._freeze_lock = FreezeLock(self._pause, self._resume)
        self._trees: set[ProcessTree] = set()
        """The processes of commands that run or left some behind."""
        self._paused: frozenset[tuple[int, int]] = frozenset()
        self._environment = {
            name: value
            for name, value in environment.items()
            if not is_secret_name(name) and name not in _ALSO_SECRET and name != MARK
        }

    async def start(self, on_progress: Callable[[str], None]) -> SandboxInfo:
        await in_thread(partial(thaw_left, self._state_dir))
        return SandboxInfo(
            kind="host",
            image="",
            image_origin="none",
            user=f"{os.getuid()}:{os.getgid()}",
            network="open",
            warnings=("no sandbox: commands run on this machine with your rights",),
        )

    is_ready = True

    async def ready(self) -> None:
        """Return at once."""

    @property
    def untried(self) -> str:
        """See the port."""
        return "commands run on this machine"

    tried_read_only = ""

    async def prepare_trials(self) -> None:
        """See the port."""

    async def finish_landings(self) -> tuple[str, ...]:
        """See the port."""
        return await finish_left(self._state_dir, self._root)

    async def try_out(self, command: Command, on_output: OnOutput) -> Trial:
        """See the port."""
        raise SandboxUnavailable(self.untried, "run it without trying it out")

    @property
    def exposed(self) -> str:
        """Empty: nothing is hidden, and every command needs approval."""
        return ""

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        """Run a command, see the port. Raises SandboxUnavailable for a `read_only` one."""
        return await within_disk(self._run(command, on_output), self._root)

    async def _run(self, command: Command, on_output: OnOutput) -> CommandResult:
        if command.read_only:
            problem = (
                "plan mode runs no commands without a sandbox, because nothing would keep them "
                "from changing files"
            )
            raise SandboxUnavailable(
                problem, "leave plan mode, or start codeagent with --sandbox docker"
            )
        try:
            await self._freeze_lock.released()
        except asyncio.CancelledError:
            return CommandResult(exit_code=None, stopped=True)
        mark = _mark()
        async with self._freeze_lock.activity():
            since = ticks()
            process = await self._spawn(
                command.text.encode("utf-8", "replace"), mark, apart=command.apart
            )
            tree = ProcessTree(process.pid, mark, since)
            self._trees.add(tree)
        first: OutputStream = "stdout" if command.apart else "output"
        readers: dict[OutputStream, asyncio.StreamReader | None] = {
            first: process.stdout,
            "stderr": process.stderr,
        }
        outputs = [
            asyncio.create_task(_pass_on(reader, stream, on_output))
            for stream, reader in readers.items()
            if reader is not None
        ]
        try:
            await _ended(process, outputs)
            await _drain(outputs)
            notices = (_OPEN,) if command.hosts else ()
            if left := tree.ended():
                WATCHDOG.leave(mark)
            return CommandResult(exit_code=process.returncode, left_running=left, notices=notices)
        except asyncio.CancelledError:
            killed = await run_to_end(self._stop(process, tree))
            await run_to_end(_drain(outputs, swallow=True))
            return CommandResult(exit_code=None, stopped=True, killed=killed)
        except BaseException:
            await run_to_end(self._stop(process, tree))
            raise
        finally:
            if not tree.left:
                self._trees.discard(tree)
            for output in outputs:
                output.cancel()
            close_pipes(process)

    def frozen(self) -> AbstractAsyncContextManager[None]:
        """Freeze, see the port, as far as that is possible without a sandbox.

        What commands started is found by mark, session and parents, stopped, and resumed
        afterwards. What escaped all three, or runs as another user, is not found and keeps running;
        so does everything else on this machine.
        """
        return self._freeze_lock.hold()

    async def listening(self) -> frozenset[int]:
        """Return nothing: the machine's ports are not the commands' own."""
        return frozenset()

    async def sweep(self) -> SandboxSweep:
        """Sweep, see the port: without a sandbox nothing is protected, so nothing is moved."""
        self._trees &= living(self._trees)
        return SandboxSweep(alive=bool(self._trees))

    async def start_program(self, program: StdioProgram) -> RunningProgram:
        """Refuse, see the port: who asks for a sandbox does not get this machine."""
        raise SandboxUnavailable(
            "it runs in the sandbox, and there is none", "start codeagent with --sandbox docker"
        )

    async def set_aside(self, path: str) -> str:
        """Refuse, see the port: the file is left where it is."""
        raise PermissionError(errno.EPERM, "without a sandbox nothing is moved away")

    async def close(self) -> None:
        """Close; only what commands left running on purpose outlives them."""
        await asyncio.to_thread(self._frozen.close)

    async def _pause(self) -> None:
        self._trees &= living(self._trees)
        if self._trees:
            self._paused = await pause_all(self._trees, self._frozen)

    async def _resume(self) -> None:
        resume_all(self._paused, self._frozen)
        self._paused = frozenset()

    async def _stop(self, process: asyncio.subprocess.Process, tree: ProcessTree) -> int:
        await self._freeze_lock.released()
        return await stop_all(process, tree)

    async def _spawn(self, script: bytes, mark: str, *, apart: bool) -> asyncio.subprocess.Process:
        with tempfile.TemporaryFile() as file:
            short = len(script) <= LONGEST_ARGUMENT and b"\0" not in script
            if not short:
                file.write(script)
                file.seek(0)
            bash = find_program("bash", self._root)
            if bash is None:
                raise SandboxUnavailable(
                    "bash is not on PATH outside the workspace", "install bash"
                )
            arguments = ["-c", script.decode()] if short else [f"/dev/fd/{file.fileno()}"]
            try:
                return await start_program(
                    COMMAND,
                    [bash, *arguments],
                    folder=self._root,
                    environment=self._environment,
                    mark=mark,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE if apart else asyncio.subprocess.STDOUT,
                    start_new_session=True,
                    limit=_PIECE,
                    pass_fds=() if short else (file.fileno(),),
                )
            except OSError as error:
                raise SandboxUnavailable(
                    f"bash cannot be started: {error.strerror}", "install bash"
                ) from error


def _mark() -> str:
    """Raises SandboxUnavailable."""
    try:
        return new_mark(COMMAND)
    except OSError as error:
        problem = f"the watchdog of commands cannot be started: {error.strerror}"
        raise SandboxUnavailable(problem, "end other programs, then try again") from error


async def _pass_on(reader: asyncio.StreamReader, stream: OutputStream, on_output: OnOutput) -> None:
    while piece := await reader.read(_PIECE):
        await on_output(stream, piece)


async def _ended(process: asyncio.subprocess.Process, outputs: list[asyncio.Task[None]]) -> None:
    """Return when the process has exited, even if a child still holds its pipes; raise what
    `on_output` raised."""
    waiting = asyncio.create_task(process.wait())
    try:
        while process.returncode is None:
            await asyncio.wait(
                {waiting, *outputs}, timeout=_POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
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
