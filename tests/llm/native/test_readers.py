"""What the native lane's readers make of streams that litellm gets wrong, or that end in an
error."""

from typing import get_args

import pytest

from codeagent.core.messages import AssistantMessage, Usage
from codeagent.llm.errors import ProviderError
from codeagent.llm.native import format_of
from codeagent.llm.providers import WireFormat
from codeagent.llm.stream import Delta, StreamPiece
from tests.llm.native.both_lanes import read_stream
from tests.llm.native.made_streams import Json, blocks, chat, responses, sse, text, use
from tests.table import for_each

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_01", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_01", "content": []}
QUERY = [{"type": "input_json_delta", "partial_json": '{"query": "x"}'}]


def read(wire: WireFormat, raw: bytes) -> AssistantMessage:
    return read_stream(wire, raw)[0]


def thought(message: AssistantMessage) -> list[str]:
    return [block.text for block in message.thinking]


def calls(message: AssistantMessage) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in message.calls]


def test_tools_that_the_provider_runs_are_no_calls_of_ours() -> None:
    raw = blocks(
        text("Let me see. "),
        (SEARCH, QUERY),
        (FOUND, []),
        text("Found."),
        use('{"path": "a"}'),
        stop="tool_use",
    )
    message = read("anthropic", raw)
    assert message.text == "Let me see. Found."
    assert calls(message) == [("read", '{"path": "a"}')]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert calls(read("anthropic", blocks(use(), stop="tool_use"))) == [("read", "{}")]


def test_calls_whose_blocks_all_have_one_index_are_told_apart() -> None:
    events: list[Json] = []
    for number, pieces in enumerate((['{"a":', "1}"], ["{}"])):
        block, deltas = use(*pieces, id=f"toolu_0000000{number}")
        events += [{"type": "content_block_start", "content_block": block}]
        events += [{"type": "content_block_delta", "delta": delta} for delta in deltas]
        events += [{"type": "content_block_stop"}]
    message = read("anthropic", sse([*events, {"type": "message_stop"}]))
    assert calls(message) == [("read", '{"a":1}'), ("read", "{}")]


def test_an_answer_that_fills_the_context_window_is_at_its_limit() -> None:
    assert (
        read("anthropic", blocks(text("a"), stop="model_context_window_exceeded")).stop == "length"
    )


def test_a_message_that_ends_without_a_reason_has_ended() -> None:
    assert read("anthropic", blocks(text("a"), stop=None)).stop == "end"


def test_a_ping_is_a_sign_of_life() -> None:
    assert [*format_of("anthropic").reader().read({"type": "ping"})] == [StreamPiece(Delta(), None)]


def test_later_figures_of_anthropic_count_everything_again() -> None:
    start = {
        "input_tokens": 9,
        "cache_read_input_tokens": 700,
        "cache_creation_input_tokens": 200,
        "output_tokens": 1,
    }
    later = {"input_tokens": 20, "cache_read_input_tokens": 0, "output_tokens": 30}
    events = [
        {"type": "message_start", "message": {"usage": start}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {**later, "output_tokens_details": {"thinking_tokens": 12}},
        },
    ]
    assert read_stream("anthropic", sse(events))[1] == Usage(
        input_tokens=920,
        output_tokens=30,
        cache_read_tokens=700,
        cache_write_tokens=200,
        reasoning_tokens=12,
    )


def test_reasoning_of_the_responses_api_is_heard_in_whatever_form() -> None:
    summary = responses(
        ("reasoning_summary_part.added", {"summary_index": 0}),
        ("reasoning_summary_text.delta", {"delta": "one", "summary_index": 0}),
        ("reasoning_summary_part.added", {"summary_index": 1}),
        ("reasoning_summary_text.delta", {"delta": "two", "summary_index": 1}),
    )
    assert thought(read("responses", summary)) == ["one\ntwo"]
    assert thought(read("responses", responses(("reasoning_text.delta", {"delta": "hm"})))) == [
        "hm"
    ]


def test_a_call_that_begins_with_its_arguments_gets_its_name_at_its_end() -> None:
    whole = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_abcd1234",
        "name": "read",
        "arguments": "{}",
    }
    message = read(
        "responses",
        responses(
            ("function_call_arguments.delta", {"delta": "{}"}),
            ("output_item.done", {"item": whole}),
        ),
    )
    assert [(call.id, call.name, call.arguments) for call in message.calls] == [
        ("call_abcd1234", "read", "{}")
    ]


def test_a_text_that_only_the_whole_response_has_is_kept() -> None:
    parts = [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}]
    output = [{"type": "message", "content": parts}]
    assert read("responses", responses(output=output)).text == "ab"
    assert (
        read("responses", responses(("output_text.delta", {"delta": "ab"}), output=output)).text
        == "ab"
    )


def test_figures_of_the_responses_api_are_read() -> None:
    figures = {
        "input_tokens": 90,
        "output_tokens": 30,
        "input_tokens_details": {"cached_tokens": 64},
        "output_tokens_details": {"reasoning_tokens": 20},
    }
    assert read_stream("responses", responses(usage=figures))[1] == Usage(
        input_tokens=90, output_tokens=30, cache_read_tokens=64, reasoning_tokens=20
    )


def test_a_filtered_response_is_a_refusal() -> None:
    raw = responses(status="incomplete", incomplete_details={"reason": "content_filter"})
    assert read("responses", raw).stop == "content_filter"


def test_a_cost_that_the_provider_names_is_kept() -> None:
    raw = chat({"content": "x"}, usage={"prompt_tokens": 9, "completion_tokens": 3, "cost": 0.5})
    usage = read_stream("chat", raw)[1]
    assert usage is not None
    assert usage.cost_usd == 0.5


@for_each(
    ("wire", "event", "message"),
    [
        ("chat", {"error": {"message": "no", "code": 400}}, "no"),
        ("chat", {"error": "no", "choices": []}, "no"),
        (
            "anthropic",
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            "Overloaded",
        ),
        (
            "anthropic",
            {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}},
            "slow",
        ),
        ("anthropic", {"type": "error", "error": {"type": "of_a_new_kind", "message": "no"}}, "no"),
        ("responses", {"type": "error", "code": "server_error", "message": "no"}, "no"),
        (
            "responses",
            {
                "type": "response.failed",
                "response": {"error": {"code": "rate_limit_exceeded", "message": "slow"}},
            },
            "slow",
        ),
    ],
)
def test_an_error_event_is_raised_with_what_it_says(
    wire: WireFormat, event: Json, message: str
) -> None:
    with pytest.raises(ProviderError) as caught:
        [*format_of(wire).reader().read(event)]
    assert caught.value.body["message"] == message


@for_each(
    "event",
    [
        {},
        {"type": None},
        {
            "type": "content_block_delta",
            "index": 7,
            "delta": {"type": "input_json_delta", "partial_json": "{}"},
        },
        {"type": "content_block_delta", "delta": None},
        {"type": "content_block_start", "content_block": None},
        {"type": "message_start"},
        {"type": "message_delta"},
        {"type": "response.output_text.delta", "delta": None},
        {"type": "response.output_item.added", "item": None},
        {"type": "response.function_call_arguments.delta"},
        {"type": "response.function_call_arguments.done"},
        {"choices": None, "usage": None},
        {"choices": [{"delta": None}]},
        {"choices": [{}], "usage": {}},
    ],
)
def test_an_event_that_says_nothing_adds_nothing(event: Json) -> None:
    for form in map(format_of, get_args(WireFormat)):
        assert all(piece == StreamPiece(Delta(), None) for piece in form.reader().read(event))
