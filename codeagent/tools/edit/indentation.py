"""What the indentation of the model's text means in the file's."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codeagent.tools.edit.canonical import Block

_WIDEST_TAB = 16
_USUAL_WIDTHS = (4, 8)
_OPENS = re.compile(r"[:{(\[]\s*$")
_TABBED = re.compile(r"(\t*)( *)")


class Doubt(Exception):
    """An edit does not say what is meant; the message says why, as the end of a sentence about its new text."""


@dataclass(frozen=True)
class Way:
    """One reading of the new text's indentation."""

    base: Sequence[str]
    """The indentation of each old line that an unchanged one in the new text has."""
    moved: Callable[[str], str]
    """The file's indentation for a new line's. Raises Doubt."""
    is_ambiguous: bool = False
    """One indentation of the old text stands for several of the file's."""
    is_irregular: bool = False
    """Single lines have slipped: what holds for them does not hold for others."""


def ways(old: Block, new: Block, there: Block, pairs: Sequence[tuple[int, int]]) -> list[Way]:
    """Every reading that fits: as slipped as the old text, or as it is in the file. Empty where none does.

    `pairs` are the old and new lines that are one and the same: those that slipped say which of the two it is, and so
    does the outermost indentation.
    """
    had, has, wanted = old.indents, there.indents, new.indents
    if had == has or not wanted:
        return [Way(has, _same)]
    mapping = _Mapping(had, has)
    if mapping.is_unlike:
        return []
    slipped = [(had[at], has[at], wanted[new_at]) for at, new_at in pairs if had[at] != has[at]]
    says_had = any(indent == mine for mine, _, indent in slipped)
    says_has = any(indent == actual for _, actual, indent in slipped)
    if slipped and not (says_had or says_has or mapping.width):
        return []
    as_had = _begins_alike(wanted, had) if mapping.width is None else mapping.is_in_style(wanted, had)
    as_has = _begins_alike(wanted, has) if mapping.width is None else mapping.is_in_style(wanted, has)
    found = []
    if says_had or (as_had and not (as_has and says_has)):
        found.append(Way(had, _moved_in_blocks(mapping, had, new), mapping.is_ambiguous, mapping.is_irregular))
    if says_has or (as_has and not (as_had and says_had)):
        found.append(Way(has, _same))
    if len(had) == 1 < len(wanted) and has[0].endswith(had[0]) and wanted[0] == had[0]:
        rest_is_whole = all(indent.startswith(has[0]) for indent in wanted[1:])
        if rest_is_whole:  # The old text begins within the line, and so does the new one.
            found.append(Way(had, _same))
    return found


def is_tab_drift(old: Block, there: Block) -> bool:
    """Whether tabs stand for spaces, or the reverse, and nothing else differs in the indentation."""
    return _width(old.indents, there.indents) is not None


def is_explained(old: Block, there: Block) -> bool:
    """Whether the indentation differs only as slips do: not where no width of a tab makes tabs of spaces."""
    return not _Mapping(old.indents, there.indents).is_unlike


class _Mapping:
    """From the indentation of the old text to that of the file, line by line."""

    def __init__(self, had: Sequence[str], has: Sequence[str]) -> None:
        self._table: dict[str, set[str]] = {}
        for mine, actual in zip(had, has, strict=True):
            self._table.setdefault(mine, set()).add(actual)
        self._had, self._has = had, has
        self.width = _width(had, has)
        self._shift = _shift(had, has)

    @property
    def is_ambiguous(self) -> bool:
        return any(len(known) > 1 for known in self._table.values())

    @property
    def is_irregular(self) -> bool:
        return self.width is None and self._shift is None

    @property
    def is_unlike(self) -> bool:
        """Tabs and spaces differ, and no width of a tab explains it."""
        pairs = zip(self._had, self._has, strict=True)
        return self.width is None and not all(a.endswith(b) or b.endswith(a) for a, b in pairs)

    def is_in_style(self, indents: Sequence[str], style: Sequence[str]) -> bool:
        """Whether all begin with as many tabs as fit in, or all without any, as `style` does."""
        if not any("\t" in indent for indent in style):
            return not any("\t" in indent for indent in indents)
        matches = [_TABBED.fullmatch(indent) for indent in indents]
        return all(match is not None and len(match[2]) < (self.width or 0) for match in matches)

    def moved(self, indent: str) -> str:
        """Raises Doubt."""
        if self.width is not None:
            return self._converted(indent, self.width)
        if self._shift is not None:
            less, more = self._shift
            if indent.startswith(less):
                return more + indent[len(less) :]
            raise Doubt("a line of it has less indentation than the file allows for")
        slipped = [a for a, b in zip(self._had, self._has, strict=True) if a != b]
        if len(slipped) == 1 < len(self._had) and indent not in slipped:
            return indent
        raise Doubt("the file's indentation for its new lines cannot be told")

    def _converted(self, indent: str, width: int) -> str:
        match = _TABBED.fullmatch(indent)
        if match is None:
            raise Doubt("its indentation mixes tabs and spaces")
        if any("\t" in actual for actual in self._has):
            if match[1]:
                raise Doubt("its indentation mixes tabs and spaces")
            return "\t" * (len(indent) // width) + " " * (len(indent) % width)
        return " " * (width * len(match[1])) + match[2]


def _moved_in_blocks(mapping: _Mapping, had: Sequence[str], new: Block) -> Callable[[str], str]:
    """As the mapping says, unless the new text has no indentation at all where it needs some."""
    lost = not any(had) and any(
        _OPENS.search(line.text) and len(after.indent) <= len(line.indent)
        for line, after in zip(new.lines, new.lines[1:], strict=False)
    )

    def moved(indent: str) -> str:
        if lost:
            raise Doubt("its lines have lost their indentation")
        return mapping.moved(indent)

    return moved


def _shift(had: Sequence[str], has: Sequence[str]) -> tuple[str, str] | None:
    """(taken away, put in front): what turns every old indentation into the file's; None if unequal."""
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
    """How many spaces stand for one tab, if that is how the two differ.

    An unusual width takes two depths that agree on it.
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
        mine == actual and (len(mine) >= width or "\t" in mine) for mine, actual in zip(had, has, strict=True)
    )
    return None if unequal else width


def _begins_alike(some: Sequence[str], others: Sequence[str]) -> bool:
    return min(some, key=len) == min(others, key=len)


def _same(indent: str) -> str:
    return indent
