"""Makes each `FILE:LINE` of the workspace in the transcript a link, for a click and for the
terminal."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rich.style import Style

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.disk.opens import file_inside
from codeagent.tui.rendering.lines import Line, restyled

_PLACE = lazy_regex(
    r"(?<![\w./:@+-])(?P<path>(?:\.?/)?[\w.@+-]+(?:/[\w.@+-]+)*):(?P<line>\d{1,7})\b"
)


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


def places_in(text: str, workspace: Path | None) -> Iterator[Place]:
    """Yield the places in a text whose files are there. Looks at the disk."""
    if workspace is None or ":" not in text:
        return
    for found in _PLACE.finditer(text):
        if (file := file_inside(workspace, found["path"])) is not None:
            yield Place(found["path"], int(found["line"]), file, *found.span())


def with_places(line: Line, workspace: Path | None, look: Style) -> Line:
    """Return the line with its places as links. An address that goes to the terminal is made of the
    file's own path, and is ASCII."""
    for place in places_in(line.text, workspace):
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
