"""Finds what a simple command runs besides itself, and all other spellings of it.

A rule that denies commands is matched against all of these. Every word may contain `HOLE`: text
that is unknown before the line runs. A surplus entry costs a question; a missing one is a way
around a rule.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import pairwise

from codeagent.core.dataclass import dataclass
from codeagent.core.patterns import HOLE
from codeagent.tools.shell.carriers import NO_FEED, Feed, carries, program_within, renamed
from codeagent.tools.shell.known_git import GIT_COMMANDS
from codeagent.tools.shell.programs import EVALUATE, RUN_BEHIND, RUNNERS, SHELLS, word_set
from codeagent.tools.shell.reading_programs import SYSTEM_PROGRAMS, TEXT_PROGRAMS
from codeagent.tools.shell.settings import chooses

_ADD_WORDS = word_set("xargs parallel sem")
_REPLACES = re.compile(r"(?:-I|--replace=|-J)(.*)", re.DOTALL)
_HIDE = word_set("source . alias hash enable complete compgen bind fc at batch")
"""Programs that run something from a file, or later under another name."""
_GIT_KNOWN = frozenset(GIT_COMMANDS) | word_set("""
    add commit checkout switch restore merge mv rm reset cherry-pick revert push pull init apply am
    clean fetch clone notes gc help version rebase
