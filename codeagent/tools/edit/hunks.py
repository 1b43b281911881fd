"""A change of one file: shown first, applied only if the file is still as shown, and accepted whole
or hunk by hunk."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from codeagent.core.dataclass import dataclass
from codeagent.core.display import Hunk, HunkAnswer, cut, landed
from codeagent.core.errors import ContentChanged
from codeagent.core.json_types import JsonValue
from codeagent.core.messages import TextPart
from codeagent.core.sanitize import spelled
from codeagent.core.tool import BaseChanged, Denied, Failed, Preview, ToolContext, ToolResult
from codeagent.tools.edit.diff import LEFT_OUT, Region, count, diff_block, region, unified
from codeagent.tools.edit.encoding import NotEncodable, TextFile
from codeagent.tools.edit.reads import Lines, ReadState, ReadTracker, after_change, digest, joined

_STALE = (
    "The file had changed since you read it; the user saw what this change makes of it and approved that. Read the "
    "file again before you change more of it."
)


@dataclass(frozen=True)
class PendingChange:
    """One file's content before and after."""

    path: str
    old: bytes | None
    """None if the file does not exist yet."""
    file: TextFile
    """The content before; empty if there is none."""
    after: str
    data: bytes
    """The content after, encoded."""
    known: ReadState
    """What the model had seen of the earlier content."""

    @property
    def before(self) -> str:
        return self.file.text

    @property
    def base(self) -> str | None:
        """The SHA-256 the file must still have when it is written."""
        return None if self.old is None else digest(self.old)

    @property
    def binding(self) -> str:
        """The text that an approval of this change is bound to."""
        return binding(self.path, self.old)

    @property
    def region(self) -> Region:
        """The part of the file that changes, which an answer hunk by hunk is about."""
        return region(self.before, self.after)

    def preview(self) -> Preview:
        part = self.region
        by_hunk = part.before != part.after and part.is_shown_whole
        block = diff_block(self.path, self.before, self.after)
        return Preview(spelled(self.path), (block,), base=self.binding, by_hunk=by_hunk)

    @property
    def notes(self) -> tuple[str, ...]:
        """Further notes for the model."""
        return (_STALE,) if self.known.stale else ()

    def check(self, ctx: ToolContext) -> None:
        """Raise BaseChanged if something else was approved."""
        if ctx.base is not None and ctx.base != self.binding:
            raise BaseChanged

    def apply(self, ctx: ToolContext) -> None:
        """Write the file. Raises BaseChanged if something else was approved, WorkspaceError."""
        self.check(ctx)
        try:
            ctx.workspace.write(self.path, self.data, base=self.base)
        except ContentChanged:
            if ctx.base is not None:
                raise BaseChanged from None
            raise


ChangeT = TypeVar("ChangeT", bound=PendingChange)


def binding(path: str, content: bytes | None) -> str:
    """Return a text that identifies a file and its content; `content` is None if the file does not
    exist."""
    return f"{spelled(path)}\n{'new' if content is None else digest(content)}"


BETWEEN = "\n\n"
"""Separates files in the binding of a change of several files."""


def is_bound(base: str | None, path: str, content: bytes) -> bool:
    """Whether the approval `base` was given for this file with this content, alone or among
    others."""
    return binding(path, content) in (base or "").split(BETWEEN)


def taken_by_hunk(change: PendingChange, ctx: ToolContext, reads: ReadTracker) -> ToolResult | None:
    """Apply the hunks that the user took; None if all were taken, or the user was not asked hunk by
    hunk.

    Raises BaseChanged, Denied if none was taken, Failed if the answers do not fit the hunks,
    WorkspaceError.
    """
    if ctx.hunks is None:
        return None
    change.check(ctx)
    answered = Answered.of(change, ctx.hunks if ctx.base is not None else ())
    if answered.left_out:
        hunks = count(len(answered.hunks), "hunk")
        raise Denied(f"the user took none of the {hunks}; {spelled(change.path)} was not changed")
    if answered.whole:
        return None
    answered.took.apply(ctx)
    return answered_result([answered], reads)


