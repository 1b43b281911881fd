"""The user's repository before a commit: whether it may be committed to from here, and its settings as data."""

import os
import re
import stat
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from codeagent.core.commits import CommitRefused
from codeagent.disk.opens import read_regular
from codeagent.disk.repository import OutsideGit, repository_of

_SECONDS = 20.0
_LARGEST_HEAD = 4096
_OWN = "global"
_SHARED = "local"
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
class CommitRepository:
    """The repository the workspace is in, with no merge or the like in progress."""

    root: Path
    """The workspace: the work tree or a folder in it."""
    top: Path
    """The work tree."""
    git: Path
    """The git directory with the HEAD and index of this work tree."""
    shared: Path
    """The git directory with objects, branches and configuration; different from `git` only in a linked worktree."""
    branch: str
    settings: Mapping[str, str]
    """The last value of every key, section and name in lower case."""
    own: Mapping[str, str]
    """The same, of the user's own configuration alone."""

    @property
    def prefix(self) -> str:
        """The prefix of the workspace's paths in git: empty, or folders of the work tree that end with `/`."""
        return "" if self.root == self.top else f"{self.root.relative_to(self.top)}/"

    def value(self, *keys: str) -> str:
        """Return the value of the first key that has one; empty if none has."""
        return next((value for key in keys if (value := self.settings.get(key, "").strip())), "")

    def is_on(self, key: str) -> bool:
        return self.value(key).lower() in ("true", "yes", "on", "1")

    def passed_on(self) -> dict[str, str]:
        """Return the settings that git gets for the commit."""
        return {key: value for key, value in self.settings.items() if key in _PASSED and _PLAIN.fullmatch(value)}

    def hooks(self) -> tuple[str, ...]:
        """Return the names of the hooks that a commit made by hand would run."""
        path = self.value("core.hookspath")
        folder = self.top / Path(path).expanduser() if path else self.shared / "hooks"
        return tuple(name for name in _HOOKS if os.access(folder / name, os.X_OK))


def open_repository(
    program: str, root: Path, environment: Mapping[str, str], agreed: Callable[[OutsideGit], bool]
) -> CommitRepository:
    """Read the repository, its settings with `git config --list`, which runs nothing. Raises CommitRefused.

    `environment` is this process's, to find the user's own configuration. `agreed`: see GitCommitter.
    """
    found = repository_of(root)
    if found is None:
        raise CommitRefused("the workspace is not in a git repository; ask the user to run git init")
    if found.problem:
        raise CommitRefused(f"{found.problem}; ask the user to commit")
    outside, pointer = found.outside, found.top / ".git"
    if outside is not None and not agreed(outside):
        raise CommitRefused(
            f"{pointer} leads to {outside.directory}, outside the workspace, and the user has not agreed to it; "
            "ask the user to run codeagent sandbox git --allow, then commit again"
        )
    git, shared = (pointer, pointer) if outside is None else (outside.own, outside.directory)
    if outside is not None and git.name == ".git":
        raise CommitRefused(f"{git} belongs to the work tree {git.parent}; ask the user to commit there")
    for path in (pointer, git, shared):
        if path.lstat().st_uid != os.geteuid():
            raise CommitRefused(f"{path} belongs to another user; ask them to commit")
    for name, what in _BUSY.items():
        if os.path.lexists(git / name):
            raise CommitRefused(f"{what} is in progress; ask the user to finish or abort it first")
    _refuse_unusual(git, shared)
    branch = _branch(git)
    _refuse_links(git, shared, branch)
    entries = _settings(program, git, environment)
    _refuse_settings(entries, found.top, git, linked=git != shared)
    settings = {key: value for _, key, value in entries}
    own = {key: value for scope, key, value in entries if scope == _OWN}
    return CommitRepository(root, found.top, git, shared, branch, settings, own)


def is_locked(git: Path) -> bool:
    return os.path.lexists(git / "index.lock")


def locked(git: Path) -> CommitRefused:
    problem = f"{git / 'index.lock'} exists: another git is running, or one was killed"
    return CommitRefused(f"{problem}; wait for it, or ask the user to remove the file if no git is running")


