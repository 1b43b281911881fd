"""What one call prints: passed on while it runs, kept for its result."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import groupby
from operator import itemgetter

from codeagent.core.ports import OutputSink
from codeagent.tools.printed import PrintedStream
from codeagent.tools.shell.output import CommandOutput

_MOST_WAITING = 1 << 20
"""Characters; of more, whoever watches sees only the end."""


class PrintedOutput:
    """`take` may be called in any thread; what comes after the end is dropped."""

    def __init__(self, open_sink: Callable[[], OutputSink], on_update: Callable[..., Awaitable[None]]) -> None:
        self._kept = CommandOutput(open_sink)
        self._on_update = on_update
        self._lock = threading.Lock()
        self._waiting: deque[tuple[PrintedStream, str]] = deque()
        self._waiting_size = 0
        self._news = asyncio.Event()
        self._told = False
        self._loop = asyncio.get_running_loop()
        self._text: str | None = None

    def take(self, stream: PrintedStream, text: str) -> None:
        with self._lock:
            if self._text is not None:
                return
            fresh = self._kept.feed(stream, text.encode("utf-8", "backslashreplace"))
            self._waiting.append((stream, fresh[-_MOST_WAITING:]))
            self._waiting_size += len(self._waiting[-1][1])
            while self._waiting_size > _MOST_WAITING:
                self._waiting_size -= len(self._waiting.popleft()[1])
            told, self._told = self._told, True
        if told:
            return
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:  # the loop is closed: nobody watches any more
            return

    @asynccontextmanager
    async def passed_on(self) -> AsyncIterator[None]:
        """Meanwhile what is printed reaches whoever watches; at the end all of it has."""
        pump = asyncio.create_task(self._pump())
        try:
            yield
        finally:
            pump.cancel()
            await asyncio.wait({pump})
            await self._pass_on()

    def text(self) -> str:
        """All of it, as a model may read it; nothing is taken any more."""
        with self._lock:
            if self._text is None:
                self._text = self._kept.finish()
            return self._text

    async def _pump(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self._pass_on()

    async def _pass_on(self) -> None:
        with self._lock:
            waiting, self._waiting, self._waiting_size = self._waiting, deque(), 0
            self._told = False
        for stream, pieces in groupby(waiting, key=itemgetter(0)):
            await self._on_update("".join(text for _, text in pieces), stream)
