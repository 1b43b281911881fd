"""What the model may have done to a text before it wrote it down: numbered its lines, or escaped it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

_SEPARATORS = ("\t", " | ", "| ", "|", "\u2192 ", "\u2192", ": ", ":", " ")
_ENTITIES = {
    "&": ("&amp;",),
    "<": ("&lt;",),
    ">": ("&gt;",),
    '"': ("&quot;", "&#34;"),
    "'": ("&#39;", "&#x27;", "&apos;"),
}
_ENTITY = re.compile("|".join(re.escape(entity) for entities in _ENTITIES.values() for entity in entities))
_CHARACTER = {entity: char for char, entities in _ENTITIES.items() for entity in entities}
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\'": "'", "\\n": "\n", "\\t": "\t"}
_QUOTES = {'\\"', "\\'"}
_ESCAPE = re.compile(r"\\[\\\"'nt]")


@dataclass(frozen=True)
class Reading:
    """One way to take the strings of an edit."""

    old: str
    new: str | None
    """None where the two strings do not tell what it means."""
    slip: str | None
    """What was undone; None: nothing."""
    line: int | None = None
    """The number that the first line claims to have."""


def readings(old: str, new: str) -> Iterator[Reading]:
    """As it stands first, then without each slip that it shows."""
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
            _joined(old, bare), _new_without(new, number, separator), "line numbers that were copied along", numbers[0]
        )


def _bare(text: str, number: re.Pattern[str], separator: str) -> list[tuple[int, str]] | None:
    """Each line's number and the rest of it; None unless every line has one."""
    out = []
    for line in text.removesuffix("\n").split("\n"):
        match = number.fullmatch(line) or number.fullmatch(line + separator[len(separator.rstrip()) :])
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
    """Every character that has an entity in either string has one everywhere, as a program writes them."""
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
    """Each choice of the kinds of escapes that the old text has; the new text is read the same way."""
    kinds = sorted(set(_ESCAPE.findall(old)))
    if '\\"' in old or "\\'" in old:
        # Quotes alone may have been escaped, backslashes before them left as they were.
        for quotes in ("\"'", '"', "'"):
            yield from _decoded(old, new, re.compile(rf"\\[{quotes}]"), frozenset(f"\\{quote}" for quote in quotes))
    for count in range(1, len(kinds) + 1):
        for chosen in combinations(kinds, count):
            yield from _decoded(old, new, _ESCAPE, frozenset(chosen))


def _decoded(old: str, new: str, pattern: re.Pattern[str], kinds: frozenset[str]) -> Iterator[Reading]:
    def decode(text: str) -> str:
        return pattern.sub(lambda match: _ESCAPES[match[0]] if match[0] in kinds else match[0], text)

    def bare(text: str) -> set[str]:
        """What of the kinds stands there without its backslash."""
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
