"""Keeps a bounded part of what a command prints: the first lines, the last lines, and how many came
in between."""

from collections import deque
from collections.abc import Sequence
from itertools import islice

from codeagent.core.lazy_regex import lazy_regex

LINE_LIMIT = 4_000
"""Characters kept of one line; the rest is counted."""
_COLOURS_KEPT = 16
_SEQUENCE_LIMIT = 64

_ACTS = lazy_regex("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_COLOUR = lazy_regex(rf"\x1b\[[0-9;:]{{0,{_SEQUENCE_LIMIT}}}m")
# Colours are captured, so that replacing with the first group keeps them. A string (OSC, DCS, SOS,
# PM, APC) that is never ended continues to the end of its line: a lost terminator must not hide
# what is printed later.
_CONTROL = lazy_regex(
    rf"(\x1b\[[0-9;:]{{0,{_SEQUENCE_LIMIT}}}m)"
    "|(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]?"
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\n\x1b\x80-\x9f]*[\x07\x9c]?"
    "|\x1b[ -/]*[0-~]?"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_NO_COLOUR = lazy_regex(
    rf"\x1b(?!\[[0-9;:]{{0,{_SEQUENCE_LIMIT}}}m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]"
)
_UNFINISHED = lazy_regex(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*\\Z|\x1b[ -/]*\\Z|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\n\x1b\x80-\x9f]*\\Z"
)
_OPENERS = "\x1b\x90\x98\x9b\x9d\x9e\x9f"


class OutputBuffer:
    """Collects output in pieces cut anywhere; keeps its first `head` and last `tail` lines.

    A line is raw text whose only control sequences are colours (SGR). What follows a carriage
    return overwrites the line. A line longer than `LINE_LIMIT` ends with the number of characters
    cut.
    """

    def __init__(self, head: int = 200, tail: int = 2000) -> None:
        self._most_head = head
        self._head: list[str] = []
        self._tail: deque[str] = deque(maxlen=tail)
        self._ended = 0
        self._unseen = 0
        self._held = ""
        self._open = ""
        self._cut = 0

    @property
    def total(self) -> int:
        """How many lines were printed so far, including an unfinished one and those that were never
        fed."""
        return self._unseen + self._ended + self._has_open()

    @property
    def dropped(self) -> int:
        """How many lines were dropped."""
        return self._ended - len(self._head) - len(self._tail)

    @property
    def gap_at(self) -> int | None:
        """The index in `lines()` at which lines were dropped; None if nothing is missing."""
        return len(self._head) if self.dropped else None

    def __len__(self) -> int:
        """How many lines are kept."""
        return len(self._head) + len(self._tail) + self._has_open()

    def lines(self) -> Sequence[str]:
        """Return all kept lines, in order."""
        return [*self._head, *self._tail, *self._open_lines()]

    def last(self, count: int) -> list[str]:
        """Return the newest `count` lines, oldest first; the cost does not depend on the lines
        before them."""
        if count <= 0:
            return []
        newest = [*self._open_lines(), *islice(reversed(self._tail), count)]
        if len(newest) < count and not self.dropped:
            newest += islice(reversed(self._head), count - len(newest))
        return newest[:count][::-1]

    def feed(self, text: str) -> None:
        """Append a piece."""
        text = self._cleaned(text).replace("\r\n", "\n")
        first, *rest = text.split("\n")
        self._grow(first)
        if not rest:
            return
        self._end()
        last = rest.pop()
        if "\r" in text or (rest and max(map(len, rest)) > LINE_LIMIT):
            for line in rest:
                self._grow(line)
                self._end()
        else:
            self._keep(rest)
        self._grow(last)

    def skip(self, lines: int) -> None:
        """Count lines that were printed but left out of what is fed."""
        self._unseen += lines

    def _cleaned(self, text: str) -> str:
        """Remove control sequences but colours, line ends and returns; hold back what the next
        piece may continue."""
        if self._held:
            text = self._held + text
            self._held = ""
        if _ACTS.search(text) is None:
            return text
        opener = max(map(text.rfind, _OPENERS))
        unfinished = _UNFINISHED.match(text, opener) if opener >= 0 else None
        if unfinished is not None:
            self._held = _shortened(unfinished[0])
            text = text[:opener]
        return text if _NO_COLOUR.search(text) is None else _CONTROL.sub(r"\1", text)

    def _grow(self, piece: str) -> None:
        """Add to the open line."""
        line = self._open + piece
        if "\r" in line:
            line, fresh = _overwritten(line)
            self._cut = 0 if fresh else self._cut
        if len(line) > LINE_LIMIT:
            line = self._bounded(line)
        self._open = line

    def _bounded(self, line: str) -> str:
        shown, back, after = line.partition("\r")
        if len(shown) <= LINE_LIMIT:
            return line
        end = LINE_LIMIT
        split = _COLOUR.match(shown, max(shown.rfind("\x1b", 0, end), 0))
        if split is not None and split.end() > end:
            end = split.end()
        rest = shown[end:]
        self._cut += len(_COLOUR.sub("", rest))
        return shown[:end] + _colours(rest) + back + after

    def _end(self) -> None:
        self._keep([self._finished()])
        self._open = ""
        self._cut = 0

    def _keep(self, lines: list[str]) -> None:
        self._ended += len(lines)
        room = self._most_head - len(self._head)
        if room > 0:
            self._head += lines[:room]
            lines = lines[room:]
        self._tail.extend(lines)

    def _finished(self) -> str:
        line = self._open.replace("\r", "")
        return f"{line} … {self._cut:,} more characters" if self._cut else line

    def _has_open(self) -> bool:
        return bool(self._open) and _is_shown(self._open)

    def _open_lines(self) -> list[str]:
        return [self._finished()] if self._has_open() else []


def _shortened(unfinished: str) -> str:
    """Return the start of a sequence, shortened as far as its meaning allows."""
    if len(unfinished) <= _SEQUENCE_LIMIT + 2:
        return unfinished
    if unfinished[0] != "\x1b":
        return unfinished[0]
    return "\x1b[?" if unfinished[1] == "[" else unfinished[:2]


def _overwritten(line: str) -> tuple[str, bool]:
    """Return the line after its carriage returns, and whether something was overwritten.

    A return at the end stays, as what comes next will overwrite the line.
    """
    parts = line.split("\r")
    shown = next(
        (index for index in range(len(parts) - 1, -1, -1) if _is_shown(parts[index])), None
    )
    if shown is None:
        return _colours(line), True
    before = _colours("".join(parts[:shown])) if shown else ""
    after = "\r" + _colours("".join(parts[shown + 1 :])) if shown + 1 < len(parts) else ""
    return before + parts[shown] + after, shown > 0


def _is_shown(text: str) -> bool:
    return bool(text) and (text[0] != "\x1b" or _COLOUR.sub("", text) != "")


def _colours(text: str) -> str:
    """Return the colour sequences still in effect at the end of a text."""
    found: list[str] = _COLOUR.findall(text)
    resets = [index for index, colour in enumerate(found) if colour in ("\x1b[m", "\x1b[0m")]
    return "".join(found[resets[-1] if resets else 0 :][-_COLOURS_KEPT:])
