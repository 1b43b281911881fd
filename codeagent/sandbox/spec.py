"""What a sandbox is made from: plain values, read once when the program starts."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codeagent.core.dataclass import dataclass
from codeagent.sandbox.described_image import ImagePlan
from codeagent.sandbox.tasks import GIB

if TYPE_CHECKING:  # only for containers
    from codeagent.sandbox.packages import PackageCache


@dataclass(frozen=True)
class Bind:
    """A mount of something that exists on this machine."""

    source: str
    target: str
    read_only: bool = True
    recursive: bool = True
    """Include what is mounted below the source; that stays writable whatever `read_only` says."""


@dataclass(frozen=True)
class SandboxLimits:
    """How much one session's sandbox may take."""

    memory_bytes: int = 2 * GIB
    tmp_bytes: int = GIB
    """Size limit of `/tmp` and of the home directory inside, each; counted as memory."""
    pids: int = 512
    cpus: float = float(os.cpu_count() or 1)
    network_bytes: int = GIB
    """What one command may send and receive, together."""
    package_bytes: int = 2 * GIB
    """What the package cache may take on the disk."""


@dataclass(frozen=True)
class UserPython:
    """The Python that the user works with."""

    environment: Path | None = None
    """The activated virtual environment, if it is in the workspace."""
    program: Path | None = None
    """The user's `python3` on this machine; for the image of this machine's toolchain."""


@dataclass(frozen=True)
class View:
    """A copy-on-write view of the workspace, for a container beside the session's own."""

    container_id: str
    """The session's container, whose loopback it shares."""
    scratch: tuple[str, str]
    """The volumes with that container's `/tmp` and home directory; empty for its own."""
    layered: bool = True
    """Whether there is a layer for changes; else the workspace is read-only."""


WorkspaceAccess = Literal["writable", "read-only"] | View
"""What commands may do in the workspace; with a View, each container has a layer of its own, which
they change in place of it."""


@dataclass(frozen=True)
class SandboxSpec:
    """One session's sandbox."""

    root: Path
    """The workspace: absolute; links in it are resolved when the sandbox is made."""
    state_dir: Path
    """Where the sandbox keeps its own few files; never visible inside."""
    session: str
    home: Path
    """The user's home directory, which is refused as a workspace."""
    private: tuple[Path, ...] = ()
    """Folders that no command may see, besides the state directory: keys and trust are kept
    there."""
    agreed_git: frozenset[str] = frozenset()
    """Digests of git directories outside the workspace that the user lets commands read:
    `OutsideGit.digest`."""
    docker_host: str | None = None
    """`unix://…`; None for the usual socket."""
    image: ImagePlan = ImagePlan()
    limits: SandboxLimits = SandboxLimits()
    python: UserPython = UserPython()
    packages: "PackageCache | None" = None
    """Mounted for commands that may change the workspace; None: what they download to install is
    not kept."""
    binds: tuple[Bind, ...] = ()
    """Further mounts, at places of their own."""
    access: WorkspaceAccess = "writable"
    per_command: bool = False
    """Every command gets its own container, and the next one is made ready in advance: only files
    of the workspace survive from one to the next."""
    egress_folder: Path | None = None
    """Contains the socket of the proxy, for containers whose commands may reach hosts; None: no
    network access."""

    @property
    def written(self) -> tuple[Path, ...]:
        """The folders that commands may fill."""
        return (self.root,) if self.packages is None else (self.root, self.packages.folder.parent)

    @property
    def view(self) -> View | None:
        return self.access if isinstance(self.access, View) else None

    @property
    def read_only(self) -> bool:
        return self.access == "read-only" or (self.view is not None and not self.view.layered)
