"""Tracks which lines of each file the model has read, so that it never changes what it has not
seen."""

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import BinaryIO

from codeagent.changes.diff import LEFT_OUT, unified
from codeagent.core.changes import digest
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import WorkspaceError
from codeagent.core.json_types import JsonValue
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import spelled, unspelled
from codeagent.core.text_files import NotText, read_text
from codeagent.core.tool import Failed

LARGEST_FILE = 16 << 20
"""Bytes; a larger file can only be paged through, not edited."""

_USUAL_SIZE = 64 << 10
"""Bytes of the first read, enough for most files: Python allocates as much as a read requests."""
_AGAIN = "Read it again first."
_MOST_NAMED = 50
_MOST_PLACES = 100
_WORD_ENDS = lazy_regex(r"[\s;|&<>()'\"`$={},:]+")
_PATH_AND_NUMBER = lazy_regex(r"([^:\n]+):[0-9]+[:\t]")
_NUMBERED = lazy_regex(r" *([0-9]+)[:\t-](.*)", re.DOTALL)

Lines = tuple[int, int]
"""First and last line of a run, from 1."""
_ANY_LINES: Lines = (1, 1 << 62)
"""The lines of a page of which only the call is known."""
_MOST_PAGES = 20
"""How many earlier results are compared with a page that is read again."""


@dataclass(frozen=True)
class ReadState:
    """What the model has read of one file."""

    sha256: str
    lines: tuple[Lines, ...]
    """Runs of lines that were read, in order and not overlapping."""
    whole: bool
    stale: bool = False
    """The content has changed since; the user saw the change applied to the current content, and
    approved it."""

    def covers(self, first: int, last: int) -> bool:
        return self.whole or any(start <= first and last <= end for start, end in self.lines)


@dataclass(frozen=True)
class _Shown:
    """A page of a file in the result of a call."""

    call_id: str
    lines: Lines


NOTHING = ReadState("", (), whole=True)
"""The state of a new or empty file, of which nothing is unread."""


@dataclass(frozen=True)
class _Copy:
    """A content that the model knew, for a diff that shows what has changed since."""

    data: bytes
    whole: bool
    """Whether the model had seen all of it."""


