"""Opens the agents that calls start: each in a session of its own, with the tools and limits that
its file gives it."""

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from codeagent.agent.agent import Agent, AgentServices
from codeagent.agent.batches import Strategy
from codeagent.agent.environment import Recall, ToolEnvironment
from codeagent.agent.loop import Conversation
from codeagent.agent.prompt import role
from codeagent.agent.todo import Todo
from codeagent.app.sandbox import start_sandbox
from codeagent.app.sources import tools_by_reads
from codeagent.app.tools import ToolDependencies, forget_reads, prompt_for
from codeagent.config.local_environment import agrees_to
from codeagent.config.settings import Settings
from codeagent.core.agents import WORKTREES, AgentDefinition
from codeagent.core.allow import AllowList
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.events import Notice
from codeagent.core.model import ModelInUse, ModelOpener, from_now_on, same_provider
from codeagent.core.tool import Tool
from codeagent.disk.repository import OutsideGit
from codeagent.extensions.agents.children import OpenedChild, Origin, Parent, Seat
from codeagent.extensions.triggers.triggers import Triggers
from codeagent.session.store import SessionStore
from codeagent.tools.builtin.info import Info
from codeagent.tools.catalog import ToolCatalog, ToolRegistry
from codeagent.tools.edit.reads import ReadTracker
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.files import LocalWorkspace

if TYPE_CHECKING:  # most agents work where their parent does
    from codeagent.extensions.agents.worktrees import AgentWorktree

_NOT_FOR_CHILDREN = frozenset({"agent", "toolset_list", "toolset_use"})
"""A child starts no agents, and its tools stay as they are."""
_NOT_IN_WORKTREES = frozenset({"git_commit"})
"""What changes in a worktree is taken into the workspace, or dropped."""


@dataclass(frozen=True)
class ChildOpener:
    """Makes children of one conversation (an `agent.children.OpenChild`)."""

    settings: Settings
    dependencies: ToolDependencies
    environment: ToolEnvironment
    open_model: ModelOpener
    catalog: ToolCatalog
    """Of the conversation: an agent that names its tools has them even if a recipe's step holds its
    parent to others, and those of a set, whether it is on or not."""
    snapshots: GitCheckpoints

    async def __call__(
        self, definition: AgentDefinition, parent: Parent, seat: Seat | None
    ) -> OpenedChild:
        local = self.dependencies.local
        async with AsyncExitStack() as stack:
            wanted = _model(definition, parent.model)
            inherited = None if self.environment.attended else self.environment.limits.max_cost_usd
            if (budget := definition.limits.get("max_cost_usd", inherited)) is not None:
                await asyncio.to_thread(self.environment.check_budget, wanted[0], budget)
            model, in_use = await self.open_model(*wanted)
            stack.push_async_callback(model.close)
            store = SessionStore(local.state_dir, local.redactor)
            # Two small files: in a thread, a call that is cancelled in between would leave them
            # open.
            log = store.create_child(parent.session_id)
            stack.callback(store.discard_if_empty, log.session_id)
            stack.callback(log.close)
            worktree = await self._worktree(log.session_id, stack) if definition.worktree else None
            closing = await stack.enter_async_context(AsyncExitStack())
            there, environment = self.dependencies, self.environment
            if worktree is not None:
                there, environment = await self._moved(worktree, log.session_id, closing)
            name = (
                f"{definition.name}.{log.session_id.rpartition('.')[2]}"
                if seat is None
                else seat.inbox.name
            )
            inbox = seat.inbox if seat is not None else there.inbox and there.inbox.beside(name)
            own = replace(
                there,
                reads=ReadTracker(there.workspace),
                read_about=set(),
                services=AgentServices(triggers=Triggers(inbox=inbox)),
                state=replace(there.state, todo=Todo()),
                session=(parent.session_id, log.folder),
            )
            above = tuple(parent.tools if definition.tools is None else self.catalog)
            if seat is not None:
                allow = self.catalog.toolsets.allow
                seat = replace(
                    seat, tools=tuple(tool for tool in seat.tools if allow.allows(tool.name))
                )
            lent = await self.catalog.toolsets.lend(
                definition.tools or (), {tool.name for tool in above}
            )
            above = (*above, *lent)
            tools, prompt = await asyncio.to_thread(
                _equip,
                definition,
                above,
                own,
                seat,
                self._must_read,
                partial(tools_by_reads, self.settings, own),
            )
            if said := self.catalog.misnamed_in(
                definition.tools or (), {tool.name for tool in tools}
            ):
                raise ConfigError(f"{definition.where}: tools: {said}")
            given: dict[str, Any] = dict(definition.limits)
            limits = replace(self.environment.limits, **given)
            must_read = frozenset(filter(self._must_read, tools))
            environment = replace(
                environment,
                tools=tools,
                limits=limits,
                recall=_recall(environment.recall, own, must_read),
                state=replace(environment.state, todo=own.state.todo, scratchpad=own.scratchpad),
            )
            strategy = Strategy.parse(self.settings.strategy)
            early_reads = self.settings.early_reads
            conversation = Conversation(
                model,
                prompt,
                tools.definitions(),
                strategy,
                limits,
                server=in_use.server,
                early_reads=early_reads,
            )
            origin = Origin(
                parent, name, definition.mode, definition.network, apart=definition.worktree
            )
            agent = Agent(
                conversation, environment, log, services=own.services, model=in_use, origin=origin
            )
            closing.push_async_callback(agent.close)
            _tell_server(parent, name, in_use)
            opened = OpenedChild(agent, closing.pop_all().aclose, worktree)
            stack.pop_all()
            return opened

    def _must_read(self, tool: Tool[Any]) -> bool:
        always = {one.name for one in self.catalog.always}
        return self.dependencies.must_read(tool, of_a_set=tool.name not in always)

    async def _worktree(self, session_id: str, stack: AsyncExitStack) -> "AgentWorktree":
        """Make the child's worktree; the stack removes it. Raises CheckpointError."""
        from codeagent.extensions.agents.worktrees import (
            make_worktree,  # only for agents that ask for one
        )

        local, root = self.dependencies.local, self.dependencies.workspace.root
        worktree = await make_worktree(
            local.state_dir / WORKTREES, root, session_id, self.snapshots, self._agreed
        )
        stack.push_async_callback(worktree.remove)
        return worktree

    async def _moved(
        self, worktree: "AgentWorktree", session_id: str, stack: AsyncExitStack
    ) -> tuple[ToolDependencies, ToolEnvironment]:
        """What the child's tools work with, bound to its worktree; the stack closes it. Raises
        SandboxUnavailable."""
        local = self.dependencies.local
        copy_of = local.copy_of or local.workspace
        agreed = frozenset({worktree.git})
        local = replace(local, workspace=worktree.root, agreed_git=agreed, copy_of=copy_of)
        workspace = LocalWorkspace(worktree.root)
        stack.callback(workspace.close)
        environment = replace(self.environment, workspace=workspace)
        project = self.dependencies.workspace.root
        there = replace(self.dependencies, local=local, workspace=workspace, project=project)
        if self.dependencies.kind is None:
            return there, environment
        started = await start_sandbox(
            self.settings, local, workspace, session_id, _say_nothing, stack, ready=False
        )
        if started.trouble is not None:
            raise started.trouble
        return replace(there, sandbox=started.sandbox), replace(
            environment, sandbox=started.sandbox
        )

    def _agreed(self, git: OutsideGit) -> bool:
        return agrees_to(git, self.dependencies.workspace.root, self.dependencies.local.config_dir)


