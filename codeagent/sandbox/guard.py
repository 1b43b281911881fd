"""What the containers of a session share, and what they must neither see nor leave behind.

Commands must not see secrets, nor leave behind what could run code outside the sandbox.
"""

import os
import secrets
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SandboxUnavailable
from codeagent.disk.opens import open_folder
from codeagent.disk.private import make_private_folder
from codeagent.disk.repository import OutsideGit, repository_of
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import engine_socket
from codeagent.sandbox.exec_stream import ExecTarget
from codeagent.sandbox.freeze import processor_time
from codeagent.sandbox.git_view import GitLocation, GitView, index_state, tracks
from codeagent.sandbox.mounts import (
    NOT_ALL_MASKED,
    PinnedEntry,
    PinnedRoot,
    Secrets,
    SecretScan,
    folder_of,
    refuse_unsuitable,
)
from codeagent.sandbox.spec import SandboxSpec
from codeagent.sandbox.tasks import in_thread
from codeagent.sandbox.thaw import FrozenList
from codeagent.sandbox.work_user import WorkUser

if TYPE_CHECKING:
    from codeagent.sandbox.image import ImageChoice  # brings what finds images
    from codeagent.sandbox.layers import Layer  # only for views

_SETTLE_SECONDS = 10.0
"""How long closing waits for an engine that is creating a container."""


@dataclass(frozen=True)
class RepositoryMounts:
    """The parts of the workspace's repository outside the workspace; mounted read-only."""

    root: PinnedRoot | None = None
    """The work tree that the workspace is a folder of."""
    git: OutsideGit | None = None
    """A git directory elsewhere that the user has agreed to share."""
    location: GitLocation | None = None
    """The repository that git in commands finds; None if there is none."""
    warnings: tuple[str, ...] = ()

    @property
    def mounts(self) -> tuple[tuple[str, int], ...]:
        """Paths and inodes, outermost first."""
        top = () if self.root is None else ((str(self.root.path), os.fstat(self.root.fd).st_ino),)
        return top if self.git is None else (*top, (str(self.git.directory), self.git.inode))


@dataclass(frozen=True)
class _Opened:
    root: PinnedRoot
    engine: Engine
    repository: RepositoryMounts
    scans: tuple[SecretScan, ...]


class SessionResources:
    """The shared resources of one session, opened once, so that every container has the very same
    directory."""

    def __init__(self, spec: SandboxSpec) -> None:
        self._spec = spec
        self._opened: _Opened | None = None
        self.guarded: frozenset[str] | None = None
        """Names that were protected when the last container was made; None before the first. What
        appeared while something might plant it is not among them."""
        self.may_plant: Callable[[], bool] = lambda: False
        """Whether something is running that could plant."""
        self.image: ImageChoice | None = None
        """The image of the last container that is not a view, which views have as well."""
        self.frozen = FrozenList(spec.state_dir)
        self.shut = False
        """From now on no container may be created."""
        self._creating = 0
        self._created = threading.Condition()

    def open(self) -> tuple[PinnedRoot, Engine]:
        """Open everything on the first call. Raises SandboxUnavailable."""
        if self.shut:
            raise _closed()
        if self._opened is None:
            socket = engine_socket(self._spec.docker_host)
            path = Path(os.path.realpath(self._spec.root))
            home = Path(os.path.realpath(self._spec.home))
            private = (self._spec.state_dir, Path(socket), *self._spec.private)
            refuse_unsuitable(path, home, private)
            root = PinnedRoot(path)
            repository = _repository_mounts(path, home, private, self._spec.agreed_git)
            scans = [SecretScan(root)]
            if (top := repository.root) is not None:
                scans.append(SecretScan(top, without=str(path.relative_to(top.path))))
            engine = Engine(socket, workspace=root.path)
            self._opened = _Opened(root, engine, repository, tuple(scans))
        return self._opened.root, self._opened.engine

    def opened(self) -> tuple[PinnedRoot, Engine]:
        """Return what is open, also while everything is being closed. Raises SandboxUnavailable
        after that."""
        if self._opened is None:
            raise _closed()
        return self._opened.root, self._opened.engine

    @contextmanager
    def creating(self) -> Iterator[Callable[[], None]]:
        """Have `settled` wait for the block, which creates a container. Raises SandboxUnavailable
        once it is shut.

        What it gives raises that as well, for a container that was created meanwhile.
        """

        def unwanted() -> None:
            if self.shut:
                raise _closed()

        with self._created:
            unwanted()
            self._creating += 1
        try:
            yield unwanted
        finally:
            self.taken()

    def hand_over(self) -> None:
        """Have `settled` wait until `taken`, after a block of `creating`: the container may be
        unwanted by then."""
        with self._created:
            self._creating += 1

    def taken(self) -> None:
        """Note that a container that was handed over is in use, or was removed."""
        with self._created:
            self._creating -= 1
            self._created.notify_all()

    def settled(self) -> None:
        """Return once every container that was being created is in use, or was removed; blocks for
        a bounded time.

        To be called when it is shut.
        """
        with self._created:
            self._created.wait_for(lambda: not self._creating, _SETTLE_SECONDS)

    @property
    def repository(self) -> RepositoryMounts:
        return RepositoryMounts() if self._opened is None else self._opened.repository

    def secrets(self) -> Secrets:
        """Search for the files to mask as they are now; blocks. Raises SandboxUnavailable."""
        if self._opened is None:
            raise _closed()
        looks = [scan.look() for scan in self._opened.scans]
        masked = frozenset[PinnedEntry]().union(*(look.masked for look in looks))
        return Secrets(masked, all(look.complete for look in looks))

    def close(self) -> None:
        """Idempotent."""
        self.shut = True
        self.frozen.close()
        opened = self._opened
        self._opened = None
        if opened is None:
            return
        opened.engine.close()
        opened.root.close()
        if opened.repository.root is not None:
            opened.repository.root.close()