def _refuse_unusual(git: Path, shared: Path) -> None:
    reasons = {
        "commondir": "its git directory borrows from another one (commondir)",
        "objects/info/alternates": "it borrows objects from elsewhere (objects/info/alternates)",
        "reftable": "its branches are kept in reftables",
    }
    for name, reason in reasons.items():
        if os.path.lexists(shared / name):
            raise CommitRefused(f"this repository cannot be committed to from here: {reason}; ask the user to commit")
    if any(git.glob("sharedindex.*")):
        raise CommitRefused("the index is split; ask the user to run git update-index --no-split-index")


def _branch(git: Path) -> str:
    try:
        head = read_regular(git / "HEAD", most=_LARGEST_HEAD).decode("utf-8", "surrogateescape")
    except OSError:
        raise CommitRefused(f"{git / 'HEAD'} cannot be read; ask the user to look at the repository") from None
    match = _BRANCH.fullmatch(head)
    if match is None or ".." in match["branch"] or match["branch"].endswith(("/", ".lock")):
        raise CommitRefused("no branch is checked out; ask the user to create one: git switch -c NAME")
    return match["branch"]


def _refuse_links(git: Path, shared: Path, branch: str) -> None:
    """Refuse links where git will write: they could lead the writing elsewhere, say to a start-up file."""
    parts = Path("refs/heads", branch).parts
    refs = ["/".join(parts[:end]) for end in range(1, len(parts))]
    folders = [shared / name for name in ("objects", "info", "logs", *refs, *(f"logs/{ref}" for ref in refs))]
    ref = "/".join(parts)
    files = [shared / name for name in ("packed-refs", "info/exclude", "info/attributes", ref, f"logs/{ref}")]
    folders.append(git / "logs")
    files += [git / "index", git / "logs/HEAD"]
    for paths, kind in ((folders, stat.S_ISDIR), (files, stat.S_ISREG)):
        for path in paths:
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:
                continue
            if not kind(mode):
                raise CommitRefused(f"{path} is not what git makes there; ask the user to look at it")
    if any(entry.is_symlink() for entry in os.scandir(shared / "objects")):
        raise CommitRefused(f"{shared / 'objects'} holds a link; ask the user to look at it")


def _settings(program: str, git: Path, environment: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return scope, key and value of every entry, the weakest first."""
    kept = {name: environment[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in environment}
    asked = {"PATH": os.defpath, "LC_ALL": "C", "GIT_DIR": str(git), "GIT_CONFIG_NOSYSTEM": "1", **kept}
    try:
        done = subprocess.run(
            [program, "--no-pager", "config", "--list", "-z", "--show-scope"],
            cwd=git,
            env=asked,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        raise CommitRefused("git cannot read its configuration; ask the user to try git config --list") from None
    words = done.stdout.decode("utf-8", "replace").split("\0")
    entries = (entry.partition("\n") for entry in words[1::2])
    return [
        (scope, key, value if newline else "true")
        for scope, (key, newline, value) in zip(words[0::2], entries, strict=False)
    ]


def _refuse_settings(entries: list[tuple[str, str, str]], top: Path, git: Path, *, linked: bool) -> None:
    """Refuse settings that would show git another repository, or other rules, than were checked here. Fails closed.

    In a linked worktree, git itself ignores what the shared configuration says of the main one.
    """
    for scope, key, value in entries:
        section, _, name = key.partition(".")
        if section == "extensions" and name not in _EXTENSIONS and (name, value) != ("objectformat", "sha1"):
            raise CommitRefused(
                f"the repository uses {key}={value}, which codeagent does not know; ask the user to commit"
            )
        if scope == _OWN or (linked and scope == _SHARED and key in ("core.worktree", "core.bare")):
            continue
        if key == "core.worktree" and Path(os.path.realpath(git / value)) == top:
            continue
        if key in ("core.worktree", "core.attributesfile"):
            raise CommitRefused(f"the repository sets {key}: its files are not what they seem; ask the user to commit")
        if key == "core.bare" and value.lower() not in ("false", "no", "off", "0", ""):
            raise CommitRefused("the repository is bare; ask the user to look at it")
