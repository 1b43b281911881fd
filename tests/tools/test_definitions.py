"""Definitions of tools are bounded: cut to what a call needs, refused by their size, turned off
again."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.errors import CodeagentError
from codeagent.core.tool import Failed, NotFound, OpenArgs, ToolDefinition
from codeagent.extensions.toolsets.toolset_use import ToolsetUse
from codeagent.tools.choices import Choice
from codeagent.tools.cutting import SAID, Cut, cut_definition, cut_schema, definition_bytes
from codeagent.tools.schema import Definitions
from codeagent.tools.toolsets import Toolsets
from codeagent.workspace.files import LocalWorkspace
from tests.extensions.web.serving import call, said
from tests.tools.catalog_setting import Plain
from tests.tools.toolset_setting import Source, catalog_of, names


def pod(width: int = 12, depth: int = 4) -> dict[str, Any]:
    """A schema like that of a Kubernetes object: wide, deep and full of words."""
    if not depth:
        return {
            "type": "string",
            "description": "A leaf. " * 20,
            "enum": [f"value-{n}" for n in range(60)],
        }
    inner = {f"field_{n}": pod(2, depth - 1) for n in range(width)}
    return {
        "type": "object",
        "description": "An object. " * 30,
        "properties": inner,
        "required": ["field_0"],
    }


class Large(Plain):
    """A tool whose definition is large."""

    Args = OpenArgs  # type: ignore[assignment]  # the double takes any arguments
    schema = pod()


class LargeSource(Source):
    def have(self, *names: str) -> None:
        super().have(*names)
        self._tools = {
            name: self._tools[name]
            if type(self._tools[name]) is Large
            else Large(name, "k8s", "mcp")
            for name in names
        }


Open = Callable[..., Toolsets]


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    every: list[Toolsets] = []

    def make(*tools: str, on: tuple[Choice, ...] = (), window: int | None = None) -> Toolsets:
        every.append(Toolsets([LargeSource("k8s", *tools), Source("hub", "small")], on))
        every[-1].fit(window)
        every[-1].sources.begin()
        return every[-1]

    yield make
    for toolsets in every:
        await toolsets.sources.close()


async def test_a_large_schema_is_cut_for_the_model_and_arguments_are_still_checked_against_the_whole(
    opened: Open,
) -> None:
    toolsets = opened("create_pod")
    catalog = catalog_of(toolsets)
    await toolsets.use("k8s")
    await catalog.refresh()
    shown, whole = catalog.definitions()[-1], toolsets.definitions.whole(catalog.get("create_pod"))
    assert definition_bytes(shown) <= toolsets.definitions.longest < definition_bytes(whole)
    assert shown.description.endswith(SAID)
    assert set(shown.parameters["properties"]) == set(pod()["properties"])
    assert shown.parameters["required"] == ["field_0"] and whole.parameters == pod()


async def test_what_is_small_is_left_as_it_is(opened: Open) -> None:
    toolsets = opened("create_pod")
    catalog = catalog_of(toolsets)
    await toolsets.use("hub")
    await catalog.refresh()
    assert catalog.definitions()[-1].description == "Does nothing."


def test_descriptions_go_first_then_depth_then_values() -> None:
    whole = ToolDefinition("t", "Does it.", pod(3, 3))
    unsaid, shallow, least = (
        json.dumps(cut_definition(whole, most).parameters) for most in (10_500, 3_200, 200)
    )
    assert "A leaf." not in unsaid and "value-59" in unsaid
    assert "value-59" not in shallow and "field_2" in shallow
    assert len(least) < 200 and "field_0" in least and "field_2" not in least


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b", "c"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)
REFERENCES = st.sampled_from([{"$ref": "#/$defs/one"}, {"$ref": "#/$defs/two"}])
SCHEMAS = st.recursive(
    st.sampled_from(["string", "integer", "boolean", "null", "array", "object"]).map(
        lambda kind: {"type": kind}
    )
    | st.lists(st.sampled_from(["a", "b", 1, 2, 3]), min_size=1, unique=True).map(
        lambda values: {"enum": values}
    )
    | REFERENCES,
    lambda inner: (
        st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(st.sampled_from("abc"), inner),
            },
            optional={
                "required": st.lists(st.sampled_from("abc"), unique=True),
                "additionalProperties": st.booleans() | inner,
            },
        )
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(
            lambda key, forms: {key: forms},
            st.sampled_from(["anyOf", "oneOf", "allOf"]),
            st.lists(inner, min_size=1, max_size=3),
        )
        | st.builds(lambda one: {"not": one}, inner)
    ),
    max_leaves=8,
)
CUTS = st.builds(
    Cut,
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(0, 2),
)


@given(SCHEMAS, SCHEMAS, SCHEMAS, CUTS, VALUES)
def test_a_schema_that_was_cut_takes_all_that_the_whole_one_takes(
    first: dict[str, Any], one: dict[str, Any], two: dict[str, Any], cut: Cut, value: Any
) -> None:
    whole = {
        "type": "object",
        "properties": {"a": first, "b": one},
        "$defs": {"one": one, "two": two},
    }
    arguments = {"a": value, "b": value}
    try:
        takes = jsonschema.Draft202012Validator(whole).is_valid(arguments)
    except RecursionError:
        return  # a reference that leads to itself
    if takes:
        left = cut_schema(whole, cut)
        jsonschema.Draft202012Validator.check_schema(left)
        assert jsonschema.Draft202012Validator(left).is_valid(arguments)


async def test_what_does_not_fit_is_refused_with_its_size_when_it_is_turned_on(
    opened: Open,
) -> None:
    toolsets = opened(*(f"create_{n}" for n in range(20)), window=8_000)
    catalog = catalog_of(toolsets)
    with pytest.raises(
        Failed,
        match=r"the definitions of k8s take [\d,]+ bytes, and 4,800 of 4,800 are left: name fewer",
    ):
        await toolsets.use("k8s")
    await catalog.refresh()
    assert names(catalog) == ["read", "bash"]
    await toolsets.use("k8s", ["create_1", "create_2"])
    await catalog.refresh()
    assert names(catalog)[2:] == ["create_1", "create_2"]


async def test_a_session_with_more_than_fits_goes_on_with_what_fits(opened: Open) -> None:
    toolsets = opened(*(f"create_{n}" for n in range(20)), on=(Choice("k8s"),), window=8_000)
    catalog = catalog_of(toolsets)
    await toolsets.first_ready()
    change = await catalog.refresh()
    assert 1 <= len(names(catalog)[2:]) < 20
    assert (
        sum(map(definition_bytes, catalog.definitions()[2:])) <= toolsets.definitions.room == 4_800
    )
    assert change is not None and "create_19 take" in change.problems[-1].text


async def test_a_model_with_a_smaller_window_gets_smaller_definitions_and_fewer(
    opened: Open,
) -> None:
    toolsets = opened(*(f"create_{n}" for n in range(6)), on=(Choice("k8s"),))
    catalog = catalog_of(toolsets)
    await toolsets.first_ready()
    await catalog.refresh()
    before = catalog.definitions()[2:]
    toolsets.fit(8_000)
    assert catalog.coming()[2:] != before
    await catalog.refresh()
    assert len(before) == 6 and sum(
        map(definition_bytes, catalog.definitions()[2:])
    ) <= 4_800 < sum(map(definition_bytes, before))
    toolsets.fit(None)
    await catalog.refresh()
    assert catalog.definitions()[2:] == before


async def test_a_set_is_turned_off_whole_or_in_part_and_on_again(opened: Open) -> None:
    toolsets = opened("one", "two", "three")
    catalog = catalog_of(toolsets)
    await toolsets.use("k8s")
    await catalog.refresh()
    toolsets.turn_off("k8s", ["two"])
    await catalog.refresh()
    assert names(catalog)[2:] == ["one", "three"]
    toolsets.turn_off("k8s")
    await catalog.refresh()
    assert names(catalog)[2:] == []
    await toolsets.use("k8s")
    await catalog.refresh()
    assert names(catalog)[2:] == ["one", "two", "three"]


async def test_what_was_turned_off_stays_off_when_the_session_is_resumed(opened: Open) -> None:
    choices = (Choice("k8s"), Choice("hub"), Choice("k8s", on=False), Choice("k8s", ("two",)))
    toolsets = opened("one", "two")
    for choice in choices:
        toolsets.restore(choice.details)
    catalog = catalog_of(toolsets)
    await toolsets.first_ready()
    await catalog.refresh()
    assert names(catalog)[2:] == ["two", "small"]


async def test_only_what_is_on_can_be_turned_off(opened: Open) -> None:
    toolsets = opened("one")
    await toolsets.available.ready("k8s")
    with pytest.raises(Failed, match="nothing of k8s is on"):
        toolsets.turn_off("k8s")
    with pytest.raises(NotFound, match="unknown toolset 'k9s'; did you mean k8s"):
        toolsets.turn_off("k9s")


async def test_the_model_reads_the_whole_definition_and_turns_a_set_off(
    opened: Open, tmp_path: Any
) -> None:
    toolsets, workspace = opened("create_pod"), LocalWorkspace(tmp_path)
    catalog = catalog_of(toolsets)
    use = ToolsetUse(toolsets)
    shown = said(await call(use, workspace, name="k8s", tools=["create_pod"], do="detail"))
    assert json.loads(shown.partition("\n")[2]) == pod() and names(catalog) == ["read", "bash"]
    await call(use, workspace, name="k8s")
    await catalog.refresh()
    result = await call(use, workspace, name="k8s", do="off")
    await catalog.refresh()
    assert names(catalog) == ["read", "bash"]
    assert result.details == {"toolset": "k8s", "tools": [], "on": False}


async def test_an_agent_is_not_started_with_tools_that_do_not_fit(opened: Open) -> None:
    toolsets = opened(*(f"create_{n}" for n in range(20)), window=8_000)
    with pytest.raises(CodeagentError, match="bytes too many"):
        await toolsets.lend(["create_*"], ())
    assert len(await toolsets.lend(["create_1"], ())) == 1


def test_the_room_is_a_share_of_the_window() -> None:
    assert Definitions(200_000).room == 2 * Definitions(100_000).room
    assert Definitions(8_000).longest < Definitions(200_000).longest == Definitions().longest
