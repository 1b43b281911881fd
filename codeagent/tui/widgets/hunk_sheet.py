"""A change under review: its hunks, and what the person answered to each so far."""

from typing import Literal

from codeagent.core.display import DiffBlock
from codeagent.core.hunks import HunkAnswer, cut, landed
from codeagent.core.sanitize import visible
from codeagent.tui.rendering.marked import unseen
from codeagent.tui.widgets.hunk_rows import common_carriage

Word = Literal["accept", "reject", "edited"]


class HunkSheet:
    """Every hunk begins as accepted; lines the person wrote stay, also while the hunk is rejected."""

    def __init__(self, diff: DiffBlock) -> None:
        self.diff = diff
        self.hunks = cut(diff.before, diff.after)
        self._rejected = [False] * len(self.hunks)
        self._own: list[tuple[str, ...] | None] = [None] * len(self.hunks)
        self._drafts: list[str | None] = [None] * len(self.hunks)
        self._carriage = common_carriage(diff)

    def __len__(self) -> int:
        return len(self.hunks)

    def word(self, at: int) -> Word:
        if self._rejected[at]:
            return "reject"
        return "accept" if self._own[at] is None else "edited"

    @property
    def answers(self) -> tuple[HunkAnswer, ...]:
        """One for each hunk."""
        return tuple(self._answer(at) for at in range(len(self.hunks)))

    @property
    def result(self) -> str:
        """The text as it would become."""
        return landed(self.diff.before, self.hunks, self.answers)

    def new_lines(self, at: int) -> tuple[str, ...]:
        """What is proposed in place of the hunk's old lines, or what the person wrote instead."""
        own = self._own[at]
        return self.hunks[at].new if own is None else own

    def toggle(self, at: int) -> None:
        self._rejected[at] = not self._rejected[at]

    def accept(self, at: int) -> None:
        """Take the hunk as it was proposed; what the person wrote comes back when they edit it again."""
        self._rejected[at], self._own[at] = False, None

    def reject(self, at: int) -> None:
        self._rejected[at] = True

    def text(self, at: int) -> str:
        """The hunk's new lines to be edited, without the file's last newline and carriage returns all lines have."""
        draft = self._drafts[at]
        if draft is not None:
            return draft
        lines = self.new_lines(at)
        lines = lines[:-1] if self._closes_file(at) else lines
        return "\n".join(line.removesuffix(self._carriage) for line in lines)

    def can_be_written_here(self, at: int) -> bool:
        """All of the text can be seen as it is in a field to write in."""
        text = self.text(at)
        return visible(text) == text and not unseen(text.replace("\n", "").replace("\t", ""))

    def keep(self, at: int, text: str) -> None:
        """Keep what was begun to be written, until the hunk is edited again."""
        self._drafts[at] = text

    def write(self, at: int, text: str) -> None:
        """Take the person's own lines; an empty text takes the old lines out and puts nothing there."""
        if text == self.text(at) and self._drafts[at] is None:
            return
        hunk = self.hunks[at]
        lines = tuple(text.split("\n")) if text else ()
        if self._carriage:
            lines = tuple(line.removesuffix("\r") + "\r" for line in lines)
        closes = self._closes_file(at)
        if lines and self._is_last(at) and not closes:
            lines = (*lines[:-1], lines[-1].removesuffix(self._carriage))
        own = (*lines, "") if closes else lines
        self._drafts[at] = text if own != hunk.new else None
        self._rejected[at] = own == hunk.old
        self._own[at] = None if own in (hunk.new, hunk.old) else own

    def counts(self) -> dict[Word, int]:
        found: dict[Word, int] = {"accept": 0, "reject": 0, "edited": 0}
        for at in range(len(self.hunks)):
            found[self.word(at)] += 1
        return found

    def _answer(self, at: int) -> HunkAnswer:
        own = self._own[at]
        if self._rejected[at]:
            return False
        return True if own is None else own

    def _is_last(self, at: int) -> bool:
        """No newline comes after its last line."""
        hunk = self.hunks[at]
        return hunk.start + len(hunk.old) == self.diff.before.count("\n") + 1

    def _closes_file(self, at: int) -> bool:
        """Its last new line is the empty one behind the file's last newline."""
        return self._is_last(at) and self.hunks[at].new[-1:] == ("",)
