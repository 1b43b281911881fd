"""What two lines have in common by words, and which line became which."""

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

_WORD = re.compile(r"\w+|[ \t]+|.", re.DOTALL)
_WORDS = 400
_ALIKE = 0.4
_PAIRED = 400
"""Pairs of lines tried at most where it is not plain which line became which."""

Span = tuple[int, int]
"""The first character, and the one behind the last."""


def changed_words(old: str, new: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """The parts of two lines that differ; none where the lines have little in common."""
    left, right = _WORD.findall(old), _WORD.findall(new)
    if max(len(left), len(right)) > _WORDS:
        return (), ()
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return (), ()
    blocks = matcher.get_matching_blocks()
    gone = _between(left, [(block.a, block.a + block.size) for block in blocks])
    return gone, _between(right, [(block.b, block.b + block.size) for block in blocks])


def paired(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Which of the old lines became which of the new ones, in order; those with most words in common."""
    if len(old) == len(new) or len(old) * len(new) > _PAIRED:
        return list(zip(range(len(old)), range(len(new)), strict=False))
    left, right = [[Counter(_WORD.findall(line)) for line in side] for side in (old, new)]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for at in range(len(old) - 1, -1, -1):
        for to in range(len(new) - 1, -1, -1):
            together = best[at + 1][to + 1] + _in_common(left[at], right[to])
            best[at][to] = max(together, best[at + 1][to], best[at][to + 1])
    found = []
    at = to = 0
    while at < len(old) and to < len(new):
        if best[at][to] == best[at + 1][to]:
            at += 1
        elif best[at][to] == best[at][to + 1]:
            to += 1
        else:
            found.append((at, to))
            at, to = at + 1, to + 1
    return found


def _in_common(old: Counter[str], new: Counter[str]) -> float:
    whole = old.total() + new.total()
    return 2 * (old & new).total() / whole if whole else 0.0


def _between(words: Sequence[str], kept: Sequence[Span]) -> tuple[Span, ...]:
    offsets = [0]
    for word in words:
        offsets.append(offsets[-1] + len(word))
    found: list[Span] = []
    at = 0
    for first, end in kept:
        if first > at:
            found.append((offsets[at], offsets[first]))
        at = end
    return tuple(found)
