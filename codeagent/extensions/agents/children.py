"""The agents that calls start: each is a child with its own history, log, tools and limits, and
ends with its call."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from codeagent.agent.approvals import Approvals
from codeagent.agent.calls import with_notes
from codeagent.agent.checkpoints import WorkspaceLock
from codeagent.agent.emitter import Emitter, Journal
from codeagent.agent.environment import ToolEnvironment
from codeagent.agent.hooks.hook import Hooks
from codeagent.agent.inspection import Inspection
from codeagent.agent.limits import BudgetMeter, RunMeter
from codeagent.agent.permissions import NarrowedPermissions, Permissions
from codeagent.core.acts import Act, Stop
from codeagent.core.agents import GENERAL, AgentDefinition, Check, Worktree
from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError, RunCancelled
from codeagent.core.events import LimitReached, RunFinished
from codeagent.core.messages import ErrorInfo, ErrorKind, Usage
from codeagent.core.model import ModelInUse
from codeagent.core.notices import AgentStarted
from codeagent.core.policy import Mode, NetworkLevel
from codeagent.core.runtime import AgentHandle
from codeagent.core.tool import Failed, NotFound, Tool, ToolContext, ToolResult
from codeagent.core.toolbox import ToolsInUse
from codeagent.tools.schema import nearest_or_all

if TYPE_CHECKING:  # most conversations run no group
    from codeagent.extensions.agents.channels import Hub, Inbox

MOST_DEEP = 1
"""Children have no tool that starts agents; if one had, this is how deep they could nest."""
_DENIED = "a call of this agent was denied, so its answer may be incomplete"
_REPAIR = "Your answer is not in the format that was asked for: {fault}\nGive the whole answer again, in that format."


@dataclass(frozen=True)
class Shared:
    """What an agent shares with its children; some of it they get narrowed."""

    emitter: Emitter
    permissions: Permissions
    spending: BudgetMeter
    granted: set[str]
    """See `Approvals`."""
    lock: WorkspaceLock
    slots: asyncio.Semaphore
    """One slot for each call that may run at the same time."""
    submitted: Hooks
    """The hooks that judge what the user submits and are told when a run ends; a child has none."""
    inspection: Inspection | None = None
    """The parent's; None if the agent has its own."""
    meter: RunMeter | None = None
    """Of the run whose call started the agent; None for the user's own agent."""

    @classmethod
    def of_user(cls, environment: ToolEnvironment, journal: Journal) -> "Shared":
        """Make what the user's own agent shares."""
        emitter = Emitter(journal)
        slots = asyncio.Semaphore(environment.limits.max_concurrency)
        permissions, spending = Permissions(environment, emitter), BudgetMeter(emitter)
        if environment.servers is not None:
            environment.servers.tell_reads(permissions.hear)
        return cls(emitter, permissions, spending, set(), WorkspaceLock(), slots, environment.hooks)


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
    stepping: bool
    """Whether it pauses before every batch."""

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
class Seat:
    """The place of a child in a group."""

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
    worktree: Worktree | None = None
    """Removed by whoever opened the child, once it is closed."""


OpenChild = Callable[[AgentDefinition, Parent, Seat | None], Coroutine[Any, Any, OpenedChild]]
"""Raises CodeagentError, and then leaves nothing open."""


async def _no_child(definition: AgentDefinition, parent: Parent, seat: Seat | None) -> OpenedChild:
    raise Failed("no agents can be started here")


class Children:
    """The agents that the calls of one agent start (the Agents of `core.agents`).

    Made before the tool that asks it; no child can be started until it is connected.
    """

    def __init__(self, depth: int = 0) -> None:
        """`depth`: how many agents are above the one whose children these are."""
        self.definitions: tuple[AgentDefinition, ...] = (GENERAL,)
        self.open_child: OpenChild = _no_child
        self.hub: Hub | None = None
        """Carries the messages of a group; None if the conversation runs none."""
        self._depth = depth
        self._running: dict[str, AgentHandle] = {}
        self._tasks: set[asyncio.Task[ToolResult]] = set()

    def connect(self, parent: Callable[[str, int], Parent], at_once: int) -> None:
        """`parent` gets a call's id and the depth of its child; `at_once`: how many children may
        run side by side."""
        self._parent = parent
        self._turns = asyncio.Semaphore(at_once)

    async def run(self, name: str, task: str, check: Check, context: ToolContext) -> ToolResult:
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

    def do(self, act: Act) -> bool:
        """Do it in every child; False if all of them refuse, or none is running."""
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
        parent = self._parent(context.call_id, self._depth + 1)
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
                result = await _converse(child, definition.name, task, check, token)
            if opened.worktree is not None and not token.cancelled:
                result = await _merged(opened.worktree, result, definition, parent, token, context)
            return result
        finally:
            token.close()
            if opened.worktree is not None:
                await opened.worktree.remove()

    @asynccontextmanager
    async def member(
        self, definition: AgentDefinition, seat: Seat, meter: RunMeter, token: CancelToken
    ) -> AsyncIterator[AgentHandle]:
        """Open a child for as long as its group needs it; the meter also counts what it uses.
        Raises CodeagentError."""
        parent = self._parent(seat.inbox.name, self._depth + 1)
        parent = replace(parent, shared=replace(parent.shared, meter=meter))
        opened = await token.guard(self.open_child(definition, parent, seat))
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
        return self._parent("", self._depth).tools


