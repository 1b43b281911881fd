"""Spells numbers, durations and costs for the screen."""

from codeagent.core.pulse import dollars as dollars
from codeagent.core.pulse import tokens as tokens


def duration(seconds: float) -> str:
    """Return `0.4 s`, `14 s`, `2 min 5 s` or `1 h 3 min`."""
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    return whole(seconds)


def whole(seconds: float) -> str:
    """As `duration`, without tenths, for durations that are counting."""
    count = max(0, int(seconds + 0.5))
    if count < 60:
        return f"{count} s"
    minutes, rest = divmod(count, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def counted(number: int, one: str, many: str = "") -> str:
    """Return `1 line` or `1,200 lines`; `many` is needed if it is not `one` with an s."""
    return f"1 {one}" if number == 1 else f"{number:,} {many or one + 's'}"
