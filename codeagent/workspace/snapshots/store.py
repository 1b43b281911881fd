"""The folder that keeps one workspace's snapshots, and the git that writes and reads it.

Git is only ever run on the bare repository in there, with an empty configuration and from that
folder: it never sees the workspace, so nothing in the workspace (filters, hooks, nested
repositories) can make it run anything.
"""

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from codeagent.core.changes import Change
from codeagent.core.checkpoints import NodeKind
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CheckpointError
from codeagent.core.host_programs import GIT_CHECKPOINTS, open_program, run_program
from codeagent.core.programs import find_program, why_not_found
from codeagent.disk.locks import open_lock_file, try_lock, wait_for_lock
from codeagent.disk.opens import sync_folder
from codeagent.disk.private import replace_private, write_private
from codeagent.disk.repository import isolated_environment
from codeagent.workspace.snapshots.index import FileState

UMASK = 0o077
"""For git, which writes the store."""
_OLDEST_GIT = (2, 29)
_KINDS: tuple[NodeKind, ...] = ("file", "executable", "link")
_LOCK_SECONDS = 120.0
_STOP_STEP = 0.1
_MERGE = "merge-"
"""How the folders begin in which texts are merged."""
_MOST_CONFLICTS = 127
"""How git ends if that many could not be merged, or more; anything beyond is an error."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_CONFIG = """\
[core]
\trepositoryformatversion = 1
\tbare = true
\tcompression = 1
\tfsyncMethod = batch
\tfsmonitor = false
\thooksPath = /dev/null
\tlogAllRefUpdates = false
[extensions]
\tobjectFormat = sha256
[gc]
\tauto = 0
[maintenance]
\tauto = false
"""


class GitRefused(CheckpointError):
    """Git failed with an error of its own: the store may be damaged."""


@dataclass(frozen=True)
class Retention:
    """How old (in seconds) and how large (in bytes) a workspace's snapshots may be."""

    age: float = 30 * 86400
    size: int = 2048 << 20


