"""Has a model divide the tools of a large source into sets: a run of its own, logged and held to
limits like any."""

import asyncio
from contextlib import AsyncExitStack

from codeagent.agent.agent import Agent
from codeagent.agent.batches import Strategy
from codeagent.agent.conversation import Conversation
from codeagent.agent.environment import ToolEnvironment
from codeagent.agent.hooks.hook import Hooks
from codeagent.app.models import OpenModels, check_counted, model_options
from codeagent.app.runtime import limits_of
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import Settings
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError, ConfigError
from codeagent.core.events import RunFinished
from codeagent.core.messages import Usage
from codeagent.core.policy import Policy
from codeagent.session.outputs import FileOutputs
from codeagent.session.store import SessionStore, opened_session
from codeagent.tools.grouping import (
    SPLITTING,
    NoPartition,
    ToolGroup,
    keep_split,
    read_split,
    split_prompt,
)
from codeagent.tools.registry import ToolRegistry
from codeagent.tools.source import Listing
from codeagent.workspace.files import LocalWorkspace


@dataclass(frozen=True)
class Split:
    """The sets that a model made of a source, and what that cost."""

    groups: tuple[ToolGroup, ...]
    usage: Usage


class SplitFailed(CodeagentError):
    """The source stays one set; `usage` is what asking cost."""

    def __init__(self, source: str, why: object, usage: Usage) -> None:
        super().__init__(f"{source} stays one set: {why}")
        self.usage = usage


async def split(
    source: str, listing: Listing, settings: Settings, local: LocalEnvironment
) -> Split:
    """Have the model of the settings divide the source's tools, and keep how. Raises
    CodeagentError."""
    finished = await _asked(split_prompt(source, listing.tools), settings, local)
    if finished.reason != "done":
        why = finished.error or "a limit was reached before the model had answered"
        raise SplitFailed(source, why, finished.usage)
    try:
        groups = read_split(finished.text, source, listing.tools)
        await asyncio.to_thread(keep_split, local.splits, source, groups)
    except NoPartition as error:
        raise SplitFailed(source, error, finished.usage) from None
    except OSError as error:
        raise SplitFailed(
            source, f"{error.filename} cannot be written ({error.strerror})", finished.usage
        ) from None
    return Split(groups, finished.usage)


async def _asked(prompt: str, settings: Settings, local: LocalEnvironment) -> RunFinished:
    """Run the prompt without tools, in a session of its own, and return how that ended. Raises
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
        session = await opened_session(
            SessionStore(local.state_dir, local.redactor), None, workspace, stack
        )
        outputs = FileOutputs(session.log.folder / "outputs", local.redactor)
        limits = limits_of(settings)
        environment = ToolEnvironment(
            ToolRegistry(()), workspace, None, None, outputs, Policy(), limits, Hooks()
        )
        conversation = Conversation(model, SPLITTING, (), Strategy.parse(settings.strategy), limits)
        agent = Agent(conversation, environment, session.log, session.history, model=in_use)
        stack.push_async_callback(agent.close)
        [finished] = [event async for event in agent.run(prompt) if isinstance(event, RunFinished)]
    return finished
