"""Runs git over a git directory of ours, so that it never sees the repository's configuration.

What a configuration names (hooks, filters, fsmonitor, signing, diff drivers, …) is not run, because it is not there.
Even `git status` would run fsmonitor, and `filter.*.clean` for files whose time stamp changed, under names that no
option can forbid. Git gets only the repository's objects, branches and index; what it writes stays in our directory
until a commit is approved.
"""

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from codeagent.core.commits import CommitRefused
from codeagent.core.programs import find_program
from codeagent.disk.opens import read_regular
from codeagent.disk.repository import work_tree_of
from codeagent.workspace.repository import CommitRepository

_STATUS_SECONDS = 5.0
_SECONDS = 60.0
_LARGEST_REFS = 32 << 20
_HASH = re.compile(r"[0-9a-f]{40}")
_REF = re.compile(r"refs/heads/(?P<branch>[^\x00-\x20\x7f]{1,200})")
_GUARDS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.untrackedCache": "keep",
    "core.splitIndex": "false",
    "core.editor": "true",
    "core.pager": "cat",
    "core.sshCommand": "false",
    "core.askPass": "false",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "credential.helper": "",
    "protocol.allow": "never",
}


@dataclass(frozen=True)
class GitStatus:
    """What the status line shows of a repository."""

    branch: str = ""
    """Empty without git; the first characters of the commit if no branch is checked out."""
    changes: int = 0
    """Files that differ from the last commit, new ones included; 0 if that cannot be told safely."""


