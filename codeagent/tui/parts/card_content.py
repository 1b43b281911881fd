"""What a card shows and what its keys do, as plain data that pure functions make from what
waits."""

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

CardScope = Literal["card", "follow", "boundary", "plan", "summary"]
"""The scope of a card's keys: an approval or a question, one that is only followed, a pause, a
plan, or a summary."""


@dataclass(frozen=True)
class ChooseHunks:
    """Let the user answer the changes of one call hunk by hunk, one file after the other."""

    approval_id: str
    diffs: tuple[DiffBlock, ...]


@dataclass(frozen=True)
class Tell:
    """Say in one line what was not done; `back` is the user's text, which would otherwise be
    lost."""

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
    """The user's text, given back if it is refused."""


@dataclass(frozen=True)
class StartPlan:
    """Carry out the plan."""

    text: str
    """Markdown, with the user's changes."""
    mode: Mode


@dataclass(frozen=True)
class UseSummary:
    """Replace the summarized messages with the summary; None keeps the conversation as it is."""

    text: str | None
    """Markdown, with the user's changes."""
    seen: str | None = None
    """The summary as it was shown first; None: whichever waits."""


BoundaryAct = Continue | SkipCall | WrittenCall | StartPlan | UseSummary
"""What the user wants at a boundary."""
CardAct = BoundaryAct | Answer | ChooseHunks | Tell
"""What a card asks its screen to do."""


@dataclass(frozen=True)
class Check:
    """What is said about a text while it is being typed."""

    problem: str = ""
    """One line why Enter does nothing; empty if it sends the text."""
    says: tuple[str, ...] = ()
    """What sending it means. If space is short, the first is always kept, and of the others the
    last one longest."""
    odd: str = ""
    """Letters that only look like ASCII; empty if there are none."""


@dataclass(frozen=True)
class Send:
    """Do these acts; `words` is shown until they are confirmed, or empty if the keys continue to
    work."""

    acts: tuple[CardAct, ...]
    words: str = ""


@dataclass(frozen=True)
class Say:
    """Say why the key does nothing here."""

    text: str


@dataclass(frozen=True)
class Scroll:
    """Scroll the body as a pane does for that key."""

    key: str


@dataclass(frozen=True)
class MarkRow:
    """Mark a row, counted from 0."""

    row: int


@dataclass(frozen=True)
class MarkChoice:
    """Mark the choice with that key."""

    key: str


@dataclass(frozen=True)
class ShowAs:
    """Show it another way: all waiting calls, a diff in two columns, what the tool says about
    itself above the call, or nothing until Tab is pressed."""

    view: Literal["all", "split", "about", "away"]
    on: bool


@dataclass(frozen=True)
class Fill:
    """Put a text into a field of a form, and mark the field at `row`, counted from 0."""

    form: str
    """The id of the form's approval."""
    field: str
    text: str
    row: int


@dataclass(frozen=True)
class Writing:
    """Let the user write in the card's line, or in their editor if the text does not fit there."""

    about: Literal["question", "call", "plan", "summary"]
    subject: str
    """The id of what it is about, or the text of the plan or summary; a draft is kept as long as
    that waits."""
    purpose: Literal["reason", "answer", "rule", "command", "message", "json", "plan", "summary"]
    then: Callable[[str], "Send | Say | Fill | None"]
    """What sending the text does; None if the text is only kept."""
    text: str = ""
    """The text to start from."""
    choices: tuple["CardChoice", ...] = ()
    """The keys while the line is open."""
    placeholder: str = ""
    judge: Callable[[str], Check] | None = None
    """Says what is wrong with a text; without it any text may be sent."""
    allows: bool = False
    """Sending allows a call: all of the text must be visible, and Enter counts only once it could
    be read."""
    suffix: str = ""
    """The suffix of the editor's file; empty if the text is always written in the line."""
    part: str = ""
    """The part of the subject that the text is for, such as a field of a form."""
    other: Callable[[], "Writing"] | None = None
    """The same text for another purpose, such as a rule that is kept."""


KeyMeaning = Send | Say | Scroll | MarkRow | MarkChoice | ShowAs | Fill | Writing
LazyMeaning = KeyMeaning | Callable[[], KeyMeaning]
"""The meaning, or a function that makes it when the key is pressed, if that takes time."""


@dataclass(frozen=True)
class CardChoice:
    """A key and what it does; in a narrow row, choices with a low `keep` are dropped first."""

    key: str
    words: str
    short: str = ""
    keep: int = 50
    allows: bool = False
    """It allows a call, so it is grey until it counts."""
    label: str = ""
    """The key as it is shown, if different from `key`."""
    does: LazyMeaning | None = None
    """What the key does; None if the row only mentions it."""


@dataclass(frozen=True)
class CardView:
    """How the user arranged what is shown, before answering it."""

    marked: str | None = None
    """The key of the marked choice, which Enter chooses; None if the mark was not moved."""
    row: int | None = None
    """The marked row, from 0; None if none was marked yet."""
    problem: str = ""
    """What was wrong with the edit of the marked row."""
    about: bool = False
    """Whether what the tool says about itself is shown."""
    away: bool = False


@dataclass(frozen=True)
class CardContent:
    """Everything that a card shows and does."""

    id: Hashable
    """Identifies the content: if it changes, the card has to be read again before keys count."""
    scope: CardScope
    left: tuple[Part, ...]
    """The title, at the left of the upper edge."""
    right: tuple[Part, ...]
    body: tuple[Piece, ...]
    drawn_of: object
    """Identifies the body: if it is unchanged, so is the body."""
    choices: tuple[CardChoice, ...]
    beside: Mapping[str, LazyMeaning] = field(default_factory=dict)
    """What keys other than the choices do."""
    marked: str = ""
    """The key of the marked choice, which Enter chooses."""
    row: int | None = None
    """The marked row of the body, which stays on screen."""
    at_end: bool = False
    """The end of the body is shown first."""
    to_read: tuple[ApprovalRequested, ...] = ()
    """The questions that must have been on screen to the end before they can be allowed."""
    sent: str = ""
    """The answer that is not yet confirmed, in words; until then nothing else is done."""
    begins: Writing | None = None
    """What the user writes as soon as the card has the focus."""