@dataclass(frozen=True)
class Answered(Generic[ChangeT]):
    """A change, and the part of it that the user took hunk by hunk."""

    change: ChangeT
    took: ChangeT
    hunks: Sequence[Hunk]
    answers: Sequence[HunkAnswer]

    @classmethod
    def of(cls, change: ChangeT, answers: Sequence[HunkAnswer]) -> "Answered[ChangeT]":
        """Apply the answers to a change. Raises Failed if they do not fit the hunks."""
        hunks = _hunks(change, answers)
        settled = _settled(change, hunks, answers)
        return cls(change, _took(change, hunks, settled), hunks, settled)

    @property
    def left_out(self) -> bool:
        return self.took.after == self.change.before

    @property
    def whole(self) -> bool:
        return self.took.after == self.change.after

    def told(self, reads: ReadTracker) -> tuple[str, dict[str, JsonValue]]:
        """Return, for a change that was written, a text for the model, and what the model now knows
        of the file."""
        change, took = self.change, self.took
        changed = unified(took.before, took.after)
        text = f"What changed in {spelled(change.path)}:\n{changed}\n"
        text += f"Not applied, from the file as it is now to what you proposed:\n{unified(took.after, change.after)}"
        if self.left_out:
            return "\n".join([text, *change.notes]), {}
        lines, whole = _known(change, self.hunks, self.answers, told=not changed.endswith(LEFT_OUT))
        return "\n".join([text, *change.notes]), reads.wrote(
            took.path, took.data, lines, whole=whole
        )


def answered_result(changes: Sequence[Answered[ChangeT]], reads: ReadTracker) -> ToolResult:
    """Return the result of changes that were written as the user answered."""
    answers = [answer for each in changes for answer in each.answers]
    told = [each.told(reads) for each in changes]
    known: list[JsonValue] = [about for _, about in told if about]
    details: dict[str, JsonValue] = {
        "changed_files": known,
        "hunks": {
            "taken": sum(answer is True for answer in answers),
            "changed": sum(isinstance(answer, tuple) for answer in answers),
            "left_out": sum(answer is False for answer in answers),
        },
    }
    text = f"{_what_was_taken(answers)} " + "\n".join(said for said, _ in told)
    blocks = [
        diff_block(one.change.path, one.took.before, one.took.after)
        for one in changes
        if not one.left_out
    ]
    return ToolResult(content=(TextPart(text=text),), blocks=tuple(blocks), details=details)


def as_answered(change: ChangeT, answers: Sequence[HunkAnswer]) -> ChangeT:
    """Return the part of a change that the user took. Raises Failed if the answers do not fit the
    hunks."""
    hunks = _hunks(change, answers)
    return _took(change, hunks, _settled(change, hunks, answers))


def _took(change: ChangeT, hunks: Sequence[Hunk], answers: Sequence[HunkAnswer]) -> ChangeT:
    """Return the taken change. Raises Failed if the file's encoding does not have what the user
    typed."""
    after = _landed(change, hunks, answers)
    if after == change.after:
        return change
    try:
        return replace(change, after=after, data=change.file.bom + change.file.encode(after))
    except NotEncodable as error:
        raise Failed(
            f"{spelled(change.path)} was not changed: the user changed a hunk, but {error}"
        ) from None


def hunks_of(change: PendingChange) -> list[Hunk]:
    """Return the hunks of a change, at their place in the whole file."""
    part = change.region
    return [replace(hunk, start=hunk.start + part.first) for hunk in cut(part.before, part.after)]


