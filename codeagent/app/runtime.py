"""Settings in, a running conversation out, in a new session or a resumed one."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

from codeagent.agent.agent import Agent
from codeagent.agent.approvals import UserQuestions
from codeagent.agent.batches import Strategy
from codeagent.agent.calls import ToolEnvironment
from codeagent.agent.hooks.hook import Hook, Hooks
from codeagent.agent.jobs.store import Jobs
from codeagent.agent.limits import ContextLimits, Limits
from codeagent.agent.loop import Conversation
from codeagent.agent.prompt import MakePrompt, PromptBuilder, told_small
from codeagent.agent.queue import Delivery
from codeagent.app.models import OpenModels, check_budget, check_counted, model_options
from codeagent.app.place import Place, StartedSandbox, Tell, start_sandbox
from codeagent.app.sources import (
    newly_given,
    open_catalog,
    open_inbox,
    remarks_of_extensions,
    with_chosen,
    with_messages,
)
from codeagent.app.tools import ToolDependencies, forget_reads, prompt_for, tracked_reads
from codeagent.config.kept import RuleBookFile
from codeagent.config.layers import parse_rules
from codeagent.config.settings import Settings
from codeagent.core.acts import SetNetwork
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError, SandboxUnavailable
from codeagent.core.events import KnownEvent, RunStarted, UnknownEvent
from codeagent.core.groups import Group
from codeagent.core.model import Model, ModelOpener, from_now_on
from codeagent.core.policy import NetworkLevel, Policy, Rule
from codeagent.core.ports import SandboxInfo, Workspace
from codeagent.core.runtime import Runtime
from codeagent.core.sanitize import visible
from codeagent.core.tool import Tool
from codeagent.disk.opens import may_exist
from codeagent.extensions.agents.children import Children
from codeagent.extensions.agents.opener import WORKTREES, ChildOpener
from codeagent.extensions.triggers.triggers import Triggers
from codeagent.session.fold import History, fold, tools_read_about
from codeagent.session.log import SessionLog
from codeagent.session.outputs import FileOutputs
from codeagent.session.recording import Recording, without_collecting
from codeagent.session.repair import check_recording, closing_events
from codeagent.session.store import SessionStore
from codeagent.tools.catalog import CatalogChange, ToolCatalog
from codeagent.tools.shell.rules import too_broad
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.files import LocalWorkspace

Told = tuple[str, str]
"""Code and text of a notice that a conversation begins with."""
_HEAD_START = 0.3
"""Seconds that the first request, or what the user types, has before sources import what they
need."""
_SHOWN = 3
"""Problems of a damaged log that are listed when it is opened."""


async def open_runtime(
    settings: Settings,
    place: Place,
    *,
    resume: str | None,
    tell: Tell,
    observer: Callable[[KnownEvent], None],
    attended: bool,
    needs_sandbox: bool = False,
    open_model: ModelOpener | None = None,
    group: Group | None = None,
    recalls: bool = True,
) -> Runtime:
    """Open a conversation, new or resumed; model library and container start side by side.

    `tell` gets lines about a slow start; `observer` gets every event. `attended`: a user is there
    to ask when a limit is reached. A sandbox that is needed is waited for; else a failure of its
    start is a notice later. `open_model` opens the model, in place of what the settings say about
    it. `group`: the one that is to be run. `recalls`: see ToolEnvironment. Raises CodeagentError,
    and then leaves nothing running.
    """
    settings = with_messages(settings, group)
    if settings.model is None:
        raise ConfigError("no model is set")
    uncounted = (
        await asyncio.to_thread(check_counted, settings, attended=attended)
        if settings.limits.budget
        else ()
    )
    book = (
        None
        if place.config_dir is None
        else RuleBookFile(place.config_dir, place.workspace, too_broad)
    )
    async with AsyncExitStack() as stack:
        opener = open_model or OpenModels(place, model_options(settings), settings.context.window)
        model, in_use = await opener(settings.model, settings.api_base, settings.thinking)
        stack.push_async_callback(model.close)
        workspace = stack.enter_context(closing(LocalWorkspace(place.workspace)))
        session = await opened_session(
            SessionStore(place.state_dir, place.redactor), resume, workspace, stack
        )
        log, history = session.log, session.history
        settings = with_chosen(settings, history)
        policy = await asyncio.to_thread(_policy, settings, book, history, tell)
        sandbox = await start_sandbox(
            settings, place, workspace, log.session_id, tell, stack, ready=needs_sandbox
        )
        dependencies = _dependencies(settings, place, workspace, sandbox, log, history, group)
        files = await asyncio.to_thread(
            _read_files, settings, dependencies, history, policy.rules, tell
        )
        stack.push_async_callback(files.catalog.toolsets.close)
        around = _environment(settings, dependencies, files, sandbox, policy)
        around = replace(around, attended=attended, book=book, recalls=recalls)
        builder = _builder(files, dependencies, policy.rules, in_use.context_window)
        snapshots = _checkpoints(place, workspace, stack)
        conversation = _conversation(model, in_use.server, builder, settings, around)
        dependencies.children.open_child = ChildOpener(
            settings, dependencies, around, opener, files.catalog, snapshots
        )
        agent = Agent(
            conversation,
            around,
            log,
            history,
            dependencies.questions,
            snapshots,
            dependencies.jobs,
            in_use,
            opener,
            dependencies.children,
            triggers=dependencies.triggers,
            programs=dependencies.programs,
        )
        stack.push_async_callback(agent.close)
        agent.observe(observer)
        _begin(agent, policy.network, history, newly_given(settings, history), files.first_look)
        told = (
            *_other_server(history.server, in_use.server),
            *told_small(in_use.name, in_use.context_window),
        )
        for code, text in (
            *session.troubles,
            *told,
            *files.troubles,
            *uncounted,
            *_troubles(settings, dependencies, sandbox),
        ):
            agent.notify(code, text)
        _tell_when_started(sandbox, agent, stack)
        await agent.begin_session(resumed=resume is not None)
        files.catalog.toolsets.begin(after=_HEAD_START)
        return replace(
            _runtime(agent, around, sandbox, builder, dependencies), close=stack.pop_all().aclose
        )


def _builder(
    files: "_Files", dependencies: ToolDependencies, rules: Sequence[Rule], window: int | None
) -> PromptBuilder:
    builder = PromptBuilder(
        files.catalog,
        files.prompt,
        dependencies.skills.look,
        _written(rules),
        dependencies.outputs.handles,
    )
    builder.fit(window)
    return builder


def _checkpoints(place: Place, workspace: LocalWorkspace, stack: AsyncExitStack) -> GitCheckpoints:
    """Open the store of snapshots, which also records what is written to the workspace."""
    snapshots = GitCheckpoints(place.state_dir, workspace.root)
    stack.callback(snapshots.close)
    workspace.recorder = snapshots.landing
    return snapshots


def _prepare_first_call() -> Callable[[KnownEvent], None]:
    """Return an observer that imports pydantic, which checks arguments, while the model works on
    its first answer."""
    waiting = True

    def observe(event: KnownEvent) -> None:
        nonlocal waiting
        if waiting and event.type == "turn.started":
            waiting = False
            thread = Thread(
                target=import_module, args=("pydantic",), daemon=True
            )  # an exit does not wait for it
            asyncio.get_running_loop().call_later(_HEAD_START, thread.start)

    return observe


def _conversation(
    model: Model, server: str, builder: PromptBuilder, settings: Settings, around: ToolEnvironment
) -> Conversation:
    return Conversation(
        model,
        builder.system_prompt,
        builder.tools,
        Strategy.parse(settings.strategy),
        around.limits,
        around.attended,
        prompt_builder=builder,
        server=server,
        early_reads=settings.early_reads,
    )


@dataclass(frozen=True)
class _Files:
    """What a conversation gets from the files of the user and the project, and from installed
    packages."""

    catalog: ToolCatalog
    first_look: CatalogChange | None
    hooks: Hooks
    prompt: MakePrompt
    troubles: tuple[Told, ...]


def _read_files(
    settings: Settings,
    dependencies: ToolDependencies,
    history: History,
    rules: Sequence[Rule],
    tell: Tell,
) -> _Files:
    """Load tools, hooks and instructions; all in one thread, as every change of threads costs.
    Raises ConfigError."""
    catalog, first_look = open_catalog(settings, dependencies, history)
    misnamed = _misnamed(catalog, rules, dependencies)
    hooks, broken = _hooks(settings, dependencies.place, dependencies.workspace, tell)
    if dependencies.servers is not None:
        from codeagent.extensions.mcp.servers import reading_hook  # only if there are servers

        hooks = replace(hooks, registered=(*hooks.registered, reading_hook(dependencies.servers)))
    return _Files(catalog, first_look, hooks, prompt_for(dependencies), (*broken, *misnamed))


def _environment(
    settings: Settings,
    dependencies: ToolDependencies,
    files: _Files,
    sandbox: StartedSandbox,
    policy: Policy,
) -> ToolEnvironment:
    """Make what the tools work with; nobody is there to ask, and no rule can be kept."""
    return ToolEnvironment(
        files.catalog,
        dependencies.workspace,
        sandbox.sandbox,
        sandbox.kind,
        dependencies.outputs,
        policy,
        limits_of(settings),
        files.hooks,
        objection=lambda rule: too_broad(rule) or next(iter(files.catalog.unknown((rule,))), None),
        unread=partial(_unread, dependencies, files.catalog),
        todo=dependencies.todo,
        scratchpad=dependencies.scratchpad,
        inputs=dependencies.inputs,
        servers=dependencies.servers,
        check_budget=partial(check_budget, settings),
        context=ContextLimits(**asdict(settings.context)),
        delivery=Delivery(**asdict(settings.queue)),
        forget=partial(forget_reads, dependencies.reads, dependencies.read_about),
        partial_results=settings.experimental.partial_results,
    )


def _unread(dependencies: ToolDependencies, catalog: ToolCatalog, tool: Tool[Any]) -> bool:
    of_a_set = tool in catalog.toolsets.held
    return tool.name not in dependencies.read_about and dependencies.must_read(
        tool, of_a_set=of_a_set
    )


def _written(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules that were written by hand: the tool of a kept answer may be gone."""
    return tuple(rule for rule in rules if rule.origin in ("flag", "user", "project"))


