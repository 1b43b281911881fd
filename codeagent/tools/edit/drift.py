"""Finds the places that a text means though it differs from them by a slip, and what an edit makes of them.

A place counts only where its text and the old text have the same canonical form, so that every difference is one of
those listed here. Nothing is weighed: where two places, or two readings of the new text, are possible, it is refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from codeagent.tools.edit.canonical import Block, Line, block_of, folded, is_blank, line_of, offsets_of_folded, plain
from codeagent.tools.edit.carry import carried
from codeagent.tools.edit.indentation import Doubt, is_tab_drift
from codeagent.tools.edit.reading import Reading, readings

_BLANK_LINES = 1
"""How many may be missing or too many, in all."""


@dataclass(frozen=True)
class Found:
    """A place in the text, by character offsets, and what takes its place."""

    start: int
    end: int
    replacement: str
    slips: frozenset[str]


@dataclass(frozen=True)
class _Place:
    start: int
    end: int
    there: Block
    old: Block
    new: Block
    slips: frozenset[str]


def drifted(text: str, old: str, new: str) -> list[Found]:
    """Every place that `old` means, in order, up to the fewest slips. Raises Doubt."""
    lines = _FileLines(text)
    places: list[_Place] = []
    doubt: Doubt | None = None
    for reading in readings(old, new):
        for whole in (True, False):
            found = list(_places(lines, reading, whole=whole))
            places += found
            if found and reading.new is None:
                doubt = Doubt(f"it has {reading.slip} only in part")
            if found:
                break
    if doubt is not None:
        raise doubt
    least = [place for place in places if not any(other.slips < place.slips for other in places)]
    found_at: dict[tuple[int, int], Found] = {}
    for place in sorted(least, key=lambda place: (place.start, place.end)):
        is_all = not text[: place.start].strip() and not text[place.end :].strip()
        if is_all and "indentation" in place.slips:
            raise Doubt("the whole file is, so nothing says which indentation is meant")
        replacement = carried(place.old, place.new, place.there)
        if replacement == text[place.start : place.end]:
            raise Doubt("there the file is as new_string has it already")
        result = Found(place.start, place.end, replacement, place.slips)
        other = found_at.setdefault((place.start, place.end), result)
        if other.replacement != result.replacement:
            raise Doubt("it can be read in two ways")
    return list(found_at.values())


def within_blanks(text: str, start: int, end: int, old: str, new: str) -> Found | None:
    """What an edit makes of a match that begins within a line's leading blanks; None: what it says, literally.

    There the new text's own indentation would come behind the rest of the line's. Raises Doubt.
    """
    begin = text.rfind("\n", 0, start) + 1
    first, wanted = line_of(old.partition("\n")[0]), line_of(new.partition("\n")[0])
    if begin == start or not is_blank(text[begin:start]) or not first.text:
        return None
    had, has = first.indent, text[begin:start] + first.indent
    is_whole = is_blank(text[end : _line_end(text, end)]) or old.endswith("\n")
    if wanted.text and wanted.indent != has and not (had and is_whole):
        return None
    if not wanted.text and not (had and old.endswith("\n")):
        return None
    result = carried(block_of(old), block_of(new), block_of(text[begin:end]))
    if result == text[begin:end]:
        if not had:
            return None
        raise Doubt("the file has this indentation already")
    return None if result == text[begin:start] + new else Found(begin, end, result, frozenset({"indentation"}))


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return end if end >= 0 else len(text)


class _FileLines:
    """The lines of the file that are not blank, in canonical form."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.raw: list[str] = []
        self.starts: list[int] = []
        self.numbers: list[int] = []
        """Of each line, from 1."""
        at = 0
        for number, line in enumerate(text.split("\n"), start=1):
            if not is_blank(line):
                self.raw.append(line)
                self.starts.append(at)
                self.numbers.append(number)
            at += len(line) + 1

    @cached_property
    def keys(self) -> list[str]:
        return [folded(line).strip(" ") for line in self.raw]

    def begin(self, at: int, newlines: int) -> int:
        """Where the line begins, or as many newlines before it as there are, with nothing but blanks between."""
        start = self.starts[at]
        first = 0 if at == 0 else self.starts[at - 1] + len(self.raw[at - 1])
        for _ in range(newlines):
            newline = self.text.rfind("\n", first, start)
            if newline < 0:
                break
            start = newline
        return start

    def end(self, at: int, newlines: int) -> int:
        """Where the line's text ends, or as many newlines behind it as there are, with nothing but blanks between."""
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


