"""Which keys answer what is asked, and in which words."""

from typing import assert_never

from codeagent.tui.widgets.approval_body import Asked
from codeagent.tui.widgets.approval_keys import Choice
from codeagent.tui.widgets.card_line import Purpose

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


def choices_of(asked: Asked, *, several: bool, splits: bool, is_split: bool) -> tuple[Choice, ...]:
    """For the question in front; `several`: more calls wait for the same kind of answer."""
    if asked.question is not None:
        return _for_question(asked)
    out = [
        Choice("y", "allow once", "allow", keep=90, allows=True),
        Choice("a", "allow for this session", "session", keep=60, allows=True),
        *_beyond(asked),
        Choice(NO, "deny", keep=100),
        Choice("r", "deny, because…", "because…", keep=70),
    ]
    if several:
        out.append(Choice("A", "all of them…", "all…", keep=40))
    if splits:
        out.append(Choice("t", "unified" if is_split else "split", keep=30))
    return tuple(out)


def _beyond(asked: Asked) -> tuple[Choice, ...]:
    """What is more than yes and no, where it can work."""
    waiting = asked.waiting
    out = []
    if waiting.proposal:
        out.append(Choice("p", "always allow like this…", "always…", keep=55, allows=True))
    if asked.editable:
        out.append(Choice("e", "edit", keep=50))
    if asked.diff is not None:
        out.append(Choice("h", "hunk by hunk", "hunks", keep=45))
    return tuple(out)


def choices_of_all(count: int) -> tuple[Choice, ...]:
    """Where all waiting calls are listed."""
    return (
        Choice("A", "allow both" if count == 2 else f"allow all {count}", keep=90, allows=True),
        Choice(NO, "review one by one", "one by one", keep=100),
    )


def choices_of_writing(purpose: Purpose, *, keep: bool = False, other: str = "down") -> tuple[Choice, ...]:
    """While something is typed; `keep`: a rule would hold in later sessions, too; `other` is the key that turns it."""
    back = Choice("esc", "back")
    match purpose:
        case "reason":
            return (Choice("enter", "deny, with this reason", "deny", 90), back)
        case "answer":
            return (Choice("enter", "send this answer", "send", 90), back)
        case "command":
            return (Choice("enter", "ask about this instead", "send", 90, allows=True), back)
        case "rule":
            enter = "always allow in this folder" if keep else "allow for this session"
            instead = "only this session" if keep else "always, in this folder"
            return (
                Choice("enter", enter, "always" if keep else "session", 90, allows=True),
                Choice(other, instead, keep=95),
                back,
            )
        case _:
            assert_never(purpose)


def _for_question(asked: Asked) -> tuple[Choice, ...]:
    options = asked.question.options if asked.question is not None else ()
    out = [Choice("r", "another answer" if options else "answer", keep=80), Choice(NO, "do not answer", keep=100)]
    if options:
        last = min(9, len(options))
        out.insert(0, Choice("1" if last == 1 else f"1-{last}", "pick", keep=90))
    return tuple(out)