def _misnamed(
    catalog: ToolCatalog, rules: Sequence[Rule], dependencies: ToolDependencies
) -> tuple[Told, ...]:
    """Return code and text of a notice for each name in rules and lists that may belong to a tool
    not loaded yet.

    Raises ConfigError if nothing can bring it.
    """
    unknown = catalog.unknown(_written(rules))
    wrong = (
        *(unknown if catalog.complete else ()),
        *catalog.unlisted(dependencies.to_read, certain=True),
    )
    if wrong:
        waiting = (
            dependencies.servers.waiting
            if dependencies.servers is not None and "mcp__" in wrong[0]
            else ""
        )
        raise ConfigError(
            f"{_sentence(wrong[0])} Nothing was run{f'; {waiting}' if waiting else ''}"
        )
    doubtful = map(_sentence, (*unknown, *catalog.unlisted(dependencies.to_read)))
    return tuple(
        ("rule.unknown", f"{text} It is checked again when all tools are known")
        for text in doubtful
    )


def _sentence(text: str) -> str:
    return text if text.endswith("?") else f"{text}."


def _troubles(
    settings: Settings, dependencies: ToolDependencies, sandbox: StartedSandbox
) -> Iterator[Told]:
    """Yield a notice for each problem of the instructions, the skills and the sandbox."""
    for problem in (*dependencies.instructions.problems, *dependencies.skills.problems):
        yield (
            "skills.problem" if "SKILL.md" in problem.where else "instructions.hidden",
            visible(str(problem)),
        )
    if (trouble := sandbox.trouble) is not None:
        yield "sandbox.unavailable", f"no sandbox, so bash is disabled: {trouble}. {trouble.remedy}"
    yield from _told_at_start(sandbox.info)
    if dependencies.servers is not None and (waiting := dependencies.servers.waiting):
        yield "mcp.untrusted", visible(waiting)
    yield from remarks_of_extensions(settings, dependencies)
    yield from (("settings.unused", visible(line)) for line in settings.unused)


