"""Finds what passes for ASCII in a text: letters of other scripts inside a word, and signs like
those of a shell.

`names/lookalikes.txt` has Unicode's confusables (UTS #39), through `make lookalikes`. A text in
another script is not a finding: a letter counts only in a word that mixes scripts, or that reads as
ASCII from its first letter to its last.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple
from unicodedata import category, east_asian_width

from codeagent.core.host_files import parse, table
from codeagent.core.sanitize import emoji_spans

_EAST_ASIAN = r"\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}\p{scx=Bopomofo}"
_WORD = r"[\p{L}\p{M}\p{N}\p{Pc}]+"
_QUOTES = "\"'"
_WIDE = ("W", "F")


class _Likeness(NamedTuple):
    reads: str
    script: str
    """The name of a script, or `East Asian` for the scripts of East Asia together."""


def lookalikes(text: str) -> dict[int, str]:
    """Return how each letter and sign that passes for ASCII reads, by its position in the text."""
    if text.isascii() or _known().keys().isdisjoint(text):
        return {}
    emoji = {at for span in emoji_spans(text) for at in range(*span)}
    found = {*_letters(text), *_signs(text)} - emoji
    return {at: _known()[text[at]].reads for at in sorted(found)}


def _letters(text: str) -> Iterator[int]:
    for sentence in _pattern(rf"{_WORD}(?:[ ,]+{_WORD})*").finditer(text):
        is_quoted = text[sentence.start() - 1 : sentence.start()] in (*_QUOTES,)
        for word in _pattern(_WORD).finditer(text, sentence.start(), sentence.end()):
            before = text[sentence.start() : word.start()]
            yield from _in_word(
                word, before + text[word.end() : sentence.end()] if is_quoted else before
            )


def _in_word(word: Any, beside: str) -> Iterator[int]:
    """Yield the positions of letters that pass for ASCII; `beside` is text that may show which
    language it is in."""
    hits = [
        (word.start() + at, _known()[letter])
        for at, letter in enumerate(word[0])
        if letter in _known()
    ]
    scripts = {likeness.script for _, likeness in hits}
    reads_as_ascii = all(letter.isascii() or letter in _known() for letter in word[0])
    is_spoof = reads_as_ascii and not all(_is_evident(script, beside) for script in scripts)
    if is_spoof or not any(_is_written_in(script, word[0]) for script in (*scripts, "East Asian")):
        yield from (at for at, _ in hits)
    else:
        yield from (at for at, likeness in hits if likeness.script == "Common")


def _is_evident(script: str, text: str) -> bool:
    """Whether the text has a letter of that script that is not a lookalike."""
    letters = (letter for letter in text if not letter.isascii() and letter not in _known())
    return script != "Common" and any(
        _pattern(f"[{_class(script)}]").match(letter) for letter in letters
    )


def _is_written_in(script: str, word: str) -> bool:
    """Whether the word is in that script alone; text in the scripts of East Asia may have Latin
    letters."""
    latin = r"\p{scx=Latin}" if script == "East Asian" else ""
    return (
        _pattern(rf"[{_class(script)}{latin}\p{{Common}}\p{{Inherited}}]+").fullmatch(word)
        is not None
    )


def _class(script: str) -> str:
    return _EAST_ASIAN if script == "East Asian" else rf"\p{{scx={script}}}"


def _signs(text: str) -> Iterator[int]:
    for at, sign in enumerate(text):
        if sign in _known() and category(sign)[0] not in "LMN" and not _is_east_asian(text, at):
            yield at


def _is_east_asian(text: str, at: int) -> bool:
    """Whether a sign belongs to East Asian text: it is wide or a quote, and next to a letter of
    such a text."""
    if east_asian_width(text[at]) not in _WIDE and category(text[at]) not in ("Pi", "Pf"):
        return False
    letter = rf"[\p{{L}}&&[{_EAST_ASIAN}]]"
    others = r"[\p{P}\p{S}--\p{ASCII}]*"
    before = _pattern(rf"(?r){others}{letter}").match(text, 0, at) if at else None
    return bool(before) or _pattern(others + letter).match(text, at + 1) is not None


@cache
def _pattern(pattern: str) -> Any:
    import regex  # heavy, and few texts need it

    return regex.compile(f"(?V1){pattern}")


@cache
def _known() -> dict[str, _Likeness]:
    known: dict[str, _Likeness] = {}
    for line, script in parse(table("lookalikes")):
        code, _, reads = line.partition(" ")
        letter = chr(int(code, 16))
        known[letter] = _Likeness(
            reads, "East Asian" if east_asian_width(letter) in _WIDE else script
        )
    return known
