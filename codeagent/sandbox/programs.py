"""Programs that are talked to for as long as they run: in a container of their own, or on this
machine."""

import asyncio
import os
import secrets
import shutil
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from codeagent.core.errors import EngineError, SandboxLost, SandboxUnavailable
from codeagent.core.host_programs import SERVER, close_pipes, minimal, new_mark, start_program
from codeagent.core.programs import SEARCH_VARIABLES, find_program, why_not_found
from codeagent.core.sandbox import RunningProgram, StdioProgram
from codeagent.disk.locks import locked, try_lock
from codeagent.disk.opens import closing_fd, open_folder
from codeagent.sandbox.container import SessionContainer
from codeagent.sandbox.egress.containers import Forwarder
from codeagent.sandbox.egress.grant import Grant
from codeagent.sandbox.egress.proxy import EgressProxy
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.exec_stream import ExecStream, ExecTarget, start_exec
from codeagent.sandbox.freeze import FreezeLock
from codeagent.sandbox.guard import SessionResources
from codeagent.sandbox.mounts import PinnedEntry
from codeagent.sandbox.process_tree import ProcessTree, stop_all, ticks
from codeagent.sandbox.profile import HOME
from codeagent.sandbox.spec import SandboxSpec
from codeagent.sandbox.tasks import all_done, in_thread, run_to_end

_PIECE = 64 * 1024
_BEGIN_SECONDS = 30.0
_LOOK_SECONDS = 0.5
"""How soon the end of a program is noticed if a child of it holds its pipes; otherwise at once."""
_STEP = 0.02
_LOOKS = 25
"""A program on this machine may take half a second to end by itself once its standard input was
closed."""
_APART = {"PYTHONSAFEPATH": "1"}
"""What a program in a folder of its own gets: Python looks for no module there, or beside what it
runs."""
_START = 'echo >&2; [[ -n $1 ]] && PATH=$1; cd -- "./$2" || exit; shift 2; exec "$@"'
_START_APART = """
echo >&2
root=$1 PATH= rest=$2:
while [[ $rest ]]; do
    folder=${rest%%:*} rest=${rest#*:}
    real=$(cd -P -- "$folder" 2> /dev/null && pwd) || continue
    [[ $folder == /* && $real/ != "$root"/* ]] && PATH+=${PATH:+:}$folder
done
for name in $3; do
    [[ ${!name-} == *"$root"* ]] && unset "$name"
done
mkdir -m 700 -- server && cd -- server || exit
[[ $PWD/ != "$root"/* ]] || exit
shift 3
exec "$@"
"""
"""For a program in a folder of its own: no folder of PATH is in the workspace, after following
links."""
Piece = tuple[Literal["stdout", "stderr"], bytes]


