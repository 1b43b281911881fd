"""Commits files of the workspace to the user's repository; only the hooks that the user allows are
run."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from codeagent.core.changes import Change, CommitPlan, CommitRefused, Committed
from codeagent.core.checkpoints import Node, NodeKind
from codeagent.core.errors import ContentChanged
from codeagent.core.host_programs import COMMIT_HOOKS, run_program
from codeagent.core.ports import Workspace
from codeagent.core.programs import find_program
from codeagent.disk.opens import create_file, read_regular
from codeagent.disk.repository import OutsideGit
from codeagent.workspace.commit_selection import Selection, select

if TYPE_CHECKING:  # it loads GitPython, and most sessions commit nothing
    from codeagent.workspace.repository import CommitRepository, ShadowGit

_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_NOTHING = "0" * 40
_MOST_READ = 50
"""Files whose contents a plan contains."""
_LARGEST_MESSAGE = 1 << 20
_LARGEST_READ = 512 << 10
_NO_MODE = "000000"
_KINDS: dict[str, NodeKind] = {"120000": "link", "100755": "executable"}
_SECONDS = 300.0
_MOST_SAID = 2000


class GitCommitter:
    """A `codeagent.core.changes.Committer` that uses git's plumbing over a git directory of
    ours."""

    def __init__(
        self,
        workspace: Workspace,
        environment: Mapping[str, str],
        *,
        hooks: bool = False,
        agreed: Callable[[OutsideGit], bool] = lambda _: False,
    ) -> None:
        """`environment` is this process's; none of git's own variables in it is used.

        `hooks`: run the repository's hooks, unconfined, as a commit made by hand does. `agreed`
        tells whether the user lets a worktree or submodule use this git directory; it is asked for
        every commit and may raise CommitRefused.
        """
        self._workspace = workspace
        self._environment = environment
        self._hooks = hooks
        self._agreed = agreed

    def plan(self, message: str, paths: tuple[str, ...]) -> CommitPlan:
        repository = self._open()
        if os.path.lexists(repository.git / "index.lock"):
            raise _locked(repository.git)
        with repository.shadow(self._environment) as git:
            plan, _, _ = self._prepare(git, repository, message, paths)
            return plan

    def commit(self, message: str, paths: tuple[str, ...], base: str | None) -> Committed:
        repository = self._open()
        hooks = CommitHooks(repository, self._environment) if self._hooks else None
        with _index_lock(repository.git) as lock, repository.shadow(self._environment) as git:
            plan, tree, selection = self._prepare(git, repository, message, paths)
            if base is not None and base != plan.base:
                raise ContentChanged(
                    "what would be committed is not what was shown; nothing was committed"
                )
            text = _tidied(message)
            final = text if hooks is None else hooks.before(git, text)
            parents = ("-p", plan.parent) if plan.parent else ()
            commit = _line(git.run("commit-tree", tree, *parents, "-F", "-", stdin=final.encode()))
            # The user's index with the committed paths put in; what else is staged stays as it is.
            git.run("update-index", "--replace", "-z", "--index-info", stdin=selection.index_info())
            git.run("update-index", "-q", "--refresh", "--ignore-submodules", codes=(0, 1))
            lock.write(git.index.read_bytes())
            lock.flush()
            os.fsync(lock.fileno())
            pack = git.run(
                "pack-objects", "-q", "--stdout", stdin="".join(git.new_objects()).encode()
            )
            git.run("unpack-objects", "-q", stdin=pack, final=True)
            _move_branch(git, repository, plan, commit, final)
        notices = () if final == text else ("a hook changed the message",)
        return Committed(commit, plan, notices + (() if hooks is None else hooks.after()))

    def _open(self) -> "CommitRepository":
        from codeagent.workspace.repository import open_repository  # it loads GitPython

        root = self._workspace.root
        self._workspace.descriptor()
        program = find_program("git", root)
        if program is None:
            raise CommitRefused(
                "git is not installed outside the workspace; ask the user to install it"
            )
        return open_repository(program, root, self._environment, self._agreed)

    def _prepare(
        self, git: "ShadowGit", repository: "CommitRepository", message: str, paths: tuple[str, ...]
    ) -> tuple[CommitPlan, str, Selection]:
        """Return a commit that lacks only its last three steps: what it will be, its tree and its
        files."""
        _tidied(message)
        parent = _line(
            git.run("rev-parse", "--verify", "-q", f"refs/heads/{repository.branch}", codes=(0, 1))
        )
        if parent:
            git.run("read-tree", parent, index=git.committed)
        staged = git.run("ls-files", "--stage", "-z", whole=True)
        _refuse_in_place(staged, repository)
        selection = select(git, self._workspace, paths, parent, repository.prefix)
        git.run(
            "update-index",
            "--replace",
            "-z",
            "--index-info",
            stdin=selection.index_info(),
            index=git.committed,
        )
        tree = _line(git.run("write-tree", "--missing-ok", index=git.committed))
        found = list(_changes(git, parent, tree, repository.prefix))
        if not found:
            named = ", ".join(paths[:3]) + (", …" if len(paths) > 3 else "")
            raise CommitRefused(f"nothing to commit: {named} is the same as in the last commit")
        author = git.run("var", "GIT_AUTHOR_IDENT").decode("utf-8", "replace").rsplit(" ", 2)[0]
        parts = (
            bytes(repository.git),
            repository.branch.encode(),
            parent.encode(),
            tree.encode(),
            author.encode(),
            staged,
        )
        base = sha256(b"\0\0".join(sha256(part).digest() for part in parts)).hexdigest()
        skipped = () if self._hooks else repository.hooks()
        unsigned, work_tree = (
            repository.is_on("commit.gpgsign"),
            str(repository.top) if repository.prefix else "",
        )
        plan = CommitPlan(
            branch=repository.branch,
            parent=parent,
            author=author,
            changes=tuple(change for change, _ in found),
            skipped_hooks=skipped,
            unsigned=unsigned,
            base=base,
            work_tree=work_tree,
            left_out={change.path: why for change, why in found if why},
        )
        return plan, tree, selection


@contextmanager
def _index_lock(git: Path) -> Iterator[BinaryIO]:
    """Hold git's own lock of the index, so that no other git writes the index until the block ends.

    The lock file then becomes the new index; it is removed if the block raises.
    """
    path = git / "index.lock"
    try:
        fd = create_file(path, 0o666)
    except FileExistsError:
        raise _locked(git) from None
    except OSError as error:
        raise CommitRefused(
            f"{git} cannot be written to ({error.strerror}); ask the user to commit"
        ) from None
    with os.fdopen(fd, "wb") as lock:
        try:
            yield lock
            path.replace(git / "index")
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _locked(git: Path) -> CommitRefused:
    problem = f"{git / 'index.lock'} exists: another git is running, or one was killed"
    return CommitRefused(
        f"{problem}; wait for it, or ask the user to remove the file if no git is running"
    )


def _refuse_in_place(staged: bytes, repository: "CommitRepository") -> None:
    """Refuse if git knows the workspace's folder, or one above it, as something else, which would
    be lost."""
    parts = repository.prefix.split("/")[:-1]
    above = {"/".join(parts[: end + 1]) for end in range(len(parts))}
    known = (os.fsdecode(row.partition(b"\t")[2]) for row in staged.split(b"\0") if above)
    for path in known:
        if path in above:
            raise _replaced(path)


def _replaced(path: str) -> CommitRefused:
    return CommitRefused(
        f"git knows {path}, outside the workspace, as a file or a submodule; ask the user to commit"
    )


def _changes(
    git: "ShadowGit", parent: str, tree: str, prefix: str
) -> Iterator[tuple[Change[Node], str]]:
    """Yield the commit's changes, with paths of the workspace, and why contents were not read.
    Raises CommitRefused if one is outside it."""
    differences = "diff-tree -r -z --raw --no-renames"
    raw = git.run(*differences.split(), parent or _EMPTY_TREE, tree, whole=True)
    words = os.fsdecode(raw).split("\0")
    rows = [
        (*facts.lstrip(":").split(" "), path)
        for facts, path in zip(words[0::2], words[1::2], strict=False)
    ]
    wanted = {blob for row in rows[:_MOST_READ] for blob in row[2:4] if blob != _NOTHING}
    contents = git.contents(sorted(wanted), _LARGEST_READ)
    for number, (mode_before, mode_after, blob_before, blob_after, _, path) in enumerate(rows):
        if not path.startswith(prefix):
            raise _replaced(path)
        left_out = "" if number < _MOST_READ else "one of many"
        if any(blob != _NOTHING and blob not in contents for blob in (blob_before, blob_after)):
            left_out = left_out or "too large"
        known = {} if left_out else contents
        before = _node(mode_before, known.get(blob_before))
        after = _node(mode_after, known.get(blob_after))
        yield Change(path.removeprefix(prefix), before, after), left_out


def _node(mode: str, data: bytes | None) -> Node | None:
    return None if mode == _NO_MODE else Node(_KINDS.get(mode, "file"), data or b"")


def _move_branch(
    git: "ShadowGit", repository: "CommitRepository", plan: CommitPlan, commit: str, message: str
) -> None:
    """Move the branch, with its entry in the reflog; git refuses if the branch has moved since."""
    if repository.value("core.logallrefupdates").lower() not in ("false", "no", "off", "0"):
        for folder in (repository.git / "logs", repository.shared / "logs/refs"):
            folder.mkdir(parents=True, exist_ok=True)
    subject = message.strip().splitlines()[0]
    initial = "" if plan.parent else " (initial)"
    words = ("update-ref", "-m", f"commit{initial}: {subject}", f"refs/heads/{plan.branch}", commit)
    git.run(*words, plan.parent or _NOTHING, final=True)


def _tidied(message: str) -> str:
    """Tidy the message's white space. Raises CommitRefused if nothing is left."""
    if "\0" in message:
        raise CommitRefused("a message cannot contain a NUL character")
    lines = [line.rstrip() for line in message.strip().splitlines()]
    if not lines:
        raise CommitRefused("the message is empty; say what the commit does and why")
    return "\n".join(lines) + "\n"