class SnapshotStore:
    """The store of one workspace, in a folder of the state folder. Everything raises
    CheckpointError."""

    def __init__(self, state: Path, workspace: Path) -> None:
        """`workspace` is canonical. Nothing is created before `ready`."""
        self.workspace = workspace
        self.all_stores = state / "checkpoints"
        self.folder = self.all_stores / hashlib.sha256(os.fsencode(workspace)).hexdigest()[:32]
        self.git = self.folder / "git"
        self.session = f"{time.time_ns()}-{os.getpid()}-{secrets.token_hex(4)}"
        self.program = ""
        """The git that is run, an absolute path; empty before `ready`."""
        self._live = -1
        self._lock = -1
        self._stop = threading.Event()
        self._getting_ready = threading.Lock()

    def close(self) -> None:
        """Let this process's snapshots be pruned from now on."""
        if self._live >= 0:
            os.close(self._live)
            self._live = -1

    @property
    def ref(self) -> str:
        return f"refs/sessions/{self.session}"

    def ready(self) -> None:
        """Create what is missing, and mark this process as alive; threads that need it at once take
        turns."""
        with self._getting_ready:
            if self._live < 0:
                self._get_ready()

    def _get_ready(self) -> None:
        program = _usable_git(self.workspace)
        try:
            for folder in (self.all_stores, self.folder):
                _own_folder(folder)
            for name in ("live", "git", "git/refs", "git/objects"):
                (self.folder / name).mkdir(mode=0o700, exist_ok=True)
            _write_if_missing(self.folder / "workspace", os.fsencode(self.workspace) + b"\n")
            _write_if_missing(self.git / "config", _CONFIG.encode())
            _write_if_missing(self.git / "HEAD", b"ref: refs/heads/none\n")
            live = open_lock_file(self.live_file(self.session))
            wait_for_lock(live)
        except OSError as error:
            raise _unusable(self.folder, error) from None
        self.program = program
        self._live = live

    def live_file(self, session: str) -> Path:
        return self.folder / "live" / session

    def living(self) -> tuple[str, ...]:
        """Return the living sessions that use the store, this one included."""
        try:
            files = list((self.folder / "live").iterdir())
        except OSError as error:
            raise _unusable(self.folder, error) from None
        return tuple(file.name for file in files if file.name == self.session or is_alive(file))

    def others(self) -> tuple[int, ...]:
        """Return the ids of the other living processes that use the store."""
        return tuple(
            sorted({int(session.split("-")[1]) for session in self.living()} - {os.getpid()})
        )

    @contextmanager
    def locked(self, stop: threading.Event) -> Iterator[None]:
        """Hold the store's lock, one process at a time; git inherits it, so that a git that
        outlives us keeps it.

        `stop` ends the wait for it, and what `run` waits for.
        """
        self.ready()
        try:
            fd = open_lock_file(self.folder / "lock")
        except OSError as error:
            raise _unusable(self.folder, error) from None
        try:
            _wait_for(fd, stop)
            self._check_still_here(fd)
            self._clear_after_a_crash()
            self._lock = fd
            self._stop = stop
            try:
                yield
            finally:
                self._lock = (
                    -1
                )  # only now: another thread may be waiting for its turn, or give up waiting
        finally:
            os.close(fd)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Mark that git is writing: a mark found after taking the lock means that a process died
        while writing."""
        mark = self.folder / "writing"
        try:
            mark.touch(mode=0o600)
        except OSError as error:
            raise _unusable(self.folder, error) from None
        try:
            yield
        except BaseException:
            self._clear_after_a_crash()
            raise
        mark.unlink(missing_ok=True)

    def start(
        self, *arguments: str, stdin: IO[bytes] | int = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        """Start git under the lock, with pipes; its errors fit into one, so that they can be read
        at the end."""
        try:
            return open_program(
                GIT_CHECKPOINTS,
                [self.program, *arguments],
                folder=self.git,
                environment=isolated_environment(self.git),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(self._lock,),
                umask=UMASK,
            )
        except OSError as error:
            raise _unusable(self.folder, error) from None

    def run(self, *arguments: str, data: bytes = b"") -> bytes:
        """Return what git printed under the lock, given `data` to read."""
        with self.start(*arguments) as process:
            unsent: bytes | None = data
            while True:
                try:
                    out, errors = process.communicate(unsent, timeout=_STOP_STEP)
                    break
                except subprocess.TimeoutExpired:
                    unsent = None  # the first call keeps what it has not written yet
                    if self._stop.is_set():
                        process.kill()
                        raise _interrupted() from None
        if process.returncode:
            raise self.complaint(errors)
        return out

    def packs(self) -> Path:
        """Return the folder of git's packs. Raises OSError."""
        folder = self.git / "objects/pack"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def unusable(self, error: OSError) -> CheckpointError:
        return _unusable(self.folder, error)

    def merged(self, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
        """Merge two versions of a text, line by line, under the lock; None if both changed the same
        lines."""
        folder = self.folder / f"{_MERGE}{secrets.token_hex(8)}"
        names = [str(folder / name) for name in ("ours", "base", "theirs")]
        with self.writing():
            try:
                folder.mkdir(mode=0o700)
                for name, text in zip(names, (ours, base, theirs), strict=True):
                    write_private(Path(name), text)
            except OSError as error:
                raise _unusable(self.folder, error) from None
            with self.start("merge-file", "--stdout", "--quiet", *names) as process:
                out, errors = process.communicate()
            if not 0 <= process.returncode <= _MOST_CONFLICTS:
                raise self.complaint(errors)
            shutil.rmtree(folder, ignore_errors=True)
        return out if process.returncode == 0 else None

    def complaint(self, errors: bytes) -> CheckpointError:
        """Turn what git said into one line with the next step."""
        text = errors[-4000:].decode("utf-8", "replace")
        said = next(
            (line.strip() for line in text.splitlines() if line.strip()), "it ended without a word"
        )
        if any(word in text for word in (*map(os.strerror, _NO_ROOM), "Out of diskspace")):
            return CheckpointError(
                f"the disk of {self.folder} is full; nothing was changed: make room, then try again"
            )
        return GitRefused(
            f"git could not use the checkpoints in {self.folder}: {said}; nothing was changed: "
            "if this keeps happening, remove that folder and start again"
        )

    def _check_still_here(self, lock: int) -> None:
        """Check that the store still exists: pruning removes the stores of workspaces not used for
        a long time."""
        try:
            found = (self.folder / "lock").stat()
        except OSError:
            found = None
        if found is None or found.st_ino != os.fstat(lock).st_ino:
            self.close()
            raise CheckpointError(
                "the checkpoints of this folder have just been removed; nothing was changed: try again"
            )

    def _clear_after_a_crash(self) -> None:
        """Remove what a dead git left behind: under the lock no git of ours runs, so temporary
        files have no owner."""
        mark = self.folder / "writing"
        if not mark.exists():
            return
        for pattern in (
            "*.lock",
            "refs/**/*.lock",
            "fast_import_crash_*",
            "objects/pack/tmp_*",
            "objects/??/tmp_obj_*",
        ):
            for path in self.git.glob(pattern):
                path.unlink(missing_ok=True)
        for path in self.git.glob("objects/pack/pack-*.pack"):
            if not path.with_suffix(".idx").exists():
                path.unlink(missing_ok=True)
        for path in (
            *self.git.glob("objects/incoming-*"),
            *self.git.glob("objects/tmp_objdir-*"),
            *self.folder.glob(f"{_MERGE}*"),
        ):
            shutil.rmtree(path, ignore_errors=True)
        mark.unlink(missing_ok=True)


def _usable_git(workspace: Path) -> str:
    program = find_program("git", workspace)
    if program is None:
        why, remedy = why_not_found("git", workspace)
        raise CheckpointError(f"{why}, so no checkpoints are kept: {remedy} to be able to go back")
    try:
        done = run_program(
            GIT_CHECKPOINTS,
            [program, "version"],
            folder="/",
            environment={"LC_ALL": "C"},
            seconds=10,
        )
        done.check_returncode()
        said = done.stdout.decode(errors="replace").strip()
    except (OSError, subprocess.SubprocessError):
        said = "nothing"
    match = re.search(r"(\d+)\.(\d+)", said)
    if match is None or (int(match[1]), int(match[2])) < _OLDEST_GIT:
        oldest = ".".join(map(str, _OLDEST_GIT))
        raise CheckpointError(
            f"{program} says {said!r}, so no checkpoints are kept: install git {oldest} or newer to be able to go back"
        )
    return program


def is_alive(file: Path) -> bool:
    """Tell whether a living process holds the lock of its file in `live`."""
    try:
        fd = open_lock_file(file, create=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        return not try_lock(fd)
    except OSError:
        return True
    finally:
        os.close(fd)


def _own_folder(folder: Path) -> None:
    """Make sure that the folder is ours alone. Raises OSError, CheckpointError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise CheckpointError(
            f"{folder} is not your own folder, so no checkpoints are kept: move it away"
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        folder.chmod(0o700)


def _write_if_missing(path: Path, data: bytes) -> None:
    if not path.exists():
        replace_private(path, data)


def _wait_for(lock: int, stop: threading.Event) -> None:
    try:
        if not wait_for_lock(lock, seconds=_LOCK_SECONDS, stop=stop):
            raise _interrupted()
    except TimeoutError:
        raise CheckpointError(
            "another codeagent has been at work on the checkpoints of this folder for two minutes; "
            "nothing was changed: try again when it is done"
        ) from None
    except OSError as error:
        raise CheckpointError(
            f"the checkpoints cannot be locked: {os.strerror(error.errno or 0)}; nothing was changed"
        ) from None


def _interrupted() -> CheckpointError:
    return CheckpointError("the work on the checkpoints was interrupted; nothing was changed")


def _unusable(folder: Path, error: OSError) -> CheckpointError:
    reason = os.strerror(error.errno or 0)
    remedy = (
        "make room, then try again"
        if error.errno in _NO_ROOM
        else "make it writable, then start again"
    )
    return CheckpointError(
        f"checkpoints cannot be kept in {folder}: {reason}; nothing was changed: {remedy}"
    )


class HalfRestored(CheckpointError):
    """A restore was left halfway; the journal stays."""


class RestoreJournal:
    """The steps of the restore in progress, written down before the first one, so that a crash can
    be repaired."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __bool__(self) -> bool:
        return self._path.exists()

    def write(self, token: str, steps: Sequence[Change[FileState]]) -> None:
        """Write the steps down. Raises OSError; then no restore is in progress."""
        record = {"token": token, "steps": [(step.path, step.before, step.after) for step in steps]}
        replace_private(self._path, json.dumps(record).encode())

    def read(self) -> tuple[str, tuple[Change[FileState], ...]]:
        """Return token and steps. Raises CheckpointError."""
        try:
            record = json.loads(self._path.read_bytes())
            steps = tuple(
                Change(path, _known(old), _known(new)) for path, old, new in record["steps"]
            )
            return str(record["token"]), steps
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{self._path} cannot be read ({error}), so nobody knows which files an interrupted restore changed; "
                "nothing was changed: look at the workspace, then remove that file"
            ) from None

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)
        sync_folder(self._path.parent)


def _known(pair: Sequence[str] | None) -> FileState | None:
    """Raises ValueError if it is not a kind of file and a hash."""
    kind, blob = pair or ("file", "")
    if kind not in _KINDS:
        raise ValueError(f"{kind!r} is not a kind of file")
    return None if pair is None else FileState(kind, blob)
