"""Mounts folders that belong to root a second time, as an ordinary user's; a file made there
belongs to root.

This file is only a program, which codeagent starts as root while a container is made. It imports
nothing but the standard library, and little of that: a container waits for it. Its input is the
folder for the mounts, the uid, the gid and the folders to mount, each followed by a NUL, and a line
break; it answers with one line. The mounts end with its input, even if codeagent is killed; if the
program is killed as well, the next one removes them.
"""

import ctypes
import errno
import fcntl
import os
import sys

_IDS = 0xFFFFFFFF
"""How many ids there are; the one after the last means none."""
_OPEN_TREE = 428
_MOVE_MOUNT = 429
_MOUNT_SETATTR = 442
"""System calls so new that they have the same numbers on all machines."""
_CLONE = 1
_RECURSIVE = 0x8000
_EMPTY_PATH = 0x1000
_FROM_DESCRIPTOR = 4
_CURRENT_FOLDER = -100
_IDMAP = 0x100000
_PRIVATE = 1 << 18
_NEW_USER_NAMESPACE = 0x10000000
_DETACH = 2
_NO_FOLLOW = 8
NAME = b"codeagent-"
"""How the folders for mounts begin; the id of their program follows."""
_LIBC = ctypes.CDLL(None, use_errno=True)


class _Attributes(ctypes.Structure):
    """The kernel's `struct mount_attr`."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "namespace")]


def main() -> None:
    asked = b""
    while not asked.endswith(b"\0\n"):  # which no path has in it, since all begin with a slash
        if not (piece := os.read(sys.stdin.fileno(), 1 << 16)):
            return
        asked += piece
    place, uid, gid, *folders, _ = asked.split(b"\0")
    mounts = [b"%s/%d" % (place, at) for at in range(len(folders))]
    try:
        namespace = _user_namespace(int(uid), int(gid))
        os.mkdir(place, 0o700)  # noqa: PTH102  # pathlib is slow to import
    except OSError as error:
        _answer(error.strerror or str(error))
        return
    try:
        fcntl.flock(_opened(place), fcntl.LOCK_EX)  # until this program ends, in whatever way
        for folder, mount in zip(folders, mounts, strict=True):
            _mount(folder, mount, namespace)
        _answer("ok")
        _remove_what_was_left(os.path.dirname(place))  # noqa: PTH120  # pathlib is slow to import
        os.read(sys.stdin.fileno(), 1)
    except OSError as error:
        _answer(error.strerror or str(error))
    finally:
        _unmount(place, mounts)
        os._exit(0)  # at once: codeagent waits for it


def _answer(text: str) -> None:
    os.write(sys.stdout.fileno(), f"{text}\n".encode())


def _mount(folder: bytes, mount: bytes, namespace: int) -> None:
    """Mount a folder with all that is mounted below it; later mounts there are not seen here."""
    os.mkdir(mount)  # noqa: PTH102  # pathlib is slow to import
    tree = _call(
        "open_tree", _OPEN_TREE, (_CURRENT_FOLDER, folder, _CLONE | os.O_CLOEXEC | _RECURSIVE)
    )
    wanted = _Attributes(_IDMAP, 0, _PRIVATE, namespace)
    given = (ctypes.byref(wanted), ctypes.sizeof(wanted))
    _call("mount_setattr", _MOUNT_SETATTR, (tree, b"", _EMPTY_PATH | _RECURSIVE, *given))
    _call("move_mount", _MOVE_MOUNT, (tree, b"", _CURRENT_FOLDER, mount, _FROM_DESCRIPTOR))
    os.close(tree)


def _unmount(place: bytes, mounts: list[bytes]) -> None:
    """Remove the mounts and their folders; no folder is ever emptied, as it may still be a
    mount."""
    for folder in (*mounts, place):
        _LIBC.umount2(folder, _DETACH | _NO_FOLLOW)
        try:
            os.rmdir(folder)  # noqa: PTH106  # pathlib is slow to import
        except OSError:
            continue  # it was not made, or is in use


def _remove_what_was_left(parent: bytes) -> None:
    """Remove the mounts of programs that were killed."""
    for name in os.listdir(parent):  # noqa: PTH208  # pathlib is slow to import
        number = name.removeprefix(NAME)
        if number == name or not number.isdigit():
            continue
        if os.path.exists(b"/proc/" + number):  # noqa: PTH110  # it may be about to lock its folder
            continue
        _remove_unless_held(parent + b"/" + name)


def _remove_unless_held(place: bytes) -> None:
    """Remove a folder of mounts unless its program holds it: one that another container sees has an
    id unknown here."""
    try:
        fd = _opened(place)
    except OSError:
        return
    try:
        if os.fstat(fd).st_uid != 0:
            return
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mounts = [place + b"/" + name for name in os.listdir(place)]  # noqa: PTH208  # pathlib is slow to import
        _unmount(place, mounts)
    except OSError:
        return
    finally:
        os.close(fd)


def _opened(folder: bytes) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _user_namespace(uid: int, gid: int) -> int:
    """Return a descriptor of a namespace in which the ids of root and the given ids are exchanged.
    Raises OSError."""
    made, making = os.pipe()
    ended, ending = os.pipe()
    child = os.fork()
    if child == 0:
        failed = _LIBC.unshare(_NEW_USER_NAMESPACE)
        os.write(making, bytes([ctypes.get_errno() if failed else 0]))
        os.close(ending)
        os.read(ended, 1)  # until the parent has opened the namespace, or ends itself
        os._exit(0)
    os.close(making)  # so that the end of the child can be read
    try:
        answer = os.read(made, 1) or bytes([errno.ECHILD])
        if problem := answer[0]:
            raise OSError(problem, f"unshare: {os.strerror(problem)}")
        for name, number in (("uid_map", uid), ("gid_map", gid)):
            with open(f"/proc/{child}/{name}", "w") as file:  # noqa: PTH123  # pathlib is slow to import
                file.write(_exchanged(number))
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(ending)
        os.waitpid(child, 0)


def _exchanged(number: int) -> str:
    """Return a map of ids in which 0 and `number` are exchanged, and all others stay as they
    are."""
    if number == 0:
        return f"0 0 {_IDS}\n"
    rows = (
        (0, number, 1),
        (1, 1, number - 1),
        (number, 0, 1),
        (number + 1, number + 1, _IDS - number - 1),
    )
    return "".join(f"{inside} {outside} {count}\n" for inside, outside, count in rows if count)


def _call(name: str, number: int, arguments: tuple[object, ...]) -> int:
    """Make a system call. Raises OSError."""
    plain = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = int(_LIBC.syscall(ctypes.c_long(number), *plain))
    if result < 0:
        problem = ctypes.get_errno()
        raise OSError(problem, f"{name}: {os.strerror(problem)}")
    return result


if __name__ == "__main__":
    main()
