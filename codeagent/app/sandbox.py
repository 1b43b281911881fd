"""The sandbox that the commands of a conversation run in, never weaker than asked for."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.agent.agent import Agent
from codeagent.config.local_environment import LocalEnvironment, active_environment, git_elsewhere
from codeagent.config.settings import Settings
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SandboxUnavailable
from codeagent.core.ports import Workspace
from codeagent.core.programs import find_program
from codeagent.core.sandbox import Sandbox, SandboxInfo, SandboxKind
from codeagent.core.sanitize import visible

if TYPE_CHECKING:
    from codeagent.sandbox.docker_sandbox import DockerSandbox
    from codeagent.sandbox.egress.internet import Internet

CodedText = tuple[str, str]
"""Code and text of a notice that a conversation begins with."""
Tell = Callable[[str], None]
_QUIET_SECONDS = 1.5
"""Progress of the sandbox is shown when it takes longer than this, and then this often."""


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
    local: LocalEnvironment,
    workspace: Workspace,
    session: str,
    stack: AsyncExitStack,
    *,
    tell: Tell,
    ready: bool,
) -> StartedSandbox:
    """Start the sandbox that was asked for, and never a weaker one.

    `ready`: return once commands can run; else as soon as the engine answers: the first command
    waits for the rest.
    """
    if settings.sandbox.kind == "off":
        from codeagent.sandbox.host import HostSandbox  # a run has either this or the container

        host = HostSandbox(workspace.root, local.environment, local.state_dir)
        stack.push_async_callback(host.close)
        return StartedSandbox(host, "host", await host.start(tell))
    container = await asyncio.to_thread(docker_sandbox, settings, local, workspace.root, session)
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


def docker_sandbox(
    settings: Settings, local: LocalEnvironment, root: Path, session: str
) -> "DockerSandbox":
    """Make the container of one session, not started yet."""
    # A run has either this or the host.
    from codeagent.app.images import image_source
    from codeagent.core.hosts import HostRule
    from codeagent.sandbox.described_image import plan_without_source
    from codeagent.sandbox.docker_sandbox import DockerSandbox
    from codeagent.sandbox.packages import package_cache
    from codeagent.sandbox.spec import SandboxLimits, SandboxSpec, UserPython

    elsewhere = git_elsewhere(root, local.config_dir)
    agreed = (
        frozenset({elsewhere.git.digest})
        if elsewhere is not None and elsewhere.answer
        else frozenset[str]()
    )
    configured = settings.sandbox.image
    images = image_source(settings, local.copy_of or root, local.config_dir)
    plan = (
        plan_without_source(configured)
        if images is None
        else images.plan(configured, accepted=local.accepted_image)
    )
    private = tuple(map(HostRule.parse, settings.network.private_hosts))
    python = find_program("python3", root)
    kept = settings.sandbox.package_bytes
    spec = SandboxSpec(
        root=root,
        state_dir=local.state_dir,
        session=session,
        home=Path.home(),
        private=() if local.config_dir is None else (local.config_dir,),
        agreed_git=agreed | local.agreed_git,
        docker_host=local.environment.get("DOCKER_HOST") or None,
        image=replace(
            plan, build_network=settings.sandbox.network == "open", packages_of=local.copy_of
        ),
        limits=SandboxLimits(network_bytes=settings.limits.network_bytes, package_bytes=kept),
        python=UserPython(
            active_environment(root, local.environment), None if python is None else Path(python)
        ),
        packages=package_cache(local.state_dir, local.copy_of or root) if kept else None,
        per_command=settings.sandbox.lifetime == "command",
    )

    def internet() -> "Internet":
        from codeagent.sandbox.egress.internet import internet_of  # once a command may reach hosts

        return internet_of(local.environment, private=private)

    return DockerSandbox(spec, internet)


def _slow(tell: Tell) -> Callable[[str], None]:
    last = time.monotonic()

    def progress(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _QUIET_SECONDS:
            last = time.monotonic()
            tell(text)

    return progress


def tell_when_started(sandbox: StartedSandbox, agent: Agent, stack: AsyncExitStack) -> None:
    """Have the agent report how the sandbox started, if the first request did not wait for that."""
    if sandbox.starting is not None:
        sandbox.starting.add_done_callback(partial(_tell_started, agent))
        stack.callback(
            sandbox.starting.cancel
        )  # runs before the agent is closed, which could not report it


def prepare_trials(started: StartedSandbox, stack: AsyncExitStack) -> None:
    """Find out in the background whether commands can be tried out, once they can run: the first
    one does not wait for that."""
    sandbox, starting = started.sandbox, started.starting

    async def prepare() -> None:
        if starting is not None:
            await asyncio.wait({starting})
        if sandbox is not None and sandbox.is_ready:
            await sandbox.prepare_trials()

    stack.callback(asyncio.create_task(prepare()).cancel)


def _tell_started(agent: Agent, starting: asyncio.Task[SandboxInfo]) -> None:
    if starting.cancelled():
        return
    if (trouble := starting.exception()) is not None:
        remedy = f"; {trouble.remedy}" if isinstance(trouble, SandboxUnavailable) else ""
        agent.emitter.warn(
            "sandbox.unavailable", f"no sandbox, so every command fails: {trouble}{remedy}"
        )
        return
    for code, text in told_at_start(starting.result()):
        agent.emitter.warn(code, text)


def told_at_start(info: SandboxInfo | None) -> Iterator[CodedText]:
    for text in () if info is None else info.told:
        yield "sandbox.narrowed", visible(text)
