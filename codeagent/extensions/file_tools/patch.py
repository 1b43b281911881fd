"""The patch format between `*** Begin Patch` and `*** End Patch`: parses patches, and applies them
to text."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate
from operator import add
from typing import assert_never

from codeagent.core.dataclass import dataclass
from codeagent.core.sanitize import unspelled
from codeagent.core.text_files import Splice
from codeagent.core.tool import Failed
from codeagent.tools.edit.match import nearest, newlines_as_there
from codeagent.tools.edit.normalize import plain
from codeagent.tools.edit.reads import text_lines
from codeagent.tools.edit.replacing import Replacing

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE, _MOVE = (
    "*** Add File: ",
    "*** Delete File: ",
    "*** Update File: ",
    "*** Move File: ",
)
_TO, _AT_END = "*** Move to: ", "*** End of File"
_HEREDOC = re.compile(r"\s*(?:apply_patch\s+)?<<-?\s*(['\"]?)(\w+)\1\n(.*)\n\2\s*", re.DOTALL)
_LINE_NUMBERS = re.compile(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?")
"""Line numbers after `@@`, as in a unified diff; this format does not use them, so they are
ignored."""
_STRENGTHS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("", str),
    ("blanks at the end of lines", str.rstrip),
    ("white space around lines", str.strip),
    ("typography", lambda line: plain(line).strip()),
)
"""How lines are compared, the strictest way first, and the differences that the weaker ways
ignore."""


@dataclass(frozen=True)
class Chunk:
    """Consecutive lines of a file, some of which change."""

    anchors: tuple[str, ...]
    """Lines somewhere above, in order, after which it is searched for."""
    lines: tuple[tuple[str, str], ...]
    """Pairs of a mark, ` `, `-` or `+`, and the line."""
    at_end: bool
    """They are the last lines of the file."""

    @property
    def old(self) -> list[str]:
        return [line for mark, line in self.lines if mark != "+"]


@dataclass(frozen=True)
class AddFile:
    path: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class DeleteFile:
    path: str


@dataclass(frozen=True)
class UpdateFile:
    path: str
    to: str | None
    """Its new name."""
    chunks: tuple[Chunk, ...]


FilePatch = AddFile | DeleteFile | UpdateFile
"""What a patch says about a file, before the file was looked at; a `Change` is made from it."""


@lru_cache(maxsize=16)
def parse_patch(text: str) -> tuple[FilePatch, ...]:
    """Parse a patch. Raises ValueError, which names the line."""
    text = text.replace("\r\n", "\n")
    if (wrapped := _HEREDOC.fullmatch(text)) is not None:
        text = wrapped[3]
    lines = text.strip().split("\n")
    if lines[0].strip() != _BEGIN:
        raise ValueError(f"the first line of the patch must be {_BEGIN!r}")
    if lines[-1].strip() != _END:
        raise ValueError(f"the last line of the patch must be {_END!r}; it may have been cut off")
    reader = _Reader(lines[1:-1])
    found = tuple(reader.files())
    if not found:
        raise ValueError("the patch does not name a file")
    return found


class _Reader:
    """Parses the lines between the first and the last."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0

    def files(self) -> Iterator[FilePatch]:
        """Return the patches of all files. Raises ValueError."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not line.strip():
                self._at += 1
                continue
            header = next(
                (one for one in (_ADD, _DELETE, _UPDATE, _MOVE) if line.startswith(one)), None
            )
            if header is None:
                raise self._fault(
                    "'*** Add File: ', '*** Update File: ' or '*** Delete File: ' and a path"
                )
            path = self._path(header)
            match header:
                case "*** Add File: ":
                    yield AddFile(path, tuple(self._added()))
                case "*** Delete File: ":
                    yield DeleteFile(path)
                case _:
                    yield self._update(path)

    def _path(self, header: str) -> str:
        path = self._lines[self._at].removeprefix(header).strip()
        if not path or "\0" in path:
            raise self._fault("a path")
        self._at += 1
        return unspelled(path)

    def _added(self) -> Iterator[str]:
        while (line := self._next()) is not None:
            if not line.startswith("+"):
                raise self._fault("a line of the new file, which begins with +")
            self._at += 1
            yield line[1:]

    def _update(self, path: str) -> UpdateFile:
        line = self._lines[self._at] if self._at < len(self._lines) else ""
        to = self._path(_TO) if line.startswith(_TO) else None
        chunks: list[Chunk] = []
        while self._next() is not None:
            chunks.append(self._chunk())
        if not chunks and to is None:
            raise self._fault("a line with '@@', or one that begins with a space, - or +")
        return UpdateFile(path, to, tuple(chunks))

    def _chunk(self) -> Chunk:
        anchors: list[str] = []
        lines: list[tuple[str, str]] = []
        while (line := self._next()) is not None and line.startswith("@@"):
            anchor = _LINE_NUMBERS.sub("", line[2:].strip(), count=1)
            anchors += [anchor] if anchor.strip() else []
            self._at += 1
        while (line := self._next()) is not None and not line.startswith("@@"):
            if line[:1] not in ("", " ", "-", "+"):
                raise self._fault("a line that begins with a space, - or +")
            lines.append((line[:1] or " ", line[1:]))
            self._at += 1
        at_end = self._at < len(self._lines) and self._lines[self._at].strip() == _AT_END
        self._at += at_end
        if not any(mark != " " for mark, _ in lines):
            raise self._fault("a line that begins with - or +, because this part changes nothing")
        return Chunk(tuple(anchors), tuple(lines), at_end)

    def _next(self) -> str | None:
        """Return the current line; None at a marker line of the format, or at the end."""
        line = self._lines[self._at] if self._at < len(self._lines) else "*** "
        return None if line.startswith("*** ") else line

    def _fault(self, wanted: str) -> ValueError:
        line = self._lines[self._at][:80] if self._at < len(self._lines) else _END
        return ValueError(f"line {self._at + 2} of the patch should be {wanted}, but is {line!r}")


def apply_chunks(work: Replacing, chunks: Sequence[Chunk], path: str) -> None:
    """Apply the chunks to the file, each after the one before. Raises Failed, with nothing
    written."""
    start = 0
    for number, chunk in enumerate(chunks, start=1):
        which = f"part {number} of {len(chunks)}: " if len(chunks) > 1 else ""
        start = _apply(work, chunk, start, which, path)


def _apply(work: Replacing, chunk: Chunk, start: int, which: str, path: str) -> int:
    """Apply a chunk; return the index of the line after it. Raises Failed."""
    lines = text_lines(work.file.text)
    for anchor in chunk.anchors:
        found = _sought(lines, [anchor], start, at_end=False)
        if found is None:
            raise _missing(
                work, [anchor], which, path, f"the line {anchor!r} after @@ is not there"
            )
        start = found[0] + 1
    if not chunk.old:
        if chunk.anchors:
            raise Failed(
                f"{which}nothing was changed in {path}: the lines after @@ {chunk.anchors[-1]!r} are only added; "
                "give a line of context, which says where they go"
            )
        work.put(
            [_added_at_end(work.file.text, [line for _, line in chunk.lines])], which, proven=True
        )
        return len(lines) + len(chunk.lines)
    found = _sought(lines, chunk.old, start, at_end=chunk.at_end)
    if found is None and chunk.lines[-1] == (" ", "") and len(chunk.lines) > 1:
        return _apply(work, Chunk((), chunk.lines[:-1], chunk.at_end), start, which, path)
    if found is None:
        after = f" after line {start}" if start else ""
        raise _missing(work, chunk.old, which, path, f"its context is not there{after}")
    at, slip = found
    others = [n for n in _places(lines, chunk.old, str) if n != at]
    work.put(list(_splices(work.file.text, chunk, at)), which, proven=not slip and not others)
    if slip:
        work.notes.append(
            f"{which}the lines from {at + 1} match only up to {slip}; the context was kept as it is."
        )
    elif others and not chunk.anchors:
        also = ", ".join(str(n + 1) for n in others[:5])
        work.notes.append(
            f"{which}the context is at line {at + 1} and again at {also}; the first was changed."
        )
    return at + sum(mark != "-" for mark, _ in chunk.lines)


def _missing(work: Replacing, old: list[str], which: str, path: str, what: str) -> Failed:
    close = nearest(work.file.text.replace("\r\n", "\n"), "\n".join(old), "the lines")
    return Failed(f"{which}nothing was changed in {path}: {what}{close}")


def _sought(
    lines: list[str], wanted: list[str], start: int, *, at_end: bool
) -> tuple[int, str] | None:
    """Return the first place from `start` on, by the strictest comparison that finds one, and how
    it differs.

    If `at_end`, the end of the file is tried first.
    """
    last = len(lines) - len(wanted)
    for slip, form in _STRENGTHS:
        places = [at for at in _places(lines, wanted, form) if at >= start]
        if at_end and last in places:
            return last, slip
        if places and not at_end:
            return places[0], slip
    return _sought(lines, wanted, start, at_end=False) if at_end else None


def _places(lines: list[str], wanted: list[str], form: Callable[[str], str]) -> list[int]:
    formed, sought = lines, wanted
    if form is not str:
        formed, sought = [form(line) for line in lines], [form(line) for line in wanted]
    found, at = list[int](), -1
    with suppress(ValueError):
        while True:
            at = formed.index(sought[0], at + 1)
            if formed[at : at + len(sought)] == sought:
                found.append(at)
    return found


def _splices(text: str, chunk: Chunk, at: int) -> Iterator[Splice]:
    """Return the splices for a chunk that begins at the line of index `at`; the file's context is
    kept."""
    rows = text.split("\n")
    lengths = accumulate(map(len, rows), initial=0)
    starts = list(map(add, lengths, range(len(rows) + 1)))  # with the newlines before each
    removed, added = 0, list[str]()
    for mark, line in (*chunk.lines, (" ", "")):
        match mark:
            case "-":
                removed += 1
            case "+":
                added.append(line)
            case _:
                if removed or added:
                    yield _splice(text, rows, starts, at=at, removed=removed, added=added)
                at += removed + 1
                removed, added = 0, []


def _splice(
    text: str, rows: list[str], starts: list[int], at: int, removed: int, added: list[str]
) -> Splice:
    """Return the splice that replaces lines `at` to `at + removed` of the text with the added
    ones."""
    if not removed and at >= len(rows) - (rows[-1] == ""):
        return _added_at_end(text, added)
    start, behind = starts[at], min(starts[at + removed], len(text))
    if removed and added:
        end = starts[at + removed - 1] + len(rows[at + removed - 1].removesuffix("\r"))
        return Splice(start, end, newlines_as_there(text, start, end, "\n".join(added)))
    new = "".join(f"{line}\n" for line in added)
    return Splice(start, behind, newlines_as_there(text, start, behind, new) if new else "")


def _added_at_end(text: str, added: list[str]) -> Splice:
    """Return lines to append; if the file does not end with a newline, it does not afterwards
    either."""
    new = "".join(f"{line}\n" for line in added)
    if text and not text.endswith("\n"):
        new = "\n" + new.removesuffix("\n")
    return Splice(len(text), len(text), newlines_as_there(text, len(text), len(text), new))


def paths_of(patches: Sequence[FilePatch]) -> list[str]:
    """Return every path that the patches name."""
    found: list[str] = []
    for patch in patches:
        match patch:
            case UpdateFile(path=path, to=str(to)):
                found += [path, to]
            case AddFile() | DeleteFile() | UpdateFile():
                found.append(patch.path)
            case _:
                assert_never(patch)
    return found
