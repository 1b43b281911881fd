"""Whether a word of a command names a file of secrets, and which files a command reads, for rules on reading.

What names one is asked about: the name itself, or a glob that is more like it than like other files (`.e*`, `*.pem`).
What sweeps over everything (`*`, a folder, a recursive search) is not: files with such names read as empty in the
sandbox, and the question would come with every search. Where not all of them could be covered, `sweeps` decides.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from codeagent.core.paths import secret_reason
from codeagent.core.policy import HOLE, ApprovalKey, Deed
from codeagent.tools.reading.words import SimpleCommand, Word

_SECRETS = (
    ".env", ".env.local", ".env.production", "prod.env", "server.pem", "server.key", "cert.p12", "cert.pfx",
    "store.jks", "app.keystore", "passwords.kdbx", "key.ppk", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".netrc",
    ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".dockercfg", ".vault-token", "credentials",
    "credentials.json", "credentials.yaml", "secrets.json", "secrets.yaml", "secrets.yml", "secret.toml", "secrets.ini",
    "secrets.txt", "service-account.json",
)  # fmt: skip
_ORDINARY = (
    "a.py", "main.rs", "README.md", "index.ts", "package.json", "data.csv", "notes.txt", "x.yaml", "y.yml", "app.toml",
    "lib.c", "conf.ini", "Makefile", "test_a.py",
)  # fmt: skip
_GLOB = re.compile(r"[*?\[]")
"""Quoted, too: some programs match names themselves."""
_FOLDERS = (".ssh", ".aws", ".gnupg", ".kube", ".azure")
_OTHER_FOLDERS = ("src", "tests", "docs", "lib", "app", "node_modules")
_ENDLESS = re.compile(
    r"(?:.*/)?dev/+(?:\./+)*(?:zero|full|u?random|hwrng|tty\w*|console|kmsg|mem|port|ptmx|pts/.*|std(?:in|out|err)|fd/.*"
    r"|tcp/.*|udp/.*)"
)


def secret_named(word: Word) -> str | None:
    """Why the word may be the name of a file of secrets, or of a folder of them, as a phrase."""
    for text in (word.text, word.text.rpartition(":")[2]):
        reason = secret_reason(text)
        if reason is not None:
            return reason
        if secret_reason(f"{text}/any") is not None:
            return f"{text} is a folder that usually holds credentials"
        if _GLOB.search(text) and _aims_at_secrets(text):
            return f"{text} may stand for a file of secrets"
    return None


def never_ends(word: Word) -> bool:
    """A device that is read without end, or that waits."""
    return _ENDLESS.fullmatch(word.text) is not None or (word.globs and word.text.startswith("/dev"))


def _aims_at_secrets(text: str) -> bool:
    *folders, name = text.split("/")
    return any(_aims(folder, _FOLDERS, _OTHER_FOLDERS) for folder in folders) or _aims(
        name, _SECRETS + _FOLDERS, _ORDINARY
    )


def _aims(pattern: str, secrets: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return _matches(pattern, secrets) and not _matches(pattern, others)


def _matches(pattern: str, names: tuple[str, ...]) -> bool:
    """A dot at the beginning is matched by itself only, as in the shell."""
    hidden_too = not pattern.startswith(("*", "?"))
    return any(fnmatchcase(name, pattern) for name in names if hidden_too or not name.startswith("."))


_SHOW_NO_CONTENT = frozenset({
    "ls", "pwd", "echo", "printf", "date", "which", "type", "uname", "whoami", "id", "true", "false", "test", "[", "du",
    "df", "stat", "file", "find", "tree", "basename", "dirname", "realpath", "readlink", "nproc", "seq", "sleep",
})  # fmt: skip
_SHOW_WHAT_IS_NAMED = frozenset({"cat", "head", "tail", "wc", "nl", "sed", "cut", "sort", "uniq"})
_EXPANDS = re.compile(r"[*?\[{]")


def sweeps(command: str) -> bool:
    """Whether a command that only reads may show files that it does not name one by one; True in every doubt."""
    name, *words = command.split() or [""]
    if name == "git":
        return words[:1] not in (["status"], ["branch"], ["rev-parse"], ["log"]) or "-p" in words
    if name in _SHOW_NO_CONTENT:
        return False
    return name not in _SHOW_WHAT_IS_NAMED or any(map(_EXPANDS.search, words))


_READ = "read"
"""The tool whose rules hold for what commands read."""


@dataclass(frozen=True)
class Opened:
    """What one command that only reads takes its text, or its names, from."""

    files: tuple[Word, ...] = ()
    sweeps: bool = False
    """Of a folder everything in it."""
    whole: bool = False
    """Everything there is."""


OPENS_NOTHING = Opened()


def read_deed(commands: Sequence[tuple[SimpleCommand, Opened]]) -> Deed:
    """What commands that only read do, as the `read` tool would be asked about it.

    A rule on reading holds for the files they name. It asks where they may stand for such a file: by a glob, in another
    folder, as a folder that is read as a whole. Names alone (`find`, `git status`) are no content.
    """
    named: list[str] = []
    perhaps: list[str] = []
    bases = [""]
    for command, opened in commands:
        if command.texts[0] == "cd":
            bases.append(_joined(bases[-1], opened.files[0]) if opened.files else HOLE)
            continue
        for word in (*opened.files, *command.reads):
            certain = len(bases) == 1 and not _GLOB.search(word.text) and not word.text.startswith(("/", "~"))
            paths = list(_files(word, bases))
            (named if certain and not any(path.startswith("..") for path in paths) else perhaps).extend(paths)
            if opened.sweeps:
                perhaps += [HOLE if path == "." else f"{path}/{HOLE}" for path in paths]
        if opened.whole:
            perhaps.append(HOLE)
    return Deed(_READ, ApprovalKey("path", tuple(dict.fromkeys(named)), perhaps=tuple(dict.fromkeys(perhaps))))


def _files(word: Word, bases: Sequence[str]) -> Iterator[str]:
    """The paths in the workspace that the word may stand for; `HOLE` is text that nobody knows."""
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
    """Where `cd` leads."""
    if word.globs or word.text[:1] in ("-", "~", "/"):
        return HOLE
    return posixpath.normpath(posixpath.join(base, word.text))
