"""Whether one simple command is known to only read, and which secret it names."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from codeagent.core.policy import SYSTEM_FOLDER
from codeagent.tools.reading.flags import Arguments, Program, arguments, files_of, program
from codeagent.tools.reading.git import GIT
from codeagent.tools.reading.languages import AWK_VARIABLE, awk_prints, find_reads, sed_prints, tar_lists, test_reads
from codeagent.tools.reading.secrets import OPENS_NOTHING, Opened, never_ends, secret_named
from codeagent.tools.reading.surroundings import SURROUNDINGS, VERSIONS
from codeagent.tools.reading.texts import TEXTS
from codeagent.tools.reading.words import SimpleCommand, Word

_PROGRAMS = TEXTS | SURROUNDINGS
_SED = program(
    "-nErsuz --quiet --silent --regexp-extended --separate --null-data --posix",
    "-e --expression",
    patterns=1,
    pattern_flags="-e --expression",
    check=lambda found: all(map(sed_prints, found.values("-e", "--expression") or _first_of(found))),
)
_AWK = program(
    "--posix",
    "-Fv",
    patterns=1,
    check=lambda found: (
        all(map(awk_prints, _first_of(found)))
        and bool(found.operands)
        and all(AWK_VARIABLE.fullmatch(value) for value in found.values("-v"))
    ),
)
_XARGS = program("-0rt --null --no-run-if-empty --verbose", "-nLPIds --max-args --max-lines --max-procs --delimiter")
_TIMEOUT = program("--foreground --preserve-status", "-ks --kill-after --signal")
_GIT_FLAGS = program("-P --no-pager --no-optional-locks --literal-pathspecs --no-replace-objects", "-C")
_HAS_SUBCOMMANDS = frozenset({"stash", "worktree"})
"""Where a flag comes first, git takes its word for what is to be done."""
_SWEEP = frozenset({"rg", "ag", "ack", "diff"})
"""They read folders as a whole without a flag that says so."""
_ONLY_NAMES = frozenset({
    "status", "branch", "rev-parse", "log", "remote", "tag", "ls-files", "ls-tree", "describe", "reflog", "shortlog",
    "merge-base", "rev-list", "for-each-ref", "symbolic-ref", "check-ignore", "version", "config", "worktree", "blame",
})  # fmt: skip
"""What git does with these shows no file's content, or only that of the file that is named."""
_DURATION = re.compile(r"\d{1,4}(?:\.\d+)?[sm]?")


@dataclass(frozen=True)
class Judged:
    reads: bool
    opened: Opened = OPENS_NOTHING
    secret: str | None = None
    """Why a person is asked although it only reads: what it reads may be a secret."""


_ASKS = Judged(reads=False)


def judge(command: SimpleCommand) -> Judged:
    """Whether the command changes nothing, runs nothing else and comes to an end by itself; what is not known asks."""
    judged = _judge(command.words)
    for word in command.reads:
        if never_ends(word):
            return _ASKS
        reason = secret_named(word)
        if reason is not None:
            return Judged(reads=False, secret=reason)
    return judged


def _judge(words: Sequence[Word]) -> Judged:
    if not words or not words[0].plain or words[0].globs:
        return _ASKS
    if words[0].text != "echo" and any(word.expands for word in words):
        return _ASKS
    name, rest = SYSTEM_FOLDER.sub("", words[0].text) if words[0].text.startswith("/") else words[0].text, words[1:]
    if len(rest) == 1 and rest[0].text in VERSIONS.get(name, ()):
        return Judged(reads=True)
    match name:
        case "echo":
            return Judged(reads=True)  # what is no flag to it is printed
        case "git":
            return _git(rest)
        case "find":
            runs = any(word.text.startswith(("-exec", "-ok")) for word in rest)
            return Judged(reads=find_reads(rest, _reads_each), opened=Opened(whole=runs))
        case "test":
            return Judged(reads=test_reads(rest))
        case "[" | "[[":
            closed = bool(rest) and rest[-1].text == name.replace("[", "]")
            return Judged(reads=closed and test_reads(rest[:-1]))
        case "tar":
            return Judged(reads=tar_lists(rest))
        case "sed":
            return _by(_SED, rest)
        case "awk" | "gawk" | "mawk":
            return _by(_AWK, rest)
        case "command":
            return Judged(reads=_only_looks_up(rest))
        case "time":
            return _ASKS if not rest or rest[0].text.startswith("-") else _judge(rest)
        case "timeout":
            return _after(_TIMEOUT, rest, _DURATION)
        case "xargs":
            return _xargs(rest)
        case _:
            known = _PROGRAMS.get(name)
            return _ASKS if known is None else _by(known, rest, sweeps=name in _SWEEP)


