"""Runs one command in a running container: starts it, streams its output, sees it to its end or
stops it."""

import asyncio
import re
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import EngineError, SandboxError, SandboxLost
from codeagent.core.messages import OutputStream
from codeagent.core.sandbox import Command, OnOutput
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.exec_stream import ExecTarget, lost, run_script
from codeagent.sandbox.freeze import FreezeLock, is_ending, only_keepers
from codeagent.sandbox.spare import Spare, Wrapper
from codeagent.sandbox.tasks import DRAIN_SECONDS, LONGEST_ARGUMENT

_DRAIN_STEP = 0.02
_DRAIN_BYTES = 2 * 1024 * 1024
"""More than the pipes and the engine's buffers hold, so anything beyond is a child's."""
_BEGIN_SECONDS = 30.0
_POLL_SECONDS = (0.1, 0.5)
_SETTLE_SECONDS = 0.002
_LONGEST_REPORT = 80
_MOST_DIGITS = 9
_BEGUN = b"begun"
_STOPPING = b"stopping"
_STOPPED = b"stopped"
_STOPPING_SECONDS = 0.3
"""Until a wrapper that was told to stop must have said that it does."""
_KILLED_BY_SIGNAL = 137
_LISTENING_SECONDS = 3.0
_HIGHEST = 65_535
_STOP_SECONDS = 6.0
"""For all of scripts/stop.sh: two for TERM, one for KILL, one for the last resort, and two in
reserve."""
_MOST_STOP_SECONDS = 15.0
"""For all of stopping, once the engine answers."""


@dataclass(frozen=True)
class CallMark:
    """What tells one call from the others."""

    word: str
    """Sixteen hex digits: the beginning of the call's own report among the output."""
    number: int
    """From 1, one more for each call of a container: its processes are known by it, see
    scripts/processes.sh."""


@dataclass(frozen=True)
class CommandEnd:
    exit_code: int
    left_running: int
    out_of_memory: bool
    reported: bool
    """Whether the command's end was reported from inside; if not, even its container may be
    gone."""
    nothing_lives: bool = False
    """Only the container's keepers were alive afterwards, by the kernel's list."""


