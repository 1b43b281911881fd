"""The words in the upper edge of the card: the question itself."""

from collections.abc import Sequence

from codeagent.tui.widgets.approval_body import Asked
from codeagent.tui.widgets.fitting import Part, flat
from codeagent.tui.widgets.status_text import duration

_ASKS = {
    "bash": "Run this command?",
    "edit": "Apply this edit?",
    "write": "Write this file?",
    "git_commit": "Make this commit?",
}


def title_parts(shown: Sequence[Asked]) -> tuple[Part, ...]:
    """`Apply this edit?  src/dates.py  +3 −1`, or how many calls are listed; a command stands below, once."""
    if len(shown) > 1:
        every = "both" if len(shown) == 2 else f"all {len(shown)}"
        return (Part(f"Allow {every} calls?", 90, lambda palette: palette.strong),)
    front = shown[0]
    if front.question is not None:
        return (Part("A question for you", 90, lambda palette: palette.strong),)
    name = front.waiting.name
    asks = Part(_ASKS.get(name) or f"Allow {flat(name)}?", 90, lambda palette: palette.strong)
    target = Part(flat(front.waiting.target), 70, lambda palette: palette.text)
    if front.changed is None:
        return (asks,) if name in _ASKS else (asks, target)
    added, removed = front.changed
    return (asks, target, Part(f"+{added} −{removed}", 60))


def waiting_parts(shown: Sequence[Asked], waiting: int, now: float) -> tuple[Part, ...]:
    """`1 of 3  waiting 12 s`; `now` in seconds since the epoch."""
    age = duration(now - min(each.waiting.ts for each in shown))
    count = f"1 of {waiting}" if waiting > 1 and len(shown) == 1 else ""
    return (Part(count, 90), Part(f"waiting {age}", 50))
