"""Where a conversation happens: its folders, and the sandbox its commands run in, never weaker than
asked for."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codeagent.config.kept import TrustFile
from codeagent.config.settings import Settings
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SandboxUnavailable
from codeagent.core.ports import Sandbox, SandboxInfo, Workspace
from codeagent.core.programs import find_program
from codeagent.core.redact import Redactor
from codeagent.disk.repository import OutsideGit, repository_of

if TYPE_CHECKING:
    from codeagent.sandbox.docker_sandbox import DockerSandbox

SandboxKind = Literal["docker", "host"]
Tell = Callable[[str], None]
_QUIET_SECONDS = 1.5
"""Progress of the sandbox is shown when it takes longer than this, and then this often."""


@dataclass(frozen=True)
class Place:
    """The folders and the environment of a conversation."""

    workspace: Path
    state_dir: Path
    environment: Mapping[str, str]
    find_key: Callable[[str], str | None] = field(default=lambda variable: None)
    """Returns the key kept for a variable that the environment lacks; may block. Raises
    ConfigError."""
    config_dir: Path | None = None
    """Where rules and trust are kept beyond a session, and where the user's own tools, skills and
    hooks are."""
    trust_project: bool = False
    """The project's tool files are loaded as they are now, for this conversation."""
    accepted_image: str = ""
    """The digest of the image that the repository described when this program began, which accepts
    it; else empty."""
    has_servers: bool = True
    """Configured MCP servers are part of it."""
    agreed_git: frozenset[str] = frozenset()
    """Digests of git directories that commands may read, besides those that the user agreed to."""
    copy_of: Path | None = None
    """The workspace that this one is a copy of, and whose image and package cache it uses; None if
    it is not a copy."""

    @cached_property
    def own_folder(self) -> Path | None:
        """The `config_dir`, unless the agent could write to it."""
        folder = self.config_dir
        if folder is None or folder.resolve().is_relative_to(self.workspace.resolve()):
            return None
        return folder

    @property
    def splits(self) -> Path:
        """The folder that keeps how models divided large toolsets."""
        return self.state_dir / "toolsets"

    @cached_property
    def redactor(self) -> Redactor:
        """Knows the environment's secrets, and every kept key that was used."""
        return Redactor(self.environment)


@dataclass(frozen=True)
class GitElsewhere:
    """A git directory outside the workspace, and what the user said about it."""

    git: OutsideGit
    _book: TrustFile

    @property
    def answer(self) -> bool | None:
        """Whether commands may read it; None if the user was not asked yet. Raises ConfigError."""
        if self._book.trusts(self.git.digest):
            return True
        return False if self._book.trusts(self._refusal) else None

    def keep(self, answer: bool) -> None:
        """Remember the answer. Raises ConfigError."""
        self._book.trust(self.git.digest if answer else self._refusal)

    @property
    def _refusal(self) -> str:
        return sha256(f"not {self.git.digest}".encode()).hexdigest()


def git_elsewhere(workspace: Path, config_dir: Path | None) -> GitElsewhere | None:
    """Find a git directory outside the workspace, or None; blocks on small files. Raises
    ConfigError."""
    repository = repository_of(workspace.resolve())
    if config_dir is None or repository is None or repository.outside is None:
        return None
    return GitElsewhere(
        repository.outside, TrustFile(config_dir, workspace, Path.home(), "git.jsonl")
    )


def agrees_to(git: OutsideGit, workspace: Path, config_dir: Path | None) -> bool:
    """Tell whether the user agreed to this very directory; blocks on a small file. Raises
    ConfigError."""
    elsewhere = git_elsewhere(workspace, config_dir)
    return elsewhere is not None and elsewhere.git.digest == git.digest and elsewhere.answer is True


@dataclass(frozen=True)
class StartedSandbox:
    """A sandbox that is ready or starting, or why there is none."""

    sandbox: Sandbox | None = None
    kind: SandboxKind | None = None
    info: SandboxInfo | None = None
    """None while it is starting."""
    trouble: SandboxUnavailable | None = None
    starting: asyncio.Task[SandboxInfo] | None = None
    """Done once it is ready; if it raises SandboxUnavailable, every command fails with that. None
    if it is ready."""


