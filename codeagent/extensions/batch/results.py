"""The results folder of a batch: a folder for each task, and one file to which the records are added
and in which they never change."""

import errno
import gc
import json
import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Self

from pydantic_core import from_json

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.events import RunReason
from codeagent.core.messages import Usage
from codeagent.disk.locks import locked, open_lock_file, try_lock
from codeagent.disk.opens import open_appended, read_regular, sync_folder
from codeagent.disk.private import make_private_folder, replace_private
from codeagent.extensions.batch.copies import discard
from codeagent.extensions.batch.tasks import BatchTask
from codeagent.workspace.snapshots.store import SnapshotStore

State = RunReason | Literal["passed"]
"""How a task ended: its check `passed` or `failed`, it is `done` and has no check, or the reason why
the agent ended early."""
Retry = Literal["failed", "denied", "all"]
RECORDS = "results.jsonl"
RECORD = "record.json"
_ATTEMPT = "attempt.json"
_TASK = "task.json"


@dataclass(frozen=True)
class TaskRecord:
    """How an attempt at a task ended."""

    key: str
    subject: str
    """See `BatchTask.subject`."""
    title: str
    repository: str
    commit: str
    """The full hash of the commit that it started from; empty if it could not start."""
    model: str
    state: State
    error: str
    """Why it failed or ended early, otherwise empty."""
    denied: tuple[str, ...]
    """The rules that would have allowed what was denied because nobody was there to approve."""
    changed: tuple[int, int, int]
    """The numbers of files that the patch changes, lines that it adds and lines that it removes."""
    usage: Usage
    turns: int
    seconds: float
    """How long the last process worked on it."""
    attempt: int
    """The number of the attempt, from 1."""
    session: str
    """The id of the session; empty if none began."""

    @property
    def passed(self) -> bool:
        """Whether the agent finished and the check, if there is one, passed."""
        return self.state in ("passed", "done")

    def line(self) -> bytes:
        """Return it as a line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False).encode() + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> Self:
        """Read what `line` wrote. Raises ValueError, TypeError, KeyError for anything else."""
        given: dict[str, Any] = from_json(line)  # takes half as long as json.loads
        usage = Usage(**given.pop("usage"))
        changed, denied = tuple(given.pop("changed")), tuple(given.pop("denied"))
        return cls(**given, usage=usage, changed=changed, denied=denied)


@dataclass(frozen=True)
class Attempt:
    """An attempt that has begun: its number, and its commit and session as soon as it has them."""

    number: int
    commit: str
    session: str = ""


@dataclass(frozen=True)
class TaskFolder:
    """The folder of one task; the process that works on the task writes everything in it."""

    path: Path

    @property
    def copy(self) -> Path:
        """The working copy."""
        return self.path / "copy"

    @property
    def patch(self) -> Path:
        return self.path / "patch.diff"

    @property
    def diff(self) -> Path:
        """The page of the patch."""
        return self.path / "diff.html"

    @property
    def kept(self) -> Path:
        """The files that `keep` names."""
        return self.path / "kept"

    @property
    def page(self) -> Path:
        """The page of the session."""
        return self.path / "session.html"

    def describe(self, task: BatchTask) -> None:
        """Write the task's content to the folder. Raises OSError."""
        text = json.dumps(task.described(), indent=2, ensure_ascii=False)
        replace_private(self.path / _TASK, text.encode())

    def name(self) -> str:
        """Return the task's name; empty if it has none. Raises OSError."""
        return str(json.loads(read_regular(self.path / _TASK))["name"])

    def attempt(self) -> Attempt:
        """Return the attempt that was begun last, by default the first. Raises OSError."""
        try:
            return Attempt(**json.loads(read_regular(self.path / _ATTEMPT)))
        except FileNotFoundError:
            return Attempt(1, "")

    def begin(self, attempt: Attempt) -> None:
        """Write down that an attempt begins. Raises OSError."""
        replace_private(self.path / _ATTEMPT, json.dumps(asdict(attempt)).encode())

    def finish(self, record: TaskRecord) -> None:
        """Write down the record: from then on the task is done again only if `--retry` asks for it.
        Raises OSError."""
        replace_private(self.path / RECORD, record.line())

    def record(self) -> TaskRecord | None:
        """Return the record of the last attempt; None if it has not ended. Raises OSError,
        ValueError."""
        try:
            record = TaskRecord.of_line(read_regular(self.path / RECORD))
        except FileNotFoundError:
            return None
        return None if self.follows(record) else record

    def clear(self) -> None:
        """Remove what an earlier attempt left, or one that was cut off before its working copy was
        complete. Raises OSError."""
        if not self.attempt().commit:
            for each in (self.copy, self.patch, self.diff, self.kept, self.page):
                discard(each)

    def tidy(self, state_dir: Path) -> None:
        """Remove the working copy and its checkpoints, which are of use only there, and what writing
        the patch left."""
        checkpoints = SnapshotStore(state_dir, self.copy.resolve()).folder
        leftovers = (self.copy, checkpoints, self.patch.with_suffix(".git"))
        for left in (*leftovers, *self.path.glob(".*.tmp")):
            discard(left)

    def follows(self, record: TaskRecord) -> bool:
        """Whether another attempt was begun after this record. Raises OSError."""
        return self.attempt().number > record.attempt