""")
_DATA = (
    frozenset(TEXT_PROGRAMS)
    | frozenset(SYSTEM_PROGRAMS)
    | word_set("""
    cp mv ln mkdir rmdir touch rm tee chmod chown test [ [[ read export
""")
    | word_set("""
    declare local readonly typeset unset shift return break continue wait let
""")
    | {"kill", "pkill", "killall"}
) - {"env"}
"""Programs that use every word as a name or text, never as a command."""
_RUN_THEIR_VALUE = tuple(
    word_set("""
    -c -x -O --exec --pre --compress-program --open-files-in-pager --upload-pack
""")
)
"""Prefixes of flags of such programs that are followed by a command, or a setting that may name
one."""
_FLAG = re.compile(r"[-+].+", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=(.*)", re.DOTALL)
_GLUED = re.compile(r"--?[\w-]*?=(.+)|-[A-Za-z](.+)", re.DOTALL)
_CODE_FLAG = re.compile(r"-\w*c\w*")
_COMMAND_LINE = re.compile(r"[\s;&|<>()`$]")
_TOKEN = re.compile(r"[^\s'\"`;|&()<>,\[\]{}=!:]+")
_CHOOSES = re.compile(r"\b(?:BASH_ENV|GIT_CONFIG\w*|GIT_EXEC_PATH)\+?=")
"""Matches a variable that names a file with commands, or defines a git alias."""
_ESCAPED_BLANK = re.compile(r"\\[nrtvf]")
_UNSURE_FILES = ("/dev/", "/proc/")
_LONGEST = 64
"""The most words of one spelling; the rest counts as unknown."""
_MENTIONED = 8
_MOST_STARTS = 400
_MOST_MENTIONS = 4_000
_MOST_READ = 20_000
"""The most words, counted for each program that they may be words of."""
_PLAINLY = 10
"""The most nested commands that can still be allowed."""


@dataclass
class PossibleRuns:
    """Collects everything that a command may run, in the order it is found."""

    script: Callable[[str], None]
    """Parses a command line that a command gets as text."""
    spellings: dict[str, None] = field(default_factory=dict)
    perhaps: dict[str, None] = field(default_factory=dict)
    """Spellings of what may run, or may be only text."""
    unseen: bool = False
    """Whether there may be more that none of these matches."""
    _mentioned: set[str] = field(default_factory=set)
    carried: str = ""
    """The first words with which a known program can be made to run anything, which none of these
    matches either."""

    def command(
        self,
        words: Sequence[str],
        holed: Sequence[str],
        line: str,
        *,
        fed: Feed = NO_FEED,
        reads: bool = False,
    ) -> list[str]:
        """Add a simple command and return the commands within it as parts, the outermost first.

        `holed` are the words with `HOLE`. `fed`: what the line may give to its input.
        `reads`: it is known to only read, so its words are not commands, except where one is run.
        """
        within: list[str] = []
        holed, starts = command_starts(holed)
        self.unseen = self.unseen or len(starts) > _MOST_STARTS
        for at in starts[:_MOST_STARTS] + starts[_MOST_STARTS:][-_PLAINLY:]:
            rest = holed[at:]
            self.spellings.update(dict.fromkeys(_spellings(rest)))
            if at:
                within.append(
                    " ".join(
                        [*(_ASSIGNMENT.findall(words[at - 1]) and words[at - 1 : at]), *words[at:]]
                    )
                )
            self._given(rest, line)
        if not reads:
            self._carried(holed, starts[:_MOST_STARTS], fed)
        if not reads and holed and not self._is_data(holed):
            self.mention(" ".join(holed[1:]))
            if fed.line:
                self.mention(line)
        return within

    def carry(self, what: str) -> None:
        """Note what can make a program run anything."""
        self.carried = self.carried or what

    def may_run(self, words: Sequence[str]) -> None:
        """Add what may be a command, with anything after it."""
        self.perhaps.update(dict.fromkeys(_spellings([*words[:_MENTIONED], HOLE])))

    def mention(self, text: str) -> None:
        """Add every word with which a command could begin, in a text that a program may run or
        split."""
        if text in self._mentioned:
            return
        self._mentioned.add(text)
        tokens = [
            token for token in map(_bare, _TOKEN.findall(_ESCAPED_BLANK.sub(" ", text))) if token
        ]
        self.unseen = (
            self.unseen or len(tokens) > _MOST_MENTIONS or _CHOOSES.search(text) is not None
        )
        for at, token in enumerate(tokens[:_MOST_MENTIONS]):
            glued = token[2:] if token.startswith("-") and not token.startswith("--") else ""
            if glued or not token.startswith(("-", HOLE)):
                rest = [glued or token, *tokens[at + 1 : at + _MENTIONED]]
                self.perhaps.update(
                    dict.fromkeys(_spellings([*rest, HOLE] if len(rest) == _MENTIONED else rest))
                )

    def _carried(self, words: Sequence[str], starts: Sequence[int], fed: Feed) -> None:
        """Add what the commands that begin at these places may run through options, their own
        words, or a new name."""
        todo, done = [*starts], set[int]()
        while todo:
            at = todo.pop()
            if at in done:
                continue
            done.add(at)
            if len(done) > _PLAINLY and len(done) * len(words) > _MOST_READ:
                self.carry("a line of so many programs")
                return
            rest = words[at:]
            if (setting := _setting(rest[0])) is not None:
                self.carry(f"{setting[0]}=" if chooses(*setting) else "")
                todo += [at + 1] if len(rest) > 1 else []
                continue
            self.carry(carries(rest, fed))
            for texts in renamed(rest):
                self.perhaps.update(dict.fromkeys(_spellings([*texts[:_MENTIONED], HOLE])))
            own = program_within(rest)
            if name_of(rest[0]) in RUNNERS or own is not None:
                for before, word in pairwise(rest):
                    setting = None if before in ("-e", "--env") else _setting(word)
                    self.carry(
                        f"{setting[0]}=" if setting is not None and chooses(*setting) else ""
                    )
            for behind in () if own is None else _behind_flags(rest, *own)[:_MENTIONED]:
                todo += [at + behind + inner for inner in self._within(rest, behind)]

    def _within(self, rest: Sequence[str], at: int) -> list[int]:
        """Add what may begin at this place among a program's words; return where commands in it
        begin."""
        inner = rest[at:]
        if inner[0] != HOLE and HOLE in inner[0] and rest[at - 1].startswith("-"):
            return []  # a path, the value of the flag before it
        starts = list(_starts(inner))
        for start in starts:
            self.perhaps.update(dict.fromkeys(_spellings(inner[start:])))
            name = name_of(inner[start])
            operands = inner[start + 1 :]
            if name in EVALUATE or (
                name in SHELLS and (not operands or any(map(_CODE_FLAG.fullmatch, operands)))
            ):
                self.carry(f"{name_of(rest[0])} {name}")
        return starts

    def _given(self, rest: Sequence[str], line: str) -> None:
        """Return the command lines that the command at this place gets as text."""
        name = name_of(rest[0])
        match name:
            case "eval":
                self._line(" ".join(rest[1:]))
            case "trap":
                for word in _operands(rest)[:1]:
                    self._line(word)
            case _ if name in SHELLS and any(map(_CODE_FLAG.fullmatch, rest[1:])):
                for word in _operands(rest)[:3]:
                    self._line(word)
                self.unseen = self.unseen or not _operands(rest)
            case _ if name in SHELLS:
                first = next(iter(_operands(rest)), "-")
                unsure = HOLE in first or first == "-" or first.startswith(_UNSURE_FILES)
                self.unseen = self.unseen or "-s" in rest or unsure
                self.mention(line)
            case _ if name in _HIDE or (
                name in _ADD_WORDS - {"xargs"} and not _operands(rest)[:-1]
            ):
                self.unseen = True
            case _ if name in RUNNERS:
                self._own_texts(rest)
            case _:
                pass

    def _own_texts(self, words: Sequence[str]) -> None:
        """Yield the values of a runner's flags, and its first word, if they are a whole command
        line."""
        for at, word in enumerate(words[1:], start=1):
            glued = _GLUED.fullmatch(word) if word.startswith("-") else None
            value = word if glued is None else glued[1] or glued[2]
            if _COMMAND_LINE.search(value):
                self._line(value)
            if glued is not None:
                self.spellings.update(
                    dict.fromkeys(_spellings([value, *words[at + 1 : at + 1 + _LONGEST]]))
                )
            elif name_of(word) in RUNNERS or not (
                word.startswith("-") or words[at - 1].startswith("-")
            ):
                return

    def _line(self, text: str) -> None:
        self.unseen = self.unseen or HOLE in text
        self.script(text.replace(HOLE, "$_"))

    def _is_data(self, words: Sequence[str]) -> bool:
        """Whether none of the words is a command."""
        name = name_of(words[0])
        if name != "git":
            return name in _DATA and not any(word.startswith(_RUN_THEIR_VALUE) for word in words)
        if any(
            re.search(r"alias\.|include\w*\.|^--exec-path=|^--config-env", word) for word in words
        ):
            self.unseen = True
        at = next(iter(_behind_flags(words, 1)), len(words))
        return not any(word.startswith(_RUN_THEIR_VALUE) for word in words) and any(
            word in _GIT_KNOWN for word in words[at : at + 2]
        )


def _setting(word: str) -> tuple[str, str] | None:
    """Split a word that assigns a variable."""
    match = _ASSIGNMENT.fullmatch(word)
    return None if match is None else (word[: match.start(1)].rstrip("+="), match[1])


def name_of(word: str) -> str:
    """Return the program's name without its folder."""
    return word.rpartition("/")[2] or word


def is_plain(within: Sequence[str]) -> bool:
    """Whether the nested commands are few and without settings, so that each can be judged
    separately."""
    return len(within) <= _PLAINLY and not any(map(_ASSIGNMENT.match, within))


def command_starts(words: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return the words of a command, with holes where one of its programs inserts or appends words,
    and the indexes at which a command may begin."""
    holed = _completed(words)
    return holed, sorted(_starts(holed))


def _starts(words: Sequence[str]) -> Iterator[int]:
    """Return the indexes at which a command begins: the first word, and the words after everything
    that runs others."""
    first = next((at for at, word in enumerate(words) if not _ASSIGNMENT.fullmatch(word)), 0)
    todo, done, marked = [first], set[int](), dict(RUN_BEHIND)
    while todo:
        at = todo.pop()
        if at in done or at >= len(words):
            continue
        done.add(at)
        yield at
        name = name_of(words[at])
        if name == "command" and at + 1 < len(words) and words[at + 1] in ("-v", "-V"):
            continue
        if name in RUNNERS:
            todo += _behind_flags(words, at + 1, RUNNERS[name])
        if (marks := marked.pop(name, None)) is not None:
            todo += [place for place, word in enumerate(words[at:], start=at + 1) if word in marks]


def _behind_flags(words: Sequence[str], at: int, own: int = 0) -> list[int]:
    """Return the indexes at which a command may begin after flags, assignments and `own` words of
    the program.

    The word after a flag may be its value, or not.
    """
    found: list[int] = []
    left = {own}
    while at < len(words) and left and len(found) <= _MOST_STARTS:
        if (
            not _FLAG.fullmatch(words[at])
            and words[at] != "-"
            and not _ASSIGNMENT.fullmatch(words[at])
        ):
            is_added = words[at] == HOLE and at + 1 == len(words) and found
            found += [at] if 0 in left and not is_added else []
            if name_of(words[at]) in RUNNERS and 0 in left:
                return found
            values = left if words[at - 1].startswith("-") else set()
            left = values | {size - 1 for size in left if size > 0}
        at += 1
    return found


def _completed(words: Sequence[str]) -> list[str]:
    """Return the words of a command, with holes where one of its programs inserts or appends
    words."""
    names = [name_of(word) for word in words]
    at = next(
        (at for at, name in enumerate(names) if name in _ADD_WORDS or name in RUN_BEHIND), None
    )
    if at is None:
        return list(words)
    marks = {match[1] for word in words[at:] if (match := _REPLACES.fullmatch(word))}
    marks |= {value for flag, value in pairwise(words[at:]) if flag in ("-I", "-J")}
    rest = list(words[at + 1 :])
    for mark in {"{}", *marks} - {""}:
        rest = [word.replace(mark, HOLE) for word in rest]
    return [*words[: at + 1], *rest, *([HOLE] if names[at] in _ADD_WORDS else [])]


def _spellings(words: Sequence[str]) -> Iterator[str]:
    """Return the command under its bare name, without its flags, and without the flags before its
    subcommand."""
    cut = list(words[:_LONGEST]) + ([HOLE] if len(words) > _LONGEST else [])
    places = {cut[0], name_of(cut[0])}
    if "/" in cut[0]:
        places |= {path := posixpath.normpath(cut[0]), f"./{path}"}
    if (own := name_of(cut[0])).startswith("git-"):
        yield from _spellings(["git", own.removeprefix("git-"), *cut[1:]])
    tails = [cut[1:], [word for word in cut[1:] if not _FLAG.fullmatch(word)]]
    if len(cut) > 1 and _FLAG.fullmatch(cut[1]):
        tails += [cut[start:] for start in _behind_flags(cut, 1)]
    for tail in tails:
        for place in places:
            yield " ".join([place, *tail])


def _operands(words: Sequence[str]) -> list[str]:
    return [word for word in words[1:] if not _FLAG.fullmatch(word)]


def _bare(token: str) -> str:
    return token.replace("\\", "").strip("/") if token.strip("/.") else ""
