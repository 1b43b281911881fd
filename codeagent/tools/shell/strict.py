"""A strict reading of a command line: a small part of the shell's language, and the flags of known
programs.

It is the second of two: `syntax` parses every line, and is right about most. A line counts as
read-only only if both see the same commands, so a construct that one of them misunderstands needs
approval.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from functools import cache, lru_cache

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.paths import ignorable

_KNOWN = "HOME|PATH|PWD|USER|LOGNAME|SHELL|LANG|TERM|TMPDIR|HOSTNAME|EDITOR|VIRTUAL_ENV"
"""Variables that every environment has, and that the strict language cannot set."""
_VARIABLE = lazy_regex(rf"\$(?:{_KNOWN})\b")
_PIECE = lazy_regex(
    r"(?P<bare>[A-Za-z0-9_./:,+@%=^~!*?\[\]#-]|[^\x00-\x7f])"
    r"|\\(?P<escaped>[ -~])"
    r"|'(?P<single>[^']*)'"
    rf'|"(?P<double>(?:[^"$`\\]|\\[^\n]|{_VARIABLE.pattern})*\$?)"'
    rf"|(?P<variable>{_VARIABLE.pattern})"
    r"|(?P<braces>\{\}|(?<=[@^])\{[\w/-]*\})"
)
"""Of a word. Braces are empty, or as git writes them (`HEAD@{1}`, `HEAD^{tree}`): without a comma
or two dots the shell leaves them alone."""
_IN_DOUBLE = lazy_regex(r'\\([$`"\\])')
_BETWEEN = lazy_regex(
    r"(?P<blank>[ \t]+(?:\\\n[ \t]*)*|#[^\n]*)"
    r"|(?P<end>&&|\|\||;(?!;)|\|(?!&)|\n)"
    r"|(?P<open>\((?!\())"
    r"|(?P<close>\))"
    r"|(?P<nowhere>(?:[012]?>>?|&>>?)[ \t]*/dev/null(?=[\s;|&()]|$)|[012]?>&[12](?=[\s;|&()]|$))"
    r"|(?P<input>0?<(?![<(&>])[ \t]*)"
)
"""What is between words. A backslash continues a line only after a blank, so it cannot join two
halves of a word."""
_BEFORE_A_COMMAND = frozenset({"!", "{", "}", "if", "then", "elif", "else", "fi"})
_GLOB = frozenset("*?[")
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
_NUMBER = lazy_regex(r"-\d+")
_MAY_BE_DASHED = frozenset({"-e", "--regexp", "--expression"})
_NAMES_NO_FILE = _MAY_BE_DASHED | {"--exclude", "--exclude-dir"}


@dataclass(frozen=True)
class Word:
    text: str
    """The text, without quotes."""
    globs: bool = False
    """It is a glob: the shell may replace it with any number of file names, or leave it as it
    is."""
    plain: bool = True
    """No part of it is quoted."""
    expands: bool = False
    """It contains a variable of the environment."""


@dataclass(frozen=True)
class SimpleCommand:
    words: tuple[Word, ...]
    """The words; the first is the program's name."""
    reads: tuple[Word, ...] = ()
    """The files of its standard input."""

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)


class _NotStrict(Exception):
    """The line contains something outside of the strict language."""


@lru_cache(maxsize=64)
def strict_commands(line: str) -> tuple[SimpleCommand, ...] | None:
    """Return every simple command in order; None if anything is outside the strict language.

    The language has words, quotes, globs, `~`, comments, `; && || |`, newlines, `( )`, `{ }`, `!`,
    `if`, `< file`, redirections to /dev/null or between the output streams, and `$HOME` and the
    like. It has no other expansions, and nothing that assigns or writes.
    """
    if any((unicodedata.category(c) in _UNSEEN and c not in " \t\n") or ignorable(c) for c in line):
        return None
    try:
        return _Reader(line).commands()
    except _NotStrict:
        return None


class _Reader:
    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0
        self._done: list[SimpleCommand] = []
        self._words: list[Word] = []
        self._reads: list[Word] = []
        self._closed = False
        """The last token was `)`, after which only the end of the command or a redirection may
        follow."""

    def commands(self) -> tuple[SimpleCommand, ...]:
        while self._at < len(self._line):
            found = _BETWEEN.match(self._line, self._at)
            self._at = found.end() if found else self._at
            match found and found.lastgroup:
                case "blank" | "nowhere":
                    continue
                case "end":
                    self._end()
                case "open" if not (self._words or self._reads or self._closed):
                    continue
                case "close":
                    self._end()
                    self._closed = True
                case "input" if not ((word := self._word()).globs or word.expands):
                    self._reads.append(word)
                case None if not self._closed:
                    word = self._word()
                    if self._words or not word.plain or word.text not in _BEFORE_A_COMMAND:
                        self._words.append(word)
                case _:
                    raise _NotStrict
        self._end()
        return tuple(self._done)

    def _word(self) -> Word:
        text, globs, plain, expands, start = "", False, True, False, self._at
        while found := _PIECE.match(self._line, self._at):
            kind = str(found.lastgroup)
            self._at = found.end()
            piece = found[kind]
            plain = plain and kind in ("bare", "braces")
            globs = globs or (kind == "bare" and piece in _GLOB)
            expands = expands or kind == "variable"
            if kind == "double":
                expands = expands or _VARIABLE.search(re.sub(r"\\.", "", piece)) is not None
                piece = _IN_DOUBLE.sub(r"\1", piece)
            text += piece
        if self._at == start or (globs and not text.strip("[]")):
            return self._lone(start)
        return Word(text, globs, plain, expands)

    def _lone(self, start: int) -> Word:
        """Read `[` and `]` by themselves, and `{` and `}` around commands."""
        text = self._line[start : self._at] or self._line[start : start + 1]
        if text not in ("[", "]", "[[", "]]", "{", "}"):
            raise _NotStrict
        self._at = start + len(text)
        if text in "{}" and (
            self._words or (self._at < len(self._line) and self._line[self._at] not in " \t\n;|&)")
        ):
            raise _NotStrict
        return Word(text)

    def _end(self) -> None:
        if self._reads and not self._words:
            raise _NotStrict
        if self._words:
            self._done.append(SimpleCommand(tuple(self._words), tuple(self._reads)))
        self._words = []
        self._reads = []
        self._closed = False


