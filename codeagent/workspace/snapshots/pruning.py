"""Makes room: drops the sessions that are too old, then the oldest until the rest is small enough."""

import fcntl
import os
import secrets
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from codeagent.core.errors import CheckpointError
from codeagent.workspace.snapshots.place import StorePlace

_LAST = "refs/last"
_SESSIONS = "refs/sessions/"
_MOST_LOOSE = 2000
_MOST_PACKS = 40


@dataclass(frozen=True)
class Allowance:
    """How old (in seconds) and how large (in bytes) a workspace's snapshots may be."""

    age: float = 30 * 86400
    size: int = 2048 << 20


def prune(place: StorePlace, lock: int, last: str | None, allowance: Allowance) -> bool:
    """Under the store's lock; what a living process took stays, and so does `last`. Raises CheckpointError.

    False where `last` is not there.
    """
    _drop_old_stores(place, allowance.age)
    with place.writing():
        pinned = _pin(place, lock, last)
        dead = {name: at for name, at in _sessions(place, lock).items() if not _alive(place.live_file(name))}
        now = time.time()
        drop = [name for name, at in dead.items() if now - at > allowance.age]
        _drop(place, lock, drop)
        _tidy(place, lock, dropped=bool(drop))
        rest = sorted(dead.keys() - set(drop), key=lambda name: (dead[name], name))
        while rest and _size(place.git) > allowance.size:
            oldest, rest = rest[: len(rest) // 2 + 1], rest[len(rest) // 2 + 1 :]
            _drop(place, lock, oldest)
            _tidy(place, lock, dropped=True)
        _forget_the_dead(place)
    return pinned


def _pin(place: StorePlace, lock: int, last: str | None) -> bool:
    try:
        command = f"update {_LAST} {last}\n" if last is not None else f"delete {_LAST}\n"
        place.run(["update-ref", "--stdin"], lock, command.encode())
    except CheckpointError:
        return last is None
    return True


def _sessions(place: StorePlace, lock: int) -> dict[str, float]:
    """When each took its last snapshot, in seconds since the epoch."""
    form = "--format=%(refname:lstrip=2) %(committerdate:unix)"
    lines = place.run(["for-each-ref", form, _SESSIONS], lock).decode().splitlines()
    return {name: float(at) for name, _, at in (line.partition(" ") for line in lines)}


def _alive(file: Path) -> bool:
    """Whether the process that holds the file's lock has not ended."""
    try:
        fd = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _drop(place: StorePlace, lock: int, sessions: list[str]) -> None:
    if sessions:
        lines = "".join(f"delete {_SESSIONS}{name}\n" for name in sessions)
        place.run(["update-ref", "--stdin"], lock, lines.encode())


def _tidy(place: StorePlace, lock: int, *, dropped: bool) -> None:
    objects = place.git / "objects"
    packs = sum(1 for _ in objects.glob("pack/*.pack"))
    if dropped or packs > _MOST_PACKS:
        place.run(["repack", "-a", "-d", "-q"], lock)
        place.run(["prune", "--expire=now"], lock)
    elif sum(1 for _ in objects.glob("??/*")) > _MOST_LOOSE:
        place.run(["repack", "-d", "-q"], lock)
        place.run(["prune-packed", "-q"], lock)


def _forget_the_dead(place: StorePlace) -> None:
    for file in (place.folder / "live").iterdir():
        if not _alive(file):
            file.unlink(missing_ok=True)


def _size(folder: Path) -> int:
    """Bytes on the disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def _drop_old_stores(place: StorePlace, age: float) -> None:
    """Those of other workspaces that nobody has used for that long."""
    for folder in place.shelf.iterdir():
        try:
            if folder == place.folder or time.time() - folder.stat().st_mtime < age:
                continue
            _drop_store(folder)
        except OSError:
            continue


def _drop_store(folder: Path) -> None:
    """Unless somebody uses it, or a restore in it is not finished. Raises OSError."""
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if (folder / "journal.json").exists() or any(_alive(file) for file in (folder / "live").iterdir()):
            return
        gone = folder.with_name(f"{folder.name}.{secrets.token_hex(4)}.gone")
        folder.rename(gone)
        shutil.rmtree(gone)
    finally:
        os.close(fd)
