"""The agents that calls start: each is a child with its own history, log, tools and limits, and
ends with its call."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from codeagent.agent.approvals import Approvals
from codeagent.agent.checkpoints import WorkspaceLock
from codeagent.agent.emitter import Emitter, Journal
from codeagent.agent.environment import ToolEnvironment
from codeagent.agent.hooks.hook import Hooks
from codeagent.agent.limits import RunMeter
from codeagent.agent.parts import ConversationPart, Host, Shared
from codeagent.agent.permissions import NarrowedPermissions
from codeagent.core.acts import Act, Stop
from codeagent.core.agents import GENERAL, AgentDefinition, Check
from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError, RunCancelled
from codeagent.core.model import ModelInUse
from codeagent.core.notices import AgentStarted
from codeagent.core.policy import Mode, NetworkLevel
from codeagent.core.runtime import AgentHandle
from codeagent.core.tool import Failed, NotFound, Tool, ToolContext, ToolResult
from codeagent.core.toolbox import ToolsInUse
from codeagent.tools.faults import nearest_or_all

if TYPE_CHECKING:  # most conversations run no group, and copy no workspace
    from codeagent.extensions.agents.channels import Inbox
    from codeagent.workspace.worktrees import Worktree

MOST_DEEP = 1
"""Children have no tool that starts agents; if one had, this is how deep they could nest."""


@dataclass(frozen=True)
class Parent:
    """The agent whose call starts a child."""

    shared: Shared
    """With its inspection and meter."""
    call_id: str
    depth: int
    """How many agents are above the child."""
    model: ModelInUse
    tools: ToolsInUse
    """What the parent may call now."""
    approvals: Approvals
    environment: ToolEnvironment

    @classmethod
    def of(cls, host: Host, call_id: str, depth: int) -> "Parent":
        """Return what a child started by this call knows of its parent."""
        return cls(
            shared=host.lent(),
            call_id=call_id,
            depth=depth,
            model=host.model_in_use,
            tools=host.context.executor.calls.tools,
            approvals=host.approvals,
            environment=host.environment,
        )

    @property
    def session_id(self) -> str:
        return self.shared.emitter.session_id


@dataclass(frozen=True)
class Origin:
    """Where a child comes from, and what it is called there."""

    parent: Parent
    name: str
    """The `agent` of its events, unique in the session of its parent."""
    mode: Mode | None
    network: NetworkLevel | None = None
    apart: bool = False
    """It has a worktree of its own."""

    def shared(self, environment: ToolEnvironment, journal: Journal) -> Shared:
        """Make what the child works with, and tell both logs that the one session belongs to the
        other."""
        above = self.parent.shared
        emitter = Emitter(journal, agent=self.name, above=above.emitter)
        started = AgentStarted(
            text=f"the agent {self.name} begins",
            call_id=self.parent.call_id,
            child=self.name,
            child_session=journal.session_id,
            parent_session=self.parent.session_id,
        )
        above.emitter.emit(started)
        emitter.emit(started)
        permissions = NarrowedPermissions(
            environment, emitter, above.permissions, self.mode, self.network, apart=self.apart
        )
        own = replace(above, emitter=emitter, permissions=permissions, submitted=Hooks())
        if not self.apart:
            return own
        # What the user allows for the copy does not hold for the workspace.
        return replace(own, lock=WorkspaceLock(), inspection=None, granted=set(above.granted))


@dataclass(frozen=True)
class Membership:
    """What a child has because it belongs to a group."""

    inbox: "Inbox"
    """The child has the same name there."""
    role: str
    """What its system prompt says about the group."""
    tools: tuple[Tool[Any], ...] = ()
    """The tools that only this child has."""


@dataclass(frozen=True)
class OpenedChild:
    """A child in a new session of its own."""

    agent: AgentHandle
    close: Callable[[], Awaitable[None]]
    """Ends the agent, and the sandbox of a worktree."""
    worktree: "Worktree | None" = None
    """Removed by whoever opened the child, once it is closed."""


OpenChild = Callable[[AgentDefinition, Parent, Membership | None], Coroutine[Any, Any, OpenedChild]]
"""Raises CodeagentError, and then leaves nothing open."""


class Children(ConversationPart):
    """The agents that the calls of one agent start.

    Made before the tool that asks it; no child can be started until it is connected.
    """

    def __init__(self, depth: int = 0) -> None:
        """`depth`: how many agents are above the one whose children these are."""
        self.definitions: tuple[AgentDefinition, ...] = (GENERAL,)
        """Sorted by name, those from files first."""
        self.open_child: OpenChild
        """Set by whoever makes it."""
        self._depth = depth
        self._running: dict[str, AgentHandle] = {}
        self._tasks: set[asyncio.Task[ToolResult]] = set()

    def connect(self, host: Host) -> None:
        self._host = host
        self._turns = asyncio.Semaphore(host.environment.limits.max_concurrency)

    async def run(self, name: str, task: str, check: Check, context: ToolContext) -> ToolResult:
        """Start a child, wait for its answer, and end it; it may repair an answer that fails the
        check once.

        Any other end is an error result. Raises NotFound for an unknown name, and Failed if no
        child can be started.
        """
        known = {one.name: one for one in self.definitions}
        if name not in known:
            raise NotFound(f"Agent not found: {name}{nearest_or_all(name, known)}")
        if self._depth >= MOST_DEEP:
            raise Failed(
                f"Not started: agents nest at most {MOST_DEEP} deep. Do the task yourself."
            )
        async with self._turns:
            token = context.cancel.child()
            work = asyncio.create_task(self._work(known[name], task, check, token, context))
            self._tasks.add(work)
            work.add_done_callback(self._tasks.discard)
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                token.cancel(context.cancel.reason or "cancelled")
                await asyncio.wait({work})
                return work.result()

    def pass_on(self, act: Act) -> bool:
        return sum(child.do(act) is None for child in self._running.values()) > 0

    async def close(self) -> None:
        """Return once no child is left; their calls were cancelled before."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _work(
        self,
        definition: AgentDefinition,
        task: str,
        check: Check,
        token: CancelToken,
        context: ToolContext,
    ) -> ToolResult:
        parent = Parent.of(self._host, context.call_id, self._depth + 1)
        given: dict[str, Any] = dict(definition.limits)
        # Its own limits hold for both of its runs together.
        meter = RunMeter(replace(parent.environment.limits, **given), above=parent.shared.meter)
        parent = replace(parent, shared=replace(parent.shared, meter=meter))
        try:
            opened = await token.guard(self.open_child(definition, parent, None))
        except RunCancelled:
            raise
        except CodeagentError as error:
            raise Failed(f"the agent {definition.name} was not started: {error}") from error
        try:
            async with self._attached(opened, token) as child:
                from codeagent.extensions.agents.answers import answer_of  # once one is started

                result = await answer_of(child, definition.name, task, check, token)
            if opened.worktree is not None and not token.cancelled:
                result = await _merged(
                    opened.worktree, result, definition, parent=parent, token=token, context=context
                )
            return result
        finally:
            token.close()
            if opened.worktree is not None:
                await opened.worktree.remove()

    @asynccontextmanager
    async def member(
        self,
        definition: AgentDefinition,
        membership: Membership,
        meter: RunMeter,
        token: CancelToken,
    ) -> AsyncIterator[AgentHandle]:
        """Open a child for as long as its group needs it; the meter also counts what it uses.
        Raises CodeagentError."""
        parent = Parent.of(self._host, membership.inbox.name, self._depth + 1)
        parent = replace(parent, shared=replace(parent.shared, meter=meter))
        opened = await token.guard(self.open_child(definition, parent, membership))
        async with self._attached(opened, token) as child:
            yield child

    @asynccontextmanager
    async def _attached(
        self, opened: OpenedChild, token: CancelToken
    ) -> AsyncIterator[AgentHandle]:
        """Pass on to the child what is done to its parent; the token stops the child, and it is
        closed at the end."""
        child = opened.agent
        self._running[child.session_id] = child

        def stop(reason: str) -> None:
            child.do(Stop(reason))

        forget = token.on_cancel(stop)
        try:
            yield child
        finally:
            forget()
            del self._running[child.session_id]
            await opened.close()

    def lent(self) -> ToolsInUse:
        """What the parent may call now."""
        return self._host.context.executor.calls.tools


async def _merged(
    worktree: "Worktree",
    result: ToolResult,
    definition: AgentDefinition,
    parent: Parent,
    token: CancelToken,
    context: ToolContext,
) -> ToolResult:
    """Return the result, with what was accepted of the child's changes. Raises Cancelled."""
    from codeagent.extensions.agents.merging import (  # only if an agent has a worktree
        Merge,
        Receiver,
    )

    shared, environment = parent.shared, parent.environment
    assert shared.inspection is not None
    # The mode of the child counts, too: its changes may need a question even in a session that does
    # not ask.
    permissions = NarrowedPermissions(
        environment, shared.emitter, shared.permissions, definition.mode, apart=True
    )
    receiver = Receiver(
        emitter=shared.emitter,
        permissions=permissions,
        approvals=parent.approvals,
        workspace=environment.workspace,
        lock=shared.lock,
        inspection=shared.inspection,
        outputs=environment.outputs,
        hooks=environment.hooks,
    )
    merge = Merge(receiver, f"the agent {definition.name}", context, token)
    return await merge.carry_out(worktree, result)