class ContainerPrograms:
    """Starts each program in a container of its own, which ends with it and is frozen with the
    others."""

    def __init__(
        self,
        spec: SandboxSpec,
        resources: SessionResources,
        proxy: EgressProxy,
        make: Callable[[SandboxSpec], SessionContainer],
        freeze_lock: FreezeLock,
    ) -> None:
        # Nothing watches how much a program writes.
        self._spec = replace(spec, per_command=False, packages=None)
        self._resources = resources
        self._proxy = proxy
        self._make = make
        self._freeze_lock = freeze_lock
        self._open: dict[SessionContainer, _ContainerProgram | None] = {}
        """None while the program is being started."""
        self.writing: dict[SessionContainer, None] = {}
        """The containers whose programs may write in the workspace, from when they begin to run."""

    @property
    def containers(self) -> tuple[SessionContainer, ...]:
        return tuple(self._open)

    async def start(self, program: StdioProgram) -> RunningProgram:
        """Implement `StartProgram`."""
        grant = None
        spec = replace(self._spec, access="writable" if program.writes else "read-only")
        if program.directory is None:
            spec = replace(spec, python=replace(spec.python, environment=None))
        if program.hosts:
            grant = await self._proxy.opened_for(program.hosts, program.reach, "started")
            spec = replace(spec, egress_folder=self._proxy.folder)
        container = self._make(spec)
        self._open[container] = None
        try:
            started = await self._start_in(container, program, grant)
        except BaseException as error:
            await run_to_end(self._drop(container, grant, None))
            if isinstance(error, EngineError | SandboxLost):
                problem = f"{program.arguments[0]} did not start in the sandbox: {error}"
                raise SandboxUnavailable(problem, "codeagent sandbox test") from error
            raise
        self._open[container] = started
        return started

    async def _start_in(
        self, container: SessionContainer, program: StdioProgram, grant: Grant | None
    ) -> "_ContainerProgram":
        self._resources.open()
        shielded = await in_thread(self._shielded)
        engine, target = await container.entrance()
        forwarder = None if grant is None else Forwarder()
        command, target, given = _command(program, target)
        variables = tuple(f"{name}={value}" for name, value in given.items())
        await self._freeze_lock.released()
        moved = self._freeze_lock.begin_activity()
        try:
            if grant is not None and forwarder is not None:
                variables += await forwarder.variables(engine, target.container_id, grant)
            if program.writes:
                self.writing[container] = None
            exec_id, stream = await start_exec(engine, target, command, variables)
            pieces = stream.pieces()
            early = await _begun(stream, pieces)
        finally:
            moved()

        async def drop() -> None:
            await self._drop(container, grant, forwarder)

        async def outdated() -> str:
            names = sorted({each.name for each in shielded ^ await in_thread(self._shielded)})
            return f"{', '.join(names)} changed outside the sandbox" if names else ""

        return _ContainerProgram(
            engine,
            exec_id,
            stream,
            _all(early, pieces),
            outdated=outdated,
            drop=drop,
            writes=program.writes,
        )

    def _shielded(self) -> frozenset[PinnedEntry]:
        """Return what containers made now protect and hide. Blocks. Raises SandboxUnavailable."""
        root, _ = self._resources.opened()
        root.refuse_moved()
        return frozenset(root.protected()) | self._resources.secrets().masked

    async def _drop(
        self, container: SessionContainer, grant: Grant | None, forwarder: Forwarder | None
    ) -> None:
        """End what was made for a program; its container stays on the list until it has ended, for
        a freeze to find."""
        if grant is not None:
            self._proxy.end(grant)
        if forwarder is not None:
            forwarder.close()
        await container.close()
        self._open.pop(container, None)
        self.writing.pop(container, None)

    async def close(self) -> None:
        """End every program, and every container whatever became of its program; then raise what
        went wrong first."""
        try:
            await all_done(
                *(program.close() for program in self._open.values() if program is not None)
            )
        finally:
            await all_done(*(container.close() for container in self._open))
            self._open.clear()
            self.writing.clear()


def _command(
    program: StdioProgram, target: ExecTarget
) -> tuple[list[str], ExecTarget, Mapping[str, str]]:
    """Return the command line that starts a program, where that begins, and the variables it is
    given."""
    if program.directory is not None:
        begin = [_START, "codeagent", target.path, program.directory]
        return ["bash", "--norc", "-c", *begin, *program.arguments], target, program.variables
    searched = " ".join(name for name in sorted(SEARCH_VARIABLES) if name not in program.variables)
    begin = [_START_APART, "codeagent", target.directory, target.safe_path, searched]
    given = {**_APART, **program.variables}
    return (
        ["bash", "--norc", "-c", *begin, *program.arguments],
        replace(target, directory=HOME),
        given,
    )


