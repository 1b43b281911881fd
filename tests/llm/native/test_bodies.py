"""The bodies of the native lane equal those of litellm, or differ in one of the ways that ADR 15
explains."""

import asyncio
import functools
import itertools
from collections.abc import Mapping

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from codeagent.core.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from codeagent.core.model import ModelRequest
from codeagent.core.tool import ToolDefinition
from codeagent.llm.native import format_of
from codeagent.llm.providers import Target, WireFormat
from tests.effort import times
from tests.llm.asking import request, result
from tests.llm.native.litellm_bodies import Asked, Json, as_ours, ours, posted
from tests.table import for_each

pytestmark = pytest.mark.xdist_group("litellm")  # the worker that imports it
OWN = "http://own.example/v1"
MAIN: tuple[tuple[WireFormat, Asked], ...] = (
    ("chat", Asked("fake")),
    ("chat", Asked("openai/gpt-5-mini", "high")),
    ("responses", Asked("openai/gpt-5-codex", "low")),
    ("responses", Asked("openai/responses/some/local-model")),
    ("anthropic", Asked("anthropic/claude-sonnet-4-5", "high")),
    ("anthropic", Asked("anthropic/claude-opus-5-5", "medium")),
)
"""Asked with every conversation."""
OTHERS: tuple[tuple[WireFormat, Asked], ...] = (
    ("chat", Asked("fake", "off")),
    ("chat", Asked("fake", 3000)),
    ("chat", Asked("openai/gpt-4o")),
    ("chat", Asked("openai/gpt-4o", "high")),
    ("chat", Asked("openai/gpt-5-mini")),
    ("chat", Asked("openai/gpt-5-mini", "off")),
    ("chat", Asked("openai/gpt-5.6", "off")),
    ("chat", Asked("openai/o3", "low")),
    ("chat", Asked("mistral/devstral-latest")),
    ("chat", Asked("mistral/magistral-medium-2506", "high")),
    ("chat", Asked("deepseek/deepseek-v4-pro")),
    ("chat", Asked("deepseek/deepseek-reasoner", "high")),
    ("chat", Asked("deepseek/deepseek-reasoner", "off")),
    ("chat", Asked("deepseek/deepseek-chat", "off")),
    ("chat", Asked("xai/grok-4.7")),
    ("chat", Asked("groq/openai/gpt-oss-120b", "low")),
    ("chat", Asked("openrouter/openai/gpt-5", "high")),
    ("chat", Asked("moonshot/kimi-k2-thinking")),
    ("chat", Asked("together_ai/some/model", "high")),
    ("chat", Asked("cerebras/gpt-oss-120b", "high")),
    ("chat", Asked("lm_studio/some-model")),
    ("responses", Asked("openai/responses/gpt-5")),
    ("responses", Asked("openai/gpt-5.6", "medium")),
    ("responses", Asked("openai/gpt-5-pro")),
    ("anthropic", Asked("anthropic/claude-sonnet-4-5")),
    ("anthropic", Asked("anthropic/claude-sonnet-4-5", "off")),
    ("anthropic", Asked("anthropic/claude-sonnet-4-5", 2000)),
    ("anthropic", Asked("anthropic/claude-opus-5-5")),
    ("anthropic", Asked("anthropic/claude-opus-5-5", 5000)),
    ("anthropic", Asked("anthropic/claude-opus-4-6", 5000)),
    ("anthropic", Asked("anthropic/nobody-knows")),
)
"""Asked with the conversation that has everything."""

