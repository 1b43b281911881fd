"""The rows of a long output, and how they are searched: nothing is prepared before it is asked for."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from codeagent.core.sanitize import visible
from codeagent.tui.rendering.output_buffer import OutputBuffer

LONGEST = 2_000
"""Characters of one row; a longer line goes on in the next."""

_ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


@dataclass(frozen=True)
class Found:
    """One match."""

    row: int
    start: int
    """Character in the row as it is shown."""
    number: int
    """Which one it is, from 1."""
    total: int


class OutputText:
    """Rows of raw text, of which only colours act."""

    def __init__(self, text: str | Sequence[str]) -> None:
        lines = text.split("\n") if isinstance(text, str) else list(text)
        if lines and not lines[-1]:
            lines.pop()
        if lines and max(map(len, lines)) > LONGEST:
            lines = [part for line in lines for part in _parts(line)]
        self._rows = lines

    def __len__(self) -> int:
        return len(self._rows)

    def raw(self, row: int) -> str:
        """With its colours, and nothing else that acts on a terminal."""
        return _cleaned(self._rows[row])

    def plain(self, row: int) -> str:
        """As it is shown."""
        return _shown(self._rows[row])

    @cached_property
    def whole(self) -> str:
        """All rows as they are shown; most need no more than their colours taken away, and that all at once."""
        joined = "\n".join(self._rows)
        plain = _COLOUR.sub("", joined) if "\x1b" in joined else joined
        if _ACTS.search(plain) is not None:
            rows = zip(plain.split("\n"), self._rows, strict=True)
            plain = "\n".join(_shown(raw) if _ACTS.search(row) else row for row, raw in rows)
        # Of ASCII nothing is left that acts, and looking for it in megabytes would be felt.
        return (plain if plain.isascii() else visible(plain)).replace("\t", "    ")

    def find(self, text: str, row: int, start: int, *, backwards: bool = False) -> Found | None:
        """The match at or after that place, or before it; round the ends. Case counts where `text` has capitals."""
        whole = self._searched(text)
        here = self._starts[row] + start if self._rows else 0
        if backwards:
            at = whole.rfind(text, 0, max(0, here + len(text) - 1))
            at = whole.rfind(text) if at < 0 else at
        else:
            at = whole.find(text, here)
            at = whole.find(text) if at < 0 else at
        if at < 0 or not text:
            return None
        found = bisect_right(self._starts, at) - 1
        return Found(found, at - self._starts[found], whole.count(text, 0, at) + 1, whole.count(text))

    def spans(self, text: str, row: int) -> Iterator[tuple[int, int]]:
        """The matches in a row: characters from and to."""
        shown = self.plain(row)
        at = _like(text, shown).find(text) if text else -1
        while at >= 0:
            yield at, at + len(text)
            at = _like(text, shown).find(text, at + len(text))

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(len(row) + 1 for row in self.whole.split("\n"))]

    @cached_property
    def _lowered(self) -> str:
        return _lower(self.whole)

    def _searched(self, text: str) -> str:
        return self._lowered if text == _lower(text) else self.whole


def _parts(line: str) -> Iterator[str]:
    """Pieces of a line that is too long for a row; it loses its colours, because they could be cut in two."""
    if len(line) <= LONGEST:
        yield line
        return
    plain = _COLOUR.sub("", _cleaned(line, limit=False))
    yield from (plain[at : at + LONGEST] for at in range(0, max(len(plain), 1), LONGEST))


def _cleaned(line: str, *, limit: bool = True) -> str:
    if _ACTS.search(line) is None:
        return line
    if not limit:
        return "".join(_cleaned(line[at : at + LONGEST]) for at in range(0, len(line), LONGEST))
    buffer = OutputBuffer(1, 0)
    buffer.feed(line)
    return "".join(buffer.lines())


def _shown(line: str) -> str:
    if line.isascii() and line.isprintable():
        return line
    return visible(_COLOUR.sub("", _cleaned(line))).replace("\t", "    ")


def _like(text: str, shown: str) -> str:
    return _lower(shown) if text == _lower(text) else shown


def _lower(text: str) -> str:
    """Lower case, of the same length: a few letters become two and stay as they are."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