async def _merged(
    worktree: Worktree,
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
        shared.emitter,
        permissions,
        parent.approvals,
        environment.workspace,
        shared.lock,
        shared.inspection,
        environment.outputs,
        environment.hooks,
    )
    return await Merge(receiver, f"the agent {definition.name}", context, token).carry_out(
        worktree, result
    )


@dataclass(frozen=True)
class Ended:
    """How one run of a child ended."""

    finished: RunFinished
    limit: LimitReached | None
    """The error that ended it."""


async def _converse(
    child: AgentHandle, name: str, task: str, check: Check, token: CancelToken
) -> ToolResult:
    ended = [await run_child(child, task, token)]
    fault = _fault(ended[-1], check)
    if fault:
        ended.append(await run_child(child, _REPAIR.format(fault=fault), token))
        fault = _fault(ended[-1], check)
    runs, last = [one.finished for one in ended], ended[-1]
    denied = any(run.reason == "denied" for run in runs)
    details: dict[str, Any] = {
        "agent": name,
        "turns": sum(run.turns for run in runs),
        "calls": sum(run.calls for run in runs),
        "usage": asdict(sum((run.usage for run in runs), Usage())),
    }
    if denied:
        details["denied"] = True
    text = last.finished.text.strip()
    kind, why = _why_not(last, fault)
    if kind is None:
        result = ToolResult.from_text(text, details=details, child_session=child.session_id)
        return with_notes(result, (_DENIED,) if denied else ())
    message = f"The agent {name} {why}"
    content = f"{message}\nThe last thing it said:\n{text}" if text else message
    error = ErrorInfo(kind=kind, message=message)
    return ToolResult.from_text(
        content, details=details, child_session=child.session_id, error=error
    )


async def run_child(child: AgentHandle, prompt: str | None, token: CancelToken) -> Ended:
    """One run of the child to its end. Raises RunCancelled if it was stopped before it began."""
    token.raise_if_cancelled()
    finished: RunFinished | None = None
    limit: LimitReached | None = None
    # Read to the end: a reader that stops early stops the run, or the next one.
    async for event in child.run(prompt):
        match event:
            case LimitReached():
                limit = event
            case RunFinished():
                finished = event
            case _:
                pass
    if finished is None:
        raise Failed("the run of the agent did not begin")
    return Ended(finished, limit)


def _fault(ended: Ended, check: Check) -> str:
    return check(ended.finished.text) if ended.finished.reason in ("done", "denied") else ""


def _why_not(ended: Ended, fault: str) -> tuple[ErrorKind | None, str]:
    """Return the kind of error, and a phrase to follow the agent's name; None if the child did its
    task."""
    match ended.finished.reason, ended.limit:
        case (("done" | "denied"), _) if fault:
            return (
                "failed",
                f"did not give the format that was asked for, even after it was told: {fault}",
            )
        case "denied", _ if not ended.finished.text.strip():
            return "denied", "ended, because what it needed for its task was denied"
        case "done", _ if not ended.finished.text.strip():
            return "failed", "ended without an answer"
        case (("done" | "denied"), _):
            return None, ""
        case "limit", LimitReached(limit="max_seconds", maximum=seconds):
            return "timeout", f"was not done within {seconds:g} s"
        case "limit", LimitReached(limit=limit, maximum=most):
            return "failed", f"reached its limit {limit} = {most:g} before it was done"
        case "interrupted", _:
            return "cancelled", "was stopped before it was done"
        case _:
            return "failed", f"failed: {ended.finished.error or 'it did not say why'}"
