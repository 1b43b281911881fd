"""Settings in, a running conversation out, in a new session or a resumed one."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any

from codeagent.agent.agent import Agent
from codeagent.agent.batches import Strategy
from codeagent.agent.conversation import Conversation
from codeagent.agent.environment import Preferences, Recall, RuleKeeping, ToolEnvironment
from codeagent.agent.hooks.hook import Hook, Hooks
from codeagent.agent.limits import ContextLimits, Limits
from codeagent.agent.prompt import MakePrompt, PromptBuilder, tell_tools, told_small
from codeagent.agent.queue import Delivery
from codeagent.app.models import OpenModels, check_budget, check_counted, model_options
from codeagent.app.sandbox import (
    CodedText,
    StartedSandbox,
    Tell,
    prepare_trials,
    start_sandbox,
    tell_when_started,
)
from codeagent.app.sources import (
    hand_written,
    misnamed,
    newly_given,
    open_catalog,
    open_services,
    remove_leftovers,
    troubles,
    with_chosen,
    with_messages,
)
from codeagent.app.tools import ToolDependencies, forget_reads, prompt_for, tracked_reads
from codeagent.config.kept import KeptRulesFile
from codeagent.config.layers import load_settings, parse_rules
from codeagent.config.local_environment import LocalEnvironment, local_environment, user_config_file
from codeagent.config.sessions import GivenSettings, GivenWorkspace, Observer
from codeagent.config.settings import Settings
from codeagent.core.acts import SetNetwork
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.events import TurnStarted
from codeagent.core.model import Model, ModelInUse, ModelOpener, from_now_on
from codeagent.core.notices import ToolsetChosen
from codeagent.core.policy import Policy, Rule
from codeagent.core.runtime import Session
from codeagent.core.tool import Tool
from codeagent.disk.opens import may_exist
from codeagent.session.fold import History
from codeagent.session.outputs import FileOutputs
from codeagent.session.store import OpenedSession, SessionStore, opened_session
from codeagent.session.transcript import tools_read_about
from codeagent.tools.catalog import CatalogChange, ToolCatalog
from codeagent.tools.shell.rules import decides, too_broad
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.files import LocalWorkspace

if TYPE_CHECKING:  # few sessions run a group, or start agents
    from codeagent.app.assembly import Assembly
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
    observer: Observer | None = None,
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
    observer: Observer | None
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
        agent = _agent(base, builder, opener, (model, in_use), stack)
        stack.push_async_callback(agent.close)
        if opening.observer is not None:
            agent.observe(opening.observer)
        _begin(agent, base)
        for code, text in (
            *base.session.troubles,
            *_other_server(base.session.history.hosts.model, in_use.server),
            *told_small(in_use.name, in_use.context_window),
            *base.files.troubles,
            *uncounted,
            *troubles(base.dependencies, base.sandbox),
        ):
            agent.emitter.warn(code, text)
        tell_when_started(base.sandbox, agent, stack)
        if opening.attended and _tries(base) and base.policy.mode != "auto":
            prepare_trials(base.sandbox, stack)
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
class _Base:
    """What the agent of a session is made from, but for its model."""

    opening: _Opening
    workspace: LocalWorkspace
    session: OpenedSession
    policy: Policy
    kept_rules: KeptRulesFile | None
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
    kept_rules = (
        None
        if local.config_dir is None
        else KeptRulesFile(local.config_dir, local.workspace, too_broad)
    )
    policy = await asyncio.to_thread(_policy, settings, kept_rules, history, opening.tell)
    sandbox = await start_sandbox(
        settings,
        local,
        workspace,
        session.log.session_id,
        stack,
        tell=opening.tell,
        ready=opening.needs_sandbox,
    )
    log = session.log

    def read() -> tuple[ToolDependencies, _Files]:
        """Read everything in one thread: each change of threads costs time."""
        dependencies = ToolDependencies(
            settings,
            local,
            sandbox.kind,
            workspace,
            outputs=FileOutputs(log.folder / "outputs", local.redactor),
            reads=tracked_reads(workspace, history),
            services=open_services(
                settings, local, history, workspace.root, sandbox.sandbox, group=opening.group
            ),
            session=(log.session_id, log.folder),
            sandbox=sandbox.sandbox,
            read_about=tools_read_about(history.details),
        )
        return dependencies, _read_files(dependencies, history, policy.rules, opening.tell)

    dependencies, files = await asyncio.to_thread(read)
    return _Base(
        opening=opening,
        workspace=workspace,
        session=session,
        policy=policy,
        kept_rules=kept_rules,
        sandbox=sandbox,
        dependencies=dependencies,
        files=files,
    )


def _agent(
    base: _Base,
    builder: PromptBuilder,
    opener: ModelOpener,
    opened: tuple[Model, ModelInUse],
    stack: AsyncExitStack,
) -> Agent:
    dependencies, settings = base.dependencies, base.dependencies.settings
    model, in_use = opened
    environment = _environment(base)
    snapshots = GitCheckpoints(dependencies.local.state_dir, base.workspace.root)
    stack.callback(snapshots.close)
    base.workspace.recorder = snapshots.landing  # it also records what is written there
    conversation = Conversation(
        model,
        builder.system_prompt,
        builder.tools,
        Strategy.parse(settings.strategy),
        environment.limits,
        attended=environment.attended,
        prompt_builder=builder,
        server=in_use.server,
        early_reads=settings.early_reads,
    )

    def assembly() -> "Assembly":
        from codeagent.app.assembly import Assembly  # only once an agent is started

        return Assembly(
            dependencies, environment, opener, catalog=base.files.catalog, snapshots=snapshots
        )

    dependencies.services.parts.assembled(base.files.catalog, assembly)
    return Agent(
        conversation,
        environment,
        base.session.log,
        base.session.history,
        services=dependencies.services,
        checkpoints=snapshots,
        model=in_use,
        open_model=opener,
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


def _prepare_first_call() -> Callable[[TurnStarted], None]:
    """Return an observer that imports pydantic, which checks arguments, while the model works on
    its first answer."""
    waiting = True

    def observe(_: TurnStarted) -> None:
        nonlocal waiting
        if waiting:
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
    dependencies: ToolDependencies, history: History, rules: Sequence[Rule], tell: Tell
) -> _Files:
    """Load tools, hooks and instructions. Blocks on small files. Raises ConfigError."""
    catalog, first_look = open_catalog(dependencies, history)
    doubtful = misnamed(catalog, rules, dependencies)
    hooks, broken = _hooks(dependencies, tell)
    if added := dependencies.services.parts.hooks():
        hooks = replace(hooks, registered=(*hooks.registered, *added))
    return _Files(catalog, first_look, hooks, prompt_for(dependencies), (*broken, *doubtful))


def _environment(base: _Base) -> ToolEnvironment:
    """Make what the tools work with."""
    dependencies, catalog = base.dependencies, base.files.catalog
    settings = dependencies.settings
    return ToolEnvironment(
        tools=catalog,
        workspace=dependencies.workspace,
        sandbox=base.sandbox.sandbox,
        sandbox_kind=base.sandbox.kind,
        outputs=dependencies.outputs,
        policy=base.policy,
        limits=limits_of(settings),
        hooks=base.files.hooks,
        tries=_tries(base),
        attended=base.opening.attended,
        keeping=RuleKeeping(
            base.kept_rules,
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


def _tries(base: _Base) -> bool:
    """Whether commands that nobody decided about are tried out where the sandbox can."""
    return base.sandbox.kind == "docker" and (
        base.dependencies.settings.sandbox.approval == "effects"
    )


def _unread(dependencies: ToolDependencies, catalog: ToolCatalog, tool: Tool[Any]) -> bool:
    named = dependencies.settings.toolsets.require_info
    if not (tool.require_info or named) or tool.name in dependencies.read_about:
        return False
    of_a_set = named is True and tool in catalog.toolsets.held
    return dependencies.must_read(tool, of_a_set=of_a_set)


def _policy(settings: Settings, kept: KeptRulesFile | None, history: History, tell: Tell) -> Policy:
    network = settings.network_after(history.hosts.network)
    rules = (*parse_rules(settings.rules), *(() if kept is None else kept.load(tell)))
    return Policy(
        settings.mode,
        rules,
        ask_reads=settings.read_only_commands == "ask",
        ask_ignored=settings.sandbox.ignored_files == "ask",
        network=network,
        heard=history.hosts.heard,
    )


def _begin(agent: Agent, base: _Base) -> None:
    """Make the first checkpoint in the background and report the tool files.

    The log is completed: with what commands may reach, and with the sets that the command line
    turned on.
    """
    history, level = base.session.history, base.policy.network
    agent.emitter.observe(_prepare_first_call(), TurnStarted)
    agent.begin_checkpoints()
    if level != (history.hosts.network or "ask"):
        agent.do(SetNetwork(level))
    if (found := base.files.first_look) is not None:
        tell_tools(replace(found, added=(), removed=(), changed=()), agent.emitter)
    for name in newly_given(base.dependencies.settings, history):
        agent.emitter.emit(
            ToolsetChosen(text=f"turned on: {name}", toolset=name, tools=(), on=True)
        )


def limits_of(settings: Settings) -> Limits:
    others = ("budget", "model_timeout", "network_bytes")
    same = {name: value for name, value in asdict(settings.limits).items() if name not in others}
    return Limits(**same, max_cost_usd=settings.limits.budget)


def _hooks(dependencies: ToolDependencies, tell: Tell) -> tuple[Hooks, tuple[CodedText, ...]]:
    """Collect the programs in the order of the configuration, then the functions of the user's
    files, which it runs; also return a notice for each file that could not be loaded.
    """
    settings, root = dependencies.settings, dependencies.workspace.root
    own = dependencies.local.own_folder
    programs, functions, problems = tuple[Hook, ...](), tuple[Hook, ...](), tuple[CodedText, ...]()
    if settings.hooks:
        from codeagent.agent.hooks.command import (
            CommandHook,
            command_hooks,
        )  # a contract that only programs need

        programs = command_hooks(
            [CommandHook(workspace=root, **asdict(hook)) for hook in settings.hooks]
        )
    if own is not None and may_exist(folder := own / "hooks"):
        from codeagent.agent.hooks.python import (
            load_python_hooks,
        )  # only for a user who has such files

        functions, broken = load_python_hooks(folder, root)
        problems = tuple(("hook.broken", str(problem)) for problem in broken)
    return Hooks((*programs, *functions), on_failure=tell), problems
