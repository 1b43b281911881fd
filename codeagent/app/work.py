"""Works on a task without a screen: opens its session, runs it to its end, and closes the
session."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

from codeagent.agent.agent import Agent
from codeagent.agent.batches import Strategy
from codeagent.agent.conversation import Conversation
from codeagent.agent.environment import ToolEnvironment
from codeagent.agent.hooks.hook import Hooks
from codeagent.app.models import OpenModels, check_counted, model_options
from codeagent.app.runtime import limits_of, open_session, settings_of
from codeagent.config.local_environment import LocalEnvironment, local_environment
from codeagent.config.sessions import Outcome, RunReader, Task
from codeagent.config.settings import Settings
from codeagent.core.acts import RunGroup, RunRecipe
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.checkpoints import ChangedFile, Rewind
from codeagent.core.errors import ConfigError, SandboxError
from codeagent.core.events import CheckpointCreated, KnownEvent, RunFinished
from codeagent.core.json_types import MAIN
from codeagent.core.messages import Usage
from codeagent.core.policy import Policy
from codeagent.core.runtime import Session
from codeagent.headless import answer_of_nobody, end_of
from codeagent.session.outputs import FileOutputs
from codeagent.session.store import SessionStore, opened_session
from codeagent.tools.registry import ToolRegistry
from codeagent.workspace.files import LocalWorkspace


async def work(task: Task, reader: RunReader | None = None) -> Outcome:
    """Open a session, run the task to its end, and close the session.

    `reader` answers what is asked; without one, the task says how. Raises CodeagentError if the
    task cannot begin.
    """
    local = local_environment(task.workspace)
    settings = await settings_of(task.settings, local)
    prompt = await asyncio.to_thread(_recipe, task, local, settings) if task.recipe else task.prompt
    reader = reader or _Unattended(approve=task.approve)
    session = await open_session(
        settings,
        local,
        resume=task.resume,
        needs_sandbox=task.needs_sandbox,
        tell=reader.say,
        observer=reader.show_outside,
        group=prompt.group if isinstance(prompt, RunGroup) else None,
    )
    events: list[KnownEvent] = []
    async with session:
        if task.needs_sandbox and session.sandbox is None:
            raise SandboxError(
                "nothing was run: it needs a sandbox, or --sandbox off; see codeagent doctor"
            )
        session.agent.observe(events.append)
        await reader.run(session, prompt)
        rewind = session.agent.rewind if task.lists_changes else None
        changes = () if rewind is None else await _changes(rewind, events)
    return _outcome(session.id, events, changes)


async def ask(
    prompt: str, instructions: str, settings: Settings, local: LocalEnvironment
) -> RunFinished:
    """Have the model of the settings answer without tools, in a session of its own. Raises
    CodeagentError."""
    if settings.model is None:
        raise ConfigError("no model is set: give --model NAME; nothing was asked")
    await asyncio.to_thread(check_counted, settings)
    async with AsyncExitStack() as stack:
        opener = OpenModels(local, model_options(settings))
        model, in_use = await opener(settings.model, settings.api_base, settings.thinking)
        stack.push_async_callback(model.close)
        workspace = LocalWorkspace(local.workspace)
        stack.callback(workspace.close)
        store = SessionStore(local.state_dir, local.redactor)
        session = await opened_session(store, None, workspace, stack)
        limits = limits_of(settings)
        environment = ToolEnvironment(
            tools=ToolRegistry(()),
            workspace=workspace,
            sandbox=None,
            sandbox_kind=None,
            outputs=FileOutputs(session.log.folder / "outputs", local.redactor),
            policy=Policy(),
            limits=limits,
            hooks=Hooks(),
        )
        strategy = Strategy.parse(settings.strategy)
        conversation = Conversation(model, instructions, (), strategy, limits)
        agent = Agent(conversation, environment, session.log, session.history, model=in_use)
        stack.push_async_callback(agent.close)
        [finished] = [event async for event in agent.run(prompt) if isinstance(event, RunFinished)]
    return finished


class _Unattended:
    """Reads a run, and answers as nobody would."""

    def __init__(self, *, approve: bool) -> None:
        self._approve = approve

    def say(self, text: str) -> None:
        """Show nothing: the outcome says what happened."""

    def show_outside(self, event: KnownEvent) -> None:
        """As above."""

    async def run(self, session: Session, prompt: str | RunRecipe | RunGroup) -> None:
        async for event in session.agent.run(prompt):
            if isinstance(event, ApprovalRequested):
                session.do(answer_of_nobody(event, approve=self._approve))


def _recipe(task: Task, local: LocalEnvironment, settings: Settings) -> RunRecipe:
    """Read the task's recipe, and check its inputs. Blocks on small files; raises ConfigError."""
    from codeagent.app.describe import read_recipes  # few tasks are recipes
    from codeagent.core.recipes import find_recipe, require_trust  # as above

    recipe = find_recipe(read_recipes(local, settings), task.recipe)
    require_trust(recipe)
    return RunRecipe(recipe, recipe.values(task.inputs), proceed=task.resume is not None)


async def _changes(rewind: Rewind, events: Sequence[KnownEvent]) -> tuple[ChangedFile, ...]:
    """Compare the files with the first checkpoint of the task; without one, nothing was changed.
    Raises CheckpointError."""
    first = next((each for each in events if isinstance(each, CheckpointCreated)), None)
    return () if first is None else (await rewind.changes(first.checkpoint_id)).files


def _outcome(
    session: str, events: Sequence[KnownEvent], changes: tuple[ChangedFile, ...]
) -> Outcome:
    ends = [end for each in events if each.agent == MAIN and (end := end_of(each)) is not None]
    last = ends[-1] if ends else None
    return Outcome(
        reason="failed" if last is None else last.reason,
        text="" if last is None else last.text,
        error="the run did not end" if last is None else last.error,
        changes=changes,
        usage=sum((end.usage for end in ends), Usage()),
        events=tuple(each for each in events if each.durable),
        session=session,
    )
