"""Which lines two texts have in common: those that are unique in both first, then what is between them."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

_STEPS = 30_000_000
"""What comparing may take at most, in all, where no line is unique: about a third of a second at worst, and far less
with lines of real files. What is beyond that counts as different. Not seconds: everybody has to find the same."""

Match = tuple[int, int, int]
"""The first line of a run in the old and in the new text, and how many lines it has."""


def matching(old: Sequence[str], new: Sequence[str]) -> list[Match]:
    """Runs of equal lines in order. Close to linear in the number of lines, also for two large texts."""
    from difflib import SequenceMatcher  # not needed for the first frame, which imports this module

    found: list[Match] = []
    open_ranges = [(0, len(old), 0, len(new))]
    steps = _STEPS
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
        needed = (last - first) * (end - begin) * min(last - first, end - begin)
        if anchors:
            open_ranges.append((first, last, begin, end))
        elif needed <= steps:
            steps -= needed
            blocks = SequenceMatcher(None, old[first:last], new[begin:end], autojunk=False).get_matching_blocks()
            found += [(first + block.a, begin + block.b, block.size) for block in blocks]
    return sorted(match for match in found if match[2])


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