class Results:
    """The records of a batch, and the folders of its tasks."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.where = str(self.path)
        """The folder or the address of the results."""
        self.records: dict[str, TaskRecord] = {}
        """The last record of each task, by its key, in the order in which the tasks ended."""
        self.spent = 0.0
        """The cost of all attempts that have ended, in US dollars."""
        self.unfinished: set[str] = set()
        """The keys of the tasks that were running when the batch was killed."""
        self._lock: int | None = None
        self._file: int | None = None

    @property
    def state_dir(self) -> Path:
        """The state folder of the batch: it contains the sessions."""
        return self.path / "state"

    def folder(self, key: str) -> TaskFolder:
        return TaskFolder(self.path / key)

    def read(self) -> Self:
        """Read the records; a line that a crash cut off is ignored. Raises ConfigError."""
        try:
            data = read_regular(self.path / RECORDS)
        except FileNotFoundError:
            return self
        except OSError as error:
            raise ConfigError(f"{self.path / RECORDS} cannot be read ({error.strerror})") from error
        gc.disable()  # nothing of it is garbage, and looking for some would take half of the time
        try:
            self._add_lines(data)
        finally:
            gc.enable()
        return self

    def _add_lines(self, data: bytes) -> None:
        for number, line in enumerate(data.split(b"\n")[:-1], 1):
            try:
                self._add(TaskRecord.of_line(line))
            except (ValueError, TypeError, KeyError) as error:
                raise ConfigError(
                    f"{self.path / RECORDS}:{number}: it is not a record ({error}); nothing was run"
                ) from None

    def fetch(self, keys: Iterable[str]) -> None:
        """Download the folders of these tasks if they are at an address. Raises ConfigError."""

    def publish(self) -> None:
        """Upload the records and the summary if they belong at an address. Raises ConfigError."""

    def hold(self) -> Self:
        """Read the records, and keep other batches from writing until `close`, which has to be
        called also if this fails. Raises ConfigError, OSError."""
        make_private_folder(self.path)
        self._lock = open_lock_file(self.path / "lock")
        if not try_lock(self._lock):
            raise ConfigError(f"another batch is writing to {self.path}; nothing was run")
        self._file = open_appended(self.path / RECORDS)
        written = read_regular(self.path / RECORDS)
        os.ftruncate(self._file, written.rfind(b"\n") + 1)  # a crash may have cut off a line
        make_private_folder(self._begun)
        sync_folder(self.path)
        for left in self.path.glob(".*.tmp"):
            discard(left)
        self.unfinished = {each.name for each in self._begun.iterdir()}
        return self.read()

    @property
    def _begun(self) -> Path:
        """The folder with an empty file for each running task, so that a start need not look at all
        tasks."""
        return self.path / "begun"

    def begin(self, key: str) -> TaskFolder:
        """Note that a task is running, and return its folder. If the task has ended before, another
        attempt begins, unless it has begun already. Raises OSError."""
        folder = self.folder(key)
        (self._begun / key).touch(0o600)
        record = self.records.get(key)
        if record is not None and not folder.follows(record):
            folder.begin(Attempt(record.attempt + 1, ""))
        return folder

    def collect(self) -> None:
        """Add the records that are only in the folders of tasks, as the batch was killed, and remove
        the working copies of those tasks; processes of that batch may still work on the others.
        Raises OSError, ValueError."""
        for key in sorted(self.unfinished):
            folder, known = self.folder(key), self.records.get(key)
            record = folder.record()
            if record is not None and (known is None or known.attempt < record.attempt):
                self.append(record)
            elif known is not None and not folder.follows(known):
                self._end(key)

    def append(self, record: TaskRecord) -> None:
        """Add a record: it is on the disk when this returns, and not at all if this raises
        OSError."""
        assert self._file is not None
        size, line = os.fstat(self._file).st_size, record.line()
        try:
            if os.write(self._file, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, size)
            raise
        self._add(record)
        self._end(record.key)

    def _end(self, key: str) -> None:
        """Remove what an ended task no longer needs. If its process still holds the lock, or
        something cannot be removed, the next start does that."""
        folder = self.folder(key)
        self.unfinished.discard(key)
        with suppress(OSError), locked(folder.path / "lock"):
            folder.tidy(self.state_dir)
            (self._begun / key).unlink(missing_ok=True)

    def _add(self, record: TaskRecord) -> None:
        self.records.pop(record.key, None)
        self.records[record.key] = record
        self.spent += record.usage.cost_usd or 0.0

    def missing(
        self, tasks: Collection[BatchTask], retry: Collection[Retry] = ()
    ) -> list[BatchTask]:
        """Return the tasks to do: first those that were begun, then those without a record and those
        that ended in a way to `retry`."""
        found = [task for task in tasks if self._is_missing(task.key, retry)]
        return sorted(found, key=lambda task: task.key not in self.unfinished)

    def _is_missing(self, key: str, retry: Collection[Retry]) -> bool:
        record = self.records.get(key)
        if record is None or record.state == "interrupted" or "all" in retry:
            return True
        if key in self.unfinished:
            return True
        denied = record.state == "denied" or bool(record.denied)
        return ("denied" in retry and denied) or ("failed" in retry and not record.passed)

    def close(self) -> None:
        for fd in (self._lock, self._file):
            if fd is not None:
                os.close(fd)
        self._lock = self._file = None
