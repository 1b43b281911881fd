"""The ways a model's copy of a text drifts from the file, and how an edit is carried over each.

A drift is tried only where nothing matches exactly. Lines that the edit leaves alone keep the
file's own bytes; only what the model changed takes the model's text.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_LONGEST_DIFF = 20_000
_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys(
            "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "
        ),
    }
)
_NUMBERED = re.compile(r" *(\d+)[\t|:\u2192] ?(.*)")
_INNER_BLANKS = re.compile(r"(?<=\S)[ \t]+(?=\S)")


@dataclass(frozen=True)
class Found:
    """A place in the text, by character offsets, and what takes its place."""

    start: int
    end: int
    replacement: str


Drift = Callable[[str, str, str], list[Found]]


def trailing_blanks(text: str, old: str, new: str) -> list[Found]:
    """Whole lines that differ only in white space at their ends."""
    return _by_lines(text, old, new, lambda line: line.rstrip(), _carried_lines)


def inner_blanks(text: str, old: str, new: str) -> list[Found]:
    """Whole lines with the same indentation that differ in the width of white space between words."""
    return _by_lines(text, old, new, lambda line: _INNER_BLANKS.sub(" ", line.rstrip()), _carried_lines)


def indentation(text: str, old: str, new: str) -> list[Found]:
    """Whole lines, all of them indented by the same amount more or less than in the file.

    Not where they are all there is in the file: then nothing says which indentation is meant.
    """
    found = _by_lines(text, old, new, lambda line: line.strip(), _carried_indentation)
    return [place for place in found if text[: place.start].strip() or text[place.end :].strip()]


def typography(text: str, old: str, new: str) -> list[Found]:
    """Typographic quotes, dashes and spaces where the model wrote plain ones, or the reverse."""
    folded, wanted = text.translate(_TYPOGRAPHY), old.translate(_TYPOGRAPHY)
    if folded == text and wanted == old:
        return []
    places = []
    at = folded.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        places.append(Found(at, end, _carried_characters(text[at:end], old, new)))
        at = folded.find(wanted, end)
    return places


def line_numbers(text: str, old: str, new: str) -> list[Found]:
    """The line numbers of the read tool, pasted along: consecutive, and true for the place."""
    bare_old = _without_numbers(old)
    if bare_old is None:
        return []
    bare_new = _without_numbers(new)
    first, old_text = bare_old
    new_text = bare_new[1] if bare_new is not None else new
    offset = _offset_of_line(text, first)
    if offset is None or not text.startswith(old_text, offset):
        return []
    return [Found(offset, offset + len(old_text), new_text)]


DRIFTS: tuple[tuple[str, Drift], ...] = (
    ("white space at line ends", trailing_blanks),
    ("indentation", indentation),
    ("white space between words", inner_blanks),
    ("typographic quotes, dashes or spaces", typography),
    ("line numbers that were copied along", line_numbers),
)

_Carry = Callable[[list[str], list[str], list[str]], list[str] | None]


def _by_lines(text: str, old: str, new: str, fold: Callable[[str], str], carry: _Carry) -> list[Found]:
    """Every run of whole lines that folds to the same as `old`; `carry` makes its replacement."""
    ends_line = old.endswith("\n")
    old_lines = old[:-1].split("\n") if ends_line else old.split("\n")
    wanted = [fold(line) for line in old_lines]
    if not any(wanted):
        return []
    lines = text.split("\n")
    folded = [fold(line) for line in lines]
    new_lines = (new.removesuffix("\n") if ends_line else new).split("\n")
    offsets = _offsets(lines)
    places: list[Found] = []
    at = 0
    while at + len(wanted) <= len(lines):
        after = at + len(wanted)
        whole = not ends_line or after < len(lines)
        carried = None
        if folded[at] == wanted[0] and folded[at:after] == wanted and whole:
            carried = carry(lines[at:after], old_lines, new_lines)
        if carried is None:
            at += 1
            continue
        end = offsets[after] if ends_line else offsets[after - 1] + len(lines[after - 1])
        removed = ends_line and new == ""
        replacement = "" if removed else "\n".join(carried) + ("\n" if ends_line and new.endswith("\n") else "")
        places.append(Found(offsets[at], end, replacement))
        at = after
    return places


def _carried_lines(there: list[str], old: list[str], new: list[str]) -> list[str]:
    """`new`, with the file's own lines for those that `old` and `new` share."""
    out: list[str] = []
    for tag, start, end, new_start, new_end in _opcodes(old, new):
        out += there[start:end] if tag == "equal" else new[new_start:new_end]
    return out


def _carried_indentation(there: list[str], old: list[str], new: list[str]) -> list[str] | None:
    """As `_carried_lines`, with the new lines moved as far as the old ones are; None in doubt."""
    shift = _shift(old, there)
    if shift is None:
        return None
    common_new = _common_indentation(new)
    if common_new is None or common_new == _common_indentation(old):
        moved = [_moved(line, shift) for line in new]
    elif common_new == _common_indentation(there):
        return new
    else:
        return None
    if None in moved:
        return None
    out: list[str] = []
    for tag, start, end, new_start, new_end in _opcodes(old, new):
        out += there[start:end] if tag == "equal" else [line or "" for line in moved[new_start:new_end]]
    return out


def _carried_characters(there: str, old: str, new: str) -> str:
    """`new`, with the file's own characters for those that `old` and `new` share."""
    if len(old) + len(new) > _LONGEST_DIFF:
        return new
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return "".join(
        there[start:end] if tag == "equal" else new[new_start:new_end]
        for tag, start, end, new_start, new_end in matcher.get_opcodes()
    )


def _shift(old: list[str], there: list[str]) -> tuple[str, str] | None:
    """(taken away, put in front): what turns every old indentation into the file's; None if unequal."""
    shifts = set()
    for mine, actual in zip(old, there, strict=True):
        if not mine.strip():
            continue
        had, has = _indentation(mine), _indentation(actual)
        if has.endswith(had):
            shifts.add(("", has[: len(has) - len(had)]))
        elif had.endswith(has):
            shifts.add((had[: len(had) - len(has)], ""))
        else:
            return None
    return shifts.pop() if len(shifts) == 1 else None


def _moved(line: str, shift: tuple[str, str]) -> str | None:
    less, more = shift
    if not line.strip():
        return line
    return more + line.removeprefix(less) if line.startswith(less) or not _indentation(line) else None


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _common_indentation(lines: list[str]) -> str | None:
    """The shortest indentation; None where every line is blank."""
    return min((_indentation(line) for line in lines if line.strip()), key=len, default=None)


def _without_numbers(text: str) -> tuple[int, str] | None:
    """The first number and the text without them; None where a line has none or they do not follow."""
    matches = [_NUMBERED.fullmatch(line) for line in text.removesuffix("\n").split("\n")]
    numbers = [int(match[1]) for match in matches if match is not None]
    if not numbers or len(numbers) != len(matches) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return None
    bare = "\n".join(match[2] for match in matches if match is not None)
    return numbers[0], bare + ("\n" if text.endswith("\n") else "")


def _offset_of_line(text: str, number: int) -> int | None:
    at = 0
    for _ in range(number - 1):
        at = text.find("\n", at) + 1
        if at == 0:
            return None
    return at


def _offsets(lines: list[str]) -> list[int]:
    out = [0]
    for line in lines:
        out.append(out[-1] + len(line) + 1)
    return out


def _opcodes(old: list[str], new: list[str]) -> Sequence[tuple[str, int, int, int, int]]:
    return SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
