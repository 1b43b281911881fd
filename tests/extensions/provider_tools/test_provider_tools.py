"""Tools that the provider runs itself: declared on each wire, heard, sent back as they came, and
paid for."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from codeagent.core.errors import ModelError
from codeagent.core.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    ProviderContent,
    ToolCall,
    UserMessage,
    WebSource,
    is_at_work,
)
from codeagent.core.model import ModelRequest, ProviderUse, ToolsLeftOut
from codeagent.core.tool import ToolDefinition
from codeagent.extensions.provider_tools.declared import KnownTools
from codeagent.extensions.text_calls.formats import PROTOCOLS
from codeagent.extensions.text_calls.text_tools import TextToolModel
from codeagent.llm.litellm_model import LitellmModel
from codeagent.llm.native.model import NativeModel
from codeagent.llm.provider_model import ProviderModel
from codeagent.llm.provider_tools import with_calls
from codeagent.llm.providers import WireFormat
from codeagent.llm.retry import RetryingModel
from codeagent.llm.scripted import ScriptedModel
from codeagent.llm.scripted import Turn as ScriptedTurn
from codeagent.llm.stream import Accumulator, Delta, ProviderWork
from codeagent.llm.usage import Price
from tests.llm.asking import LITELLM_WORKER, READ, Heard, ask, request, result
from tests.llm.native.litellm_bodies import Asked, as_ours, ours, posted
from tests.provider_streams import CITED, FOUND, PNG, SEARCH, anthropic_answer, responses_answer
from tests.servers import FakeProvider, Turn, anthropic_server, openai_server
from tests.table import for_each

Json = dict[str, Any]
Make = Callable[..., ProviderModel]
USER = UserMessage.from_text("how large?")
OWN = tuple(
    ToolDefinition(name, "", {}, True)
    for name in ("web_search", "code_execution", "image_generation")
)
ANTHROPIC_TOOLS = [
    {"type": "web_search_20250305", "name": "web_search"},
    {"type": "code_execution_20250825", "name": "code_execution"},
]
OPENAI_TOOLS = [
    {"type": "web_search"},
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "image_generation"},
]
SAID = {"type": "output_text", "text": "Here.", "annotations": []}
WORDS = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [SAID],
}


def asking(*messages: Message, tools: Sequence[ToolDefinition] = OWN) -> ModelRequest:
    return ModelRequest("You are a test.", messages or (USER,), (READ, *tools))


@asynccontextmanager
async def connected(
    make: Make, name: str, *turns: Turn, **options: Any
) -> AsyncIterator[tuple[ProviderModel, FakeProvider]]:
    """A model, and the loopback server it is asked at."""
    serve = anthropic_server if name.startswith("anthropic/") else openai_server
    async with serve(turns, repeat=True) as server:
        model = make(
            name,
            api_base=server.base_url,
            api_key="k",
            idle_timeout=20,
            **{"provider_tools": KnownTools, **options},
        )
        yield model, server
        await model.close()
        assert server.rejected == []


def heard_uses(heard: Heard) -> list[ProviderUse]:
    return [event for event in heard.events if isinstance(event, ProviderUse)]


def left_out(heard: Heard) -> list[tuple[str, ...]]:
    return [event.names for event in heard.events if isinstance(event, ToolsLeftOut)]


EITHER = [
    pytest.param(NativeModel, id="native"),
    pytest.param(LitellmModel, id="litellm", marks=LITELLM_WORKER),
]


@pytest.fixture(params=EITHER)
def make(request: pytest.FixtureRequest) -> Make:
    chosen: Make = request.param
    return chosen


DECLARED = [
    ("anthropic/claude-sonnet-4-5", "tools", ANTHROPIC_TOOLS, [("image_generation",)]),
    ("openai/responses/gpt-5", "tools", OPENAI_TOOLS, []),
    (
        "openai/gpt-4o-search-preview",
        "web_search_options",
        {},
        [("code_execution", "image_generation")],
    ),
    (
        "openai/gpt-4o",
        "web_search_options",
        None,
        [("web_search", "code_execution", "image_generation")],
    ),
]


@pytest.mark.parametrize(("name", "field", "expected", "missing"), DECLARED)
async def test_each_wire_declares_its_tools_in_its_own_form_in_both_lanes(
    make: Make, name: str, field: str, expected: Any, missing: list[tuple[str, ...]]
) -> None:
    answer = responses_answer([WORDS]) if "responses" in name else None
    async with connected(make, name, Turn(text="ok", raw=answer)) as (model, server):
        first, again = await ask(model, asking()), await ask(model, asking())
        plain = await ask(model, asking(tools=()))
    found, without = server.requests[0].body.get(field), server.requests[2].body.get(field)
    if field == "tools":
        assert [tool for tool in found if tool not in without] == expected and len(without) == 1
    else:
        assert (found, without) == (expected, None)
    assert left_out(first) == missing
    assert left_out(again) == left_out(plain) == []
    assert (
        "anthropic" not in name
        or "code-execution-2025-08-25" in server.requests[0].headers["anthropic-beta"]
    )
    assert "code-execution" not in server.requests[2].headers.get("anthropic-beta", "")


@for_each(
    ("wire_format", "asked"),
    [
        ("anthropic", Asked("anthropic/claude-sonnet-4-5", "high")),
        ("responses", Asked("openai/gpt-5-codex", "low")),
        ("chat", Asked("openai/gpt-4o-search-preview")),
    ],
)
def test_what_a_provider_runs_is_declared_as_litellm_declares_it(
    wire_format: WireFormat, asked: Asked
) -> None:
    """But for what ADR 22 names: litellm does not ask the responses API for what has to be sent
    back."""
    conversation = replace(request(USER), tools=(*request().tools, *OWN))
    found, (theirs,) = asyncio.run(posted(asked, [conversation], KnownTools))
    known = KnownTools().declared(found, asked.name, searches=wire_format == "chat")
    target = replace(found, provider_tools=known)
    (own,) = ours(wire_format, asked, target, conversation)
    included = own.pop("include", [])
    expected = as_ours(theirs, asked, target, conversation)
    for tool in expected.get("tools", ()):
        if tool["type"] not in ("function", "custom"):
            tool.pop("strict", None)
    assert own == expected
    assert bool(included) == (wire_format == "responses")


@LITELLM_WORKER
@pytest.mark.parametrize("name", ["xai/grok-4", "groq/openai/gpt-oss-120b"])
async def test_a_search_that_litellm_drops_or_that_could_not_be_heard_is_not_declared_but_said(
    name: str,
) -> None:
    async with connected(LitellmModel, name, Turn(text="ok")) as (model, server):
        heard = await ask(model, asking(tools=OWN[:1]))
    assert left_out(heard) == [("web_search",)]
    assert "search" not in json.dumps(server.requests[0].body)


async def test_a_reasoning_model_of_the_responses_api_is_asked_for_all_that_has_to_be_sent_back() -> (
    None
):
    async with connected(
        NativeModel, "openai/responses/gpt-5", Turn(raw=responses_answer([WORDS]))
    ) as (model, server):
        await ask(model, asking())
        await ask(model, asking(tools=OWN[2:]))
        await ask(model, asking(tools=()))
    thoughts = "reasoning.encrypted_content"
    sources, outputs = "web_search_call.action.sources", "code_interpreter_call.outputs"
    asked = [request.body.get("include") for request in server.requests]
    assert asked == [[thoughts, sources, outputs], [thoughts], None]


@for_each(
    ("declared", "sent"),
    [
        ({"openai/gpt-4o": ["web_search", "code_execution"]}, {}),
        ({"anthropic/*": ["web_search"], "openai/*": []}, None),
        ({"openai/*": [], "*": ["web_search"]}, None),
    ],
)
async def test_the_settings_say_which_tools_a_model_has(
    declared: dict[str, list[str]], sent: Any
) -> None:
    async with connected(
        NativeModel, "openai/gpt-4o", Turn(text="ok"), provider_tools=partial(KnownTools, declared)
    ) as (model, server):
        await ask(model, asking())
    assert server.requests[0].body.get("web_search_options") == sent


async def test_searches_of_anthropic_are_heard_and_sent_back_as_they_came(make: Make) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig=="}
    call = {"type": "tool_use", "id": "toolu_1234abcd", "name": "read", "input": {"path": "a"}}
    blocks = [thought, {"type": "text", "text": "I look."}, SEARCH, FOUND, CITED, call]
    answer = Turn(raw=anthropic_answer(blocks, "tool_use", 1), thinking=(("hm", "sig=="),))
    async with connected(make, "anthropic/claude-sonnet-4-5", answer, Turn(text="done")) as (
        model,
        server,
    ):
        heard = await ask(model, asking())
        assert heard.text == heard.message.text == "I look.It is large."
        results = [result(one, "text") for one in heard.message.calls]
        await ask(model, asking(USER, heard.message, *results))
    (use,) = heard_uses(heard)
    assert (use.tool, use.target, use.error) == ("web_search", "größe", "")
    assert use.sources == (
        WebSource(title="Size\\x1b]0;x\\x07 matters", url="https://example.org/size"),
    )
    back = server.requests[1].body["messages"][1]["content"]
    expected = [thought, {"type": "text", "text": "I look."}, SEARCH, FOUND, CITED, call]
    if make is LitellmModel:
        expected[4] = {"type": "text", "text": CITED["text"]}  # ADR 22
    assert [{k: v for k, v in block.items() if k != "cache_control"} for block in back] == expected
    assert heard.usage.searches == 1
    assert heard.usage.cost_usd == pytest.approx(100 * 3e-6 + 20 * 15e-6 + 0.01)


async def test_what_anthropics_own_tools_print_refuse_and_make_is_heard() -> None:
    def block(name: str, given: Json, kind: str, content: Any) -> list[Json]:
        used = {"type": "server_tool_use", "id": f"srvtoolu_{name}", "name": name, "input": given}
        return [used, {"type": kind, "tool_use_id": used["id"], "content": content}]

    printed = {
        "type": "bash_code_execution_result",
        "stdout": "1\n\x1b[31m2\n",
        "stderr": "oops",
        "return_code": 2,
    }
    made = [{"type": "bash_code_execution_output", "file_id": "file_abc"}]
    refused = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    blocks = [
        *block(
            "bash_code_execution",
            {"command": "seq 2"},
            "bash_code_execution_tool_result",
            printed | {"content": made},
        ),
        *block("web_search", {"query": "q"}, "web_search_tool_result", refused),
        {"type": "text", "text": "Done."},
    ]
    async with connected(
        NativeModel, "anthropic/claude-sonnet-4-5", Turn(raw=anthropic_answer(blocks))
    ) as (model, _):
        heard = await ask(model, asking())
    assert heard_uses(heard) == [
        ProviderUse(
            tool="code_execution",
            target="seq 2",
            output="1\n\\x1b[31m2\noops",
            files=("file_abc",),
            error="exit 2",
        ),
        ProviderUse(tool="web_search", target="q", error="max_uses_exceeded"),
    ]


RUN = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "status": "completed",
    "code": "print(1)",
    "container_id": "cntr_1",
    "outputs": [
        {"type": "image", "url": f"data:image/png;base64,{PNG}"},
        {"type": "logs", "logs": "1"},
    ],
}


async def test_what_openais_own_tools_do_is_heard_and_sent_back_without_the_images() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "opaque"}
    search = {
        "type": "search",
        "query": "größe",
        "sources": [{"type": "url", "url": "https://a.example"}],
    }
    searched = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": search}
    drawn = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG}
    asked = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1234abcd",
        "name": "read",
        "arguments": "{}",
    }
    url = {
        "type": "url_citation",
        "url": "https://b.example",
        "title": "B",
        "start_index": 0,
        "end_index": 4,
    }
    file = {
        "type": "container_file_citation",
        "file_id": "cfile_1",
        "filename": "plot.png",
        "container_id": "cntr_1",
    }
    said = {**WORDS, "content": [{**SAID, "annotations": [url, file]}]}
    answer = Turn(raw=responses_answer([thought, searched, RUN, drawn, said, asked]))
    async with connected(NativeModel, "openai/responses/gpt-5", answer) as (model, server):
        heard = await ask(model, asking())
        renamed = ToolCall(id="call_other", name="read", arguments='{"path": "b"}')
        message = AssistantMessage(
            text="x", calls=(renamed,), provider_content=heard.message.provider_content
        )
        again = await ask(model, asking(USER, message, result(renamed, "text")))
    image = ImagePart(media_type="image/png", data=PNG)
    assert heard_uses(heard) == [
        ProviderUse(
            tool="web_search", target="größe", sources=(WebSource(url="https://a.example"),)
        ),
        ProviderUse(tool="code_execution", target="print(1)", output="1", images=(image,)),
        ProviderUse(tool="image_generation", images=(image,)),
        ProviderUse(tool="code_execution", files=("plot.png (cfile_1)",)),
        ProviderUse(tool="sources", sources=(WebSource(title="B", url="https://b.example"),)),
    ]
    sent = server.requests[1].body["input"][1:-1]
    ours = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_other",
        "name": "read",
        "arguments": '{"path": "b"}',
    }
    kept = {**RUN, "outputs": RUN["outputs"][1:]}
    assert sent == [
        thought,
        searched,
        kept,
        {"type": "image_generation_call", "id": "ig_1"},
        said,
        ours,
    ]
    assert heard.usage.searches == 1
    tokens = 100 * 1.25e-6 + 20 * 10e-6
    assert heard.usage.cost_usd == pytest.approx(tokens + 0.01 + 0.03)
    assert again.usage.cost_usd == pytest.approx(tokens + 0.01), "a container is charged once"


@for_each(
    ("ours", "sent"),
    [
        ([], ["text", "search"]),
        (["a"], ["text", "a", "search"]),
        (["a", "b", "c"], ["text", "a", "search", "b", "c"]),
    ],
)
def test_calls_of_ours_take_the_places_of_theirs_even_if_there_are_more_or_fewer(
    ours: list[str], sent: list[str]
) -> None:
    items = tuple({"type": kind, "id": kind} for kind in ("text", "call", "search"))
    content = ProviderContent(origin="o", items=items)
    assert [
        item["id"]
        for item in with_calls(content, "call", [{"type": "call", "id": one} for one in ours])
    ] == sent


async def test_a_whole_answer_of_the_responses_api_says_as_much_as_a_stream() -> None:
    whole = {
        "object": "response",
        "status": "completed",
        "output": [RUN, WORDS],
        "usage": {"input_tokens": 1},
    }
    page = ("content-type: application/json", json.dumps(whole).encode())
    async with connected(NativeModel, "openai/responses/gpt-5", Turn(page=page)) as (model, _):
        heard = await ask(model, asking())
    assert [use.target for use in heard_uses(heard)] == ["print(1)"]
    assert heard.message.provider_content is not None
    assert [item["type"] for item in heard.message.provider_content.items] == [
        "code_interpreter_call",
        "message",
    ]


async def test_citations_of_chat_completions_are_heard_once(make: Make) -> None:
    url = {"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A"}}
    chunks = [{"content": "So."}, {"annotations": [url]}, {"annotations": [url]}]
    events = [
        {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in chunks
    ]
    events.append({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    raw = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    async with connected(make, "openai/gpt-4o-search-preview", Turn(raw=raw.encode())) as (
        model,
        _,
    ):
        heard = await ask(model, asking())
    assert heard_uses(heard) == [
        ProviderUse(tool="sources", sources=(WebSource(title="A", url="https://a.example"),))
    ]
    assert heard.message == AssistantMessage(text="So.", model="openai/gpt-4o-search-preview")


async def test_an_answer_goes_to_another_provider_and_address_as_its_text() -> None:
    answer = Turn(raw=anthropic_answer([SEARCH, FOUND, CITED]))
    async with connected(NativeModel, "anthropic/claude-sonnet-4-5", answer) as (model, _):
        message = (await ask(model, asking())).message
    for name in ("anthropic/claude-sonnet-4-5", "openai/responses/gpt-5", "openai/gpt-4o"):
        turn = Turn(text="ok", raw=responses_answer([WORDS]) if "responses" in name else None)
        async with connected(NativeModel, name, turn) as (model, server):
            await ask(model, asking(USER, message, USER))
        body = json.dumps(server.requests[0].body)
        assert "opaque" not in body and "It is large." in body


async def test_a_paused_answer_is_continued_and_one_that_the_user_spoke_after_is_only_its_text(
    make: Make,
) -> None:
    pending = {**SEARCH, "id": "srvtoolu_2"}
    paused = Turn(
        raw=anthropic_answer(
            [{"type": "text", "text": "Wait."}, SEARCH, FOUND, pending], "pause_turn"
        )
    )
    rest = Turn(raw=anthropic_answer([{**FOUND, "tool_use_id": "srvtoolu_2"}, CITED]))
    async with connected(make, "anthropic/claude-sonnet-4-5", paused, rest) as (model, server):
        heard = await ask(model, asking())
        rest_heard = await ask(model, asking(USER, heard.message))
        await ask(model, asking(USER, heard.message, USER))
        await ask(model, asking(USER, heard.message, AssistantMessage(text="It", stop="cut"), USER))
        await ask(model, asking(USER, heard.message, rest_heard.message, USER))
    assert (heard.message.stop, heard.message.text) == ("paused", "Wait.")
    continued, left, cut, whole = (request.body["messages"] for request in server.requests[1:])
    assert [block["type"] for block in continued[1]["content"]] == [
        "text",
        "server_tool_use",
        "web_search_tool_result",
        "server_tool_use",
    ]
    assert continued[1]["content"][-1] == pending and len(continued) == 2
    assert left[1]["content"] == [{"type": "text", "text": "Wait."}]
    assert [block["text"] for block in cut[1]["content"]] == ["Wait.", "It"]
    assert (whole[1]["content"][-3], whole[1]["content"][-1]["text"]) == (pending, CITED["text"])


async def test_a_search_that_waits_for_the_results_of_our_calls_is_continued_with_them_alone(
    make: Make,
) -> None:
    """Anthropic begins it only then, and refuses it ever after if anything else follows."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig=="}
    call = {"type": "tool_use", "id": "toolu_1234abcd", "name": "read", "input": {"path": "a"}}
    waiting = Turn(
        raw=anthropic_answer([thought, SEARCH, call], "tool_use"), thinking=(("hm", "sig=="),)
    )
    rest = Turn(raw=anthropic_answer([FOUND, CITED]))
    async with connected(make, "anthropic/claude-sonnet-4-5", waiting, rest) as (model, server):
        first = (await ask(model, asking())).message
        answered = (USER, first, *(result(one, "text") for one in first.calls))
        second = (await ask(model, asking(*answered))).message
        await ask(model, asking(*answered, second, USER))
        await ask(model, asking(*answered, USER))
        await ask(model, asking(*answered, USER, second, USER))
    assert (
        is_at_work(answered)
        and not is_at_work((*answered, second))
        and not is_at_work((*answered, USER))
    )
    kinds = [
        [block["type"] for each in request.body["messages"] for block in each["content"]]
        for request in server.requests
    ]
    begun = ["text", "thinking", "server_tool_use", "tool_use", "tool_result"]
    assert kinds[1:3] == [begun, [*begun, "web_search_tool_result", "text", "text"]]
    ours = ["text", "thinking", "tool_use", "tool_result", "text"]
    assert kinds[3:] == [ours, [*ours, "text", "text"]]


