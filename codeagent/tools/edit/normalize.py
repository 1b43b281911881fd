"""Normalizes text for comparison: folds blanks and typography, undoes line numbers and escapes that
a model added."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import combinations

from codeagent.changes.diff import same_ends
from codeagent.core.dataclass import dataclass

_SPACES = (
    "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
)
_SINGLE = "\u2018\u2019\u201a\u201b\u2032"
_DOUBLE = "\u201c\u201d\u201e\u201f\u2033"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_BLANKS = " \t\v\f" + _SPACES
_PLAIN = str.maketrans(
    {
        **dict.fromkeys(_SINGLE, "'"),
        **dict.fromkeys(_DOUBLE, '"'),
        **dict.fromkeys(_DASHES, "-"),
        **dict.fromkeys(_SPACES, " "),
    }
)
_BLANK_RUN = re.compile(f"[{_BLANKS}]+")
_FOLDED = re.compile(f"[{_BLANKS}]+|.", re.DOTALL)
"""The typographic characters that become a plain one."""
_TOKEN = re.compile(
    f"[{_BLANKS}]+|[-<>=+*/|{_DASHES}]+|['{_SINGLE}]+|[\"{_DOUBLE}]+|\\w+|.", re.DOTALL
)
_LARGEST_DIFF = 4_000_000
"""The most pairs of items that are compared; beyond that, nothing counts as equal."""

Opcode = tuple[str, int, int, int, int]
_SEPARATORS = ("\t", " | ", "| ", "|", "\u2192 ", "\u2192", ": ", ":", " ")
_ENTITIES = {
    "&": ("&amp;",),
    "<": ("&lt;",),
    ">": ("&gt;",),
    '"': ("&quot;", "&#34;"),
    "'": ("&#39;", "&#x27;", "&apos;"),
}
_ENTITY = re.compile(
    "|".join(re.escape(entity) for entities in _ENTITIES.values() for entity in entities)
)
_CHARACTER = {entity: char for char, entities in _ENTITIES.items() for entity in entities}
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\'": "'", "\\n": "\n", "\\t": "\t"}
_QUOTES = {'\\"', "\\'"}
_ESCAPE = re.compile(r"\\[\\\"'nt]")


@dataclass(frozen=True)
class TextLine:
    """A non-blank line, without its newline."""

    indent: str
    text: str
    tail: str
    """The blanks at the end."""

    @property
    def key(self) -> str:
        return folded(self.text)


@dataclass(frozen=True)
class Passage:
    """A piece of text: its non-blank lines, and what is between them."""

    lines: tuple[TextLine, ...]
    gaps: tuple[str, ...]
    """Newlines and blank lines before the first line, between lines, and after the last; one more
    than lines."""

    @property
    def indents(self) -> list[str]:
        return [line.indent for line in self.lines]


def line_of(text: str) -> TextLine:
    rest = text.lstrip(_BLANKS)
    core = rest.rstrip(_BLANKS)
    return TextLine(text[: len(text) - len(rest)], core, rest[len(core) :])


def block_of(text: str) -> Passage:
    lines: list[TextLine] = []
    gaps: list[str] = []
    gap = ""
    for number, piece in enumerate(text.split("\n")):
        gap += "\n" if number else ""
        if is_blank(piece):
            gap += piece
            continue
        lines.append(line_of(piece))
        gaps.append(gap)
        gap = ""
    return Passage(tuple(lines), (*gaps, gap))


def is_blank(text: str) -> bool:
    return not text.strip(_BLANKS)


def plain(text: str) -> str:
    """Return the text with plain quotes, dashes and spaces for typographic ones, one for one."""
    return text.translate(_PLAIN)


def folded(text: str) -> str:
    """Return the plain text, with every run of blanks as one space."""
    return _BLANK_RUN.sub(" ", plain(text))


def offsets_of_folded(text: str) -> list[int]:
    """Return for each character of `folded(text)` its offset in `text`, and at the end the length
    of `text`."""
    return [*(found.start() for found in _FOLDED.finditer(text)), len(text)]


def tokens(text: str) -> list[str]:
    """Split text into words and runs of blanks, quotes or operators, the same way in every
    typography."""
    return _TOKEN.findall(text)


def line_opcodes(old: Passage, new: Passage) -> Iterator[Opcode]:
    """Return which lines are equal, with their indentation if possible, else without."""
    mine = [(line.indent, line.key) for line in old.lines]
    wanted = [(line.indent, line.key) for line in new.lines]
    for tag, start, end, new_start, new_end in opcodes(mine, wanted):
        if tag != "replace":
            yield tag, start, end, new_start, new_end
            continue
        keys, new_keys = (
            [key for _, key in mine[start:end]],
            [key for _, key in wanted[new_start:new_end]],
        )
        for code in opcodes(keys, new_keys):
            yield (
                code[0],
                code[1] + start,
                code[2] + start,
                code[3] + new_start,
                code[4] + new_start,
            )


def opcodes(old: Sequence[object], new: Sequence[object]) -> Iterator[Opcode]:
    """Return the same as `SequenceMatcher.get_opcodes`, in bounded time."""
    head, tail = same_ends(old, new)
    if head:
        yield "equal", 0, head, 0, head
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    too_large = len(a) * len(b) > _LARGEST_DIFF
    middle: list[Opcode] = [("replace", 0, len(a), 0, len(b))] if too_large else []
    for tag, start, end, new_start, new_end in (
        middle or SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    ):
        yield tag, start + head, end + head, new_start + head, new_end + head
    if tail:
        yield "equal", len(old) - tail, len(old), len(new) - tail, len(new)


@dataclass(frozen=True)
class Reading:
    """One way to read the strings of an edit."""

    old: str
    new: str | None
    """The new text; None if the two strings do not determine it."""
    slip: str | None
    """What was undone; None if nothing."""
    line: int | None = None
    """The line number given for the first line."""


def readings(old: str, new: str) -> Iterator[Reading]:
    """Yield the strings as they are, then once for each slip in them, with that slip undone."""
    yield Reading(old, new, None)
    yield from _without_numbers(old, new)
    if (unescaped := _without_entities(old, new)) is not None:
        yield unescaped
    yield from _without_escapes(old, new)


def _without_numbers(old: str, new: str) -> Iterator[Reading]:
    for separator in _SEPARATORS:
        number = re.compile(rf"[ \t]*([0-9]+){re.escape(separator)}(.*)", re.DOTALL)
        bare = _bare(old, number, separator)
        if bare is None:
            continue
        numbers = [n for n, _ in bare]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            continue
        yield Reading(
            _joined(old, bare),
            _new_without(new, number, separator),
            "line numbers that were copied along",
            numbers[0],
        )


def _bare(text: str, number: re.Pattern[str], separator: str) -> list[tuple[int, str]] | None:
    """Return each line's number and the rest of it; None unless every line has a number."""
    out = []
    for line in text.removesuffix("\n").split("\n"):
        match = number.fullmatch(line) or number.fullmatch(
            line + separator[len(separator.rstrip()) :]
        )
        if match is None or len(match[1]) > 9:
            return None
        out.append((int(match[1]), match[2]))
    return out


