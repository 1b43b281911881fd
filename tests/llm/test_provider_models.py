"""Both lanes behind the port, over real HTTP: the wire formats in five-byte pieces, and every
connection closed."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import pytest

from codeagent.core.errors import ModelError
from codeagent.core.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    Thinking,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from codeagent.core.model import CallClosed, TextPiece
from codeagent.llm import provider_model
from codeagent.llm.factory import open_model
from codeagent.llm.litellm_model import LitellmModel
from codeagent.llm.provider_model import ProviderModel
from codeagent.llm.server_knowledge import ServerKnowledge
from tests.llm.asking import LANES, LITELLM_WORKER, ask, request, result
from tests.servers import (
    FakeProvider,
    Turn,
    anthropic_server,
    anthropic_stream,
    openai_server,
    responses_server,
    responses_stream,
)

Server = Callable[..., AbstractAsyncContextManager[FakeProvider]]
USER = UserMessage.from_text("fix it")
CALLS = (("read", {"path": "größe.py"}), ("bash", {"command": "ls 😀"}), ("read", {}))
BOTH = pytest.mark.parametrize(
    ("server", "name"),
    [(openai_server, "fake"), (anthropic_server, "anthropic/claude-sonnet-4-5")],
    ids=["openai", "anthropic"],
)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE",
        "ANTHROPIC_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(params=LANES)
async def model_at(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., ProviderModel]]:
    opened: list[ProviderModel] = []

    def make(server: FakeProvider, name: str, **options: object) -> ProviderModel:
        opened.append(request.param(name, api_base=server.base_url, **options))
        return opened[-1]

    yield make
    for model in opened:
        await model.close()


ModelAt = Callable[..., ProviderModel]


@BOTH
async def test_an_answer_with_parallel_calls_comes_through_in_five_byte_pieces(
    server: Server, name: str, model_at: ModelAt
) -> None:
    turn = Turn(
        text="Größe 😀 is fine.",
        calls=CALLS,
        usage={"input": 1000, "output": 20, "cache_read": 700},
    )
    async with server([turn], chunk=5) as fake:
        heard = await ask(model_at(fake, name))
    assert heard.text == heard.message.text == "Größe 😀 is fine."
    assert [(call.name, call.arguments) for call in heard.message.calls] == [
        ("read", '{"path": "gr\\u00f6\\u00dfe.py"}'),
        ("bash", '{"command": "ls \\ud83d\\ude00"}'),
        ("read", "{}"),
    ]
    assert heard.closed == list(heard.message.calls)
    assert (heard.message.stop, heard.message.model) == ("tool_calls", name)
    usage = heard.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.estimated) == (
        1000,
        20,
        700,
        False,
    )


async def test_signed_thinking_comes_back_to_its_provider_exactly(model_at: ModelAt) -> None:
    """The fake rejects a signature or a text it has not sent, and any result out of place."""
    thinking = (("I wonder, größe?", "sig/+=="), ("", "opaque=="), ("Then again.", "sig2"))
    turns = [
        Turn(thinking=thinking, text="Reading.", calls=CALLS),
        Turn(text="done", thinking=(("ok", "sig3"),)),
        Turn(text="bye"),
    ]
    async with anthropic_server(turns, chunk=5) as fake:
        model = model_at(fake, "anthropic/claude-sonnet-4-5", thinking=2000)
        first = (await ask(model, request(USER))).message
        assert first.thinking == (
            Thinking(text="I wonder, größe?", signature="sig/+=="),
            Thinking(redacted="opaque=="),
            Thinking(text="Then again.", signature="sig2"),
        )
        transcript: list[Message] = [USER, first, *(result(call, "out") for call in first.calls)]
        second = (await ask(model, request(*transcript))).message
        third = (await ask(model, request(*transcript, second, USER))).message
        assert (second.text, third.text) == ("done", "bye")
        assert fake.rejected == []
        sent = fake.requests[-1].body
    assert [block["type"] for block in sent["messages"][1]["content"]] == [
        "thinking",
        "redacted_thinking",
        "thinking",
        "text",
        "tool_use",
        "tool_use",
        "tool_use",
    ]
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert sent["max_tokens"] == 34_000


async def _second_request(
    fake: FakeProvider, model: ProviderModel, **fields: bool
) -> list[dict[str, Any]]:
    """The messages sent after the calls of the first answer were answered, in the order of the
    calls."""
    first = (await ask(model, request(USER))).message
    texts = (
        result(call, "out", is_error=fields.get(f"error_{n}", False))
        for n, call in enumerate(first.calls)
    )
    await ask(model, request(USER, first, *texts))
    assert fake.rejected == []
    messages: list[dict[str, Any]] = fake.requests[-1].body["messages"]
    return messages


async def test_anthropic_is_told_which_call_failed_by_its_flag(model_at: ModelAt) -> None:
    async with anthropic_server([Turn(calls=CALLS), Turn(text="done")]) as fake:
        sent = await _second_request(
            fake, model_at(fake, "anthropic/claude-sonnet-4-5"), error_1=True
        )
    results = sent[-1]["content"]
    assert [(block["type"], block.get("is_error")) for block in results] == [
        ("tool_result", None),
        ("tool_result", True),
        ("tool_result", None),
    ]
    assert results[1]["content"] == [{"type": "text", "text": "out"}]


async def test_an_openai_server_is_told_which_call_failed_by_the_text(model_at: ModelAt) -> None:
    async with openai_server([Turn(calls=CALLS), Turn(text="done")]) as fake:
        sent = await _second_request(fake, model_at(fake, "fake"), error_1=True)
    assert [message["content"] for message in sent[-3:]] == ["out", "[error]\nout", "out"]


@BOTH
async def test_a_call_without_a_usable_name_does_not_spoil_the_next_request(
    server: Server, name: str, model_at: ModelAt
) -> None:
    """The fake rejects what providers reject: a name that is not 1 to 64 letters, digits, _ or
    -."""
    async with server(
        [Turn(calls=(("", {}), ("read the file", {"path": "a"}))), Turn(text="done")]
    ) as fake:
        model = model_at(fake, name)
        await _second_request(fake, model, error_0=True, error_1=True)
        sent = str(fake.requests[-1].body)
    assert "invalid_tool_name" in sent
    assert "read_the_file" in sent


async def test_reasoning_of_an_openai_server_is_heard_and_not_sent_back(model_at: ModelAt) -> None:
    async with openai_server(
        [Turn(reasoning="let me see", text="ok", calls=CALLS), Turn(text="done")], chunk=5
    ) as fake:
        model = model_at(fake, "fake")
        heard = await ask(model, request(USER))
        assert heard.reasoning == "let me see"
        assert heard.message.thinking == (Thinking(text="let me see"),)
        results = [result(call, "out") for call in heard.message.calls]
        assert (await ask(model, request(USER, heard.message, *results))).message.text == "done"
        assert fake.rejected == []


@BOTH
async def test_the_worst_history_is_accepted(server: Server, name: str, model_at: ModelAt) -> None:
    """Malformed arguments, no text, empty output, images, a cut answer, two inputs in a row."""
    bad, good = (
        ToolCall(id="call_0001", name="read", arguments='{"pa'),
        ToolCall(id="call_0002", name="read", arguments="{}"),
    )
    picture = ImagePart(media_type="image/png", data="iVBORw0KGgo=")
    messages = [
        USER,
        AssistantMessage(calls=(bad, good), thinking=(Thinking(text="unsigned"),)),
        result(bad, "Invalid arguments", is_error=True),
        ToolMessage(call_id=good.id, name="read", content=(TextPart(text=""), picture)),
        AssistantMessage(text="half", stop="cut"),
        UserMessage(content=(TextPart(text="look"), picture)),
        UserMessage.from_text("go on", "steer"),
    ]
    async with server([Turn(text="ok")]) as fake:
        heard = await ask(model_at(fake, name), request(*messages))
        assert fake.rejected == []
    assert heard.message.text == "ok"


PICTURE = ImagePart(media_type="image/png", data="iVBORw0KGgo=")
UNREAD = "(an image, which this model cannot read)"
_READ = ToolCall(id="call_0001", name="read", arguments="{}")
PICTURES = (
    UserMessage(content=(TextPart(text="look"), PICTURE)),
    AssistantMessage(calls=(_READ,)),
    ToolMessage(call_id=_READ.id, name="read", content=(TextPart(text="a.png"), PICTURE)),
)


@pytest.mark.parametrize(
    ("server", "name"),
    [
        (openai_server, "fake"),
        (anthropic_server, "anthropic/claude-sonnet-4-5"),
        (responses_server, "openai/responses/gpt-5"),
    ],
)
async def test_images_of_the_history_are_words_for_a_model_that_sees_none(
    server: Server, name: str, model_at: ModelAt
) -> None:
    """The prompt was for another model, or a tool of this one read the file."""
    async with server([Turn(text="ok"), Turn(text="ok")]) as fake:
        await ask(model_at(fake, name), request(*PICTURES))
        fake.facts["/api/show"] = {"capabilities": ["tools"]}
        learned = ServerKnowledge(fake.base_url, {}, "m")
        await ask(model_at(fake, name, learned=learned), request(*PICTURES))
        seen, unseen = (json.dumps(one.body) for one in fake.requests)
        assert fake.rejected == []
    assert (seen.count(PICTURE.data), seen.count(UNREAD)) == (2, 0)
    assert (unseen.count("iVBOR"), unseen.count(UNREAD)) == (0, 2)


@pytest.mark.parametrize("name", ["openai/gpt-3.5-turbo", "deepseek/deepseek-chat"])
async def test_one_text_stands_for_an_image_to_a_model_that_the_table_says_sees_none(
    name: str, model_at: ModelAt
) -> None:
    async with openai_server([Turn(text="ok")]) as fake:
        await ask(model_at(fake, name, api_key="k"), request(*PICTURES))
        _, prompt, _, read = fake.requests[0].body["messages"]
    assert prompt["content"] == f"look\n{UNREAD}"
    assert read["content"] == f"a.png\n{UNREAD}"


async def test_cache_markers_reach_anthropic_at_three_places(model_at: ModelAt) -> None:
    async with anthropic_server([Turn(text="a")]) as fake:
        await ask(
            model_at(fake, "anthropic/claude-sonnet-4-5"),
            request(USER, AssistantMessage(text="b"), USER),
        )
        body = fake.requests[0].body
    marker = {"type": "ephemeral"}
    assert body["system"][-1]["cache_control"] == marker
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, marker]
    assert body["messages"][-1]["content"][-1]["cache_control"] == marker
    assert str(body).count("cache_control") == 3


@BOTH
async def test_tools_are_always_sent_and_the_limit_if_it_is_known(
    server: Server, name: str, model_at: ModelAt
) -> None:
    limit = None if name == "fake" else 32_000
    async with server([Turn(text="a")]) as fake:
        await ask(model_at(fake, name))
        body = fake.requests[0].body
    assert (body.get("max_tokens"), len(body["tools"]), body["stream"]) == (limit, 2, True)


@BOTH
async def test_a_later_request_begins_with_the_bytes_of_the_one_before(
    server: Server, name: str, model_at: ModelAt
) -> None:
    async with server([Turn(text="a", calls=CALLS[:1]), Turn(text="b")]) as fake:
        model = model_at(fake, name)
        first = (await ask(model, request(USER))).message
        await ask(model, request(USER, first, result(first.calls[0], "x")))
        before, after = (without_markers(asked.body) for asked in fake.requests)
    assert after["messages"][: len(before["messages"])] == before["messages"]
    assert {**after, "messages": []} == {**before, "messages": []}
    assert list(after) == list(before)


def without_markers(value: object) -> object:
    match value:
        case dict():
            return {
                key: without_markers(each) for key, each in value.items() if key != "cache_control"
            }
        case list():
            return [without_markers(each) for each in value]
    return value


async def test_anthropic_usage_counts_cached_tokens_as_input_and_has_a_price(
    model_at: ModelAt,
) -> None:
    turn = Turn(
        text="a", usage={"input": 1000, "output": 10, "cache_read": 700, "cache_write": 200}
    )
    async with anthropic_server([turn]) as fake:
        usage = (await ask(model_at(fake, "anthropic/claude-sonnet-4-5"))).usage
    expected = (100 * 3 + 200 * 3.75 + 700 * 0.3 + 10 * 15) / 1_000_000
    assert usage.cost_usd == pytest.approx(expected)
    assert replace(usage, cost_usd=None, reasoning_tokens=0) == Usage(
        input_tokens=1000, output_tokens=10, cache_read_tokens=700, cache_write_tokens=200
    )


async def test_a_model_without_a_price_has_no_cost(model_at: ModelAt) -> None:
    async with openai_server([Turn(text="a")]) as fake:
        model = model_at(fake, "qwen3")
        assert (await ask(model)).usage.cost_usd is None
        assert model.context_window is None


async def test_usage_the_provider_did_not_send_is_estimated_and_says_so(model_at: ModelAt) -> None:
    async with openai_server([Turn(text="word " * 100, usage=None)]) as fake:
        usage = (
            await ask(model_at(fake, "fake"), request(UserMessage.from_text("word " * 1000)))
        ).usage
    assert usage.estimated
    assert 1000 < usage.input_tokens < 1300
    assert 90 < usage.output_tokens < 120


async def test_limits_of_known_models_are_known(model_at: ModelAt) -> None:
    async with openai_server([Turn(text="a")]) as fake:
        model = model_at(fake, "openai/gpt-4o")
        assert model.context_window is None
        await ask(model)
        assert model.context_window == 128_000
        assert fake.requests[0].body["max_tokens"] == 16_384


async def test_an_answer_at_the_limit_says_length(model_at: ModelAt) -> None:
    async with openai_server(
        [Turn(text="a", calls=(("write", '{"path": "a", "con'),), stop="length")]
    ) as fake:
        heard = await ask(model_at(fake, "fake"))
    assert heard.message.stop == "length"
    assert heard.closed == []


@BOTH
async def test_a_refusal_without_a_word_is_an_answer_that_says_so(
    server: Server, name: str, model_at: ModelAt
) -> None:
    async with server(
        [Turn(stop="content_filter" if server is openai_server else "refusal")]
    ) as fake:
        message = (await ask(model_at(fake, name))).message
    assert (message.stop, message.text, message.calls) == ("content_filter", "", ())


async def test_an_input_that_comes_whole_with_its_block_is_kept(model_at: ModelAt) -> None:
    events = (
        b'{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"x","content":[],'
        b'"stop_reason":null,"usage":{"input_tokens":9,"output_tokens":1}}}',
        b'{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_01abcd","name":"read",'
        b'"input":{"path":"a b"}}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}',
        b'{"type":"content_block_stop","index":0}',
        b'{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}',
        b'{"type":"message_stop"}',
    )
    async with anthropic_server(
        [Turn(raw=b"".join(b"data: " + event + b"\n\n" for event in events))]
    ) as fake:
        message = (await ask(model_at(fake, "anthropic/x"))).message
    assert [(call.id, call.arguments) for call in message.calls] == [
        ("toolu_01abcd", '{"path": "a b"}')
    ]


WHOLE = {
    "chat": {
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "größe",
                    "reasoning_content": "hm",
                    "tool_calls": [
                        {
                            "id": "call_abcd1234",
                            "type": "function",
                            "function": {"name": "read", "arguments": "{}"},
                        },
                        {
                            "id": "call_abcd5678",
                            "type": "function",
                            "function": {"name": "bash", "arguments": "{}"},
                        },
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
    },
    "messages": {
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "text", "text": "größe"},
            {"type": "tool_use", "id": "toolu_abcd1234", "name": "read", "input": {}},
            {"type": "tool_use", "id": "toolu_abcd5678", "name": "bash", "input": {}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 9, "output_tokens": 3},
    },
    "responses": {
        "object": "response",
        "id": "r",
        "status": "completed",
        "output": [
            {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "größe"}]},
            {
                "type": "function_call",
                "id": "f1",
                "call_id": "call_abcd1234",
                "name": "read",
                "arguments": "{}",
            },
            {
                "type": "function_call",
                "id": "f2",
                "call_id": "call_abcd5678",
                "name": "bash",
                "arguments": "{}",
            },
        ],
        "usage": {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12},
    },
}


@pytest.mark.parametrize(
    ("server", "name", "api"),
    [
        (openai_server, "fake", "chat"),
        (anthropic_server, "anthropic/claude-sonnet-4-5", "messages"),
        (openai_server, "openai/responses/gpt-5", "responses"),
    ],
    ids=["chat", "messages", "responses"],
)
async def test_a_completion_that_comes_whole_is_the_answer(
    server: Server, name: str, api: str, model_at: ModelAt
) -> None:
    page = ("content-type: application/json", json.dumps(WHOLE[api]).encode())
    async with server([Turn(page=page)]) as fake:
        heard = await ask(model_at(fake, name))
    assert (heard.message.text, heard.message.stop) == ("größe", "tool_calls")
    assert [(call.name, call.arguments) for call in heard.message.calls] == [
        ("read", "{}"),
        ("bash", "{}"),
    ]
    assert (heard.usage.input_tokens, heard.usage.output_tokens, heard.usage.estimated) == (
        9,
        3,
        False,
    )
    if api != "responses":
        assert heard.reasoning == "hm"
    if api == "messages":
        assert heard.message.thinking == (Thinking(text="hm", signature="sig"),)


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        pytest.param(
            [
                '{"tool_calls":[{"id":"call_aaaa","function":{"name":"read","arguments":"{\\"path\\":\\"a\\"}"}}]}',
                '{"tool_calls":[{"id":"call_bbbb","function":{"name":"bash","arguments":"{}"}}]}',
            ],
            [("read", '{"path":"a"}'), ("bash", "{}")],
            id="no index",
        ),
        pytest.param(
            [
                '{"tool_calls":[{"index":0,"function":{"name":"read","arguments":"{\\"path\\":"}}]}',
                '{"tool_calls":[{"index":0,"function":{"arguments":"\\"a\\"}"}}]}',
            ],
            [("read", '{"path":"a"}')],
            id="no id",
        ),
        pytest.param(
            [
                '{"tool_calls":[{"index":0,"id":"call_aaaa","function":{"name":"read","arguments":"{}"}}]}',
                '{"tool_calls":[{"index":0,"id":"call_bbbb","function":{"name":"bash","arguments":"{}"}}]}',
            ],
            [("read", "{}"), ("bash", "{}")],
            id="one index, two ids",
        ),
        pytest.param(
            ['{"content":[{"type":"text","text":"in parts"}]}'], [], id="content in parts"
        ),
    ],
)
async def test_sloppy_servers_are_understood(
    deltas: list[str], calls: list[tuple[str, str]], model_at: ModelAt
) -> None:
    lines = [
        f'{{"id":"1","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{delta}}}]}}'
        for delta in deltas
    ]
    lines.append('{"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}')
    raw = "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()
    async with openai_server([Turn(raw=raw)], chunk=5) as fake:
        message = (await ask(model_at(fake, "fake"))).message
    assert [(call.name, call.arguments) for call in message.calls] == calls
    assert message.text == ("in parts" if not calls else "")


def chat_pieces(*deltas: dict[str, Any]) -> bytes:
    chunks = (
        {"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [delta]}}]} for delta in deltas
    )
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode()


def up_to(stream: bytes, event: bytes) -> bytes:
    """Return the stream up to the end of the first such event."""
    return stream[: stream.index(b"\n\n", stream.index(event)) + 2]


ONE = Turn(calls=(("read", {"path": "a"}),))
FIRST = {
    "index": 0,
    "id": "call_abcd1234",
    "function": {"name": "read", "arguments": '{"path": "a"}'},
}
NEXT = {"index": 1, "id": "call_efgh5678", "function": {"name": "read", "arguments": ""}}


@pytest.mark.parametrize(
    ("server", "name", "sent"),
    [
        (openai_server, "fake", chat_pieces(FIRST, NEXT)),
        (
            responses_server,
            "openai/responses/gpt-5",
            up_to(responses_stream(ONE), b"output_item.done"),
        ),
        (
            anthropic_server,
            "anthropic/claude-sonnet-4-5",
            up_to(anthropic_stream(ONE), b"content_block_stop"),
        ),
    ],
    ids=["chat", "responses", "anthropic"],
)
async def test_a_call_is_closed_as_soon_as_its_block_is(
    server: Server, name: str, sent: bytes, model_at: ModelAt
) -> None:
    """The server sends no more than that, and keeps the connection open."""
    async with server([Turn(raw=sent, stall=True)]) as fake:
        stream = model_at(fake, name).stream(request())
        while not isinstance(event := await asyncio.wait_for(anext(stream), 30), CallClosed):
            pass
        await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert (event.call.name, json.loads(event.call.arguments), event.certain) == (
        "read",
        {"path": "a"},
        True,
    )


async def test_models_of_the_responses_api_are_reached_too(model_at: ModelAt) -> None:
    turn = Turn(text="hi", calls=(("read", {}),), usage={"input": 9, "output": 3})
    async with responses_server([turn]) as fake:
        heard = await ask(model_at(fake, "openai/responses/gpt-5"))
        assert fake.requests[0].path == "/v1/responses"
    assert heard.message.text == "hi"
    assert [(each.name, each.arguments) for each in heard.message.calls] == [("read", "{}")]
    assert (heard.usage.input_tokens, heard.usage.output_tokens) == (9, 3)


_ITEM = {"id": "fc_1", "type": "function_call", "name": "read", "arguments": ""}
_WHOLE_ITEM = {**_ITEM, "call_id": "call_abcd1234", "arguments": '{"path": "a"}'}
_ADDED, _DONE = "response.output_item.added", "response.output_item.done"
_ARGUMENTS = "response.function_call_arguments"


@pytest.mark.parametrize(
    ("events", "output"),
    [
        (
            [
                (_ADDED, {"item": _ITEM | {"call_id": "call_abcd1234"}}),
                (f"{_ARGUMENTS}.done", _WHOLE_ITEM),
            ],
            [_WHOLE_ITEM],
        ),
        (
            [
                (_ADDED, {"item": _ITEM}),
                (f"{_ARGUMENTS}.done", _WHOLE_ITEM),
                (_DONE, {"item": _WHOLE_ITEM}),
            ],
            [],
        ),
        ([(_ADDED, {"item": _ITEM | {"call_id": ""}}), (_DONE, {"item": _WHOLE_ITEM})], []),
        ([(_ADDED, {"item": _ITEM}), (f"{_ARGUMENTS}.done", _WHOLE_ITEM)], [_WHOLE_ITEM]),
        ([(_DONE, {"item": _WHOLE_ITEM})], [_WHOLE_ITEM]),
        ([], [_WHOLE_ITEM]),
        (
            [
                (_ADDED, {"item": _ITEM | {"call_id": "call_abcd1234"}}),
                (f"{_ARGUMENTS}.delta", {"delta": '{"path": '}),
                (f"{_ARGUMENTS}.delta", {"delta": ""}),
                (f"{_ARGUMENTS}.delta", {"delta": '"a"}'}),
                (f"{_ARGUMENTS}.done", _WHOLE_ITEM),
                (_DONE, {"item": _WHOLE_ITEM}),
            ],
            [_WHOLE_ITEM],
        ),
    ],
    ids=[
        "no deltas",
        "id at the item's end",
        "empty id",
        "id at the very end",
        "only the end",
        "only all",
        "deltas",
    ],
)
@pytest.mark.parametrize("name", ["openai/responses/gpt-5", "openai/responses/some/local-model"])
async def test_a_call_of_the_responses_api_is_whole_however_the_server_says_it(
    name: str,
    events: list[tuple[str, dict[str, Any]]],
    output: list[dict[str, Any]],
    model_at: ModelAt,
) -> None:
    lines = [
        {"item_id": "fc_1", "output_index": 0, **fields, "type": kind} for kind, fields in events
    ]
    whole = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": output,
    }
    lines.append(
        {
            "type": "response.completed",
            "response": {**whole, "parallel_tool_calls": True, "tools": []},
        }
    )
    raw = "".join(f"data: {json.dumps(line)}\n\n" for line in lines).encode()
    async with openai_server([Turn(raw=raw)]) as fake:
        heard = await ask(model_at(fake, name))
        assert fake.requests[0].body["stream"] is True
    assert [(call.id, call.name, call.arguments) for call in heard.message.calls] == [
        ("call_abcd1234", "read", '{"path": "a"}')
    ]
    assert heard.closed == list(heard.message.calls)


async def test_a_model_may_say_the_same_thing_three_hundred_times(model_at: ModelAt) -> None:
    async with openai_server([Turn(text="again " * 300)]) as fake:
        assert (await ask(model_at(fake, "fake"))).message.text == "again " * 300


async def test_a_server_that_never_says_why_it_stops_ends_with_its_usage(model_at: ModelAt) -> None:
    raw = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
    usage = b'data: {"id":"1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}\n\n'
    async with openai_server([Turn(raw=raw + usage + b"data: [DONE]\n\n"), Turn(raw=raw)]) as fake:
        model = model_at(fake, "fake")
        assert (await ask(model)).message.text == "hi"
        with pytest.raises(ModelError) as caught:
            await ask(model)
    assert caught.value.kind == "cut"


@BOTH
async def test_cancelling_in_the_middle_of_an_answer_closes_the_socket(
    server: Server, name: str, model_at: ModelAt
) -> None:
    async with server([Turn(text="word " * 50, cut_after=900, stall=True)]) as fake:
        task = asyncio.create_task(ask(model_at(fake, name)))
        await fake.streaming.wait()
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(fake.client_left.wait(), 5)


@BOTH
async def test_cancelling_before_the_first_byte_closes_the_socket(
    server: Server, name: str, model_at: ModelAt
) -> None:
    async with server([Turn(text="x", cut_after=0, stall=True)]) as fake:
        task = asyncio.create_task(ask(model_at(fake, name)))
        await fake.streaming.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(fake.client_left.wait(), 5)


async def read_a_piece(
    server: Server, model: Callable[[FakeProvider], ProviderModel], sent: int
) -> None:
    """Stop after the first piece of an answer of which so many bytes come; return once the server
    has noticed."""
    async with server([Turn(text="word " * 50, cut_after=sent, stall=True)]) as fake:
        stream = model(fake).stream(request())
        while not isinstance(await anext(stream), TextPiece):
            pass
        await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
        await asyncio.wait_for(fake.client_left.wait(), 5)


@BOTH
async def test_a_reader_that_stops_early_closes_the_socket(
    server: Server, name: str, model_at: ModelAt
) -> None:
    await read_a_piece(server, lambda fake: model_at(fake, name), sent=900)


@BOTH
async def test_a_reader_that_stops_while_more_has_come_already_closes_the_socket(
    server: Server, name: str, model_at: ModelAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a busy machine: the task that reads is not waiting for the socket, but gives way to the
    event loop."""
    monkeypatch.setattr(provider_model, "_LONGEST_TURN", 0.0)
    await read_a_piece(server, lambda fake: model_at(fake, name), sent=1800)


