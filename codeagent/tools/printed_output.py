"""What one call prints: passed on while it runs, kept for its result."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from codeagent.core.ports import OutputSink
from codeagent.tools.command_output import CommandOutput
from codeagent.tools.printed import PrintedStream

_MOST_WAITING = 1 << 20
"""Characters; of more, whoever watches sees only the end."""


class PrintedOutput:
    """`take` may be called in any thread; what comes after the end is dropped."""

    def __init__(self, open_sink: Callable[[], OutputSink], on_update: Callable[..., Awaitable[None]]) -> None:
        self._kept = CommandOutput(open_sink)
        self._on_update = on_update
        self._lock = threading.Lock()
        self._waiting: list[tuple[PrintedStream, str]] = []
        self._news = asyncio.Event()
        self._told = False
        self._loop = asyncio.get_running_loop()
        self._text: str | None = None

    def take(self, stream: PrintedStream, text: str) -> None:
        with self._lock:
            if self._text is not None:
                return
            fresh = self._kept.feed(stream, text.encode("utf-8", "backslashreplace"))
            self._waiting.append((stream, fresh))
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
            waiting, self._waiting = self._waiting, []
            self._told = False
        joined: list[tuple[PrintedStream, str]] = []
        for stream, text in waiting:
            if joined and joined[-1][0] == stream:
                joined[-1] = (stream, (joined[-1][1] + text)[-_MOST_WAITING:])
            else:
                joined.append((stream, text))
        for stream, text in joined:
            await self._on_update(text, stream)
