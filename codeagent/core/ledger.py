"""Who allowed or denied what, and why: a row for every decision, and its words (FEATURES F33)."""

from dataclasses import dataclass
from typing import Literal

from codeagent.core.policy import Answer, ApprovalSource


@dataclass(frozen=True)
class LedgerRow:
    """One decision about one call."""

    at: float
    """Seconds since the epoch."""
    call_id: str
    tool: str
    target: str
    """One line: the path or the command."""
    what: str
    """All of it: the whole command, or the arguments as JSON."""
    outcome: Literal["allowed", "denied", "cancelled"]
    who: ApprovalSource
    answer: Answer | None = None
    """What the user answered; None if they were not asked."""
    rule: str = ""
    """The rule that decided, or that was made of the answer."""
    keep: bool = False
    """That rule holds in later sessions, too."""
    reason: str = ""
    """Why it was asked, allowed or denied, as a phrase."""
    proposal: str = ""
    """A rule that would have allowed it and its like; empty where none can be proposed."""


def decided_by(row: LedgerRow) -> str:
    """Who decided, and for how long: `you, once`, `rule`, `you, kept`."""
    who = "you" if row.who == "user" else row.who
    match row.answer:
        case None | "deny":
            return who
        case "rule":
            return f"{who}, {'kept' if row.keep else 'session'} rule"
        case "edit":
            return f"{who}, edited"
        case answer:
            return f"{who}, {answer}"
