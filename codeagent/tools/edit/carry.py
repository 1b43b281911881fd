"""Carries an edit over to a place that differs from what the model remembered: a merge of three texts.

The old text is the base, the new text is what the model made of it, and the file is what really is there. Where the new
text is as the old one, the file's own characters stay; only what the model changed takes the model's.
"""

from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher

from codeagent.tools.edit.canonical import Block, Line, Opcode, folded, is_blank, line_opcodes, opcodes, plain, tokens
from codeagent.tools.edit.indentation import Doubt, Way, ways

_LONGEST_LINE = 20_000
_ALIKE = 0.5


@dataclass(frozen=True)
class _Placed:
    """A line of the result."""

    text: str
    base: int | None
    """The old line it is, or was made from."""


def carried(old: Block, new: Block, there: Block) -> str:
    """What takes the place of `there`. Raises Doubt.

    `old` and `there` have the same lines in canonical form.
    """
    codes = list(line_opcodes(old, new))
    even = [code for code in codes if code[2] - code[1] == code[4] - code[3]]
    pairs = [(start + n, at + n) for _, start, end, at, _ in even for n in range(end - start)]
    repeated = _repeated(old) | _repeated(new)
    sure = [pair for pair in pairs if not {old.lines[pair[0]].key, new.lines[pair[1]].key} & repeated]
    found = ways(old, new, there, sure)
    if len(sure) < len(pairs):
        found += ways(old, new, there, pairs)
    if old != there and len(sure) < len(pairs) and len(even) < len(codes):
        raise Doubt("some of its lines are there several times, and which is which cannot be told")
    if not found:
        raise Doubt("its indentation fits neither old_string nor the file")
    results = {_Merge(old, new, there, codes, way).text() for way in found}
    if len(results) > 1:
        raise Doubt("its indentation can be read in two ways")
    return results.pop()


class _Merge:
    """The three texts, with one reading of the indentation."""

    def __init__(self, old: Block, new: Block, there: Block, codes: list[Opcode], way: Way) -> None:
        self._old, self._new, self._there, self._codes, self._way = old, new, there, codes, way
        self._typed, self._real = _typography(old, there)

    def text(self) -> str:
        """Raises Doubt."""
        placed: list[_Placed] = []
        for _, start, end, new_start, new_end in self._codes:
            if end - start == new_end - new_start:
                placed += [self._paired(start + n, new_start + n) for n in range(end - start)]
            elif self._way.is_ambiguous:
                raise Doubt("one indentation in old_string stands for several in the file")
            else:
                placed += [self._added(self._new.lines[at]) for at in range(new_start, new_end)]
        out = []
        for at, line in enumerate(placed):
            out += [self._gap(placed, at), line.text]
        return "".join([*out, self._gap(placed, len(placed))])

    def _paired(self, at: int, new_at: int) -> _Placed:
        old, new, there = self._old.lines[at], self._new.lines[new_at], self._there.lines[at]
        indent = there.indent
        if new.indent != self._way.base[at] and not (self._way.is_irregular and new.indent == there.indent):
            if self._way.is_irregular:
                raise Doubt("it changes the indentation of a line that has another one in the file")
            indent = self._way.moved(new.indent)
        if self._way.is_ambiguous and not _is_alike(old, new):
            raise Doubt("one indentation in old_string stands for several in the file")
        tail = _merged(old.tail, new.tail, there.tail, new.tail)
        return _Placed(indent + self._merged_text(old.text, new.text, there.text) + tail, at)

    def _added(self, line: Line) -> _Placed:
        text = "".join(self._as_typed(token) for token in tokens(line.text))
        return _Placed(self._way.moved(line.indent) + text + line.tail, None)

    def _merged_text(self, old: str, new: str, there: str) -> str:
        if old == new:
            return there
        if len(old) + len(new) > _LONGEST_LINE:
            if old == there:
                return new
            raise Doubt("a changed line is too long to compare")
        mine, wanted, actual = tokens(old), tokens(new), tokens(there)
        out: list[str] = []
        for tag, start, end, new_start, new_end in opcodes(list(map(folded, mine)), list(map(folded, wanted))):
            if tag != "equal":
                out += map(self._as_typed, wanted[new_start:new_end])
                continue
            for at in range(end - start):
                token = wanted[new_start + at]
                if is_blank(token) and token == mine[start + at] != actual[start + at]:
                    raise Doubt("a line that it changes has other white space between words in the file")
                out.append(_merged(mine[start + at], token, actual[start + at], token if is_blank(token) else None))
        return "".join(out)

    def _as_typed(self, token: str) -> str:
        """What is new, with plain characters where the model types typographic ones for those of the file."""
        if self._typed and token != plain(token):
            if any(char != plain(char) and plain(char) not in self._typed - self._real for char in token):
                raise Doubt("its new text has typographic characters where the file has plain ones")
            return plain(token)
        return token

    def _gap(self, placed: list[_Placed], at: int) -> str:
        """What goes before the line `at` of the result, or after the last."""
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
                    raise Doubt("it changes blank lines where the file has another number of them")
        first = max((line.base + 1 for line in placed[:at] if line.base is not None), default=0)
        last = min((line.base for line in placed[at:] if line.base is not None), default=len(self._old.lines))
        for number in range(first, last + 1):
            if self._old.gaps[number].count("\n") != self._there.gaps[number].count("\n"):
                raise Doubt("it adds or removes lines where the file has another number of blank lines")
        return new


def _merged(old: str, new: str, there: str, otherwise: str | None) -> str:
    """The side that changed; `otherwise` where both did, None: then Doubt is raised."""
    if new in (old, there):
        return there
    if old == there:
        return new
    if otherwise is None:
        raise Doubt("it changes characters that are others in the file")
    return otherwise


def _typography(old: Block, there: Block) -> tuple[set[str], set[str]]:
    """Plain characters that the model types as typographic ones, and those that the file has as such."""
    typed, real = set(), set()
    for mine, actual in zip(old.lines, there.lines, strict=True):
        for a, b in zip(tokens(mine.text), tokens(actual.text), strict=True):
            if is_blank(a):
                continue
            typed |= {own for char, own in zip(a, b, strict=True) if char != own == plain(char)}
            real |= {plain(own) for own in b if own != plain(own)}
    return typed, real


def _repeated(block: Block) -> set[str]:
    return {key for key, count in Counter(line.key for line in block.lines).items() if count > 1}


def _is_alike(old: Line, new: Line) -> bool:
    return SequenceMatcher(None, tokens(old.text), tokens(new.text), autojunk=False).ratio() >= _ALIKE
