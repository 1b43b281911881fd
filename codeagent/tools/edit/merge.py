"""Merges an edit into a place that differs from what the model remembered: text, indentation and
blank lines.

The old text is the base, the new text is what the model made of it, and the file is what is really
there. If part of the new text equals the old one, the file's own characters stay; only what the
model changed is used.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from codeagent.core.dataclass import dataclass
from codeagent.tools.edit.normalize import (
    Opcode,
    Passage,
    folded,
    is_blank,
    line_opcodes,
    opcodes,
    plain,
    tokens,
)

_WIDEST_TAB = 16
_USUAL_WIDTHS = (4, 8)
_OPENS = re.compile(r"[:{(\[]\s*$")
_TABBED = re.compile(r"(\t*)( *)")
_LONGEST_LINE = 20_000
_ALIKE = 0.5


class AmbiguousEdit(Exception):
    """An edit does not say what is meant; the message says why, as the end of a sentence about its
    new text."""


@dataclass(frozen=True)
class IndentReading:
    """A reading of the new text's indentation."""

    base: Sequence[str]
    """For each old line, the indentation of its unchanged counterpart in the new text."""
    moved: Callable[[str], str]
    """Returns the file's indentation for that of a new line. Raises AmbiguousEdit."""
    is_ambiguous: bool = False
    """One indentation of the old text corresponds to several of the file's."""
    is_irregular: bool = False
    """Only some lines have slipped, so what applies to them does not apply to others."""


def ways(
    old: Passage, new: Passage, there: Passage, pairs: Sequence[tuple[int, int]]
) -> list[IndentReading]:
    """Return every reading that fits: with the same slip as the old text, or as in the file.

    `pairs` are indexes of old and new lines that are the same line: those that slipped tell which
    of the two it is, and so does the outermost indentation.
    """
    had, has, wanted = old.indents, there.indents, new.indents
    if had == has or not wanted:
        return [IndentReading(has, str)]
    mapping = Indentation(had, has)
    if mapping.is_unlike:
        return []
    slipped = [(had[at], has[at], wanted[new_at]) for at, new_at in pairs if had[at] != has[at]]
    says_had = any(indent == mine for mine, _, indent in slipped)
    says_has = any(indent == actual for _, actual, indent in slipped)
    if slipped and not (says_had or says_has or mapping.width):
        return []
    fits = _begins_alike if mapping.width is None else mapping.is_in_style
    as_had, as_has = fits(wanted, had), fits(wanted, has)
    has_lost = not any(had) and any(
        _OPENS.search(line.text) and len(after.indent) <= len(line.indent)
        for line, after in pairwise(new.lines)
    )
    found = []
    if says_had or (as_had and not (as_has and says_has)):
        moved = _lost if has_lost else mapping.moved
        found.append(IndentReading(had, moved, mapping.is_ambiguous, mapping.is_irregular))
    if says_has or (as_has and not (as_had and says_had)):
        found.append(IndentReading(has, str))
    if len(had) == 1 < len(wanted) and has[0].endswith(had[0]) and wanted[0] == had[0]:
        rest_is_whole = all(indent.startswith(has[0]) for indent in wanted[1:])
        if rest_is_whole:  # The old text begins within the line, and so does the new one.
            found.append(IndentReading(had, str))
    return found