def _places(lines: _FileLines, reading: Reading, *, whole: bool) -> Iterator[_Place]:
    old = block_of(reading.old)
    wanted = [line.key for line in old.lines]
    if not wanted:
        return
    new = block_of(reading.new if reading.new is not None else reading.old)
    for at in range(len(lines.keys) - len(wanted) + 1):
        if reading.line is not None and _first_number(reading, old, lines, at) != reading.line:
            continue
        found = _whole_lines(lines, at, wanted) if whole else _parts(lines, at, wanted)
        for columns in found:
            place = _placed(lines, at, columns, reading, old, new)
            if place is not None:
                yield place


def _first_number(reading: Reading, old: Block, lines: _FileLines, at: int) -> int:
    return lines.numbers[at] - old.gaps[0].count("\n")


_Columns = tuple[int | None, int | None]
"""Where the text begins in its first line and ends in its last; None: at the line's own begin or end."""


def _whole_lines(lines: _FileLines, at: int, wanted: list[str]) -> Iterator[_Columns]:
    keys = lines.keys
    if keys[at] == wanted[0] and keys[at : at + len(wanted)] == wanted:
        yield None, None


def _parts(lines: _FileLines, at: int, wanted: list[str]) -> Iterator[_Columns]:
    """As `_whole_lines`, where the text may begin and end within a line, between words."""
    keys, count = lines.keys, len(wanted)
    if count == 1:
        yield from _parts_of_line(lines.raw[at], keys[at], wanted[0])
        return
    first, last = keys[at], keys[at + count - 1]
    if not first.endswith(wanted[0]) or not last.startswith(wanted[-1]):
        return
    if keys[at + 1 : at + count - 1] != wanted[1:-1]:
        return
    begin, end = len(first) - len(wanted[0]), len(wanted[-1])
    if _is_between_words(first, begin) and _is_between_words(last, end):
        yield _column(lines.raw[at], begin), _column(lines.raw[at + count - 1], end, is_end=True)


def _parts_of_line(raw: str, key: str, wanted: str) -> Iterator[_Columns]:
    begin = key.find(wanted)
    while begin >= 0:
        end = begin + len(wanted)
        if _is_between_words(key, begin) and _is_between_words(key, end):
            yield _column(raw, begin), _column(raw, end, is_end=True)
        begin = key.find(wanted, begin + 1)


def _is_between_words(key: str, at: int) -> bool:
    return not (0 < at < len(key) and _is_word(key[at - 1]) and _is_word(key[at]))


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _column(raw: str, at: int, *, is_end: bool = False) -> int | None:
    """The offset in the line of a character of its canonical form; None at its begin, or at its end."""
    line = line_of(raw)
    offsets = offsets_of_folded(line.text)
    if at == (len(offsets) - 1 if is_end else 0):
        return None
    return len(line.indent) + (offsets[at - 1] + 1 if is_end else offsets[at])


def _placed(lines: _FileLines, at: int, columns: _Columns, reading: Reading, old: Block, new: Block) -> _Place | None:
    """The place, if it differs from the old text by no more than slips do."""
    begin, end = columns
    last = at + len(old.lines) - 1
    if begin is not None:
        cut = _cut_at_begin(lines.raw[at][:begin], old, new)
        if cut is None:
            return None
        old, new = cut
    if end is not None and (old.gaps[-1] or old.lines[-1].tail):
        return None
    start = lines.starts[at] + begin if begin is not None else lines.begin(at, old.gaps[0].count("\n"))
    stop = lines.starts[last] + end if end is not None else lines.end(last, old.gaps[-1].count("\n"))
    ends_in_blanks = any(not gap.endswith("\n") for gap in (old.gaps[-1], new.gaps[-1]) if gap)
    if ends_in_blanks and not is_blank(lines.text[stop : _line_end(lines.text, stop)]):
        return None
    there = block_of(lines.text[start:stop])
    missing = sum(abs(a.count("\n") - b.count("\n")) for a, b in zip(old.gaps, there.gaps, strict=True))
    if missing > _BLANK_LINES:
        return None
    slips = set(_slips(old, there)) | ({reading.slip} if reading.slip else set())
    return _Place(start, stop, there, old, new, frozenset(slips))


def _cut_at_begin(before: str, old: Block, new: Block) -> tuple[Block, Block] | None:
    """The two without the blanks they begin with, which `before`, the line up to the place, ends with."""
    if old.gaps[0] or new.gaps[0] or not new.lines or new.lines[0].indent != old.lines[0].indent:
        return None
    if old.lines[0].indent and not is_blank(before[-1:]):
        return None
    return _begun(old), _begun(new)


def _begun(block: Block) -> Block:
    first, *rest = block.lines
    return Block((Line("", first.text, first.tail), *rest), block.gaps)


def _slips(old: Block, there: Block) -> Iterator[str]:
    """What differs, in words that go after "up to"."""
    pairs = list(zip(old.lines, there.lines, strict=True))
    if old.indents != there.indents:
        yield "tabs or spaces" if is_tab_drift(old, there) else "indentation"
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
