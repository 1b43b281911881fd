"""Judges whether a simple command only reads, which files it reads, and whether it names a file of
secrets.

A command needs approval if it names such a file, or uses a glob that is aimed at such files (`.e*`,
`*.pem`). It does not if it covers everything (`*`, a folder, a recursive search): such files read
as empty in the sandbox, and every search would have to ask. If not all of them could be hidden,
`sweeps` decides.
"""

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.paths import secret_reason
from codeagent.core.patterns import HOLE, SYSTEM_FOLDER
from codeagent.core.policy import ApprovalKey, EquivalentCall
from codeagent.tools.shell.known_git import GIT_COMMANDS
from codeagent.tools.shell.languages import (
    AWK_VARIABLE,
    awk_prints,
    find_reads,
    sed_prints,
    tar_lists,
    test_reads,
)
from codeagent.tools.shell.programs import word_set
from codeagent.tools.shell.reading_programs import SYSTEM_PROGRAMS, TEXT_PROGRAMS, VERSION_FLAGS
from codeagent.tools.shell.strict import (
    ParsedFlags,
    Program,
    SimpleCommand,
    Word,
    files_of,
    own_operands,
    parse_flags,
    strict_commands,
)

_SECRETS = word_set("""
    .env .env.local .env.production prod.env server.pem server.key cert.p12 cert.pfx store.jks
    app.keystore passwords.kdbx key.ppk id_rsa id_dsa id_ecdsa id_ed25519 .netrc .pgpass .npmrc
    .pypirc .git-credentials .htpasswd .dockercfg .vault-token credentials credentials.json
    credentials.yaml secrets.json secrets.yaml secrets.yml secret.toml secrets.ini secrets.txt
    service-account.json
""")
_ORDINARY = word_set("""
    a.py main.rs README.md index.ts package.json data.csv notes.txt x.yaml y.yml app.toml lib.c
    conf.ini Makefile test_a.py
""")
_GLOB = lazy_regex(r"[*?\[]")
"""Also in quotes: some programs match names themselves."""
_FOLDERS = word_set(".ssh .aws .gnupg .kube .azure")
_OTHER_FOLDERS = word_set("src tests docs lib app node_modules")
_ENDLESS = lazy_regex(
    r"(?:.*/)?dev/+(?:\./+)*(?:zero|full|u?random|hwrng|tty\w*|console|kmsg|mem|port|ptmx|pts/.*|std(?:in|out|err)|fd/.*"
    r"|tcp/.*|udp/.*)"
)
_READ = "read"
"""The tool whose rules apply to the files that commands read."""
_PROGRAMS = TEXT_PROGRAMS | SYSTEM_PROGRAMS
_XARGS = Program(
    "-0rt --null --no-run-if-empty --verbose",
    "-nLPIds --max-args --max-lines --max-procs --delimiter",
)
_TIMEOUT = Program("--foreground --preserve-status", "-ks --kill-after --signal")
_GIT_FLAGS = Program(
    "-P --no-pager --no-optional-locks --literal-pathspecs --no-replace-objects", "-C"
)
_HAS_SUBCOMMANDS = frozenset({"stash", "worktree"})
"""Flags that git obeys instead of running a subcommand."""
_SWEEP = word_set("rg ag ack diff")
"""Programs that read whole folders without needing a flag for it."""
_ONLY_NAMES = word_set("""
    status branch rev-parse log remote tag ls-files ls-tree describe reflog shortlog merge-base
    rev-list for-each-ref symbolic-ref check-ignore version config worktree blame
""")
"""These show no content of files, or only that of the file that is named; of a history, see
`_PATCHES`."""
_HISTORY = frozenset({"log", "reflog"})
_PATCHES = word_set("-p -u -U -c --patch --unified --cc --patch-with-stat --binary")
"""Flags with which a history shows content."""
_DURATION = lazy_regex(r"\d{1,4}(?:\.\d+)?[sm]?")


@dataclass(frozen=True)
class InputFiles:
    """The files whose text or names a read-only command shows."""

    files: tuple[Word, ...] = ()
    sweeps: bool = False
    """The files; a folder means everything in it."""
    whole: bool = False
    """Whether it reads everything."""
    shown: bool = False
    """Whether their content is shown, not only their names."""

    @property
    def unnamed(self) -> bool:
        """Whether it may show files that it does not name one by one."""
        return self.whole or self.sweeps or (self.shown and any(word.globs for word in self.files))


NO_FILES = InputFiles()


@dataclass(frozen=True)
class ReadVerdict:
    reads: bool
    opened: InputFiles = NO_FILES
    secret: str | None = None
    """Why a read-only command still needs approval: what it reads may be a secret."""


_ASKS = ReadVerdict(reads=False)


_SED = Program(
    "-nErsuz --quiet --silent --regexp-extended --separate --null-data --posix",
    "-e --expression",
    patterns=1,
    pattern_flags="-e --expression",
    check=lambda found: all(
        map(sed_prints, found.values("-e", "--expression") or _first_of(found))
    ),
)


