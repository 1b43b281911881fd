"""The only composition root: settings in, a running conversation out."""

import platform
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from codeagent.agent.agent import Agent, Past
from codeagent.agent.batches import Strategy
from codeagent.agent.command_hooks import CommandHook, command_hooks
from codeagent.agent.context import Environment, system_prompt
from codeagent.agent.executor import Surroundings
from codeagent.agent.hooks import Hooks
from codeagent.agent.limits import Limits
from codeagent.agent.loop import Conversation
from codeagent.agent.steering import Queued
from codeagent.config.loader import parse_rules
from codeagent.config.settings import Settings
from codeagent.core.errors import ConfigError, SandboxUnavailable
from codeagent.core.events import KnownEvent, RunStarted, UnknownEvent
from codeagent.core.policy import Policy
from codeagent.core.ports import OutputStore, Sandbox, Workspace
from codeagent.core.redact import Redactor
from codeagent.core.runtime import Runtime
from codeagent.core.tool import Tool
from codeagent.llm.resolve import open_model
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.host import HostSandbox
from codeagent.sandbox.spec import SandboxSpec
from codeagent.session.history import History, fold
from codeagent.session.log import SessionLog
from codeagent.session.outputs import FileOutputs
from codeagent.session.resume import closing_events
from codeagent.session.store import SessionStore
from codeagent.tools.builtin.bash import Bash
from codeagent.tools.builtin.edit import Edit
from codeagent.tools.builtin.list import List
from codeagent.tools.builtin.read import Read
from codeagent.tools.builtin.search import Search
from codeagent.tools.builtin.write import Write
from codeagent.tools.extra.output_read import OutputRead
from codeagent.tools.registry import ToolRegistry
from codeagent.tools.seen import SeenFiles
from codeagent.workspace.files import LocalWorkspace
from codeagent.workspace.instructions import read_instructions

SandboxKind = Literal["docker", "host"]
Tell = Callable[[str], None]
_ON_HOST = "without a sandbox this runs directly on your machine"
_QUIET_SECONDS = 1.5
"""Progress of the sandbox is shown when it takes longer than this, and then this often."""


@dataclass(frozen=True)
class Place:
    """Where a conversation happens."""

    workspace: Path
    state_dir: Path
    environment: Mapping[str, str]


async def open_runtime(
    settings: Settings, place: Place, *, resume: str | None, tell: Tell, observer: Callable[[KnownEvent], None]
) -> Runtime:
    """A conversation, new or resumed; model library and container start side by side.

    `tell` gets lines about a start that takes long; `observer` every event. Raises CodeagentError:
    nothing is left running then.
    """
    if settings.model is None:
        raise ConfigError("no model is set")
    strategy = Strategy.parse(settings.strategy)
    policy = Policy(settings.mode, parse_rules(settings.rules))
    limits = Limits(
        max_turns=settings.limits.max_turns,
        max_calls=settings.limits.max_calls,
        timeout_per_call=settings.limits.timeout_per_call,
        max_cost_usd=settings.limits.budget,
    )
    async with AsyncExitStack() as stack:
        model = open_model(settings.model, api_base=settings.api_base)
        stack.push_async_callback(model.close)
        await model.prepare()
        workspace = LocalWorkspace(place.workspace)
        stack.callback(workspace.close)
        redactor = Redactor(place.environment)
        log, history = _open_session(SessionStore(place.state_dir, redactor), resume, workspace)
        stack.callback(log.close)
        sandbox, kind, trouble = await _start_sandbox(settings, place, workspace, log.session_id, tell, stack)
        outputs = FileOutputs(log.folder / "outputs", redactor)
        seen = SeenFiles(workspace)
        for item in history.details:
            seen.restore(item.details)
        tools = tools_for(kind, workspace, outputs, seen)
        conversation = Conversation(
            model, assemble_prompt(tools, workspace, kind), tools.definitions(), strategy, limits
        )
        hooks = [CommandHook(hook.event, hook.command, workspace.root) for hook in settings.hooks]
        around = Surroundings(
            tools, workspace, sandbox, kind, outputs, policy, limits, Hooks(command_hooks(hooks), on_failure=tell)
        )
        queued = tuple(Queued(item.id, item.kind, item.text) for item in history.undelivered)
        agent = Agent(conversation, around, log, Past(history=history.messages, queued=queued))
        stack.push_async_callback(agent.close)
        agent.observe(observer)
        if trouble is not None:
            agent.notify("sandbox.unavailable", f"no sandbox, so bash is absent: {trouble}. {trouble.remedy}")
        return Runtime(agent, workspace, sandbox, stack.pop_all().aclose)