async def start_sandbox(
    settings: Settings,
    place: Place,
    workspace: Workspace,
    session: str,
    tell: Tell,
    stack: AsyncExitStack,
    *,
    ready: bool,
) -> StartedSandbox:
    """Start the sandbox that was asked for, and never a weaker one.

    `ready`: return once commands can run; else as soon as the engine answers: the first command
    waits for the rest.
    """
    if settings.sandbox.kind == "off":
        from codeagent.sandbox.host import HostSandbox  # a run has either this or the container

        host = HostSandbox(workspace.root, place.environment, place.state_dir)
        stack.push_async_callback(host.close)
        return StartedSandbox(host, "host", await host.start(tell))
    container = await asyncio.to_thread(docker_sandbox, settings, place, workspace.root, session)
    stack.push_async_callback(container.close)
    starting = asyncio.create_task(container.start(_slow(tell)))
    starting.add_done_callback(lambda task: task.cancelled() or task.exception())
    stack.callback(starting.cancel)
    try:
        await container.check()
        if not ready:
            return StartedSandbox(container, "docker", starting=starting)
        return StartedSandbox(container, "docker", await starting)
    except SandboxUnavailable as error:
        starting.cancel()
        await container.close()
        return StartedSandbox(trouble=error)


def docker_sandbox(settings: Settings, place: Place, root: Path, session: str) -> "DockerSandbox":
    """Make the container of one session, not started yet."""
    # A run has either this or the host.
    from codeagent.app.images import image_source
    from codeagent.core.hosts import HostRule
    from codeagent.sandbox.described_image import plan_without_source
    from codeagent.sandbox.docker_sandbox import DockerSandbox
    from codeagent.sandbox.egress.internet import internet_of
    from codeagent.sandbox.packages import package_cache
    from codeagent.sandbox.spec import SandboxLimits, SandboxSpec, UserPython

    elsewhere = git_elsewhere(root, place.config_dir)
    agreed = (
        frozenset({elsewhere.git.digest})
        if elsewhere is not None and elsewhere.answer
        else frozenset[str]()
    )
    configured = settings.sandbox.image
    images = image_source(settings, place.copy_of or root, place.config_dir)
    plan = (
        plan_without_source(configured)
        if images is None
        else images.plan(configured, accepted=place.accepted_image)
    )
    private = tuple(map(HostRule.parse, settings.network.private_hosts))
    python = find_program("python3", root)
    kept = settings.sandbox.package_bytes
    spec = SandboxSpec(
        root=root,
        state_dir=place.state_dir,
        session=session,
        home=Path.home(),
        private=() if place.config_dir is None else (place.config_dir,),
        agreed_git=agreed | place.agreed_git,
        docker_host=place.environment.get("DOCKER_HOST") or None,
        image=replace(
            plan, build_network=settings.sandbox.network == "open", packages_of=place.copy_of
        ),
        limits=SandboxLimits(network_bytes=settings.limits.network_bytes, package_bytes=kept),
        python=UserPython(
            active_environment(root, place.environment), None if python is None else Path(python)
        ),
        packages=package_cache(place.state_dir, place.copy_of or root) if kept else None,
        per_command=settings.sandbox.lifetime == "command",
    )
    return DockerSandbox(spec, internet_of(place.environment, private=private))


def active_environment(root: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the activated virtual environment; None if it is not inside the workspace."""
    given = environment.get("VIRTUAL_ENV", "")
    if not Path(given).is_absolute():
        return None
    folder, top = Path(given).resolve(), root.resolve()
    return folder if top in folder.parents and (folder / "pyvenv.cfg").is_file() else None


def _slow(tell: Tell) -> Callable[[str], None]:
    last = time.monotonic()

    def progress(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _QUIET_SECONDS:
            last = time.monotonic()
            tell(text)

    return progress
