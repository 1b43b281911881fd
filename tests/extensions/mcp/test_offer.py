"""Whatever a server lists, what is made of it is harmless; and whatever it writes, its messages
come through."""

import json
from collections.abc import AsyncIterator
from hashlib import sha256
from random import Random
from typing import Any

import anyio
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.sanitize import visible
from codeagent.extensions.mcp.offer import LONGEST_NAME, clean_name, names_of, offer_of
from codeagent.extensions.mcp.record import ServerRecord
from codeagent.extensions.mcp.stdio import program_streams
from codeagent.tools.schema_check import faults_of, problems_of
from tests.table import for_each

PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
KEYWORDS = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "$ref",
        "$defs",
        "pattern",
        "enum",
        "anyOf",
        "description",
        "required",
        "default",
    ]
)
ANY = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(KEYWORDS | st.text(max_size=5), inner, max_size=4)
    ),
)
SCHEMA = st.fixed_dictionaries(
    {"type": st.just("object")}, optional={"properties": ANY, "$ref": ANY, "$defs": ANY}
)
TOOL = st.fixed_dictionaries(
    {"name": st.text(max_size=80), "inputSchema": SCHEMA | ANY},
    optional={"description": ANY, "title": ANY, "annotations": ANY, "outputSchema": ANY},
)


@given(st.lists(TOOL | ANY, max_size=6))
def test_every_tool_that_is_taken_has_a_name_of_its_own_harmless_texts_and_a_usable_schema(
    tools: list[Any],
) -> None:
    offer = offer_of("s", tools)
    names = [tool.name for tool in offer.tools]
    assert len(set(names)) == len(names)
    assert len(names) + len(offer.problems) >= len(tools)
    for tool in offer.tools:
        assert tool.name.startswith("mcp__s__") and len(tool.name) <= LONGEST_NAME
        assert problems_of(tool.schema) == ()
        assert isinstance(faults_of(tool.schema, {"text": "x"}), tuple)
    texts = [
        text
        for tool in offer.tools
        for text in (tool.label, tool.summary, tool.description, tool.said)
    ]
    texts += [str(problem) for problem in offer.problems]
    assert [text for text in texts if visible(text) != text] == []


@given(st.text(max_size=200), st.text(max_size=200))
def test_a_name_is_callable_and_only_equal_for_what_looks_equal(one: str, other: str) -> None:
    names = [clean_name("s", raw) for raw in (one, other)]
    assert all(name.isascii() and 0 < len(name) <= LONGEST_NAME for name in names)
    if all(
        raw.isascii() and raw.replace("_", "").replace("-", "").isalnum() for raw in (one, other)
    ):
        assert (names[0] == names[1]) == (one == other)


@given(
    st.lists(st.text(st.sampled_from("ab_. /é"), max_size=3) | st.text(max_size=70), unique=True),
    st.randoms(),
)
def test_names_that_are_alike_once_cleaned_stay_apart_in_any_order(
    raw: list[str], random: Random
) -> None:
    names = names_of("s", raw)
    assert len(set(names.values())) == len(raw)
    assert all(name.isascii() and len(name) <= LONGEST_NAME for name in names.values())
    assert names_of("s", random.sample(raw, len(raw))) == names
    plain = [
        name
        for name in raw
        if name.isascii() and name.replace("_", "a").isalnum() and len(name) < 50
    ]
    assert [names[name] for name in plain] == [f"mcp__s__{name}" for name in plain]


def test_both_of_two_tools_whose_names_are_alike_can_be_called() -> None:
    offer = offer_of(
        "s",
        [
            {"name": name, "inputSchema": {"type": "object"}}
            for name in ("a.b", "a b", "a_b", "c.d")
        ],
    )
    assert [(tool.name, tool.raw_name) for tool in offer.tools] == [
        ("mcp__s__a_b-" + sha256(b"a.b").hexdigest()[:8], "a.b"),
        ("mcp__s__a_b-" + sha256(b"a b").hexdigest()[:8], "a b"),
        ("mcp__s__a_b", "a_b"),
        ("mcp__s__c_d", "c.d"),
    ]
    assert offer.problems == ()


@for_each(
    "given, kept",
    [
        ({"$schema": "http://json-schema.org/draft-07/schema#", "$id": "x"}, {}),
        ({"properties": {"a": {"pattern": "^(?<x>a)$"}}}, {"properties": {"a": {}}}),
        ({"properties": {"a": {"pattern": "^a+$"}}}, {"properties": {"a": {"pattern": "^a+$"}}}),
        (
            {"properties": {"a": {"items": [{}, {}]}}},
            {"properties": {"a": {"prefixItems": [{}, {}]}}},
        ),
        ({"patternProperties": {"^x": {}}, "additionalProperties": False}, {}),
        (
            {"properties": {"$schema": {}, "pattern": {}}},
            {"properties": {"$schema": {}, "pattern": {}}},
        ),
    ],
)
def test_what_cannot_be_checked_here_is_left_to_the_server(
    given: dict[str, Any], kept: dict[str, Any]
) -> None:
    [tool] = offer_of("s", [{"name": "t", "inputSchema": {"type": "object", **given}}]).tools
    assert tool.schema == {"type": "object", "properties": {}, **kept}


class Written:
    """A program that has written these pieces, and reads nothing."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def send(self, data: bytes) -> None: ...

    async def output(self) -> AsyncIterator[tuple[str, bytes]]:
        for piece in self._pieces:
            yield "stdout", piece

    async def outdated(self) -> str:
        return ""

    async def close(self) -> int | None:
        return 0


@given(st.data())
def test_messages_come_through_any_noise_however_it_is_cut(data: st.DataObject) -> None:
    noise = st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"").replace(b"{", b""))
    lines: list[bytes] = []
    for number in range(3):
        lines += [
            *data.draw(st.lists(noise, max_size=3)),
            json.dumps({"jsonrpc": "2.0", "id": number, "result": {}}).encode(),
        ]
    whole = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    pieces = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    record, numbers = ServerRecord(), []

    async def read() -> None:
        async with program_streams(Written(pieces), record, anyio.Event()) as (received, _):  # type: ignore[arg-type]  # a double
            async for message in received:
                numbers.append(message.message.id)

    anyio.run(read)
    assert numbers == [0, 1, 2]
    assert record.noise == len([line for line in lines if line.strip()]) - 3
    assert [line for line in record.lines if visible(line) != line] == []
