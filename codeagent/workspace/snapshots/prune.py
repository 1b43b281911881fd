"""Makes room: drops the sessions that are too old, then the oldest until the rest is small
enough."""

import secrets
import shutil
import time
from pathlib import Path

from codeagent.core.errors import CheckpointError
from codeagent.disk.locks import open_lock_file, try_lock
from codeagent.disk.opens import closing_fd
from codeagent.workspace.snapshots.store import Retention, SnapshotStore, is_alive

_LAST = "refs/last"
_SESSIONS = "refs/sessions/"
_MOST_LOOSE = 2000
_MOST_PACKS = 40


def prune(store: SnapshotStore, last: str | None, allowance: Retention) -> bool:
    """Prune under the store's lock; snapshots of living processes stay, and so does `last`. Raises
    CheckpointError.

    Returns False if `last` does not exist. After an interruption, the next pruning continues.
    """
    _drop_old_stores(store, allowance.age)
    with store.writing():
        pinned = _pin(store, last)
        form = "--format=%(refname:lstrip=2) %(committerdate:unix)"
        rows = (
            row.partition(" ")
            for row in store.run("for-each-ref", form, _SESSIONS).decode().splitlines()
        )
        dead = {name: float(at) for name, _, at in rows if not is_alive(store.live_file(name))}
        now = time.time()
        drop = [name for name, at in dead.items() if now - at > allowance.age]
        _drop(store, drop)
        rest = sorted(dead.keys() - set(drop), key=lambda name: (dead[name], name))
        while (
            rest
            and sum(path.lstat().st_blocks * 512 for path in store.git.rglob("*")) > allowance.size
        ):
            oldest = rest[: len(rest) // 2 + 1]
            rest = rest[len(rest) // 2 + 1 :]
            _drop(store, oldest)
        for file in (store.folder / "live").iterdir():
            if not is_alive(file):
                file.unlink(missing_ok=True)
    return pinned


def _pin(store: SnapshotStore, last: str | None) -> bool:
    try:
        command = f"update {_LAST} {last}\n" if last is not None else f"delete {_LAST}\n"
        store.run("update-ref", "--stdin", data=command.encode())
    except CheckpointError:
        return last is None
    return True


def _drop(store: SnapshotStore, sessions: list[str]) -> None:
    """Drop the sessions and pack what is left; without sessions, pack only if there is much to
    pack."""
    objects = store.git / "objects"
    if sessions:
        lines = "".join(f"delete {_SESSIONS}{name}\n" for name in sessions)
        store.run("update-ref", "--stdin", data=lines.encode())
    if sessions or sum(1 for _ in objects.glob("pack/*.pack")) > _MOST_PACKS:
        store.run("repack", "-a", "-d", "-q")
        store.run("prune", "--expire=now")
    elif sum(1 for _ in objects.glob("??/*")) > _MOST_LOOSE:
        store.run("repack", "-d", "-q")
        store.run("prune-packed", "-q")


def _drop_old_stores(store: SnapshotStore, age: float) -> None:
    """Remove the stores of other workspaces that nobody has used for `age` seconds."""
    for folder in store.all_stores.iterdir():
        try:
            if folder == store.folder or time.time() - folder.stat().st_mtime < age:
                continue
            _drop_store(folder)
        except OSError:
            continue


def _drop_store(folder: Path) -> None:
    """Remove a store unless somebody uses it, or a restore in it is unfinished. Raises OSError."""
    with closing_fd(open_lock_file(folder / "lock", create=False)) as fd:
        if (
            not try_lock(fd)
            or (folder / "journal.json").exists()
            or any(is_alive(file) for file in (folder / "live").iterdir())
        ):
            return
        gone = folder.with_name(f"{folder.name}.{secrets.token_hex(4)}.gone")
        folder.rename(gone)
        shutil.rmtree(gone)