@dataclass(frozen=True)
class Flag:
    name: str
    value: str | None = None


@dataclass(frozen=True)
class ParsedFlags:
    """The words after a program's name, as flags and operands."""

    flags: tuple[Flag, ...]
    operands: tuple[Word, ...]

    def has(self, *names: str) -> bool:
        return any(flag.name in names for flag in self.flags)

    def values(self, *names: str) -> tuple[str, ...]:
        return tuple(
            flag.value for flag in self.flags if flag.name in names and flag.value is not None
        )


def anything(found: ParsedFlags) -> bool:
    """Accept everything; the check of a program whose flags alone decide."""
    return True


@dataclass(frozen=True)
class Program:
    """A program that only reads if it has no other flags than these and passes `check`.

    Flags are separated by blanks; a word of one dash and several letters (`-abc`) means as many
    flags.
    """

    switches: str = ""
    """Flags without a value; `-#` means any number (`head -20`)."""
    valued: str = ""
    """Flags with a value: `-n 5`, `-n5`, `--lines 5`, `--lines=5`."""
    optional: str = ""
    """Flags with an optional value in the same word: `-U5`, `--color=always`."""
    _: KW_ONLY
    opens: bool = True
    """Whether the operands are files whose content is shown or compared, so that secrets need
    approval."""
    patterns: int = 0
    """How many of the first operands are not files but a pattern or a script."""
    pattern_flags: str = ""
    """Flags with which all operands are files."""
    most: int | None = None
    """How many operands are only read; the next one would be written."""
    whatever: bool = False
    """Whether it is read-only with any flag, so that a glob may become one."""
    clusters: bool = True
    """Whether `-ab` means `-a -b`."""
    check: Callable[[ParsedFlags], bool] = anything


@cache
def flags(text: str) -> frozenset[str]:
    """Return the names in one of the texts of a Program."""
    names: set[str] = set()
    for word in text.split():
        names |= {word} if word.startswith("--") else {f"-{letter}" for letter in word[1:]}
    return frozenset(names)


def parse_flags(known: Program, words: Sequence[Word]) -> ParsedFlags | None:
    """Split the words into flags and operands; None if a flag is unknown, or a glob could become
    one."""
    found: list[Flag] = []
    operands: list[Word] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.text == "--":
            return _checked(known, found, [*operands, *rest])
        if not word.text.startswith("-") or word.text == "-":
            if word.globs and word.text[0] in _GLOB and not known.whatever:
                return None
            operands.append(word)
            continue
        # Every name that `--include=*.py` matches begins with the same flag.
        is_certain = not word.globs or re.match(r"--[a-z-]+=", word.text) is not None
        more = _flag(known, word.text, rest) if is_certain else None
        if more is None:
            return None
        found += more
    return _checked(known, found, operands)


def own_operands(known: Program, found: ParsedFlags) -> int:
    """Return how many of the first operands are not files."""
    return 0 if found.has(*flags(known.pattern_flags)) else known.patterns


def files_of(known: Program, found: ParsedFlags) -> list[Word]:
    """Return the operands that are files, and values that may be; not what is searched for."""
    values = [
        Word(flag.value) for flag in found.flags if flag.value and flag.name not in _NAMES_NO_FILE
    ]
    return [*found.operands[own_operands(known, found) :], *values]


def _flag(known: Program, text: str, rest: list[Word]) -> list[Flag] | None:
    switches, valued, optional = flags(known.switches), flags(known.valued), flags(known.optional)
    if "-#" in switches and _NUMBER.fullmatch(text):
        return [Flag("-#", text[1:])]
    if text.startswith("--"):
        name, given, value = text.partition("=")
        if given:
            return [Flag(name, value)] if name in valued | optional else None
        if name in valued:
            return _with_next(known, name, rest)
        return [Flag(name)] if name in switches | optional else None
    found: list[Flag] = []
    for at, letter in enumerate(text[1:], start=2):
        name = f"-{letter}"
        glued = text[at:]
        if name in optional:
            return [*found, Flag(name, glued or None)]
        if name in valued:
            last = [Flag(name, glued)] if glued else _with_next(known, name, rest)
            return None if last is None else [*found, *last]
        if name not in switches or (len(text) > 2 and not known.clusters):
            return None
        found.append(Flag(name))
    return found


def _with_next(known: Program, name: str, rest: list[Word]) -> list[Flag] | None:
    """Return the next word as the value, unless another version of the program might read it as a
    flag."""
    if not rest or (rest[0].globs and not known.whatever):
        return None
    value = rest.pop(0).text
    if value.startswith("-") and name not in _MAY_BE_DASHED and _NUMBER.fullmatch(value) is None:
        return None
    return [Flag(name, value)]


def _checked(known: Program, given: list[Flag], operands: list[Word]) -> ParsedFlags | None:
    if known.most is not None and (
        len(operands) > known.most or any(word.globs for word in operands)
    ):
        return None
    if known.patterns and not known.whatever and operands and operands[0].globs:
        return None
    found = ParsedFlags(tuple(given), tuple(operands))
    return found if known.check(found) else None