def _repository_mounts(
    root: Path, home: Path, private: tuple[Path, ...], agreed: frozenset[str]
) -> RepositoryMounts:
    """Open what of the repository is outside the workspace; warn about what cannot be shown, and
    leave it out."""
    repository = repository_of(root)
    if repository is None:
        return RepositoryMounts()
    warnings = []
    top = None
    git = repository.outside
    no_git = "git does not work in bash: "
    if repository.problem:
        warnings.append(no_git + repository.problem)
    if git is not None and (why := _refused(git.directory, home, private)):
        warnings.append(no_git + why)
        git = None
    elif git is not None and git.digest not in agreed:
        pointing = f"{git.pointer} leads to {git.directory}, outside the workspace"
        warnings.append(f"{no_git}{pointing}; codeagent sandbox git --allow lets commands read it")
        git = None
    if repository.top != root:
        why = repository.problem or _refused(repository.top, home, private)
        top = None if why else PinnedRoot(repository.top)
        said = f"not visible: {why}" if why else "read-only; only this folder can be changed"
        warnings.append(
            f"this is a folder of the repository {repository.top}, whose other files are {said}"
        )
    seen = not repository.problem and (repository.top == root or top is not None)
    location = None
    if seen and (repository.outside is None or git is not None):
        location = GitLocation(repository.top, repository.top / ".git" if git is None else git.own)
    return RepositoryMounts(top, git, location, tuple(warnings))


def _refused(directory: Path, home: Path, private: tuple[Path, ...]) -> str:
    """Return why commands may never see this directory, as a phrase; empty if they may. `private`:
    see pinned."""
    try:
        refuse_unsuitable(directory, home, private)
        PinnedRoot(directory).close()
    except SandboxUnavailable as error:
        return str(error)
    return ""


def _closed() -> SandboxUnavailable:
    return SandboxUnavailable("the sandbox is closed", "start codeagent again")


@dataclass(frozen=True)
class Container:
    """A running container, and what it was made with."""

    container_id: str
    stdin: socket.socket
    """The connection that keeps it alive: when it closes, the container ends."""
    processes: Path | None
    """The file with the kernel's list of its processes; None if this machine does not show it."""
    image: str
    image_origin: str
    protected: tuple[PinnedEntry, ...]
    """Entries mounted read-only, as they were when it was made."""
    secrets: Secrets
    """Files that read as empty inside, as they were when it was made."""
    mounts: tuple[tuple[str, int], ...]
    """Paths and inodes of what is mounted of the repository outside the workspace, and of the
    package cache."""
    told: tuple[str, ...]
    """What the user is told at the start."""
    warnings: tuple[str, ...]
    """What is shown besides when the user looks."""
    path: str
    """PATH of commands."""
    git_view: GitView | None
    """What is mounted in place of the git directory; None if that is mounted itself."""
    user: WorkUser
    """The user that commands run as."""
    layer: "Layer | None"
    """What gets the changes of a view; None if the workspace itself does."""

    @property
    def guarded(self) -> tuple[tuple[str, int], ...]:
        """Names or paths, and inodes, of what must be the same inside."""
        view = self.git_view
        if view is None:
            return (*((found.name, found.inode) for found in self.protected), *self.mounts)
        inodes = (
            (found.name, view.inode if found.path == view.directory else found.inode)
            for found in self.protected
        )
        mounts = (
            (path, view.inode if path == view.directory else inode) for path, inode in self.mounts
        )
        return (*inodes, *mounts)

    @property
    def moment(self) -> tuple[str, int] | None:
        """Equal to an earlier one if nothing has run inside in between; None if that is not
        known."""
        used = processor_time(self.processes)
        return None if used is None else (self.container_id, used)

    def target(self, root: PinnedRoot) -> ExecTarget:
        """Return where commands run, and as which user."""
        return ExecTarget(
            self.container_id,
            f"{self.user.uid}:{self.user.gid}",
            str(root.path),
            self.processes,
            self.path,
        )

    def disconnect(self) -> None:
        self.stdin.close()

    def discard(self) -> None:
        """End it before anything has run inside."""
        self.disconnect()
        if self.layer is not None:
            from codeagent.sandbox.layers import remove_layer  # only for views

            with suppress(OSError):  # the next start removes it
                remove_layer(self.layer)


