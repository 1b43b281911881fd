"""The user's repository for a commit: whether it may be committed to from here, and the git that
works on it."""

import os
import re
import stat
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from codeagent.core.changes import CommitRefused
from codeagent.core.dataclass import dataclass
from codeagent.disk.opens import read_regular
from codeagent.disk.repository import OutsideGit, repository_of
from codeagent.workspace.git import FAILURES, GitDirectory, IsolatedGit
from codeagent.workspace.git_status import LARGEST_HEAD, branch_of, copy_regular
from codeagent.workspace.snapshots.objects import quoted

_SECONDS = 60.0
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
_PLAIN = re.compile(r"[A-Za-z0-9]{0,20}")
_PASSED = frozenset(
    {
        "core.autocrlf",
        "core.eol",
        "core.safecrlf",
        "core.filemode",
        "core.symlinks",
        "core.ignorecase",
        "core.precomposeunicode",
        "core.protecthfs",
        "core.protectntfs",
        "core.logallrefupdates",
        "core.sharedrepository",
    }
)
"""Settings that change what is stored, not what is run."""
_EXTENSIONS = frozenset({"noop", "partialclone", "preciousobjects", "worktreeconfig"})
_HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "reference-transaction")


@dataclass(frozen=True)
class CommitRepository:
    """The repository the workspace is in, with no merge or the like in progress."""

    program: str
    """The git that runs."""
    root: Path
    """The workspace: the work tree or a folder in it."""
    top: Path
    """The work tree."""
    git: Path
    """The git directory with the HEAD and index of this work tree."""
    shared: Path
    """The git directory with objects, branches and configuration; different from `git` only in a
    linked worktree."""
    branch: str
    settings: Mapping[str, str]
    """The last value of every key, section and name in lower case."""
    own: Mapping[str, str]
    """The same, of the user's own configuration alone."""

    @property
    def prefix(self) -> str:
        """The prefix of the workspace's paths in git: empty, or folders of the work tree that end
        with `/`."""
        return "" if self.root == self.top else f"{self.root.relative_to(self.top)}/"

    def value(self, *keys: str) -> str:
        """Return the value of the first key that has one; empty if none has."""
        return next((value for key in keys if (value := self.settings.get(key, "").strip())), "")

    def is_on(self, key: str) -> bool:
        return self.value(key).lower() in ("true", "yes", "on", "1")

    def passed_on(self) -> dict[str, str]:
        """Return the settings that git gets for the commit."""
        return {
            key: value
            for key, value in self.settings.items()
            if key in _PASSED and _PLAIN.fullmatch(value)
        }

    def hooks(self) -> tuple[str, ...]:
        """Return the names of the hooks that a commit made by hand would run."""
        path = self.value("core.hookspath")
        folder = self.top / Path(path).expanduser() if path else self.shared / "hooks"
        return tuple(name for name in _HOOKS if os.access(folder / name, os.X_OK))

    @contextmanager
    def shadow(self, environment: Mapping[str, str]) -> Iterator["ShadowGit"]:
        """Hold a git directory of ours with the repository's branches and index. Raises
        CommitRefused."""
        links = {
            "refs": self.shared / "refs",
            "packed-refs": self.shared / "packed-refs",
            "logs/refs": self.shared / "logs/refs",
            "logs/HEAD": self.git / "logs/HEAD",
        }
        with tempfile.TemporaryDirectory(
            prefix="codeagent-commit-", ignore_cleanup_errors=True
        ) as own:
            folder = Path(own)
            try:
                directory = GitDirectory(
                    folder, f"ref: refs/heads/{self.branch}\n".encode(), self.program
                )
                (folder / "refs").rmdir()
                for name, target in links.items():
                    (folder / name).symlink_to(target)
                for name in ("info/exclude", "info/attributes"):
                    copy_regular(self.shared, folder, name)
                copy_regular(self.git, folder, "index")
            except OSError as error:
                raise CommitRefused(
                    f"the repository cannot be read ({error.strerror}); nothing was changed"
                ) from error
            with directory:
                yield ShadowGit(self, directory, environment)


def open_repository(
    program: str, root: Path, environment: Mapping[str, str], agreed: Callable[[OutsideGit], bool]
) -> CommitRepository:
    """Read the repository, its settings with `git config --list`, which runs nothing. Raises
    CommitRefused.

    `environment` is this process's, to find the user's own configuration. `agreed`: see
    GitCommitter.
    """
    found = repository_of(root)
    if found is None:
        raise CommitRefused(
            "the workspace is not in a git repository; ask the user to run git init"
        )
    if found.problem:
        raise CommitRefused(f"{found.problem}; ask the user to commit")
    outside = found.outside
    pointer = found.top / ".git"
    if outside is not None and not agreed(outside):
        raise CommitRefused(
            f"{pointer} leads to {outside.directory}, outside the workspace, and the user has not agreed to it; "
            "ask the user to run codeagent sandbox git --allow, then commit again"
        )
    git, shared = (pointer, pointer) if outside is None else (outside.own, outside.directory)
    if outside is not None and git.name == ".git":
        raise CommitRefused(
            f"{git} belongs to the work tree {git.parent}; ask the user to commit there"
        )
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
    return CommitRepository(
        program, root, found.top, git, shared, branch=branch, settings=settings, own=own
    )


