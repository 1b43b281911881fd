"""Results at an address that fsspec knows, such as `s3://BUCKET/NAME`, for nodes that share no folder.
The address has the truth; each machine works in its own folder."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from codeagent.config.local_environment import state_dir
from codeagent.core.errors import ConfigError
from codeagent.extensions.batch.copies import discard
from codeagent.extensions.batch.results import (
    RECORD,
    RECORDS,
    Results,
    Retry,
    TaskFolder,
    TaskRecord,
)

_RECORDS = "records"
"""The folder with the last record of each task; `results.jsonl` is uploaded when a batch ends."""


class RemoteResults(Results):
    """The results at an address; `path` is the folder of this machine's copy."""

    def __init__(self, url: str) -> None:
        super().__init__(local_folder(where := url.rstrip("/")))
        self.where = where
        self._cut_off: set[str] = set()
        """The keys of the tasks whose last attempt was not uploaded completely."""

    def read(self) -> Self:
        """Read the records of this machine, and add those that only the address has. Raises
        ConfigError."""
        super().read()
        attempts = dict[str, int]()
        with reached(self.where) as (files, root):
            names = list[str]()
            for path in (f"{root}/{RECORDS}", f"{root}/{_RECORDS}"):
                # Any other error must not look like no records: every task would be done again.
                with suppress(FileNotFoundError):
                    names += files.ls(path, detail=False)
            found = files.cat(names) if names else {}
            for name in names:
                if found[name].isdigit():
                    attempts[name.rpartition("/")[2]] = int(found[name])
                    continue
                for record in map(TaskRecord.of_line, found[name].splitlines()):
                    if self._is_newer(record.key, record.attempt):
                        (self.append if self._file else self._add)(record)
        self._cut_off = {key for key, number in attempts.items() if self._is_newer(key, number)}
        return self

    def _is_newer(self, key: str, attempt: int) -> bool:
        known = self.records.get(key)
        return known is None or known.attempt < attempt

    def _is_missing(self, key: str, retry: Collection[Retry]) -> bool:
        return key in self._cut_off or super()._is_missing(key, retry)

    def fetch(self, keys: Iterable[str]) -> None:
        with reached(self.where) as (files, root):
            for key in keys:
                if files.exists(f"{root}/{key}"):  # a task that was given up left nothing there
                    discard(self.folder(key).patch)  # an attempt need not have one
                    files.get(f"{root}/{key}/", f"{self.path / key}/", recursive=True)

    def publish(self) -> None:
        with reached(self.where) as (files, root):
            for name in (RECORDS, "summary.md", "index.html"):
                files.put_file(str(self.path / name), f"{root}/{name}")


def local_folder(url: str) -> Path:
    """Return this machine's folder for the results at an address."""
    return state_dir() / "batches" / sha256(url.encode()).hexdigest()[:24]


@contextmanager
def reached(url: str) -> Iterator[tuple[Any, str]]:
    """Yield the file system of an address, and the path in it. Raises ConfigError for any error of the
    file system."""
    try:
        from fsspec.core import url_to_fs  # comes with codeagent[ray]

        files, root = url_to_fs(url)
        files.auto_mkdir = True  # for file systems that have folders
        yield files, root
    except Exception as error:  # each file system has errors of its own
        raise ConfigError(
            f"{url} cannot be used: {error}; what is there is kept. It needs codeagent[ray], the "
            "package of its file system, such as s3fs, and the keys for it, here and on each node"
        ) from error


def upload(folder: TaskFolder, url: str) -> None:
    """Upload a task's folder to an address, and remove it here. The record comes last: until then
    its file has the number of the attempt, and the task is missing. Blocks; raises ConfigError."""
    discard(folder.path / "state/checkpoints")
    key = folder.path.name
    with reached(url) as (files, root):
        files.pipe_file(f"{root}/{_RECORDS}/{key}", str(folder.attempt().number).encode())
        if files.exists(f"{root}/{key}"):
            files.rm(f"{root}/{key}", recursive=True)
        files.put(f"{folder.path}/", f"{root}/{key}/", recursive=True)
        files.put_file(str(folder.path / RECORD), f"{root}/{_RECORDS}/{key}")
    discard(folder.path)