class Indentation:
    """Maps the indentation of the old text to that of the file, line by line."""

    def __init__(self, had: Sequence[str], has: Sequence[str]) -> None:
        self._table: dict[str, set[str]] = {}
        for mine, actual in zip(had, has, strict=True):
            self._table.setdefault(mine, set()).add(actual)
        self._had = had
        self._has = has
        self.width = _width(had, has)
        """The number of spaces per tab, if nothing else differs; else None."""
        self._shift = _shift(had, has)

    @property
    def is_ambiguous(self) -> bool:
        return any(len(known) > 1 for known in self._table.values())

    @property
    def is_irregular(self) -> bool:
        return self.width is None and self._shift is None

    @property
    def is_unlike(self) -> bool:
        """Whether tabs and spaces differ in a way that no tab width explains."""
        pairs = zip(self._had, self._has, strict=True)
        return self.width is None and not all(a.endswith(b) or b.endswith(a) for a, b in pairs)

    def is_in_style(self, indents: Sequence[str], style: Sequence[str]) -> bool:
        """Whether all begin with as many tabs as possible, or all without any, as `style` does."""
        if not any("\t" in indent for indent in style):
            return not any("\t" in indent for indent in indents)
        matches = [_TABBED.fullmatch(indent) for indent in indents]
        return all(match is not None and len(match[2]) < (self.width or 0) for match in matches)

    def moved(self, indent: str) -> str:
        """Raises AmbiguousEdit."""
        if self.width is not None:
            return self._converted(indent, self.width)
        if self._shift is not None:
            less, more = self._shift
            if indent.startswith(less):
                return more + indent[len(less) :]
            raise AmbiguousEdit("a line of it has less indentation than the file allows for")
        slipped = [a for a, b in zip(self._had, self._has, strict=True) if a != b]
        if len(slipped) == 1 < len(self._had) and indent not in slipped:
            return indent
        raise AmbiguousEdit("it is unclear how the file would indent its new lines")

    def _converted(self, indent: str, width: int) -> str:
        match = _TABBED.fullmatch(indent)
        if match is None:
            raise AmbiguousEdit("its indentation mixes tabs and spaces")
        if any("\t" in actual for actual in self._has):
            if match[1]:
                raise AmbiguousEdit("its indentation mixes tabs and spaces")
            return "\t" * (len(indent) // width) + " " * (len(indent) % width)
        return " " * (width * len(match[1])) + match[2]


def _lost(indent: str) -> str:
    """Refuse a new line if the new text has lost all its indentation. Raises AmbiguousEdit."""
    raise AmbiguousEdit("its lines have lost their indentation")


def _shift(had: Sequence[str], has: Sequence[str]) -> tuple[str, str] | None:
    """Return (removed, added), which turn every old indentation into the file's; None if they
    differ."""
    shifts = set()
    for mine, actual in zip(had, has, strict=True):
        if actual.endswith(mine):
            shifts.add(("", actual[: len(actual) - len(mine)]))
        elif mine.endswith(actual):
            shifts.add((mine[: len(mine) - len(actual)], ""))
        else:
            return None
    return shifts.pop() if len(shifts) == 1 else None


def _width(had: Sequence[str], has: Sequence[str]) -> int | None:
    """Return the number of spaces per tab, if that is how the two differ.

    An unusual width needs two depths that agree on it.
    """
    widths = set()
    depths = set()
    for mine, actual in zip(had, has, strict=True):
        if mine == actual:
            continue
        spaced, tabbed = (mine, actual) if "\t" in actual else (actual, mine)
        match = _TABBED.fullmatch(tabbed)
        if match is None or not match[1] or spaced.strip(" "):
            return None
        width, rest = divmod(len(spaced) - len(match[2]), len(match[1]))
        if rest or not 0 < width <= _WIDEST_TAB:
            return None
        widths.add((width, tabbed is actual))
        depths.add(len(match[1]))
    if len(widths) != 1:
        return None
    width, _ = widths.pop()
    if width not in _USUAL_WIDTHS and len(depths) < 2:
        return None
    unequal = any(
        mine == actual and (len(mine) >= width or "\t" in mine)
        for mine, actual in zip(had, has, strict=True)
    )
    return None if unequal else width


def _begins_alike(some: Sequence[str], others: Sequence[str]) -> bool:
    return min(some, key=len) == min(others, key=len)


@dataclass(frozen=True)
class _ResultLine:
    """A line of the result."""

    text: str
    base: int | None
    """The old line that it is, or was made from."""


def carried(old: Passage, new: Passage, there: Passage) -> str:
    """Return the replacement of `there`, whose canonical lines are those of `old`. Raises
    AmbiguousEdit."""
    codes = list(line_opcodes(old, new))
    even = [code for code in codes if code[2] - code[1] == code[4] - code[3]]
    pairs = [(start + n, at + n) for _, start, end, at, _ in even for n in range(end - start)]
    repeated = _repeated(old) | _repeated(new)
    sure = [
        pair for pair in pairs if not {old.lines[pair[0]].key, new.lines[pair[1]].key} & repeated
    ]
    found = ways(old, new, there, sure)
    if len(sure) < len(pairs):
        found += ways(old, new, there, pairs)
    if old != there and len(sure) < len(pairs) and len(even) < len(codes):
        raise AmbiguousEdit(
            "some of its lines occur several times, and it is unclear which is which"
        )
    if not found:
        raise AmbiguousEdit("its indentation fits neither old_string nor the file")
    results = {_Merge(old, new, there, codes, way).text() for way in found}
    if len(results) > 1:
        raise AmbiguousEdit("its indentation can be read in two ways")
    return results.pop()


class _Merge:
    """The three texts, with one reading of the indentation."""

    def __init__(
        self, old: Passage, new: Passage, there: Passage, codes: list[Opcode], way: IndentReading
    ) -> None:
        self._old = old
        self._new = new
        self._there = there
        self._codes = codes
        self._way = way
        self._typed, self._real = _typography(old, there)

    def text(self) -> str:
        """Raises AmbiguousEdit."""
        placed: list[_ResultLine] = []
        for _, start, end, new_start, new_end in self._codes:
            if end - start == new_end - new_start:
                placed += [self._paired(start + n, new_start + n) for n in range(end - start)]
            elif self._way.is_ambiguous:
                raise AmbiguousEdit("one indentation in old_string stands for several in the file")
            else:
                for new in self._new.lines[new_start:new_end]:
                    text = "".join(map(self._as_typed, tokens(new.text)))
                    placed.append(_ResultLine(self._way.moved(new.indent) + text + new.tail, None))
        out = []
        for at, line in enumerate(placed):
            out += [self._gap(placed, at), line.text]
        return "".join([*out, self._gap(placed, len(placed))])

    def _paired(self, at: int, new_at: int) -> _ResultLine:
        old, new, there = self._old.lines[at], self._new.lines[new_at], self._there.lines[at]
        indent = there.indent
        if new.indent != self._way.base[at] and not (
            self._way.is_irregular and new.indent == there.indent
        ):
            if self._way.is_irregular:
                raise AmbiguousEdit(
                    "it changes the indentation of a line that is indented differently in the file"
                )
            indent = self._way.moved(new.indent)
        if self._way.is_ambiguous and (
            SequenceMatcher(None, tokens(old.text), tokens(new.text), autojunk=False).ratio()
            < _ALIKE
        ):
            raise AmbiguousEdit("one indentation in old_string stands for several in the file")
        tail = _merged(old.tail, new.tail, there.tail, new.tail)
        return _ResultLine(indent + self._merged_text(old.text, new.text, there.text) + tail, at)

    def _merged_text(self, old: str, new: str, there: str) -> str:
        if old == new:
            return there
        if len(old) + len(new) > _LONGEST_LINE:
            if old == there:
                return new
            raise AmbiguousEdit("a changed line is too long to compare")
        mine, wanted, actual = tokens(old), tokens(new), tokens(there)
        out: list[str] = []
        for tag, start, end, new_start, new_end in opcodes(
            list(map(folded, mine)), list(map(folded, wanted))
        ):
            if tag != "equal":
                out += map(self._as_typed, wanted[new_start:new_end])
                continue
            for at in range(end - start):
                token = wanted[new_start + at]
                if is_blank(token) and token == mine[start + at] != actual[start + at]:
                    raise AmbiguousEdit(
                        "a line that it changes has different white space between words in the file"
                    )
                out.append(
                    _merged(
                        mine[start + at],
                        token,
                        actual[start + at],
                        token if is_blank(token) else None,
                    )
                )
        return "".join(out)

    def _as_typed(self, token: str) -> str:
        """Return new text, with plain characters if the model types typographic ones for plain ones
        of the file."""
        if self._typed and token != plain(token):
            if any(
                char != plain(char) and plain(char) not in self._typed - self._real
                for char in token
            ):
                raise AmbiguousEdit(
                    "its new text has typographic characters where the file has plain ones"
                )
            return plain(token)
        return token

    def _gap(self, placed: list[_ResultLine], at: int) -> str:
        """Return what comes before line `at` of the result, or after the last."""
        new = self._new.gaps[at]
        before = -1 if at == 0 else placed[at - 1].base
        after = len(self._old.lines) if at == len(placed) else placed[at].base
        if before is not None and after == before + 1:
            old, there = self._old.gaps[after], self._there.gaps[after]
            match (new.count("\n"), old.count("\n"), there.count("\n")):
                case wanted, had, has if wanted in (had, has):
                    return there
                case _, had, has if had == has:
                    return new
                case _:
                    raise AmbiguousEdit(
                        "it changes blank lines where the file has a different number of them"
                    )
        first = max((line.base + 1 for line in placed[:at] if line.base is not None), default=0)
        last = min(
            (line.base for line in placed[at:] if line.base is not None),
            default=len(self._old.lines),
        )
        for number in range(first, last + 1):
            if self._old.gaps[number].count("\n") != self._there.gaps[number].count("\n"):
                raise AmbiguousEdit(
                    "it adds or removes lines where the file has a different number of blank lines"
                )
        return new


def _merged(old: str, new: str, there: str, otherwise: str | None) -> str:
    """Return the side that changed, or `otherwise` if both did. Raises AmbiguousEdit if that is
    None."""
    if new in (old, there):
        return there
    if old == there:
        return new
    if otherwise is None:
        raise AmbiguousEdit("it changes characters that are different in the file")
    return otherwise


def _typography(old: Passage, there: Passage) -> tuple[set[str], set[str]]:
    """Return plain characters that the model types as typographic ones, and those that are so in
    the file."""
    typed, real = set(), set()
    for mine, actual in zip(old.lines, there.lines, strict=True):
        for a, b in zip(tokens(mine.text), tokens(actual.text), strict=True):
            if is_blank(a):
                continue
            typed |= {own for char, own in zip(a, b, strict=True) if char != own == plain(char)}
            real |= {plain(own) for own in b if own != plain(own)}
    return typed, real


def _repeated(block: Passage) -> set[str]:
    return {key for key, count in Counter(line.key for line in block.lines).items() if count > 1}