def _by(known: Program, words: Sequence[Word], *, sweeps: bool = False) -> Judged:
    found = arguments(known, words)
    if found is None or any(never_ends(word) for word in [*found.operands, *map(Word, _values(found))]):
        return _ASKS
    if known.opens:
        for word in files_of(known, found):
            reason = secret_named(word)
            if reason is not None:
                return Judged(reads=False, secret=reason)
    sweeps = known.opens and (sweeps or found.has("-r", "-R", "--recursive", "--dereference-recursive"))
    without = len(found.operands) <= (0 if found.has(*known.pattern_flags) else known.patterns)
    return Judged(reads=True, opened=Opened(tuple(files_of(known, found)), sweeps, sweeps and without))


def _git(words: Sequence[Word]) -> Judged:
    """The flags in front of the subcommand, then what the subcommand knows."""
    at = _past_flags(_GIT_FLAGS, words)
    if at is None or at >= len(words) or not words[at].plain:
        return _ASKS
    known, rest = GIT.get(words[at].text), words[at + 1 :]
    if words[at].text in _HAS_SUBCOMMANDS and (not rest or rest[0].text.startswith("-")):
        return _ASKS
    sweeping = words[at].text not in _ONLY_NAMES or any(word.text in ("-p", "-u", "--patch") for word in rest)
    judged = _ASKS if known is None else _by(known, rest)
    return replace(judged, opened=replace(judged.opened, whole=sweeping))


def _after(known: Program, words: Sequence[Word], operand: re.Pattern[str]) -> Judged:
    """What a wrapper runs behind its flags and one operand."""
    at = _past_flags(known, words)
    if at is None or at + 1 >= len(words) or operand.fullmatch(words[at].text) is None:
        return _ASKS
    return _judge(words[at + 1 :])


def _xargs(words: Sequence[Word]) -> Judged:
    """It adds words nobody knows yet: only to a program that reads whatever its flags, and never into its name."""
    at = _past_flags(_XARGS, words)
    if at is None or at >= len(words):
        return _ASKS
    own = arguments(_XARGS, words[:at])
    if own is None or any(text in words[at].text for text in own.values("-I")) or not _reads_each(words[at:]):
        return _ASKS
    judged = _judge(words[at:])
    return replace(judged, opened=replace(judged.opened, whole=True))


def _reads_each(words: Sequence[Word]) -> bool:
    """A program that only reads whatever words are added to it: no flag of it does more."""
    known = _PROGRAMS.get(words[0].text) if words else None
    return known is not None and known.whatever and _judge(words).reads


def _past_flags(known: Program, words: Sequence[Word]) -> int | None:
    """How many of the first words are the program's own flags and their values; None where one is not known."""
    at = 0
    while at < len(words) and words[at].text.startswith("-"):
        taken = next((size for size in (1, 2) if _is_flags(known, words[at : at + size])), None)
        if taken is None:
            return None
        at += taken
    return at


def _is_flags(known: Program, words: Sequence[Word]) -> bool:
    found = arguments(known, words)
    return found is not None and not found.operands and words[0].text != "--"


def _only_looks_up(words: Sequence[Word]) -> bool:
    """`command -v NAME`, which runs nothing."""
    flag, *names = [word.text for word in words] or [""]
    return flag in ("-v", "-V") and not any(word.globs for word in words) and all(name[:1] != "-" for name in names)


def _first_of(found: Arguments) -> list[str]:
    return [word.text for word in found.operands[:1]]


def _values(found: Arguments) -> list[str]:
    return [flag.value for flag in found.flags if flag.value is not None]
