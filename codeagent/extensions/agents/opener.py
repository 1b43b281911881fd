"""Opens the agents that calls start: each in a session of its own, with the tools and limits that
its file gives it."""

import asyncio
from collections.abc import Container, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from codeagent.agent.agent import Agent
from codeagent.agent.batches import Strategy
from codeagent.agent.conversation import Conversation
from codeagent.agent.environment import ToolEnvironment
from codeagent.agent.parts import AgentServices, Assembled, Parts
from codeagent.agent.prompt import role
from codeagent.agent.todo import Todo
from codeagent.app.sandbox import start_sandbox
from codeagent.app.sources import tools_by_reads
from codeagent.app.tools import Assembly, ToolDependencies, forget_reads, prompt_for
from codeagent.config.local_environment import agrees_to
from codeagent.core.agents import WORKTREES, AgentDefinition
from codeagent.core.allow import AllowList
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.events import Notice
from codeagent.core.model import Model, ModelInUse, from_now_on, same_provider
from codeagent.core.tool import Tool
from codeagent.disk.repository import OutsideGit
from codeagent.extensions.agents.children import Membership, OpenedChild, Origin, Parent
from codeagent.session.log import SessionLog
from codeagent.session.store import SessionStore
from codeagent.tools.builtin.info import Info
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.folders import DefinedTool
from codeagent.tools.registry import ToolRegistry
from codeagent.workspace.files import LocalWorkspace

if TYPE_CHECKING:  # most agents work where their parent does
    from codeagent.extensions.agents.channels import Inbox
    from codeagent.extensions.agents.worktrees import AgentWorktree

_NOT_FOR_CHILDREN = frozenset({"agent", "toolset_list", "toolset_use"})
"""A child starts no agents, and its tools stay as they are."""
_NOT_IN_WORKTREES = frozenset({"git_commit"})
"""What changes in a worktree is taken into the workspace, or dropped."""


