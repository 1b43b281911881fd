"""What a server says it can do, asked as llama-server, vLLM, LM Studio and Ollama answer, and what
follows from it."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from codeagent.core.errors import ModelError
from codeagent.core.messages import ImagePart, TextPart, UserMessage
from codeagent.core.model import Adapted, ModelEvent, ModelFacts, ModelRequest, TextPiece
from codeagent.llm import server_details
from codeagent.llm.factory import ModelOptions, open_model
from codeagent.llm.refusals import refuses_images
from codeagent.llm.retry import AdaptingModel
from codeagent.llm.server_details import ask_about, ask_server, facts_in, json_of
from codeagent.llm.server_knowledge import ServerKnowledge
from codeagent.net.http import HttpClient
from tests.llm.asking import ask, request
from tests.llm.test_retry import Playing
from tests.servers import FakeProvider, Turn, openai_server
from tests.table import for_each

Facts = dict[str, dict[str, Any]]
LLAMA: Facts = {
    "/props": {
        "default_generation_settings": {"n_ctx": 4096},
        "chat_template_caps": {"supports_tools": False, "supports_system_role": False},
    },
    "/v1/models": {"data": [{"id": "gemma.gguf", "meta": {"n_ctx_train": 32768}}]},
}
OLLAMA_INFO = {"general.architecture": "gemma3", "gemma3.context_length": 131072}
SAID: list[tuple[Facts, ModelFacts]] = [
    (LLAMA, ModelFacts(4096, tools=False)),
    ({"/props": {"modalities": {"vision": True, "audio": False}}}, ModelFacts(images=True)),
    ({"/props": {"modalities": {"vision": "x"}}}, ModelFacts()),
    (
        {
            "/props": {
                "default_generation_settings": {"n_ctx": 8192},
                "chat_template_caps": {"supports_tools": True},
                "modalities": {"vision": True, "audio": False},
            }
        },
        ModelFacts(8192, tools=True, images=True),
    ),
    ({"/v1/models": {"data": [{"id": "m", "max_model_len": 2048}, {"id": "n"}]}}, ModelFacts(2048)),
    (
        {
            "/v1/models": {"data": [{"id": "m"}]},
            "/api/v0/models": {
                "data": [
                    {
                        "id": "m",
                        "max_context_length": 131072,
                        "loaded_context_length": 4096,
                        "capabilities": ["tool_use"],
                    }
                ]
            },
        },
        ModelFacts(4096, tools=True),
    ),
    (
        {
            "/api/show": {
                "capabilities": ["completion"],
                "model_info": OLLAMA_INFO,
                "parameters": "num_ctx      4096",
            }
        },
        ModelFacts(4096, tools=False, thinking=False, images=False),
    ),
    (
        {
            "/api/show": {"capabilities": ["completion", "tools"], "model_info": OLLAMA_INFO},
            "/api/ps": {"models": [{"name": "m", "context_length": 16384}]},
        },
        ModelFacts(16384, tools=True, thinking=False, images=False),
    ),
    (
        {"/api/show": {"capabilities": ["tools", "thinking", "vision"], "model_info": OLLAMA_INFO}},
        ModelFacts(131072, tools=True, thinking=True, images=True),
    ),
    ({}, ModelFacts()),
    ({"/props": {"default_generation_settings": [], "chat_template_caps": "x"}}, ModelFacts()),
    ({"/v1/models": {"data": [1, {"id": "n", "max_model_len": 9}, {"id": "o"}]}}, ModelFacts()),
]


@for_each(("facts", "known"), SAID)
async def test_each_server_is_understood(facts: Facts, known: ModelFacts) -> None:
    async with openai_server([]) as fake:
        fake.facts |= facts
        assert await ask_server(fake.base_url, {}, "m") == known


async def test_an_answer_that_never_comes_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def held(client: HttpClient, method: str, url: str, *rest: Any) -> dict[str, Any] | None:
        if url.endswith("/props"):
            await asyncio.Event().wait()
        return await json_of(client, method, url, *rest)

    monkeypatch.setattr(server_details, "json_of", held)
    monkeypatch.setattr(server_details, "_SECONDS", 1.0)
    async with openai_server([]) as fake:
        fake.facts["/v1/models"] = {"data": [{"id": "m", "max_model_len": 2048}]}
        assert await ask_server(fake.base_url, {}, "m") == ModelFacts(2048)


WAYS_TO_WRITE_IT = [
    "",
    "/",
    "/v1",
    "/v1/",
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/responses/",
    "/v1?user=me",
]


ENTRIES: list[tuple[dict[str, Any], ModelFacts]] = [
    (  # Anthropic
        {
            "max_input_tokens": 200_000,
            "capabilities": {
                "image_input": {"supported": True},
                "thinking": {"supported": False, "types": {}},
            },
        },
        ModelFacts(200_000, thinking=False, images=True),
    ),
    (  # Mistral
        {
            "max_context_length": 131_072,
            "capabilities": {"function_calling": True, "vision": False},
        },
        ModelFacts(131_072, tools=True, images=False),
    ),
    (  # OpenRouter
        {
            "context_length": 1000,
            "pricing": {"prompt": "0.000003", "completion": "0.000015"},
            "supported_parameters": ["tools"],
            "architecture": {"input_modalities": ["text", "image"]},
        },
        ModelFacts(1000, tools=True, thinking=False, images=True, prices=(3.0, 15.0)),
    ),
    ({"inputTokenLimit": 1_048_576, "thinking": True}, ModelFacts(1_048_576, thinking=True)),
    ({"type": "vlm", "capabilities": ["tool_use", 1]}, ModelFacts(tools=True, images=True)),
    ({"type": "llm"}, ModelFacts(images=False)),
    ({"pricing": {"prompt": "-1", "completion": "x"}, "architecture": 3}, ModelFacts()),
    ({"pricing": {"prompt": "nan", "completion": "inf"}, "capabilities": "all"}, ModelFacts()),
]


@for_each(("entry", "known"), ENTRIES)
def test_an_entry_of_a_list_of_models_is_understood(
    entry: dict[str, Any], known: ModelFacts
) -> None:
    assert facts_in(entry) == known


@for_each("size", [10**400, float("inf"), float("nan"), -1, 0, 0.5, "8192", [1], "9" * 5000])
async def test_a_size_that_no_window_has_is_not_known(size: Any) -> None:
    """Anybody may listen on the ports of this machine that are asked."""
    assert facts_in({"context_length": size, "meta": {"n_ctx": size}}) == ModelFacts()
    facts: Facts = {
        "/props": {"default_generation_settings": {"n_ctx": size}},
        "/api/ps": {"models": [{"name": "m", "context_length": size}]},
        "/api/show": {"parameters": f"num_ctx {size}", "model_info": {"a.context_length": size}},
    }
    async with openai_server([]) as fake:
        fake.facts = facts
        found = await ask_server(fake.base_url, {}, "m")
    assert found is not None and found.window in (None, 8192)


async def test_several_models_of_a_server_are_asked_about_at_once() -> None:
    async with openai_server([]) as fake:
        fake.facts["/v1/models"] = {
            "data": [{"id": "m", "max_model_len": 2048}, {"id": "n", "max_model_len": 4096}]
        }
        fake.facts["/props"] = {"default_generation_settings": {"n_ctx": 9}}
        assert await ask_about(fake.base_url, {}, ("m", "n")) == {
            "m": ModelFacts(2048),
            "n": ModelFacts(4096),
        }
    assert [each.path for each in fake.asked].count("/v1/models") == 1


@for_each("way", WAYS_TO_WRITE_IT)
async def test_a_server_is_asked_however_its_address_is_written(way: str) -> None:
    async with openai_server([]) as fake:
        fake.facts |= LLAMA
        known = await ask_server(fake.base_url.removesuffix("/v1") + way, {}, "m")
    assert known == ModelFacts(4096, tools=False)
    assert {each.path.partition("?")[2] for each in fake.asked} == {way.partition("?")[2]}


async def test_a_server_that_does_not_answer_is_not_known() -> None:
    assert await ask_server("http://127.0.0.1:1/v1", {}, "m") is None


async def test_no_text_of_a_conversation_is_in_the_questions() -> None:
    async with openai_server([Turn(text="a")]) as fake:
        model = opened(fake)
        await ask(model, request(UserMessage.from_text("a secret plan")))
        await model.close()
    assert fake.asked and not [
        each for each in fake.asked if "secret" in str(each.body) + each.path
    ]


def opened(fake: FakeProvider, learned: ServerKnowledge | None = None) -> Any:
    learned = learned or ServerKnowledge(fake.base_url, {}, "fake")
    return open_model(
        "openai/fake", api_base=fake.base_url, options=ModelOptions(), learned=learned
    )


async def test_the_window_comes_from_the_server_and_answers_fit_into_it() -> None:
    async with openai_server([Turn(text="a")]) as fake:
        fake.facts |= LLAMA
        model = opened(fake)
        await ask(model)
        assert model.context_window == 4096
        await model.close()
    assert 0 < fake.requests[0].body["max_tokens"] < 4096


async def test_a_model_whose_template_has_tools_gets_them_natively() -> None:
    async with openai_server([Turn(text="a")]) as fake:
        fake.facts["/props"] = {"chat_template_caps": {"supports_tools": True}}
        model = opened(fake)
        await ask(model)
        await model.close()
    assert [tool["function"]["name"] for tool in fake.requests[0].body["tools"]] == ["read", "bash"]


async def test_a_server_is_asked_once_and_again_after_its_connection_was_lost() -> None:
    async with openai_server(
        [Turn(text="a"), Turn(text="b"), Turn(text="cut", cut_after=40), Turn(text="c")]
    ) as fake:
        fake.facts |= LLAMA
        learned = ServerKnowledge(fake.base_url, {}, "fake")
        inner = opened(fake, learned)._inner  # without the pause between attempts
        await ask(inner)
        await ask(inner)
        once = len(fake.asked)
        fake.facts["/props"] = {"default_generation_settings": {"n_ctx": 2048}}
        with pytest.raises(ModelError):
            await ask(inner)
        await ask(inner)
        await inner.close()
    assert (learned.window, len(fake.asked)) == (2048, 2 * once)


REFUSALS = [
    (500, "Jinja Exception: System role not supported"),
    (400, "System role not supported"),
    (400, "Developer instruction is not enabled for models/gemma-3-27b-it"),
    (400, "Conversation roles must alternate user/assistant/user/assistant/..."),
    (
        400,
        'Error rendering prompt with jinja template: "Only user and assistant roles are supported!"',
    ),
    (400, "Unexpected role 'system' after role 'user'"),
]


@for_each(("status", "said"), REFUSALS)
async def test_a_template_that_refuses_the_system_role_gets_it_in_the_users_message(
    status: int, said: str
) -> None:
    refusal = Turn(status=status, body=json.dumps({"error": {"message": said}}))
    async with openai_server(
        [refusal, Turn(text="hi"), Turn(text="again"), Turn(text="other")]
    ) as fake:
        learned = ServerKnowledge()
        model = opened(fake, learned)
        first, second = await ask(model), await ask(model)
        other = opened(fake, learned)
        await ask(other)
        await model.close()
        await other.close()
    assert [type(event) for event in first.events].count(Adapted) == 1
    assert not [event for event in second.events if isinstance(event, Adapted)]
    roles = [[message["role"] for message in each.body["messages"]] for each in fake.requests]
    assert roles == [["system", "user"], ["user"], ["user"], ["user"]]
    assert fake.requests[1].body["messages"][0]["content"] == "You are a test.\n\nhi"


async def test_a_refusal_that_does_not_pass_when_folded_is_said_and_not_repeated() -> None:
    refusal = Turn(status=400, body='{"error": {"message": "System role not supported"}}')
    async with openai_server([refusal], repeat=True) as fake:
        model = opened(fake, ServerKnowledge())
        with pytest.raises(ModelError, match="System role"):
            await ask(model)
        await model.close()
    assert len(fake.requests) == 2


async def test_other_refusals_are_not_folded() -> None:
    async with openai_server(
        [Turn(status=400, body='{"error": {"message": "temperature is bad"}}')]
    ) as fake:
        model = opened(fake, ServerKnowledge())
        with pytest.raises(ModelError, match="temperature"):
            await ask(model)
        await model.close()
    assert len(fake.requests) == 1


SHOWN = UserMessage(content=(TextPart(text="look"), ImagePart(media_type="image/png", data="aGk=")))
IMAGE_REFUSALS = [
    (400, "Invalid content type. image_url is only supported by certain models."),
    (404, "No endpoints found that support image input"),
    (400, "Failed to deserialize: messages[0]: unknown variant `image_url`, expected `text`"),
    (400, "At most 0 image(s) may be provided in one prompt."),
    (500, "image input is not supported - hint: if this is unexpected, provide the mmproj"),
    (400, "Model does not support images. Please use a model that does."),
    (500, "this model is missing data required for image input"),
    (400, "This model doesn't support the image content block that you provided"),
    (400, "Image input modality is not enabled for models/gemma-3-1b-it"),
]


@for_each(("status", "said"), IMAGE_REFUSALS)
async def test_a_model_that_refuses_images_is_asked_again_in_words(status: int, said: str) -> None:
    refusal = Turn(status=status, body=json.dumps({"error": {"message": said}}))
    async with openai_server([refusal, Turn(text="hi"), Turn(text="again")]) as fake:
        model = opened(fake, ServerKnowledge())
        first, second = await ask(model, request(SHOWN)), await ask(model, request(SHOWN))
        await model.close()
    (told,) = [event for event in first.events if isinstance(event, Adapted)]
    assert "images are replaced with words from here on" in told.text
    assert not [event for event in second.events if isinstance(event, Adapted)]
    bodies = ["image_url" in json.dumps(each.body) for each in fake.requests]
    assert bodies == [True, False, False]
    assert "(an image, which this model cannot read)" in json.dumps(fake.requests[1].body)


async def test_a_refusal_of_images_in_words_too_is_said_and_not_repeated() -> None:
    refusal = Turn(status=400, body='{"error": {"message": "it does not support images"}}')
    async with openai_server([refusal], repeat=True) as fake:
        model = opened(fake, ServerKnowledge())
        with pytest.raises(ModelError, match="does not support images"):
            await ask(model, request(SHOWN))
        await model.close()
    assert len(fake.requests) == 2


@for_each(
    ("said", "asked"),
    [("it does not support images", request(SHOWN)), ("System role not supported", request())],
)
async def test_requests_that_are_refused_at_the_same_time_are_all_asked_again(
    said: str, asked: ModelRequest
) -> None:
    learned = ServerKnowledge()
    both_sent = asyncio.Barrier(2)

    class Refusing(Playing):
        async def stream(self, asked: ModelRequest) -> AsyncIterator[ModelEvent]:
            if not (learned.folds_roles or learned.refused_images):
                await both_sent.wait()
                raise ModelError(said, kind="bad_request")
            yield TextPiece("hi")

    async def ask_at_once() -> list[ModelEvent]:
        return [event async for event in AdaptingModel(Refusing(), learned).stream(asked)]

    answers = await asyncio.gather(ask_at_once(), ask_at_once())
    assert [events[-1] for events in answers] == [TextPiece("hi")] * 2
    told = [event for events in answers for event in events if isinstance(event, Adapted)]
    assert len(told) == 1


OTHER_REFUSALS = [
    "the image format image/tiff is not supported",
    "it does not support image types like image/tiff",
    "Could not process image",
    "image exceeds 5 MB maximum",
]


@for_each("said", OTHER_REFUSALS)
def test_a_refusal_of_one_image_is_not_one_of_all_images(said: str) -> None:
    assert not refuses_images(ModelError(said, kind="bad_request"))
