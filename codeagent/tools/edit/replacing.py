"""Applies replacements to the text of one file, one after the other, either all or none."""

from codeagent.core.dataclass import dataclass
from codeagent.core.sanitize import spelled
from codeagent.core.tool import Failed, InvalidArgs, ToolArgs
from codeagent.tools.edit.encoding import NotEncodable, NotText, Splice, read_text
from codeagent.tools.edit.hunks import PendingChange
from codeagent.tools.edit.reads import LARGEST_FILE, Lines, ReadState, after_change, line_of

LARGEST_RESULT = 2 * LARGEST_FILE
"""The most bytes of a file after an edit."""


class Replacement(ToolArgs):
    old_string: str
    new_string: str
    replace_all: bool = False


@dataclass(frozen=True)
class Edited(PendingChange):
    """A change, and what the model knows about the result and is told."""

    seen: tuple[Lines, ...]
    """The known lines of the new content; all of them if all were known before."""
    told: tuple[str, ...]
    """Notes on strings that were not found exactly as given."""
    replaced: int


class Replacing:
    """One file with the replacements so far."""

    def __init__(self, path: str, old: bytes | None, known: ReadState) -> None:
        """`old` is the current content, None if there is no file. Raises Failed if it is not
        text."""
        self._path = path
        self._old = old
        self._known = known
        try:
            self._begun = self.file = read_text(old or b"")
        except NotText as error:
            raise Failed(f"{spelled(path)} is {error}; it is not edited") from None
        self._seen = known.lines
        self._replaced = 0
        self.notes: list[str] = []

    def change(self) -> Edited:
        """The change so far."""
        file, told = self.file, tuple(self.notes)
        return Edited(
            self._path,
            self._old,
            self._begun,
            file.text,
            file.data,
            self._known,
            self._seen,
            told,
            self._replaced,
        )

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
