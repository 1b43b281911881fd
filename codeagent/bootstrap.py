"""The only composition root: settings in, a running conversation out."""

import asyncio
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
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
from codeagent.agent.questions import Questions
from codeagent.config.loader import parse_rules
from codeagent.config.rule_book import RuleBookFile
from codeagent.config.settings import Settings
from codeagent.core.errors import CodeagentError, ConfigError, SandboxUnavailable
from codeagent.core.events import KnownEvent, RunStarted, UnknownEvent
from codeagent.core.policy import Policy
from codeagent.core.ports import Asker, OutputStore, Sandbox, SandboxInfo, Workspace
from codeagent.core.redact import Redactor
from codeagent.core.runtime import Queued, Runtime
from codeagent.core.tool import Tool
from codeagent.llm.hosted import context_window, key_variables
from codeagent.llm.resolve import open_model
from codeagent.llm.retry import RetryingModel
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.host import HostSandbox
from codeagent.sandbox.spec import SandboxSpec
from codeagent.session.history import History, fold
from codeagent.session.log import SessionLog
from codeagent.session.outputs import FileOutputs
from codeagent.session.resume import closing_events
from codeagent.session.store import SessionStore
from codeagent.tools.breadth import too_broad
from codeagent.tools.builtin.bash import Bash
from codeagent.tools.builtin.edit import Edit
from codeagent.tools.builtin.list import List
from codeagent.tools.builtin.read import Read
from codeagent.tools.builtin.search import Search
from codeagent.tools.builtin.write import Write
from codeagent.tools.extra.ask_user import AskUser
from codeagent.tools.extra.git_commit import GitCommit
from codeagent.tools.extra.output_read import OutputRead
from codeagent.tools.registry import ToolRegistry
from codeagent.tools.seen import SeenFiles
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.commits import GitCommitter
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
    find_key: Callable[[str], str | None] = field(default=lambda variable: None)
    """The key kept for a variable that the environment lacks; may block. Raises ConfigError."""
    config_dir: Path | None = None
    """Where rules are kept beyond a session; None: nowhere."""

    @cached_property
    def redactor(self) -> Redactor:
        """Knows the environment's secrets, and every kept key that was used."""
        return Redactor(self.environment)


async def open_runtime(
    settings: Settings,
    place: Place,
    *,
    resume: str | None,
    tell: Tell,
    observer: Callable[[KnownEvent], None],
    attended: bool,
) -> Runtime:
    """A conversation, new or resumed; model library and container start side by side.

    `tell` gets lines about a start that takes long; `observer` every event. `attended`: a person is there, so that
    what is used up is asked about. Raises CodeagentError: nothing is left running then.
    """
    if settings.model is None:
        raise ConfigError("no model is set")
    strategy = Strategy.parse(settings.strategy)
    book = None if place.config_dir is None else RuleBookFile(place.config_dir, place.workspace, too_broad)
    policy = await asyncio.to_thread(_policy, settings, book, tell)
    async with AsyncExitStack() as stack:
        model = await _open_model(settings.model, settings.api_base, place)
        stack.push_async_callback(model.close)
        workspace = LocalWorkspace(place.workspace)
        stack.callback(workspace.close)
        log, history = await _opened(SessionStore(place.state_dir, place.redactor), resume, workspace, stack)
        sandbox = await _start_sandbox(settings, place, workspace, log.session_id, tell, stack)
        outputs = FileOutputs(log.folder / "outputs", place.redactor)
        questions = Questions()
        commit = _commit_tool(workspace, place, hooks=settings.commit_hooks)
        tools = tools_for(sandbox.kind, workspace, outputs, _seen(workspace, history), questions, commit)
        limits, hooks = _limits(settings), _hooks(settings, workspace, tell)
        around = Surroundings(tools, workspace, sandbox.sandbox, sandbox.kind, outputs, policy, limits, hooks)
        around = replace(around, attended=attended, book=book, objection=too_broad)
        prompt = assemble_prompt(tools, workspace, sandbox.kind)
        conversation = Conversation(model, prompt, tools.definitions(), strategy, limits, attended)
        checkpoints = GitCheckpoints(place.state_dir, workspace.root)
        stack.callback(checkpoints.close)
        agent = Agent(conversation, around, log, _past(history), questions, checkpoints)
        stack.push_async_callback(agent.close)
        agent.observe(observer)
        agent.begin_checkpoints()
        if (trouble := sandbox.trouble) is not None:
            agent.notify("sandbox.unavailable", f"no sandbox, so bash is absent: {trouble}. {trouble.remedy}")
        window = await asyncio.to_thread(context_window, settings.model)
        runtime = Runtime(
            agent=agent,
            workspace=workspace,
            sandbox=sandbox.sandbox,
            sandbox_info=sandbox.info,
            outputs=outputs,
            tools=tools.definitions(),
            system_prompt=prompt,
            model=settings.model,
            context_window=window or model.context_window,
            rewind=agent.rewind,
            use_model=_no_other_model,
            close=stack.pop_all().aclose,
        )
        return replace(runtime, use_model=_ModelChange(runtime, agent, place))


def _policy(settings: Settings, book: RuleBookFile | None, tell: Tell) -> Policy:
    kept = () if book is None else book.load(tell)
    return Policy(settings.mode, (*parse_rules(settings.rules), *kept), settings.read_only_commands == "ask")


