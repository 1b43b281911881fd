"""Applies replacements to the text of one file, one after the other, either all or none."""

from dataclasses import replace

from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.json_types import JsonValue
from codeagent.core.sanitize import spelled
from codeagent.core.text_files import NotEncodable, NotText, Splice, read_text
from codeagent.core.tool import Failed, InvalidArgs, ToolArgs
from codeagent.tools.edit.reads import (
    LARGEST_FILE,
    Lines,
    ReadState,
    ReadTracker,
    after_change,
    line_of,
)

LARGEST_RESULT = 2 * LARGEST_FILE
"""The most bytes of a file after an edit."""


_STALE = (
    "The file had changed since you read it; the user saw what this change makes of it and approved that. Read the "
    "file again before you change more of it."
)


@dataclass(frozen=True)
class Edited:
    """A change of one file, and what the model knows of it."""

    change: Change[Node]
    known: ReadState | None = None
    """What the model had seen of the content before; None if nothing."""
    seen: tuple[Lines, ...] = ()
    """The known lines of the content after; all of them if all were known before."""
    told: tuple[str, ...] = ()
    """What the model is told of strings that were not found exactly as given."""
    replaced: int = 0

    @property
    def path(self) -> str:
        return self.change.path

    @property
    def texts(self) -> tuple[str, str]:
        assert self.change.texts is not None
        return self.change.texts

    @property
    def data(self) -> bytes:
        """The content after."""
        assert self.change.after is not None
        return self.change.after.data

    @property
    def whole(self) -> bool:
        """Whether the model knew all of the content before."""
        return self.known is not None and self.known.whole

    @property
    def notes(self) -> tuple[str, ...]:
        """Further notes for the model."""
        return (_STALE,) if self.known is not None and self.known.stale else ()

    def record(self, reads: ReadTracker) -> list[JsonValue]:
        """Record what the model knows of the file once the change has landed; return the details
        of the result."""
        known: list[JsonValue] = []
        if self.change.source is not None or self.change.after is None:
            known.append({"path": spelled(self.change.paths[0]), "sha256": ""})
        if self.known is not None and self.change.after is not None:
            known.append(reads.wrote(self.path, self.data, self.seen, whole=self.known.whole))
        return known


class Replacement(ToolArgs):
    old_string: str
    new_string: str
    replace_all: bool = False


class Replacing:
    """One file with the replacements so far."""

    def __init__(self, path: str, old: Node | None, known: ReadState) -> None:
        """`old` is the current content, None if there is no file. Raises Failed if it is not
        text."""
        self._path = path
        self._old = old
        self._known = known
        try:
            self._begun = self.file = read_text(b"" if old is None else old.data)
        except NotText as error:
            raise Failed(f"{spelled(path)} is {error}; it is not edited") from None
        self._seen = known.lines
        self._replaced = 0
        self.notes: list[str] = []

    def change(self) -> Edited:
        """The change so far."""
        data = self.file.data
        after = Node("file", data) if self._old is None else replace(self._old, data=data)
        change = Change(self._path, self._old, after, decoded=self._begun)
        return Edited(change, self._known, self._seen, tuple(self.notes), self._replaced)

    def knows(self, first: int, last: int) -> bool:
        """Whether the model has read these lines, or the user sees what happens to them."""
        return (
            self._known.whole
            or self._known.stale
            or ReadState("", self._seen, whole=False).covers(first, last)
        )

    def apply(self, edit: Replacement, which: str) -> None:
        """Replace one string; `which` begins an error or a note. Raises InvalidArgs, Failed."""
        from codeagent.tools.edit.match import NoMatch, find  # four modules that only an edit needs

        text = self.file.text
        if not edit.old_string:
            if self.file.data:
                raise InvalidArgs(
                    f"{which}old_string is empty, but {self._path} is not: "
                    "give the text to replace, or use write to replace everything"
                )
            spans, drift = [Splice(0, 0, edit.new_string)], None
        else:
            try:
                found = find(text, edit.old_string, edit.new_string, replace_all=edit.replace_all)
            except NoMatch as error:
                raise Failed(f"{which}nothing was changed in {self._path}: {error}") from None
            spans, drift = found.spans, found.drift
        self.put(spans, which, proven=drift is None and len(spans) == 1)
        if drift is not None:
            lines = ", ".join(str(line_of(text, span.start)) for span in spans[:5])
            self.notes.append(
                f"{which}old_string matched line {lines} only up to {drift}; the file's own was kept."
            )

    def put(self, spans: list[Splice], which: str, *, proven: bool) -> None:
        """Replace pieces of the current text, in order and not overlapping.

        `proven`: the text occurs exactly once, as given, which cannot be chance, so it need not
        have been read. Raises Failed.
        """
        self._check_seen(spans, which, proven=proven)
        self._splice(spans, which)
        self._replaced += len(spans)

    def _check_seen(self, spans: list[Splice], which: str, *, proven: bool) -> None:
        if self._known.whole or self._known.stale:
            return
        text, known = self.file.text, ReadState("", self._seen, whole=False)
        shift = 0
        for span in spans:
            first, last = line_of(text, span.start), line_of(text, max(span.start, span.end - 1))
            if not proven and not known.covers(first, last):
                raise Failed(
                    f"{which}lines {first}-{last} of {self._path} were not read; nothing was changed. "
                    f"Read them first, with offset={first} and limit={last - first + 1}."
                )
            count_new = (
                last
                - first
                + 1
                + span.replacement.count("\n")
                - text.count("\n", span.start, span.end)
            )
            self._seen = after_change(self._seen, first + shift, last + shift, count_new)
            shift += count_new - (last - first + 1)

    def _splice(self, spans: list[Splice], which: str) -> None:
        try:
            file = self.file.spliced(spans)
        except NotEncodable as error:
            raise Failed(f"{which}nothing was changed in {self._path}: {error}") from None
        if len(file.data) > LARGEST_RESULT:
            raise Failed(
                f"{which}nothing was changed in {self._path}: the result would be {len(file.data)} bytes"
            )
        self.file = file
