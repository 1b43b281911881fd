"""A stream says the same to the native lane's readers as to litellm's lane, however the server puts
it."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.core.errors import ModelError
from codeagent.core.model import TextPiece
from codeagent.llm.native.model import NativeModel
from codeagent.llm.providers import WireFormat
from tests.effort import times
from tests.llm.asking import request
from tests.llm.native.both_lanes import natively, through_litellm
from tests.llm.native.made_streams import blocks, call, chat, responses, sse, text, use
from tests.servers import Turn, anthropic_stream, openai_server, openai_stream, responses_stream

pytestmark = pytest.mark.xdist_group("litellm")  # the worker that imports it
CALLS = (("read", {"path": "größe.py"}), ("bash", {"command": "ls 😀"}), ("read", {}))
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}


ITEM = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "call_abcd1234",
    "name": "read",
    "arguments": "",
}
WHOLE = {**ITEM, "arguments": '{"path": "a"}'}
NO_ID = {key: value for key, value in ITEM.items() if key != "call_id"}
STREAMS: Mapping[WireFormat, Mapping[str, bytes]] = {
    "chat": {
        "everything": openai_stream(Turn(text="Größe 😀 is fine.", reasoning="hm", calls=CALLS)),
        "no usage": openai_stream(Turn(text="a", usage=None)),
        "at the limit": openai_stream(
            Turn(text="a", calls=(("write", '{"path": "a", "con'),), stop="length")
        ),
        "refused": openai_stream(Turn(stop="content_filter", text="no")),
        "no index": chat(
            call('{"path":"a"}', "read", id="call_aaaa"),
            call("{}", "bash", id="call_bbbb"),
            finish="tool_calls",
        ),
        "no id": chat(call('{"path":', "read", index=0), call('"a"}', index=0)),
        "one index, two ids": chat(
            call("{}", "read", index=0, id="call_aaaa"), call("{}", "bash", index=0, id="call_bbbb")
        ),
        "name in every piece": chat(
            call('{"a":', "read", index=0, id="call_aaaa"), call("1}", "read", index=0, id="")
        ),
        "whole at the end": chat(
            {"content": "x"}, call('{"path":"a"}', "read", index=0, id="call_aaaa")
        ),
        "nulls": chat(
            {"content": None, "tool_calls": None, "reasoning_content": None, "refusal": None}, {}
        ),
        "content in parts": chat({"content": [{"type": "text", "text": "in parts"}]}),
        "thinking in parts": chat(
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
            {"content": "x"},
        ),
        "reasoning": chat({"reasoning": "hm"}, {"content": "x"}),
        "reasoning twice": chat({"reasoning": "hm", "reasoning_content": "hm"}, {"content": "x"}),
        "refusal": chat({"refusal": "no"}),
        "function_call": chat(
            {"function_call": {"name": "read", "arguments": '{"a":1}'}}, finish="function_call"
        ),
        "usage of groq": chat({"content": "x"}, x_groq={"usage": USAGE}),
        "no reason, usage last": chat({"content": "x"}, finish=None, usage=USAGE),
        "no reason, no usage": chat({"content": "x"}, finish=None),
        "cached": chat(
            {"content": "x"}, usage={**USAGE, "prompt_tokens_details": {"cached_tokens": 4}}
        ),
        "cache hits": chat({"content": "x"}, usage={**USAGE, "prompt_cache_hit_tokens": 4}),
        "half characters": chat({"content": "a\ud83d"}, {"content": "\ude00b"}),
    },
    "anthropic": {
        "everything": anthropic_stream(
            Turn(
                thinking=(
                    ("I wonder, größe?", "sig/+=="),
                    ("", "opaque=="),
                    ("Then again.", "sig2"),
                ),
                text="Größe 😀 is fine.",
                calls=CALLS,
                usage={"input": 1000, "output": 20, "cache_read": 700, "cache_write": 200},
            )
        ),
        "a refusal": blocks(text("I can"), stop="refusal"),
        "the limit": blocks(use('{"pa'), stop="max_tokens"),
        "the window": blocks(text("a"), stop="model_context_window_exceeded"),
        "a pause": blocks(text("a"), stop="pause_turn"),
        "input with the start": blocks(use("", input={"path": "größe"}), stop="tool_use"),
        "no input": blocks(use(), stop="tool_use"),
        "text with the start": blocks(({"type": "text", "text": "a"}, text("b")[1])),
        "citations": blocks(
            (
                text()[0],
                [{"type": "citations_delta", "citation": {"cited_text": "c"}}, *text("cited")[1]],
            )
        ),
        "cached": blocks(text("a"), cache_read_input_tokens=700, cache_creation_input_tokens=200),
    },
    "responses": {
        "everything": responses_stream(
            Turn(
                reasoning="I wonder, größe?",
                text="Größe 😀 is fine.",
                calls=CALLS,
                ids=("call_abcd1234", "call_abcd5678"),
            )
        ),
        "text and calls": responses(
            ("output_text.delta", {"delta": "hi", "content_index": 0}),
            ("output_item.added", {"item": ITEM, "output_index": 1}),
            ("function_call_arguments.delta", {"delta": '{"path"', "output_index": 1}),
            ("function_call_arguments.delta", {"delta": ': "a"}', "output_index": 1}),
            ("function_call_arguments.done", {**WHOLE, "output_index": 1}),
            ("output_item.done", {"item": WHOLE, "output_index": 1}),
        ),
        "no deltas": responses(
            ("output_item.added", {"item": ITEM}), ("function_call_arguments.done", WHOLE)
        ),
        "id at the item's end": responses(
            ("output_item.added", {"item": NO_ID}),
            ("function_call_arguments.done", WHOLE),
            ("output_item.done", {"item": WHOLE}),
        ),
        "id at the very end": responses(
            ("output_item.added", {"item": NO_ID}),
            ("function_call_arguments.done", WHOLE),
            output=[WHOLE],
        ),
        "only the item's end": responses(("output_item.done", {"item": WHOLE}), output=[WHOLE]),
        "only the end": responses(output=[WHOLE]),
        "a summary": responses(
            ("reasoning_summary_text.delta", {"delta": "hm", "summary_index": 0}),
            ("output_text.delta", {"delta": "x", "content_index": 0}),
        ),
        "the limit": responses(
            ("output_text.delta", {"delta": "x", "content_index": 0}),
            status="incomplete",
            incomplete_details={"reason": "max_output_tokens"},
        ),
    },
}


@pytest.mark.parametrize("wire", STREAMS)
def test_a_stream_says_the_same_in_both_lanes(wire: WireFormat) -> None:
    ours = {name: natively(wire, raw) for name, raw in STREAMS[wire].items()}
    assert ours == dict(
        zip(STREAMS[wire], through_litellm(wire, [*STREAMS[wire].values()]), strict=True)
    )


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=40)
ARGUMENTS = st.dictionaries(st.sampled_from(["path", "größe"]), WORDS | st.integers(), max_size=2)
TURNS = st.builds(
    Turn,
    text=WORDS,
    calls=st.lists(st.tuples(st.sampled_from(["read", "bash"]), ARGUMENTS), max_size=3).map(tuple),
    usage=st.fixed_dictionaries(
        {"input": st.integers(300, 9999), "output": st.integers(1, 999)}
    ).map(lambda usage: {**usage, "cache_read": usage["input"] // 3}),
)
REASONED = st.builds(
    lambda turn, reasoning: Turn(**{**vars(turn), "reasoning": reasoning}), TURNS, WORDS
)
THOUGHT = st.builds(
    lambda turn, blocks: Turn(**{**vars(turn), "thinking": blocks}),
    TURNS,
    st.lists(st.tuples(WORDS, st.sampled_from(["sig1==", "sig2"])), max_size=3).map(tuple),
)


def sloppy(raw: bytes, drop: frozenset[str]) -> bytes:
    """Leave fields out of every call piece, as some servers do."""
    events = [
        json.loads(line[6:])
        for line in raw.decode().split("\n\n")
        if line not in ("", "data: [DONE]")
    ]
    for event in events:
        for choice in event["choices"]:
            for piece in choice["delta"].get("tool_calls", ()):
                for name in drop & piece.keys():
                    del piece[name]
    return sse([*events, "[DONE]"])


@settings(max_examples=times(6))
@given(REASONED, st.sampled_from([frozenset(), frozenset({"type"}), frozenset({"id"})]))
def test_any_chat_completion_says_the_same(turn: Turn, drop: frozenset[str]) -> None:
    raw = sloppy(openai_stream(turn), drop)
    assert [natively("chat", raw)] == through_litellm("chat", [raw])


@settings(max_examples=times(6))
@given(THOUGHT)
def test_any_message_of_anthropic_says_the_same(turn: Turn) -> None:
    raw = anthropic_stream(turn)
    assert [natively("anthropic", raw)] == through_litellm("anthropic", [raw])


async def test_pieces_of_text_that_arrive_together_are_told_as_one_and_before_what_fails_after_them() -> (
    None
):
    words = [
        {"choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]}
    ] * 400
    async with openai_server([Turn(raw=sse([*words, {"error": {"message": "gone"}}]))]) as fake:
        stream, told = (
            NativeModel("openai/fake", api_base=fake.base_url, api_key="k").stream(request()),
            [],
        )
        with pytest.raises(ModelError, match="gone"):
            async for event in stream:
                told += [event.text] if isinstance(event, TextPiece) else []
    assert "".join(told) == "word " * 400
    assert len(told) < 200
