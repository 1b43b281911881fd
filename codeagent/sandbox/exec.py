"""Runs one command in a running container: starts it, streams its output, sees it to its end or stops it."""

import asyncio
import time
from typing import Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SandboxLost
from codeagent.core.ports import OnOutput
from codeagent.sandbox.engine import Engine, EngineError
from codeagent.sandbox.exec_stream import ExecStream, ExecTarget, lost, run_script, script_command, start_exec
from codeagent.sandbox.freeze import FreezeLock, is_ending

LONGEST_ARGUMENT = 100_000
"""Bytes of a command that travel as an argument (the kernel's limit is 128 KiB); longer ones go over stdin."""
DRAIN_SECONDS = 0.2
"""How long to wait for output once the command has ended."""
_DRAIN_STEP = 0.02
_DRAIN_BYTES = 2 * 1024 * 1024
"""More than the pipes and the engine's buffers hold, so anything beyond is a child's."""
_BEGIN_SECONDS = 30.0
_POLL_SECONDS = (0.1, 0.5)
_SETTLE_SECONDS = 0.002
_LONGEST_TRAILER = 100
_BEGUN = b"begun"
_KILLED_BY_SIGNAL = 137
_LISTENING_SECONDS = 3.0
_HIGHEST = 65_535
_STOP_SECONDS = 6.0
"""For all of scripts/stop.sh: two for TERM, one for KILL, one for the last resort, and two in reserve."""
_MOST_STOP_SECONDS = 15.0
"""For all of stopping, once the engine answers."""


@dataclass(frozen=True)
class CallMark:
    """What tells one call from the others."""

    word: str
    """Sixteen hex digits: the beginning of the call's own report among the output."""
    number: int
    """From 1, one more for each call of a container: its processes are known by it, see scripts/processes.sh."""


@dataclass(frozen=True)
class CommandEnd:
    exit_code: int
    left_running: int
    out_of_memory: bool
    reported: bool
    """Whether the command's end was reported from inside; if not, even its container may be gone."""


class Execution:
    """Follows a command from its start to its end; `close` gives up the stream, not the processes."""

    def __init__(self, engine: Engine, exec_id: str, stream: ExecStream, mark: CallMark, on_output: OnOutput) -> None:
        self._engine = engine
        self._id = exec_id
        self._stream = stream
        self._trailers = {False: TrailerFilter(mark.word), True: TrailerFilter(mark.word)}
        """By `is_stderr`."""
        self._on_output = on_output
        self._begun = asyncio.Event()
        self._reading = True
        self._passed = 0
        self._pump = asyncio.create_task(self._pass_on())

    @classmethod
    async def start(
        cls,
        engine: Engine,
        target: ExecTarget,
        text: str,
        mark: CallMark,
        on_output: OnOutput,
        variables: tuple[str, ...] = (),
    ) -> "Execution":
        """Start a command; return once it runs. Raises SandboxLost, and EngineError if nothing ran (404, 409: gone)."""
        script = text.encode("utf-8", "replace")
        long = len(script) > LONGEST_ARGUMENT or b"\0" in script
        what = ["input", str(len(script))] if long else ["text", script.decode()]
        command = script_command("run", [mark.word, str(mark.number), *what])
        exec_id, stream = await start_exec(engine, target, command, variables)
        execution = cls(engine, exec_id, stream, mark, on_output)
        try:
            if long:
                await stream.send(script)
            # The engine answers before anything runs inside; if it were paused in between, nothing would run at all.
            async with asyncio.timeout(_BEGIN_SECONDS):
                await execution._begun.wait()
        except TimeoutError as error:
            await execution.close()
            raise SandboxLost(lost(f"it did not begin within {_BEGIN_SECONDS:g} s")) from error
        except BaseException:
            await execution.close()
            raise
        return execution

    async def finish(self) -> CommandEnd:
        """Wait for the end. Raises SandboxLost, and whatever `on_output` raised."""
        interval, settling, failures = _POLL_SECONDS[0], False, 0
        while True:
            await asyncio.wait({self._pump}, timeout=interval)
            if self._pump.done():
                self._pump.result()
            try:
                state = await self._engine.ask(lambda api: api.exec_inspect(self._id))
            except EngineError as error:
                failures += 1
                if error.status is not None or self._pump.done() or failures > 1:
                    raise SandboxLost(lost(str(error))) from error
                continue
            if not state["Running"]:
                break
            failures = 0
            interval = min(interval * 1.5, _POLL_SECONDS[1])
            if self._pump.done():
                interval, settling = interval if settling else _SETTLE_SECONDS, True
                await asyncio.sleep(interval)
        await self.drain()
        return self._ending(state.get("ExitCode"))

    async def drain(self, limit: float | None = None) -> None:
        """Pass on the rest of the output, waiting no more than DRAIN_SECONDS in total.

        A child may hold the pipes for ever, silent or writing. A slow reader is waited for, but no
        longer than `limit` seconds if that is given.
        """
        waited, began, passed = 0.0, time.monotonic(), self._passed
        while not self._pump.done() and waited < DRAIN_SECONDS and self._passed - passed < _DRAIN_BYTES:
            if limit is not None and time.monotonic() - began > limit:
                return
            await asyncio.wait({self._pump}, timeout=_DRAIN_STEP)
            waited += _DRAIN_STEP if self._reading else 0.0
        if self._pump.done() and not self._pump.cancelled():
            self._pump.result()

    async def close(self) -> None:
        self._pump.cancel()
        await asyncio.wait({self._pump})
        self._stream.close()

    async def _pass_on(self) -> None:
        acknowledged = False
        try:
            async for is_stderr, piece in self._stream.pieces():
                self._passed += len(piece)
                data = self._trailers[is_stderr].feed(piece)
                # Output on one stream may overtake the report of the begin on the other, and a reader may be slow.
                if data or self._trailers[is_stderr].begun:
                    self._begun.set()
                await self._give(is_stderr, data)
                if not acknowledged and all(trailer.report is not None for trailer in self._trailers.values()):
                    acknowledged = True
                    await self._stream.send(b"\n")
            for is_stderr, trailer in self._trailers.items():
                await self._give(is_stderr, trailer.flush())
        finally:
            self._begun.set()

    async def _give(self, is_stderr: bool, data: bytes) -> None:
        if not data:
            return
        stream: Literal["stdout", "stderr"] = "stderr" if is_stderr else "stdout"
        self._reading = False
        await self._on_output(stream, data)
        self._reading = True

    def _ending(self, exit_code: int | None) -> CommandEnd:
        numbers = (self._trailers[True].report or b"").split()
        if exit_code is None or len(numbers) != 2 or not all(number.isdigit() for number in numbers):
            return CommandEnd(-1 if exit_code is None else exit_code, 0, False, reported=False)
        return CommandEnd(exit_code, int(numbers[0]), numbers[1] != b"0", reported=True)