class ReadTracker:
    """Remembers what the model has read in this session; paths are resolved, relative to the root.

    Only what the model was shown counts: by `read`, by `search`, by what a command printed, or as
    the diff in a refusal. What a command or the user changed on disk does not.
    """

    def __init__(self, workspace: Workspace, kept_bytes: int = 8 << 20) -> None:
        """`kept_bytes` bounds the copies that show what changed; the oldest are given up first."""
        self._workspace = workspace
        self._files: dict[str, ReadState] = {}
        self._forgotten: set[str] = set()
        """Files that were read but whose text is not in the conversation."""
        self._shown: dict[str, tuple[str, list[_Shown]]] = {}
        """By path: the SHA-256 of the content that the model saw last, and the pages of it that
        calls showed."""
        self._copies: OrderedDict[str, _Copy] = OrderedDict()
        self._copied_bytes = 0
        self._kept_bytes = kept_bytes
        self._changing = threading.RLock()
        """Guards the fields, as parallel calls may each read in a thread of their own."""

    def read(
        self,
        path: str,
        data: bytes,
        runs: Iterable[Lines],
        total: int,
        page: tuple[str, Lines] | None = None,
    ) -> dict[str, JsonValue]:
        """Record that the model was shown these of the `total` lines of a file. Returns the details
        for `restore`.

        `page`, for `shown_by`: the id of the call whose result shows a page of the file, and the
        lines of the page.
        """
        sha256 = digest(data)
        with self._changing:
            known = self._files.get(path)
            if known is not None and known.sha256 == sha256:
                lines, whole = joined([*known.lines, *runs]), known.whole
            else:
                lines, whole = joined(runs), False
            whole = whole or lines == ((1, total),) or total == 0
            details = self._keep(path, data, ReadState(sha256, lines, whole))
            if page is not None:
                self._show(path, sha256).append(_Shown(*page))
            return details

    def shown_by(self, path: str, data: bytes, page: Lines) -> tuple[str, ...]:
        """Return the latest calls that may have shown the model these lines of this content, the
        newest first.

        Empty if it has seen other content of the file since. Their results may have left its
        context.
        """
        with self._changing:
            sha256, shown = self._shown.get(path, ("", []))
            fitting = [
                one.call_id for one in shown if one.lines[0] <= page[0] and page[1] <= one.lines[1]
            ]
        if not fitting or sha256 != digest(data):
            return ()
        return tuple(reversed(fitting[-_MOST_PAGES:]))

    def printed(self, command: str, text: str) -> dict[str, JsonValue]:
        """Record which lines of files a command printed, for files named in it or its output.
        Returns the details."""
        shown = []
        if not text.strip():
            return {}
        output = text.split("\n")
        for path in self._named(command, output):
            data = self._content(path)
            if data is None:
                continue
            try:
                lines = text_lines(read_text(data).text)
            except NotText:
                continue
            if runs := printed_lines(path, lines, output):
                shown.append(self.read(path, data, runs, len(lines)))
        return shown_files(shown)

    def wrote(
        self, path: str, data: bytes, lines: tuple[Lines, ...], *, whole: bool
    ) -> dict[str, JsonValue]:
        """Record that the model changed or created a file; `lines` is what it knows of the new
        content."""
        return self._keep(path, data, ReadState(digest(data), lines, whole))

    def check(self, path: str, data: bytes, *, shown: bool = False) -> ReadState:
        """Return what was seen of the file whose current content is `data`. Raises Failed if
        unread, or changed.

        `shown`: the user sees, or saw, the change applied to exactly this content; then it is not
        refused.
        """
        seen = self._files.get(path)
        if seen is None and path in self._forgotten:
            raise Failed(
                f"{spelled(path)} is not in your context: the conversation was compacted, or the answer that read it "
                f"broke off; nothing was changed. {_AGAIN}"
            )
        if seen is None:
            raise Failed(
                f"{spelled(path)} was not read in this session; nothing was changed. Read it first."
            )
        if seen.sha256 == digest(data):
            return seen
        if shown:
            return ReadState(digest(data), (), whole=False, stale=True)
        raise self.refusal(
            path,
            data,
            f"{spelled(path)} has changed since you read it; nothing was written.",
            _AGAIN,
        )

    def refusal(self, path: str, data: bytes, reason: str, otherwise: str) -> Failed:
        """Return the error that says why `path` is not changed, with what has changed since the
        model read it.

        A full diff counts as read; if it is not full, `otherwise` is the next step.
        """
        copy, diff = self._copies.get(path), ""
        with suppress(NotText):
            diff = "" if copy is None else unified(read_text(copy.data).text, read_text(data).text)
        if copy is None or not diff:
            return Failed(f"{reason}\n{otherwise}")
        said = f"{reason} What changed:\n{diff}\n"
        if diff.endswith(LEFT_OUT):
            return Failed(said + otherwise)
        details = self._keep(path, data, ReadState(digest(data), (), copy.whole))
        then = (
            "That is all that changed: make the call again if it still fits."
            if copy.whole
            else otherwise
        )
        return Failed(said + then, details=details)

    def remember(self, call_id: str, details: Mapping[str, JsonValue]) -> None:
        """Record, for `shown_by`, what a logged result showed; to be called in the order in which
        the calls ended."""
        for path, state in read_states(details):
            self._show(path, state.sha256).append(_Shown(call_id, _ANY_LINES))

    def restore(self, details: Mapping[str, JsonValue]) -> None:
        """Restore the state from a logged result's details, as returned by `read`, `printed`,
        `wrote` or `refusal`."""
        for path, state in read_states(details):
            lines, whole, known = state.lines, state.whole, self._files.get(path)
            if known is not None and known.sha256 == state.sha256:
                lines, whole = joined([*known.lines, *lines]), whole or known.whole
            self._files[path] = ReadState(state.sha256, lines, whole)

    def keep_only(self, results: Iterable[Mapping[str, JsonValue]]) -> None:
        """Forget everything except what these results (their details) showed, as the model no
        longer has the rest.

        Copies of forgotten files are dropped: a diff against a content that the model no longer has
        would be useless.
        """
        with self._changing:
            before = self._files
            self._files = {}
            for details in results:
                self.restore(details)
            self._forgotten |= before.keys()
            for path in self._copies.keys() - self._files.keys():
                self._copied_bytes -= len(self._copies.pop(path).data)

    def _show(self, path: str, sha256: str) -> list[_Shown]:
        """Return the pages of this content that calls showed, and make it the content that the
        model saw last."""
        if path not in self._shown or self._shown[path][0] != sha256:
            self._shown[path] = sha256, []
        return self._shown[path][1]

    def _keep(self, path: str, data: bytes, seen: ReadState) -> dict[str, JsonValue]:
        with self._changing:
            self._files[path] = seen
            self._show(path, seen.sha256)
            copy = self._copies.get(path)
            if seen.whole or copy is None or not copy.whole:
                self._copied_bytes -= 0 if copy is None else len(copy.data)
                self._copies.pop(path, None)
                if len(data) <= self._kept_bytes // 8:
                    self._copies[path] = _Copy(data, seen.whole)
                    self._copied_bytes += len(data)
            while self._copied_bytes > self._kept_bytes:
                self._copied_bytes -= len(self._copies.popitem(last=False)[1].data)
        return {
            "path": spelled(path),
            "sha256": seen.sha256,
            "seen": [[first, last] for first, last in seen.lines],
            "whole": seen.whole,
        }

    def _named(self, command: str, output: list[str]) -> list[str]:
        """Return the files that a command line or its output (`path:12:text`) names."""
        words = list(dict.fromkeys(word for word in _WORD_ENDS.split(command) if word))[
            :_MOST_NAMED
        ]
        folders = [
            "",
            *(f"{word.rstrip('/')}/" for word in words if self._kind(word) == "directory"),
        ]
        names = [folder + word for word in words for folder in folders]
        names += dict.fromkeys(
            match[1] for line in output if (match := _PATH_AND_NUMBER.match(line))
        )
        found: dict[str, None] = {}
        for name in names[: _MOST_NAMED * 4]:
            if self._kind(name) == "file":
                found[self._workspace.resolve(name, reading=False)] = None
        return list(found)

    def _kind(self, name: str) -> str | None:
        try:
            return self._workspace.stat(self._workspace.resolve(name, reading=False)).kind
        except (WorkspaceError, OSError, ValueError):
            return None

    def _content(self, path: str) -> bytes | None:
        try:
            with self._workspace.open(path) as file:
                return content(file)
        except (WorkspaceError, OSError):
            return None