def _line(output: bytes) -> str:
    return output.decode("ascii", "replace").strip()


class CommitHooks:
    """The repository's own hooks, which `git hook run` finds as git does, over the user's own git
    directory."""

    def __init__(self, repository: "CommitRepository", environment: Mapping[str, str]) -> None:
        """`environment` is what hooks get, as from the user's shell; git's own variables are taken
        out."""
        self._repository = repository
        kept = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
        self._environment = kept | {
            "GIT_DIR": str(repository.git),
            "GIT_WORK_TREE": str(repository.top),
        }

    def before(self, git: "ShadowGit", message: str) -> str:
        """Run the hooks that may refuse the commit or change its message; return that. Raises
        CommitRefused."""
        file = git.folder / "COMMIT_EDITMSG"
        file.write_text(message, encoding="utf-8")
        tree = git.run("write-tree", "--missing-ok", index=git.committed)
        seen = git.objects | {"GIT_INDEX_FILE": str(git.committed), "GIT_EDITOR": ":"}
        self._run("pre-commit", (), seen)
        self._run("prepare-commit-msg", (str(file), "message"), seen)
        self._run("commit-msg", (str(file),), seen)
        if git.run("write-tree", "--missing-ok", index=git.committed) != tree:
            raise CommitRefused(
                "a hook changed what would be committed; look at the files and commit again"
            )
        return _read(file)

    def after(self) -> tuple[str, ...]:
        """Run the hooks that come too late to refuse; return what the user should know about
        them."""
        try:
            self._run("post-commit", (), {})
        except CommitRefused as refusal:
            return (str(refusal),)
        return ()

    def _run(self, name: str, arguments: tuple[str, ...], more: dict[str, str]) -> None:
        words = [
            self._repository.program,
            "hook",
            "run",
            "--ignore-missing",
            name,
            "--",
            *arguments,
        ]
        try:
            done = run_program(
                COMMIT_HOOKS,
                words,
                folder=self._repository.top,
                environment=self._environment | more,
                seconds=_SECONDS,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise CommitRefused(
                f"the hook {name} did not end ({type(error).__name__}); look at it"
            ) from error
        if done.returncode != 0:
            said = (
                done.stdout.decode("utf-8", "replace").strip()[-_MOST_SAID:] or "it gave no reason"
            )
            raise CommitRefused(f"the hook {name} refused: {said}")


def _read(file: Path) -> str:
    try:
        text = read_regular(file, largest=_LARGEST_MESSAGE).decode("utf-8", "replace").strip()
    except OSError as error:
        raise CommitRefused(
            f"a hook took the message away ({error.strerror}); look at it"
        ) from error
    if not text:
        raise CommitRefused("a hook left no message; look at it")
    return f"{text}\n"
