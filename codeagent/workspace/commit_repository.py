"""The person's repository before a commit: whether it may be committed to from here, and its settings as data."""

import os
import re
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from codeagent.core.commits import CommitRefused

NO_GIT_DIRECTORY = "there is no repository at the top of the workspace"
_SECONDS = 20.0
_OWN = "global"
_BUSY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisect",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "sequencer": "a sequence of picks",
}
_BRANCH = re.compile(r"ref: refs/heads/(?P<branch>[^\x00-\x20\x7f~^:?*\[\\]{1,200})\n?")
_PLAIN = re.compile(r"[A-Za-z0-9]{0,20}")
_PASSED = frozenset({
    "core.autocrlf", "core.eol", "core.safecrlf", "core.filemode", "core.symlinks", "core.ignorecase",
    "core.precomposeunicode", "core.protecthfs", "core.protectntfs", "core.logallrefupdates", "core.sharedrepository",
})  # fmt: skip
"""Settings that change what is stored, not what is run."""
_EXTENSIONS = frozenset({"noop", "partialclone", "preciousobjects", "worktreeconfig"})
_HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "reference-transaction")


@dataclass(frozen=True)
class Repository:
    """A plain repository at the top of the workspace, in which nothing is under way."""

    root: Path
    git: Path
    """Its `.git`."""
    branch: str
    settings: Mapping[str, str]
    """The last value of every key, section and name in lower case."""
    own: Mapping[str, str]
    """The same of the person's own configuration alone."""

    def value(self, *keys: str) -> str:
        """Of the first of the keys that has one; empty where none has."""
        return next((value for key in keys if (value := self.settings.get(key, "").strip())), "")

    def is_on(self, key: str) -> bool:
        return self.value(key).lower() in ("true", "yes", "on", "1")

    def passed_on(self) -> dict[str, str]:
        """The settings git is given for the commit."""
        return {key: value for key, value in self.settings.items() if key in _PASSED and _PLAIN.fullmatch(value)}

    def hooks(self) -> tuple[str, ...]:
        """Names of the hooks that a commit made by hand would run."""
        folder = self.value("core.hookspath")
        place = self.root / Path(folder).expanduser() if folder else self.git / "hooks"
        return tuple(name for name in _HOOKS if os.access(place / name, os.X_OK))


def open_repository(program: str, root: Path, environment: Mapping[str, str]) -> Repository:
    """Reads, and runs `git config --list`, which runs nothing. Raises CommitRefused.

    `environment` is this process's: where the person's own configuration is found.
    """
    git = root / ".git"
    try:
        found = git.lstat()
    except OSError:
        above = next((folder for folder in root.parents if os.path.lexists(folder / ".git")), None)
        if above is not None:
            raise CommitRefused(
                f"this is a folder of the repository {above}; ask the user to commit, or to start codeagent there"
            ) from None
        raise CommitRefused(f"{NO_GIT_DIRECTORY}; ask the person to run git init or to commit where it is") from None
    if not stat.S_ISDIR(found.st_mode):
        raise CommitRefused(
            ".git is no plain folder (a linked worktree or a submodule); ask the person to commit there"
        )
    if found.st_uid != os.geteuid():
        raise CommitRefused(".git belongs to somebody else; ask them to commit")
    for name, what in _BUSY.items():
        if os.path.lexists(git / name):
            raise CommitRefused(f"{what} is under way; ask the person to finish or abort it first")
    _refuse_unusual(git)
    branch = _branch(git)
    _refuse_links(git, branch)
    entries = _settings(program, root, git, environment)
    _refuse_settings(entries)
    settings = {key: value for _, key, value in entries}
    own = {key: value for scope, key, value in entries if scope == _OWN}
    return Repository(root, git, branch, settings, own)


def is_locked(git: Path) -> bool:
    return os.path.lexists(git / "index.lock")


def locked() -> CommitRefused:
    problem = ".git/index.lock is there: another git runs, or one was killed"
    return CommitRefused(f"{problem}; wait for it, or ask the person to remove the file when no git runs")


