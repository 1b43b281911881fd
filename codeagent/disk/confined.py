"""Opens paths confined to one directory, from its descriptor; nothing is checked first and opened
later."""

import ctypes
import errno
import os
import posixpath
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import (
    ContentChanged,
    MissingPath,
    NotAFile,
    OutsideWorkspace,
    ProtectedPath,
    WorkspaceError,
)
from codeagent.core.paths import protected_part, refuse_hidden_secret
from codeagent.core.sanitize import spelled
from codeagent.disk.opens import open_folder

_SYS_OPENAT2 = 437
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MOST_LINKS = 40
_MOST_RETRIES = 64
_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@dataclass(frozen=True)
class Location:
    """Where a path leads: a name that is not a link, in an open directory."""

    parent: int
    """Descriptor of the directory, which the caller closes."""
    name: str
    """`.` if the path is the directory itself."""
    path: str
    """The path relative to the root, as it was walked."""


class ConfinedRoot:
    """A root directory and the two ways to open what is in it.

    With `kernel`, openat2 opens a path without links in one call. Without, and if there are links,
    each part is opened with O_NOFOLLOW and links are resolved here. Both refuse paths that lead
    out.
    """

    def __init__(self, root: int, shown_root: str, *, kernel: bool | None = None) -> None:
        """`root` stays the caller's to close; `kernel` None means to find out."""
        self._root = root
        self._shown_root = shown_root
        self.kernel = _has_openat2(root) if kernel is None else kernel

    def open(self, path: str, flags: int) -> int:
        """Open the path and return its descriptor.

        A file of secrets is not opened through a link with a harmless name. Raises WorkspaceError.
        """
        if self.kernel:
            with _named(path):
                fd = _openat2(self._root, path, flags | os.O_CLOEXEC)
            if fd is not None:
                return fd
        for _ in range(_MOST_RETRIES):
            with self.locate(path) as location, _named(path):
                if not flags & os.O_DIRECTORY:
                    refuse_hidden_secret(path, location.path)
                try:
                    return os.open(
                        location.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=location.parent
                    )
                except OSError as error:
                    if error.errno != errno.ELOOP:
                        raise
        raise WorkspaceError(f"{path} keeps changing while it is opened; nothing was touched")

    def stat(self, path: str) -> os.stat_result:
        """Return the status of what the path leads to. Raises WorkspaceError."""
        for _ in range(_MOST_RETRIES):
            with self.locate(path) as location, _named(path):
                found = os.stat(location.name, dir_fd=location.parent, follow_symlinks=False)
            if not stat.S_ISLNK(found.st_mode):
                return found
        raise WorkspaceError(f"{path} keeps changing while it is examined")

    @contextmanager
    def locate(
        self, path: str, *, make_parents: bool = False, follow: bool = True
    ) -> Iterator[Location]:
        """Find where the path leads; the directory stays open as long as the block lasts.

        The last part need not exist. Without `follow`, the last part is found itself if it is a
        link, and any other link raises ContentChanged. Missing directories are made on request, but
        never in a protected one. Raises WorkspaceError.
        """
        found = self._located(path, follow=follow) if self.kernel else None
        if found is not None:
            try:
                yield found
            finally:
                os.close(found.parent)
            return
        with _named(path):
            walk = _Walk(self._root, self._shown_root, path)
        try:
            with _named(path):
                location = walk.to_the_end(make_parents, follow=follow)
            yield location
        finally:
            walk.close()

    def _located(self, path: str, *, follow: bool) -> Location | None:
        """Open the folder of a path that no link leads to, in one call; None if only the walk can
        say what is there."""
        *folders, name = _parts(path) or [".."]
        if name == ".." or ".." in folders:
            return None
        try:
            fd = _openat2(self._root, "/".join(folders) or ".", _FOLDER)
        except (OSError, ValueError):
            return None
        if fd is None:
            return None
        try:
            if not follow or _link_target(fd, name) is None:
                return Location(fd, name, "/".join((*folders, name)))
        except (OSError, ValueError):
            pass
        os.close(fd)
        return None