USER = UserMessage.from_text("fix the größe 😀")
PNG = ImagePart(media_type="image/png", data="iVBORw0KGgo=")
JPEG = ImagePart(media_type="image/jpeg", data="/9j/")
SIGNED, OTHER_SIGNED = (
    Thinking(text="hm", signature="sig/+=="),
    Thinking(text="then", signature="sig2"),
)
REDACTED, UNSIGNED = Thinking(redacted="opaque=="), Thinking(text="unsigned")
CALL = ToolCall(id="call_0001abcd", name="read", arguments='{"path": "größe", "limit": 3}')
OTHER = ToolCall(id="call_0002abcd", name="bash", arguments="{}")
BROKEN = ToolCall(id="call_0003abcd", name="read the file", arguments='{"pa')
NAMELESS = ToolCall(id="toolu.0004!é", name=" ", arguments="[1]")
ALL = AssistantMessage(
    text="Reading.",
    thinking=(SIGNED, REDACTED, UNSIGNED, OTHER_SIGNED),
    calls=(CALL, BROKEN, NAMELESS, OTHER),
)
ALL_RESULTS = (
    ToolMessage(call_id=CALL.id, name="read", content=(TextPart(text="a.png"), PNG)),
    result(BROKEN, "Invalid arguments", is_error=True),
    result(NAMELESS, "No such tool", is_error=True),
    ToolMessage(
        call_id=OTHER.id,
        name="bash",
        content=(TextPart(text=" "), JPEG, TextPart(text="b")),
        is_error=True,
    ),
)
ODD_SCHEMAS = (
    ToolDefinition(
        "nested",
        "",
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "title": "Nested",
            "$defs": {
                "Point": {"type": "object", "properties": {"x": {"type": "number", "minimum": 0}}}
            },
            "properties": {
                "at": {"$ref": "#/$defs/Point"},
                "n": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            },
            "additionalProperties": False,
            "required": ["at"],
        },
    ),
    ToolDefinition("no_properties", "Takes nothing.", {"type": "object"}),
    ToolDefinition("no_schema", "Says nothing.", {}),
)
CONVERSATIONS: Mapping[str, ModelRequest] = {
    "a prompt": request(USER),
    "no system prompt": request(USER, system=""),
    "an empty prompt": request(UserMessage.from_text("")),
    "parts": request(
        UserMessage(content=(TextPart(text="look"), TextPart(text=" "), PNG, TextPart(text="here")))
    ),
    "only an image": request(UserMessage(content=(JPEG,))),
    "an answer": request(USER, AssistantMessage(text="done\n"), USER),
    "two prompts in a row": request(USER, UserMessage.from_text("at once", "steer")),
    "a cut answer": request(USER, AssistantMessage(text="half", stop="cut"), USER),
    "a blank answer": request(USER, AssistantMessage(text=" \n"), USER),
    "only thinking": request(USER, AssistantMessage(thinking=(SIGNED,)), USER),
    "only unsigned thinking": request(USER, AssistantMessage(thinking=(UNSIGNED,)), USER),
    "parallel calls": request(
        USER, AssistantMessage(calls=(CALL, OTHER)), result(CALL, "a"), result(OTHER, "")
    ),
    "blank text and a call": request(
        USER, AssistantMessage(text=" ", calls=(CALL,)), result(CALL, "x\n \n")
    ),
    "calls that cannot be sent": request(
        USER, AssistantMessage(text="x", calls=(BROKEN, NAMELESS)), *ALL_RESULTS[1:3], USER
    ),
    "images of the last results": request(USER, ALL, *ALL_RESULTS),
    "a turn that began without thinking": request(
        USER, AssistantMessage(calls=(CALL,)), result(CALL, "x")
    ),
    "a turn that began with thinking": request(
        USER, AssistantMessage(thinking=(SIGNED,), calls=(CALL,)), result(CALL, "x")
    ),
    "odd schemas": ModelRequest("system", (USER,), ODD_SCHEMAS),
    "no tools": ModelRequest("system", (USER,), ()),
    "everything": request(
        USER,
        ALL,
        *ALL_RESULTS,
        UserMessage(content=(TextPart(text="look"), PNG)),
        UserMessage.from_text("", "steer"),
        AssistantMessage(text="half", stop="cut"),
        USER,
        AssistantMessage(thinking=(OTHER_SIGNED,), calls=(CALL,)),
        result(CALL, "out"),
        AssistantMessage(text="bye"),
        USER,
    ),
}


def names(asked: Asked) -> list[str]:
    """Return the conversations for this model; DeepSeek's get none with images."""
    if any(asked == main for _, main in MAIN):
        return [*CONVERSATIONS]
    return (
        ["a cut answer", "parallel calls"] if asked.name.startswith("deepseek/") else ["everything"]
    )


Captured = dict[tuple[Asked, str], tuple[Target, Json]]


@functools.cache
def captured() -> Captured:
    """Ask litellm for the whole matrix, once."""

    async def capture() -> Captured:
        bodies: Captured = {}
        for _, asked in (*MAIN, *OTHERS):
            target, sent = await posted(asked, [CONVERSATIONS[name] for name in names(asked)])
            bodies |= {
                (asked, name): (target, body) for name, body in zip(names(asked), sent, strict=True)
            }
        return bodies

    return asyncio.run(capture())


@pytest.fixture
def bodies() -> Captured:
    return captured()


