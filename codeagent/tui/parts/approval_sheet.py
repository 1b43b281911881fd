"""Which questions the approval card shows, which keys answer them and which choice is marked: no drawing."""

from collections.abc import Iterator, Sequence
from typing import assert_never

from codeagent.core.approval_events import ApprovalRequested
from codeagent.tui.parts.approval_body import Asked, asked, pieces, question_pieces
from codeagent.tui.parts.card_keys import CardChoice
from codeagent.tui.parts.card_line import Purpose
from codeagent.tui.parts.line_pane import Piece
from codeagent.tui.parts.pieces import SPLIT_FROM, blank

SCROLL = frozenset({"up", "down", "pageup", "pagedown", "home", "end", "j", "k"})
MOVES = frozenset({"left", "right", "up", "down", "enter"})
"""What moves the mark, or takes what is marked: only with the focus, for the composer has its own use of them."""
NO = "n"
_CANNOT = {
    "p": "no rule can be proposed for this: answer it each time",
    "e": "this call cannot be edited: r says what should be done instead",
    "h": "nothing to split here: y allows it all",
}


def cannot(key: str, asked: Asked) -> str:
    """Why a key that answers other calls does not answer this one; empty for any other key."""
    if asked.question is not None or key in {choice.key for choice in _beyond(asked)}:
        return ""
    return _CANNOT.get(key, "")


def choices_of(asked: Asked, *, several: bool, splits: bool, is_split: bool) -> tuple[CardChoice, ...]:
    """For the question in front; `several`: more calls wait for the same kind of answer."""
    if asked.question is not None:
        return _for_question(asked)
    out = [
        CardChoice("y", "allow once", "allow", keep=90, allows=True),
        CardChoice("a", "allow for this session", "session", keep=60, allows=True),
        *_beyond(asked),
        CardChoice(NO, "deny", keep=100),
        CardChoice("r", "deny, because…", "because…", keep=70),
    ]
    if several:
        out.append(CardChoice("A", "all of them…", "all…", keep=40))
    if splits:
        out.append(CardChoice("t", "unified" if is_split else "split", keep=30))
    return tuple(out)


def _beyond(asked: Asked) -> tuple[CardChoice, ...]:
    """What is more than yes and no, where it can work."""
    waiting = asked.waiting
    out = []
    if waiting.proposal:
        out.append(CardChoice("p", "always allow like this…", "always…", keep=55, allows=True))
    if asked.editable:
        out.append(CardChoice("e", "edit", keep=50))
    if asked.diff is not None:
        out.append(CardChoice("h", "hunk by hunk", "hunks", keep=45))
    return tuple(out)


def choices_of_all(count: int) -> tuple[CardChoice, ...]:
    """Where all waiting calls are listed."""
    return (
        CardChoice("A", "allow both" if count == 2 else f"allow all {count}", keep=90, allows=True),
        CardChoice(NO, "review one by one", "one by one", keep=100),
    )


def choices_of_writing(purpose: Purpose, *, keep: bool = False, other: str = "down") -> tuple[CardChoice, ...]:
    """While something is typed; `keep`: a rule would hold in later sessions, too; `other` is the key that turns it."""
    back = CardChoice("esc", "back")
    match purpose:
        case "reason":
            return (CardChoice("enter", "deny, with this reason", "deny", 90), back)
        case "answer":
            return (CardChoice("enter", "send this answer", "send", 90), back)
        case "command":
            return (CardChoice("enter", "ask about this instead", "send", 90, allows=True), back)
        case "rule":
            enter = "always allow in this folder" if keep else "allow for this session"
            instead = "only this session" if keep else "always, in this folder"
            return (
                CardChoice("enter", enter, "always" if keep else "session", 90, allows=True),
                CardChoice(other, instead, keep=95),
                back,
            )
        case _:
            assert_never(purpose)


def _for_question(asked: Asked) -> tuple[CardChoice, ...]:
    options = asked.question.options if asked.question is not None else ()
    out = [
        CardChoice("r", "another answer" if options else "answer", keep=80),
        CardChoice(NO, "do not answer", keep=100),
    ]
    if options:
        last = min(9, len(options))
        out.insert(0, CardChoice("1" if last == 1 else f"1-{last}", "pick", keep=90))
    return tuple(out)


class ApprovalSheet:
    """The approvals that wait, of which the oldest is shown, or all calls that wait. Nothing here draws."""

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
        """Take what waits now; True where a question is new."""
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

    def choices(self, *, wide: bool) -> tuple[CardChoice, ...]:
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
        """The key that Enter stands for: what is marked, which is no until the user moved the mark.

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