_AWK = Program(
    "--posix",
    "-Fv",
    patterns=1,
    check=lambda found: (
        all(map(awk_prints, _first_of(found)))
        and bool(found.operands)
        and all(AWK_VARIABLE.fullmatch(value) for value in found.values("-v"))
    ),
)


def judge(command: SimpleCommand) -> ReadVerdict:
    """Judge whether a command changes nothing, runs nothing else and ends by itself; if unknown, it
    does not count."""
    judged = _judge(command.words)
    for word in command.reads:
        if never_ends(word):
            return _ASKS
        reason = secret_named(word)
        if reason is not None:
            return ReadVerdict(reads=False, secret=reason)
    return judged


def _judge(words: Sequence[Word]) -> ReadVerdict:
    if not words or not words[0].plain or words[0].globs:
        return _ASKS
    if words[0].text != "echo" and any(word.expands for word in words):
        return _ASKS
    name, rest = (
        SYSTEM_FOLDER.sub("", words[0].text) if words[0].text.startswith("/") else words[0].text,
        words[1:],
    )
    if len(rest) == 1 and rest[0].text in VERSION_FLAGS.get(name, ()):
        return ReadVerdict(reads=True)
    match name:
        case "echo":
            return ReadVerdict(reads=True)  # it prints everything that is not a flag
        case "git":
            return _git(rest)
        case "find":
            runs = any(word.text.startswith(("-exec", "-ok")) for word in rest)
            return ReadVerdict(reads=find_reads(rest, _reads_each), opened=InputFiles(whole=runs))
        case "test":
            return ReadVerdict(reads=test_reads(rest))
        case "[" | "[[":
            closed = bool(rest) and rest[-1].text == name.replace("[", "]")
            return ReadVerdict(reads=closed and test_reads(rest[:-1]))
        case "tar":
            return ReadVerdict(reads=tar_lists(rest))
        case "sed":
            return _by(_SED, rest)
        case "awk" | "gawk" | "mawk":
            return _by(_AWK, rest)
        case "command":
            only_looks_up = (
                bool(rest) and rest[0].text in ("-v", "-V") and not any(word.globs for word in rest)
            )
            return ReadVerdict(
                reads=only_looks_up and all(word.text[:1] != "-" for word in rest[1:])
            )
        case "time":
            return _ASKS if not rest or rest[0].text.startswith("-") else _judge(rest)
        case "timeout":
            at = _past_flags(_TIMEOUT, rest)
            if at is None or at + 1 >= len(rest) or _DURATION.fullmatch(rest[at].text) is None:
                return _ASKS
            return _judge(rest[at + 1 :])
        case "xargs":
            return _xargs(rest)
        case _:
            known = _PROGRAMS.get(name)
            return _ASKS if known is None else _by(known, rest, sweeps=name in _SWEEP)


def _by(known: Program, words: Sequence[Word], *, sweeps: bool = False) -> ReadVerdict:
    found = parse_flags(known, words)
    if found is None:
        return _ASKS
    values = [Word(flag.value) for flag in found.flags if flag.value is not None]
    if any(map(never_ends, [*found.operands, *values])):
        return _ASKS
    files = files_of(known, found)
    secrets = filter(None, map(secret_named, files if known.opens else ()))
    if (secret := next(secrets, None)) is not None:
        return ReadVerdict(reads=False, secret=secret)
    recursive = found.has("-r", "-R", "--recursive", "--dereference-recursive") or any(
        value and "recurse".startswith(value) for value in found.values("-d", "--directories")
    )
    sweeps = known.opens and (sweeps or recursive)
    without = len(found.operands) <= own_operands(known, found)
    return ReadVerdict(
        reads=True, opened=InputFiles(tuple(files), sweeps, sweeps and without, known.opens)
    )


def _git(words: Sequence[Word]) -> ReadVerdict:
    """Judge the flags before the subcommand, then the subcommand."""
    at = _past_flags(_GIT_FLAGS, words)
    if at is None or at >= len(words) or not words[at].plain:
        return _ASKS
    known, rest = GIT_COMMANDS.get(words[at].text), words[at + 1 :]
    if words[at].text in _HAS_SUBCOMMANDS and (not rest or rest[0].text.startswith("-")):
        return _ASKS
    judged = _ASKS if known is None else _by(known, rest)
    found = parse_flags(known, rest) if known is not None and words[at].text in _HISTORY else None
    sweeping = words[at].text not in _ONLY_NAMES or (found is not None and found.has(*_PATCHES))
    return replace(judged, opened=replace(judged.opened, whole=sweeping))


