"""Pages of text for a model: as many lines as fit, where they are, and how to go on."""

from collections.abc import Iterable, Iterator


def fitting(lines: Iterable[str], most: int, beside: int = 1) -> Iterator[str]:
    """The first lines of together at most `most` characters, at least one; each takes `beside` more than its own."""
    size = 0
    for at, line in enumerate(lines):
        size += len(line) + beside
        if size > most and at:
            return
        yield line


def shortened(line: str, most: int, go_on: str = "") -> str:
    """The line, cut to `most` characters with a note of how many there are beyond; `go_on` says how to read them."""
    beyond = len(line) - most
    more = f": {go_on}" if go_on else ""
    return line if beyond <= 0 else f"{line[:most]}[… {beyond} more characters in this line{more}]"
