"""Lands the part of a change that the user accepted, and says what became of it."""

from collections.abc import Sequence

from codeagent.changes.change_set import ChangeSet
from codeagent.changes.diff import LEFT_OUT, count, unified
from codeagent.changes.hunks import Answered
from codeagent.core.display import Hunk, HunkAnswer
from codeagent.core.errors import ContentChanged, PartlyChanged, WorkspaceError
from codeagent.core.json_types import JsonValue
from codeagent.core.messages import TextPart
from codeagent.core.sanitize import spelled
from codeagent.core.tool import BaseChanged, Denied, Failed, ToolContext, ToolResult
from codeagent.tools.edit.reads import Lines, ReadTracker, after_change, joined
from codeagent.tools.edit.replacing import Edited


def change_set(edits: Sequence[Edited]) -> ChangeSet:
    return ChangeSet(tuple(edited.change for edited in edits))


def check_approved(changes: ChangeSet, ctx: ToolContext) -> None:
    """Raise BaseChanged if something else was approved."""
    if ctx.base is not None and ctx.base != changes.binding:
        raise BaseChanged


def land_approved(changes: ChangeSet, ctx: ToolContext) -> None:
    """Land the changes. Raises BaseChanged if something else was approved, WorkspaceError."""
    try:
        changes.land(ctx.workspace)
    except ContentChanged:
        if ctx.base is not None:
            raise BaseChanged from None
        raise


def land_all(changes: ChangeSet, ctx: ToolContext) -> None:
    """Land the changes, as `land_approved` does; any other error is Failed, with what was kept."""
    try:
        land_approved(changes, ctx)
    except PartlyChanged as error:
        raise Failed(str(error)) from None
    except WorkspaceError as error:
        raise Failed(f"{error}; no file was changed") from None


def answers_to(changes: ChangeSet, ctx: ToolContext, kept: str) -> tuple[Answered, ...]:
    """Return what the user took hunk by hunk; empty if all was taken, or they were not asked so.

    `kept` says what was not changed. Raises BaseChanged, Denied if none was taken, Failed if the
    answers do not fit the hunks.
    """
    if ctx.hunks is None:
        return ()
    check_approved(changes, ctx)
    answered = changes.answered(ctx.hunks if ctx.base is not None else ())
    if all(one.left_out for one in answered):
        hunks = count(sum(len(one.hunks) for one in answered), "hunk")
        raise Denied(f"the user took none of the {hunks}; {kept}")
    return () if all(one.whole for one in answered) else answered


def taken(answered: Sequence[Answered]) -> ChangeSet:
    return ChangeSet(tuple(one.took for one in answered if not one.left_out))


def answered_result(
    edits: Sequence[Edited], answered: Sequence[Answered], reads: ReadTracker
) -> ToolResult:
    """Return the result of changes that landed as the user answered."""
    answers = [answer for each in answered for answer in each.answers]
    said, known = list[str](), list[JsonValue]()
    for edited, one in zip(edits, answered, strict=True):
        text, about = _told(edited, one, reads)
        said.append(text)
        known += [about] if about else []
    details: dict[str, JsonValue] = {
        "changed_files": known,
        "hunks": {
            "taken": sum(answer is True for answer in answers),
            "changed": sum(isinstance(answer, tuple) for answer in answers),
            "left_out": sum(answer is False for answer in answers),
        },
    }
    whole = f"{_what_was_taken(answers)} " + "\n".join(said)
    return ToolResult(
        content=(TextPart(text=whole),), blocks=taken(answered).blocks, details=details
    )


def _told(
    edited: Edited, answered: Answered, reads: ReadTracker
) -> tuple[str, dict[str, JsonValue]]:
    """Return, for a change that landed, a text for the model, and what the model now knows of the
    file."""
    took, after = answered.took, edited.texts[1]
    assert took.texts is not None and took.after is not None
    changed = unified(*took.texts)
    text = f"What changed in {spelled(edited.path)}:\n{changed}\n"
    text += f"Not applied, from the file as it is now to what you proposed:\n{unified(took.texts[1], after)}"
    text = "\n".join([text, *edited.notes])
    if answered.left_out:
        return text, {}
    told = not changed.endswith(LEFT_OUT)
    lines, whole = _known(edited, answered.hunks, answered.answers, told=told)
    return text, reads.wrote(took.path, took.after.data, lines, whole=whole)


def _what_was_taken(answers: Sequence[HunkAnswer]) -> str:
    accepted = sum(answer is True for answer in answers)
    left = sum(answer is False for answer in answers)
    changed = len(answers) - accepted - left
    parts = [f"took {accepted} of {count(len(answers), 'hunk')} of this change"]
    if changed:
        parts.append(f"changed {changed} before applying {'it' if changed == 1 else 'them'}")
    if left:
        parts.append(f"left out {left}")
    return f"The user {', '.join(parts[:-1])}{' and ' if parts[1:] else ''}{parts[-1]}."


def _known(
    edited: Edited, hunks: Sequence[Hunk], answers: Sequence[HunkAnswer], *, told: bool
) -> tuple[tuple[Lines, ...], bool]:
    """Return the lines of the new content that the model knows, and whether those are all; `told`:
    the diff is full."""
    whole, shift = edited.whole, 0
    runs: tuple[Lines, ...] = () if edited.known is None else edited.known.lines
    if whole:
        runs = ((1, edited.texts[0].count("\n") + 1),)
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