def _refuse_unusual(git: Path, shared: Path) -> None:
    reasons = {
        "commondir": "its git directory borrows from another one (commondir)",
        "objects/info/alternates": "it borrows objects from elsewhere (objects/info/alternates)",
        "reftable": "its branches are kept in reftables",
    }
    for name, reason in reasons.items():
        if os.path.lexists(shared / name):
            raise CommitRefused(
                f"this repository cannot be committed to from here: {reason}; ask the user to commit"
            )
    if any(git.glob("sharedindex.*")):
        raise CommitRefused(
            "the index is split; ask the user to run git update-index --no-split-index"
        )


def _branch(git: Path) -> str:
    try:
        branch = branch_of(read_regular(git / "HEAD", most=LARGEST_HEAD))
    except OSError:
        raise CommitRefused(
            f"{git / 'HEAD'} cannot be read; ask the user to look at the repository"
        ) from None
    except ValueError:
        branch = ""
    if not branch:
        raise CommitRefused(
            "no branch is checked out; ask the user to create one: git switch -c NAME"
        )
    return branch


def _refuse_links(git: Path, shared: Path, branch: str) -> None:
    """Refuse links where git will write: they could lead the writing elsewhere, say to a start-up
    file."""
    parts = Path("refs/heads", branch).parts
    refs = ["/".join(parts[:end]) for end in range(1, len(parts))]
    folders = [
        shared / name
        for name in ("objects", "info", "logs", *refs, *(f"logs/{ref}" for ref in refs))
    ]
    ref = "/".join(parts)
    files = [
        shared / name
        for name in ("packed-refs", "info/exclude", "info/attributes", ref, f"logs/{ref}")
    ]
    folders.append(git / "logs")
    files += [git / "index", git / "logs/HEAD"]
    for paths, kind in ((folders, stat.S_ISDIR), (files, stat.S_ISREG)):
        for path in paths:
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:
                continue
            if not kind(mode):
                raise CommitRefused(
                    f"{path} is not what git makes there; ask the user to look at it"
                )
    if any(entry.is_symlink() for entry in os.scandir(shared / "objects")):
        raise CommitRefused(f"{shared / 'objects'} contains a link; ask the user to look at it")