def _refuse_unusual(git: Path) -> None:
    reasons = {
        "commondir": "its .git borrows from another one (commondir)",
        "objects/info/alternates": "it borrows objects from elsewhere (objects/info/alternates)",
        "reftable": "its branches are kept in reftables",
    }
    for name, reason in reasons.items():
        if os.path.lexists(git / name):
            raise CommitRefused(f"this repository cannot be committed to from here: {reason}; ask the person to commit")
    if any(git.glob("sharedindex.*")):
        raise CommitRefused("the index is split; ask the person to run git update-index --no-split-index")


def _branch(git: Path) -> str:
    try:
        head = _text(git / "HEAD")
    except OSError:
        raise CommitRefused(".git/HEAD cannot be read; ask the person to look at the repository") from None
    match = _BRANCH.fullmatch(head)
    if match is None or ".." in match["branch"] or match["branch"].endswith(("/", ".lock")):
        raise CommitRefused("no branch is checked out; ask the person to make one: git switch -c NAME")
    return match["branch"]


def _refuse_links(git: Path, branch: str) -> None:
    """Where git will write there must be no link that leads the writing elsewhere, say to a start-up file."""
    parts = Path("refs/heads", branch).parts
    folders = ["objects", "info", *("/".join(parts[:end]) for end in range(1, len(parts)))]
    folders += ["logs", *(f"logs/{folder}" for folder in folders if folder.startswith("refs"))]
    files = ["index", "packed-refs", "info/exclude", "info/attributes", "/".join(parts), "logs/HEAD"]
    files.append(f"logs/{'/'.join(parts)}")
    for names, kind in ((folders, stat.S_ISDIR), (files, stat.S_ISREG)):
        for name in names:
            try:
                mode = (git / name).lstat().st_mode
            except FileNotFoundError:
                continue
            if not kind(mode):
                raise CommitRefused(f".git/{name} is not what git makes; ask the person to look at it")
    if any(entry.is_symlink() for entry in os.scandir(git / "objects")):
        raise CommitRefused(".git/objects holds a link; ask the person to look at it")


def _settings(program: str, root: Path, git: Path, environment: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Scope, key and value of every entry, the weakest first."""
    kept = {name: environment[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in environment}
    asked = {"PATH": os.defpath, "LC_ALL": "C", "GIT_DIR": str(git), "GIT_CONFIG_NOSYSTEM": "1", **kept}
    try:
        done = subprocess.run(
            [program, "--no-pager", "config", "--list", "-z", "--show-scope"],
            cwd=root,
            env=asked,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        raise CommitRefused("git cannot read its configuration; ask the person to try git config --list") from None
    words = done.stdout.decode("utf-8", "replace").split("\0")
    entries = (entry.partition("\n") for entry in words[1::2])
    return [
        (scope, key, value if newline else "true")
        for scope, (key, newline, value) in zip(words[0::2], entries, strict=False)
    ]


def _refuse_settings(entries: list[tuple[str, str, str]]) -> None:
    """What would make git see another repository or other rules than are looked at here. Fails closed."""
    for scope, key, value in entries:
        section, _, name = key.partition(".")
        if section == "extensions" and name not in _EXTENSIONS and (name, value) != ("objectformat", "sha1"):
            raise CommitRefused(f"the repository uses {key}={value}, which is unknown here; ask the person to commit")
        if scope == _OWN:
            continue
        if key in ("core.worktree", "core.attributesfile"):
            raise CommitRefused(
                f"the repository sets {key}: its files are not what they seem; ask the person to commit"
            )
        if key == "core.bare" and value.lower() not in ("false", "no", "off", "0", ""):
            raise CommitRefused("the repository is bare; ask the person to look at it")


def _text(path: Path) -> str:
    """A regular file's text, no link followed. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError("no regular file")
        return file.read(4096).decode("utf-8", "surrogateescape")