def _other_server(before: str, now: str) -> Iterator[Told]:
    """Yield a notice if the text of a resumed conversation will go to another host than before."""
    if before and (where := from_now_on(now, before)):
        yield "model.server", f"this conversation went to {before}{where}"


def _tell_when_started(sandbox: StartedSandbox, agent: Agent, stack: AsyncExitStack) -> None:
    """Have the agent report how the sandbox started, if the first request did not wait for that."""
    if sandbox.starting is not None:
        sandbox.starting.add_done_callback(partial(_tell_started, agent))
        stack.callback(
            sandbox.starting.cancel
        )  # runs before the agent is closed, which could not report it


def _tell_started(agent: Agent, starting: asyncio.Task[SandboxInfo]) -> None:
    if starting.cancelled():
        return
    if (trouble := starting.exception()) is not None:
        remedy = f". {trouble.remedy}" if isinstance(trouble, SandboxUnavailable) else ""
        agent.notify(
            "sandbox.unavailable", f"no sandbox, so every command fails: {trouble}{remedy}"
        )
        return
    for code, text in _told_at_start(starting.result()):
        agent.notify(code, text)


def _told_at_start(info: SandboxInfo | None) -> Iterator[Told]:
    for text in () if info is None else info.told:
        yield "sandbox.narrowed", visible(text)


