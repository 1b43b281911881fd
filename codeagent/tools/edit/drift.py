"""Finds the places that an edit means although its text differs from them by slips, and the text
that results.

A place counts only if its text and the old text have the same canonical form, so that every
difference is one of those listed here. Nothing is guessed: if two places, or two readings of the
new text, are possible, the edit is refused.
"""

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate

from codeagent.core.dataclass import dataclass
from codeagent.tools.edit.merge import AmbiguousEdit, Indentation, carried
from codeagent.tools.edit.normalize import (
    Passage,
    Reading,
    TextLine,
    block_of,
    folded,
    is_blank,
    line_of,
    offsets_of_folded,
    plain,
    readings,
)

_INDENTATION = "indentation"
_TABS = "tabs or spaces"
MOST_PLACES = 50
"""The most places that are counted, unless all are to be replaced."""
_BLANK_LINES = 1
"""The most missing or surplus blank lines, in all."""


@dataclass(frozen=True)
class DriftedMatch:
    """A place in the text, by character offsets, and its replacement."""

    start: int
    end: int
    replacement: str
    slips: frozenset[str]


@dataclass(frozen=True)
class _Span:
    start: int
    end: int
    there: Passage
    old: Passage
    new: Passage | None
    """The new text; None if the reading does not determine it."""
    slips: frozenset[str]


def drifted(text: str, old: str, new: str, *, replace_all: bool) -> list[DriftedMatch]:
    """Return the places that `old` means with the fewest slips, in order; of many, only the first.

    Replacements are given for a single place, or with `replace_all`; for ambiguous places they are
    empty. Raises AmbiguousEdit.
    """
    lines = _FileLines(text)
    places = [
        place
        for reading in readings(old, new)
        for place in _places(lines, reading, replace_all=replace_all)
    ]
    kinds = {place.slips for place in places}
    least = [place for place in places if not any(slips < place.slips for slips in kinds)]
    if not replace_all and len({(place.start, place.end) for place in least}) > 1:
        return [DriftedMatch(place.start, place.end, "", place.slips) for place in least]
    found_at: dict[tuple[int, int], DriftedMatch] = {}
    for place in sorted(least, key=lambda place: (place.start, place.end)):
        if place.new is None:
            raise AmbiguousEdit("it has the escapes or line numbers of old_string only in part")
        is_all = not text[: place.start].strip() and not text[place.end :].strip()
        if is_all and _INDENTATION in place.slips:
            raise AmbiguousEdit(
                "the whole file is indented differently, so nothing says which indentation is meant"
            )
        replacement = carried(place.old, place.new, place.there)
        if replacement == text[place.start : place.end]:
            raise AmbiguousEdit("the file already has what it says")
        result = DriftedMatch(place.start, place.end, replacement, place.slips)
        other = found_at.setdefault((place.start, place.end), result)
        if other.replacement != result.replacement:
            raise AmbiguousEdit("it can be read in two ways")
    return list(found_at.values())


def within_blanks(text: str, start: int, end: int, old: str, new: str) -> DriftedMatch | None:
    """Return the replacement for a match that begins within a line's leading blanks; None for the
    literal new text.

    There, the new text's own indentation would come after the rest of the line's. Raises
    AmbiguousEdit.
    """
    begin = text.rfind("\n", 0, start) + 1
    first, wanted = line_of(old.partition("\n")[0]), line_of(new.partition("\n")[0])
    if begin == start or not is_blank(text[begin:start]) or not old.strip():
        return None
    had, has = first.indent, text[begin:start] + first.indent
    is_whole = is_blank(text[end : _line_end(text, end)]) or old.endswith("\n")
    match first.text, wanted.text:
        case "", "":
            return None
        case "", _ if is_whole:
            pass
        case _, "" if had and is_whole:
            pass
        case _, _ if wanted.text and (
            wanted.indent == has or (is_whole and (had or wanted.indent))
        ):
            pass
        case _:
            return None
    if had and len(_places(_FileLines(text), Reading(old, new, None), replace_all=False)) > 1:
        raise AmbiguousEdit("apart from indentation, the text occurs several times")
    result = carried(block_of(old), block_of(new), block_of(text[begin:end]))
    if result == text[begin:end]:
        if not had:
            return None
        raise AmbiguousEdit("the file already has this indentation")
    return (
        None
        if result == text[begin:start] + new
        else DriftedMatch(begin, end, result, frozenset({_INDENTATION}))
    )


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return end if end >= 0 else len(text)