class _Walk:
    """Walks one path part by part; `..` goes back to a directory that is still open."""

    def __init__(self, root: int, shown_root: str, path: str) -> None:
        self._shown_root = shown_root
        self._path = path
        self._pending = deque(_parts(path))
        self._links = 0
        self._open: list[tuple[int, str]] = [(os.dup(root), "")]

    def close(self) -> None:
        for fd, _ in self._open:
            os.close(fd)

    def to_the_end(self, make_parents: bool, *, follow: bool) -> Location:
        while self._pending:
            part = self._pending.popleft()
            parent = self._open[-1][0]
            if part == "..":
                if len(self._open) == 1:
                    raise OutsideWorkspace(
                        f"{self._path} leads out of the workspace; nothing was touched"
                    )
                os.close(self._open.pop()[0])
                continue
            target = _link_target(parent, part) if follow or self._pending else None
            if target is not None and not follow:
                raise ContentChanged(
                    f"{self._path} is behind the link {self._shown(part)}; nothing was written"
                )
            if target is not None:
                self._follow(part, target)
                continue
            if not self._pending:
                return Location(parent, part, self._shown(part))
            self._enter(parent, part, make_parents)
        return Location(self._open[-1][0], ".", self._shown(""))

    def _enter(self, parent: int, part: str, make: bool) -> None:
        try:
            fd = open_folder(part, within=parent)
        except FileNotFoundError:
            if not make:
                raise
            self._make(parent, part)
            fd = open_folder(part, within=parent)
        except OSError as error:
            if (
                error.errno in (errno.ELOOP, errno.ENOTDIR)
                and _link_target(parent, part) is not None
            ):
                self._links += 1
                self._check_links()
                self._pending.appendleft(part)
                return
            raise
        self._open.append((fd, part))

    def _make(self, parent: int, part: str) -> None:
        shown = self._shown(part)
        if protected_part(shown) is not None:
            raise ProtectedPath(f"{shown} is protected; nothing was written")
        try:
            os.mkdir(part, dir_fd=parent)
        except FileExistsError:
            return
        if os.geteuid() == 0:
            owner = os.fstat(self._open[0][0])
            os.chown(part, owner.st_uid, owner.st_gid, dir_fd=parent, follow_symlinks=False)

    def _follow(self, part: str, target: str) -> None:
        self._links += 1
        self._check_links()
        here = posixpath.join(self._shown_root, self._shown(part))
        real = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        rest = _inside(real, self._shown_root)
        if rest is None:
            raise OutsideWorkspace(
                f"{self._path} leads out of the workspace: the link {self._shown(part)} points to {real}; "
                "nothing was touched"
            )
        if posixpath.isabs(target):
            while len(self._open) > 1:
                os.close(self._open.pop()[0])
            target = _inside(posixpath.normpath(target), self._shown_root) or "."
        self._pending.extendleft(reversed(_parts(target)))

    def _check_links(self) -> None:
        if self._links > _MOST_LINKS:
            raise WorkspaceError(
                f"{self._path} goes through more than {_MOST_LINKS} links, perhaps in a circle"
            )

    def _shown(self, part: str) -> str:
        return "/".join([name for _, name in self._open[1:]] + ([part] if part else [])) or "."


def _inside(path: str, root: str) -> str | None:
    """Return the normalised absolute `path` relative to `root`; None if it is not in it."""
    if path == root:
        return "."
    prefix = root if root.endswith("/") else root + "/"
    return path[len(prefix) :] if path.startswith(prefix) else None


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _link_target(parent: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _has_openat2(root: int) -> bool:
    try:
        fd = _openat2(root, ".", _FOLDER)
    except OSError:
        return False
    if fd is not None:
        os.close(fd)
    return fd is not None


def _openat2(root: int, path: str, flags: int) -> int | None:
    """Return a descriptor; None if there is a link on the way, so that the walk has to decide.
    Raises OSError, UnicodeEncodeError."""
    if "\0" in path:
        return None
    how = _OpenHow(flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS)
    name = os.fsencode(path)
    for _ in range(_MOST_RETRIES):
        fd: int = _libc.syscall(
            _SYS_OPENAT2, root, name, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
        )
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code in (errno.EXDEV, errno.ELOOP):
            return None
        if code not in (errno.EAGAIN, errno.EINTR):
            raise OSError(code, os.strerror(code))
    return None


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Turn the system's errors into ours, with the path as the user knows it."""
    try:
        yield
    except FileNotFoundError:
        raise MissingPath(f"{spelled(path)} does not exist") from None
    except NotADirectoryError:
        raise NotAFile(f"a part of {spelled(path)} is not a directory") from None
    except ValueError:
        raise WorkspaceError(f"{path!r} is not a path") from None
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise NotAFile(f"{spelled(path)} is a socket or pipe, not a regular file") from None
        raise WorkspaceError(
            f"cannot open {spelled(path)}: {os.strerror(error.errno or 0)}; nothing was touched"
        ) from None
