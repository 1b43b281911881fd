"""One command in a running container: started, streamed piece by piece, and seen to its end."""

import asyncio
import time
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Literal

from codeagent.core.errors import SandboxLost
from codeagent.core.ports import OnOutput
from codeagent.sandbox.wire import Stream, Wire, WireError

LONGEST_ARGUMENT = 100_000
"""Bytes of a command that travel as an argument (the kernel's limit is 128 KiB); longer ones go over stdin."""
DRAIN_SECONDS = 0.2
"""How long output is waited for once the command has ended."""
_DRAIN_STEP = 0.02
_DRAIN_BYTES = 2 * 1024 * 1024
"""More than the pipes and the engine's buffers hold, so what comes later is a child's."""
_BEGIN_SECONDS = 30.0
_POLL_SECONDS = (0.1, 0.5)
_SETTLE_SECONDS = 0.002
_LONGEST_TRAILER = 100
_BEGUN = b"begun"


@dataclass(frozen=True)
class Place:
    """Where in the engine a command runs."""

    container_id: str
    user: str
    """`uid:gid`."""
    directory: str


@dataclass(frozen=True)
class Mark:
    """How one call is told from the others."""

    word: str
    """Sixteen hex digits: what its own report among the output begins with."""
    number: int
    """From 1, one more for each call of a container: what its processes are known by, see scripts/processes.sh."""


@dataclass(frozen=True)
class Ending:
    exit_code: int
    left_running: int
    out_of_memory: bool
    told: bool
    """Whether the command's end was reported from inside; if not, even its container may be gone."""


class Execution:
    """A command from its start to its end; `close` gives up the stream, not the processes."""

    def __init__(self, wire: Wire, exec_id: str, stream: Stream, mark: Mark, on_output: OnOutput) -> None:
        self._wire = wire
        self._id = exec_id
        self._stream = stream
        self._trailers = {False: TrailerFilter(mark.word), True: TrailerFilter(mark.word)}
        """By `is_stderr`."""
        self._on_output = on_output
        self._acknowledged = False
        self._begun = asyncio.Event()
        self._reading = True
        self._passed = 0
        self._pump = asyncio.create_task(self._pass_on())

    @classmethod
    async def start(
        cls, wire: Wire, place: Place, text: str, mark: Mark, on_output: OnOutput, variables: tuple[str, ...] = ()
    ) -> "Execution":
        """Returns once it runs. Raises WireError where nothing ran (404, 409: the container is gone), SandboxLost."""
        script = text.encode("utf-8", "replace")
        long = len(script) > LONGEST_ARGUMENT or b"\0" in script
        what = ["input", str(len(script))] if long else ["text", script.decode()]
        body = exec_body(place, "run", [mark.word, str(mark.number), *what])
        body["Env"] += variables
        exec_id, stream = await start_exec(wire, place, body)
        execution = cls(wire, exec_id, stream, mark, on_output)
        try:
            if long:
                await stream.send(script)
            # The engine answers before anything runs inside; paused in between, it would refuse to run it at all.
            async with asyncio.timeout(_BEGIN_SECONDS):
                await execution._begun.wait()
        except TimeoutError as error:
            await execution.close()
            raise SandboxLost(lost(f"it did not begin within {_BEGIN_SECONDS:g} s")) from error
        except BaseException:
            await execution.close()
            raise
        return execution

    async def finish(self) -> Ending:
        """Wait for the end. Raises SandboxLost, and whatever `on_output` raised."""
        interval, settling, failures = _POLL_SECONDS[0], False, 0
        while True:
            await asyncio.wait({self._pump}, timeout=interval)
            if self._pump.done():
                self._pump.result()
            try:
                state = await self._wire.request("GET", f"/exec/{self._id}/json")
            except WireError as error:
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
        """Pass on what is still coming, without waiting for more than DRAIN_SECONDS altogether.

        A child may hold the pipes for ever, silent or writing. A slow reader is waited for, up to
        `limit` seconds where that is given.
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
        try:
            await self._pass_all()
        finally:
            self._begun.set()

    async def _pass_all(self) -> None:
        async for is_stderr, piece in self._stream.pieces():
            self._passed += len(piece)
            data = self._trailers[is_stderr].feed(piece)
            # What it prints on one stream may overtake the word of its begin on the other, and a reader may be slow.
            if data or self._trailers[is_stderr].begun:
                self._begun.set()
            await self._give(is_stderr, data)
            if not self._acknowledged and all(trailer.told is not None for trailer in self._trailers.values()):
                self._acknowledged = True
                await self._stream.send(b"\n")
        for is_stderr, trailer in self._trailers.items():
            await self._give(is_stderr, trailer.flush())

    async def _give(self, is_stderr: bool, data: bytes) -> None:
        if not data:
            return
        stream: Literal["stdout", "stderr"] = "stderr" if is_stderr else "stdout"
        self._reading = False
        await self._on_output(stream, data)
        self._reading = True

    def _ending(self, exit_code: int | None) -> Ending:
        numbers = (self._trailers[True].told or b"").split()
        if exit_code is None or len(numbers) != 2 or not all(number.isdigit() for number in numbers):
            return Ending(-1 if exit_code is None else exit_code, 0, False, told=False)
        return Ending(exit_code, int(numbers[0]), numbers[1] != b"0", told=True)


class TrailerFilter:
    """Takes the wrapper's first and last word out of a stream: NUL, the mark, a space, what it says, newline."""

    def __init__(self, mark: str) -> None:
        self._mark = b"\0" + mark.encode() + b" "
        self._held = b""
        self.begun = False
        self.told: bytes | None = None

    def feed(self, data: bytes) -> bytes:
        """What of `data` is output; the beginning of a possible trailer is held back."""
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
            self.told = word

    def flush(self) -> bytes:
        held, self._held = self._held, b""
        return held