class ContainerGuard:
    """Compares one container's mounts with what is on disk now, around each command."""

    def __init__(self, resources: SessionResources, state_dir: Path) -> None:
        self._resources = resources
        self._state_dir = state_dir
        self._exposed: frozenset[PinnedEntry] = frozenset()
        """Files that look like secrets and could not be masked."""
        self._complete = True
        self._index: tuple[int, int, int] | None = None
        """The index that was last looked at for masked files, or that the container was made
        with."""

    @property
    def exposed(self) -> str:
        """Why commands may come across secrets, as a phrase; empty if they may not."""
        if self._exposed:
            return f"{min(found.name for found in self._exposed)} may contain secrets and is not hidden"
        return "" if self._complete else NOT_ALL_MASKED

    def begin(self, container: Container) -> None:
        """Start guarding a new container, which masks all that was found."""
        self._exposed = frozenset()
        self._complete = container.secrets.complete
        location = self._resources.repository.location
        with suppress(OSError):
            self._index = None if location is None else index_state(location)

    async def outdated(self, container: Container, *, busy: bool) -> list[str]:
        """Return names that are no longer protected or masked as they should be: the container must
        be replaced.

        Raises SandboxUnavailable, once for each secret, if it cannot be because it is `busy`.
        """
        root, _ = self._resources.opened()
        root.refuse_moved()
        names = sorted({each.name for each in {*container.protected} ^ {*root.protected()}})
        found, tracked = await in_thread(partial(self._look, container))
        self._complete = found.complete
        if not busy:
            return (
                names
                + sorted({each.name for each in found.masked ^ container.secrets.masked})
                + tracked
            )
        new = found.masked - container.secrets.masked - self._exposed
        self._exposed |= new
        if new and not names:
            shown = ", ".join(sorted(each.name for each in new))
            problem = f"{shown} may contain secrets and cannot be hidden while another command runs"
            raise SandboxUnavailable(
                problem,
                "run it again: until then, commands that read more than single files need your approval",
            )
        return names

    def _look(self, container: Container) -> tuple[Secrets, list[str]]:
        """Search for the files to mask, and show git the repository as it is now. Raises
        SandboxUnavailable.

        Also returns the name of the index if git cannot be shown it as it is now: it is not as when
        the container was made.
        """
        found = self._resources.secrets()
        if container.git_view is None:
            return found, [".git/index"] if self._tracked(found) else []
        try:
            container.git_view.refresh(found.masked)
        except OSError:  # the container that replaces this one says why
            return found, [".git/index"]
        return found, []

    def _tracked(self, found: Secrets) -> bool:
        location = self._resources.repository.location
        if location is None or not found.masked:
            return False
        try:
            state = index_state(location)
            if state == self._index:
                return False
            self._index = state
            return tracks(location, found.masked)
        except (OSError, ValueError):  # said when the container was made
            return False

    def quarantined(self, container: Container) -> list[str]:
        """Move away what commands planted; return one sentence for each."""
        root, _ = self._resources.opened()
        return list(
            move_planted(root, {found.name for found in container.protected}, self._state_dir)
        )


def move_planted(root: PinnedRoot, known: Collection[str], state_dir: Path) -> tuple[str, ...]:
    """Move away, unread, what is protected by name at the root and not known; return a sentence
    about each."""
    return tuple(
        _moved(root, found.name, state_dir) for found in root.protected() if found.name not in known
    )


def _moved(root: PinnedRoot, name: str, state_dir: Path) -> str:
    try:
        place = set_aside(root, name, state_dir)
    except OSError as error:
        return f"{name} appeared and could not be moved away ({error.strerror}): look at it before using git"
    return (
        f"a command created {name}, which could run code outside the sandbox: it was moved to {place}; "
        "the user can create it themselves"
    )


def set_aside(root: PinnedRoot, name: str, state_dir: Path) -> Path:
    """Move what is at `name` (relative to the root) below the state directory; return where it is.
    Raises OSError.

    If that is another file system, it stays in the workspace under a name that no tool looks for.
    """
    plain = name.rpartition("/")[2].lstrip(".") or "unnamed"
    new_name = f"{plain}-{secrets.token_hex(4)}"
    folder = state_dir / "sandbox" / "quarantine"
    make_private_folder(folder)
    parent, last = folder_of(root.fd, name)
    try:
        try:
            os.rename(last, folder / new_name, src_dir_fd=parent)
            return folder / new_name
        except OSError:
            os.rename(last, f"quarantined-{new_name}", src_dir_fd=parent, dst_dir_fd=parent)
        _behead(parent, f"quarantined-{new_name}")
    finally:
        os.close(parent)
    return (root.path / name).with_name(f"quarantined-{new_name}")


def _behead(parent: int, name: str) -> None:
    """Take a folder's HEAD away: git recognises a repository by what is in it, whatever it is
    called."""
    try:
        fd = open_folder(name, within=parent)
    except NotADirectoryError:
        return
    try:
        os.rename("HEAD", "quarantined-HEAD", src_dir_fd=fd, dst_dir_fd=fd)
    except FileNotFoundError:
        return
    finally:
        os.close(fd)
