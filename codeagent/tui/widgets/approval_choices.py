"""Which keys answer what is asked, and in which words."""

from codeagent.tui.widgets.approval_body import Asked
from codeagent.tui.widgets.approval_keys import Choice

SCROLL = frozenset({"up", "down", "pageup", "pagedown", "home", "end", "j", "k"})
MOVES = frozenset({"left", "right", "up", "down", "enter"})
"""What moves the mark, or takes what is marked: only with the focus, for the composer has its own use of them."""
NO = "n"


def choices_of(asked: Asked, *, several: bool, splits: bool, is_split: bool) -> tuple[Choice, ...]:
    """For the question in front; `several`: more calls wait for the same kind of answer."""
    if asked.question is not None:
        return _for_question(asked)
    out = [
        Choice("y", "once", keep=90, allows=True),
        Choice("a", "this call for the session", "session", keep=60, allows=True),
        Choice(NO, "no", keep=100),
        Choice("r", "no, because…", keep=70),
    ]
    if several:
        out.append(Choice("A", "the whole batch", "all", keep=40, allows=False))
    if splits:
        out.append(Choice("t", "unified" if is_split else "split", keep=30))
    return tuple(out)


def choices_of_all(count: int) -> tuple[Choice, ...]:
    """Where all waiting calls are listed."""
    return (
        Choice("A", f"allow all {count} once", f"allow all {count}", keep=90, allows=True),
        Choice(NO, "one by one", keep=100),
    )


def choices_of_writing(*, question: bool) -> tuple[Choice, ...]:
    """While a reason or an answer is typed."""
    return (
        Choice("enter", "sends this answer" if question else "sends no, with this reason", "send", 90),
        Choice("esc", "back"),
    )


def _for_question(asked: Asked) -> tuple[Choice, ...]:
    options = asked.question.options if asked.question is not None else ()
    out = [Choice("r", "another answer" if options else "answer", keep=80), Choice(NO, "no answer", keep=100)]
    if options:
        last = min(9, len(options))
        out.insert(0, Choice("1" if last == 1 else f"1-{last}", "pick", keep=90))
    return tuple(out)