def _say_nothing(text: str) -> None:
    """Keep quiet about a start that the user already knows from the parent's sandbox."""


def _recall(recall: Recall, own: ToolDependencies, must_read: frozenset[Tool[Any]]) -> Recall:
    """Return what a child still knows, of what it read itself."""
    return replace(
        recall,
        unread=partial(_unread, must_read, own.read_about),
        forget=partial(forget_reads, own.reads, own.read_about),
    )


def _unread(required: Container[Tool[Any]], read: Container[str], tool: Tool[Any]) -> bool:
    return tool in required and tool.name not in read


def _equip(
    definition: AgentDefinition,
    above: Sequence[Tool[Any]],
    own: ToolDependencies,
    seat: Seat | None,
    must_read: Callable[[Tool[Any]], bool],
    by_reads: Callable[[Container[str]], Iterable[Tool[Any]]],
) -> tuple[ToolRegistry, str]:
    """Return the tools that a child may have of those `above`, and its system prompt. Blocks on
    small files.

    `info` is added if the child `must_read` about one of them, so that a list without it cannot get
    around that.
    """
    allowed = AllowList().narrowed(definition.tools)
    if any(allowed.allows(tool.name) and must_read(tool) for tool in above):
        allowed = AllowList(tuple((*names, Info.name) for names in allowed.lists))
    info = Info(lambda: tools, own.skills, own.read_about)
    names = {name for tool in above for name in (tool.name, tool.narrows)}
    remade = {tool.name: tool for tool in (*own.built_in(), *by_reads(names), info)}
    without = _NOT_FOR_CHILDREN | _NOT_IN_WORKTREES if definition.worktree else _NOT_FOR_CHILDREN
    inherits = definition.worktree and definition.tools is None
    seated = () if seat is None else seat.tools
    without = without.union(tool.name for tool in seated)
    lent = (
        _own(tool, remade, own.reads)
        for tool in above
        if allowed.allows(tool.name)
        and without.isdisjoint({tool.name, tool.narrows})
        and not (inherits and _stays(tool))
    )
    tools = ToolRegistry([*lent, *seated])
    told = role(definition) if seat is None else f"{seat.role}\n\n{definition.prompt}\n"
    return tools, f"{prompt_for(own)(tuple(tools))}\n{told}"


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
    match tool.source:
        case "builtin":
            return remade.get(tool.name, tool)
        case "yaml":
            from codeagent.extensions.user_tools.yaml_tools import (
                rebound,  # only if there are such tools
            )

            return rebound(tool, remade, reads)
        case _:
            return tool


def _tell_server(parent: Parent, name: str, in_use: ModelInUse) -> None:
    """Report that what the agent is told goes to another host than the conversation."""
    if where := from_now_on(in_use.server, parent.model.server):
        text = f"the agent {name} has the model {in_use.name}{where}"
        parent.shared.emitter.emit(Notice(level="warning", code="model.server", text=text))


def _model(definition: AgentDefinition, parent: ModelInUse) -> tuple[str, str | None, Any]:
    """Return name, address and thinking level; another provider's model is not at the address of
    the parent's."""
    effort = definition.thinking or parent.effort
    if definition.model is None:
        return parent.name, parent.api_base, effort
    api_base = parent.api_base if same_provider(definition.model, parent.name) else None
    return definition.model, api_base, effort