class Execution:
    """Follows a command from its start to its end; `close` gives up the stream, not the
    processes."""

    def __init__(
        self,
        engine: Engine,
        wrapper: Wrapper,
        mark: CallMark,
        on_output: OnOutput,
        processes: Path | None = None,
        *,
        apart: bool = False,
    ) -> None:
        """`processes`: see ExecTarget; `apart`: see Command."""
        self._engine = engine
        self._wrapper = wrapper
        self._stream = wrapper.stream
        self._trailers = {False: TrailerFilter(mark.word), True: TrailerFilter(mark.word)}
        """By `is_stderr`."""
        self._on_output = on_output
        self._apart = apart
        self._processes = processes
        self._nothing_lives: CommandEnd | None = None
        """The end, once it was reported and nothing lives that could say otherwise."""
        self._begun = asyncio.Event()
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()
        self._reading = True
        self._passed = 0
        self._pump = asyncio.create_task(self._pass_on())

    @classmethod
    async def start(
        cls,
        engine: Engine,
        target: ExecTarget,
        command: Command,
        mark: CallMark,
        on_output: OnOutput,
        *,
        variables: tuple[str, ...] = (),
        spare: Spare | None = None,
    ) -> "Execution":
        """Start a command, through the spare if that is fit for it; return once it runs.

        Raises SandboxLost, and EngineError if nothing ran (404, 409: gone).
        """
        try:
            # The engine answers before anything runs inside; if it were paused in between, nothing
            # would run at all.
            async with asyncio.timeout(_BEGIN_SECONDS):
                wrapper = None if spare is None else await spare.take(target, variables)
                if wrapper is None:
                    wrapper = await Wrapper.start(engine, target, variables)
                execution = cls(
                    engine, wrapper, mark, on_output, target.processes, apart=command.apart
                )
                try:
                    if not wrapper.said:
                        await execution._hand_over(command.text.encode("utf-8", "replace"), mark)
                except BaseException:
                    await execution.close()
                    raise
        except TimeoutError as error:
            raise SandboxLost(lost(f"it did not begin within {_BEGIN_SECONDS:g} s")) from error
        return execution

    async def _hand_over(self, script: bytes, mark: CallMark) -> None:
        """Give the wrapper its command, and wait until it has begun. Raises SandboxLost: it may
        have run."""
        streams = "apart" if self._apart else "together"
        kind = "file" if len(script) > LONGEST_ARGUMENT or b"\0" in script else "text"
        try:
            await self._stream.send(
                f"{mark.word} {mark.number} {kind} {len(script)} {streams}\n".encode() + script
            )
        except EngineError as error:
            raise SandboxLost(lost(str(error))) from error
        await self._begun.wait()
        if not self._passed:
            raise SandboxLost(lost("it ended before it had begun"))

    async def finish(self) -> CommandEnd:
        """Wait for the end. Raises SandboxLost, and whatever `on_output` raised."""
        interval = _POLL_SECONDS[0]
        settling = False
        failures = 0
        while True:
            await asyncio.wait({self._pump}, timeout=interval)
            if self._pump.done():
                self._pump.result()
            if self._nothing_lives is not None:
                return self._nothing_lives
            try:
                state = await self._engine.ask("GET", f"/exec/{self._wrapper.exec_id}/json")
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
                interval = interval if settling else _SETTLE_SECONDS
                settling = True
                await asyncio.sleep(interval)
        await self.drain()
        end = self._reported()
        code = state.get("ExitCode")
        if end is None or code is None:
            return CommandEnd(-1 if code is None else code, 0, False, reported=False)
        return replace(end, exit_code=code)

    async def drain(self, limit: float | None = None) -> None:
        """Pass on the rest of the output, waiting no more than DRAIN_SECONDS in total.

        A child may hold the pipes for ever, silent or writing. A slow reader is waited for, but no
        longer than `limit` seconds if that is given.
        """
        waited = 0.0
        began = time.monotonic()
        passed = self._passed
        while (
            not self._pump.done()
            and waited < DRAIN_SECONDS
            and self._passed - passed < _DRAIN_BYTES
        ):
            if limit is not None and time.monotonic() - began > limit:
                return
            await asyncio.wait({self._pump}, timeout=_DRAIN_STEP)
            waited += _DRAIN_STEP if self._reading else 0.0
        if self._pump.done() and not self._pump.cancelled():
            self._pump.result()

    async def close(self) -> None:
        self._pump.cancel()
        await asyncio.wait({self._pump})
        await self._wrapper.pieces.aclose()
        self._stream.close()

    async def stop(self) -> "tuple[Stopped | None, bool]":
        """Have the wrapper stop the call; return what it says, if anything, and whether nothing at
        all is left."""
        try:
            if self._pump.done():
                return None, False
            async with asyncio.timeout(_STOPPING_SECONDS):
                await self._stream.send(b"stop\n")
                await self._stopping.wait()
            async with asyncio.timeout(_STOP_SECONDS):
                await self._stopped.wait()
        except (TimeoutError, EngineError):
            return None, False
        said = Stopped.read(self._trailers[True].stopped)
        return said, said is not None and not said.left and await only_keepers(self._processes)

    async def _pass_on(self) -> None:
        acknowledged = 0
        try:
            for is_stderr, piece in self._wrapper.said:
                await self._give(is_stderr, piece)
            async for is_stderr, piece in self._wrapper.pieces:
                self._passed += len(piece)
                data = self._trailers[is_stderr].feed(piece)
                # Output on one stream may overtake the report of the begin on the other, and a
                # reader may be slow.
                if data or self._trailers[is_stderr].begun:
                    self._begun.set()
                await self._give(is_stderr, data)
                self._hear_of_a_stop()
                reports = min(trailer.reports for trailer in self._trailers.values())
                if reports > acknowledged:
                    acknowledged = reports
                    # The wrapper ends by itself if nothing is left running; otherwise it waits to
                    # be told.
                    end = self._reported()
                    if (
                        end is not None
                        and not end.left_running
                        and await only_keepers(self._processes)
                    ):
                        self._nothing_lives = replace(end, nothing_lives=True)
                        break
                    await self._stream.send(b"\n")
            for is_stderr, trailer in self._trailers.items():
                await self._give(is_stderr, trailer.flush())
        finally:
            self._begun.set()
            self._stopping.set()
            self._stopped.set()

    def _hear_of_a_stop(self) -> None:
        if self._trailers[True].stopping:
            self._stopping.set()
        if self._trailers[True].stopped:
            self._stopped.set()

    async def _give(self, is_stderr: bool, data: bytes) -> None:
        if not data:
            return
        stream: OutputStream = ("stderr" if is_stderr else "stdout") if self._apart else "output"
        self._reading = False
        await self._on_output(stream, data)
        self._reading = True

    def _reported(self) -> CommandEnd | None:
        """Return what the wrapper has reported on both streams, in the same words; None if it has
        not."""
        report = self._trailers[True].report
        numbers = _three_numbers(report or b"")
        if self._trailers[False].report != report or numbers is None:
            return None
        left, out_of_memory, code = numbers
        return CommandEnd(code, left, out_of_memory != 0, reported=True)