def _settings(
    program: str, git: Path, environment: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """Return scope, key and value of every entry, the weakest first."""
    runner = IsolatedGit(git)
    runner.program = program
    kept = {name: environment[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in environment}
    runner.update_environment(
        PATH=os.defpath, LC_ALL="C", GIT_DIR=str(git), GIT_CONFIG_NOSYSTEM="1", **kept
    )
    try:
        done = runner.completed(git, "config", "--list", "-z", "--show-scope", seconds=_SECONDS)
        done.check_returncode()
    except FAILURES:
        raise CommitRefused(
            "git cannot read its configuration; ask the user to try git config --list"
        ) from None
    words = done.stdout.decode("utf-8", "replace").split("\0")
    entries = (entry.partition("\n") for entry in words[1::2])
    return [
        (scope, key, value if newline else "true")
        for scope, (key, newline, value) in zip(words[0::2], entries, strict=False)
    ]


def _refuse_settings(
    entries: list[tuple[str, str, str]], top: Path, git: Path, *, linked: bool
) -> None:
    """Refuse settings that would show git another repository, or other rules, than were checked
    here. Fails closed.

    In a linked worktree, git itself ignores what the shared configuration says of the main one.
    """
    for scope, key, value in entries:
        section, _, name = key.partition(".")
        if (
            section == "extensions"
            and name not in _EXTENSIONS
            and (name, value) != ("objectformat", "sha1")
        ):
            raise CommitRefused(
                f"the repository uses {key}={value}, which codeagent does not know; ask the user to commit"
            )
        if scope == _OWN or (linked and scope == _SHARED and key in ("core.worktree", "core.bare")):
            continue
        if key == "core.worktree" and Path(os.path.realpath(git / value)) == top:
            continue
        if key in ("core.worktree", "core.attributesfile"):
            raise CommitRefused(
                f"the repository sets {key}: its files are not what they seem; ask the user to commit"
            )
        if key == "core.bare" and value.lower() not in ("false", "no", "off", "0", ""):
            raise CommitRefused("the repository is bare; ask the user to look at it")


class ShadowGit:
    """Runs git for one commit over a directory of ours; it works only inside
    `CommitRepository.shadow`."""

    def __init__(
        self, repository: CommitRepository, directory: GitDirectory, environment: Mapping[str, str]
    ) -> None:
        """Raises CommitRefused if the user has not said who commits."""
        self._repository = repository
        self.folder = directory.folder
        self.index = self.folder / "index"
        """A copy of the user's index."""
        self.committed = self.folder / "index-of-the-commit"
        """The index the commit is made from: the last commit's, with the paths put in."""
        self._git = directory.git
        real = str(repository.shared / "objects")
        self._final = {"GIT_OBJECT_DIRECTORY": real, "GIT_ALTERNATE_OBJECT_DIRECTORIES": ""}
        self.objects = {
            "GIT_OBJECT_DIRECTORY": str(self.folder / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.fsdecode(quoted(os.fsencode(real))),
        }
        """The variables by which git writes to our objects, and reads the user's too."""
        own = {
            "GIT_WORK_TREE": str(repository.top),
            "GIT_INDEX_FILE": str(self.index),
            "GIT_EDITOR": "true",
        }
        settings = repository.passed_on() | _path_settings(repository, environment)
        directory.isolate(own | self.objects | _identity(repository), settings)

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

        Git runs in the workspace, so that it takes and gives paths relative to it; `whole`: at the
        top of the work tree. Paths are literal, whatever characters they contain; `check-ignore`
        wants them to begin with `./`.
        """
        variables = {} if index is None else {"GIT_INDEX_FILE": str(index)}
        if arguments[0] != "check-ignore":
            variables["GIT_LITERAL_PATHSPECS"] = "1"
        if final:
            variables |= self._final
        folder = self._repository.top if whole else self._repository.root
        try:
            done = self._git.completed(
                folder, *arguments, stdin=stdin, env=variables, seconds=_SECONDS
            )
        except FAILURES as error:
            raise _failed(arguments[0], error) from error
        if done.returncode not in codes:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [
                "it gave no reason"
            ]
            raise CommitRefused(
                f"git {arguments[0]} refused: {said[0].removeprefix('fatal: ')}; nothing was changed"
            )
        return done.stdout

    def contents(self, blobs: Iterable[str], largest: int) -> dict[str, bytes]:
        """Read those of the blobs that exist and have at most `largest` bytes. Raises
        CommitRefused."""
        found = {}
        deadline = threading.Timer(_SECONDS, self._git.clear_cache)
        deadline.start()
        try:
            for blob in blobs:
                size = self._size(blob)
                if size is not None and size <= largest:
                    found[blob] = self._git.get_object_data(blob)[3]
                    if len(found[blob]) != size:
                        raise EOFError
        except (
            *FAILURES,
            ValueError,
            EOFError,
            AttributeError,
        ) as error:  # the last where the deadline fell between
            raise _failed("cat-file", error) from error
        finally:
            deadline.cancel()
        return found

    def _size(self, blob: str) -> int | None:
        """Return the size of a blob, None if there is none. Raises `FAILURES`, and ValueError if
        git has ended."""
        try:
            _, kind, size = self._git.get_object_header(blob)
        except ValueError as error:
            if blob in str(error):
                return None
            raise
        return (
            size if kind in ("blob", b"blob") else None
        )  # GitPython declares the one and returns the other

    def new_objects(self) -> Iterator[str]:
        """Yield the names of the objects written so far, a line each."""
        return (
            f"{path.parent.name}{path.name}\n"
            for path in self.folder.glob("objects/[0-9a-f][0-9a-f]/*")
        )


def _failed(command: str, error: Exception) -> CommitRefused:
    return CommitRefused(
        f"git {command} did not work ({type(error).__name__}); nothing was changed"
    )


def _path_settings(repository: CommitRepository, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the user's own files of ignore rules and attributes; never a path that the repository
    names."""
    home = environment.get("HOME", "/")
    base = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    found = {}
    for key, usual in (("core.excludesfile", "ignore"), ("core.attributesfile", "attributes")):
        path = repository.own.get(key, f"{base}/git/{usual}")
        found[key] = f"{home}/{path[2:]}" if path.startswith("~/") else path
    return found


def _identity(repository: CommitRepository) -> dict[str, str]:
    """Return who commits. Raises CommitRefused if the user has not said so."""
    found = {}
    for role in ("author", "committer"):
        for part in ("name", "email"):
            value = repository.value(f"{role}.{part}", f"user.{part}")
            if not value:
                raise CommitRefused(
                    "git does not know who commits: ask the user to run, in a shell of "
                    "their own: git config --global user.name NAME; git config --global user.email ADDRESS"
                )
            found[f"GIT_{role}_{part}".upper()] = value
    return found