@dataclass(frozen=True)
class ChildOpener:
    """Opens agents that work for one conversation."""

    assembly: Assembly
    """Of the conversation."""
    inbox: "Inbox | None"
    """Of the conversation's agent; None if no agent can write to another."""

    async def open(
        self, definition: AgentDefinition, parent: Parent, membership: Membership | None
    ) -> OpenedChild:
        """Open an agent in a session of its own. Raises CodeagentError, and then leaves nothing
        open."""
        assembly = self.assembly
        async with AsyncExitStack() as stack:
            model, in_use = await self._model(definition, parent, stack)
            log = self._session(parent, stack)
            worktree = await self._worktree(log.session_id, stack) if definition.worktree else None
            closing = await stack.enter_async_context(AsyncExitStack())
            there, environment = assembly.dependencies, assembly.environment
            if worktree is not None:
                there, environment = await self._moved(worktree, log.session_id, closing)
            name = (
                f"{definition.name}.{log.session_id.rpartition('.')[2]}"
                if membership is None
                else membership.inbox.name
            )
            own = replace(
                there,
                reads=ReadTracker(there.workspace),
                read_about=set(),
                services=AgentServices(parts=self._parts(name, membership)),
                state=replace(there.state, todo=Todo()),
                session=(parent.session_id, log.folder),
            )
            tools, prompt = await self._equipped(definition, parent, own, membership)
            environment = self._limited(definition, environment, own, tools)
            origin = Origin(
                parent, name, definition.mode, definition.network, apart=definition.worktree
            )
            agent = Agent(
                self._conversation(model, in_use, prompt, environment),
                environment,
                log,
                services=own.services,
                model=in_use,
                shared=origin.shared(environment, log),
            )
            closing.push_async_callback(agent.close)
            _tell_server(parent, name, in_use)
            opened = OpenedChild(agent, closing.pop_all().aclose, worktree)
            stack.pop_all()
            return opened

    async def _model(
        self, definition: AgentDefinition, parent: Parent, stack: AsyncExitStack
    ) -> tuple[Model, ModelInUse]:
        """Open the agent's model; the stack closes it. Raises CodeagentError."""
        environment = self.assembly.environment
        wanted = _wanted_model(definition, parent.model)
        inherited = None if environment.attended else environment.limits.max_cost_usd
        if (budget := definition.limits.get("max_cost_usd", inherited)) is not None:
            await asyncio.to_thread(environment.check_budget, wanted[0], budget)
        model, in_use = await self.assembly.open_model(*wanted)
        stack.push_async_callback(model.close)
        return model, in_use

    def _session(self, parent: Parent, stack: AsyncExitStack) -> SessionLog:
        """Create the agent's session below that of its parent; the stack closes it.

        Two small files: in a thread, a call that is cancelled in between would leave them open.
        """
        local = self.assembly.dependencies.local
        store = SessionStore(local.state_dir, local.redactor)
        log = store.create_child(parent.session_id)
        stack.callback(store.discard_if_empty, log.session_id)
        stack.callback(log.close)
        return log

    async def _equipped(
        self,
        definition: AgentDefinition,
        parent: Parent,
        own: ToolDependencies,
        membership: Membership | None,
    ) -> tuple[ToolRegistry, str]:
        """Return the agent's tools and system prompt. Raises CodeagentError."""
        catalog, names = self.assembly.catalog, definition.tools or ()
        above = tuple(parent.tools if definition.tools is None else catalog)
        if membership is not None:
            allow = catalog.toolsets.allow
            allowed = tuple(tool for tool in membership.tools if allow.allows(tool.name))
            membership = replace(membership, tools=allowed)
        lent = await catalog.toolsets.lend(names, {tool.name for tool in above})
        tools, prompt = await asyncio.to_thread(
            self._equip, definition, (*above, *lent), own, membership
        )
        if said := catalog.names.misnamed_in(names, {tool.name for tool in tools}):
            raise ConfigError(f"{definition.where}: tools: {said}")
        return tools, prompt

    def _equip(
        self,
        definition: AgentDefinition,
        above: Sequence[Tool[Any]],
        own: ToolDependencies,
        membership: Membership | None,
    ) -> tuple[ToolRegistry, str]:
        """Return the tools that a child may have of those `above`, and its system prompt. Blocks
        on small files.

        `info` is added if the child must read about one of them, so that a list without it cannot
        get around that.
        """
        allowed = AllowList().narrowed(definition.tools)
        if any(allowed.allows(tool.name) and self._must_read(tool) for tool in above):
            allowed = AllowList(tuple((*names, Info.name) for names in allowed.lists))
        info = Info(lambda: tools, own.skills, own.read_about)
        names = {name for tool in above for name in (tool.name, tool.narrows)}
        by_reads = tools_by_reads(self.assembly.settings, own, names)
        remade = {tool.name: tool for tool in (*own.built_in(), *by_reads, info)}
        added = () if membership is None else membership.tools
        without = _NOT_FOR_CHILDREN.union(tool.name for tool in added)
        if definition.worktree:
            without |= _NOT_IN_WORKTREES
        inherits = definition.worktree and definition.tools is None
        lent = (
            _own(tool, remade, own.reads)
            for tool in above
            if allowed.allows(tool.name)
            and without.isdisjoint({tool.name, tool.narrows})
            and not (inherits and _stays(tool))
        )
        tools = ToolRegistry([*lent, *added])
        about = role(definition)
        if membership is not None:
            about = f"{membership.role}\n\n{definition.prompt}\n"
        return tools, f"{prompt_for(own)(tuple(tools))}\n{about}"

    def _limited(
        self,
        definition: AgentDefinition,
        environment: ToolEnvironment,
        own: ToolDependencies,
        tools: ToolRegistry,
    ) -> ToolEnvironment:
        """Return what the agent's tools work with, within its limits."""
        given: dict[str, Any] = dict(definition.limits)
        return replace(
            environment,
            tools=tools,
            limits=replace(self.assembly.environment.limits, **given),
            recall=replace(
                environment.recall,
                unread=partial(_unread, frozenset(filter(self._must_read, tools)), own.read_about),
                forget=partial(forget_reads, own.reads, own.read_about),
            ),
            state=replace(environment.state, todo=own.state.todo, scratchpad=own.scratchpad),
        )

    def _conversation(
        self, model: Model, in_use: ModelInUse, prompt: str, environment: ToolEnvironment
    ) -> Conversation:
        return Conversation(
            model,
            prompt,
            environment.tools.definitions(),
            Strategy.parse(self.assembly.settings.strategy),
            environment.limits,
            server=in_use.server,
            early_reads=self.assembly.settings.early_reads,
        )

    def _parts(self, name: str, membership: Membership | None) -> Parts:
        if membership is not None:
            return Parts((membership.inbox,))
        return Parts(() if self.inbox is None else (self.inbox.beside(name),))

    def _must_read(self, tool: Tool[Any]) -> bool:
        always = {one.name for one in self.assembly.catalog.always}
        return self.assembly.dependencies.must_read(tool, of_a_set=tool.name not in always)

    async def _worktree(self, session_id: str, stack: AsyncExitStack) -> "AgentWorktree":
        """Make the child's worktree; the stack removes it. Raises CheckpointError."""
        from codeagent.extensions.agents.worktrees import make_worktree  # few agents ask for one

        dependencies = self.assembly.dependencies
        worktree = await make_worktree(
            dependencies.local.state_dir / WORKTREES,
            dependencies.workspace.root,
            session_id,
            self.assembly.snapshots,
            self._agreed,
        )
        stack.push_async_callback(worktree.remove)
        return worktree

    async def _moved(
        self, worktree: "AgentWorktree", session_id: str, stack: AsyncExitStack
    ) -> tuple[ToolDependencies, ToolEnvironment]:
        """What the child's tools work with, bound to its worktree; the stack closes it. Raises
        SandboxUnavailable."""
        above = self.assembly.dependencies
        local = replace(
            above.local,
            workspace=worktree.root,
            agreed_git=frozenset({worktree.git}),
            copy_of=above.local.copy_of or above.local.workspace,
        )
        workspace = LocalWorkspace(worktree.root)
        stack.callback(workspace.close)
        environment = replace(self.assembly.environment, workspace=workspace)
        project = above.workspace.root
        there = replace(above, local=local, workspace=workspace, project=project)
        if above.kind is None:
            return there, environment
        started = await start_sandbox(
            self.assembly.settings, local, workspace, session_id, _say_nothing, stack, ready=False
        )
        if started.trouble is not None:
            raise started.trouble
        sandbox = started.sandbox
        return replace(there, sandbox=sandbox), replace(environment, sandbox=sandbox)

    def _agreed(self, git: OutsideGit) -> bool:
        dependencies = self.assembly.dependencies
        return agrees_to(git, dependencies.workspace.root, dependencies.local.config_dir)