class TrailerFilter:
    """Takes the wrapper's reports out of a stream: NUL, the mark, a space, the report, newline."""

    def __init__(self, mark: str) -> None:
        self._mark = b"\0" + mark.encode() + b" "
        self._whole = re.compile(re.escape(self._mark) + rb"([^\0\n]{0,%d})\n" % _LONGEST_REPORT)
        self._part = re.compile(re.escape(self._mark) + rb"[^\0\n]{0,%d}" % _LONGEST_REPORT)
        self._held = b""
        self.begun = False
        self.stopping = False
        self.stopped = b""
        """What a wrapper that was told to stop has reported."""
        self.report: bytes | None = None
        self.reports = 0
        """How often an end was reported: whoever knows the mark can do that, too."""

    def feed(self, data: bytes) -> bytes:
        """Return the part of `data` that is output; the beginning of a possible report is held
        back."""
        data = self._whole.sub(self._take, self._held + data)
        at = data.rfind(b"\0", -len(self._mark) - _LONGEST_REPORT)
        possible = at >= 0 and (self._mark.startswith(data[at:]) or self._part.fullmatch(data, at))
        self._held = data[at:] if possible else b""
        return data[:at] if possible else data

    def _take(self, found: "re.Match[bytes]") -> bytes:
        word = found[1]
        if word == _BEGUN:
            self.begun = True
        elif word == _STOPPING:
            self.stopping = True
        elif word.startswith(_STOPPED):
            self.stopped = word.removeprefix(_STOPPED)
        else:
            self.report = word
            self.reports += 1
        return b""

    def flush(self) -> bytes:
        held = self._held
        self._held = b""
        return held


def _three_numbers(report: bytes) -> tuple[int, int, int] | None:
    """Read the numbers of a report; None if it is something else: commands can write one, too, of
    any length."""
    words = report.split()
    if len(words) != 3 or not all(word.isdigit() and len(word) <= _MOST_DIGITS for word in words):
        return None
    return int(words[0]), int(words[1]), int(words[2])


async def ran_out_of_memory(engine: Engine, container_id: str, exit_code: int) -> bool:
    """Tell whether a command whose end was not reported ran out of memory.

    Raises SandboxLost if it ended because its container did.
    """
    try:
        if await is_ending(engine, container_id):
            raise SandboxLost(lost("its container was stopped"))
        state = (await engine.ask("GET", f"/containers/{container_id}/json"))["State"]
    except EngineError as error:
        raise SandboxLost(lost(str(error))) from error
    if not state["Running"] or exit_code < 0:
        raise SandboxLost(lost("its container was stopped"))
    return bool(state["OOMKilled"]) and exit_code == _KILLED_BY_SIGNAL


async def listening_ports(engine: Engine, target: ExecTarget) -> frozenset[int]:
    """Return the TCP ports listened on inside, by the kernel's own list. Raises EngineError,
    SandboxLost."""
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

    @classmethod
    def read(cls, answer: bytes) -> "Stopped | None":
        """Read what `stop_all` says (scripts/processes.sh); None if it is something else."""
        if (numbers := _three_numbers(answer)) is None:
            return None
        killed, left, everything = numbers
        return cls(killed, left, bool(everything))


async def stop_call(
    engine: Engine,
    target: ExecTarget,
    number: int,
    starting: "asyncio.Task[Execution]",
    freeze_lock: FreezeLock,
) -> tuple[Execution, Stopped | None]:
    """Stop all that a call started, and nothing else, once it has started and nobody holds the
    freeze lock.

    The wrapper does it, and if it is not certain that nothing at all is left, an exec of its own.
    Without a Stopped if the container did not answer. An engine that does not answer is not waited
    for. Raises EngineError, SandboxLost.
    """
    if not await engine.answers():
        raise EngineError("the Docker engine does not answer")
    try:
        async with asyncio.timeout(_MOST_STOP_SECONDS):
            execution = await asyncio.shield(starting)
            async with freeze_lock.activity():
                first, certain = await execution.stop()
                if first is None or not certain:
                    second = await _stopped(engine, target, number)
                    already = 0 if first is None else first.killed
                    first = (
                        None if second is None else replace(second, killed=second.killed + already)
                    )
                return execution, first
    except TimeoutError as error:
        raise EngineError(f"the command was not stopped within {_MOST_STOP_SECONDS:g} s") from error


async def close_started(starting: "asyncio.Task[Execution]") -> None:
    """Close what is starting, or has started; nothing if it did not."""
    starting.cancel()
    with suppress(SandboxError, asyncio.CancelledError):
        await (await starting).close()


async def _stopped(engine: Engine, target: ExecTarget, number: int) -> Stopped | None:
    for _attempt in range(2):
        try:
            answer = await run_script(engine, target, "stop", [str(number)], _STOP_SECONDS)
        except EngineError as error:
            if error.status is not None or "did not answer" not in str(error):
                raise
            return None
        if (stopped := Stopped.read(answer)) is not None:
            return stopped
    return None
