"""What a conversation was put together from, and how the agents that work for it are made of that."""

from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from codeagent.agent.agent import Agent
from codeagent.agent.batches import Strategy
from codeagent.agent.conversation import Conversation
from codeagent.agent.emitter import Journal
from codeagent.agent.environment import ToolEnvironment
from codeagent.agent.parts import AgentServices, OpenedModel, Parts, Shared
from codeagent.agent.todo import Todo
from codeagent.app.sandbox import start_sandbox
from codeagent.app.sources import tools_by_reads
from codeagent.app.tools import ToolDependencies, forget_reads, prompt_for
from codeagent.config.local_environment import LocalEnvironment
from codeagent.core.dataclass import dataclass
from codeagent.core.model import ModelOpener
from codeagent.core.ports import Workspace
from codeagent.core.tool import Tool
from codeagent.tools.builtin.info import Info
from codeagent.tools.catalog import ToolCatalog
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.registry import ToolRegistry
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.files import LocalWorkspace


@dataclass(frozen=True)
class Assembly:
    """Implements `agent.parts.Assembled`."""

    dependencies: ToolDependencies
    environment: ToolEnvironment
    open_model: ModelOpener
    catalog: ToolCatalog
    snapshots: GitCheckpoints

    @property
    def local(self) -> LocalEnvironment:
        return self.dependencies.local

    @property
    def workspace(self) -> Workspace:
        return self.dependencies.workspace

    @property
    def reads(self) -> ReadTracker:
        return self.dependencies.reads

    def for_agent(self, parts: Parts, session: tuple[str, Path]) -> "Assembly":
        there = self.dependencies
        own = replace(
            there,
            reads=ReadTracker(there.workspace),
            read_about=set(),
            services=AgentServices(parts=parts),
            state=replace(there.state, todo=Todo()),
            session=session,
        )
        return replace(self, dependencies=own)

    async def in_copy(
        self, root: Path, git: str, session_id: str, stack: AsyncExitStack
    ) -> "Assembly":
        above = self.dependencies
        local = replace(
            above.local,
            workspace=root,
            agreed_git=frozenset({git}),
            copy_of=above.local.copy_of or above.local.workspace,
        )
        workspace = LocalWorkspace(root)
        stack.callback(workspace.close)
        environment = replace(self.environment, workspace=workspace)
        there = replace(above, local=local, workspace=workspace, project=above.workspace.root)
        if above.kind is not None:
            started = await start_sandbox(
                above.settings, local, workspace, session_id, stack, tell=_say_nothing, ready=False
            )
            if started.trouble is not None:
                raise started.trouble
            there = replace(there, sandbox=started.sandbox)
            environment = replace(environment, sandbox=started.sandbox)
        return replace(self, dependencies=there, environment=environment)

    def remade(
        self, names: Container[str], tools: Callable[[], Iterable[Tool[Any]]]
    ) -> Mapping[str, Tool[Any]]:
        own = self.dependencies
        info = Info(tools, own.skills, own.read_about)
        by_reads = tools_by_reads(own, names)
        return {tool.name: tool for tool in (*own.built_in(), *by_reads, info)}

    def must_read(self, tool: Tool[Any]) -> bool:
        always = {one.name for one in self.catalog.always}
        return self.dependencies.must_read(tool, of_a_set=tool.name not in always)

    def prompt(self, tools: ToolRegistry) -> str:
        return prompt_for(self.dependencies)(tuple(tools))

    def agent(
        self,
        opened: OpenedModel,
        tools: ToolRegistry,
        prompt: str,
        log: Journal,
        stack: AsyncExitStack,
        *,
        limits: Mapping[str, Any],
        shared: Callable[[ToolEnvironment, Journal], Shared],
    ) -> Agent:
        own = self.dependencies
        required = frozenset(filter(self.must_read, tools))
        model, in_use = opened
        environment = replace(
            self.environment,
            tools=tools,
            limits=replace(self.environment.limits, **limits),
            recall=replace(
                self.environment.recall,
                unread=partial(_unread, required, own.read_about),
                forget=partial(forget_reads, own.reads, own.read_about),
            ),
            state=replace(self.environment.state, todo=own.state.todo, scratchpad=own.scratchpad),
        )
        conversation = Conversation(
            model,
            prompt,
            tools.definitions(),
            Strategy.parse(self.dependencies.settings.strategy),
            environment.limits,
            server=in_use.server,
            early_reads=self.dependencies.settings.early_reads,
        )
        agent = Agent(
            conversation,
            environment,
            log,
            services=own.services,
            model=in_use,
            shared=shared(environment, log),
        )
        stack.push_async_callback(agent.close)
        return agent


def _say_nothing(text: str) -> None:
    """Keep quiet about a start that the user already knows from the sandbox of the conversation."""


def _unread(required: Container[Tool[Any]], read: Container[str], tool: Tool[Any]) -> bool:
    return tool in required and tool.name not in read
