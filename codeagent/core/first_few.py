"""Names the first few of many things, and says how many others there are."""

from collections.abc import Sequence


def first_few(items: Sequence[str], most: int, noun: str = "") -> str:
    """Return at most so many items in one line: `a, b and 2,000 more`; `noun` says what the others
    are."""
    rest = len(items) - most
    return ", ".join(items[:most]) + (f" and {rest:,} more{noun}" if rest > 0 else "")


def first_lines(items: Sequence[str], most: int) -> list[str]:
    """Return at most so many items, and a last one such as `and 2,000 more`."""
    rest = len(items) - most
    return [*items[:most], *([f"and {rest:,} more"] if rest > 0 else [])]
