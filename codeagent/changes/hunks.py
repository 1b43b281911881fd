"""The hunks of a change, and the part of it that answers hunk by hunk take."""

from collections.abc import Sequence
from dataclasses import replace

from codeagent.changes.diff import Region, count, region
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.display import Hunk, HunkAnswer, cut, landed
from codeagent.core.sanitize import spelled
from codeagent.core.text_files import NotEncodable
from codeagent.core.tool import Failed


def changed_region(change: Change[Node]) -> Region | None:
    """Return the part of the file that changes, which an answer hunk by hunk is about; None if it
    is not text."""
    return None if change.texts is None else region(*change.texts)


def is_by_hunk(change: Change[Node]) -> bool:
    """Whether it can be answered hunk by hunk: the text changes, and is shown exactly as it is."""
    part = changed_region(change)
    whole = change.source is None and change.after is not None
    return whole and part is not None and part.before != part.after and part.is_shown_whole


def hunks_of(change: Change[Node]) -> list[Hunk]:
    """Return the hunks of a change, at their place in the whole file; none if it is not text."""
    part = changed_region(change)
    if part is None:
        return []
    return [replace(hunk, start=hunk.start + part.first) for hunk in cut(part.before, part.after)]


@dataclass(frozen=True)
class Answered:
    """A change, and the part of it that the user took hunk by hunk."""

    change: Change[Node]
    took: Change[Node]
    hunks: Sequence[Hunk]
    answers: Sequence[HunkAnswer]

    @classmethod
    def of(cls, change: Change[Node], answers: Sequence[HunkAnswer]) -> "Answered":
        """Apply the answers to a change. Raises Failed if they do not fit the hunks."""
        hunks = _fitting(change, answers)
        settled = _settled(change, hunks, answers)
        return cls(change, _took(change, hunks, settled), hunks, settled)

    @property
    def left_out(self) -> bool:
        return _texts(self.took)[1] == _texts(self.change)[0]

    @property
    def whole(self) -> bool:
        return _texts(self.took)[1] == _texts(self.change)[1]


def _texts(change: Change[Node]) -> tuple[str, str]:
    assert change.texts is not None
    return change.texts


def _took(
    change: Change[Node], hunks: Sequence[Hunk], answers: Sequence[HunkAnswer]
) -> Change[Node]:
    """Return the taken change. Raises Failed if the file's encoding does not have what the user
    typed."""
    after = _landed(change, hunks, answers)
    if after == _texts(change)[1]:
        return change
    try:
        data = change.file.bom + change.file.encode(after)
    except NotEncodable as error:
        raise Failed(
            f"{spelled(change.path)} was not changed: the user changed a hunk, but {error}"
        ) from None
    assert change.after is not None
    return replace(change, after=replace(change.after, data=data), decoded=change.file)


def _fitting(change: Change[Node], answers: Sequence[HunkAnswer]) -> list[Hunk]:
    """Return the hunks that the answers are about, at their place in the whole file. Raises
    Failed."""
    hunks = hunks_of(change)
    if not hunks or not is_by_hunk(change) or len(answers) != len(hunks):
        raise Failed(
            f"the answer does not fit this change ({count(len(answers), 'answer')}, {count(len(hunks), 'hunk')}); "
            f"{spelled(change.path)} was not changed. Make the same call again."
        )
    return hunks


def _settled(
    change: Change[Node], hunks: Sequence[Hunk], answers: Sequence[HunkAnswer]
) -> list[HunkAnswer]:
    """Return the answers with the file's newlines; True or False if the user's own lines amount to
    that."""
    found: list[HunkAnswer] = []
    total = _texts(change)[0].count("\n") + 1
    for hunk, answer in zip(hunks, answers, strict=True):
        if isinstance(answer, tuple):
            at_end = hunk.start + len(hunk.old) == total
            lines = tuple("\n".join(answer).split("\n")) if answer else ()
            lines = _with_newlines_of(change, hunk, lines, at_end=at_end)
            answer = True if lines == hunk.new else False if lines == hunk.old else lines
        found.append(answer)
    return found


def _with_newlines_of(
    change: Change[Node], hunk: Hunk, lines: tuple[str, ...], *, at_end: bool
) -> tuple[str, ...]:
    """Return lines with the file's line ends; `at_end`: the last one is without a newline."""
    if _only_crlf(change):
        ended = len(lines) - at_end
        return tuple(
            line.removesuffix("\r") + ("\r" if at < ended else "") for at, line in enumerate(lines)
        )
    if "\r\n" in _texts(change)[0] or any(line.endswith("\r") for line in hunk.new):
        return lines
    return tuple(line.removesuffix("\r") for line in lines)


def _only_crlf(change: Change[Node]) -> bool:
    before, after = _texts(change)
    text = before if "\n" in before else after
    both = text.count("\r\n")
    return both > 0 and both == text.count("\n")


def _landed(change: Change[Node], hunks: Sequence[Hunk], answers: Sequence[HunkAnswer]) -> str:
    before, _ = _texts(change)
    text = landed(before, hunks, answers)
    at_end = hunks[-1].start + len(hunks[-1].old) == before.count("\n") + 1
    # If the user removed the last lines, the newline before them goes together with its carriage
    # return.
    return text.removesuffix("\r") if answers[-1] == () and at_end and _only_crlf(change) else text
