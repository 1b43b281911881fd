"""What the approval card shows and which choice is marked, as plain state."""

from collections.abc import Iterator, Sequence

from codeagent.core.approval_events import ApprovalRequested
from codeagent.tui.widgets.approval_body import Asked, asked, blank, pieces
from codeagent.tui.widgets.approval_choices import NO, SCROLL, cannot, choices_of, choices_of_all
from codeagent.tui.widgets.approval_keys import Choice
from codeagent.tui.widgets.card_line import Purpose
from codeagent.tui.widgets.diff_piece import SPLIT_FROM
from codeagent.tui.widgets.line_pane import Piece
from codeagent.tui.widgets.question_body import question_pieces


class ApprovalSheet:
    """The questions of a desk, of which the oldest is shown, or all calls that wait. Nothing here draws."""

    def __init__(self) -> None:
        self.shown: tuple[Asked, ...] = ()
        self.listing = False
        """All calls that wait are shown, to be allowed together."""
        self.split = False
        self.marked = NO
        """The key of the choice that Enter would take."""
        self.picked: int | None = None
        """The answer of an agent's question that Enter would give, from 0."""
        self.sent: dict[str, str] = {}
        """Answers that were given and not yet confirmed, by id."""
        self.drafts: dict[tuple[str, Purpose], str] = {}
        """What was begun to be written, by id and what it is for."""
        self._asked: dict[str, Asked] = {}

    def update(self, waiting: Sequence[ApprovalRequested]) -> bool:
        """Take the desk as it is now; True where a question is new."""
        known = self._asked
        self._asked = {each.approval_id: known.get(each.approval_id) or asked(each) for each in waiting}
        self.sent = {key: value for key, value in self.sent.items() if key in self._asked}
        self.drafts = {key: value for key, value in self.drafts.items() if key[0] in self._asked}
        return bool(self._asked.keys() - known.keys())

    def turn(self) -> bool:
        """Show what should be in front; True where that is something else than before."""
        before = self.ids
        self.listing = self.listing and len(self.calls) > 1
        self.shown = self.calls if self.listing else tuple(self._asked.values())[:1]
        if self.ids == before:
            return False
        self.marked, self.picked = NO if self.shown and not self.front.question else "", None
        return True

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(each.waiting.approval_id for each in self.shown)

    @property
    def count(self) -> int:
        """Questions that wait."""
        return len(self._asked)

    @property
    def front(self) -> Asked:
        """The first one shown. Raises IndexError where nothing waits."""
        return self.shown[0]

    @property
    def front_id(self) -> str:
        return self.front.waiting.approval_id

    @property
    def options(self) -> tuple[str, ...]:
        """The answers to choose from; none where a call waits for permission."""
        return self.front.question.options if self.front.question is not None else ()

    @property
    def whole(self) -> bool:
        """All that is asked can be shown."""
        return all(each.whole for each in self.shown)

    @property
    def calls(self) -> tuple[Asked, ...]:
        """Those that could be allowed together."""
        return tuple(each for key, each in self._asked.items() if each.question is None and key not in self.sent)

    def choices(self, *, wide: bool) -> tuple[Choice, ...]:
        """`wide`: two versions fit beside each other."""
        if self.listing:
            return choices_of_all(len(self.shown))
        splits = wide and bool(self.front.rows)
        return choices_of(self.front, several=len(self.calls) > 1, splits=splits, is_split=self.split)

    def body(self) -> Iterator[Piece]:
        """Everything that is asked."""
        if self.front.question is not None:
            yield from question_pieces(self.front.question, self.picked)
            return
        for at, each in enumerate(self.shown, 1):
            if at > 1:
                yield blank
            heading = f"{at} of {len(self.shown)}" if self.listing else ""
            yield from pieces(each, split=self.split, heading=heading)

    def keys(self, *, wide: bool) -> frozenset[str]:
        """All that answer, or move what Enter would take."""
        digits = (str(at) for at in range(1, min(9, len(self.options)) + 1))
        moves = ("left", "right", "enter", *(("up", "down") if self.options else ()))
        return frozenset((*digits, *moves, *(choice.key for choice in self.choices(wide=wide))))

    def cannot(self, key: str, *, wide: bool) -> str:
        """Why that key does nothing for what is shown, where it does something for other calls or in a wider window."""
        if key == "t" and self.front.rows and not wide:
            return f"two columns need {SPLIT_FROM} cells"
        return "" if self.listing else cannot(key, self.front)

    def waits(self, approval_id: str) -> bool:
        """Nothing was answered to it yet."""
        return approval_id in self._asked and approval_id not in self.sent

    def scrolls(self, key: str) -> bool:
        """The key moves the text, not a choice."""
        return key in SCROLL and not (self.options and key in ("up", "down"))

    @property
    def entered(self) -> str:
        """The key that Enter stands for: what is marked, which is no until the person moved the mark.

        Of an agent's question nothing is marked at first.
        """
        return self.marked if self.picked is None else str(self.picked + 1)

    def move(self, step: int, *, wide: bool) -> None:
        """Mark the next choice, or the one before."""
        keys = [choice.key for choice in self.choices(wide=wide) if len(choice.key) == 1]
        at = keys.index(self.marked) if self.marked in keys else keys.index(NO)
        self.marked = keys[max(0, min(at + step, len(keys) - 1))]
        self.picked = None

    def pick(self, step: int) -> None:
        """Mark the next answer, or the one before."""
        last = len(self.options) - 1
        self.picked = max(0, min((-1 if self.picked is None else self.picked) + step, last))
        self.marked = ""
