"""Makes each `FILE:LINE` of the workspace in the transcript a link, for a click and for the
terminal."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

from rich.style import Style

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.disk.opens import file_inside
from codeagent.tui.rendering.lines import Line, restyled

_PLACE = lazy_regex(
    r"(?<![\w./:@+-])(?P<path>(?:\.?/)?[\w.@+-]+(?:/[\w.@+-]+)*):(?P<line>\d{1,7})\b"
)
_STALE = 2.0
"""Seconds after which a path that was not a file is looked for again, once it is drawn again."""
_MOST_KNOWN = 20_000


@dataclass(frozen=True)
class Place:
    """A line of a file of the workspace."""

    path: str
    """As it was written."""
    line: int
    file: Path
    """With its links followed."""
    start: int
    """Where it is in the text."""
    end: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


FindFile = Callable[[str], Path | None]
"""Returns the file of the workspace that a path names, with its links followed; None if it is not
one."""


class NamedFiles:
    """The paths in a transcript that are files of the workspace, as far as they were looked for:
    drawing never waits for a disk."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self._files: dict[str, Path] = {}
        self._missing: dict[str, float] = {}
        """When each path that is not a file was looked for, in seconds of a monotonic clock."""
        self.wanted = set[str]()
        """The paths to look for."""

    def find(self, path: str) -> Path | None:
        """Return the file if it is known; else have the path looked for."""
        file = self._files.get(path)
        if file is None and time.monotonic() - self._missing.get(path, -_STALE) >= _STALE:
            self.wanted.add(path)
        return file

    async def look(self) -> bool:
        """Look for the wanted paths in a thread; return whether one of them is a file."""
        wanted = self.wanted
        self.wanted = set()
        files = await asyncio.to_thread(_files_of, self.workspace, wanted)
        if len(self._files) + len(self._missing) > _MOST_KNOWN:
            self._files.clear()
            self._missing.clear()
        self._files |= files
        self._missing |= dict.fromkeys(wanted - files.keys(), time.monotonic())
        return bool(files)


def _files_of(workspace: Path, paths: set[str]) -> dict[str, Path]:
    found = ((path, file_inside(workspace, path)) for path in paths)
    return {path: file for path, file in found if file is not None}


def named_places(text: str, workspace: Path) -> tuple[Place, ...]:
    """Return the places in a text, each once. Looks at the disk."""
    return tuple(
        {str(place): place for place in places_in(text, partial(file_inside, workspace))}.values()
    )


def places_in(text: str, find: FindFile) -> Iterator[Place]:
    """Yield the places in a text whose files are found."""
    if ":" not in text:
        return
    for found in _PLACE.finditer(text):
        if (file := find(found["path"])) is not None:
            yield Place(found["path"], int(found["line"]), file, *found.span())


def with_places(line: Line, find: FindFile, look: Style) -> Line:
    """Return the line with its places as links. An address that goes to the terminal is made of the
    file's own path, and is ASCII."""
    for place in places_in(line.text, find):
        url = f"file://{_host()}{place.file.as_uri().removeprefix('file://')}#{place.line}"
        style = look + Style(link=url, meta={"link": str(place)})
        line = restyled(line, place.start, place.end, style)
    return line


@cache
def _host() -> str:
    """Return the name of this machine, by which a terminal elsewhere knows that the file is not its
    own."""
    name = os.uname().nodename
    return name if name.isascii() and name.replace("-", "").replace(".", "").isalnum() else ""
