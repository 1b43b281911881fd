"""Copies what lands to the file system of the workspace, with all that belongs to a file: mode,
times, names, attributes and holes."""

import errno
import os
import stat
from pathlib import Path

from codeagent.changes.layers import attributes, opened
from codeagent.disk.opens import closing_fd, create_file, open_below, open_regular


def mount_of(folder: int) -> tuple[int, str]:
    """Return what identifies the mount that an open folder is in: between two of them nothing can
    be renamed."""
    about = Path(f"/proc/self/fdinfo/{folder}").read_text(encoding="ascii")
    mount = next(line for line in about.splitlines() if line.startswith("mnt_id"))
    return os.fstat(folder).st_dev, mount


class LayerCopy:
    """Copies into one folder; files that are one file with several names stay that."""

    def __init__(self, top: int) -> None:
        """`top`: the open folder."""
        self._top = top
        self._first: dict[int, str] = {}
        """The path below `top` of the first copy of each file, by the inode of the original."""

    def add(self, name: str, source: int, path: str, target: int) -> None:
        """Copy what has the name in an open folder, with all that is in it, to a path below the
        top, whose folder is open as `target`. Raises OSError."""
        new = path.rpartition("/")[2]
        status = os.stat(name, dir_fd=source, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), new, dir_fd=target)
            if os.geteuid() == 0:
                os.chown(new, status.st_uid, status.st_gid, dir_fd=target, follow_symlinks=False)
            os.utime(new, ns=_times(status), dir_fd=target, follow_symlinks=False)
        elif stat.S_ISDIR(status.st_mode):
            os.mkdir(new, 0o700, dir_fd=target)
            with opened(source, name) as old, opened(target, new) as made:
                for inner in os.listdir(old):  # noqa: PTH208  # a descriptor, no path
                    self.add(inner, old, f"{path}/{inner}", made)
                make_like(made, old)
        elif (first := self._first.setdefault(status.st_ino, path)) != path:
            *parents, known = first.split("/")
            with closing_fd(open_below(self._top, parents)) as folder:
                os.link(known, new, src_dir_fd=folder, dst_dir_fd=target, follow_symlinks=False)
        else:
            with (
                closing_fd(open_regular(name, within=source)) as old,
                closing_fd(create_file(new, within=target)) as made,
            ):
                _copy_content(old, made)
                make_like(made, old)


def make_like(made: int, other: int) -> None:
    """Give an open file or folder the mode, times and attributes of another, and its owner if this
    process may. Raises OSError."""
    status = os.fstat(other)
    if os.geteuid() == 0:
        os.fchown(made, status.st_uid, status.st_gid)
    for name, value in attributes(other).items():
        os.setxattr(made, name, value)
    mode = stat.S_IMODE(status.st_mode)
    os.fchmod(made, mode if stat.S_ISDIR(status.st_mode) else mode & 0o777)
    os.utime(made, ns=_times(status))


def _copy_content(old: int, new: int) -> None:
    """Copy what is in a file but not its holes."""
    size = os.fstat(old).st_size
    os.ftruncate(new, size)
    at = 0
    while at < size:
        try:
            at = os.lseek(old, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # there is only a hole
                return
            raise
        end = os.lseek(old, at, os.SEEK_HOLE)
        os.lseek(new, at, os.SEEK_SET)
        while at < end:
            at += os.sendfile(new, old, at, end - at)


def _times(status: os.stat_result) -> tuple[int, int]:
    return status.st_atime_ns, status.st_mtime_ns
