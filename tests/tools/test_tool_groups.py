"""Groups of a source's tools are sets of their own, by name, tag and path."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.tool import NotFound
from codeagent.tools.choices import Choice
from codeagent.tools.grouping import (
    NoPartition,
    ToolGroup,
    digest_of,
    keep_split,
    load_splits,
    read_split,
    split_prompt,
)
from codeagent.tools.source import ListedTool, Listing
from codeagent.tools.toolsets import Toolsets
from tests.table import for_each
from tests.tools.toolset_setting import Source, catalog_of, names

SPLIT = ToolGroup(
    "hub-2",
    "hub",
    tools=("two",),
    digest=digest_of((ListedTool("two", "Does two."), ListedTool("one", "Does one."))),
)
"""One of the two sets that a model made of `Source("hub", "one", "two")`."""
TOOLS = (
    ListedTool("get_user", "Get a user.", ("users",), "/users/{id}"),
    ListedTool("list_users", "List users.", ("users", "lists"), "/users"),
    ListedTool("get_order", "Get an order.", ("orders",), "/users/{id}/orders/{order}"),
    ListedTool("health", "Tell whether it is up."),
)


class Shop(Source):
    """A source with tags and paths."""

    def list(self) -> Listing:
        own = super().list()
        return Listing(TOOLS, own.problems, own.state, own.about) if own.state == "ready" else own


@for_each(
    ("group", "expected"),
    [
        ({"tools": ("get_*",)}, ["get_user", "get_order"]),
        ({"tags": ("lists", "orders")}, ["list_users", "get_order"]),
        ({"paths": ("/users/*",)}, ["get_user", "get_order"]),
        ({"paths": ("/users",), "tools": ("health",)}, ["list_users", "health"]),
        ({"paths": ("*",)}, ["get_user", "list_users", "get_order"]),
        ({"tools": ("none",)}, []),
    ],
)
def test_a_group_has_what_fits_any_of_its_names_tags_and_paths(
    group: dict[str, Any], expected: list[str]
) -> None:
    one = ToolGroup("part", "shop", **group)
    assert [tool.name for tool in TOOLS if one.selects(tool)] == expected


async def test_a_group_is_turned_on_and_listed_like_any_set() -> None:
    toolsets = Toolsets(
        [Shop("shop", *(tool.name for tool in TOOLS))],
        groups=[
            ToolGroup("users", "shop", "about users", tags=("users",)),
            ToolGroup("all", "shop", paths=("*",)),
        ],
    )
    toolsets.sources.begin()
    catalog = catalog_of(toolsets)
    await toolsets.use("users")
    await catalog.refresh()
    assert names(catalog)[2:] == ["get_user", "list_users"]
    assert [(one.name, one.about, one.tools, one.in_use) for one in toolsets.facts()] == [
        ("shop", "about shop", 4, 2),
        ("users", "about users", 2, 2),
        ("all", "about shop", 3, 2),
    ]
    await toolsets.use("all")
    await catalog.refresh()
    assert names(catalog)[2:] == ["get_user", "list_users", "get_order"]
    await toolsets.sources.close()


async def test_a_call_of_a_tool_names_the_smallest_set_that_has_it() -> None:
    toolsets = Toolsets([Shop("shop", "x")], groups=[ToolGroup("users", "shop", tags=("users",))])
    await toolsets.available.ready("shop")
    found = toolsets.available.where("get_user")
    assert found is not None and found.name == "users"
    await toolsets.sources.close()


def test_a_group_of_an_unknown_source_is_a_problem_and_so_is_a_name_that_is_taken() -> None:
    toolsets = Toolsets(
        [Source("github")], groups=[ToolGroup("issues", "gihub", tools=("*issue*",))]
    )
    assert [str(one) for one in toolsets.problems()] == [
        "issues: there is no source of tools named gihub; did you mean github?"
    ]
    taken = Toolsets([Source("github")], groups=[ToolGroup("github", "github", tools=("*",))])
    assert [str(one) for one in taken.problems()] == [
        "github: another toolset is named github, and is used"
    ]
    assert list(taken.available.all()) == ["github"]


async def test_a_group_of_a_tool_file_takes_the_name_of_no_other_set_and_comes_and_goes_with_its_file() -> (
    None
):
    own = ToolGroup("mine", "hub", "my own", tools=("one",))
    toolsets = Toolsets([Source("hub", "one", "two"), Source("lab")], groups=[own])
    await toolsets.available.ready("hub")
    toolsets.available.define(
        tuple(
            ToolGroup(name, source, "of a file", tools=("*",), origin=f"t.yaml:{line}")
            for line, (name, source) in enumerate(
                [("all", "hub"), ("mine", "hub"), ("lab", "hub"), ("far", "away")], 1
            )
        )
    )
    assert {one.name: one.about for one in toolsets.available.all().values()} == {
        "hub": "about hub",
        "lab": "about lab",
        "mine": "my own",
        "all": "of a file",
    }
    assert [f"{one.level} {one}" for one in toolsets.problems()] == [
        "warning t.yaml:2: another toolset is named mine, and is used",
        "warning t.yaml:3: another toolset is named lab, and is used",
        "warning t.yaml:4: there is no source of tools named away; there are hub, lab",
    ]
    toolsets.sources.add(Source("all"))
    assert toolsets.available.all()["all"].about == "about all"
    toolsets.available.define(())
    assert (
        list(toolsets.available.all()) == ["hub", "lab", "all", "mine"]
        and toolsets.problems() == ()
    )
    await toolsets.sources.close()


async def test_a_group_of_a_split_is_there_only_while_the_source_has_the_same_tools() -> None:
    source = Source("hub", "one", "two")
    group = ToolGroup("hub-1", "hub", tools=("one",))
    toolsets = Toolsets([source], groups=[group, SPLIT])
    await toolsets.available.ready("hub")
    assert (list(toolsets.available.all()), toolsets.available.parts("hub")) == (
        ["hub", "hub-1", "hub-2"],
        ("hub-2",),
    )
    source.have("one", "two", "three")
    assert (list(toolsets.available.all()), toolsets.available.parts("hub")) == (
        ["hub", "hub-1"],
        (),
    )
    with pytest.raises(NotFound, match="unknown toolset 'hub-2'"):
        await toolsets.available.ready("hub-2")
    await toolsets.sources.close()


async def test_a_group_of_a_split_that_goes_while_it_is_awaited_is_not_found() -> None:
    source = Source("hub", "one", "two", held=True)
    toolsets = Toolsets(
        [source], groups=[ToolGroup("hub-2", "hub", tools=("two",), digest=digest_of(()))]
    )
    awaited = asyncio.create_task(toolsets.available.ready("hub-2"))
    await asyncio.sleep(0)
    source.release.set()
    with pytest.raises(NotFound, match="unknown toolset 'hub-2'"):
        await awaited
    await toolsets.sources.close()


@for_each("waiting", [True, False])
async def test_a_group_of_a_split_that_is_on_starts_its_source_and_is_awaited_like_any_set(
    waiting: bool,
) -> None:
    toolsets = Toolsets(
        [Source("hub", "one", "two", waiting=waiting)], [Choice("hub-2")], groups=[SPLIT]
    )
    catalog = catalog_of(toolsets)
    toolsets.sources.begin(after=3600)
    await toolsets.first_ready()
    await catalog.refresh()
    assert names(catalog)[2:] == ["two"]
    await toolsets.sources.close()


def test_a_split_of_a_source_that_is_not_here_is_no_problem() -> None:
    assert Toolsets([Source("lab")], groups=[SPLIT]).problems() == ()


def answer(*sets: tuple[Any, list[Any]]) -> str:
    return "Here: " + json.dumps(
        {"sets": [{"name": name, "about": "x", "tools": tools} for name, tools in sets]}
    )


EVERY = [tool.name for tool in TOOLS]


@for_each(
    ("text", "why"),
    [
        ("no idea", "not the JSON"),
        ("{}", "not the JSON"),
        ('{"sets": [{"name": "a", "tools": []}]}', "not the JSON"),
        (answer(("a", EVERY), ("b", ["get_usr"])), "names 'get_usr', which is not a tool of shop"),
        (answer(("a", [*EVERY, 7])), "names '7', which is not a tool"),
        (answer(("a", EVERY), ("b", ["health"])), "puts health into more than one set"),
        (answer(("a", EVERY[:2])), "leaves out get_order, and 2 of 4 tools in all"),
        (answer(("a", EVERY[:2]), ("a", EVERY[2:])), "do not have different names"),
        (answer(("a b", EVERY)), "do not have different names of letters"),
        (answer((["a"], EVERY)), "do not have different names of letters"),
    ],
)
def test_a_split_that_is_no_partition_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(NoPartition, match=re.escape(why)):
        read_split(text, "shop", TOOLS)


@given(st.data())
def test_a_split_is_taken_exactly_if_each_tool_is_in_one_set(data: st.DataObject) -> None:
    names = [f"t{n}" for n in range(data.draw(st.integers(1, 8)))]
    sets = data.draw(
        st.lists(st.lists(st.sampled_from([*names, "other"]), max_size=8), min_size=1, max_size=4)
    )
    text = answer(*((f"s{n}", one) for n, one in enumerate(sets)))
    named = sorted(name for one in sets for name in one)
    try:
        groups = read_split(text, "src", [ListedTool(name, "") for name in names])
    except NoPartition:
        assert named != sorted(names)
    else:
        assert named == sorted(names)
        assert sorted(name for group in groups for name in group.tools) == named
        assert {group.source for group in groups} == {"src"}


def test_a_model_is_asked_with_every_name() -> None:
    lines = split_prompt("shop", TOOLS).splitlines()
    assert lines[1] == "- get_user: /users/{id} Get a user." and len(lines) == 1 + len(TOOLS)


def test_a_split_is_kept_until_the_next_one_and_one_that_is_damaged_is_passed_over(
    tmp_path: Path,
) -> None:
    first, second = (ToolGroup("hub-1", "hub", tools=("one",), digest=digest) for digest in "ab")
    other = ToolGroup("lab-1", "lab", "about", ("x",), digest="c")
    for group in (first, other, second):
        keep_split(tmp_path, group.source, [group])
    assert set(load_splits(tmp_path)) == {second, other}
    for damaged in ("{", "[1]", "[{}]", '["x"]', "7"):
        (tmp_path / "0.json").write_text(damaged)
        assert set(load_splits(tmp_path)) == {second, other}