async def test_an_answer_of_which_only_thoughts_and_a_search_without_result_came_goes_back_as_words(
    make: Make,
) -> None:
    """Anthropic refuses an answer that ends with thoughts, and a search that is not there."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig=="}
    paused = Turn(raw=anthropic_answer([thought, SEARCH], "pause_turn"))
    async with connected(make, "anthropic/claude-sonnet-4-5", paused, Turn(text="ok")) as (
        model,
        server,
    ):
        first = (await ask(model, asking())).message
        await ask(model, asking(USER, first, USER))
    assert [block["text"] for block in server.requests[1].body["messages"][1]["content"]] == [
        "(no output)"
    ]


def test_the_halves_of_a_character_in_what_is_sent_back_are_joined_or_replaced() -> None:
    """They come apart in pieces of a text; half of one can neither be sent nor logged."""
    answer = Accumulator()
    answer.add(
        Delta(
            work=ProviderWork(content=({"type": "text", "text": "\ud83d" + "\ude00 \ud800"},)),
            finish="stop",
        )
    )
    content = answer.finish("m")[1].provider_content
    assert content is not None and content.items == ({"type": "text", "text": "\U0001f600 \ufffd"},)


async def test_a_block_without_a_type_is_not_taken_for_a_tool_of_the_provider() -> None:
    raw = anthropic_answer([{}, {"type": "text", "text": "ok"}])
    async with connected(NativeModel, "anthropic/claude-sonnet-4-5", Turn(raw=raw)) as (model, _):
        assert (await ask(model, asking())).message.provider_content is None


async def test_nothing_of_an_answer_that_broke_off_or_was_too_long_is_sent_back() -> None:
    whole = anthropic_answer([SEARCH, FOUND, CITED])
    cut = Turn(raw=whole, cut_after=whole.index(b'"citations_delta"'))
    async with connected(NativeModel, "anthropic/claude-sonnet-4-5", cut, Turn(raw=whole)) as (
        model,
        _,
    ):
        with pytest.raises(ModelError, match="connection was lost"):
            await ask(model, asking())
        model_again = RetryingModel(model, first_delay=0.0)
        heard = await ask(model_again, asking())
        assert heard.message.provider_content is not None
    long = Turn(
        raw=anthropic_answer([SEARCH, FOUND, {"type": "text", "text": "It"}, SEARCH], "max_tokens")
    )
    async with connected(NativeModel, "anthropic/claude-sonnet-4-5", long) as (model, _):
        message = (await ask(model, asking())).message
    assert (message.stop, message.text, message.provider_content) == ("length", "It", None)


async def test_a_price_of_the_users_covers_tokens_and_searches_cost_what_is_known() -> None:
    answer = Turn(raw=anthropic_answer([SEARCH, FOUND, CITED], searches=2))
    price = Price(input=1.0, output=1.0)
    async with connected(NativeModel, "anthropic/claude-sonnet-4-5", answer, price=price) as (
        model,
        _,
    ):
        heard = await ask(model, asking())
    assert heard.usage.cost_usd == pytest.approx(120e-6 + 0.02)


async def test_a_model_that_writes_its_calls_as_text_is_told_of_no_tool_that_its_provider_runs() -> (
    None
):
    answer = Turn(raw=anthropic_answer([SEARCH, FOUND, CITED]))
    async with connected(NativeModel, "anthropic/claude-sonnet-4-5", answer) as (model, server):
        heard = await ask(TextToolModel(model, PROTOCOLS["json"]), asking())
    body = server.requests[0].body
    assert body["tools"] == ANTHROPIC_TOOLS
    assert "code_execution" not in json.dumps(body["system"]) and "read" in json.dumps(
        body["system"]
    )
    assert [use.tool for use in heard_uses(heard)] == ["web_search"] and left_out(heard) == [
        ("image_generation",)
    ]


async def test_a_script_has_none_and_says_so_once() -> None:
    model = ScriptedModel([ScriptedTurn(text="a"), ScriptedTurn(text="b")])
    assert left_out(await ask(model, asking())) == [
        ("web_search", "code_execution", "image_generation")
    ]
    assert left_out(await ask(model, asking())) == []
