"""The strict reading of a command line: a small part of the shell's language, and nothing outside of it.

It is the second of two: `shell_syntax` parses every line and is right about most. A line is only taken to read where
both see the same commands, so a construct that one of them misunderstands is asked about.
"""

import re
import unicodedata
from dataclasses import dataclass

from codeagent.core.paths import IGNORABLE

_BARE = re.compile(r"[A-Za-z0-9_./:,+@%=^~!*?\[\]#-]|[^\x00-\x7f]")
_ESCAPED = re.compile(r"\\([ -~])")
_SINGLE = re.compile(r"'([^']*)'")
_KNOWN = "HOME|PATH|PWD|USER|LOGNAME|SHELL|LANG|TERM|TMPDIR|HOSTNAME|EDITOR|VIRTUAL_ENV"
"""Variables that every environment has, and that nothing of the strict language sets."""
_DOUBLE = re.compile(r'"((?:[^"$`\\]|\\[^\n]|\$(?:NAMES)\b)*\$?)"'.replace("NAMES", _KNOWN))
_VARIABLE = re.compile(rf"\$(?:{_KNOWN})\b")
_IN_DOUBLE = re.compile(r'\\([$`"\\])')
_BRACES = re.compile(r"(?<=[@^])\{[\w/-]*\}")
"""As git writes them (`HEAD@{1}`, `HEAD^{tree}`); without a comma or two dots the shell leaves them alone."""
_EMPTY_BRACES = re.compile(r"\{\}")
_BLANK = re.compile(r"[ \t]+(?:\\\n[ \t]*)*")
"""A line goes on after a backslash: only behind a blank, where it cannot join two halves of a word."""
_COMMENT = re.compile(r"#[^\n]*")
_NOWHERE = re.compile(r"(?:[012]?>>?|&>>?)[ \t]*/dev/null(?=[\s;|&()]|$)|[012]?>&[12](?=[\s;|&()]|$)")
_FROM = re.compile(r"0?<(?![<(&>])[ \t]*")
_ENDS = re.compile(r"&&|\|\||;(?!;)|\|(?!&)|\n")
_BEFORE_A_COMMAND = frozenset({"!", "{", "}", "if", "then", "elif", "else", "fi"})
_GLOB = frozenset("*?[")
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})


@dataclass(frozen=True)
class Word:
    text: str
    """Without its quotes."""
    globs: bool = False
    """The shell may put any number of file names in its place, or leave it as it is."""
    plain: bool = True
    """Nothing in it is quoted."""
    expands: bool = False
    """A variable of the environment stands in it."""

    @property
    def may_become_a_flag(self) -> bool:
        return self.globs and self.text[0] in _GLOB


@dataclass(frozen=True)
class SimpleCommand:
    words: tuple[Word, ...]
    """The first is the program's name."""
    reads: tuple[Word, ...] = ()
    """Files its standard input is taken from."""

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)


class _NotStrict(Exception):
    """The line holds something that this reading does not know."""


def strict_commands(line: str) -> tuple[SimpleCommand, ...] | None:
    """Every simple command in order; None where anything is outside the strict language.

    Within it are words, quotes, globs, `~`, comments, `; && || |`, newlines, `( )`, `{ }`, `!`, `if`, `< file`, and
    redirections to /dev/null or between the output streams, and `$HOME` and the like. Everything else that expands,
    and all that assigns or writes, is not.
    """
    if IGNORABLE.search(line) or any(unicodedata.category(c) in _UNSEEN and c not in " \t\n" for c in line):
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
        """A `)` was the last thing: only the end of the command or a redirection may follow."""

    def commands(self) -> tuple[SimpleCommand, ...]:
        while self._at < len(self._line):
            if not self._takes_blank_or_end() and not self._takes_redirection():
                self._take_word()
        self._end()
        return tuple(self._done)

    def _takes_blank_or_end(self) -> bool:
        if self._skip(_BLANK) or self._skip(_COMMENT):
            return True
        if self._skip(_ENDS):
            self._end()
            return True
        if self._line.startswith("((", self._at):
            raise _NotStrict
        if self._line[self._at] == "(" and not self._words and not self._reads and not self._closed:
            self._at += 1
            return True
        if self._line[self._at] == ")":
            self._at += 1
            self._end()
            self._closed = True
            return True
        return False

    def _takes_redirection(self) -> bool:
        if self._skip(_NOWHERE):
            return True
        if not self._skip(_FROM):
            return False
        word = self._word()
        if word.globs or word.expands:
            raise _NotStrict
        self._reads.append(word)
        return True

    def _take_word(self) -> None:
        word = self._word()
        if self._closed:
            raise _NotStrict
        if not self._words and word.plain and word.text in _BEFORE_A_COMMAND:
            return
        self._words.append(word)

    def _word(self) -> Word:
        text, globs, plain, expands, start = "", False, True, False, self._at
        while self._at < len(self._line):
            if match := _BARE.match(self._line, self._at):
                piece = match[0]
                globs = globs or piece in _GLOB
            elif match := _ESCAPED.match(self._line, self._at) or _SINGLE.match(self._line, self._at):
                piece, plain = match[1], False
            elif match := _DOUBLE.match(self._line, self._at):
                piece, plain = _IN_DOUBLE.sub(r"\1", match[1]), False
                expands = expands or _VARIABLE.search(re.sub(r"\\.", "", match[1])) is not None
            elif match := _VARIABLE.match(self._line, self._at):
                piece, plain, expands = match[0], False, True
            elif match := self._braces(start):
                piece = match[0]
            else:
                break
            text += piece
            self._at = match.end()
        if self._at == start or (globs and not text.strip("[]")):
            return self._lone(start)
        return Word(text, globs, plain, expands)

    def _lone(self, start: int) -> Word:
        """`[` and `]` by themselves, `{` and `}` around commands."""
        text = self._line[start : self._at] or self._line[start : start + 1]
        if text not in ("[", "]", "[[", "]]", "{", "}"):
            raise _NotStrict
        self._at = start + len(text)
        if text in "{}" and (self._words or (self._at < len(self._line) and self._line[self._at] not in " \t\n;|&)")):
            raise _NotStrict
        return Word(text)

    def _braces(self, start: int) -> re.Match[str] | None:
        return _EMPTY_BRACES.match(self._line, self._at) or (
            _BRACES.match(self._line, self._at) if self._at > start else None
        )

    def _skip(self, what: re.Pattern[str]) -> bool:
        match = what.match(self._line, self._at)
        if match is None:
            return False
        self._at = match.end()
        return True

    def _end(self) -> None:
        if self._reads and not self._words:
            raise _NotStrict
        if self._words:
            self._done.append(SimpleCommand(tuple(self._words), tuple(self._reads)))
        self._words, self._reads, self._closed = [], [], False
