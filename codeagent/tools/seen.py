"""What the model has read of which file, so that it never changes what it has not seen (FEATURES F18)."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pydantic import JsonValue

from codeagent.core.errors import WorkspaceError
from codeagent.core.ports import Workspace
from codeagent.core.tool import Failed
from codeagent.tools.diff import unified
from codeagent.tools.encoding import NotText, read_text

LARGEST_FILE = 16 << 20
"""Bytes; a larger file is only paged through: not hashed, not edited."""

Lines = tuple[int, int]
"""First and last line of a run, from 1."""


@dataclass(frozen=True)
class Seen:
    """What is known of one file."""

    sha256: str
    lines: tuple[Lines, ...]
    """Runs of lines that were read, in order and apart."""
    whole: bool
    stale: bool = False
    """The content became another one; the person was shown what the change makes of that, and wants it."""

    def covers(self, first: int, last: int) -> bool:
        return self.whole or any(start <= first and last <= end for start, end in self.lines)


NOTHING = Seen("", (), whole=True)
"""All of what is empty."""


@dataclass(frozen=True)
class _Record:
    seen: Seen
    stamp: tuple[int, int] | None
    """Size and modification time when the hash was right; None after a resume."""


class SeenFiles:
    """The session's memory of file contents; paths are resolved ones, relative to the root.

    `before_command` and `after_command` go around each of the agent's own commands, also of those that overlap: a file
    that was as the model knew it, and that the command changed, is not held against the model. What changed during a
    job may be anybody's doing, a person's too, so it is not taken as known: the model is shown what changed instead.
    """

    def __init__(self, workspace: Workspace, kept_bytes: int = 8 << 20) -> None:
        """`kept_bytes` bounds the copies that show what changed; the oldest are given up first."""
        self._workspace = workspace
        self._records: dict[str, _Record] = {}
        self._copies: OrderedDict[str, bytes] = OrderedDict()
        self._kept_bytes = kept_bytes

    def read(self, path: str, data: bytes, lines: Lines, *, whole: bool) -> dict[str, JsonValue]:
        """Lines of a file were shown to the model. Returns the details that `restore` takes."""
        sha256 = digest(data)
        known = self._records.get(path)
        before = known.seen.lines if known is not None and known.seen.sha256 == sha256 else ()
        whole = whole or (known is not None and known.seen.sha256 == sha256 and known.seen.whole)
        return self._keep(path, data, Seen(sha256, joined([*before, lines]), whole))

    def wrote(self, path: str, data: bytes, lines: tuple[Lines, ...], *, whole: bool) -> dict[str, JsonValue]:
        """The model changed or made the file; `lines` is what it knows of the new content."""
        return self._keep(path, data, Seen(digest(data), lines, whole))

    def check(self, path: str, data: bytes, *, shown: bool = False) -> Seen:
        """What was seen of the file whose present content is `data`. Raises Failed: unread, or changed.

        `shown`: the person sees, or saw, what the change makes of this very content; then nothing is refused.
        """
        record = self._records.get(path)
        if record is None:
            raise Failed(f"{path} was not read in this session; nothing was changed. Read it first.")
        if record.seen.sha256 == digest(data):
            return record.seen
        if shown:
            return Seen(digest(data), (), whole=False, stale=True)
        before = self._copies.get(path)
        what = _changes(path, before, data) if before is not None else ""
        raise Failed(f"{path} has changed since you read it; nothing was written.{what}\nRead it again first.")

    def before_command(self) -> frozenset[str]:
        """The files that are still as the model knows them."""
        return frozenset(path for path, record in tuple(self._records.items()) if self._is_fresh(path, record))

    def after_command(self, fresh: frozenset[str]) -> dict[str, JsonValue]:
        """Take what the command did to those files as known; the details that `restore` takes."""
        changed: dict[str, JsonValue] = {}
        for path in sorted(fresh):
            record = self._records[path]
            if record.stamp is not None and record.stamp == self._stamp(path):
                continue
            data = self._content(path)
            if data is None:
                continue
            sha256 = digest(data)
            if sha256 != record.seen.sha256:
                changed[path] = sha256
            self._keep(path, data, replace(record.seen, sha256=sha256))
        return {"rehashed": changed} if changed else {}

    def restore(self, details: Mapping[str, JsonValue]) -> None:
        """Take up what a logged result says: what `read`, `wrote` or `after_command` returned."""
        match details:
            case {"path": str(path), "sha256": str(sha256), "seen": list(seen), "whole": bool(whole)}:
                lines = joined(_pairs(seen))
                known = self._records.get(path)
                if known is not None and known.seen.sha256 == sha256:
                    lines, whole = joined([*known.seen.lines, *lines]), whole or known.seen.whole
                self._records[path] = _Record(Seen(sha256, lines, whole), None)
            case {"rehashed": dict(changed)}:
                for name, new_sha256 in changed.items():
                    if name in self._records and isinstance(new_sha256, str):
                        self._records[name] = _Record(replace(self._records[name].seen, sha256=new_sha256), None)
            case _:
                return

    def _keep(self, path: str, data: bytes, seen: Seen) -> dict[str, JsonValue]:
        self._records[path] = _Record(seen, self._stamp(path))
        self._copies.pop(path, None)
        if len(data) <= self._kept_bytes // 8:
            self._copies[path] = data
        while sum(map(len, self._copies.values())) > self._kept_bytes:
            self._copies.popitem(last=False)
        return {
            "path": path,
            "sha256": seen.sha256,
            "seen": [[first, last] for first, last in seen.lines],
            "whole": seen.whole,
        }

    def _is_fresh(self, path: str, record: _Record) -> bool:
        if record.stamp is not None and record.stamp == self._stamp(path):
            return True
        data = self._content(path)
        return data is not None and digest(data) == record.seen.sha256

    def _stamp(self, path: str) -> tuple[int, int] | None:
        try:
            found = self._workspace.stat(path)
        except WorkspaceError:
            return None
        return found.size, found.mtime_ns

    def _content(self, path: str) -> bytes | None:
        try:
            with self._workspace.open(path) as file:
                data = file.read(LARGEST_FILE + 1)
        except (WorkspaceError, OSError):
            return None
        return data if len(data) <= LARGEST_FILE else None


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def joined(runs: Iterable[Lines]) -> tuple[Lines, ...]:
    """The same lines as the fewest runs, in order."""
    out: list[Lines] = []
    for first, last in sorted(runs):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        elif first <= last:
            out.append((first, last))
    return tuple(out)


def after_change(runs: tuple[Lines, ...], first: int, last: int, count: int) -> tuple[Lines, ...]:
    """The runs after lines `first` to `last`, all of them seen, have become `count` lines."""
    moved: list[Lines] = [(first, first + count - 1)]
    shift = count - (last - first + 1)
    for start, end in runs:
        moved.append((start, min(end, first - 1)))
        moved.append((max(start, last + 1) + shift, end + shift))
    return joined(run for run in moved if run[0] <= run[1])


def _changes(path: str, before: bytes, after: bytes) -> str:
    try:
        diff = unified(path, read_text(before).text, read_text(after).text)
    except NotText:
        return ""
    return f" What changed:\n{diff}"


def _pairs(values: list[JsonValue]) -> list[Lines]:
    out = []
    for value in values:
        match value:
            case [int(first), int(last)]:
                out.append((first, last))
            case _:
                continue
    return out
