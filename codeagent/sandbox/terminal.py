"""Runs an interactive shell in the sandbox: this terminal, in raw mode, connected to one exec."""

import asyncio
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from codeagent.core.errors import EngineError
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.exec_stream import ExecStream, ExecTarget, start_exec


async def interact(engine: Engine, target: ExecTarget) -> int:
    """Run the shell and return its exit code. Without a terminal, standard input is its script.

    Raises EngineError, SandboxLost.
    """
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    command = ["bash", "--norc", *(["-i"] if is_terminal else [])]
    variables = (
        "PS1=sandbox:\\w\\$ ",
        f"TERM={os.environ.get('TERM', 'dumb') if is_terminal else 'dumb'}",
    )
    exec_id, stream = await start_exec(engine, target, command, variables, tty=is_terminal)
    loop = asyncio.get_running_loop()
    sending: set[asyncio.Task[None]] = set()

    def fit() -> None:
        size = shutil.get_terminal_size()
        task = loop.create_task(_resize(engine, exec_id, size.lines, size.columns))
        sending.add(task)
        task.add_done_callback(sending.discard)

    try:
        with _raw(is_terminal):
            if is_terminal:
                fit()
                loop.add_signal_handler(signal.SIGWINCH, fit)
            typed = asyncio.create_task(_type(stream))
            await _show(stream, is_terminal)
            typed.cancel()
    finally:
        if is_terminal:
            loop.remove_signal_handler(signal.SIGWINCH)
        stream.close()
    state = await engine.ask("GET", f"/exec/{exec_id}/json")
    return int(state.get("ExitCode") or 0)


async def _type(stream: ExecStream) -> None:
    """Pass standard input on; its end is the shell's end of input."""
    fd = sys.stdin.fileno()
    while True:
        await _readable(fd)
        data = os.read(fd, 65536)
        if not data:
            stream.writer.write_eof()
            return
        await stream.send(data)


async def _readable(fd: int) -> None:
    """Wait until `fd` is readable; a regular file always is, and the loop cannot watch one."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(fd, ready.set)
    except PermissionError:
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)


async def _show(stream: ExecStream, is_terminal: bool) -> None:
    """Print what the shell prints; a terminal gets one stream without frames."""
    pieces = ((False, piece) async for piece in stream.raw()) if is_terminal else stream.pieces()
    async for is_stderr, piece in pieces:
        while piece:
            piece = piece[os.write(2 if is_stderr else 1, piece) :]


async def _resize(engine: Engine, exec_id: str, lines: int, columns: int) -> None:
    try:
        await engine.ask("POST", f"/exec/{exec_id}/resize", {"h": lines, "w": columns})
    except EngineError:
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
