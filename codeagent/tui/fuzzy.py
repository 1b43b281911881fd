"""Fuzzy search: finds texts by a few letters, and the known words nearest to a mistyped one."""

import difflib
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice, pairwise

_SCATTERED = 400
"""How many scattered matches are compared to choose the best."""
_PORTION = 5_000
"""Lines searched in one portion, in about two milliseconds."""


def scattered(query: str) -> re.Pattern[str]:
    """Return a pattern for the letters of `query` in order, with anything between, in one line; it
    never backtracks.

    The query and the searched text must be in lower case. The match includes the rest of the line;
    group 1 runs from the first letter to the last.
    """
    first, *others = map(re.escape, query)
    return re.compile(
        f"({first}" + "".join(rf"[^{letter}\n]*+{letter}" for letter in others) + r")[^\n]*+"
    )


def rank(query: str, texts: Iterable[str], limit: int) -> list[str]:
    """Return at most `limit` matching texts: those that contain the query first, otherwise in their
    order."""
    wanted = query.lower()
    pattern = scattered(wanted)
    found: list[str] = []
    apart: list[str] = []
    for text in texts:
        lowered = text.lower()
        if wanted in lowered:
            found.append(text)
            if len(found) == limit:
                return found
        elif len(apart) < limit and pattern.search(lowered.replace("\n", " ")):
            apart.append(text)
    return (found + apart)[:limit]


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the most similar known word, or an empty text."""
    found = alike(word, known, 1)
    return f" (did you mean '{found[0]}'?)" if found else ""


def alike(word: str, known: Iterable[str], most: int) -> tuple[str, ...]:
    """Return at most `most` known words, the most similar first."""
    return tuple(difflib.get_close_matches(word, tuple(known), n=most))


class PathIndex:
    """Paths prepared for many searches; directories end with a slash.

    Building it for 50,000 paths takes tens of milliseconds, a search up to twenty: run both in a
    thread.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = sorted(paths, key=lambda path: (len(path), path))
        self._known = frozenset(paths)
        lowered = [path.lower().replace("\n", " ") for path in self._paths]
        self._lines = _Lines(lowered)
        self._names = _Lines([path.rstrip("/").rpartition("/")[2] for path in lowered])

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, path: str) -> bool:
        return path in self._known

    def search(self, query: str, limit: int = 50) -> tuple[str, ...]:
        """Return the best matches first: name before path, whole before scattered, and shorter
        before longer."""
        wanted = query.lower().replace("\n", " ")
        if not wanted:
            return tuple(self._paths[:limit])
        found: dict[int, None] = {}
        for position in self._matches(wanted):
            found[position] = None
            if len(found) == limit:
                break
        return tuple(self._paths[position] for position in found)

    def _matches(self, wanted: str) -> Iterator[int]:
        """Yield positions of paths, the best first; a position may be repeated."""
        literal = re.escape(wanted)
        if "/" not in wanted:
            yield from self._names.find(re.compile(rf"^{literal}", re.M))
            yield from self._names.find(re.compile(rf"[^a-z0-9\n]{literal}"))
            yield from self._names.find(re.compile(literal))
        yield from self._lines.find(re.compile(literal))
        if len(wanted) == 1:
            return
        if "/" not in wanted:
            yield from self._names.tightest(wanted)
        yield from self._lines.tightest(wanted)


class _Lines:
    """Lines joined into one text, so that the regular expression engine searches all of them in one
    call."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._text = "\n".join(lines)
        self._starts = [0, *accumulate(len(line) + 1 for line in lines)]

    def find(self, pattern: re.Pattern[str]) -> Iterator[int]:
        """Yield the numbers of the lines that match, in order; a line may be repeated."""
        return (bisect_right(self._starts, hit.start()) - 1 for hit in self._hits(pattern))

    def tightest(self, wanted: str) -> list[int]:
        """Return the numbers of lines that have the letters in order, the fewest characters in
        between first."""
        near = islice(self._hits(scattered(wanted)), _SCATTERED)
        return [
            line
            for _, line in sorted(
                (len(hit[1]), bisect_right(self._starts, hit.start()) - 1) for hit in near
            )
        ]

    def _hits(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Search in portions, as one long search in a thread would delay the keys."""
        for start, end in pairwise((*self._starts[:-1:_PORTION], len(self._text))):
            yield from pattern.finditer(self._text, start, end)
