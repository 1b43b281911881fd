"""Results at an address that fsspec knows, such as `s3://BUCKET/NAME`, for nodes that share no folder:
what is there counts, and each machine works in a folder of its own."""

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
"""Has the last record of each task; `results.jsonl` is not there before a batch has ended."""


class RemoteResults(Results):
    """The results at an address; `path` is this machine's copy of them."""

    def __init__(self, url: str) -> None:
        super().__init__(local_folder(where := url.rstrip("/")))
        self.where = where

    def read(self) -> Self:
        """Read the records here, and add those that are only there. Raises ConfigError."""
        super().read()
        with reached(self.where) as (files, root):
            names = list[str]()
            for place in (f"{root}/{RECORDS}", f"{root}/{_RECORDS}"):
                # Another error must not look as if there were none: all would be done again.
                with suppress(FileNotFoundError):
                    names += files.ls(place, detail=False)
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
    """Yield the file system of an address, and the path in it. Raises ConfigError, whatever goes
    wrong there."""
    try:
        from fsspec.core import url_to_fs  # comes with codeagent[ray]

        files, root = url_to_fs(url)
        files.auto_mkdir = True  # a file system with folders makes those that it needs
        yield files, root
    except Exception as error:  # each file system has errors of its own
        raise ConfigError(
            f"{url} cannot be used: {error}; what is there is kept. It needs codeagent[ray], the "
            "package of its file system, such as s3fs, and the keys for it, here and on each node"
        ) from error


def upload(folder: TaskFolder, url: str) -> None:
    """Put a task's folder at an address, and remove it here. Its record comes last: until then, that
    is empty, and the task has no result. Blocks; raises ConfigError."""
    discard(folder.path / "state/checkpoints")
    key = folder.path.name
    with reached(url) as (files, root):
        files.pipe_file(f"{root}/{_RECORDS}/{key}", b"")
        if files.exists(f"{root}/{key}"):
            files.rm(f"{root}/{key}", recursive=True)
        files.put(f"{folder.path}/", f"{root}/{key}/", recursive=True)
        files.put_file(str(folder.path / RECORD), f"{root}/{_RECORDS}/{key}")
    discard(folder.path)
