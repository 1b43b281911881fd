"""What people's functions print: kept from our own streams and given to the call that it belongs to."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TextIO

PrintedStream = Literal["stdout", "stderr"]
Listener = Callable[[PrintedStream, str], None]
"""May be called in any thread."""

_listener: ContextVar[Listener | None] = ContextVar("_listener", default=None)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Everything this context prints meanwhile goes to `listener`, from other threads of its own, too.

    A thread that was started without its context is heard by the call that began last. What a child process prints
    is not ours to hear.
    """
    _ROUTES.begin(listener)
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
        _ROUTES.end(listener)


class _Routes:
    """Stands before sys.stdout and sys.stderr as long as anyone listens, whoever has replaced them meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._made: list[_Route] = []
        """One for each stream there ever was. None is given up: until Python 3.13 `print` only borrows the stream it
        writes to, and crashes where another thread frees it meanwhile."""

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
        found = next((route for route in self._made if route.beyond is stream and route.which == name), None)
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
    """A stream that asks for each text whom it belongs to."""

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
