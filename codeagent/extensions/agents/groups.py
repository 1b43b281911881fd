"""Runs a group: its agents are children that messages wake, until all are idle or a limit is
reached."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any, assert_never

from codeagent.agent.calls import StopReport
from codeagent.agent.conversation import Conversation, RunContext
from codeagent.agent.limits import Limits, RunMeter
from codeagent.agent.parts import Host
from codeagent.changes.diff import count
from codeagent.core.acts import RunGroup
from codeagent.core.agents import AgentDefinition
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import CodeagentError, ConfigError, RunCancelled
from codeagent.core.events import MessageAdded, RunReason
from codeagent.core.groups import Group, GroupMember
from codeagent.core.json_types import MAIN
from codeagent.core.messages import AssistantMessage
from codeagent.core.patterns import AllowList
from codeagent.core.recipes import NAME
from codeagent.core.runtime import AgentHandle
from codeagent.core.tool import Failed, InvalidArgs, Tool
from codeagent.extensions.agents.answers import Ended, run_child
from codeagent.extensions.agents.channels import Hub, Inbox
from codeagent.extensions.agents.children import Children, Membership
from codeagent.extensions.agents.messages import AddAgent, AddAgentArgs, ConnectAgent, CreateChannel
from codeagent.extensions.agents.part import AgentsPart
from codeagent.tools.faults import nearest_or_all

_LONGEST_ANSWER = 4000
"""Characters of an agent's last answer that the group's answer shows."""
_WORST: tuple[RunReason, ...] = ("failed", "limit", "denied")
"""How a group ended: the first of these that any of its agents ended with."""


def _with_bases(group: Group, known: Sequence[AgentDefinition]) -> Group:
    """Complete the members from the agent files. Raises ConfigError for an unknown agent."""
    files = {one.name: one for one in known}
    members = []
    for member in group.members:
        if member.base is not None:
            if member.base not in files:
                hint = nearest_or_all(member.base, files)
                raise ConfigError(
                    f"{member.definition.where}: unknown agent {member.base}{hint}; nothing was run"
                )
            if files[member.base].worktree:
                said = f"the agent {member.base} has a worktree of its own, which no agent of a group can have"
                raise ConfigError(f"{member.definition.where}: {said}; nothing was run")
            member = replace(member, definition=_on_top(member.definition, files[member.base]))
        # The common budget holds for each member, too: a model without a price is refused before
        # anything runs.
        shared = {name: most for name, most in group.limits.items() if name == "max_cost_usd"}
        limits = {**shared, **member.definition.limits}
        members.append(replace(member, definition=replace(member.definition, limits=limits)))
    return replace(group, members=tuple(members))


def _on_top(own: AgentDefinition, base: AgentDefinition) -> AgentDefinition:
    return replace(
        own,
        prompt="\n\n".join(filter(None, (base.prompt, own.prompt))),
        tools=base.tools if own.tools is None else own.tools,
        model=own.model or base.model,
        thinking=own.thinking or base.thinking,
        mode=own.mode or base.mode,
        limits={**base.limits, **own.limits},
    )


def run_group(host: Host, act: RunGroup) -> asyncio.Task[None]:
    """Begin the run in which the group works on its task; of each limit, the lower one counts.

    Raises ConfigError for an agent that is unknown, and CodeagentError if the conversation was
    opened for no group, or no run can begin.
    """
    agents, inbox = host.part(AgentsPart), host.part(Inbox)
    if agents is None or inbox is None or inbox.joins:
        raise CodeagentError("this conversation was not opened for a group")
    children, conversation = agents.children, host.runs.conversation
    group = _with_bases(act.group, children.definitions)
    given, limits = dict[str, Any](group.limits), conversation.limits
    lower = {name: most for name, most in given.items() if (getattr(limits, name) or most) >= most}
    begin_work = partial(GroupWork, group, act.task, children, inbox.hub)
    within = replace(conversation, limits=replace(limits, **lower), begin_work=begin_work)
    return host.runs.start(act.task, within)


class _Member:
    """One agent, and what it has done so far."""

    def __init__(self, member: GroupMember, hub: Hub, above: RunMeter) -> None:
        self.definition = member.definition
        self.name = member.definition.name
        self.inbox = Inbox(hub, self.name, member.channels, most_wakes=None)
        limits = member.definition.limits
        tokens = limits.get("max_tokens")
        own = Limits(
            max_cost_usd=limits.get("max_cost_usd"),
            max_tokens=None if tokens is None else int(tokens),
        )
        self.meter = RunMeter(own, above=above)
        """Counts all of its runs."""
        self.runs: list[Ended] = []
        self.gone = False
        """Whether it no longer takes messages."""
        self.why = ""
        """Why it ended, if none of its runs says so."""

    @property
    def reason(self) -> RunReason:
        return "failed" if self.why else self.runs[-1].finished.reason if self.runs else "done"

    def told(self) -> str:
        """Return its end state, and what it said last."""
        turns = sum(run.finished.turns for run in self.runs)
        calls = sum(run.finished.calls for run in self.runs)
        counts = [count(len(self.runs), "run"), count(turns, "turn"), count(calls, "call")]
        if self.inbox.waiting:
            counts.append(f"{count(self.inbox.waiting, 'message')} not read")
        state = f"{self.name}: {self._state()} ({', '.join(counts)})"
        said = self.runs[-1].finished.text.strip() if self.runs else ""
        cut = f"{said[:_LONGEST_ANSWER]}\n[… {len(said) - _LONGEST_ANSWER} characters left out …]"
        return f"{state}\n{said if len(said) <= _LONGEST_ANSWER else cut}".strip()

    def _state(self) -> str:
        match self.reason:
            case _ if self.why:
                return f"failed: {self.why}"
            case "done":
                return "idle" if self.runs else "idle, nobody wrote to it"
            case "denied":
                return "idle, and what it needed was denied"
            case "limit":
                limit = self.runs[-1].limit
                return (
                    "stopped at a limit"
                    if limit is None
                    else f"stopped at {limit.limit} = {limit.maximum:g}"
                )
            case "interrupted":
                return "stopped"
            case "failed":
                return f"failed: {self.runs[-1].finished.error or 'it did not say why'}"
            case reason:
                assert_never(reason)


class GroupWork:
    """What the run of a group works with (a `loop.Work`)."""

    def __init__(
        self,
        group: Group,
        task: str,
        children: Children,
        hub: Hub,
        conversation: Conversation,
        context: RunContext,
    ) -> None:
        """`children` opens the agents, and `hub` carries their messages."""
        self._group = group
        self._task = task
        self._children = children
        self._hub = hub
        self._conversation = conversation
        self._context = context
        self._stack = AsyncExitStack()
        self._members: dict[str, _Member] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: set[str] = set()
        self._over = False
        self.meter = RunMeter(conversation.limits, above=context.above)
        self.stop_report = StopReport(lambda: context.jobs.running)
        self.text = ""

    async def run(self, token: CancelToken) -> RunReason:
        """Return once every agent is idle or ended. Raises RunCancelled, and CodeagentError if one
        failed."""
        context = self._context
        self._token = token
        if (builder := self._conversation.prompt_builder) is not None:
            await builder.first_ready(token)
            await builder.at_boundary(context.emitter)
        targets = f"the group {self._group.name}"
        await token.guard(context.checkpoints.before_batch(1, targets))
        try:
            async with self._stack:
                children = [await self._open(member, self.meter) for member in self._group.members]
                self._busy.update(self._group.start)
                for member, child in zip(tuple(self._members.values()), children, strict=True):
                    self._begin(
                        member, child, self._task if member.name in self._group.start else None
                    )
                await self._ended()
        finally:
            context.checkpoints.after_batch(1, targets)
            self._tell()
        token.raise_if_cancelled()
        return self._reason()

    async def add(self, adder: str, args: AddAgentArgs) -> None:
        """Add an agent with what its `adder` has. Raises Failed, InvalidArgs."""
        name = args.name
        if len(self._members) >= self._group.most_agents:
            raise Failed(
                f"the group has {len(self._members)} agents, which is its limit; no agent was added"
            )
        if (
            NAME.fullmatch(name) is None
            or name == MAIN
            or name in (*self._members, *self._hub.channels)
        ):
            raise InvalidArgs(f"{name[:64]!r} is taken or not a valid name; no agent was added")
        for channel in args.channels:
            if channel not in self._hub.channels:
                hint = nearest_or_all(channel, self._hub.channels)
                raise InvalidArgs(f"unknown channel {channel[:64]!r}{hint}; no agent was added")
        above = self._members[adder].definition
        definition = replace(
            above, name=name, prompt=args.prompt, tools=self._narrowed(above, args.tools)
        )
        try:
            entry = GroupMember(definition, channels=args.channels)
            child = await self._open(entry, self._members[adder].meter)
        except BaseException as error:  # a cancelled call must not leave half an agent
            del self._members[name]
            if isinstance(error, CodeagentError) and not isinstance(error, RunCancelled):
                raise Failed(f"{error}; no agent was added") from error
            raise
        self._busy.add(name)
        self._begin(self._members[name], child, args.task)

    def _narrowed(
        self, adder: AgentDefinition, tools: Sequence[str] | None
    ) -> tuple[str, ...] | None:
        """Return the tools of an added agent. Raises InvalidArgs for a tool that its adder does not
        have."""
        if tools is None:
            return adder.tools
        allowed = AllowList().narrowed(adder.tools)
        there = {tool.name for tool in self._children.lent()}
        for name in tools:
            # A pattern may be wider than one that it matches: `rea*` matches `rea?`.
            exact = there if adder.tools is None else adder.tools if set(name) & set("*?") else None
            if not (allowed.allows(name) if exact is None else name in exact):
                raise InvalidArgs(
                    f"you do not have the tool {name[:64]!r}, so you cannot give it; no agent was added"
                )
        return tuple(tools)

    async def _open(self, entry: GroupMember, above: RunMeter) -> AgentHandle:
        """`above`: what the agent uses counts there, too. Raises CodeagentError."""
        member = self._members[entry.definition.name] = _Member(entry, self._hub, above)
        rights: list[Tool[Any]] = (
            [AddAgent(partial(self.add, member.name))] if entry.may_add else []
        )
        if entry.may_connect:
            rights.append(CreateChannel(self._hub, member.name))
            rights.append(ConnectAgent(self._hub, member.name, "auto"))
        membership = Membership(member.inbox, self._role(member.name), tuple(rights))
        try:
            opening = self._children.member(
                member.definition, membership, member.meter, self._token
            )
            return await self._stack.enter_async_context(opening)
        except RunCancelled:
            raise
        except CodeagentError as error:
            raise CodeagentError(f"the agent {member.name} was not started: {error}") from error

    def _role(self, name: str) -> str:
        """Write what the system prompt of a member says about the group."""
        others = ", ".join(
            one.definition.name for one in self._group.members if one.definition.name != name
        )
        channels = ", ".join(f"{channel} ({kind})" for channel, kind in self._hub.channels.items())
        return (
            f"# You are the agent {name} of the group {self._group.name}\nThe others do not see what you write: only "
            "send_message reaches them, and what they send you comes as a note in parentheses. Other agents: "
            f"{others or 'none'}. Channels: {channels or 'none'}. When you have nothing left to do, end your turn; a "
            "message wakes you again. The group ends when nobody has anything left to do, and the user then reads what "
            "you said last."
        )

    def _begin(self, member: _Member, child: AgentHandle, prompt: str | None) -> None:
        self._tasks.add(asyncio.create_task(self._live(member, child, prompt)))

    async def _live(self, member: _Member, child: AgentHandle, prompt: str | None) -> None:
        """Run the agent whenever it has something to do, until the group is over or one of its runs
        fails."""
        try:
            while not self._over and not self._token.cancelled:
                member.inbox.arrived.clear()
                if prompt is None and not member.inbox.wakes:
                    self._rest(member)
                    await self._token.guard(member.inbox.arrived.wait())
                    self._busy.add(member.name)
                    continue
                self._busy.add(member.name)
                ended = await run_child(child, prompt, self._token)
                prompt = None
                member.runs.append(ended)
                if ended.finished.reason not in ("done", "denied"):
                    return
        except RunCancelled:
            pass
        except Exception as error:
            member.why = (
                str(error)
                if isinstance(error, CodeagentError)
                else f"{type(error).__name__}: {error}"
            )
        finally:
            member.gone = True
            member.inbox.leave()
            self._rest(member)

    def _rest(self, member: _Member) -> None:
        """Take note that the agent has nothing to do; if no agent has, the group is over."""
        self._busy.discard(member.name)
        if not self._busy and not any(
            other.inbox.wakes for other in self._members.values() if not other.gone
        ):
            self._over = True
            for other in self._members.values():
                other.inbox.arrived.set()

    async def _ended(self) -> None:
        while waiting := {task for task in self._tasks if not task.done()}:
            await asyncio.wait(waiting)

    def _reason(self) -> RunReason:
        """Raises CodeagentError if an agent failed."""
        reasons = {member.name: member.reason for member in self._members.values()}
        worst: RunReason = next((reason for reason in _WORST if reason in reasons.values()), "done")
        if worst == "failed":
            names = ", ".join(name for name, reason in reasons.items() if reason == "failed")
            raise CodeagentError(f"not every agent of the group reached its end: {names} failed")
        return worst

    def _tell(self) -> None:
        """Add up what the agents did, and report the end state of each."""
        runs = [run.finished for member in self._members.values() for run in member.runs]
        self.meter.turns = sum(run.turns for run in runs)
        self.meter.calls = sum(run.calls for run in runs)
        if not runs:
            return
        self.text = "\n\n".join(member.told() for member in self._members.values())
        answer = AssistantMessage(text=self.text)
        self._context.line.items.append(answer)
        self._context.emitter.emit(MessageAdded(message=answer))
