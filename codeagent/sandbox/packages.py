"""The package cache: what package managers downloaded, kept for all containers of one workspace, up
to a size.

Commands write what is in it. So on this machine nothing in it is read, run or followed: it is
measured and removed.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.disk.opens import read_regular
from codeagent.disk.private import make_private_folder, write_private
from codeagent.disk.trees import TO_CHANGE, TO_LIST, empty, entered, listed, move_out

INSIDE = "/var/cache/codeagent"
"""Where it is mounted."""
VARIABLES = {
    "PIP_CACHE_DIR": f"{INSIDE}/pip",
    "UV_CACHE_DIR": f"{INSIDE}/uv",
    "UV_LINK_MODE": "copy",
    "npm_config_cache": f"{INSIDE}/npm",
    "CARGO_HOME": f"{INSIDE}/cargo",
    "GOMODCACHE": f"{INSIDE}/go",
}
"""The environment of commands that have it. A file in it cannot be a hard link to one in the
workspace."""
_SAID_BY = {"GOMODCACHE": "GOPATH"}
"""Variables with which an image says where something is, besides the one of the same name."""
_FILES = "files"
_REMOVED = "removed"
"""What is being removed; no container sees it."""
_WORKSPACE = "workspace"
_LONGEST_PATH = 4096
_WHOLE_AT = 3
"""How many names lead to what is removed as a whole: a package manager takes an unpacked package
for complete."""
_FILE_BY_FILE = (("pip",), ("npm", "_cacache"))
"""Where every file is complete by itself, up to `_FILES_AT` names deep."""
_FILES_AT = 8
_DEEPEST = 100
"""Folders in folders; what is deeper is not a package, and counts as too large for any cache."""
_MOST_UNITS = 200_000
"""A cache with more of them is emptied."""
_ENTRY = 4096
"""Bytes that a file or folder takes at least: a disk can run out of names, too."""
Names = tuple[str, ...]


@dataclass(frozen=True)
class _Unit:
    """What is removed at once: a file, or a folder with all that is in it."""

    path: Names
    size: int
    """Bytes on the disk."""
    used_ns: int
    """When a file of it was last made or, as far as the file system keeps that, read."""


@dataclass(frozen=True)
class PackageCache:
    """The package cache of one workspace. Every method blocks."""

    folder: Path
    """Below the state folder, so that no workspace contains it."""
    workspace: Path
    """Absolute, links resolved."""

    @property
    def is_orphan(self) -> bool:
        """Whether its workspace is gone, or another folder is in its place."""
        try:
            return _digest(self.workspace) != self.folder.name
        except OSError:
            return True

    def open(self, uid: int) -> tuple[Path, int]:
        """Make what is missing; return the folder to mount, which belongs to `uid`, and its inode.
        Raises OSError."""
        make_private_folder(self.folder)
        write_private(self.folder / _WORKSPACE, os.fsencode(self.workspace))
        files = self.folder / _FILES
        files.mkdir(mode=TO_CHANGE, exist_ok=True)
        with entered(files, TO_CHANGE) as fd:
            status = os.fstat(fd)
            if status.st_uid != uid:
                os.fchown(fd, uid, -1)
            return files, status.st_ino

    def size(self) -> int:
        """Return the bytes that it takes on the disk."""
        return sum(unit.size for unit in self._units(2**63))

    def trim(self, most: int) -> None:
        """Remove what can never fit, then what was not used for the longest time, until `most`
        bytes are left."""
        self._empty()
        units = list(islice(self._units(most), _MOST_UNITS + 1))
        if len(units) > _MOST_UNITS:
            self.clear()
            return
        left = sum(unit.size for unit in units)
        gone = []
        for unit in sorted(units, key=lambda unit: (unit.size <= most, unit.used_ns)):
            if left <= most:
                break
            gone.append(unit.path)
            left -= unit.size
        self._remove(gone)

    def clear(self) -> None:
        """Remove all that is in it; containers keep it, empty."""
        self._empty()
        with suppress(FileNotFoundError), entered(self.folder / _FILES, TO_LIST) as files:
            self._remove((entry.name,) for entry in listed(files))

    def forget(self) -> None:
        """Remove all that is in it, and itself."""
        self.clear()
        with suppress(OSError):
            for name in (_FILES, _REMOVED):
                with suppress(FileNotFoundError):
                    (self.folder / name).rmdir()
            (self.folder / _WORKSPACE).unlink(missing_ok=True)
            self.folder.rmdir()

    def _units(self, most: int) -> Iterator[_Unit]:
        with suppress(FileNotFoundError), entered(self.folder / _FILES, TO_LIST) as files:
            yield from _units_below(files, (), most)

    def _remove(self, paths: Iterable[Names]) -> None:
        """Take each out of the cache in one step, so that no package manager sees a half; then
        remove them."""
        removed = self.folder / _REMOVED
        removed.mkdir(mode=TO_CHANGE, exist_ok=True)
        with (
            entered(self.folder / _FILES, TO_CHANGE) as files,
            entered(removed, TO_CHANGE) as target,
        ):
            for path in paths:
                with suppress(OSError):  # also if another session was faster
                    _take_out(files, path, target)
        self._empty()

    def _empty(self) -> None:
        with suppress(FileNotFoundError), entered(self.folder / _REMOVED, TO_CHANGE) as removed:
            empty(removed)


def package_cache(state_dir: Path, workspace: Path) -> PackageCache:
    """Return the cache of this very folder; another one in its place has another cache. Raises
    OSError."""
    path = workspace.resolve()
    return PackageCache(_place(state_dir) / _digest(path), path)


def variables_beside(names: frozenset[str]) -> dict[str, str]:
    """Return VARIABLES without those that an image decides, which sets the variables `names`.

    It may have been built with packages in that place, for commands without network access.
    """
    return {
        name: value
        for name, value in VARIABLES.items()
        if names.isdisjoint((name, _SAID_BY.get(name, name)))
    }


def package_caches(state_dir: Path) -> tuple[PackageCache, ...]:
    """Return the caches of all workspaces."""
    try:
        return tuple(
            PackageCache(folder, _kept_for(folder))
            for folder in sorted(_place(state_dir).iterdir())
        )
    except OSError:
        return ()


def _kept_for(folder: Path) -> Path:
    try:
        return Path(os.fsdecode(read_regular(folder / _WORKSPACE, most=_LONGEST_PATH)))
    except OSError:
        return folder  # which is an orphan


def _place(state_dir: Path) -> Path:
    return state_dir / "sandbox" / "packages"


def _digest(path: Path) -> str:
    status = path.lstat()
    return sha256(b"%s\0%d\0%d" % (os.fsencode(path), status.st_dev, status.st_ino)).hexdigest()[
        :32
    ]


def _units_below(fd: int, above: Names, most: int) -> Iterator[_Unit]:
    """Yield the units in an open folder, which the names `above` lead to."""
    for entry in listed(fd):
        path = (*above, entry.name)
        deep = (
            _FILES_AT
            if any(path[: len(prefix)] == prefix for prefix in _FILE_BY_FILE)
            else _WHOLE_AT
        )
        if not entry.is_dir(follow_symlinks=False) or len(path) >= deep:
            with suppress(OSError):  # it is gone
                yield _Unit(path, *_measured(fd, entry, most))
            continue
        with suppress(OSError), entered(entry.name, TO_LIST, fd) as inner:
            found = False
            for unit in _units_below(inner, path, most):
                found = True
                yield unit
            if not found:
                yield _Unit(path, _ENTRY, os.fstat(inner).st_ctime_ns)


def _measured(fd: int, entry: os.DirEntry[str], most: int, depth: int = 0) -> tuple[int, int]:
    """Return the size of an entry of an open folder, and when it was used. Beyond `most` nothing is
    counted.

    Raises OSError.
    """
    status = entry.stat(follow_symlinks=False)
    if not entry.is_dir(follow_symlinks=False):
        return max(status.st_blocks * 512, _ENTRY), max(status.st_atime_ns, status.st_ctime_ns)
    if depth >= _DEEPEST:
        return most + 1, 0
    size = _ENTRY
    used = 0
    with entered(entry.name, TO_LIST, fd) as inner:
        for below in listed(inner):
            with suppress(OSError):
                more, when = _measured(inner, below, most, depth + 1)
                size += more
                used = max(used, when)
            if size > most:
                break
    return size, used or status.st_ctime_ns


def _take_out(files: int, path: Names, target: int) -> None:
    """Move what is at `path` below the open folder `files` into `target`, and remove the folders
    that it leaves empty.

    Raises OSError, also once a folder is not empty.
    """
    with _inside(files, path[:-1]) as folder:
        move_out(folder, path[-1], target)
    for last in range(len(path) - 2, -1, -1):
        with _inside(files, path[:last]) as folder:
            os.rmdir(path[last], dir_fd=folder)


@contextmanager
def _inside(files: int, path: Names) -> Iterator[int]:
    """Enter what `path` below the open folder `files` leads to. Raises OSError."""
    with ExitStack() as folders:
        for name in path:
            files = folders.enter_context(entered(name, TO_CHANGE, files))
        yield files
