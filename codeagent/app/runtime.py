"""Settings in, a running conversation out, in a new session or a resumed one."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any

from codeagent.agent.agent import Agent, AgentServices
from codeagent.agent.approvals import UserQuestions
from codeagent.agent.batches import Strategy
from codeagent.agent.conversation import Conversation
from codeagent.agent.environment import Preferences, Recall, RuleKeeping, ToolEnvironment
from codeagent.agent.hooks.hook import Hook, Hooks
from codeagent.agent.limits import ContextLimits, Limits
from codeagent.agent.prompt import MakePrompt, PromptBuilder, tell_tools, told_small
from codeagent.agent.queue import Delivery
from codeagent.app.models import OpenModels, check_budget, check_counted, model_options
from codeagent.app.sandbox import CodedText, StartedSandbox, Tell, start_sandbox, tell_when_started
from codeagent.app.sources import (
    extensions_on,
    hand_written,
    misnamed,
    newly_given,
    open_catalog,
    open_parts,
    remove_leftovers,
    troubles,
    with_chosen,
    with_messages,
)
from codeagent.app.tools import Assembly, ToolDependencies, forget_reads, prompt_for, tracked_reads
from codeagent.config.kept import RuleBookFile
from codeagent.config.layers import load_settings, parse_rules
from codeagent.config.local_environment import LocalEnvironment, local_environment
from codeagent.config.paths import user_config_file
from codeagent.config.sessions import GivenSettings, GivenWorkspace, Observer
from codeagent.config.settings import Settings
from codeagent.core.acts import SetNetwork
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.events import KnownEvent
from codeagent.core.model import Model, ModelInUse, ModelOpener, from_now_on
from codeagent.core.notices import ToolsetChosen
from codeagent.core.policy import Policy, Rule
from codeagent.core.ports import Workspace
from codeagent.core.runtime import Session
from codeagent.core.tool import Tool
from codeagent.disk.opens import may_exist
from codeagent.session.fold import History, tools_read_about
from codeagent.session.outputs import FileOutputs
from codeagent.session.store import OpenedSession, SessionStore, opened_session
from codeagent.tools.catalog import CatalogChange, ToolCatalog
from codeagent.tools.shell.rules import decides, too_broad
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.files import LocalWorkspace

if TYPE_CHECKING:  # few sessions run a group
    from codeagent.core.groups import Group

_HEAD_START = 0.3
"""Seconds that the first request, or what the user types, has before sources import what they
need."""


async def open_session(
    settings: GivenSettings,
    workspace: GivenWorkspace = ".",
    *,
    resume: str | None = None,
    attended: bool = False,
    needs_sandbox: bool = False,
    tell: Tell = lambda text: None,
    observer: Observer = lambda event: None,
    open_model: ModelOpener | None = None,
    group: "Group | None" = None,
) -> Session:
    """Open a session, new or resumed; model library and container start side by side.

    `attended`: a user is there to ask when a limit is reached. `needs_sandbox`: wait until commands
    can run; else a failure of the sandbox's start is a notice later. `tell` gets lines about a slow
    start; `observer` gets every event. `open_model` opens the model that makes the calls of another
    program, in place of the one in the settings. `group`: the one that is to be run. Raises
    CodeagentError, and then leaves nothing running.
    """
    local = local_environment(workspace)
    opening = _Opening(
        resume=resume,
        attended=attended,
        needs_sandbox=needs_sandbox,
        tell=tell,
        observer=observer,
        open_model=open_model,
        group=group,
    )
    return await _open(await settings_of(settings, local), local, opening)


async def settings_of(given: GivenSettings, local: LocalEnvironment) -> Settings:
    """Return all settings; those that were not given come from the environment and the files.
    Raises ConfigError."""
    if isinstance(given, Settings):
        return given
    return await asyncio.to_thread(
        load_settings,
        given,
        environment=local.environment,
        user_file=user_config_file(),
        workspace=local.workspace,
        decides=decides,
    )


@dataclass(frozen=True, kw_only=True)
class _Opening:
    """How a session is opened; see `open_session`."""

    resume: str | None
    attended: bool
    needs_sandbox: bool
    tell: Tell
    observer: Observer
    open_model: ModelOpener | None
    group: "Group | None"


async def _open(settings: Settings, local: LocalEnvironment, opening: _Opening) -> Session:
    settings = with_messages(settings, opening.group)
    if settings.model is None:
        raise ConfigError("no model is set")
    uncounted = (
        await asyncio.to_thread(check_counted, settings, attended=opening.attended)
        if settings.limits.budget
        else ()
    )
    async with AsyncExitStack() as stack:
        opener = opening.open_model or OpenModels(
            local, model_options(settings), settings.context.window
        )
        model, in_use = await opener(settings.model, settings.api_base, settings.thinking)
        stack.push_async_callback(model.close)
        base = await _base(settings, local, opening, stack)
        stack.push_async_callback(base.files.catalog.toolsets.sources.close)
        builder = _builder(base, in_use.context_window)
        agent = _agent(base, builder, _OpenedModel(model, in_use, opener), stack)
        stack.push_async_callback(agent.close)
        agent.observe(opening.observer)
        _begin(agent, base)
        for code, text in (
            *base.session.troubles,
            *_other_server(base.session.history.server, in_use.server),
            *told_small(in_use.name, in_use.context_window),
            *base.files.troubles,
            *uncounted,
            *troubles(base.settings, base.dependencies, base.sandbox),
        ):
            agent.emitter.warn(code, text)
        tell_when_started(base.sandbox, agent, stack)
        await agent.begin_session(resumed=opening.resume is not None)
        base.files.catalog.toolsets.sources.begin(after=_HEAD_START)
        return Session(
            agent=agent,
            sandbox=base.sandbox.sandbox,
            sandbox_info=base.sandbox.info,
            outputs=base.dependencies.outputs,
            next_request=builder.next_request,
            close=stack.pop_all().aclose,
            skills=base.dependencies.skills,
            sandbox_starting=base.sandbox.starting,
        )


def _other_server(before: str, now: str) -> Iterator[CodedText]:
    """Yield a notice if the text of a resumed conversation will go to another host than before."""
    if before and (where := from_now_on(now, before)):
        yield "model.server", f"this conversation went to {before}{where}"


@dataclass(frozen=True)
class _OpenedModel:
    model: Model
    in_use: ModelInUse
    opener: ModelOpener


@dataclass(frozen=True)
class _Base:
    """What the agent of a session is made from, but for its model."""

    settings: Settings
    """With the sets that were chosen in the session."""
    opening: _Opening
    workspace: LocalWorkspace
    session: OpenedSession
    policy: Policy
    rule_book: RuleBookFile | None
    sandbox: StartedSandbox
    dependencies: ToolDependencies
    files: "_Files"


async def _base(
    settings: Settings, local: LocalEnvironment, opening: _Opening, stack: AsyncExitStack
) -> _Base:
    """Open the workspace and the log, start the sandbox, and read the files. Raises
    CodeagentError."""
    workspace = stack.enter_context(closing(LocalWorkspace(local.workspace)))
    store = SessionStore(local.state_dir, local.redactor)
    session = await opened_session(
        store, opening.resume, workspace, stack, first=partial(remove_leftovers, local.state_dir)
    )
    history = session.history
    settings = with_chosen(settings, history)
    rule_book = (
        None
        if local.config_dir is None
        else RuleBookFile(local.config_dir, local.workspace, too_broad)
    )
    policy = await asyncio.to_thread(_policy, settings, rule_book, history, opening.tell)
    sandbox = await start_sandbox(
        settings,
        local,
        workspace,
        session.log.session_id,
        opening.tell,
        stack,
        ready=opening.needs_sandbox,
    )
    dependencies = await asyncio.to_thread(
        _dependencies, settings, local, workspace, sandbox, session, opening.group
    )
    files = await asyncio.to_thread(
        _read_files, settings, dependencies, history, policy.rules, opening.tell
    )
    return _Base(
        settings=settings,
        opening=opening,
        workspace=workspace,
        session=session,
        policy=policy,
        rule_book=rule_book,
        sandbox=sandbox,
        dependencies=dependencies,
        files=files,
    )


def _agent(
    base: _Base, builder: PromptBuilder, opened: _OpenedModel, stack: AsyncExitStack
) -> Agent:
    dependencies, settings = base.dependencies, base.settings
    environment = _environment(base)
    snapshots = _checkpoints(dependencies.local, base.workspace, stack)
    conversation = Conversation(
        opened.model,
        builder.system_prompt,
        builder.tools,
        Strategy.parse(settings.strategy),
        environment.limits,
        environment.attended,
        prompt_builder=builder,
        server=opened.in_use.server,
        early_reads=settings.early_reads,
    )
    assembly = Assembly(
        settings,
        dependencies,
        environment,
        opened.opener,
        catalog=base.files.catalog,
        snapshots=snapshots,
    )
    dependencies.services.parts.assembled(assembly)
    return Agent(
        conversation,
        environment,
        base.session.log,
        base.session.history,
        services=dependencies.services,
        checkpoints=snapshots,
        model=opened.in_use,
        open_model=opened.opener,
    )


def _builder(base: _Base, window: int | None) -> PromptBuilder:
    builder = PromptBuilder(
        base.files.catalog,
        base.files.prompt,
        base.dependencies.skills.look,
        hand_written(base.policy.rules),
        base.dependencies.outputs.handles,
    )
    builder.fit(window)
    return builder


def _checkpoints(
    local: LocalEnvironment, workspace: LocalWorkspace, stack: AsyncExitStack
) -> GitCheckpoints:
    """Open the store of snapshots, which also records what is written to the workspace."""
    snapshots = GitCheckpoints(local.state_dir, workspace.root)
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


@dataclass(frozen=True)
class _Files:
    """What a conversation gets from the files of the user and the project, and from installed
    packages."""

    catalog: ToolCatalog
    first_look: CatalogChange | None
    hooks: Hooks
    prompt: MakePrompt
    troubles: tuple[CodedText, ...]


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
    doubtful = misnamed(catalog, rules, dependencies, settings)
    hooks, broken = _hooks(settings, dependencies.local, dependencies.workspace, tell)
    if added := dependencies.services.parts.hooks():
        hooks = replace(hooks, registered=(*hooks.registered, *added))
    return _Files(catalog, first_look, hooks, prompt_for(dependencies), (*broken, *doubtful))


def _environment(base: _Base) -> ToolEnvironment:
    """Make what the tools work with."""
    dependencies, settings, catalog = base.dependencies, base.settings, base.files.catalog
    return ToolEnvironment(
        tools=catalog,
        workspace=dependencies.workspace,
        sandbox=base.sandbox.sandbox,
        sandbox_kind=base.sandbox.kind,
        outputs=dependencies.outputs,
        policy=base.policy,
        limits=limits_of(settings),
        hooks=base.files.hooks,
        tries=base.sandbox.kind == "docker" and settings.sandbox.approval == "effects",
        attended=base.opening.attended,
        keeping=RuleKeeping(
            base.rule_book,
            lambda rule: too_broad(rule) or next(iter(catalog.unknown((rule,))), None),
        ),
        recall=Recall(
            certain=base.opening.open_model is None,
            unread=partial(_unread, dependencies, catalog),
            forget=partial(forget_reads, dependencies.reads, dependencies.read_about),
        ),
        preferences=Preferences(
            ContextLimits(**asdict(settings.context)),
            Delivery(**asdict(settings.queue)),
            settings.experimental.partial_results,
        ),
        state=replace(dependencies.state, scratchpad=dependencies.scratchpad),
        check_budget=partial(check_budget, settings),
    )


def _unread(dependencies: ToolDependencies, catalog: ToolCatalog, tool: Tool[Any]) -> bool:
    of_a_set = tool in catalog.toolsets.held
    return tool.name not in dependencies.read_about and dependencies.must_read(
        tool, of_a_set=of_a_set
    )


def _dependencies(
    settings: Settings,
    local: LocalEnvironment,
    workspace: Workspace,
    sandbox: StartedSandbox,
    session: OpenedSession,
    group: "Group | None",
) -> ToolDependencies:
    log, history = session.log, session.history
    questions = UserQuestions()
    return ToolDependencies(
        local=local,
        kind=sandbox.kind,
        workspace=workspace,
        outputs=FileOutputs(log.folder / "outputs", local.redactor),
        reads=tracked_reads(workspace, history),
        services=AgentServices(
            questions,
            parts=open_parts(
                settings,
                history,
                local,
                root=workspace.root,
                questions=questions,
                sandbox=sandbox.sandbox,
                group=group,
            ),
        ),
        session=(log.session_id, log.folder),
        commit_hooks=settings.commit_hooks,
        sandbox=sandbox.sandbox,
        extensions=extensions_on(settings),
        read_about=tools_read_about(history.details),
        require_info=settings.toolsets.require_info,
    )


def _policy(settings: Settings, book: RuleBookFile | None, history: History, tell: Tell) -> Policy:
    network = settings.network_after(history.network)
    rules = (*parse_rules(settings.rules), *(() if book is None else book.load(tell)))
    return Policy(
        settings.mode, rules, settings.read_only_commands == "ask", network, history.heard
    )


def _begin(agent: Agent, base: _Base) -> None:
    """Make the first checkpoint in the background and report the tool files.

    The log is completed: with what commands may reach, and with the sets that the command line
    turned on.
    """
    history, level = base.session.history, base.policy.network
    agent.observe(_prepare_first_call())
    agent.begin_checkpoints()
    if level != (history.network or "ask"):
        agent.do(SetNetwork(level))
    if (found := base.files.first_look) is not None:
        tell_tools(replace(found, added=(), removed=(), changed=()), agent.emitter)
    for name in newly_given(base.settings, history):
        agent.emitter.emit(
            ToolsetChosen(text=f"turned on: {name}", toolset=name, tools=(), on=True)
        )


def limits_of(settings: Settings) -> Limits:
    others = ("budget", "model_timeout", "network_bytes")
    same = {name: value for name, value in asdict(settings.limits).items() if name not in others}
    return Limits(**same, max_cost_usd=settings.limits.budget)


def _hooks(
    settings: Settings, local: LocalEnvironment, workspace: Workspace, tell: Tell
) -> tuple[Hooks, tuple[CodedText, ...]]:
    """Collect the programs in the order of the configuration, then the functions of the user's
    files, which it runs; also return a notice for each file that could not be loaded.
    """
    programs, functions, problems = tuple[Hook, ...](), tuple[Hook, ...](), tuple[CodedText, ...]()
    if settings.hooks:
        from codeagent.agent.hooks.command import (
            CommandHook,
            command_hooks,
        )  # a contract that only programs need

        programs = command_hooks(
            [CommandHook(workspace=workspace.root, **asdict(hook)) for hook in settings.hooks]
        )
    if local.own_folder is not None and may_exist(folder := local.own_folder / "hooks"):
        from codeagent.agent.hooks.python import (
            load_python_hooks,
        )  # only for a user who has such files

        functions, broken = load_python_hooks(folder, workspace.root)
        problems = tuple(("hook.broken", str(problem)) for problem in broken)
    return Hooks((*programs, *functions), on_failure=tell), problems