def _hunks(change: PendingChange, answers: Sequence[HunkAnswer]) -> list[Hunk]:
    """Return the hunks that the answers are about, at their place in the whole file. Raises
    Failed."""
    hunks = hunks_of(change)
    if not hunks or not change.region.is_shown_whole or len(answers) != len(hunks):
        raise Failed(
            f"the answer does not fit this change ({count(len(answers), 'answer')}, {count(len(hunks), 'hunk')}); "
            f"{spelled(change.path)} was not changed. Make the same call again."
        )
    return hunks


def _settled(
    change: PendingChange, hunks: Sequence[Hunk], answers: Sequence[HunkAnswer]
) -> list[HunkAnswer]:
    """Return the answers with the file's newlines; True or False if the user's own lines amount to
    that."""
    found: list[HunkAnswer] = []
    total = change.before.count("\n") + 1
    for hunk, answer in zip(hunks, answers, strict=True):
        if isinstance(answer, tuple):
            at_end = hunk.start + len(hunk.old) == total
            lines = tuple("\n".join(answer).split("\n")) if answer else ()
            lines = _with_newlines_of(change, hunk, lines, at_end=at_end)
            answer = True if lines == hunk.new else False if lines == hunk.old else lines
        found.append(answer)
    return found


def _with_newlines_of(
    change: PendingChange, hunk: Hunk, lines: tuple[str, ...], *, at_end: bool
) -> tuple[str, ...]:
    """Return lines with the file's line ends; `at_end`: the last one is without a newline."""
    if _only_crlf(change):
        ended = len(lines) - at_end
        return tuple(
            line.removesuffix("\r") + ("\r" if at < ended else "") for at, line in enumerate(lines)
        )
    if "\r\n" in change.before or any(line.endswith("\r") for line in hunk.new):
        return lines
    return tuple(line.removesuffix("\r") for line in lines)


def _only_crlf(change: PendingChange) -> bool:
    text = change.before if "\n" in change.before else change.after
    both = text.count("\r\n")
    return both > 0 and both == text.count("\n")


def _landed(change: PendingChange, hunks: Sequence[Hunk], answers: Sequence[HunkAnswer]) -> str:
    text = landed(change.before, hunks, answers)
    at_end = hunks[-1].start + len(hunks[-1].old) == change.before.count("\n") + 1
    # If the user removed the last lines, the newline before them goes together with its carriage
    # return.
    return text.removesuffix("\r") if answers[-1] == () and at_end and _only_crlf(change) else text


def _what_was_taken(answers: Sequence[HunkAnswer]) -> str:
    taken, left = (
        sum(answer is True for answer in answers),
        sum(answer is False for answer in answers),
    )
    changed = len(answers) - taken - left
    parts = [f"took {taken} of {count(len(answers), 'hunk')} of this change"]
    if changed:
        parts.append(f"changed {changed} before applying {'it' if changed == 1 else 'them'}")
    if left:
        parts.append(f"left out {left}")
    return f"The user {', '.join(parts[:-1])}{' and ' if parts[1:] else ''}{parts[-1]}."


def _known(
    change: PendingChange, hunks: Sequence[Hunk], answers: Sequence[HunkAnswer], *, told: bool
) -> tuple[tuple[Lines, ...], bool]:
    """Return the lines of the new content that the model knows, and whether those are all; `told`:
    the diff is full."""
    runs = ((1, change.before.count("\n") + 1),) if change.known.whole else change.known.lines
    whole, shift = change.known.whole, 0
    for hunk, answer in zip(hunks, answers, strict=True):
        if answer is False:
            continue
        lines = hunk.new if answer is True else answer
        first = hunk.start + 1 + shift
        runs = after_change(runs, first, first + len(hunk.old) - 1, len(lines))
        if answer is not True and not told:
            runs, whole = _without(runs, first, first + len(lines) - 1), False
        shift += len(lines) - len(hunk.old)
    return runs, whole


def _without(runs: tuple[Lines, ...], first: int, last: int) -> tuple[Lines, ...]:
    """Return the runs without those lines."""
    return joined(
        part
        for start, end in runs
        for part in ((start, min(end, first - 1)), (max(start, last + 1), end))
    )