@BOTH
async def test_requests_share_a_connection_and_close_ends_it(
    server: Server, name: str, model_at: ModelAt
) -> None:
    async with server([Turn(text="a"), Turn(text="b"), Turn(text="c")]) as fake:
        model = model_at(fake, name)
        await ask(model)
        await ask(model)
        assert fake.connections == 1
        await model.close()
        await model.close()
        assert (await ask(model)).message.text == "c"
        assert fake.connections == 2


async def test_closing_one_model_leaves_the_others_alone(model_at: ModelAt) -> None:
    async with openai_server(
        [Turn(text="a"), Turn(text="word " * 50)], chunk=200, delay=0.01
    ) as fake:
        one, other = model_at(fake, "one"), model_at(fake, "other")
        await ask(one)
        task = asyncio.create_task(ask(other))
        await asyncio.sleep(0.05)
        await one.close()
        assert (await task).message.text == "word " * 50


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("openai/gpt-4o", "openai/gpt-4o: no key; set OPENAI_API_KEY in the environment"),
        (
            "claude-sonnet-4-5",
            "claude-sonnet-4-5: no key; set ANTHROPIC_API_KEY in the environment",
        ),
        pytest.param(
            *("gemini/gemini-2.5-flash", "set GEMINI_API_KEY or GOOGLE_API_KEY"),
            marks=pytest.mark.xdist_group("litellm"),
        ),
        pytest.param(
            *("no-such-model", "no-such-model: no provider has this model; write provider/model"),
            marks=pytest.mark.xdist_group("litellm"),
        ),
    ],
)
async def test_what_is_missing_is_said_before_anything_is_sent(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    with pytest.raises(ModelError) as caught:
        await ask(open_model(name))
    assert said in str(caught.value)
    assert not caught.value.retryable


async def test_a_server_of_ones_own_needs_no_key_and_no_provider_in_the_name(
    model_at: ModelAt,
) -> None:
    async with openai_server([Turn(text="a")], repeat=True) as fake:
        for name in ("qwen3", "lmstudio-community/qwen3", "openai/qwen3"):
            await ask(model_at(fake, name))
        sent = [
            (asked.path, asked.body["model"], asked.headers["authorization"])
            for asked in fake.requests
        ]
    path = "/v1/chat/completions"
    assert sent == [
        (path, "qwen3", "Bearer none"),
        (path, "lmstudio-community/qwen3", "Bearer none"),
        (path, "qwen3", "Bearer none"),
    ]


@BOTH
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
async def test_a_server_on_this_machine_is_reached_without_a_proxy(
    server: Server, name: str, host: str, model_at: ModelAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with server([Turn(text="a")]) as fake:
        fake.base_url = fake.base_url.replace("127.0.0.1", host)
        assert (await ask(model_at(fake, name))).message.text == "a"


async def test_a_key_that_is_given_is_the_one_that_is_sent(model_at: ModelAt) -> None:
    async with openai_server([Turn(text="a")]) as fake:
        await ask(model_at(fake, "fake", api_key="given-key"))
        assert fake.requests[0].headers["authorization"] == "Bearer given-key"


@LITELLM_WORKER
async def test_preparing_returns_at_once_and_can_be_repeated() -> None:
    model = LitellmModel("openai/x")
    await model.prepare()
    await model.prepare()
    await model.close()


@LITELLM_WORKER
async def test_a_request_to_a_responses_api_leaves_the_gateway_of_litellms_proxy_unimported() -> (
    None
):
    async with responses_server([Turn(text="ok")]) as server:
        model = LitellmModel("openai/responses/gpt-5", api_base=server.base_url, api_key="k")
        assert (await ask(model)).text == "ok"
        await model.close()
    assert "litellm.proxy._experimental.mcp_server.catalog" not in sys.modules


class _Heard:
    """What was said about limits (a Pacing)."""

    def __init__(self) -> None:
        self.said: list[str] = []

    async def may_begin(self, tokens: int, seconds: float) -> bool:
        return True

    def answered(self, headers: Mapping[str, str]) -> None:
        self.said += [value for name, value in headers.items() if name.startswith("x-ratelimit")]

    def refused(self, retry_after: float | None) -> None:
        self.said.append(f"refused {retry_after}")


async def test_what_answers_and_refusals_say_about_limits_reaches_those_who_share_them(
    model_at: ModelAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = _Heard()
    monkeypatch.setattr(ServerKnowledge, "pacing_of", lambda name: heard)
    told = [{"X-RateLimit-Remaining-Requests": str(left)} for left in (1, 0)]
    refusal = Turn(status=429, headers={**told[1], "retry-after": "7"})
    async with openai_server([Turn(text="done", headers=told[0]), refusal]) as fake:
        model = model_at(fake, "fake")
        await ask(model)
        with pytest.raises(ModelError):
            await ask(model)
    assert heard.said == ["1", "0", "refused 7.0"]