def tools_for(kind: SandboxKind | None, workspace: Workspace, outputs: OutputStore, seen: SeenFiles) -> ToolRegistry:
    """The tools a model gets; bash only where there is something to run it in."""
    tools: list[Tool[Any]] = [
        Read(workspace, seen),
        Write(workspace, seen),
        Edit(workspace, seen),
        List(workspace),
        Search(workspace),
        OutputRead(outputs),
    ]
    match kind:
        case "docker":
            tools.insert(0, Bash(outputs, seen))
        case "host":
            tools.insert(0, Bash(outputs, seen, always_ask=_ON_HOST))
        case None:
            pass
    return ToolRegistry(tools)


def describe_tools(place: Place) -> ToolRegistry:
    """The tools of a conversation with a sandbox, only to be looked at. Raises CodeagentError."""
    return _described(place, "docker")[0]


def describe_prompt(place: Place, kind: SandboxKind) -> str:
    """The system prompt of a conversation there. Raises CodeagentError."""
    tools, workspace = _described(place, kind)
    return assemble_prompt(tools, workspace, kind)


def _described(place: Place, kind: SandboxKind) -> tuple[ToolRegistry, Workspace]:
    workspace = LocalWorkspace(place.workspace)
    outputs = FileOutputs(place.state_dir / "none", Redactor({}))
    return tools_for(kind, workspace, outputs, SeenFiles(workspace)), workspace


def assemble_prompt(tools: ToolRegistry, workspace: Workspace, kind: SandboxKind | None) -> str:
    where = Environment(str(workspace.root), f"{platform.system()} {platform.machine()}", kind)
    return system_prompt(tuple(tools), read_instructions(workspace), where)


def _open_session(store: SessionStore, resume: str | None, workspace: Workspace) -> tuple[SessionLog, History]:
    """Raises SessionError, or ConfigError where the session belongs to another workspace."""
    if resume is None:
        return store.create(), fold(())
    log, recording = store.open(store.find(resume))
    try:
        _refuse_other_workspace(recording.events, workspace, log.session_id)
        closing = closing_events(recording.events, log.session_id, log.next_seq, round(time.time(), 3))
        for event in closing:
            log.append(event)
        return log, fold((*recording.events, *closing))
    except BaseException:
        log.close()
        raise


def _refuse_other_workspace(
    events: tuple[KnownEvent | UnknownEvent, ...], workspace: Workspace, session_id: str
) -> None:
    there = next((event.workspace for event in reversed(events) if isinstance(event, RunStarted)), None)
    if there is not None and there != str(workspace.root):
        raise ConfigError(f"session {session_id} belongs to another folder; nothing was run: give --cwd {there}")


async def _start_sandbox(
    settings: Settings, place: Place, workspace: Workspace, session: str, tell: Tell, stack: AsyncExitStack
) -> tuple[Sandbox | None, SandboxKind | None, SandboxUnavailable | None]:
    """A sandbox that is ready; or none, and why. Never anything weaker than what was asked for."""
    if settings.sandbox.kind == "off":
        host = HostSandbox(workspace.root, place.environment)
        stack.push_async_callback(host.close)
        await host.start(tell)
        return host, "host", None
    container = docker_sandbox(settings, place, workspace.root, session)
    stack.push_async_callback(container.close)
    try:
        await container.start(_slow(tell))
    except SandboxUnavailable as error:
        return None, None, error
    return container, "docker", None


def docker_sandbox(settings: Settings, place: Place, root: Path, session: str) -> DockerSandbox:
    """The container of one session, not started yet."""
    spec = SandboxSpec(
        root=root,
        state_dir=place.state_dir,
        session=session,
        home=Path.home(),
        docker_host=place.environment.get("DOCKER_HOST") or None,
        image=settings.sandbox.image,
        per_command=settings.sandbox.lifetime == "command",
    )
    return DockerSandbox(spec)


def _slow(tell: Tell) -> Callable[[str], None]:
    last = time.monotonic()

    def progress(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _QUIET_SECONDS:
            last = time.monotonic()
            tell(text)

    return progress