async def run_script(wire: Wire, place: Place, name: str, arguments: list[str], seconds: float) -> bytes:
    """The standard output of one of our own scripts. Raises WireError, also when the time is over."""
    answer, stream = b"", None
    try:
        async with asyncio.timeout(seconds):
            _, stream = await start_exec(wire, place, exec_body(place, name, arguments))
            async for is_stderr, piece in stream.pieces():
                if not is_stderr and len(answer) < 64 * 1024:
                    answer += piece
    except TimeoutError as error:
        raise WireError(f"the container did not answer within {seconds:g} s") from error
    finally:
        if stream is not None:
            stream.close()
    return answer


async def start_exec(wire: Wire, place: Place, body: dict[str, Any]) -> tuple[str, Stream]:
    """Raises WireError where nothing was started, SandboxLost where that is unknown."""
    created = await wire.request("POST", f"/containers/{place.container_id}/exec", body)
    exec_id = str(created["Id"])
    try:
        return exec_id, await wire.stream(f"/exec/{exec_id}/start", {"Detach": False, "Tty": body["Tty"]})
    except WireError as error:
        if error.status is None:
            raise SandboxLost(lost(str(error))) from error
        raise


def exec_body(place: Place, script: str, arguments: list[str]) -> dict[str, Any]:
    """The body of `POST /containers/ID/exec` for one of the scripts beside this module."""
    return {
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "User": place.user,
        "WorkingDir": place.directory,
        "Env": [],
        "Cmd": ["bash", "--norc", "-c", script_text(script), "codeagent", *arguments],
    }


@lru_cache(maxsize=8)
def script_text(name: str) -> str:
    """A script with the functions that all of them share, without its comments."""
    folder = resources.files("codeagent.sandbox").joinpath("scripts")
    texts = (folder.joinpath(f"{part}.sh").read_text(encoding="utf-8") for part in ("processes", name))
    lines = (line for text in texts for line in text.splitlines())
    return "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("# "))


def lost(reason: str) -> str:
    """The one line for a command whose end nobody saw."""
    return (
        f"the sandbox was lost while the command ran ({reason}): whether it took effect is unknown; "
        "files in the workspace are as it left them, and the next command starts a new sandbox"
    )
