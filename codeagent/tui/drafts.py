"""Keeps text that was typed but not yet sent on disk, so that a crash loses at most half a second
of it."""

import asyncio
import os
import re
import threading
from collections.abc import Sequence
from pathlib import Path

from codeagent.disk.locks import open_lock_file, try_lock
from codeagent.disk.private import make_private_folder, replace_private

_MOST_WINDOWS = 100
"""Windows in one folder whose drafts are found again after a crash."""
_EVERY = 0.5
"""Seconds between two saves while the user types."""


def own_draft(path: Path) -> "Draft":
    """Return the draft of one window, at `path` or beside it: never one that another window is
    using.

    A draft that a killed window left behind is preferred to an empty one. Blocks on small files.
    """
    try:
        make_private_folder(path.parent)
        for place in (
            *_left_behind(path),
            path,
            *(path.with_name(f"{path.name}.{n}") for n in range(2, _MOST_WINDOWS)),
        ):
            if (lock := _lock(place)) is not None:
                return Draft(place, lock)
    except OSError:
        pass  # saving will report what is wrong with the folder
    return Draft(path.with_name(f"{path.name}.{os.getpid()}"))


def _left_behind(path: Path) -> list[Path]:
    """Return the files of drafts of this folder, the newest first."""
    own = re.compile(re.escape(path.name) + r"(\.\d+)?")
    return sorted(
        (each for each in path.parent.iterdir() if own.fullmatch(each.name)),
        key=_written,
        reverse=True,
    )


def _written(path: Path) -> float:
    """Return when the file was last written, in seconds since the epoch; 0 if it has just gone."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _lock(path: Path) -> int | None:
    """Return a descriptor that locks the draft for as long as it is open; None if another window
    holds the lock."""
    fd = open_lock_file(path.with_name(f"{path.name}.lock"))
    if try_lock(fd):
        return fd
    os.close(fd)
    return None


class Draft:
    """A file with the plain text, readable by its owner only; there is no file while the composer
    is empty.

    `keep` and `clear` return at once: the file is written in a thread, the last text wins, and no
    timer runs while nothing changes. Both need a running event loop. `trouble` says why the file
    could not be read or written.
    """

    def __init__(self, path: Path, lock: int | None = None) -> None:
        """`lock` is a descriptor that `release` closes."""
        self._path = path
        self._lock = lock
        self._wanted = ""
        self.earlier = ""
        """The text that `load` found, until it is taken back; it stays on disk until then."""
        self._held: tuple[str, ...] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._writing = threading.Lock()
        self.trouble = ""
        """One line, empty if nothing is wrong."""

    def load(self) -> str:
        """Return the text that was left behind, which is `earlier` from now on. Blocks on a small
        file."""
        self._wanted = ""
        self._held = ()
        try:
            self.earlier = self._path.read_bytes().decode(errors="replace")
        except FileNotFoundError:
            self.earlier = ""
        except OSError as error:
            self.earlier = ""
            self.trouble = f"The draft cannot be read: {self._path}: {error.strerror}."
        return self.earlier

    def take_earlier(self) -> str:
        """Return the text that was left behind, which is the composer's from now on: `keep`
        follows."""
        earlier = self.earlier
        self.earlier = ""
        return earlier

    def keep(self, text: str) -> None:
        """Save this text within half a second."""
        self._wanted = text
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_EVERY, self._save_in_thread)

    def hold(self, texts: Sequence[str]) -> None:
        """Keep texts that were sent but not yet accepted, in front of the typed one; on disk when
        this returns."""
        self._held = tuple(texts)
        self._save(synced=True)

    def clear(self) -> None:
        """Remove the file now: the text was sent."""
        self._wanted = ""
        self._save_in_thread()

    def close(self) -> None:
        """Save any unsaved text; blocks on a small file."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._save()

    def release(self) -> None:
        """Save, and leave the draft to the next window."""
        self.close()
        lock = self._lock
        self._lock = None
        if lock is not None:
            os.close(lock)

    def _save_in_thread(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        asyncio.get_running_loop().run_in_executor(None, self._save)

    def _save(self, *, synced: bool = False) -> None:
        with self._writing:
            try:
                texts = (self.earlier, *self._held, self._wanted)
                self._write("\n".join(text for text in texts if text), synced=synced)
                self.trouble = ""
            except OSError as error:
                self.trouble = f"The draft is not saved: {self._path}: {error.strerror}."

    def _write(self, text: str, *, synced: bool) -> None:
        if not text:
            self._path.unlink(missing_ok=True)
            return
        replace_private(self._path, text.encode(errors="surrogatepass"), synced=synced)