def read_states(details: Mapping[str, JsonValue]) -> Iterator[tuple[str, ReadState]]:
    """Yield path and state of each file in the details of a result."""
    match details:
        case {"path": str(path), "sha256": str(sha256), "seen": list(runs), "whole": bool(whole)}:
            yield unspelled(path), ReadState(sha256, joined(_pairs(runs)), whole)
        case {"shown_files": list(files)} | {"changed_files": list(files)}:
            for one in files:
                if isinstance(one, dict):
                    yield from read_states(one)
        case _:
            return


def content(file: BinaryIO) -> bytes | None:
    """Read the rest of a file; None if that is more than LARGEST_FILE bytes."""
    data = file.read(_USUAL_SIZE)
    if len(data) == _USUAL_SIZE:
        data += file.read(LARGEST_FILE + 1 - _USUAL_SIZE)
    return data if len(data) <= LARGEST_FILE else None


def shown_files(shown: list[dict[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return the details of a result that shows lines of several files; empty if it does not show
    any."""
    return {"shown_files": list[JsonValue](shown)} if shown else {}


def text_lines(text: str) -> list[str]:
    """Return a file's lines without newlines; what follows the last newline is a line only if it is
    not empty."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def printed_lines(path: str, lines: list[str], output: list[str]) -> list[Lines]:
    """Return which of a file's lines are in the output, with their number or as a run that the file
    has only once."""
    fits = len(lines) <= len(output) and any(lines)
    if fits and "\n{}\n".format("\n".join(lines)) in "\n{}\n".format("\n".join(output)):
        return [(1, len(lines))]
    runs: list[Lines] = []
    wanted = set(output)
    places: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        if line in wanted:
            places.setdefault(line, []).append(at)
    done = 0
    while done < len(output):
        number = _numbered_line(path, lines, output[done])
        if number is not None:
            runs.append((number, number))
            done += 1
            continue
        first, length = _longest_run(lines, output, done, places.get(output[done], []))
        if length and "".join(output[done : done + length]).strip():
            runs.append((first + 1, first + length))
        done += max(length, 1)
    return list(joined(runs))


def _numbered_line(path: str, lines: list[str], shown: str) -> int | None:
    """Return the line number in `12:text`, `12<tab>text` or `path:12:text`; None if the file's line
    differs."""
    match = _NUMBERED.match(
        shown.removeprefix(f"{spelled(path)}:").removeprefix(f"./{spelled(path)}:")
    )
    if match is None or len(match[1]) > 9:
        return None
    number = int(match[1])
    return number if 0 < number <= len(lines) and lines[number - 1] == match[2] else None


def _longest_run(
    lines: list[str], output: list[str], start: int, places: list[int]
) -> tuple[int, int]:
    """Return (index, length) of the longest run of file lines that the output continues with; 0 if
    none, or a tie."""
    if len(places) > _MOST_PLACES:
        return 0, 0
    best: list[tuple[int, int]] = []
    for place in places:
        length = 0
        while place + length < len(lines) and start + length < len(output):
            if lines[place + length] != output[start + length]:
                break
            length += 1
        best.append((length, place))
    best.sort(reverse=True)
    if not best or (len(best) > 1 and best[0][0] == best[1][0]):
        return 0, 0
    return best[0][1], best[0][0]


def joined(runs: Iterable[Lines]) -> tuple[Lines, ...]:
    """Return the same lines as the fewest runs, in order."""
    out: list[Lines] = []
    for first, last in sorted(runs):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        elif first <= last:
            out.append((first, last))
    return tuple(out)


def after_change(runs: tuple[Lines, ...], first: int, last: int, count: int) -> tuple[Lines, ...]:
    """Return the runs after lines `first` to `last`, all of them seen, were replaced by `count`
    lines."""
    moved: list[Lines] = [(first, first + count - 1)]
    shift = count - (last - first + 1)
    for start, end in runs:
        moved.append((start, min(end, first - 1)))
        moved.append((max(start, last + 1) + shift, end + shift))
    return joined(run for run in moved if run[0] <= run[1])


def _pairs(values: list[JsonValue]) -> list[Lines]:
    out = []
    for value in values:
        match value:
            case [int(first), int(last)]:
                out.append((first, last))
            case _:
                continue
    return out


def line_of(text: str, offset: int) -> int:
    """Return the number, from 1, of the line that the offset is in."""
    return text.count("\n", 0, offset) + 1
