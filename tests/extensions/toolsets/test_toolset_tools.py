"""toolset_list shows what can be turned on, in pages; toolset_use says what can be called from now
on."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from codeagent.core.messages import text_of
from codeagent.core.tool import InvalidArgs
from codeagent.extensions.toolsets import toolset_list
from codeagent.extensions.toolsets.toolset_list import ToolsetList
from codeagent.extensions.toolsets.toolset_use import ToolsetUse
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.grouping import ToolGroup
from codeagent.tools.toolsets import Toolsets
from tests.fakes import FakeSandbox, tool_context
from tests.tools.toolset_setting import Source, catalog_of


@pytest.fixture
async def toolsets(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Toolsets]:
    big = Source("big", *(f"tool_{n:02}" for n in range(95)))
    monkeypatch.setattr(toolset_list, "_SECONDS", 0.01)
    made = Toolsets(
        [Source("hub", "one", "bash"), big, Source("down", fails=9), Source("slow", held=True)]
    )
    made.sources.begin()
    for name in ("hub", "big", "down"):
        await made.available.ready(name)
    yield made
    await made.sources.close()


async def answer(tool: Any, tmp_path: Any, **arguments: Any) -> Any:
    return await tool.run(
        parse_arguments(tool, json.dumps(arguments)), tool_context(tmp_path, FakeSandbox())
    )


async def test_the_sets_are_listed_with_state_size_and_purpose(
    toolsets: Toolsets, tmp_path: Any
) -> None:
    catalog = catalog_of(toolsets)
    await toolsets.use("hub", ["one"])
    await catalog.refresh()
    result = await answer(ToolsetList(toolsets), tmp_path)
    assert text_of(result.content).splitlines() == [
        "hub (1 of 2 tools in use): about hub",
        "big (off, 95 tools): about big",
        "down (failed, tried again later: it is down, 0 tools): about down",
        "slow (starting, 0 tools): about slow",
    ]
    assert ToolsetList(toolsets).description == (
        "List sets of further tools (hub, big, down, slow); with name, the tools of one."
    )


async def test_the_tools_of_a_set_come_in_pages_and_can_be_searched(
    toolsets: Toolsets, tmp_path: Any
) -> None:
    listing = ToolsetList(toolsets)
    first = text_of((await answer(listing, tmp_path, name="big")).content).splitlines()
    assert first[0] == "big (off, 95 tools): about big" and first[1] == "- tool_00: Does tool_00."
    assert (
        first[-1] == "[page 1 of 3, 95 tools; page=2 shows more, search narrows it]"
        and len(first) == 42
    )
    last = text_of((await answer(listing, tmp_path, name="big", page=3)).content).splitlines()
    assert last[-2:] == ["- tool_94: Does tool_94.", "[page 3 of 3, 95 tools]"]
    found = text_of((await answer(listing, tmp_path, name="big", search="TOOL_7 does")).content)
    assert found.count("- tool_7") == 10
    everywhere = text_of((await answer(listing, tmp_path, search="one")).content)
    assert everywhere == "hub: - one: Does one."
    assert (
        text_of((await answer(listing, tmp_path, search="nothing like it")).content) == "[no tools]"
    )


async def test_turning_on_says_what_can_be_called_and_what_has_a_name_that_is_taken(
    toolsets: Toolsets, tmp_path: Any
) -> None:
    catalog_of(toolsets)
    result = await answer(ToolsetUse(toolsets), tmp_path, name="hub")
    assert text_of(result.content).splitlines() == [
        "hub is on. From your next answer on you can call:",
        "- one: Does one.",
        "Not in use, because another tool has the name: bash",
    ]
    assert result.details == {"toolset": "hub", "tools": []}


async def test_a_large_set_is_turned_on_in_part(toolsets: Toolsets, tmp_path: Any) -> None:
    with pytest.raises(InvalidArgs, match="big has 95 tools: name at most 30 of them in tools"):
        await answer(ToolsetUse(toolsets), tmp_path, name="big")
    result = await answer(ToolsetUse(toolsets), tmp_path, name="big", tools=["tool_94", "tool_01"])
    assert result.details == {"toolset": "big", "tools": ["tool_94", "tool_01"]}


async def test_a_tool_that_is_searched_for_is_named_once_with_the_smallest_set_that_has_it(
    tmp_path: Any,
) -> None:
    part = ToolGroup("first", "hub", tools=("one", "two"))
    toolsets = Toolsets([Source("hub", "one", "two", "three")], groups=[part])
    await toolsets.available.ready("hub")
    found = text_of((await answer(ToolsetList(toolsets), tmp_path, search="does")).content)
    assert found.splitlines() == [
        "first: - one: Does one.",
        "first: - two: Does two.",
        "hub: - three: Does three.",
    ]
    await toolsets.sources.close()
