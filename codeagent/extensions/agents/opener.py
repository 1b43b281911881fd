"""Opens the agents that calls start: each in a session of its own, with the tools and limits that
its file gives it."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from codeagent.agent.parts import Assembled, OpenedModel, Parts
from codeagent.agent.prompt import role
from codeagent.config.local_environment import agrees_to
from codeagent.core.agents import WORKTREES, AgentDefinition
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.model import ModelInUse, from_now_on, same_provider
from codeagent.core.patterns import AllowList
from codeagent.core.tool import Tool
from codeagent.disk.repository import OutsideGit
from codeagent.extensions.agents.children import Membership, OpenedChild, Origin, Parent
from codeagent.session.log import SessionLog
from codeagent.session.store import SessionStore
from codeagent.tools.builtin.info import Info
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.folders import DefinedTool
from codeagent.tools.registry import ToolRegistry

if TYPE_CHECKING:  # most agents work where their parent does
    from codeagent.extensions.agents.channels import Inbox
    from codeagent.workspace.worktrees import Worktree

_NOT_FOR_CHILDREN = frozenset({"agent", "toolset_list", "toolset_use"})
"""A child starts no agents, and its tools stay as they are."""
_NOT_IN_WORKTREES = frozenset({"git_commit"})
"""What changes in a worktree is taken into the workspace, or dropped."""


@dataclass(frozen=True)
class ChildOpener:
    """Opens agents that work for one conversation."""

    assembly: Assembled
    """Of the conversation's agent."""
    inbox: "Inbox | None"
    """Of the conversation's agent; None if no agent can write to another."""

    async def open(
        self, definition: AgentDefinition, parent: Parent, membership: Membership | None
    ) -> OpenedChild:
        """Open an agent in a session of its own. Raises CodeagentError, and then leaves nothing
        open."""
        async with AsyncExitStack() as stack:
            model, in_use = await self._model(definition, parent, stack)
            log = self._session(parent, stack)
            worktree = await self._worktree(log.session_id, stack) if definition.worktree else None
            closing = await stack.enter_async_context(AsyncExitStack())
            there = self.assembly
            if worktree is not None:
                there = await there.in_copy(worktree.root, worktree.git, log.session_id, closing)
            name = (
                f"{definition.name}.{log.session_id.rpartition('.')[2]}"
                if membership is None
                else membership.inbox.name
            )
            own = there.for_agent(self._parts(name, membership), (parent.session_id, log.folder))
            tools, prompt = await self._equipped(definition, parent, own, membership)
            origin = Origin(
                parent, name, definition.mode, definition.network, apart=definition.worktree
            )
            agent = own.agent(
                (model, in_use),
                tools,
                prompt,
                log,
                closing,
                limits=definition.limits,
                shared=origin.shared,
            )
            _tell_server(parent, name, in_use)
            opened = OpenedChild(agent, closing.pop_all().aclose, worktree)
            stack.pop_all()
            return opened

    async def _model(
        self, definition: AgentDefinition, parent: Parent, stack: AsyncExitStack
    ) -> OpenedModel:
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
        local = self.assembly.local
        store = SessionStore(local.state_dir, local.redactor)
        log = store.create_child(parent.session_id)
        stack.callback(store.discard_if_empty, log.session_id)
        stack.callback(log.close)
        return log

    async def _equipped(
        self,
        definition: AgentDefinition,
        parent: Parent,
        own: Assembled,
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
        own: Assembled,
        membership: Membership | None,
    ) -> tuple[ToolRegistry, str]:
        """Return the tools that a child may have of those `above`, and its system prompt. Blocks
        on small files.

        `info` is added if the child must read about one of them, so that a list without it cannot
        get around that.
        """
        allowed = AllowList().narrowed(definition.tools)
        if any(allowed.allows(tool.name) and own.must_read(tool) for tool in above):
            allowed = AllowList(tuple((*names, Info.name) for names in allowed.lists))
        names = {name for tool in above for name in (tool.name, tool.narrows)}
        remade = own.remade(names, lambda: tools)
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
        return tools, f"{own.prompt(tools)}\n{about}"

    def _parts(self, name: str, membership: Membership | None) -> Parts:
        if membership is not None:
            return Parts((membership.inbox,))
        return Parts(() if self.inbox is None else (self.inbox.beside(name),))

    async def _worktree(self, session_id: str, stack: AsyncExitStack) -> "Worktree":
        """Make the child's worktree; the stack removes it. Raises CheckpointError."""
        from codeagent.workspace.worktrees import make_worktree  # few agents ask for one

        worktree = await make_worktree(
            self.assembly.local.state_dir / WORKTREES,
            self.assembly.workspace.root,
            session_id,
            self.assembly.snapshots,
            self._agreed,
        )
        stack.push_async_callback(worktree.remove)
        return worktree

    def _agreed(self, git: OutsideGit) -> bool:
        return agrees_to(git, self.assembly.workspace.root, self.assembly.local.config_dir)


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
        parent.shared.emitter.warn("model.server", text)


def _wanted_model(definition: AgentDefinition, parent: ModelInUse) -> tuple[str, str | None, Any]:
    """Return name, address and thinking level; another provider's model is not at the address of
    the parent's."""
    effort = definition.thinking or parent.effort
    if definition.model is None:
        return parent.name, parent.api_base, effort
    api_base = parent.api_base if same_provider(definition.model, parent.name) else None
    return definition.model, api_base, effort