def _runtime(
    agent: Agent,
    around: ToolEnvironment,
    sandbox: StartedSandbox,
    builder: PromptBuilder,
    dependencies: ToolDependencies,
) -> Runtime:
    """Make the runtime; so far its `close` closes only the agent."""
    return Runtime(
        agent=agent,
        sandbox=around.sandbox,
        sandbox_info=sandbox.info,
        outputs=around.outputs,
        next_request=builder.next_request,
        close=agent.close,
        skills=dependencies.skills,
        sandbox_starting=sandbox.starting,
    )


def _dependencies(
    settings: Settings,
    place: Place,
    workspace: Workspace,
    sandbox: StartedSandbox,
    log: SessionLog,
    history: History,
    group: Group | None,
) -> ToolDependencies:
    children = Children()
    inbox = open_inbox(settings, history, group)
    if group is not None and inbox is not None:
        children.hub = inbox.hub
    return ToolDependencies(
        place,
        sandbox.kind,
        workspace,
        FileOutputs(log.folder / "outputs", place.redactor),
        tracked_reads(workspace, history),
        UserQuestions(),
        Jobs(),
        (log.session_id, log.folder),
        settings.commit_hooks,
        sandbox.sandbox,
        inbox,
        Triggers(awaited=settings.wait_for_triggers, inbox=inbox if group is None else None),
        tools_read_about(history.details),
        settings.toolsets.require_info,
        children,
    )


def _policy(settings: Settings, book: RuleBookFile | None, history: History, tell: Tell) -> Policy:
    network = settings.network_after(history.network)
    rules = (*parse_rules(settings.rules), *(() if book is None else book.load(tell)))
    return Policy(
        settings.mode, rules, settings.read_only_commands == "ask", network, history.heard
    )


def _begin(
    agent: Agent,
    level: NetworkLevel,
    history: History,
    sets: Sequence[str],
    first_look: CatalogChange | None,
) -> None:
    """Make the first checkpoint in the background and report the tool files.

    The log is completed: with what commands may reach, and with the `sets` that the command line
    turned on.
    """
    agent.observe(_prepare_first_call())
    agent.begin_checkpoints()
    if level != (history.network or "ask"):
        agent.do(SetNetwork(level))
    agent.tell_tools(first_look)
    agent.tell_sets(sets)


def limits_of(settings: Settings) -> Limits:
    others = ("budget", "model_timeout", "network_bytes")
    same = {name: value for name, value in asdict(settings.limits).items() if name not in others}
    return Limits(**same, max_cost_usd=settings.limits.budget)


