"""Reads standard input as lines, in a daemon thread."""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator

LONGEST_LINE = 64 * 1024 * 1024
"""The most bytes of one message."""
_PIECE = 1 << 16
_AHEAD = 16
"""Lines that are read ahead."""


class InputLines:
    """The lines of standard input, which is then empty for everything else in this process."""

    def __init__(self) -> None:
        """Raises OSError or ValueError if standard input is not a descriptor."""
        self._fd = os.dup(sys.stdin.fileno())
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, sys.stdin.fileno())
        os.close(nothing)

    async def __aiter__(self) -> AsyncIterator[str]:
        """Iterate until standard input ends, or a line is too long, after which messages cannot be
        told apart."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_AHEAD)
        arguments = (asyncio.get_running_loop(), queue)
        threading.Thread(target=self._read, args=arguments, name="input", daemon=True).start()
        while (line := await queue.get()) is not None:
            yield line.decode("utf-8", "replace")

    def _read(self, loop: asyncio.AbstractEventLoop, queue: asyncio.Queue[bytes | None]) -> None:
        with contextlib.suppress(RuntimeError, OSError):  # the loop was closed, or reading failed
            rest = bytearray()
            while len(rest) <= LONGEST_LINE and (piece := os.read(self._fd, _PIECE)):
                *lines, last = piece.split(b"\n")
                for line in lines:
                    asyncio.run_coroutine_threadsafe(queue.put(bytes(rest + line)), loop).result()
                    rest.clear()
                rest += last
        with contextlib.suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(queue.put(None), loop).result()
