"""What two texts have in common: of their lines those that are unique in both first, then what is between them."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

_COMPARED = 1_000_000
"""Pairs of lines compared at most where no line is unique; beyond that they count as different."""

_WORD = re.compile(r"\w+|[ \t]+|.", re.DOTALL)
_WORDS = 400
_ALIKE = 0.4
_PAIRED = 400
"""Pairs of lines tried at most where it is not plain which line became which."""

Span = tuple[int, int]
"""The first character, and the one behind the last."""
Match = tuple[int, int, int]
"""The first line of a run in the old and in the new text, and how many lines it has."""


def matching(old: Sequence[str], new: Sequence[str]) -> list[Match]:
    """Runs of equal lines in order. Close to linear in the number of lines, also for two large texts."""
    found: list[Match] = []
    open_ranges = [(0, len(old), 0, len(new))]
    while open_ranges:
        first, last, begin, end = open_ranges.pop()
        head = 0
        while first + head < last and begin + head < end and old[first + head] == new[begin + head]:
            head += 1
        found.append((first, begin, head))
        first, begin = first + head, begin + head
        tail = 0
        while first < last - tail and begin < end - tail and old[last - tail - 1] == new[end - tail - 1]:
            tail += 1
        last, end = last - tail, end - tail
        found.append((last, end, tail))
        if first == last or begin == end:
            continue
        anchors = _anchors(old, first, last, new, begin, end)
        for left, right in anchors:
            found.append((left, right, 1))
            open_ranges.append((first, left, begin, right))
            first, begin = left + 1, right + 1
        if anchors:
            open_ranges.append((first, last, begin, end))
        elif (last - first) * (end - begin) <= _COMPARED:
            blocks = SequenceMatcher(None, old[first:last], new[begin:end]).get_matching_blocks()
            found += [(first + block.a, begin + block.b, block.size) for block in blocks]
    return sorted(match for match in found if match[2])


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


def _anchors(
    old: Sequence[str], first: int, last: int, new: Sequence[str], begin: int, end: int
) -> list[tuple[int, int]]:
    """The longest series of lines, unique in both ranges, that come in the same order."""
    once = {line for line, count in Counter(old[first:last]).items() if count == 1}
    once &= {line for line, count in Counter(new[begin:end]).items() if count == 1}
    if not once:
        return []
    places = {new[at]: at for at in range(begin, end) if new[at] in once}
    pairs = [(at, places[old[at]]) for at in range(first, last) if old[at] in once]
    ends: list[int] = []
    tops: list[int] = []
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        pile = bisect_left(ends, place)
        before.append(tops[pile - 1] if pile else -1)
        if pile == len(ends):
            ends.append(place)
            tops.append(index)
        else:
            ends[pile], tops[pile] = place, index
    series: list[tuple[int, int]] = []
    index = tops[-1]
    while index >= 0:
        series.append(pairs[index])
        index = before[index]
    return series[::-1]


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