def _xargs(words: Sequence[Word]) -> ReadVerdict:
    """Judge xargs, which adds unknown words: its program must be read-only whatever its flags
    are."""
    at = _past_flags(_XARGS, words)
    if at is None or at >= len(words):
        return _ASKS
    own = parse_flags(_XARGS, words[:at])
    if (
        own is None
        or any(text in words[at].text for text in own.values("-I"))
        or not _reads_each(words[at:])
    ):
        return _ASKS
    judged = _judge(words[at:])
    return replace(judged, opened=replace(judged.opened, whole=True))


def _reads_each(words: Sequence[Word]) -> bool:
    """Whether the program is read-only, whatever words are added to it."""
    known = _PROGRAMS.get(words[0].text) if words else None
    return known is not None and known.whatever and _judge(words).reads


def _past_flags(known: Program, words: Sequence[Word]) -> int | None:
    """Count the first words that are the program's own flags and their values; None if one is
    unknown."""
    at = 0
    while at < len(words) and words[at].text.startswith("-"):
        found = (parse_flags(known, words[at : at + size]) for size in (1, 2))
        taken = next(
            (
                size
                for size, own in enumerate(found, start=1)
                if own is not None and not own.operands
            ),
            0,
        )
        if not taken or words[at].text == "--":
            return None
        at += taken
    return at


def _first_of(found: ParsedFlags) -> list[str]:
    return [word.text for word in found.operands[:1]]


def secret_named(word: Word) -> str | None:
    """Return why the word may name a file or a folder of secrets, as a phrase."""
    for text in (word.text, word.text.rpartition(":")[2]):
        reason = secret_reason(text)
        if reason is not None:
            return reason
        if secret_reason(f"{text}/any") is not None:
            return f"{text} is a folder that usually holds credentials"
        *folders, name = text.split("/")
        aims = any(_aims(folder, _FOLDERS, _OTHER_FOLDERS) for folder in folders)
        if _GLOB.search(text) and (aims or _aims(name, _SECRETS | _FOLDERS, _ORDINARY)):
            return f"{text} may match a file of secrets"
    return None


def never_ends(word: Word) -> bool:
    """Whether the word names a device whose reading never ends, or waits."""
    return _ENDLESS.fullmatch(word.text) is not None or (
        word.globs and word.text.startswith("/dev")
    )


def _aims(pattern: str, secrets: frozenset[str], others: frozenset[str]) -> bool:
    return _matches(pattern, secrets) and not _matches(pattern, others)


def _matches(pattern: str, names: frozenset[str]) -> bool:
    """Whether the pattern matches a name; as in the shell, only a dot matches a leading dot."""
    hidden_too = not pattern.startswith(("*", "?"))
    return any(
        fnmatchcase(name, pattern) for name in names if hidden_too or not name.startswith(".")
    )


@lru_cache(maxsize=64)
def sweeps(line: str) -> bool:
    """Whether a read-only line may show files that it does not name one by one; True if in
    doubt."""
    commands = strict_commands(line)
    return commands is None or any(
        not its.reads or its.opened.unnamed for its in map(judge, commands)
    )


def equivalent_read(commands: Sequence[tuple[SimpleCommand, InputFiles]]) -> EquivalentCall:
    """Return the question for the `read` tool that is equivalent to these read-only commands.

    A rule on reading applies to the files that they name, and asks about words that may mean such a
    file: a glob, a path in another folder, a folder that is read as a whole. Listing names (`find`,
    `git status`) does not count.
    """
    named: list[str] = []
    perhaps: list[str] = []
    bases = [""]
    for command, opened in commands:
        if command.texts[0] == "cd":
            bases.append(_joined(bases[-1], opened.files[0]) if opened.files else HOLE)
            continue
        for word in (*opened.files, *command.reads):
            certain = (
                len(bases) == 1
                and not _GLOB.search(word.text)
                and not word.text.startswith(("/", "~"))
            )
            paths = list(_files(word, bases))
            (
                named if certain and not any(path.startswith("..") for path in paths) else perhaps
            ).extend(paths)
            if opened.sweeps:
                perhaps += [HOLE if path == "." else f"{path}/{HOLE}" for path in paths]
        if opened.whole:
            perhaps.append(HOLE)
    key = ApprovalKey("path", tuple(dict.fromkeys(named)), perhaps=tuple(dict.fromkeys(perhaps)))
    return EquivalentCall(_READ, key)


def _files(word: Word, bases: Sequence[str]) -> Iterator[str]:
    """Return the paths in the workspace that the word may mean; `HOLE` is unknown text."""
    for text in dict.fromkeys((word.text, word.text.rpartition(":")[2])):
        if not text:
            continue
        holed = _GLOB.sub(HOLE, text)
        for base in bases:
            path = posixpath.normpath(posixpath.join(base, holed))
            yield path
            if path.startswith(("/", "..")):
                parts = path.split("/")
                yield from ("/".join(parts[at:]) for at in range(1, len(parts)))


def _joined(base: str, word: Word) -> str:
    """Return where `cd` leads."""
    if word.globs or word.text[:1] in ("-", "~", "/"):
        return HOLE
    return posixpath.normpath(posixpath.join(base, word.text))