class _FileLines:
    """The non-blank lines of a file, and their canonical form as one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.raw: list[str] = []
        self.starts: list[int] = []
        """The offset of each line in the text."""
        self.numbers: list[int] = []
        """The number of each line, from 1."""
        at = 0
        for number, line in enumerate(text.split("\n"), start=1):
            if not is_blank(line):
                self.raw.append(line)
                self.starts.append(at)
                self.numbers.append(number)
            at += len(line) + 1
        self._measured: tuple[int, list[int]] = -1, []

    @cached_property
    def keys(self) -> list[str]:
        return [folded(line).strip(" ") for line in self.raw]

    @cached_property
    def canonical(self) -> str:
        return "\n".join(self.keys)

    @cached_property
    def key_starts(self) -> list[int]:
        """The offset of each line in the canonical text."""
        return list(accumulate((len(key) + 1 for key in self.keys), initial=0))

    def column(self, at: int, offset: int) -> int:
        """Return the position in the line of a character of its canonical form."""
        if self._measured[0] != at:
            line = line_of(self.raw[at])
            self._measured = (
                at,
                [len(line.indent) + offset for offset in offsets_of_folded(line.text)],
            )
        return self._measured[1][offset]

    def begin(self, at: int, newlines: int) -> int:
        """Return where the line begins, or up to that many newlines earlier with only blanks in
        between."""
        start = self.starts[at]
        first = 0 if at == 0 else self.starts[at - 1] + len(self.raw[at - 1])
        for _ in range(newlines):
            newline = self.text.rfind("\n", first, start)
            if newline < 0:
                break
            start = newline
        line = self.text.rfind("\n", 0, start) + 1
        return line if newlines and is_blank(self.text[line:start]) else start

    def end(self, at: int, newlines: int) -> int:
        """Return where the line's text ends, or up to that many newlines later with only blanks in
        between."""
        raw = self.raw[at]
        end = self.starts[at] + len(raw)
        last = self.starts[at + 1] if at + 1 < len(self.starts) else len(self.text)
        if not newlines:
            return end - len(line_of(raw).tail)
        for _ in range(newlines):
            newline = self.text.find("\n", end, last)
            if newline < 0:
                break
            end = newline + 1
        return end


@dataclass(frozen=True)
class _Match:
    """A place where the canonical form of the old text occurs."""

    first: int
    last: int
    """The indexes of its lines."""
    begin: int | None
    end: int | None
    """Offsets in the canonical forms of the first and last line; None for the line's beginning and
    end."""


def _places(lines: _FileLines, reading: Reading, *, replace_all: bool) -> list[_Span]:
    """Return matches of whole lines if there are any, else of parts between words; no more than are
    worth listing."""
    old = block_of(reading.old)
    if not old.lines:
        return []
    new = None if reading.new is None else block_of(reading.new)
    whole: list[_Span] = []
    parts: list[_Span] = []
    most = len(lines.text) if replace_all else MOST_PLACES
    for match in _matches(lines, old):
        if reading.line not in (None, lines.numbers[match.first] - old.gaps[0].count("\n")):
            continue
        kind = whole if match.begin is None and match.end is None else parts
        if len(kind) >= most or (kind is parts and whole):
            continue
        place = _placed(lines, match, reading, old, new)
        if place is not None and not (replace_all and kind and place.start < kind[-1].end):
            kind.append(place)
        if len(whole) >= most:
            break
    return whole or parts


def _matches(lines: _FileLines, old: Passage) -> Iterator[_Match]:
    wanted = "\n".join(line.key for line in old.lines)
    text, starts = lines.canonical, lines.key_starts
    at = text.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        if _is_between_words(text, at) and _is_between_words(text, end):
            first = bisect_right(starts, at) - 1
            last = first + len(old.lines) - 1
            begin, stop = at - starts[first], end - starts[last]
            yield _Match(first, last, begin or None, stop if stop < len(lines.keys[last]) else None)
        at = text.find(wanted, at + 1)


def _is_between_words(key: str, at: int) -> bool:
    return not (0 < at < len(key) and _is_word(key[at - 1]) and _is_word(key[at]))


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _placed(
    lines: _FileLines, match: _Match, reading: Reading, old: Passage, new: Passage | None
) -> _Span | None:
    """Return the place, if it differs from the old text only by slips."""
    start, stop = lines.starts[match.first], lines.starts[match.last]
    if match.begin is None:
        start = lines.begin(match.first, old.gaps[0].count("\n"))
    else:
        start += lines.column(match.first, match.begin)
        if new is not None:
            cut = _cut_at_begin(lines.text[start - 1], old, new)
            if cut is None:
                return None
            old, new = cut
    if match.end is None:
        stop = lines.end(match.last, old.gaps[-1].count("\n"))
    elif old.gaps[-1] or old.lines[-1].tail:
        return None
    else:
        stop += lines.column(match.last, match.end - 1) + 1
    last_gaps = [old.gaps[-1], new.gaps[-1] if new is not None else ""]
    ends_in_blanks = any(not gap.endswith("\n") for gap in last_gaps if gap)
    if ends_in_blanks and not is_blank(lines.text[stop : _line_end(lines.text, stop)]):
        return None
    there = block_of(lines.text[start:stop])
    missing = sum(
        abs(a.count("\n") - b.count("\n")) for a, b in zip(old.gaps, there.gaps, strict=True)
    )
    indentation = Indentation(old.indents, there.indents)
    if missing > _BLANK_LINES or indentation.is_unlike:
        return None
    slips = set(_slips(old, there, indentation)) | ({reading.slip} if reading.slip else set())
    return _Span(start, stop, there, old, new=new, slips=frozenset(slips))


def _cut_at_begin(before: str, old: Passage, new: Passage) -> tuple[Passage, Passage] | None:
    """Remove leading blanks of both texts that `before`, the line up to the place, ends with."""
    if old.gaps[0] or new.gaps[0] or not new.lines or new.lines[0].indent != old.lines[0].indent:
        return None
    if old.lines[0].indent and not is_blank(before):
        return None
    return _begun(old), _begun(new)


def _begun(block: Passage) -> Passage:
    first, *rest = block.lines
    return Passage((TextLine("", first.text, first.tail), *rest), block.gaps)


def _slips(old: Passage, there: Passage, indentation: Indentation) -> Iterator[str]:
    """Return what differs, in words that follow "up to"."""
    pairs = list(zip(old.lines, there.lines, strict=True))
    if old.indents != there.indents:
        yield _INDENTATION if indentation.width is None else _TABS
    if any(a.tail != b.tail for a, b in pairs):
        yield "white space at line ends"
    if any(a.count("\n") != b.count("\n") for a, b in zip(old.gaps, there.gaps, strict=True)):
        yield "a blank line"
    if any(plain(a.text) != plain(b.text) for a, b in pairs):
        yield "white space between words"
    if any(_typography(a.text) != _typography(b.text) for a, b in pairs):
        yield "typographic quotes, dashes or spaces"


def _typography(text: str) -> list[str]:
    return [char for char in text if char != plain(char)]