async def _begun(
    stream: ExecStream, pieces: AsyncGenerator[tuple[bool, bytes], None]
) -> list[Piece]:
    """Wait for the empty line with which a program's shell begins; return what came with it.

    The engine answers before anything runs inside: if the container were paused in between, the
    engine itself would hang. Raises EngineError.
    """
    early: list[Piece] = []
    try:
        async with asyncio.timeout(_BEGIN_SECONDS):
            async for is_stderr, piece in pieces:
                early.append(
                    (
                        "stderr" if is_stderr else "stdout",
                        piece.removeprefix(b"\n") if is_stderr else piece,
                    )
                )
                if is_stderr:
                    break
        return early
    except BaseException as error:
        stream.close()
        if isinstance(error, TimeoutError):
            raise EngineError(f"it did not begin within {_BEGIN_SECONDS:g} s") from error
        raise


async def _all(
    early: list[Piece], pieces: AsyncGenerator[tuple[bool, bytes], None]
) -> AsyncGenerator[Piece, None]:
    for name, piece in early:
        if piece:
            yield name, piece
    async for is_stderr, piece in pieces:
        yield ("stderr" if is_stderr else "stdout"), piece


class _ClosedOnce(RunningProgram):
    """Ends a program by `_close`, however often it is closed."""

    _closing: asyncio.Task[int | None] | None = None

    async def close(self) -> int | None:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        return await asyncio.shield(self._closing)

    @abstractmethod
    async def _close(self) -> int | None: ...


class _ContainerProgram(_ClosedOnce):
    def __init__(
        self,
        engine: Engine,
        exec_id: str,
        stream: ExecStream,
        pieces: AsyncGenerator[Piece, None],
        *,
        outdated: Callable[[], Awaitable[str]],
        drop: Callable[[], Awaitable[None]],
        writes: bool,
    ) -> None:
        self._writes = writes
        self._engine = engine
        self._exec_id = exec_id
        self._stream = stream
        self._pieces = pieces
        self._outdated = outdated
        self._drop = drop

    @property
    def writes(self) -> bool:
        return self._writes

    async def send(self, data: bytes) -> None:
        try:
            await self._stream.send(data)
        except EngineError as error:
            raise SandboxLost(f"the program has ended: {error}") from error

    def output(self) -> AsyncIterator[Piece]:
        return self._pieces

    async def outdated(self) -> str:
        return await self._outdated()

    async def _close(self) -> int | None:
        code: int | None = None
        try:
            with suppress(EngineError):
                state = await self._engine.ask("GET", f"/exec/{self._exec_id}/json")
                code = state.get("ExitCode") if not state.get("Running") else None
            self._stream.close()
        finally:
            await self._drop()
        return code


class MachinePrograms:
    """Starts programs on this machine, with the user's rights; only for those that the user chose
    for it."""

    def __init__(self, root: Path, environment: Mapping[str, str], folders: Path) -> None:
        """`folders`: where programs get folders of their own; outside the workspace, which is
        `root`."""
        self._root = root
        self._folders = folders
        self._environment = minimal(environment, outside=root)

    async def start(self, program: StdioProgram) -> RunningProgram:
        """Implement `StartProgram`; what the program starts ends with it, by mark, session or
        parent."""
        name = program.arguments[0]
        if "/" in name and program.directory is None and not Path(name).is_absolute():
            problem = (
                f"{name} is relative, and a program on this machine does not start in the workspace"
            )
            raise SandboxUnavailable(problem, "give its whole path")
        folder = self._root / (program.directory or "")
        path = find_program(str(folder / name) if "/" in name else name, self._root)
        if path is None:
            raise SandboxUnavailable(*why_not_found(name, self._root))
        own: _OwnFolder | None = None
        if program.directory is None:
            own = await in_thread(
                partial(_OwnFolder.make, self._folders, self._root), _OwnFolder.remove
            )
        try:
            mark = new_mark(SERVER)
            since = ticks()
            process = await start_program(
                SERVER,
                [path, *program.arguments[1:]],
                folder=folder if own is None else own.path,
                environment={
                    **self._environment,
                    **({} if own is None else _APART),
                    **program.variables,
                },
                mark=mark,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                limit=_PIECE,
            )
        except BaseException as error:
            if own is not None:
                await in_thread(own.remove)
            if not isinstance(error, OSError | ValueError):
                raise
            problem = f"{name} cannot be started: {getattr(error, 'strerror', None) or error}"
            raise SandboxUnavailable(problem, "see its command in the configuration") from error
        return _MachineProgram(process, ProcessTree(process.pid, mark, since), own)


