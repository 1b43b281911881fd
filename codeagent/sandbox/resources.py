"""What all containers of one session share: the workspace, pinned once, what is around it, and the engine."""

import os
from dataclasses import dataclass
from pathlib import Path

from codeagent.core.errors import SandboxUnavailable
from codeagent.disk.repository import OutsideGit, repository_of
from codeagent.sandbox.engine import Engine, engine_socket
from codeagent.sandbox.mounts import Mask, PinnedRoot, Secrets, SecretScan, refuse_unsuitable
from codeagent.sandbox.spec import SandboxSpec
from codeagent.sandbox.thaw import FrozenList


@dataclass(frozen=True)
class RepositoryMounts:
    """The parts of the workspace's repository outside the workspace; mounted read-only."""

    root: PinnedRoot | None = None
    """The work tree that the workspace is a folder of."""
    git: OutsideGit | None = None
    """A git directory elsewhere that the user has agreed to share."""
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
    around: RepositoryMounts
    scans: tuple[SecretScan, ...]


class SessionResources:
    """The shared resources of one session, opened once, so that every container has the very same directory."""

    def __init__(self, spec: SandboxSpec) -> None:
        self._spec = spec
        self._opened: _Opened | None = None
        self.guarded: frozenset[str] | None = None
        """Names that were protected when the last container was made; None before the first."""
        self.frozen = FrozenList(spec.state_dir)
        self.shut = False
        """From now on no container may be created."""

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
            around = _around(path, home, private, self._spec.agreed_git)
            scans = [SecretScan(root)]
            if around.root is not None:
                scans.append(SecretScan(around.root, without=str(path.relative_to(around.root.path))))
            self._opened = _Opened(root, Engine(socket), around, tuple(scans))
        return self._opened.root, self._opened.engine

    def opened(self) -> tuple[PinnedRoot, Engine]:
        """Return what is open, also while everything is being closed. Raises SandboxUnavailable after that."""
        if self._opened is None:
            raise _closed()
        return self._opened.root, self._opened.engine

    @property
    def around(self) -> RepositoryMounts:
        return RepositoryMounts() if self._opened is None else self._opened.around

    def secrets(self) -> Secrets:
        """Search for the files to mask as they are now; blocks. Raises SandboxUnavailable."""
        if self._opened is None:
            raise _closed()
        looks = [scan.look() for scan in self._opened.scans]
        masks = frozenset[Mask]().union(*(look.masks for look in looks))
        return Secrets(masks, all(look.complete for look in looks))

    def close(self) -> None:
        """Idempotent."""
        self.shut = True
        self.frozen.close()
        opened, self._opened = self._opened, None
        if opened is None:
            return
        opened.engine.close()
        opened.root.close()
        if opened.around.root is not None:
            opened.around.root.close()


def _around(root: Path, home: Path, private: tuple[Path, ...], agreed: frozenset[str]) -> RepositoryMounts:
    """Open what is around the workspace; warn about what cannot be shown, and leave it out."""
    repository = repository_of(root)
    if repository is None:
        return RepositoryMounts()
    warnings, top, git = [], None, repository.outside
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
        said = f"not there: {why}" if why else "read-only; only this folder can be changed"
        warnings.append(f"this is a folder of the repository {repository.top}, whose other files are {said}")
    return RepositoryMounts(top, git, tuple(warnings))


def _refused(directory: Path, home: Path, private: tuple[Path, ...]) -> str:
    """Return why commands may never see this directory, as a phrase; empty if they may. `private`: see pinned."""
    try:
        refuse_unsuitable(directory, home, private)
        PinnedRoot(directory).close()
    except SandboxUnavailable as error:
        return str(error)
    return ""


def _closed() -> SandboxUnavailable:
    return SandboxUnavailable("the sandbox is closed", "start codeagent again")
