"""The parts of a conversation with which it starts agents, runs a group and carries messages."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from codeagent.agent.parts import Began, Part
from codeagent.core.agents import GENERAL, AgentDefinition
from codeagent.core.allow import AllowList
from codeagent.core.errors import CodeagentError
from codeagent.core.groups import RunGroup
from codeagent.core.tool import Tool, ToolError
from codeagent.extensions.agents import EXTENSION
from codeagent.extensions.agents.children import Children, Membership, OpenedChild, Parent
from codeagent.session.fold import created_channels, watched_channels
from codeagent.tools.catalog import ToolCatalog
from codeagent.tools.room import RoomContext

if TYPE_CHECKING:  # most conversations neither start agents nor write to others
    from codeagent.app.parts import Assembly, Opening
    from codeagent.extensions.agents.channels import Inbox

AGENTS = "agents"
"""The set with the tool that starts agents."""
MESSAGES = "messages"
"""The set with the tools that write to other agents."""


class AgentsPart(Children):
    """Starts agents, and runs a group if the conversation was opened for one."""

    acts = (RunGroup,)

    def __init__(self, inbox: "Inbox | None" = None) -> None:
        """`inbox` is that of the conversation's agent; its hub carries the messages of a group."""
        super().__init__()
        self._inbox = inbox
        self._known: tuple[AgentDefinition, ...] = ()
        self._tools: tuple[Tool[Any], ...] = ()

    def assembled(self, assembly: "Assembly") -> None:
        async def open_child(
            definition: AgentDefinition, parent: Parent, membership: Membership | None
        ) -> OpenedChild:
            from codeagent.extensions.agents.opener import ChildOpener  # once one is started

            return await ChildOpener(assembly, self._inbox).open(definition, parent, membership)

        self.open_child = open_child

    def tools(self, catalog: ToolCatalog) -> tuple[Tool[Any], ...]:
        """Return the tool that starts agents if files describe some, unless the set that has it is
        there."""
        if catalog.agents is not self._known:
            self._known = catalog.agents
            names = {agent.name for agent in self._known}
            general = () if GENERAL.name in names else (GENERAL,)
            self.definitions = (*self._known, *general)
            self._tools = (agent_tool(self, lambda: catalog),) if self._known else ()
        return () if AGENTS in catalog.toolsets.all() else self._tools

    def do(self, act: object) -> Began:
        """Run a group: a single run of all its agents."""
        assert isinstance(act, RunGroup)
        if self._inbox is None:
            raise CodeagentError("this conversation was not opened for a group")
        from codeagent.extensions.agents.groups import for_group  # most conversations run none

        runs = self._host.runs
        within = for_group(act, self, self._inbox.hub, runs.conversation)
        return runs.start(act.task, within)


def agent_parts(opening: "Opening") -> tuple[Part, ...]:
    """Make the parts of a conversation that is being opened."""
    inbox = _inbox(opening)
    agents = AgentsPart(inbox)
    return (agents,) if inbox is None else (agents, inbox)


def _inbox(opening: "Opening") -> "Inbox | None":
    """Make the inbox of the conversation's agent, which has no part in a group; None if no agent
    can write to another.

    Its hub carries the messages of the group.
    """
    group = opening.group
    if not any(opening.names(one) for one in EXTENSION.sets if one.name == MESSAGES):
        return None
    from codeagent.extensions.agents.channels import Hub, Inbox  # few agents write to others

    hub = Hub() if group is None else Hub(group.channels, most=group.most_messages)
    for name, kind in created_channels(opening.history):
        with suppress(ToolError):  # the log is damaged, or the group has that name
            hub.create(name, kind)
    return Inbox(hub, watched=watched_channels(opening.history), joins=group is None)


def agent_tool(children: Children, tools: Callable[[], Iterable[Tool[Any]]]) -> Tool[Any]:
    """Make the tool that starts agents; `tools` gives those of its parent at that moment."""
    from codeagent.extensions.agents.agent import AgentTool  # only if there are agents

    def only_reads(agent: AgentDefinition) -> bool:
        allowed = AllowList().narrowed(agent.tools)
        known = {tool.name: tool.effect for tool in tools()}
        reads = all(effect == "nothing" for name, effect in known.items() if allowed.allows(name))
        return agent.mode == "plan" or (reads and not allowed.unknown(known))

    return AgentTool(children, only_reads)


def agent_set(context: RoomContext) -> tuple[Tool[Any], ...]:
    """Make the set `agents` of a conversation."""
    return (agent_tool(context.part(AgentsPart) or AgentsPart(), context.built_in),)


def message_set(context: RoomContext) -> tuple[Tool[Any], ...]:
    """Make the set `messages` of a conversation."""
    from codeagent.extensions.agents.channels import Hub, Inbox  # only once the set is asked for
    from codeagent.extensions.agents.messages import MESSAGE_TOOLS  # as above

    inbox = context.part(Inbox) or Inbox(Hub())
    return tuple(make(inbox.hub, inbox.name) for make in MESSAGE_TOOLS)