@for_each(
    ("wire_format", "asked", "conversation"),
    [
        (wire_format, asked, name)
        for wire_format, asked in (*MAIN, *OTHERS)
        for name in names(asked)
    ],
)
def test_a_body_is_the_one_that_litellm_sends(
    wire_format: WireFormat, asked: Asked, conversation: str, bodies: Captured
) -> None:
    target, theirs = bodies[asked, conversation]
    assert ours(wire_format, asked, target, CONVERSATIONS[conversation]) == [
        as_ours(theirs, asked, target, CONVERSATIONS[conversation])
    ]


TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["", " ", "\n", "größe 😀"]
)
PARTS = st.builds(TextPart, text=TEXTS) | st.sampled_from([PNG, JPEG])
CONTENT = st.lists(PARTS, min_size=1, max_size=3).map(tuple)
PROMPTS = st.builds(UserMessage, content=CONTENT)
THOUGHTS = st.lists(st.sampled_from([SIGNED, OTHER_SIGNED, REDACTED, UNSIGNED]), max_size=3).map(
    tuple
)
NAMES = st.sampled_from(["read", "bash", "read the file", "", "größe"])
ARGUMENTS = st.sampled_from(
    ["{}", '{"path": "größe"}', '{"n": [1, {"m": null}]}', '{"pa', "", "[1]"]
)


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """An answer with the results of its calls, or one that is followed by a prompt."""
    calls = draw(st.lists(st.tuples(NAMES, ARGUMENTS), max_size=3))
    answer = AssistantMessage(
        text=draw(TEXTS),
        thinking=draw(THOUGHTS),
        calls=tuple(
            ToolCall(
                id=f"call_{draw(st.integers(0, 10**9)):010}_{number}",
                name=name,
                arguments=arguments,
            )
            for number, (name, arguments) in enumerate(calls)
        ),
    )
    results = [
        ToolMessage(
            call_id=call.id, name=call.name, content=draw(CONTENT), is_error=draw(st.booleans())
        )
        for call in answer.calls
    ]
    return [answer, *results, *draw(st.lists(PROMPTS, min_size=not calls, max_size=1))]


HISTORIES = st.builds(
    lambda first, rest: [first, *itertools.chain(*rest)], PROMPTS, st.lists(turns(), max_size=4)
)


# Each example is three requests through litellm: to shrink one, or to explain it, would take
# minutes and gigabytes.
@settings(
    max_examples=times(10),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    report_multiple_bugs=False,
)
@given(HISTORIES)
def test_any_conversation_is_written_as_litellm_writes_it(history: list[Message]) -> None:
    conversation = request(*history)

    async def sent() -> list[tuple[WireFormat, Asked, Target, Json]]:
        found = [
            (wire_format, asked, await posted(asked, [conversation]))
            for wire_format, asked in MAIN[::2]
        ]
        return [
            (wire_format, asked, target, body) for wire_format, asked, (target, (body,)) in found
        ]

    for wire_format, asked, target, theirs in asyncio.run(sent()):
        assert ours(wire_format, asked, target, conversation) == [
            as_ours(theirs, asked, target, conversation)
        ]


@pytest.mark.parametrize(("wire_format", "asked"), MAIN, ids=str)
@given(history=HISTORIES)
def test_what_was_encoded_before_changes_no_byte(
    wire_format: WireFormat, asked: Asked, history: list[Message]
) -> None:
    """A history that grows, and one of which the end was taken back, is written as if for the first
    time."""
    target = asked.target(OWN)
    growing = format_of(wire_format).writer(target, asked.effort)
    lengths = [*range(1, len(history) + 1), (len(history) + 1) // 2, len(history)]
    for length in lengths:
        conversation = request(*history[:length])
        assert growing.body(conversation, target) == format_of(wire_format).writer(
            target, asked.effort
        ).body(conversation, target)


def test_deepseek_gets_its_own_reasoning() -> None:
    asked = Asked("deepseek/deepseek-reasoner", "high")
    target = asked.target(OWN)
    history = (
        USER,
        AssistantMessage(thinking=(Thinking(text="hm"),), calls=(CALL,)),
        ToolMessage(call_id=CALL.id, name="read", content=(TextPart(text="a"),)),
    )
    (body,) = ours("chat", asked, target, request(*history))
    assert body["messages"][2]["reasoning_content"] == "hm"


def test_half_a_surrogate_pair_can_be_sent() -> None:
    asked = Asked("fake")
    target = asked.target(OWN)
    (body,) = ours("chat", asked, target, request(UserMessage.from_text("a\ud83db")))
    assert body["messages"][-1]["content"] == "a?b"
