"""The `edit` tool: replaces pieces of one file, all of them or none."""

from typing import Self

from pydantic import model_validator

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import MissingPath
from codeagent.core.tool import Failed, InvalidArgs, ToolArgs, ToolContext, ToolResult
from codeagent.tools.changes import ChangeTool, PathArgs
from codeagent.tools.edit.diff import count, diff_block
from codeagent.tools.edit.encoding import NotEncodable, NotText, Splice, TextFile, read_text, shown
from codeagent.tools.edit.hunks import PendingChange
from codeagent.tools.edit.match import NoMatch, find, line_of
from codeagent.tools.edit.reads import LARGEST_FILE, NOTHING, Lines, ReadState, after_change

_LARGEST_RESULT = 2 * LARGEST_FILE


class Replacement(ToolArgs):
    old_string: str
    new_string: str
    replace_all: bool = False


class EditArgs(PathArgs):
    old_string: str | None = None
    new_string: str | None = None
    replace_all: bool = False
    edits: tuple[Replacement, ...] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        single = self.old_string is not None or self.new_string is not None
        if single == bool(self.edits):
            raise ValueError("give either old_string and new_string, or edits with at least one entry")
        if single and (self.old_string is None or self.new_string is None):
            missing = "old_string" if self.old_string is None else "new_string"
            raise ValueError(f"Missing required argument '{missing}'")
        for number, edit in enumerate(self.replacements(), start=1):
            if edit.old_string == edit.new_string:
                raise ValueError(f"old_string and new_string of edit {number} are the same: nothing to change")
        return self

    def replacements(self) -> tuple[Replacement, ...]:
        if self.edits:
            return self.edits
        old, new = self.old_string or "", self.new_string or ""
        return (Replacement(old_string=old, new_string=new, replace_all=self.replace_all),)


@dataclass(frozen=True)
class _Edited(PendingChange):
    """A change, and what the model knows and is told about it."""

    seen: tuple[Lines, ...]
    """Of the new content; all of it if all was known before."""
    told: tuple[str, ...]
    """Notes on strings that were not found exactly as given."""
    replaced: int


class Edit(ChangeTool[EditArgs, _Edited]):
    name = "edit"
    label = "Edit"
    description = (
        "Replace old_string, copied from a file that was read, by new_string. It must be there exactly once, unless "
        "replace_all is set. edits holds several, each on what the one before it made: all are applied or none. "
        "An empty old_string makes a new file."
    )
    Args = EditArgs

    def _answer(self, args: EditArgs, change: _Edited) -> ToolResult:
        details = self._reads.wrote(change.path, change.data, change.seen, whole=change.known.whole)
        did = "Created" if change.old is None else "Edited"
        what = "" if change.old is None else f": {count(change.replaced, 'replacement')}"
        text = "\n".join([f"{did} {shown(change.path)}{what}.", *change.told, *change.notes])
        block = diff_block(change.path, change.before, change.after)
        return ToolResult.from_text(text, blocks=(block,), details=details)

    def _change(self, args: EditArgs, ctx: ToolContext, *, again: bool) -> _Edited:
        path = ctx.workspace.resolve(args.path)
        edits = args.replacements()
        old = self._present(path, ctx)
        if old is None and edits[0].old_string:
            raise MissingPath(f"{path} does not exist")
        seen = self._known(path, old, ctx, again=again) if old else NOTHING
        try:
            work = _Work(path, read_text(old or b""), seen.lines, seen.whole or seen.stale)
        except NotText as error:
            raise Failed(f"{path} is {error}; it is not edited") from None
        before = work.file
        for number, edit in enumerate(edits, start=1):
            work.apply(edit, f"edit {number} of {len(edits)}: " if len(edits) > 1 else "")
        after = work.file
        return _Edited(path, old, before, after.text, after.data, seen, work.seen, tuple(work.notes), work.replaced)


class _Work:
    """The file with the edits so far applied."""

    def __init__(self, path: str, file: TextFile, seen: tuple[Lines, ...], whole: bool) -> None:
        self._path = path
        self._whole = whole
        self.file = file
        self.seen = seen
        self.notes: list[str] = []
        self.replaced = 0

    def apply(self, edit: Replacement, which: str) -> None:
        """Raises InvalidArgs, Failed."""
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
        self._check_seen(text, spans, which, proven=drift is None and len(spans) == 1)
        self._splice(spans, which)
        self.replaced += len(spans)
        if drift is not None:
            lines = ", ".join(str(line_of(text, span.start)) for span in spans[:5])
            self.notes.append(f"{which}old_string matched line {lines} only up to {drift}; the file's own was kept.")

    def _check_seen(self, text: str, spans: list[Splice], which: str, *, proven: bool) -> None:
        """`proven`: the text is there exactly once, as given, which it would not be by chance. Raises Failed."""
        if self._whole:
            return
        known = ReadState("", self.seen, whole=False)
        shift = 0
        for span in spans:
            first, last = line_of(text, span.start), line_of(text, max(span.start, span.end - 1))
            if not proven and not known.covers(first, last):
                raise Failed(
                    f"{which}lines {first}-{last} of {self._path} were not read; nothing was changed. "
                    f"Read them first, with offset={first} and limit={last - first + 1}."
                )
            count_new = last - first + 1 + span.replacement.count("\n") - text.count("\n", span.start, span.end)
            self.seen = after_change(self.seen, first + shift, last + shift, count_new)
            shift += count_new - (last - first + 1)

    def _splice(self, spans: list[Splice], which: str) -> None:
        try:
            file = self.file.spliced(spans)
        except NotEncodable as error:
            raise Failed(f"{which}nothing was changed in {self._path}: {error}") from None
        if len(file.data) > _LARGEST_RESULT:
            raise Failed(f"{which}nothing was changed in {self._path}: the result would be {len(file.data)} bytes")
        self.file = file
