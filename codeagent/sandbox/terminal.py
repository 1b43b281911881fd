"""An interactive shell in the sandbox: this terminal, in raw mode, on both ends of one exec."""

import asyncio
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from codeagent.sandbox.execution import Place, exec_body, start_exec
from codeagent.sandbox.wire import Stream, Wire, WireError


async def interact(wire: Wire, place: Place) -> int:
    """Returns the shell's exit code. Without a terminal, standard input is its script.

    Raises WireError, SandboxLost.
    """
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    body = exec_body(place, "run", []) | {
        "Tty": is_terminal,
        "Cmd": ["bash", "--norc", *(["-i"] if is_terminal else [])],
        "Env": ["PS1=sandbox:\\w\\$ ", f"TERM={os.environ.get('TERM', 'dumb') if is_terminal else 'dumb'}"],
    }
    exec_id, stream = await start_exec(wire, place, body)
    loop = asyncio.get_running_loop()
    sending: set[asyncio.Task[None]] = set()

    def fit() -> None:
        size = shutil.get_terminal_size()
        task = loop.create_task(_resize(wire, exec_id, size.lines, size.columns))
        sending.add(task)
        task.add_done_callback(sending.discard)

    try:
        with _raw(is_terminal):
            if is_terminal:
                fit()
                loop.add_signal_handler(signal.SIGWINCH, fit)
            typed = asyncio.create_task(_type(stream))
            await (_show_raw(stream) if is_terminal else _show(stream))
            typed.cancel()
    finally:
        if is_terminal:
            loop.remove_signal_handler(signal.SIGWINCH)
        stream.close()
    state = await wire.request("GET", f"/exec/{exec_id}/json")
    return int(state.get("ExitCode") or 0)


async def _type(stream: Stream) -> None:
    """Passes standard input on; its end is the shell's end of input."""
    fd = sys.stdin.fileno()
    while True:
        await _readable(fd)
        data = os.read(fd, 65536)
        if not data:
            stream.writer.write_eof()
            return
        await stream.send(data)


async def _readable(fd: int) -> None:
    """A regular file always is; the loop cannot watch one."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(fd, ready.set)
    except PermissionError:
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)


async def _show(stream: Stream) -> None:
    async for is_stderr, piece in stream.pieces():
        _write(2 if is_stderr else 1, piece)


async def _show_raw(stream: Stream) -> None:
    async for piece in stream.raw():
        _write(1, piece)


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


async def _resize(wire: Wire, exec_id: str, lines: int, columns: int) -> None:
    try:
        await wire.request("POST", f"/exec/{exec_id}/resize?h={lines}&w={columns}")
    except WireError:
        return


@contextmanager
def _raw(is_terminal: bool) -> Iterator[None]:
    if not is_terminal:
        yield
        return
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0)
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
