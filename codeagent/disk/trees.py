"""Enters and empties folders whatever commands left in them: of any mode, and however deep."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from codeagent.disk.opens import closing_fd, open_folder

TO_LIST = 0o500
TO_CHANGE = 0o700


@contextmanager
def entered(name: str | Path, rights: int, within: int | None = None) -> Iterator[int]:
    """Open a folder itself, never through a link, with these rights for its owner. Raises
    OSError."""
    with closing_fd(open_folder(name, within=within, listed=False)) as fd:
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if mode & rights != rights:
            os.chmod(f"/proc/self/fd/{fd}", mode | rights)  # noqa: PTH101  # the folder that is open, whatever its name
        opened = open_folder(".", within=fd)
    with closing_fd(opened):
        yield opened


def listed(fd: int) -> Iterator[os.DirEntry[str]]:
    """Yield what is in an open folder."""
    with os.scandir(fd) as entries:
        yield from entries


def move_out(folder: int, name: str, target: int) -> str:
    """Move an entry of an open folder into another; return its new name. Raises OSError.

    A folder that its owner may not write to gets that right first, as it cannot be moved without.
    """
    with suppress(NotADirectoryError), entered(name, TO_CHANGE, folder):
        pass
    new_name = os.urandom(16).hex()
    os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=target)
    return new_name


def empty(folder: int) -> None:
    """Remove all that is in an open folder, as far as that is possible; what a process adds in the
    meantime may stay.

    Each folder is moved up before it is emptied: a command may have nested them too deeply for any
    path.
    """
    for entry in listed(folder):
        if not entry.is_dir(follow_symlinks=False):
            with suppress(OSError):
                os.unlink(entry.name, dir_fd=folder)
            continue
        folders = [entry.name]
        while folders:
            name = folders.pop()
            with suppress(OSError), entered(name, TO_CHANGE, folder) as inner:
                for below in listed(inner):
                    if below.is_dir(follow_symlinks=False):
                        folders.append(move_out(inner, below.name, folder))
                    else:
                        os.unlink(below.name, dir_fd=inner)
            with suppress(OSError):
                os.rmdir(name, dir_fd=folder)


def remove_tree(name: str, within: int) -> None:
    """Remove a folder with all that is in it, as far as that is possible; raises nothing."""
    with suppress(OSError):
        with entered(name, TO_CHANGE, within) as folder:
            empty(folder)
        os.rmdir(name, dir_fd=within)
