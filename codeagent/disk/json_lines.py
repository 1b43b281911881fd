"""A small private file with one JSON object per line, changed by one process at a time."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from codeagent.core.errors import ConfigError
from codeagent.core.sanitize import one_line
from codeagent.disk.locks import locked
from codeagent.disk.private import UnsafeFile, read_private, replace_private

EntryT = TypeVar("EntryT", bound=BaseModel)


class JsonLinesFile(Generic[EntryT]):
    """Entries of one model; every `read` reads the file again, every `write` replaces it whole."""

    def __init__(self, file: Path, entry: type[EntryT], unused: str) -> None:
        """`unused` ends the message about a file that cannot be trusted: what is not in force then."""
        self._file = file
        self._entry = entry
        self._unused = unused

    def read(self) -> list[EntryT]:
        """Raises ConfigError, with the number of the line that is not an entry."""
        try:
            raw = read_private(self._file)
        except UnsafeFile as error:
            raise ConfigError(f"{error}; {self._unused}") from error
        entries: list[EntryT] = []
        for number, line in enumerate((raw or b"").split(b"\n"), start=1):
            if not line.strip():
                continue
            try:
                entries.append(self._entry.model_validate_json(line))
            except ValidationError as error:
                first = error.errors(include_url=False, include_context=False)[0]
                what = " ".join([".".join(map(str, first["loc"])), first["msg"]]).strip()
                raise ConfigError(f"{self._file}:{number}: {one_line(what, 200)}; {self._unused}") from error
        return entries

    def write(self, entries: Iterable[EntryT]) -> None:
        """Raises OSError: the old content is still there then."""
        replace_private(self._file, "".join(f"{entry.model_dump_json()}\n" for entry in entries).encode())

    @contextmanager
    def changing(self, outcome: str) -> Iterator[None]:
        """Hold the file's lock. Raises ConfigError, which begins with `outcome`: what became of the change."""
        try:
            with locked(self._file.with_suffix(".lock")):
                yield
        except OSError as error:
            raise ConfigError(f"{outcome}: {self._file} cannot be changed ({error.strerror})") from error
