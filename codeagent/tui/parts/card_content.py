"""What a card shows and what its keys do, as plain data that a pure function makes of what waits."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import field
from typing import Literal

from codeagent.core.acts import Answer, SkipCall
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DiffBlock
from codeagent.core.policy import Mode
from codeagent.tui.parts.line_pane import Piece
from codeagent.tui.parts.rows import Part

CardScope = Literal["card", "boundary", "plan", "summary"]
"""Whose keys the card has: those of an approval or a question, of a pause, of a plan, or of a summary."""


@dataclass(frozen=True)
class ChooseHunks:
    """Let the user answer the changes of one call hunk by hunk, one file after the other."""

    approval_id: str
    diffs: tuple[DiffBlock, ...]


@dataclass(frozen=True)
class Tell:
    """Say in one line what was not done; `back` is text of the user's that would be lost."""

    text: str
    back: str = ""


@dataclass(frozen=True)
class Continue:
    """End the pause; `step` turns step mode on or off first, None leaves it as it is."""

    step: bool | None = None


@dataclass(frozen=True)
class WrittenCall:
    """Run the call with these arguments instead."""

    call_id: str
    arguments: str
    """JSON."""
    written: str
    """What the user wrote, given back if it does not fit."""


@dataclass(frozen=True)
class StartPlan:
    """Carry out the plan."""

    text: str
    """Markdown, as it is or as the user changed it."""
    mode: Mode


@dataclass(frozen=True)
class UseSummary:
    """Have the summary replace what it is of; None: keep the conversation as it is."""

    text: str | None
    """Markdown, as it is or as the user changed it."""


BoundaryAct = Continue | SkipCall | WrittenCall | StartPlan | UseSummary
"""What the user wants at a boundary."""
CardAct = BoundaryAct | Answer | ChooseHunks | Tell
"""What a card asks of its screen."""


@dataclass(frozen=True)
class Check:
    """What is to be said about a text while it is written."""

    problem: str = ""
    """One line: why Enter does nothing; empty if it sends the text."""
    says: tuple[str, ...] = ()
    """What sending it means. Where there is little room the first is kept, and the last goes last of the others."""
    odd: str = ""
    """Which of its letters only look like ASCII; empty if all are."""


@dataclass(frozen=True)
class Send:
    """Do these acts; `words` says what was answered until that is confirmed, empty if the keys still work."""

    acts: tuple[CardAct, ...]
    words: str = ""


@dataclass(frozen=True)
class Say:
    """Say why the key does nothing here."""

    text: str


@dataclass(frozen=True)
class Scroll:
    """Scroll the body, as a pane does by that key."""

    key: str


@dataclass(frozen=True)
class MarkRow:
    """Mark that row, from 0."""

    row: int


@dataclass(frozen=True)
class MarkChoice:
    """Mark the choice with that key."""

    key: str


@dataclass(frozen=True)
class ShowAs:
    """Show it another way: all calls that wait, a diff in two columns, or nothing until Tab asks for it."""

    view: Literal["all", "split", "away"]
    on: bool


@dataclass(frozen=True)
class Writing:
    """Let the user write: in the card's line, or in their editor what does not fit there."""

    about: Literal["question", "call", "plan", "summary"]
    subject: str
    """The id of that, or the text of the plan or summary: what was begun is kept as long as it waits."""
    purpose: Literal["reason", "answer", "rule", "command", "json", "plan", "summary"]
    then: Callable[[str], "Send | Say | None"]
    """What the text does; None if keeping it is all."""
    text: str = ""
    """What it begins with."""
    choices: tuple["CardChoice", ...] = ()
    """The keys while it is written in the line."""
    placeholder: str = ""
    judge: Callable[[str], Check] | None = None
    """Says what is wrong with a text; without it any may be sent."""
    allows: bool = False
    """Sending allows something: all of it must be seen, and Enter counts only once it could be read."""
    suffix: str = ""
    """Of the file that the editor gets; empty if it is always written in the line."""
    other: Callable[[], "Writing"] | None = None
    """The same text, written for another end."""


KeyMeaning = Send | Say | Scroll | MarkRow | MarkChoice | ShowAs | Writing
LazyMeaning = KeyMeaning | Callable[[], KeyMeaning]
"""The meaning, or a function that makes it when the key is pressed, if that takes time."""


@dataclass(frozen=True)
class CardChoice:
    """A key and what it does; `keep` says how late it goes where the row is narrow."""

    key: str
    words: str
    short: str = ""
    keep: int = 50
    allows: bool = False
    """It is grey while it does not count yet."""
    label: str = ""
    """The key as it is shown, if that is not `key`."""
    does: LazyMeaning | None = None
    """None if the row only tells of keys."""


@dataclass(frozen=True)
class CardView:
    """What the user did to what is shown, without having answered it."""

    marked: str | None = None
    """The key of the choice that Enter takes; None if the mark was not moved."""
    row: int | None = None
    """The marked row, from 0; None if none was marked yet."""
    problem: str = ""
    """What was wrong with what was written for the marked row."""
    away: bool = False


@dataclass(frozen=True)
class CardContent:
    """All of a card."""

    id: Hashable
    """A new one has to be read before keys count."""
    scope: CardScope
    left: tuple[Part, ...]
    """The title at the left of the upper edge."""
    right: tuple[Part, ...]
    body: tuple[Piece, ...]
    drawn_of: object
    """If it is unchanged, so is the body."""
    choices: tuple[CardChoice, ...]
    tab: str
    """What one does on the card, as in `to answer`."""
    beside: Mapping[str, LazyMeaning] = field(default_factory=dict)
    """What keys do that are not among the choices."""
    marked: str = ""
    """The key of the choice that Enter takes."""
    only_focused: frozenset[str] = frozenset()
    """Keys the composer has its own use of: with Alt they do nothing here."""
    row: int | None = None
    """The marked row of the body: it stays on screen."""
    at_end: bool = False
    """The body is shown from its end."""
    to_read: tuple[ApprovalRequested, ...] = ()
    """What has to be on screen to its end before it can be allowed."""
    whole: bool = True
    """All of it can be shown."""
    sent: str = ""
    """What was answered and is not yet confirmed, in words; until then nothing else is done."""
    begins: Writing | None = None
    """What is written as soon as the card has the keys."""