def _joined(text: str, bare: list[tuple[int, str]]) -> str:
    return "\n".join(line for _, line in bare) + ("\n" if text.endswith("\n") else "")


def _new_without(new: str, number: re.Pattern[str], separator: str) -> str | None:
    lines = new.removesuffix("\n").split("\n")
    bare = _bare(new, number, separator)
    if bare is not None:
        return _joined(new, bare)
    return None if any(number.fullmatch(line) for line in lines) else new


def _without_entities(old: str, new: str) -> Reading | None:
    """Yield a reading without entities if they are used consistently, as a program writes them."""
    in_old, in_new = _escaped(old), _escaped(new)
    if not in_old or in_old & _bare_characters(old):
        return None
    plain_old = _unescaped(old)
    slip = "HTML entities"
    if not in_new:
        return Reading(plain_old, new, slip)
    told = not (in_old | in_new) & (_bare_characters(new) | _bare_characters(old))
    return Reading(plain_old, _unescaped(new) if told else None, slip)


def _escaped(text: str) -> set[str]:
    return {_CHARACTER[entity] for entity in _ENTITY.findall(text)}


def _bare_characters(text: str) -> set[str]:
    return set(_ENTITY.sub("", text)) & set(_CHARACTER.values())


def _unescaped(text: str) -> str:
    return _ENTITY.sub(lambda match: _CHARACTER[match[0]], text)


def _without_escapes(old: str, new: str) -> Iterator[Reading]:
    """Yield a reading for each choice of the kinds of escapes in the old text; the new text is read
    the same way."""
    kinds = sorted(set(_ESCAPE.findall(old)))
    if '\\"' in old or "\\'" in old:
        # Perhaps only quotes were escaped, and backslashes before them were not.
        for quotes in ("\"'", '"', "'"):
            yield from _decoded(
                old, new, re.compile(rf"\\[{quotes}]"), frozenset(f"\\{quote}" for quote in quotes)
            )
    for count in range(1, len(kinds) + 1):
        for chosen in combinations(kinds, count):
            yield from _decoded(old, new, _ESCAPE, frozenset(chosen))


def _decoded(
    old: str, new: str, pattern: re.Pattern[str], kinds: frozenset[str]
) -> Iterator[Reading]:
    def decode(text: str) -> str:
        return pattern.sub(
            lambda match: _ESCAPES[match[0]] if match[0] in kinds else match[0], text
        )

    def bare(text: str) -> set[str]:
        """Return the characters of these kinds that are not escaped."""
        return {kind for kind in kinds - {"\\\\"} if _ESCAPES[kind] in pattern.sub("", text)}

    in_old, in_new = set(pattern.findall(old)) & kinds, set(pattern.findall(new)) & kinds
    if not in_old or bare(old) & in_old:
        return
    slip = "escaped quotes" if in_old <= _QUOTES else "escaped characters"
    other = set(_ESCAPE.findall(new)) - set(_ESCAPE.findall(old)) - kinds
    if not other and (not in_new or ("\\n" in in_old and "\n" in new and not in_new & _QUOTES)):
        yield Reading(decode(old), new, slip)
        return
    as_old = in_new == in_old or (in_new <= in_old <= _QUOTES)
    told = not other and as_old and not bare(new) & in_old
    yield Reading(decode(old), decode(new) if told else None, slip)
