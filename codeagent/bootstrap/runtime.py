"""Settings in, a running conversation out."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace

from codeagent.agent.agent import Agent
from codeagent.agent.batches import Strategy
from codeagent.agent.command_hooks import CommandHook, command_hooks
from codeagent.agent.executor import Surroundings
from codeagent.agent.hooks import Hooks
from codeagent.agent.limits import Limits
from codeagent.agent.loop import Conversation
from codeagent.agent.questions import Questions
from codeagent.bootstrap.models import ModelChange, no_other_model, open_model
from codeagent.bootstrap.place import Place
from codeagent.bootstrap.sandboxes import Tell, start_sandbox
from codeagent.bootstrap.sessions import opened_session, past_of
from codeagent.bootstrap.tools import assemble_prompt, commit_tool, seen_files, tools_for
from codeagent.config.loader import parse_rules
from codeagent.config.rule_book import RuleBookFile
from codeagent.config.settings import Settings
from codeagent.core.errors import ConfigError
from codeagent.core.events import KnownEvent
from codeagent.core.policy import Policy
from codeagent.core.ports import Workspace
from codeagent.core.runtime import Runtime
from codeagent.llm.hosted import context_window
from codeagent.session.outputs import FileOutputs
from codeagent.session.store import SessionStore
from codeagent.tools.breadth import too_broad
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.files import LocalWorkspace


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
        model = await open_model(settings.model, settings.api_base, place)
        stack.push_async_callback(model.close)
        workspace = LocalWorkspace(place.workspace)
        stack.callback(workspace.close)
        log, history = await opened_session(SessionStore(place.state_dir, place.redactor), resume, workspace, stack)
        sandbox = await start_sandbox(settings, place, workspace, log.session_id, tell, stack)
        outputs = FileOutputs(log.folder / "outputs", place.redactor)
        questions = Questions()
        commit = commit_tool(workspace, place, hooks=settings.commit_hooks)
        tools = tools_for(sandbox.kind, workspace, outputs, seen_files(workspace, history), questions, commit)
        limits, hooks = _limits(settings), _hooks(settings, workspace, tell)
        around = Surroundings(tools, workspace, sandbox.sandbox, sandbox.kind, outputs, policy, limits, hooks)
        around = replace(around, attended=attended, book=book, objection=too_broad)
        prompt = assemble_prompt(tools, workspace, sandbox.kind)
        conversation = Conversation(model, prompt, tools.definitions(), strategy, limits, attended)
        checkpoints = GitCheckpoints(place.state_dir, workspace.root)
        stack.callback(checkpoints.close)
        agent = Agent(conversation, around, log, past_of(history), questions, checkpoints)
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
            use_model=no_other_model,
            close=stack.pop_all().aclose,
        )
        return replace(runtime, use_model=ModelChange(runtime, agent, place))


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
