"""Errors of a server, and what it wrote outside the protocol, for `mcp test` and `/mcp`."""

import re
from collections import deque
from collections.abc import Callable

from codeagent.core.sanitize import one_line

_MOST_LINES = 200
_LONGEST_LINE = 500
_LONGEST_REST = 8 * 1024
_LAST_LINES = 20
"""Those in which the reason for its end is looked for."""
_READ_ONLY = re.compile(r"\bEROFS\b|read-only file ?system", re.IGNORECASE)


class ServerError(Exception):
    """A server failed, as one phrase says; `lost`: the connection can no longer be used."""

    def __init__(self, text: str, *, lost: bool = False) -> None:
        super().__init__(text)
        self.lost = lost


class ServerRecord:
    """Keeps the last lines in bounded memory, and counts the lines that were not messages."""

    def __init__(self, clean: Callable[[str], str] = str) -> None:
        """`clean` masks secrets, as a server may print what it was given."""
        self._clean = clean
        self.noise = 0
        """Lines on standard output that are not messages of the protocol; they were skipped."""
        self.why = ""
        """Why codeagent ended the connection, as a phrase."""
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._rest = b""

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines, the oldest first, without control characters."""
        rest = (
            (one_line(self._clean(self._shown(self._rest)), _LONGEST_LINE),)
            if self._rest.strip()
            else ()
        )
        return (*self._lines, *rest)

    @property
    def met_read_only(self) -> bool:
        """Whether it complained at its end that it cannot write."""
        return any(map(_READ_ONLY.search, self.lines[-_LAST_LINES:]))

    def add_stderr(self, piece: bytes) -> None:
        *whole, rest = (self._rest + piece).split(b"\n")
        for line in whole[-_MOST_LINES:]:
            self.add(self._shown(line))
        self._rest = rest[-_LONGEST_REST:]

    def add_noise(self, line: bytes) -> None:
        self.noise += 1
        self.add(f"not a message: {self._shown(line)}")

    def add(self, text: str) -> None:
        if text.strip():
            self._lines.append(one_line(self._clean(text), _LONGEST_LINE))

    @staticmethod
    def _shown(line: bytes) -> str:
        return line[: 4 * _LONGEST_LINE].decode("utf-8", "replace")