def child_opener(assembly: Assembled, inbox: "Inbox | None") -> ChildOpener:
    """Make the opener of a conversation that was put together from this."""
    assert isinstance(assembly, Assembly)
    return ChildOpener(assembly, inbox)


def _say_nothing(text: str) -> None:
    """Keep quiet about a start that the user already knows from the parent's sandbox."""


def _unread(required: Container[Tool[Any]], read: Container[str], tool: Tool[Any]) -> bool:
    return tool in required and tool.name not in read


def _stays(tool: Tool[Any]) -> bool:
    """Whether the tool works in the workspace of the conversation, whoever calls it: a server's, or
    a user's function.

    Only an agent that names such a tool has it in a worktree.
    """
    return tool.source == "mcp" or (
        tool.source == "python" and tool.effect != "nothing" and not tool.sandboxed
    )


def _own(tool: Tool[Any], remade: Mapping[str, Tool[Any]], reads: ReadTracker) -> Tool[Any]:
    """Return the child's own tool in place of its parent's."""
    match tool:
        case DefinedTool():
            return tool.rebound(remade, reads)
        case _ if tool.source == "builtin":
            return remade.get(tool.name, tool)
        case _:
            return tool


def _tell_server(parent: Parent, name: str, in_use: ModelInUse) -> None:
    """Report that what the agent is told goes to another host than the conversation."""
    if where := from_now_on(in_use.server, parent.model.server):
        text = f"the agent {name} has the model {in_use.name}{where}"
        parent.shared.emitter.emit(Notice(level="warning", code="model.server", text=text))


def _wanted_model(definition: AgentDefinition, parent: ModelInUse) -> tuple[str, str | None, Any]:
    """Return name, address and thinking level; another provider's model is not at the address of
    the parent's."""
    effort = definition.thinking or parent.effort
    if definition.model is None:
        return parent.name, parent.api_base, effort
    api_base = parent.api_base if same_provider(definition.model, parent.name) else None
    return definition.model, api_base, effort
