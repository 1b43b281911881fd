"""Settings in, a running conversation out, in a new session or a resumed one."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from codeagent.agent.agent import Agent
from codeagent.agent.approvals import UserQuestions
from codeagent.agent.batches import Strategy
from codeagent.agent.calls import ToolEnvironment
from codeagent.agent.hooks.hook import Hook, Hooks
from codeagent.agent.hooks.python import HookFileProblem, load_python_hooks
from codeagent.agent.jobs.store import Jobs
from codeagent.agent.limits import Limits
from codeagent.agent.loop import Conversation
from codeagent.agent.prompt import PromptBuilder
from codeagent.bootstrap.models import OpenModels, model_options, uncounted_budget
from codeagent.bootstrap.place import Place, StartedSandbox, Tell, start_sandbox
from codeagent.bootstrap.tools import ToolDependencies, prompt_for, tracked_reads
from codeagent.config.kept import RuleBookFile
from codeagent.config.layers import parse_rules
from codeagent.config.settings import Settings
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.events import KnownEvent, RunStarted, UnknownEvent
from codeagent.core.policy import Policy, Rule
from codeagent.core.ports import Workspace
from codeagent.core.runtime import Runtime
from codeagent.core.sanitize import visible
from codeagent.session.fold import History, fold
from codeagent.session.log import SessionLog
from codeagent.session.outputs import FileOutputs
from codeagent.session.repair import check_recording, closing_events
from codeagent.session.store import SessionStore
from codeagent.tools.catalog import ToolCatalog
from codeagent.tools.shell.rules import too_broad
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.files import LocalWorkspace

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
) -> Runtime:
    """Open a conversation, new or resumed; model library and container start side by side.

    `tell` gets lines about a slow start; `observer` gets every event. `attended`: a user is there to ask when a
    limit is reached. Raises CodeagentError, and then leaves nothing running.
    """
    if settings.model is None:
        raise ConfigError("no model is set")
    uncounted = await asyncio.to_thread(_uncounted, settings, attended)
    strategy = Strategy.parse(settings.strategy)
    book = None if place.config_dir is None else RuleBookFile(place.config_dir, place.workspace, too_broad)
    policy = await asyncio.to_thread(_policy, settings, book, tell)
    async with AsyncExitStack() as stack:
        open_model = OpenModels(place, model_options(settings))
        model, in_use = await open_model(settings.model, settings.api_base, settings.thinking)
        stack.push_async_callback(model.close)
        workspace = LocalWorkspace(place.workspace)
        stack.callback(workspace.close)
        session = await opened_session(SessionStore(place.state_dir, place.redactor), resume, workspace, stack)
        log, history = session.log, session.history
        sandbox = await start_sandbox(settings, place, workspace, log.session_id, tell, stack)
        dependencies = _dependencies(settings, place, workspace, sandbox, log, history)
        catalog = await asyncio.to_thread(dependencies.catalog)
        found = await catalog.refresh()
        misnamed = _misnamed(catalog, policy.rules)
        hooks, broken = await asyncio.to_thread(_hooks, settings, place, workspace, tell)
        around = ToolEnvironment(
            catalog, workspace, sandbox.sandbox, sandbox.kind, dependencies.outputs, policy, _limits(settings), hooks
        )
        around = replace(around, attended=attended, book=book, scratchpad=dependencies.scratchpad)
        around = replace(around, objection=partial(_objection, catalog))
        prompt = await asyncio.to_thread(prompt_for, dependencies)
        builder = PromptBuilder(catalog, prompt, dependencies.skills.refresh, _written(policy.rules))
        checkpoints = GitCheckpoints(place.state_dir, workspace.root)
        stack.callback(checkpoints.close)
        conversation = Conversation(
            model, builder.system_prompt, builder.tools, strategy, around.limits, attended, builder
        )
        questions, jobs = dependencies.questions, dependencies.jobs
        agent = Agent(conversation, around, log, history, questions, checkpoints, jobs, in_use, open_model)
        stack.push_async_callback(agent.close)
        agent.observe(observer)
        agent.begin_checkpoints()
        agent.tell_tools(found)
        own = (*session.troubles, *(("hook.broken", str(problem)) for problem in broken))
        for code, text in (*own, *misnamed, *uncounted, *_troubles(dependencies, sandbox)):
            agent.notify(code, text)
        await agent.begin_session(resumed=resume is not None)
        runtime = _runtime(agent, around, sandbox, builder, dependencies)
        return replace(runtime, close=stack.pop_all().aclose)


def _objection(catalog: ToolCatalog, rule: Rule) -> str | None:
    """Return why a user's answer must not become this rule, as a phrase."""
    return too_broad(rule) or next(iter(catalog.unknown((rule,))), None)


