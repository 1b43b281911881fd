"""Finds an answer that repeats the same span without end, while it streams."""

import re
from typing import Literal

from codeagent.core.sanitize import one_line
from codeagent.llm.usage import tokens

_CHUNK = 256
"""Characters that are looked at together: they repeat what is before them, or they do not."""
_LONGEST_SPAN = 1024
"""Characters of a span whose repetition is found."""
_LEAST_REPEATS = 3
"""A long paragraph that is there two or three times is not a loop."""
_RUN = re.compile(r"([\x00-\x7f])\1{7,}")
_OF_A_RUN = 16
"""Characters of one token in a run of the same one, such as a separator or base64 of zeros, and in
blanks."""
_IN_ARGUMENTS = 8
"""How many times as long the arguments of a call may repeat: a file may well hold a table of
zeros."""
_SHOWN = 40

Part = Literal["text", "thinking", "arguments"]


class Repetition:
    """Reads one text as it grows, in a time that is proportional to its length."""

    def __init__(self) -> None:
        self._before = ""
        self._coming = ""
        self._period = self._repeated = 0
        self._tokens = 0.0

    @property
    def tokens(self) -> int:
        """About how many tokens repeat the same span at the end of the text; 0 if there is none, or
        it came twice."""
        return (
            round(self._tokens)
            if self._period and self._repeated >= _LEAST_REPEATS * self._period
            else 0
        )

    @property
    def span(self) -> str:
        """What was repeated last, beginning anywhere in it."""
        return self._before[-self._period :] if self._period else ""

    def add(self, text: str, most: int) -> bool:
        """Read on; return whether the same span is repeated for more than `most` tokens."""
        coming = self._coming + text
        whole = len(coming) - len(coming) % _CHUNK
        self._coming = coming[whole:]
        for at in range(0, whole, _CHUNK):
            self._look(coming[at : at + _CHUNK])
            if self.tokens > most:
                return True
        return False

    def _look(self, chunk: str) -> None:
        """Compare the chunk with what is one period before it; without a period, find the nearest
        that fits."""
        known = self._before + chunk
        if not self._period or known[-_CHUNK - self._period : -self._period] != chunk:
            at = known.rfind(chunk, 0, len(known) - 1)
            self._period = len(known) - _CHUNK - at if at >= 0 else 0
            self._repeated = 0
            self._tokens = 0.0
        if self._period:
            self._repeated += _CHUNK
            self._tokens += _tokens_of(chunk)
        self._before = known[-_LONGEST_SPAN - _CHUNK :]


def _tokens_of(chunk: str) -> float:
    """Estimate the tokens of a chunk; tokenizers make one of many blanks, or of many times the same
    character."""
    others = _RUN.sub("", chunk)
    return max(tokens(others) + (len(chunk) - len(others)) / _OF_A_RUN, len(chunk) / _OF_A_RUN)


class RepetitionWatch:
    """Looks for repetition in the text, the thinking and the arguments of one answer."""

    def __init__(self, most: int) -> None:
        """`most`: tokens that may repeat the same span."""
        self._most = most
        self._part: Part | None = None
        self._reads = Repetition()

    def add(self, part: Part, text: str) -> str | None:
        """Read on; return how the answer repeats itself, a clause, once that is too much."""
        if part != self._part:
            self._part = part
            self._reads = Repetition()
        if not self._reads.add(text, self._most * (_IN_ARGUMENTS if part == "arguments" else 1)):
            return None
        span = one_line(self._reads.span, _SHOWN) or "blanks"
        return f"the answer repeats “{span}”, so far for about {self._reads.tokens:,} tokens"
