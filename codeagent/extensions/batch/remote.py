"""Results at an address that fsspec knows, such as `s3://BUCKET/NAME`, for nodes that share no folder.
The address has the truth; each machine works in its own folder."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from codeagent.config.local_environment import state_dir
from codeagent.core.errors import ConfigError
from codeagent.extensions.batch.copies import discard
from codeagent.extensions.batch.results import RECORD, RECORDS, Results, TaskFolder, TaskRecord

_RECORDS = "records"
"""The folder with the last record of each task; `results.jsonl` is uploaded when a batch ends."""


class RemoteResults(Results):
    """The results at an address; `path` is the folder of this machine's copy."""

    def __init__(self, url: str) -> None:
        super().__init__(local_folder(where := url.rstrip("/")))
        self.where = where

    def read(self) -> Self:
        """Read the records of this machine, and add those that only the address has. Raises
        ConfigError."""
        super().read()
        with reached(self.where) as (files, root):
            names = list[str]()
            for path in (f"{root}/{RECORDS}", f"{root}/{_RECORDS}"):
                # Any other error must not look like no records: every task would be done again.
                with suppress(FileNotFoundError):
                    names += files.ls(path, detail=False)
            found = files.cat(names) if names else {}
            for name in names:
                for record in map(TaskRecord.of_line, found[name].splitlines()):
                    known = self.records.get(record.key)
                    if known is None or known.attempt < record.attempt:
                        (self.append if self._file else self._add)(record)
        return self

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
    """Upload a task's folder to an address, and remove it here. The record comes last: until then it is
    empty, and the task has no result. Blocks; raises ConfigError."""
    discard(folder.path / "state/checkpoints")
    key = folder.path.name
    with reached(url) as (files, root):
        files.pipe_file(f"{root}/{_RECORDS}/{key}", b"")
        if files.exists(f"{root}/{key}"):
            files.rm(f"{root}/{key}", recursive=True)
        files.put(f"{folder.path}/", f"{root}/{key}/", recursive=True)
        files.put_file(str(folder.path / RECORD), f"{root}/{_RECORDS}/{key}")
    discard(folder.path)