class _OwnFolder:
    """An empty folder for one program, which only the user may enter; it is removed with what was
    written there."""

    def __init__(self, path: Path) -> None:
        path.mkdir(mode=0o700)
        self.path = path
        self._fd = open_folder(path)
        try_lock(
            self._fd
        )  # for as long as this process lives: what is not locked was left by another

    @classmethod
    def make(cls, folders: Path, root: Path) -> "_OwnFolder":
        """Make one, and remove those that ended processes have left. Blocks. Raises
        SandboxUnavailable."""
        if folders.resolve().is_relative_to(root.resolve()):
            problem = (
                f"its own folder would be in the workspace {root}, whose files it must not load"
            )
            raise SandboxUnavailable(problem, "start codeagent in a project")
        try:
            with locked(folders / "lock"):
                for left in folders.iterdir():
                    if left.is_dir() and not left.is_symlink():
                        _remove_left(left)
                return cls(folders / secrets.token_hex(8))
        except OSError as error:
            problem = f"no folder for it can be made in {folders} ({error.strerror})"
            raise SandboxUnavailable(problem, "make that folder writable") from error

    def remove(self) -> None:
        """Remove it; idempotent. What cannot be removed is left for a later start. Blocks."""
        if self._fd >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._fd)
            self._fd = -1


def _remove_left(folder: Path) -> None:
    with closing_fd(open_folder(folder)) as fd:
        if try_lock(fd):
            shutil.rmtree(folder, ignore_errors=True)


class _MachineProgram(_ClosedOnce):
    def __init__(
        self, process: asyncio.subprocess.Process, tree: ProcessTree, own: _OwnFolder | None
    ) -> None:
        self._process = process
        self._tree = tree
        self._own = own

    async def send(self, data: bytes) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(data)
            await stdin.drain()
        except (OSError, RuntimeError) as error:
            raise SandboxLost(f"the program has ended: {error}") from error

    async def output(self) -> AsyncIterator[Piece]:
        """End with the process, even if a child still holds its pipes."""
        stdout = self._process.stdout
        stderr = self._process.stderr
        assert stdout is not None and stderr is not None
        reading: dict[
            asyncio.Task[bytes], tuple[Literal["stdout", "stderr"], asyncio.StreamReader]
        ] = {
            asyncio.create_task(stdout.read(_PIECE)): ("stdout", stdout),
            asyncio.create_task(stderr.read(_PIECE)): ("stderr", stderr),
        }
        try:
            while reading:
                has_ended = self._process.returncode is not None
                done, _ = await asyncio.wait(
                    reading, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                if has_ended and not done:
                    return
                for task in done:
                    name, stream = reading.pop(task)
                    if piece := task.result():
                        yield name, piece
                        reading[asyncio.create_task(stream.read(_PIECE))] = (name, stream)
        finally:
            for task in reading:
                task.cancel()

    async def outdated(self) -> str:
        """Empty: nothing on this machine is kept from it."""
        return ""

    async def _close(self) -> int | None:
        """Close its standard input, as the protocol wants it, and stop what has not ended after a
        moment."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._ended()
        code = self._process.returncode
        await stop_all(self._process, self._tree)
        await self._ended()  # what was killed may still be giving back its memory
        if self._own is not None:
            await in_thread(self._own.remove)
        close_pipes(self._process)
        return code

    async def _ended(self) -> None:
        """Return once the process has ended, or after half a second; its pipes may stay open for
        ever."""
        ending = asyncio.create_task(self._process.wait())
        for _ in range(_LOOKS):
            if self._process.returncode is None:
                await asyncio.wait({ending}, timeout=_STEP)
        ending.cancel()
