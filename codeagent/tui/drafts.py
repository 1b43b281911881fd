"""What is typed and not sent yet, kept on disk so that a crash loses half a second of it at most."""

import asyncio
import os
import threading
from pathlib import Path

_EVERY = 0.5
"""Seconds between two saves while the person types."""


class Draft:
    """A file with the text as it is, readable by its owner only; no file where nothing is typed.

    `keep` and `clear` return at once: the file is written in a thread, the last text wins, and no timer runs while
    nothing changes. Both need a running event loop. `trouble` says why the file could not be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wanted = ""
        self._timer: asyncio.TimerHandle | None = None
        self._writing = threading.Lock()
        self.trouble = ""
        """One line, empty where nothing is wrong."""

    def load(self) -> str:
        """What was left behind; empty where nothing was. Blocks on a small file."""
        try:
            return self._path.read_bytes().decode(errors="replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            self.trouble = f"The draft cannot be read: {self._path}: {error.strerror}."
            return ""

    def keep(self, text: str) -> None:
        """Save this within half a second."""
        self._wanted = text
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_EVERY, self._save_in_thread)

    def clear(self) -> None:
        """The text was sent: the file goes now."""
        self._wanted = ""
        self._save_in_thread()

    def close(self) -> None:
        """Save what is not saved yet; blocks on a small file."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._save()

    def _save_in_thread(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        asyncio.get_running_loop().run_in_executor(None, self._save)

    def _save(self) -> None:
        with self._writing:
            try:
                self._write(self._wanted)
                self.trouble = ""
            except OSError as error:
                self.trouble = f"The draft is not saved: {self._path}: {error.strerror}."

    def _write(self, text: str) -> None:
        if not text:
            self._path.unlink(missing_ok=True)
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode(errors="surrogatepass"))
        new.replace(self._path)
