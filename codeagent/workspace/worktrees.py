"""Worktrees: copies of the workspace, with git's view of the repository. Those of agents are
removed with their process, those of users are kept until they remove them.

A copy is made from a snapshot, so it has everything that was not committed, and nothing that git
ignores or that is too large for a snapshot. In a repository it is a linked worktree with no branch
checked out; git itself is not run.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from codeagent.config.local_environment import ORIGIN
from codeagent.core.cancel import completed
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node, Snapshot
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CheckpointError
from codeagent.disk.locks import open_lock_file, try_lock
from codeagent.disk.opens import closing_fd, read_regular
from codeagent.disk.private import make_private_folder
from codeagent.disk.repository import OutsideGit, repository_of
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.git_status import copy_regular

_FILES, _LINK, _BEGUN = "files", "link", "begun"
_PREFIX = "codeagent-"
_LONGEST_PATH = 4096
_AHEAD = 4 << 20
"""Bytes of changed files that are read at once."""


class Worktree:
    """A copy of the workspace to work in; `remove` it, or `keep` it."""

    def __init__(
        self, folder: "_Folder", store: GitCheckpoints, begun: Snapshot, git: str = ""
    ) -> None:
        """`git`: see the attribute."""
        self._folder = folder
        self._store = store
        self._begun = self._now = begun
        self._changed: tuple[str, ...] = ()
        self._ahead: dict[str, Change[Node]] = {}
        """Files that were read together with one that was asked for."""
        self.git = git
        """The digest of the git directory that its commands may read (`OutsideGit.digest`); empty
        without git."""

    @property
    def root(self) -> Path:
        return self._folder.files

    @property
    def left_out(self) -> tuple[str, ...]:
        """What `changed` could not compare, a phrase each, as in `Snapshot.left_out`."""
        return tuple(phrase for phrase in self._now.left_out if phrase not in self._begun.left_out)

    async def changed(self) -> tuple[str, ...]:
        """Return the paths that were changed in it, in order. Raises CheckpointError."""
        self._now = await self._store.take()
        self._ahead.clear()
        self._changed = tuple(
            change.path for change in await self._store.changes(self._begun.id, self._now.id)
        )
        return self._changed

    async def file(self, path: str) -> Change[Node]:
        """Return the change of one of these files since the worktree was made, as it was when
        `changed` looked. Raises CheckpointError."""
        if path not in self._ahead:
            paths = self._changed[self._changed.index(path) :]
            nodes = await self._store.nodes((self._begun.id, self._now.id), paths, _AHEAD)
            self._ahead = {
                one: Change(one, before, after)
                for one, (before, after) in zip(paths, nodes, strict=False)
            }
        return self._ahead.pop(path)

    async def merged(self, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
        """Merge two versions of a text, line by line; None if both changed the same lines. Raises
        CheckpointError."""
        return await self._store.merged(base, ours, theirs)

    async def remove(self) -> None:
        """Remove it from the disk; idempotent."""
        await completed(self._folder.remove)

    def keep(self, origin: Path) -> None:
        """Let it outlive this process, as a copy of `origin`; `kept_worktree` opens it again.
        Raises OSError."""
        (self._folder.path / _BEGUN).write_text(self._begun.id)
        (self._folder.path / ORIGIN).write_bytes(os.fsencode(origin))
        self._folder.let_go()

    def close(self) -> None:
        """Release its store of snapshots; it stays on the disk."""
        self._store.close()


async def make_worktree(
    place: Path,
    root: Path,
    name: str,
    workspace: GitCheckpoints,
    agreed: Callable[[OutsideGit], bool],
    *,
    files: str = _FILES,
) -> Worktree:
    """Copy the workspace at `root` as it is now, into a folder in `place`; `name` is unique there.

    `agreed`: whether the user lets this session use a git directory outside the workspace; `files`
    is the name of the folder that is the copy. Raises CheckpointError, and leaves nothing behind.
    """
    folder = _Folder(place / name, files)
    try:
        await completed(folder.make)
        await workspace.write_out((await workspace.take()).id, folder.files)
        git = await completed(partial(_link, root, folder, agreed))
        store = GitCheckpoints(folder.path, folder.files)
        folder.before_removal = store.close
        return Worktree(folder, store, await store.take(), git)
    except OSError as error:
        await completed(folder.remove)
        raise CheckpointError(
            f"no worktree can be made in {folder.path} ({error.strerror})"
        ) from error
    except BaseException:
        await completed(folder.remove)
        raise


def kept_worktree(root: Path) -> Worktree:
    """Open the kept worktree at `root`, to compare it; `close` it. Raises CheckpointError."""
    folder = _Folder(root.parent, root.name)
    try:
        begun = (folder.path / _BEGUN).read_text()
    except OSError as error:
        raise CheckpointError(
            f"{folder.path} is not a complete worktree ({error.strerror})"
        ) from error
    return Worktree(folder, GitCheckpoints(folder.path, root), Snapshot(begun, 0))


def discard(folder: Path) -> None:
    """Remove a worktree, or what is left of one, unless a process holds it; blocks. `folder` is the
    one that the copy is in."""
    lock = folder.with_name(f"{folder.name}.lock")
    with suppress(OSError), closing_fd(open_lock_file(lock, create=False)) as fd:
        if try_lock(fd):
            _remove(folder, lock)


def sweep(place: Path) -> None:
    """Remove the worktrees in a folder whose process is gone; blocks."""
    for lock in place.glob("*.lock"):
        discard(lock.with_suffix(""))
    with suppress(OSError):
        place.rmdir()


@dataclass(eq=False)
class _Folder:
    """What there is of one worktree on disk; beside it is a lock file that its process holds."""

    path: Path
    name: str = _FILES
    before_removal: Callable[[], None] = lambda: None
    _fd: int = -1

    @property
    def files(self) -> Path:
        return self.path / self.name

    @property
    def _lock(self) -> Path:
        return self.path.with_name(f"{self.path.name}.lock")

    def make(self) -> None:
        """Raises OSError."""
        while self._fd < 0:
            make_private_folder(self.path.parent)
            with suppress(FileNotFoundError):  # a sweep has just removed the folder, or the file
                fd = open_lock_file(self._lock)
                try:
                    if try_lock(fd) and os.path.samestat(self._lock.stat(), os.fstat(fd)):
                        self._fd = fd
                finally:
                    if self._fd < 0:
                        os.close(fd)
        try:
            self.path.mkdir(mode=0o700)
        except FileExistsError:
            self.let_go()  # it is not ours to remove
            raise
        self.files.mkdir(mode=0o700)

    def remove(self) -> None:
        """Idempotent."""
        self.before_removal()
        if self._fd >= 0:
            _remove(self.path, self._lock)
            os.close(self._fd)
            self._fd = -1
        with suppress(OSError):
            self.path.parent.rmdir()

    def let_go(self) -> None:
        """Leave it on the disk without a process that holds it."""
        self.before_removal()
        os.close(self._fd)
        self._fd = -1


def _remove(folder: Path, lock: Path) -> None:
    """Remove a worktree, git's part of it first; what is left of it keeps its lock file, for the
    next sweep."""
    with suppress(OSError, ValueError):
        git = Path(os.fsdecode(read_regular(folder / _LINK, most=_LONGEST_PATH)))
        if git.name == f"{_PREFIX}{folder.name}":
            shutil.rmtree(git)
            git.parent.rmdir()
    shutil.rmtree(folder, onerror=_made_writable)
    if not folder.exists():
        lock.unlink(missing_ok=True)


def _made_writable(remove: Callable[..., Any], path: str, error: object) -> None:
    """Try again with the permissions that a command may have taken away."""
    with suppress(OSError):
        Path(path).parent.chmod(0o700)
        if remove is os.open:
            Path(path).chmod(0o700)
            shutil.rmtree(path, onerror=_made_writable)
        else:
            remove(path)


def _link(root: Path, folder: _Folder, agreed: Callable[[OutsideGit], bool]) -> str:
    """Make the copy a linked worktree; return the digest of its git directory.

    Empty, and the copy has no git, if the workspace is only a folder of a repository, or git does
    not work there. Raises OSError.
    """
    repository = repository_of(root)
    if repository is None or repository.problem or repository.top != root:
        return ""
    outside = repository.outside
    if outside is not None and not agreed(outside):
        return ""
    from codeagent.workspace.git import checked_out  # slow to load

    own, shared = (
        (root / ".git", root / ".git") if outside is None else (outside.own, outside.directory)
    )
    git = shared / "worktrees" / f"{_PREFIX}{folder.path.name}"
    files = os.fsencode(f"{folder.files / '.git'}\n")
    while True:
        with suppress(FileExistsError):
            git.parent.mkdir()
        if git.parent.is_symlink():
            return ""
        with suppress(OSError, ValueError):
            if read_regular(git / "gitdir", most=_LONGEST_PATH) == files:  # it was removed by hand
                shutil.rmtree(git)
                continue
        (folder.path / _LINK).write_bytes(os.fsencode(git))
        with suppress(FileNotFoundError):  # another worktree, the last one, has just been removed
            git.mkdir()
            break
    (git / "gitdir").write_bytes(files)
    (git / "commondir").write_text("../..\n")
    (git / "HEAD").write_bytes(checked_out(own, shared))
    for name in ("index", *(path.name for path in own.glob("sharedindex.*"))):
        copy_regular(own, git, name)
    (folder.files / ".git").write_bytes(os.fsencode(f"gitdir: {git}\n"))
    linked = repository_of(folder.files)
    return "" if linked is None or linked.outside is None else linked.outside.digest
