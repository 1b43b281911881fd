"""The parts of a conversation with which it starts agents, and carries messages between them."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from codeagent.agent.parts import Assembled, ConversationPart, Host, Opening
from codeagent.core.acts import Act
from codeagent.core.patterns import AllowList
from codeagent.core.tool import Failed, Tool, ToolError
from codeagent.extensions.agents import EXTENSION
from codeagent.session.transcript import created_channels, watched_channels
from codeagent.tools.catalog import ToolCatalog
from codeagent.tools.extension import ExtensionContext

if TYPE_CHECKING:  # most conversations neither start agents nor write to others
    from codeagent.core.agents import AgentDefinition
    from codeagent.extensions.agents.channels import Inbox
    from codeagent.extensions.agents.children import Children, Membership, OpenedChild, Parent

AGENTS = "agents"
"""The set with the tool that starts agents."""
MESSAGES = "messages"
"""The set with the tools that write to other agents."""


class AgentsPart(ConversationPart):
    """Starts agents once files describe some, or the set with the tool for it is asked for."""

    def __init__(self, inbox: "Inbox | None" = None) -> None:
        """`inbox` is that of the conversation's agent; None if no agent can write to another."""
        self._inbox = inbox
        self._host: Host | None = None
        self._assembly: Callable[[], Assembled] | None = None
        self._children: Children | None = None
        self._known: tuple[AgentDefinition, ...] = ()
        self._tools: tuple[Tool[Any], ...] = ()

    @property
    def children(self) -> "Children":
        """The agents that are started; it is imported and made on first use."""
        if self._children is None:
            from codeagent.extensions.agents.children import Children

            self._children = Children()
            self._children.open_child = self._open_child
            if self._host is not None:
                self._children.connect(self._host)
        return self._children

    async def _open_child(
        self, definition: "AgentDefinition", parent: "Parent", membership: "Membership | None"
    ) -> "OpenedChild":
        from codeagent.extensions.agents.opener import ChildOpener  # once one is started

        if self._assembly is None:
            raise Failed("no agents can be started here")
        opener = ChildOpener(self._assembly(), self._inbox)
        return await opener.open(definition, parent, membership)

    def assembled(self, catalog: ToolCatalog, assembly: Callable[[], Assembled]) -> None:
        self._assembly = assembly

    def tools(self, catalog: ToolCatalog) -> tuple[Tool[Any], ...]:
        """Return the tool that starts agents if files describe some, unless the set that has it is
        there."""
        if catalog.agents is not self._known:
            from codeagent.core.agents import GENERAL  # as for the types

            self._known = catalog.agents
            names = {agent.name for agent in self._known}
            general = () if GENERAL.name in names else (GENERAL,)
            self.children.definitions = (*self._known, *general)
            tool = agent_tool(self.children, lambda: catalog)
            self._tools = (tool,) if self._known else ()
        return () if AGENTS in catalog.toolsets.available.all() else self._tools

    def connect(self, host: Host) -> None:
        self._host = host
        if self._children is not None:
            self._children.connect(host)

    def pass_on(self, act: Act) -> bool:
        return self._children is not None and self._children.pass_on(act)

    async def close(self) -> None:
        if self._children is not None:
            await self._children.close()


def agent_parts(opening: Opening) -> tuple[ConversationPart, ...]:
    """Make the parts of a conversation that is being opened."""
    inbox = _inbox(opening)
    agents = AgentsPart(inbox)
    return (agents,) if inbox is None else (agents, inbox)


def _inbox(opening: Opening) -> "Inbox | None":
    """Make the inbox of the conversation's agent, which has no part in a group; None if no agent
    can write to another.

    Its hub carries the messages of the group.
    """
    group = opening.group
    if not any(opening.named(one) for one in EXTENSION.sets if one.name == MESSAGES):
        return None
    from codeagent.extensions.agents.channels import Hub, Inbox  # few agents write to others

    hub = Hub() if group is None else Hub(group.channels, most=group.most_messages)
    for name, kind in created_channels(opening.history.details):
        with suppress(ToolError):  # the log is damaged, or the group has that name
            hub.create(name, kind)
    return Inbox(hub, watched=watched_channels(opening.history.details), joins=group is None)


def agent_tool(children: "Children", tools: Callable[[], Iterable[Tool[Any]]]) -> Tool[Any]:
    """Make the tool that starts agents; `tools` gives those of its parent at that moment."""
    from codeagent.extensions.agents.agent import AgentTool  # only if there are agents

    def only_reads(agent: "AgentDefinition") -> bool:
        allowed = AllowList().narrowed(agent.tools)
        known = {tool.name: tool.effect for tool in tools()}
        reads = all(effect == "nothing" for name, effect in known.items() if allowed.allows(name))
        return agent.mode == "plan" or (reads and not allowed.unknown(known))

    return AgentTool(children, only_reads)


def agent_set(context: ExtensionContext) -> tuple[Tool[Any], ...]:
    """Make the set `agents` of a conversation."""
    return (agent_tool((context.part(AgentsPart) or AgentsPart()).children, context.built_in),)


def message_set(context: ExtensionContext) -> tuple[Tool[Any], ...]:
    """Make the set `messages` of a conversation."""
    from codeagent.extensions.agents.channels import Hub, Inbox  # only once the set is asked for
    from codeagent.extensions.agents.messages import MESSAGE_TOOLS  # as above

    inbox = context.part(Inbox) or Inbox(Hub())
    return tuple(make(inbox.hub, inbox.name) for make in MESSAGE_TOOLS)