class TrailerFilter:
    """Takes the wrapper's reports out of a stream: NUL, the mark, a space, the report, newline."""

    def __init__(self, mark: str) -> None:
        self._mark = b"\0" + mark.encode() + b" "
        self._held = b""
        self.begun = False
        self.report: bytes | None = None

    def feed(self, data: bytes) -> bytes:
        """Return the part of `data` that is output; the beginning of a possible report is held back."""
        data, self._held = self._held + data, b""
        at = data.find(self._mark)
        if at >= 0:
            end = data.find(b"\n", at)
            if end >= 0:
                self._take(data[at + len(self._mark) : end])
                return data[:at] + self.feed(data[end + 1 :])
            if len(data) - at < _LONGEST_TRAILER:
                self._held = data[at:]
                return data[:at]
            return data
        at = data.rfind(b"\0", max(0, len(data) - len(self._mark)))
        if at >= 0 and self._mark.startswith(data[at:]):
            self._held = data[at:]
            return data[:at]
        return data

    def _take(self, word: bytes) -> None:
        if word == _BEGUN:
            self.begun = True
        else:
            self.report = word

    def flush(self) -> bytes:
        held, self._held = self._held, b""
        return held


async def ran_out_of_memory(engine: Engine, container_id: str, exit_code: int) -> bool:
    """Tell whether a command whose end was not reported ran out of memory.

    Raises SandboxLost if it ended because its container did.
    """
    try:
        if await is_ending(engine, container_id):
            raise SandboxLost(lost("its container was stopped"))
        state = (await engine.ask(lambda api: api.inspect_container(container_id)))["State"]
    except EngineError as error:
        raise SandboxLost(lost(str(error))) from error
    if not state["Running"] or exit_code < 0:
        raise SandboxLost(lost("its container was stopped"))
    return bool(state["OOMKilled"]) and exit_code == _KILLED_BY_SIGNAL


async def listening_ports(engine: Engine, target: ExecTarget) -> frozenset[int]:
    """Return the TCP ports listened on inside, by the kernel's own list. Raises EngineError, SandboxLost."""
    return ports_in(await run_script(engine, target, "listening", [], _LISTENING_SECONDS))


def ports_in(answer: bytes) -> frozenset[int]:
    """Read what scripts/listening.sh printed; empty if it was cut short or is something else."""
    words = answer.decode("ascii", "replace").split()
    if words[-1:] != ["done"]:
        return frozenset()
    try:
        ports = frozenset(int(word, 16) for word in words[:-1])
    except ValueError:
        return frozenset()
    return ports if all(0 < port <= _HIGHEST for port in ports) else frozenset()


@dataclass(frozen=True)
class Stopped:
    """How many processes of a call were killed, and how many are left."""

    killed: int
    left: int
    everything: bool
    """Whether every process of the sandbox had to be killed, other calls' included."""


async def stop_call(
    engine: Engine, target: ExecTarget, number: int, starting: "asyncio.Task[Execution]", freeze_lock: FreezeLock
) -> tuple[Execution, Stopped | None]:
    """Stop all that a call started, and nothing else, once it has started and nobody holds the freeze lock.

    Without a Stopped if the container did not answer. An engine that does not answer is not waited for. Raises
    EngineError, SandboxLost.
    """
    if not await engine.answers():
        raise EngineError("the Docker engine does not answer")
    try:
        async with asyncio.timeout(_MOST_STOP_SECONDS):
            execution = await asyncio.shield(starting)
            async with freeze_lock.activity():
                return execution, await _stopped(engine, target, number)
    except TimeoutError as error:
        raise EngineError(f"the command was not stopped within {_MOST_STOP_SECONDS:g} s") from error


async def _stopped(engine: Engine, target: ExecTarget, number: int) -> Stopped | None:
    for _attempt in range(2):
        try:
            answer = await run_script(engine, target, "stop", [str(number)], _STOP_SECONDS)
        except EngineError as error:
            if error.status is not None or "did not answer" not in str(error):
                raise
            return None
        words = answer.split()
        if len(words) == 3 and all(word.isdigit() for word in words):
            killed, left, everything = map(int, words)
            return Stopped(killed, left, bool(everything))
    return None
