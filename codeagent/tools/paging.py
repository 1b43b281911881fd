"""Cuts text into pages for a model."""

from collections.abc import Iterable, Iterator


def fitting(lines: Iterable[str], most: int, beside: int = 1) -> Iterator[str]:
    """Return as many lines as fit into `most` characters, at least one; each takes `beside` more
    than its own."""
    size = 0
    for at, line in enumerate(lines):
        size += len(line) + beside
        if size > most and at:
            return
        yield line


def shortened(line: str, most: int, rest: str = "") -> str:
    """Cut a line to `most` characters, with a note of how many are left; `rest` says how to read
    those."""
    beyond = len(line) - most
    more = f": {rest}" if rest else ""
    return line if beyond <= 0 else f"{line[:most]}[… {beyond} more characters in this line{more}]"
