"""What a provider is sent for a transcript."""

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given
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
from codeagent.llm.providers import Family
from codeagent.llm.wire import may_think, thinking_arguments, to_messages, to_tools
from tests.llm.asking import BASH, READ, request, result
from tests.servers import openai_problems
from tests.table import for_each

USER = UserMessage.from_text("hi")
CALL = ToolCall(id="call_0001", name="read", arguments='{"path": "a"}')
OTHER = ToolCall(id="call_0002", name="bash", arguments='{"command": "ls"}')
IMAGE = ImagePart(media_type="image/png", data="AAAA")
PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SIGNED = Thinking(text="hm", signature="sig")
MARKER = {"cache_control": {"type": "ephemeral"}}
MARKER_TEXT = ', "cache_control": {"type": "ephemeral"}'


def wire(family: Family, *messages: Message) -> list[dict[str, Any]]:
    """Without the system prompt."""
    return to_messages(request(*messages), family)[1:]


def test_an_openai_transcript_is_plain_strings() -> None:
    answer = AssistantMessage(text="ok", thinking=(SIGNED,), calls=(CALL,))
    assert to_messages(request(USER, answer, result(CALL, "text")), "openai") == [
        {"role": "system", "content": "You are a test."},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "ok",
            "tool_calls": [
                {
                    "id": "call_0001",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"path": "a"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_0001", "content": "text"},
    ]


def test_signed_and_redacted_thinking_goes_back_to_anthropic_alone() -> None:
    answer = AssistantMessage(
        text="ok", thinking=(SIGNED, Thinking(redacted="opaque"), Thinking(text="unsigned"))
    )
    assert wire("anthropic", USER, answer, USER)[1]["thinking_blocks"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "opaque"},
    ]
    assert "thinking" not in json.dumps(wire("openai", USER, answer, USER))


def test_an_answer_without_text_has_no_content() -> None:
    answer = AssistantMessage(calls=(CALL,))
    assert wire("openai", USER, answer, result(CALL, "x"))[1]["content"] is None
    assert wire("anthropic", USER, answer, result(CALL, "x"))[1]["content"] is None


@for_each("arguments", ['{"path":', "", "[1]", "nonsense", '{"a":1}{"b":2}', "[" * 100_000])
def test_arguments_that_are_no_object_go_back_as_an_empty_one(arguments: str) -> None:
    call = ToolCall(id="call_0001", name="read", arguments=arguments)
    sent = wire(
        "openai", USER, AssistantMessage(calls=(call,)), result(call, "invalid", is_error=True)
    )
    assert sent[1]["tool_calls"][0]["function"]["arguments"] == "{}"


@for_each("name", ["", " ", "read file", "größe", "read.file\x1b]52", "a" * 65, "\x00"])
@for_each("family", ["openai", "anthropic"])
def test_a_name_no_provider_takes_back_is_replaced(family: Family, name: str) -> None:
    call = ToolCall(id="call_0001", name=name)
    sent = wire(
        family, USER, AssistantMessage(calls=(call,)), result(call, "Tool not found", is_error=True)
    )
    replaced = sent[1]["tool_calls"][0]["function"]["name"]
    assert re.fullmatch("[A-Za-z0-9_-]{1,64}", replaced)
    assert name.strip() or replaced == "invalid_tool_name"


def test_a_failed_result_says_so_in_its_first_line_where_there_is_no_flag() -> None:
    answer, failed = AssistantMessage(calls=(CALL,)), result(CALL, "exit 3", is_error=True)
    assert wire("openai", USER, answer, failed)[-1]["content"] == "[error]\nexit 3"
    flagged = wire("anthropic", USER, answer, failed)[-1]
    assert (flagged["is_error"], flagged["content"][0]["text"]) == (True, "exit 3")
    (unflagged,) = to_messages(request(USER, answer, failed), "anthropic", error_flag=False)[-1:]
    assert "is_error" not in unflagged
    assert [part["text"] for part in unflagged["content"]] == ["[error]", "exit 3"]


def test_images_of_a_batch_follow_its_results_for_openai() -> None:
    answer = AssistantMessage(calls=(CALL, OTHER))
    picture = ToolMessage(call_id=CALL.id, name="read", content=(TextPart(text="a.png"), IMAGE))
    sent = wire("openai", USER, answer, picture, result(OTHER, "b"), UserMessage.from_text("next"))
    assert [message["role"] for message in sent] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
        "user",
    ]
    assert sent[2]["content"] == "a.png\n(the image follows in the next message)"
    assert sent[4]["content"] == [{"type": "text", "text": "From the result of read:"}, PNG]


def test_images_of_the_last_batch_are_not_lost() -> None:
    picture = ToolMessage(call_id=CALL.id, name="read", content=(IMAGE,))
    assert wire("openai", USER, AssistantMessage(calls=(CALL,)), picture)[-1]["content"][-1] == PNG


def test_images_stay_in_their_result_for_anthropic() -> None:
    picture = ToolMessage(call_id=CALL.id, name="read", content=(TextPart(text="a.png"), IMAGE))
    sent = wire("anthropic", USER, AssistantMessage(calls=(CALL,)), picture)
    assert sent[-1]["content"] == [{"type": "text", "text": "a.png"}, {**PNG, **MARKER}]


