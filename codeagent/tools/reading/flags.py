"""What is known of a program's flags, and a command line taken apart by it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codeagent.tools.reading.words import Word

_NUMBER = re.compile(r"-\d+")
_MAY_BE_DASHED = frozenset({"-e", "--regexp", "--expression"})
_NAMES_NO_FILE = _MAY_BE_DASHED | {"--exclude", "--exclude-dir"}


@dataclass(frozen=True)
class Flag:
    name: str
    value: str | None = None


@dataclass(frozen=True)
class Arguments:
    """The words behind a program's name, as the program takes them."""

    flags: tuple[Flag, ...]
    operands: tuple[Word, ...]

    def has(self, *names: str) -> bool:
        return any(flag.name in names for flag in self.flags)

    def values(self, *names: str) -> tuple[str, ...]:
        return tuple(flag.value for flag in self.flags if flag.name in names and flag.value is not None)


def anything(arguments: Arguments) -> bool:
    """The check of a program whose flags say it all."""
    return True


@dataclass(frozen=True)
class Program:
    """A program that only reads where it is called with these flags and passes `check`."""

    switches: frozenset[str]
    """Flags without a value; `-#` stands for any number (`head -20`)."""
    valued: frozenset[str]
    """`-n 5`, `-n5`, `--lines 5`, `--lines=5`."""
    optional: frozenset[str]
    """A value only in the same word: `-U5`, `--color=always`."""
    opens: bool
    """What its operands name is shown or compared: names of secrets are asked about."""
    patterns: int
    """So many of the first operands are no files, but what is searched for or a program."""
    pattern_flags: frozenset[str]
    """With one of these all operands are files."""
    most: int | None
    """Operands that still only read: the one behind may be written to."""
    whatever: bool
    """There is no flag at all with which it would do more than read, so a glob may become one."""
    clusters: bool
    """`-ab` is `-a -b`."""
    check: Callable[[Arguments], bool]


def program(
    switches: str = "",
    valued: str = "",
    optional: str = "",
    *,
    opens: bool = True,
    patterns: int = 0,
    pattern_flags: str = "",
    most: int | None = None,
    whatever: bool = False,
    clusters: bool = True,
    check: Callable[[Arguments], bool] = anything,
) -> Program:
    """Flags separated by blanks; a word of one dash and several letters (`-abc`) stands for as many flags."""
    return Program(
        switches=_flags(switches),
        valued=_flags(valued),
        optional=_flags(optional),
        opens=opens,
        patterns=patterns,
        pattern_flags=_flags(pattern_flags),
        most=most,
        whatever=whatever,
        clusters=clusters,
        check=check,
    )


def arguments(known: Program, words: Sequence[Word]) -> Arguments | None:
    """None where a flag is not known, or a glob could become one."""
    flags: list[Flag] = []
    operands: list[Word] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.text == "--":
            return _checked(known, flags, [*operands, *rest])
        if not word.text.startswith("-") or word.text == "-":
            if word.may_become_a_flag and not known.whatever:
                return None
            operands.append(word)
            continue
        found = None if word.globs and not _is_flag_whatever_matches(word) else _flag(known, word.text, rest)
        if found is None:
            return None
        flags += found
    return _checked(known, flags, operands)


def files_of(known: Program, found: Arguments) -> list[Word]:
    """The operands that are files, and the values that may be: not what is searched for."""
    skipped = 0 if found.has(*known.pattern_flags) else known.patterns
    values = [Word(flag.value) for flag in found.flags if flag.value and flag.name not in _NAMES_NO_FILE]
    return [*found.operands[skipped:], *values]


def _flags(text: str) -> frozenset[str]:
    names: set[str] = set()
    for word in text.split():
        names |= {word} if word.startswith("--") else {f"-{letter}" for letter in word[1:]}
    return frozenset(names)


def _is_flag_whatever_matches(word: Word) -> bool:
    """`--include=*.py`: each name that could stand there begins the same way."""
    return re.match(r"--[a-z-]+=", word.text) is not None


def _flag(known: Program, text: str, rest: list[Word]) -> list[Flag] | None:
    if "-#" in known.switches and _NUMBER.fullmatch(text):
        return [Flag("-#", text[1:])]
    if text.startswith("--"):
        name, given, value = text.partition("=")
        if given:
            return [Flag(name, value)] if name in known.valued | known.optional else None
        if name in known.valued:
            return _with_next(known, name, rest)
        return [Flag(name)] if name in known.switches | known.optional else None
    return _cluster(known, text, rest)


def _cluster(known: Program, text: str, rest: list[Word]) -> list[Flag] | None:
    flags: list[Flag] = []
    for at, letter in enumerate(text[1:], start=2):
        name = f"-{letter}"
        glued = text[at:]
        if name in known.optional:
            return [*flags, Flag(name, glued or None)]
        if name in known.valued:
            last = [Flag(name, glued)] if glued else _with_next(known, name, rest)
            return None if last is None else [*flags, *last]
        if name not in known.switches or (len(text) > 2 and not known.clusters):
            return None
        flags.append(Flag(name))
    return flags


def _with_next(known: Program, name: str, rest: list[Word]) -> list[Flag] | None:
    """The next word as the value: not one that would be a flag to a version of the program that takes no value here."""
    if not rest or (rest[0].globs and not known.whatever):
        return None
    value = rest.pop(0).text
    if value.startswith("-") and name not in _MAY_BE_DASHED and _NUMBER.fullmatch(value) is None:
        return None
    return [Flag(name, value)]


def _checked(known: Program, flags: list[Flag], operands: list[Word]) -> Arguments | None:
    if known.most is not None and (len(operands) > known.most or any(word.globs for word in operands)):
        return None
    if known.patterns and not known.whatever and operands and operands[0].globs:
        return None
    found = Arguments(tuple(flags), tuple(operands))
    return found if known.check(found) else None
