"""What is rendered is read back, byte for byte, however the stream is cut."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.core.tool import ToolDefinition
from codeagent.extensions.text_calls.formats import HERMES, JSON, XML, TextProtocol, delimited
from codeagent.extensions.text_calls.protocol import ParsedCall
from tests.effort import times
from tests.extensions.text_calls.reading import PROTOCOLS, call, calls, read, text

MARKS = [
    "<tool_call>",
    "</tool_call>",
    "<function=bash>",
    "</function>",
    "<parameter=command>",
    "</parameter>",
    "\n```\n",
    "```json\n",
    "`",
    "~~~",
    '<invoke name="bash">',
    "</invoke>",
    '<parameter name="command">',
    "<![CDATA[",
    "]]>",
    "]]",
    "]",
    "<<call",
    ">>",
    "@call",
    "@end",
    "{",
    "}",
    '"',
    "\\",
    '{"name": "bash", "arguments": {}}',
    "\n",
    "\r\n",
    "\t",
    " ",
    "<think>",
    "</think>",
    "<arg_key>",
    "null",
    "true",
    "42",
    "&quot;",
    "&",
    "<",
    ">",
    "é",
    "\u2028",
    "😀",
    "\x00",
    ";",
]
texts = st.lists(
    st.sampled_from(MARKS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    max_size=8,
).map("".join)
values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
names = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789_-./", min_size=1, max_size=64)
arguments = st.dictionaries(texts.filter(bool) | names, values, max_size=4)
schemas = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            [
                "string",
                "integer",
                "number",
                "boolean",
                "array",
                "object",
                "null",
                ["string", "null"],
            ]
        )
    }
) | st.just({})
cuts = st.lists(st.integers(1, 40), min_size=1, max_size=30)


def cut(whole: str, sizes: list[int]) -> list[str]:
    chunks, start, turn = [], 0, 0
    while start < len(whole):
        chunks.append(whole[start : start + sizes[turn % len(sizes)]])
        start += sizes[turn % len(sizes)]
        turn += 1
    return chunks


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
@settings(max_examples=times(15))
@given(
    made=st.lists(st.tuples(names, arguments), min_size=1, max_size=3), sizes=cuts, data=st.data()
)
def test_a_call_that_is_rendered_is_read_back(
    protocol: TextProtocol,
    made: list[tuple[str, dict[str, Any]]],
    sizes: list[int],
    data: st.DataObject,
) -> None:
    properties = {key: data.draw(schemas) for _, given_arguments in made for key in given_arguments}
    tools = [
        ToolDefinition(name, "", {"type": "object", "properties": properties}) for name, _ in made
    ]
    wanted = [
        ParsedCall(name, json.dumps(given_arguments, ensure_ascii=False))
        for name, given_arguments in made
    ]
    whole = "\n".join(protocol.render_call(call(one.name, one.arguments)) for one in wanted)
    more = (
        "" if protocol.name == "json" else "\nMore words."
    )  # JSON with words behind it is an example
    pieces = read(protocol, cut(f"Some words.\n{whole}{more}", sizes), tools)
    assert [(one.name, json.loads(one.arguments)) for one in calls(pieces)] == made
    assert [json.dumps(json.loads(one.arguments)) for one in calls(pieces)] == [
        json.dumps(one) for _, one in made
    ]
    assert text(pieces) == f"Some words.{more}"


@settings(max_examples=times(15))
@given(name=names, given_arguments=arguments, marks=st.tuples(texts, texts), sizes=cuts)
def test_any_marks_will_do_for_a_delimited_protocol(
    name: str, given_arguments: dict[str, Any], marks: tuple[str, str], sizes: list[int]
) -> None:
    opening, closing = (mark if mark.strip() else "::" for mark in marks)
    protocol = delimited(opening, closing)
    raw = json.dumps(given_arguments, ensure_ascii=False)
    assert calls(read(protocol, cut(protocol.render_call(call(name, raw)), sizes))) == [
        ParsedCall(name, raw)
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
@settings(max_examples=times(15))
@given(whole=texts, sizes=cuts)
def test_how_a_stream_is_cut_changes_nothing(
    protocol: TextProtocol, whole: str, sizes: list[int]
) -> None:
    assert read(protocol, cut(whole, sizes)) == read(protocol, [whole])


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
@settings(max_examples=times(15))
@given(
    whole=st.text(st.characters(exclude_characters="<{[`@", exclude_categories=["Cs"])), sizes=cuts
)
def test_text_without_a_mark_comes_out_as_it_went_in(
    protocol: TextProtocol, whole: str, sizes: list[int]
) -> None:
    assert text(read(protocol, cut(whole, sizes))) == whole


@pytest.mark.parametrize("protocol", [JSON, HERMES, XML], ids=lambda protocol: protocol.name)
def test_arguments_that_are_not_json_are_rendered_as_the_model_wrote_them(
    protocol: TextProtocol,
) -> None:
    assert "\u00a0{}" in protocol.render_call(call("read", "\u00a0{}")), (
        "a no-break space is not JSON's white space"
    )