def test_a_users_images_are_parts() -> None:
    message = UserMessage(content=(TextPart(text="look"), IMAGE))
    assert wire("openai", message)[0]["content"] == [{"type": "text", "text": "look"}, PNG]


def test_an_empty_result_is_said_in_words() -> None:
    answer = AssistantMessage(calls=(CALL,))
    assert wire("openai", USER, answer, result(CALL, ""))[-1]["content"] == "(no output)"
    assert (
        wire("anthropic", USER, answer, result(CALL, " "))[-1]["content"][0]["text"]
        == "(no output)"
    )


def test_cache_markers_are_on_system_last_tool_and_newest_message_for_anthropic_alone() -> None:
    asked = request(USER, AssistantMessage(text="a"), USER)
    system, first, answer, newest = to_messages(asked, "anthropic")
    assert system["content"][-1] == {"type": "text", "text": "You are a test.", **MARKER}
    assert "cache_control" not in json.dumps([first, answer])
    assert newest["content"][-1] == {"type": "text", "text": "hi", **MARKER}
    tools = to_tools((READ, BASH), "anthropic")
    assert ["cache_control" in tool for tool in tools] == [False, True]
    assert "cache_control" not in json.dumps(
        [to_messages(asked, "openai"), to_tools((READ, BASH), "openai")]
    )


def test_no_tools_is_an_empty_list() -> None:
    assert to_tools((), "anthropic") == []


MESSAGES = st.lists(
    st.tuples(
        st.text(min_size=1, max_size=20), st.integers(0, 3), st.booleans(), st.text(max_size=30)
    ),
    min_size=1,
    max_size=5,
)


def transcript(rounds: list[tuple[str, int, bool, str]]) -> list[Message]:
    """Prompt, answer with calls, results, and so on; always ends with input."""
    messages: list[Message] = []
    for number, (text, count, picture, output) in enumerate(rounds):
        calls = tuple(
            ToolCall(id=f"call_{number}_{n}", name="read", arguments=output) for n in range(count)
        )
        content = (TextPart(text=output), *((IMAGE,) if picture else ()))
        messages += [
            UserMessage.from_text(text),
            AssistantMessage(text=text, thinking=(SIGNED,), calls=calls),
        ]
        messages += [ToolMessage(call_id=call.id, name="read", content=content) for call in calls]
    return [*messages, USER]


@given(MESSAGES)
def test_any_transcript_is_accepted_by_a_strict_openai_server(
    rounds: list[tuple[str, int, bool, str]],
) -> None:
    body = {
        "model": "m",
        "tools": [1],
        "messages": to_messages(request(*transcript(rounds)), "openai"),
    }
    assert openai_problems(body) == []


@pytest.mark.parametrize("family", ["anthropic", "openai"])
@given(rounds=MESSAGES)
def test_a_request_only_appends_to_the_one_before(
    family: Family, rounds: list[tuple[str, int, bool, str]]
) -> None:
    """But for the cache marker, which moves with the newest message."""
    whole = transcript(rounds)
    ends = [end for end in range(len(whole)) if whole[end].role == "user"]
    requests = [to_messages(request(*whole[: end + 1]), family) for end in ends]
    for before, after in itertools.pairwise(requests):
        assert (
            json.dumps(after)
            .replace(MARKER_TEXT, "")
            .startswith(json.dumps(before).replace(MARKER_TEXT, "")[:-1])
        )


@pytest.mark.parametrize(
    ("thinking", "thinks"),
    [
        ((), False),
        ((Thinking(text="unsigned"),), False),
        ((Thinking(text="hm", signature="sig"),), True),
    ],
)
def test_thinking_is_not_asked_for_in_the_middle_of_a_turn_that_began_without(
    thinking: tuple[Thinking, ...], thinks: bool
) -> None:
    """Anthropic refuses such a request; a fallback model, or another level, would run into it."""
    asked: list[Message] = [UserMessage.from_text("hi")]
    asked += [AssistantMessage(calls=(CALL,), thinking=thinking), result(CALL, "x")]
    assert may_think(asked) is thinks
    paused = AssistantMessage(text="wait", thinking=thinking, stop="paused")
    assert may_think([asked[0], paused, AssistantMessage(calls=(CALL,)), asked[2]]) is thinks
    assert may_think([*asked, AssistantMessage(text="done"), UserMessage.from_text("more")])


@for_each(("tokens", "limit"), [(500, 64_000), (30_000, 64_000), (90_000, 32_000), (5000, 4000)])
def test_the_limit_of_an_answer_is_above_its_budget_of_thought(tokens: int, limit: int) -> None:
    facts = {"supports_reasoning": True, "max_output_tokens": limit}
    sent = thinking_arguments(tokens, "anthropic", 8192, facts)
    assert 1024 <= sent["thinking"]["budget_tokens"] < sent["max_tokens"] <= limit


@for_each(
    ("facts", "word"),
    [
        ({}, "none"),
        ({"supports_reasoning": True, "supports_none_reasoning_effort": True}, "none"),
        ({"supports_reasoning": True, "supports_minimal_reasoning_effort": True}, "minimal"),
        ({"supports_reasoning": True}, "low"),
        ({"max_input_tokens": 1}, None),
    ],
)
def test_off_is_the_least_that_a_model_of_openais_format_knows(
    facts: dict[str, object], word: str | None
) -> None:
    assert thinking_arguments("off", "openai", 8192, facts).get("reasoning_effort") == word
