"""The files that a server's program is made of, as they are now: what they hold, and a cheap way to
see a change."""

import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SandboxUnavailable
from codeagent.disk.opens import read_regular

MOST_FILES = 10_000
MOST_BYTES = 128 << 20
_MOST_LINKS = 40
_LONGEST_TEXT = 64 * 1024
_MOST_TEXT = 1 << 20
"""Bytes of a file, and of all together, that are kept to show later what changed in them."""
_SETTLED_NS = 2_000_000_000
"""How old a change must be for the file system's clock to tell it from a later one."""
_MOVE = "put its program into a folder of its own, without its data, or outside the workspace"

Stamp = tuple[int, ...]


@dataclass(frozen=True)
class ProgramFiles:
    """What a program is made of. Two are equal if the files are: whoever agreed to one has agreed
    to the other."""

    digests: Mapping[str, str]
    """By path, relative to the workspace if it is in there: SHA-256 of a file, `-> TARGET` of a
    link."""
    texts: Mapping[str, str]
    """Of small files of text, by path."""
    stamps: Mapping[str, Stamp | None]
    """What the file system says of each path, links and folders too; None if there is nothing."""
    settled: bool
    """Whether any later change shows in the stamps."""

    @property
    def manifest(self) -> str:
        """Return a line for each file, which says all of it: what the user sees and agrees to."""
        lines = sorted(self.digests.items())
        return "\n".join(
            f"{path if path.isprintable() else json.dumps(path)}  {digest}"
            for path, digest in lines
        )

    def may_have_changed(self) -> bool:
        """Tell whether the files have to be read again. Blocks, much shorter than reading them."""
        return not self.settled or any(
            _stamp(path) != before for path, before in self.stamps.items()
        )


def program_files(paths: Iterable[Path], beside: Iterable[Path], root: Path) -> ProgramFiles:
    """Read files, and folders with all that is in them; links are followed, and what is `beside`
    may be missing.

    Blocks. Raises SandboxUnavailable if that is too much to be watched, or cannot be read.
    """
    look = _Look(root)
    try:
        for path in paths:
            look.take(path)
        for path in beside:
            look.take(path, missing=True)
    except OSError as error:
        problem = f"what it would run cannot be read: {error.filename} ({error.strerror})"
        raise SandboxUnavailable(problem, _MOVE) from error
    newest = max((stamp[-1] for stamp in look.stamps.values() if stamp), default=0)
    return ProgramFiles(look.digests, look.texts, look.stamps, newest < look.began - _SETTLED_NS)


class _Look:
    def __init__(self, root: Path) -> None:
        self.began = time.time_ns()
        self.digests: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.stamps: dict[str, Stamp | None] = {}
        self._root = os.path.realpath(root)
        self._bytes = 0
        self._kept = 0

    def take(self, path: Path, *, missing: bool = False) -> None:
        """Read what is at a path, and below it. Raises OSError; FileNotFoundError unless it may be
        `missing`."""
        there = self._followed(path)
        if not missing and _stamp(there) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(there))
        pending = [str(there)]
        while pending:
            found = pending.pop()
            if found in self.stamps:
                continue
            stamp = self.stamps[found] = _stamp(found)
            if stamp is not None and stat.S_ISDIR(stamp[0]):
                with os.scandir(found) as listed:
                    pending += [
                        str(self._followed(Path(one))) if one.is_symlink() else one.path
                        for one in listed
                    ]
            elif stamp is not None:
                self._read(found, stamp)
            if len(self.stamps) > MOST_FILES or len(pending) > MOST_FILES:
                self._refuse()

    def _followed(self, path: Path) -> Path:
        """Return where a path leads, and note every link on the way."""
        done, left, links = Path("/"), list(reversed(path.parts[1:])), 0
        while left:
            part = left.pop()
            here = done.parent if part == ".." else done / part
            stamp = _stamp(here)
            if stamp is None or not stat.S_ISLNK(stamp[0]):
                done = here
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            target = here.readlink()
            self.stamps[str(here)] = stamp
            self.digests[self._name(str(here))] = f"-> {target}"
            left += reversed([part for part in target.parts if part != "/"])
            done = Path("/") if target.is_absolute() else done
        return done

    def _read(self, path: str, stamp: Stamp) -> None:
        name = self._name(path)
        if not stat.S_ISREG(stamp[0]):
            self.digests[name] = "not a file"
            return
        self._bytes += stamp[_SIZE]
        if self._bytes > MOST_BYTES:
            self._refuse()
        try:
            data = read_regular(path, largest=stamp[_SIZE])
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error
        self.digests[name] = hashlib.sha256(data).hexdigest()
        if len(data) > _LONGEST_TEXT or self._kept + len(data) > _MOST_TEXT or b"\0" in data:
            return
        try:
            self.texts[name] = data.decode()
            self._kept += len(data)
        except UnicodeDecodeError:
            return

    def _name(self, path: str) -> str:
        return path.removeprefix(f"{self._root}/")

    def _refuse(self) -> None:
        most = f"{MOST_FILES:,} files or {MOST_BYTES >> 20} MiB"
        raise SandboxUnavailable(
            f"what it would run in the workspace is too much to be watched (more than {most})",
            _MOVE,
        )


_SIZE = 3


def _stamp(path: str | Path) -> Stamp | None:
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    kind = status.st_mode
    return (
        kind,
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