def _limits(settings: Settings) -> Limits:
    return Limits(
        max_turns=settings.limits.max_turns,
        max_calls=settings.limits.max_calls,
        timeout_per_call=settings.limits.timeout_per_call,
        max_cost_usd=settings.limits.budget,
    )


def _hooks(settings: Settings, workspace: Workspace, tell: Tell) -> Hooks:
    commands = [CommandHook(hook.event, hook.command, workspace.root) for hook in settings.hooks]
    return Hooks(command_hooks(commands), on_failure=tell)


def _seen(workspace: Workspace, history: History) -> SeenFiles:
    """What the model has seen of the files in the session so far."""
    seen = SeenFiles(workspace)
    for item in history.details:
        seen.restore(item.details)
    return seen


async def _no_other_model(name: str, api_base: str | None) -> Runtime:
    raise CodeagentError("this conversation keeps its model")


@dataclass(frozen=True)
class _ModelChange:
    """The `use_model` of a runtime."""

    runtime: Runtime
    agent: Agent
    place: Place

    async def __call__(self, name: str, api_base: str | None) -> Runtime:
        model = await _open_model(name, api_base, self.place)
        try:
            before = self.agent.use_model(model, api_base)
        except BaseException:
            await model.close()
            raise
        await before.close()
        window = await asyncio.to_thread(context_window, name)
        return replace(self.runtime, model=name, context_window=window or model.context_window, use_model=self)


async def _open_model(name: str, api_base: str | None, place: Place) -> RetryingModel:
    """The model, its library on the way; with a kept key where the environment has none. Raises CodeagentError."""
    key = await asyncio.to_thread(_kept_key, name, api_base, place)
    if key is not None:
        place.redactor.learn(*key)
    model = open_model(name, api_base=api_base, api_key=key and key[1])
    await model.prepare()
    return model


def _kept_key(name: str, api_base: str | None, place: Place) -> tuple[str, str] | None:
    """Variable and value."""
    variables = key_variables(name, api_base)
    if any(place.environment.get(variable) for variable in variables):
        return None
    for variable in variables:
        if value := place.find_key(variable):
            return variable, value
    return None


def _past(history: History) -> Past:
    queued = tuple(Queued(item.id, item.kind, item.text) for item in history.undelivered)
    return Past(
        line=history.line, call_ids=history.call_ids, moments=history.moments, queued=queued, notes=history.notes
    )


def _commit_tool(workspace: Workspace, place: Place, *, hooks: bool) -> GitCommit:
    return GitCommit(workspace, GitCommitter(workspace, place.environment, hooks=hooks), hooks=hooks)


def tools_for(
    kind: SandboxKind | None,
    workspace: Workspace,
    outputs: OutputStore,
    seen: SeenFiles,
    asker: Asker,
    commit: GitCommit,
) -> ToolRegistry:
    """The tools a model gets; bash only where there is something to run it in, `commit` only where bash cannot."""
    tools: list[Tool[Any]] = [
        Read(workspace, seen),
        Write(workspace, seen),
        Edit(workspace, seen),
        List(workspace),
        Search(workspace),
        OutputRead(outputs),
        AskUser(asker),
    ]
    match kind:
        case "docker":
            tools = [Bash(outputs, seen), *tools, commit]
        case "host":
            tools = [Bash(outputs, seen, always_ask=_ON_HOST), *tools]
        case None:
            tools = [*tools, commit]
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
    commit = _commit_tool(workspace, place, hooks=False)
    return tools_for(kind, workspace, outputs, SeenFiles(workspace), Questions(), commit), workspace


def assemble_prompt(tools: ToolRegistry, workspace: Workspace, kind: SandboxKind | None) -> str:
    where = Environment(str(workspace.root), f"{platform.system()} {platform.machine()}", kind)
    return system_prompt(tuple(tools), read_instructions(workspace), where)


async def _opened(
    store: SessionStore, resume: str | None, workspace: Workspace, stack: AsyncExitStack
) -> tuple[SessionLog, History]:
    """The session and what it holds; the stack closes it, also where nobody waits for it any more."""
    opening = asyncio.ensure_future(asyncio.to_thread(_open_session, store, resume, workspace))

    async def close() -> None:
        await asyncio.wait({opening})
        if not opening.cancelled() and opening.exception() is None:
            log = opening.result()[0]
            log.close()
            store.discard_if_empty(log.session_id)

    stack.push_async_callback(close)
    return await asyncio.shield(opening)


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
        raise ConfigError(
            f"session {session_id} belongs to another folder; nothing was run: "
            f"codeagent {there} --resume {session_id}, or codeagent run with --cwd {there}"
        )


@dataclass(frozen=True)
class _Started:
    """A sandbox that is ready, or why there is none."""

    sandbox: Sandbox | None = None
    kind: SandboxKind | None = None
    info: SandboxInfo | None = None
    trouble: SandboxUnavailable | None = None


async def _start_sandbox(
    settings: Settings, place: Place, workspace: Workspace, session: str, tell: Tell, stack: AsyncExitStack
) -> _Started:
    """Never anything weaker than what was asked for."""
    if settings.sandbox.kind == "off":
        host = HostSandbox(workspace.root, place.environment)
        stack.push_async_callback(host.close)
        return _Started(host, "host", await host.start(tell))
    container = docker_sandbox(settings, place, workspace.root, session)
    stack.push_async_callback(container.close)
    try:
        return _Started(container, "docker", await container.start(_slow(tell)))
    except SandboxUnavailable as error:
        return _Started(trouble=error)


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