def _written(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules that were written by hand: the tool of a kept answer may be gone."""
    return tuple(rule for rule in rules if rule.origin in ("flag", "user", "project"))


def _misnamed(catalog: ToolCatalog, rules: Sequence[Rule]) -> tuple[tuple[str, str], ...]:
    """Return code and text of a notice for each rule whose tool is unknown but may be in a file that is not loaded.

    Raises ConfigError if no file can have it.
    """
    unknown = catalog.unknown(_written(rules))
    if unknown and catalog.complete:
        raise ConfigError(f"{unknown[0]} Nothing was run")
    return tuple(("rule.unknown", f"{text} It is checked again when all tool files are loaded") for text in unknown)


def _uncounted(settings: Settings, attended: bool) -> tuple[tuple[str, str], ...]:
    """Return a notice about a budget that counts nothing; if nobody would read it, raise ConfigError."""
    why = uncounted_budget(settings)
    if why and not attended:
        raise ConfigError(f"{why}; nothing was run")
    return (("budget.uncounted", why),) if why else ()


def _troubles(dependencies: ToolDependencies, sandbox: StartedSandbox) -> Iterator[tuple[str, str]]:
    """Yield codes and texts of the notices that a conversation begins with."""
    for problem in (*dependencies.instructions.problems, *dependencies.skills.problems):
        yield "skills.problem" if "SKILL.md" in problem.where else "instructions.hidden", visible(str(problem))
    if (trouble := sandbox.trouble) is not None:
        yield "sandbox.unavailable", f"no sandbox, so bash is disabled: {trouble}. {trouble.remedy}"
    for narrowed in () if sandbox.info is None else sandbox.info.narrowed:
        yield "sandbox.narrowed", visible(narrowed)


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
        tools=builder.tools,
        system_prompt=builder.system_prompt,
        close=agent.close,
        skills=dependencies.skills,
    )


def _dependencies(
    settings: Settings, place: Place, workspace: Workspace, sandbox: StartedSandbox, log: SessionLog, history: History
) -> ToolDependencies:
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
        lambda: "" if sandbox.sandbox is None else sandbox.sandbox.exposed,
    )


def _policy(settings: Settings, book: RuleBookFile | None, tell: Tell) -> Policy:
    kept = () if book is None else book.load(tell)
    return Policy(settings.mode, (*parse_rules(settings.rules), *kept), settings.read_only_commands == "ask")


def _limits(settings: Settings) -> Limits:
    same = settings.limits.model_dump(exclude={"budget", "model_timeout"})
    return Limits(**same, max_cost_usd=settings.limits.budget)


def _hooks(
    settings: Settings, place: Place, workspace: Workspace, tell: Tell
) -> tuple[Hooks, tuple[HookFileProblem, ...]]:
    """Collect the programs in the order of the configuration, then the functions of the user's files, which it runs."""
    own, programs = place.own_folder, tuple[Hook, ...]()
    if settings.hooks:
        from codeagent.agent.hooks.command import CommandHook, command_hooks  # a contract that only programs need

        given = [CommandHook(hook.event, hook.command, workspace.root, hook.tools) for hook in settings.hooks]
        programs = command_hooks(given)
    functions, problems = ((), ()) if own is None else load_python_hooks(own / "hooks", workspace.root)
    return Hooks((*programs, *functions), on_failure=tell), problems


@dataclass(frozen=True)
class Opened:
    """A session that is held, and what it holds."""

    log: SessionLog
    history: History
    troubles: tuple[tuple[str, str], ...] = ()
    """Codes and texts of the notices it begins with."""


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
    """Open and hold the session. Raises SessionError, or ConfigError if it belongs to another workspace."""
    if resume is None:
        return Opened(store.create(), fold(()))
    log, recording = store.open(store.find(resume))
    try:
        _refuse_other_workspace(recording.events, workspace, log.session_id)
        closing = closing_events(recording.events, log.session_id, log.next_seq, round(time.time(), 3))
        for event in closing:
            log.append(event)
        history = fold((*recording.events, *closing))
        return Opened(log, history, _damage(check_recording(recording, history).problems, log.session_id))
    except BaseException:
        log.close()
        raise


def _damage(problems: tuple[str, ...], session_id: str) -> tuple[tuple[str, str], ...]:
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
    there = next((event.workspace for event in reversed(events) if isinstance(event, RunStarted)), None)
    if there is not None and there != str(workspace.root):
        raise ConfigError(
            f"session {session_id} belongs to another folder; nothing was run: "
            f"codeagent {there} --resume {session_id}, or codeagent run with --cwd {there}"
        )