def _hooks(
    settings: Settings, place: Place, workspace: Workspace, tell: Tell
) -> tuple[Hooks, tuple[Told, ...]]:
    """Collect the programs in the order of the configuration, then the functions of the user's
    files, which it runs; also return a notice for each file that could not be loaded.
    """
    programs, functions, problems = tuple[Hook, ...](), tuple[Hook, ...](), tuple[Told, ...]()
    if settings.hooks:
        from codeagent.agent.hooks.command import (
            CommandHook,
            command_hooks,
        )  # a contract that only programs need

        programs = command_hooks(
            [CommandHook(workspace=workspace.root, **asdict(hook)) for hook in settings.hooks]
        )
    if place.own_folder is not None and may_exist(folder := place.own_folder / "hooks"):
        from codeagent.agent.hooks.python import (
            load_python_hooks,
        )  # only for a user who has such files

        functions, broken = load_python_hooks(folder, workspace.root)
        problems = tuple(("hook.broken", str(problem)) for problem in broken)
    return Hooks((*programs, *functions), on_failure=tell), problems


@dataclass(frozen=True)
class Opened:
    """A session that is held, and what it holds."""

    log: SessionLog
    history: History
    troubles: tuple[Told, ...] = ()


async def opened_session(
    store: SessionStore, resume: str | None, workspace: Workspace, stack: AsyncExitStack
) -> Opened:
    """Open a session; the stack closes it, even if the wait for it was cancelled."""
    opening = asyncio.ensure_future(asyncio.to_thread(_open_session, store, resume, workspace))

    async def close() -> None:
        await asyncio.wait({opening})
        if not opening.cancelled() and opening.exception() is None:
            log = opening.result().log
            log.close()
            store.discard_if_empty(log.session_id)

    stack.push_async_callback(close)
    return await asyncio.shield(opening)


def _open_session(store: SessionStore, resume: str | None, workspace: Workspace) -> Opened:
    """Open and hold the session. Raises SessionError, or ConfigError if it belongs to another
    workspace."""
    if may_exist(store.root.parent / WORKTREES):
        from codeagent.extensions.agents.worktrees import sweep  # only after an agent had one

        sweep(store.root.parent / WORKTREES)
    if resume is None:
        return Opened(store.create(), fold(()))
    with without_collecting():
        log, recording = store.open(store.find(resume))
        try:
            return _resumed(store, log, recording, workspace)
        except BaseException:
            log.close()
            raise


def _resumed(
    store: SessionStore, log: SessionLog, recording: Recording, workspace: Workspace
) -> Opened:
    """Close what the log and those of children leave open, and fold it.

    Raises ConfigError if it belongs to another workspace.
    """
    _refuse_other_workspace(recording.events, workspace, log.session_id)
    history = fold(recording.events)
    now = round(time.time(), 3)
    if closing := closing_events(recording.events, log.session_id, log.next_seq, now, history):
        for event in closing:
            log.append(event)
        store.close_children(log.session_id, now)
        history = fold((*recording.events, *closing))
    return Opened(
        log, history, _damage(check_recording(recording, history).problems, log.session_id)
    )


def _damage(problems: tuple[str, ...], session_id: str) -> tuple[Told, ...]:
    if not problems:
        return ()
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    text = (
        f"the log of this session is damaged: {'; '.join(problems[:_SHOWN])}{more}. What can be read of it is used; "
        f"codeagent sessions check {session_id} lists every problem"
    )
    return (("session.damaged", visible(text)),)


def _refuse_other_workspace(
    events: tuple[KnownEvent | UnknownEvent, ...], workspace: Workspace, session_id: str
) -> None:
    there = next(
        (event.workspace for event in reversed(events) if isinstance(event, RunStarted)), None
    )
    if there is not None and there != str(workspace.root) and may_exist(Path(there)):
        raise ConfigError(
            f"session {session_id} belongs to another folder; nothing was run: "
            f"codeagent {there} --resume {session_id}, or codeagent run with --cwd {there}"
        )
