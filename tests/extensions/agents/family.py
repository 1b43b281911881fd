"""A parent and its children: agents of fixed turns in one process, each with its own model, tools
and journal."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from codeagent.agent.agent import Agent
from codeagent.agent.batches import Strategy
from codeagent.agent.conversation import Conversation
from codeagent.agent.environment import Preferences, ToolEnvironment
from codeagent.agent.hooks.hook import Hooks
from codeagent.agent.limits import ContextLimits, Limits
from codeagent.core.agents import AgentDefinition
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.events import KnownEvent, ToolResultAdded
from codeagent.core.policy import Policy
from codeagent.core.sandbox import Sandbox
from codeagent.core.tool import Tool
from codeagent.extensions.agents.agent import AgentTool
from codeagent.extensions.agents.children import Children, Membership, OpenedChild, Origin, Parent
from codeagent.tools.catalog import ToolCatalog
from tests.agent.doubles import (
    Alone,
    Asking,
    Doing,
    Keyed,
    MemoryJournal,
    MemoryOutputs,
    Place,
    Scene,
    Turn,
    TurnsModel,
    of,
    scene,
)

HELPER = AgentDefinition("helper", "helps", parallel=True)


class ChildJournal(MemoryJournal):
    def __init__(self, session_id: str) -> None:
        super().__init__()
        self.session_id = session_id
        self.closed = False

    def close(self) -> None:
        self.closed = True


class EmptyWorktree:
    """A Worktree in which nothing is changed."""

    left_out = ()

    def __init__(self) -> None:
        self.removed = False

    async def changed(self) -> tuple[str, ...]:
        await asyncio.sleep(0)
        return ()

    async def file(self, path: str) -> Change[Node]:
        raise AssertionError("nothing was changed")

    async def remove(self) -> None:
        await asyncio.sleep(0)
        self.removed = True


@dataclass
class Born:
    """A child that was opened."""

    agent: Agent
    model: TurnsModel
    journal: ChildJournal
    tools: dict[str, Doing]
    worktree: EmptyWorktree | None


@dataclass
class Family:
    """The parent's scene, and its children in the order they were opened."""

    parent: Scene
    nursery: "Nursery"
    children: Children

    @property
    def born(self) -> list[Born]:
        return self.nursery.born

    async def run(self) -> list[KnownEvent]:
        return await self.parent.run()

    def results(self) -> list[ToolResultAdded]:
        """Of the parent's own calls."""
        return [event for event in of(self.parent.events, ToolResultAdded) if event.agent == "main"]


@dataclass
class Nursery:
    """Opens children; each plays the turns of its definition's name."""

    turns: dict[str, Sequence[Turn]]
    hooks: Hooks = field(default_factory=Hooks)
    attended: bool = False
    context: ContextLimits = field(default_factory=ContextLimits)
    sandbox: Sandbox | None = None
    more: tuple[Tool[Any], ...] = ()
    """Tools that every child has besides the doubles."""
    born: list[Born] = field(default_factory=list)
    most_at_once: int = 0

    async def __call__(
        self, definition: AgentDefinition, parent: Parent, membership: Membership | None
    ) -> OpenedChild:
        number = len(self.born) + 1
        journal = ChildJournal(f"{parent.session_id}.{number}")
        place: Any = Place()
        doing: dict[str, Doing] = {
            tool.name: tool for tool in (Doing(), Asking(), Alone(), Keyed())
        }
        own = [tool for tool in doing.values() if tool.name in (definition.tools or doing)]
        registry, kind = ToolCatalog([*own, *self.more]), self.sandbox and "docker"
        limits = replace(Limits(), **definition.limits)
        model = TurnsModel(*self.turns[definition.name])
        environment = ToolEnvironment(
            registry,
            place,
            self.sandbox,
            kind,
            MemoryOutputs(),
            Policy(),
            limits,
            self.hooks,
            attended=self.attended,
            preferences=Preferences(self.context),
        )
        conversation = Conversation(model, "system", registry.definitions(), Strategy(), limits)
        origin = Origin(
            parent,
            f"{definition.name}.{number}",
            definition.mode,
            definition.network,
            apart=definition.worktree,
        )
        shared = origin.shared(environment, journal)
        agent = Agent(conversation, environment, journal, shared=shared)
        worktree = EmptyWorktree() if definition.worktree else None
        self.born.append(Born(agent, model, journal, doing, worktree))
        alive = sum(not one.journal.closed for one in self.born)
        self.most_at_once = max(self.most_at_once, alive)
        await asyncio.sleep(0)
        return OpenedChild(agent, agent.close, worktree)


def family(
    *turns: Turn,
    agents: Sequence[AgentDefinition] = (HELPER,),
    depth: int = 0,
    hooks: Hooks | None = None,
    attended: bool = False,
    policy: Policy | None = None,
    limits: Limits | None = None,
    **children: Sequence[Turn],
) -> Family:
    """`turns` are the parent's, `children` those of the agents by name."""
    nursery = Nursery(children, hooks=hooks or Hooks(), attended=attended)
    offspring = Children(depth)
    offspring.definitions, offspring.open_child = tuple(agents), nursery
    parent = scene(
        *turns,
        more=(AgentTool(offspring),),
        parts=(offspring,),
        hooks=hooks,
        attended=attended,
        policy=policy,
        limits=limits,
    )
    return Family(parent, nursery, offspring)


def ask(name: str = "helper", task: str = "do it", **more: Any) -> tuple[str, str]:
    """A call of the `agent` tool."""
    return "agent", json.dumps({"name": name, "task": task, **more})
