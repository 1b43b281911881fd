"""The user turns toolsets off and on: from the next request on, in the log, and in the continued
session."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from codeagent.agent.agent import Agent
from codeagent.agent.prompt import PromptBuilder
from codeagent.core.acts import Refused, SetToolset
from codeagent.core.events import ToolCallAdded
from codeagent.core.notices import TOOLSET_USE, ToolsetChosen
from codeagent.core.policy import Policy
from codeagent.session.fold import fold
from codeagent.tools.choices import Choice
from codeagent.tools.toolsets import Toolsets
from tests.agent.doubles import MemoryJournal, Turn, TurnsModel, of, scene
from tests.tools.toolset_setting import Source, catalog_of


class Chosen:
    """An agent whose request offers the tools of the sets `hub` and `lab`, as far as they are
    on."""

    def __init__(self, *turns: Turn, on: tuple[str, ...] = ("hub",)) -> None:
        self.toolsets = Toolsets(
            [Source("hub", "one", "two"), Source("lab", "three")], map(Choice, on)
        )
        self.toolsets.sources.begin()
        bare = scene(*turns, policy=Policy(mode="auto")).agent
        self.builder = PromptBuilder(catalog_of(self.toolsets), lambda tools, small: "system")
        self.model, self.journal = TurnsModel(*turns), MemoryJournal()
        conversation = replace(
            bare._runs.conversation, model=self.model, prompt_builder=self.builder
        )
        environment = replace(bare._environment, tools=self.builder.catalog)
        self.agent = Agent(conversation, environment, self.journal)

    async def ask(self) -> list[str]:
        """Return the tools of sets in the request that a prompt makes."""
        async for _ in self.agent.run("go"):
            pass
        return [
            tool.name for tool in self.model.requests[-1].tools if tool.name not in ("read", "bash")
        ]


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., Chosen]]:
    every: list[Chosen] = []

    def make(*turns: Turn, on: tuple[str, ...] = ("hub",)) -> Chosen:
        every.append(Chosen(*turns, on=on))
        return every[-1]

    yield make
    for one in every:
        await one.agent.close()
        await one.toolsets.sources.close()


async def test_a_set_that_the_user_turns_off_is_gone_from_the_next_request(
    opened: Callable[..., Chosen],
) -> None:
    c = opened()
    assert await c.ask() == ["one", "two"]
    assert await c.agent.finish(SetToolset("hub", on=False)) is None
    (chosen,) = of(c.journal.events, ToolsetChosen)
    assert (chosen.toolset, chosen.tools, chosen.on) == ("hub", (), False)
    assert chosen.text == "turned off from the next request on: hub"
    assert await c.ask() == []


async def test_some_tools_of_a_set_are_turned_off_and_on_again(
    opened: Callable[..., Chosen],
) -> None:
    c = opened()
    await c.ask()
    assert await c.agent.finish(SetToolset("hub", False, ("one",))) is None
    assert await c.ask() == ["two"]
    assert await c.agent.finish(SetToolset("hub", True, ("one",))) is None
    assert sorted(await c.ask()) == ["one", "two"]


async def test_during_a_run_it_holds_from_the_next_boundary(opened: Callable[..., Chosen]) -> None:
    c = opened(Turn("", (("read", "{}"),)), Turn("done"))
    async for event in c.agent.run("go"):
        if isinstance(event, ToolCallAdded):
            c.agent.do(SetToolset("hub", on=False))
    offered = [
        [tool.name for tool in request.tools if tool.name in ("one", "two")]
        for request in c.model.requests
    ]
    assert offered == [["one", "two"], []]


async def test_what_is_not_there_or_not_on_is_refused_and_nothing_is_logged(
    opened: Callable[..., Chosen],
) -> None:
    c = opened()
    await c.ask()
    assert await c.agent.finish(SetToolset("hbu", on=False)) == Refused(
        "unknown toolset 'hbu'; did you mean hub?"
    )
    assert await c.agent.finish(SetToolset("lab", on=False)) == Refused(
        "nothing of lab is on; nothing was changed"
    )
    refused = await c.agent.finish(SetToolset("hub", True, ("four",)))
    assert refused is not None and refused.reason.startswith("hub has no tool 'four'")
    assert of(c.journal.events, ToolsetChosen) == []
    assert await c.ask() == ["one", "two"]


async def test_the_continued_session_has_off_what_was_turned_off_and_on_what_was_turned_on(
    opened: Callable[..., Chosen],
) -> None:
    c = opened()
    await c.ask()
    for act in (
        SetToolset("hub", on=False),
        SetToolset("lab", on=True),
        SetToolset("hub", True, ("two",)),
    ):
        assert await c.agent.finish(act) is None
    later = opened()
    for item in fold(c.journal.events).details:
        if item.name == TOOLSET_USE:
            later.toolsets.restore(item.details)
    assert sorted(await later.ask()) == ["three", "two"]
