"""Runs one hook program: what it is told goes in, what it prints comes out, and nothing of it is left behind."""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import ENOENT
from pathlib import Path

from codeagent.core.programs import find_program

_MOST = 1024 * 1024
"""Bytes that a program may print on either stream."""
_PIECE = 64 * 1024
_LAST_WORDS_SECONDS = 1.0


@dataclass(frozen=True)
class Printed:
    code: int
    out: bytes
    err: bytes


async def run_hook_program(command: Sequence[str], folder: Path, told: bytes) -> Printed:
    """To its end, and to that of its output. Raises OSError where it does not start, ValueError where it floods.

    A caller that is cancelled ends it, with everything in its process group.
    """
    program = command[0] if "/" in command[0] else find_program(command[0], folder)
    if program is None:
        raise FileNotFoundError(ENOENT, "not found on PATH outside the workspace", command[0])
    process = await asyncio.create_subprocess_exec(
        program, *command[1:], cwd=folder, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    talk = [asyncio.create_task(work) for work in (_all_of(process.stdout), _all_of(process.stderr))]
    telling = asyncio.create_task(_give(process, told))
    try:
        out, err = await asyncio.gather(*talk)
        await telling
        return Printed(await process.wait(), out, err)
    finally:
        for task in (*talk, telling):
            task.cancel()
        await asyncio.wait((*talk, telling))
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # Read to the end: asyncio tells of an exit only when the pipes were.
            await asyncio.wait({asyncio.ensure_future(process.communicate())}, timeout=_LAST_WORDS_SECONDS)


async def _all_of(stream: asyncio.StreamReader | None) -> bytes:
    assert stream is not None  # it is a pipe
    pieces, size = [], 0
    while piece := await stream.read(_PIECE):
        size += len(piece)
        if size > _MOST:
            raise ValueError(f"it printed more than {_MOST // 1024} KiB")
        pieces.append(piece)
    return b"".join(pieces)


async def _give(process: Process, told: bytes) -> None:
    """A program need not read what it is told."""
    assert process.stdin is not None  # it is a pipe
    try:
        process.stdin.write(told)
        await process.stdin.drain()
    except (BrokenPipeError, ConnectionResetError):
        pass
    process.stdin.close()