def isolated_environment(folder: Path) -> dict[str, str]:
    """Return the environment of a git whose directory and home is `folder`: nothing of the caller's is in it.

    It has no configuration of the user or the system, and no program to ask or to page with.
    """
    return {
        "PATH": os.defpath,
        "LC_ALL": "C",
        "HOME": str(folder),
        "GIT_DIR": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def git_status(root: Path) -> GitStatus:
    """Read branch and number of changed files of the repository this folder is in; blocks as long as `git status`.

    A repository whose `.git` is not a plain directory (linked worktrees, submodules) is not read: where its pointer
    leads is the repository's word. Nor is one that belongs to somebody else, which git itself refuses. Never raises.
    """
    top = work_tree_of(root) or root
    folder = top / ".git"
    try:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or (folder / "reftable").exists():
            return GitStatus()
        branch, commit = _head(folder)
    except (OSError, ValueError):
        return GitStatus()
    git = find_program("git", top)
    if git is None:
        return GitStatus(branch)
    try:
        return GitStatus(branch, _changes(git, top, commit, root))
    except (OSError, subprocess.SubprocessError):
        return GitStatus(branch)


class ShadowGit:
    """Git with a directory of ours, for as long as `shadow_git` holds it."""

    def __init__(
        self, program: str, repository: CommitRepository, folder: Path, environment: Mapping[str, str]
    ) -> None:
        self._program = program
        self._repository = repository
        self.folder = folder
        self.objects = folder / "objects"
        self.index = folder / "index"
        """A copy of the user's index."""
        self.committed = folder / "index-of-the-commit"
        """The index the commit is made from: the last commit's, with the paths put in."""
        settings = _GUARDS | {"core.bare": "false"} | repository.passed_on() | _path_settings(repository, environment)
        self._options = _options(settings)
        self._environment = isolated_environment(folder) | {
            "GIT_WORK_TREE": str(repository.top),
            "GIT_INDEX_FILE": str(self.index),
            "GIT_PAGER": "cat",
            "GIT_EDITOR": "true",
            **_identity(repository),
        }

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        index: Path | None = None,
        final: bool = False,
        whole: bool = False,
        codes: tuple[int, ...] = (0,),
    ) -> bytes:
        """Return standard output. `final`: write to the user's own objects. Raises CommitRefused.

        Git runs in the workspace, so that it takes and gives paths relative to it; `whole`: at the top of the work
        tree. Paths are literal, whatever characters they hold; `check-ignore` wants them to begin with `./`.
        """
        environment = self.environment(final=final)
        if arguments[0] != "check-ignore":
            environment["GIT_LITERAL_PATHSPECS"] = "1"
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        try:
            done = subprocess.run(
                [self._program, "--no-pager", *self._options, *arguments],
                cwd=self._repository.top if whole else self._repository.root,
                env=environment,
                input=stdin,
                capture_output=True,
                timeout=_SECONDS,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise CommitRefused(
                f"git {arguments[0]} did not work ({type(error).__name__}); nothing was changed"
            ) from error
        if done.returncode not in codes:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it gave no reason"]
            raise CommitRefused(f"git {arguments[0]} refused: {said[0].removeprefix('fatal: ')}; nothing was changed")
        return done.stdout

    def environment(self, *, final: bool = False) -> dict[str, str]:
        real = str(self._repository.shared / "objects")
        if final:
            return self._environment | {"GIT_OBJECT_DIRECTORY": real}
        return self._environment | {
            "GIT_OBJECT_DIRECTORY": str(self.objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(real),
        }

    def new_objects(self) -> tuple[str, ...]:
        return tuple(f"{path.parent.name}{path.name}" for path in self.objects.glob("[0-9a-f][0-9a-f]/*"))


@contextmanager
def shadow_git(program: str, repository: CommitRepository, environment: Mapping[str, str]) -> Iterator[ShadowGit]:
    """Hold a git directory of ours with the repository's branches and index. Raises CommitRefused."""
    git, shared = repository.git, repository.shared
    links = {
        "refs": shared / "refs",
        "packed-refs": shared / "packed-refs",
        "logs/refs": shared / "logs/refs",
        "logs/HEAD": git / "logs/HEAD",
    }
    copies = {"info/exclude": shared, "info/attributes": shared, "index": git}
    with tempfile.TemporaryDirectory(prefix="codeagent-commit-") as own:
        folder = Path(own)
        try:
            _make_git_directory(folder, f"ref: refs/heads/{repository.branch}", ("objects", "info", "logs"))
            for name, target in links.items():
                (folder / name).symlink_to(target)
            for name, source in copies.items():
                if (source / name).exists():
                    shutil.copy2(source / name, folder / name, follow_symlinks=False)
        except OSError as error:
            raise CommitRefused(f"the repository cannot be read ({error.strerror}); nothing was changed") from error
        yield ShadowGit(program, repository, folder, environment)


def _head(folder: Path) -> tuple[str, str]:
    """Return the branch and the commit's hash, empty before the first commit. Raises OSError, ValueError."""
    head = _text(folder / "HEAD").strip()
    if _HASH.fullmatch(head):
        return head[:8], head
    match = _REF.fullmatch(head.removeprefix("ref: "))
    if match is None:
        raise ValueError("HEAD is not a branch")
    return match["branch"], _commit(folder, match[0])


def _commit(folder: Path, ref: str) -> str:
    try:
        found = "" if ".." in ref else _text(folder / ref).strip()
    except OSError:
        found = ""
    if found and not _HASH.fullmatch(found):
        raise ValueError("a hash of another kind")
    if found:
        return found
    try:
        lines = _text(folder / "packed-refs").splitlines()
    except OSError:
        return ""
    packed = (line.split(" ", 1) for line in lines if not line.startswith(("#", "^")))
    return next((words[0] for words in packed if words[1:] == [ref] and _HASH.fullmatch(words[0])), "")


def _text(path: Path) -> str:
    return read_regular(path, most=_LARGEST_REFS).decode("utf-8", "replace")


def _changes(git: str, top: Path, commit: str, root: Path) -> int:
    """Count the changed files below `root`. Raises OSError, SubprocessError."""
    folder = top / ".git"
    with tempfile.TemporaryDirectory(prefix="codeagent-git-") as own:
        shadow = Path(own)
        _make_git_directory(shadow, commit or "ref: refs/heads/none", ("refs", "objects"))
        index = shadow / "index"
        if os.path.lexists(folder / "index"):
            index.write_bytes(read_regular(folder / "index"))
        environment = isolated_environment(shadow) | {
            "GIT_WORK_TREE": str(top),
            "GIT_INDEX_FILE": str(index),
            "GIT_OBJECT_DIRECTORY": str(folder / "objects"),
        }
        settings = {"core.untrackedCache": "false", "core.excludesFile": str(folder / "info/exclude")}
        arguments = ("--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all", "--untracked-files=normal")
        done = subprocess.run(
            [git, *_options(_GUARDS | settings), "status", *arguments, "--", str(root)],
            cwd=top,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_STATUS_SECONDS,
            check=True,
        )
        return done.stdout.count(b"\0")


def _make_git_directory(folder: Path, head: str, names: tuple[str, ...]) -> None:
    """Make an empty git directory with these folders in it. Raises OSError."""
    for name in names:
        (folder / name).mkdir()
    (folder / "HEAD").write_text(f"{head}\n", encoding="utf-8")
    (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")


def _options(settings: Mapping[str, str]) -> list[str]:
    return [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]


def _path_settings(repository: CommitRepository, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the user's own files of ignore rules and attributes; never a path that the repository names."""
    home = environment.get("HOME", "/")
    base = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    found = {}
    for key, usual in (("core.excludesfile", "ignore"), ("core.attributesfile", "attributes")):
        path = repository.own.get(key, f"{base}/git/{usual}")
        found[key] = f"{home}/{path[2:]}" if path.startswith("~/") else path
    return found


def _quoted(path: str) -> str:
    """Quote an entry of a list that colons divide."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _identity(repository: CommitRepository) -> dict[str, str]:
    """Return who commits. Raises CommitRefused if the user has not said so."""
    found = {}
    for role in ("author", "committer"):
        for part in ("name", "email"):
            value = repository.value(f"{role}.{part}", f"user.{part}")
            if not value:
                raise CommitRefused(
                    f"git does not know who commits: ask the user to run git config --global user.{part} VALUE"
                )
            found[f"GIT_{role}_{part}".upper()] = value
    return found
