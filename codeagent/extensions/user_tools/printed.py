"""Captures what user-defined functions print, and passes it to the call that it belongs to."""

import asyncio
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TextIO

from codeagent.core.memory import OutputSink
from codeagent.core.messages import OutputStream, require_text, require_update
from codeagent.core.tool import ToolContext
from codeagent.tools.shell.run import CommandOutput

PrintedStream = Literal["stdout", "stderr"]
_Kind = OutputStream | Literal["progress"]
Listener = Callable[[PrintedStream, str], None]
"""Called with printed text, in any thread."""

_listener: ContextVar[Listener | None] = ContextVar("_listener", default=None)
_MOST_WAITING = 1 << 20
"""Characters passed on at once; of longer text, watchers see only the end."""


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Send everything that this context prints, in any of its threads, to `listener` until the
    block ends.

    Output of a thread that was started without the context goes to the call that began last. The
    output of child processes is not captured.
    """
    _ROUTES.begin(listener)
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
        _ROUTES.end(listener)


class _Routes:
    """Wraps sys.stdout and sys.stderr while there is a listener, even if they have been replaced
    since."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._made: list[_Route] = []
        """One for each stream that there ever was. None is dropped: until Python 3.13 `print` only
        borrows the stream it writes to, and crashes if another thread frees it in the meantime."""

    def begin(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.append(listener)
            if not isinstance(sys.stdout, _Route):
                sys.stdout = self._before("stdout", sys.stdout)
            if not isinstance(sys.stderr, _Route):
                sys.stderr = self._before("stderr", sys.stderr)

    def end(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.remove(listener)
            if self._listeners:
                return
            if isinstance(sys.stdout, _Route):
                sys.stdout = sys.stdout.beyond
            if isinstance(sys.stderr, _Route):
                sys.stderr = sys.stderr.beyond

    def _before(self, name: PrintedStream, stream: TextIO) -> "_Route":
        found = next(
            (route for route in self._made if route.beyond is stream and route.which == name), None
        )
        if found is None:
            found = _Route(name, stream, self)
            self._made.append(found)
        return found

    def listener(self) -> Listener | None:
        own = _listener.get()
        if own is not None or threading.current_thread() is threading.main_thread():
            return own
        with self._lock:
            return self._listeners[-1] if self._listeners else None


class _Route:
    """A stream that passes each text to the listener that it belongs to."""

    def __init__(self, name: PrintedStream, beyond: TextIO, routes: _Routes) -> None:
        self.beyond = beyond
        self.which: PrintedStream = name
        self._routes = routes

    def write(self, text: str) -> int:
        listener = self._routes.listener()
        if listener is None:
            return self.beyond.write(text)
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        listener(self.which, text)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if self._routes.listener() is None:
            self.beyond.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beyond, name)


_ROUTES = _Routes()


class PrintedOutput:
    """What one call prints and shows: passed on in order while it runs; what it prints is kept for
    its result.

    Text is accepted from any thread; after the end it is dropped.
    """

    def __init__(self, open_sink: Callable[[], OutputSink], ctx: ToolContext) -> None:
        self._kept = CommandOutput(open_sink)
        self._on_update = ctx.on_update
        self._on_progress = ctx.on_progress
        self._lock = threading.Lock()
        self._passing = asyncio.Lock()
        """Held while text is passed on, to keep the order."""
        self._waiting: deque[tuple[_Kind, str]] = deque()
        self._waiting_size = 0
        self._news = asyncio.Event()
        self._told = False
        self._loop = asyncio.get_running_loop()
        self._text: str | None = None

    def take(self, stream: PrintedStream, text: str) -> None:
        with self._lock:
            if self._text is not None:
                return
            told = self._queue(
                stream, self._kept.feed(stream, text.encode("utf-8", "backslashreplace"))
            )
        self._tell(told)

    def show(self, text: str, stream: OutputStream = "output") -> Awaitable[None]:
        """Pass text on in its turn, but not into the result (a `ToolContext.on_update`, for any
        thread)."""
        require_update(text, stream)
        return self._say(stream, text)

    def progress(self, text: str) -> Awaitable[None]:
        """Pass text on in its turn (a `ToolContext.on_progress`, for any thread)."""
        require_text("on_progress", text)
        return self._say("progress", text)

    def _say(self, kind: _Kind, text: str) -> Awaitable[None]:
        """Queue text; awaiting what is returned waits until it has been passed on."""
        with self._lock:
            told = True if self._text is not None else self._queue(kind, text)
        self._tell(told)
        return _PassedOn(self._pass_on)

    def _queue(self, kind: _Kind, text: str) -> bool:
        """Queue text, and return whether the pump already knows that something waits."""
        self._waiting.append((kind, text[-_MOST_WAITING:]))
        self._waiting_size += len(self._waiting[-1][1])
        while self._waiting_size > _MOST_WAITING:
            self._waiting_size -= len(self._waiting.popleft()[1])
        told = self._told
        self._told = True
        return told

    def _tell(self, told: bool) -> None:
        if told:
            return
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:  # the loop is closed, so nobody watches
            return

    @asynccontextmanager
    async def passed_on(self) -> AsyncIterator[None]:
        """Pass on what is printed until the block ends, completely."""
        pump = asyncio.create_task(self._pump())
        try:
            yield
        finally:
            pump.cancel()
            await asyncio.wait({pump})
            await self._pass_on()

    def text(self) -> str:
        """Return everything that was printed, as a model may read it; after that, `take` drops what
        it gets."""
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
        async with self._passing:
            while (piece := self._next()) is not None:
                kind, text = piece
                await (
                    self._on_progress(text) if kind == "progress" else self._on_update(text, kind)
                )

    def _next(self) -> tuple[_Kind, str] | None:
        """Take the oldest text with what follows it on the same stream; None if nothing waits."""
        with self._lock:
            if not self._waiting:
                self._told = False
                return None
            kind, text = self._waiting.popleft()
            texts = [text]
            while kind != "progress" and self._waiting and self._waiting[0][0] == kind:
                texts.append(self._waiting.popleft()[1])
            self._waiting_size -= sum(map(len, texts))
            return kind, "".join(texts)


class _PassedOn:
    """Awaiting it waits until everything that is queued has been passed on."""

    def __init__(self, pass_on: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._pass_on = pass_on

    def __await__(self) -> Generator[Any, None, None]:
        return self._pass_on().__await__()
