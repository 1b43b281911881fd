"""How long an answer is asked to be: never longer than what the window has left, and once more with
less."""

from typing import Any

import pytest

from codeagent.core.errors import ModelError
from codeagent.core.messages import UserMessage
from codeagent.core.model import Adapted
from codeagent.llm.answer_budget import AnswerBudget
from codeagent.llm.native.model import NativeModel
from codeagent.llm.provider_model import ProviderModel
from tests.llm.asking import LANES, ask, request
from tests.servers import FakeProvider, Turn, anthropic_server, openai_server, responses_server
from tests.table import for_each

Json = dict[str, Any]


def checks_window(fake: FakeProvider, window: int, prompt: int) -> None:
    """Let the server refuse what vLLM refuses: a prompt and an answer that do not fit into the
    window together."""

    def check(body: Json) -> Turn | None:
        asked = (
            body.get("max_tokens")
            or body.get("max_completion_tokens")
            or body.get("max_output_tokens")
        )
        if asked is None or prompt + asked <= window:
            return None
        said = (
            f"'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's maximum context length is "
            f"{window} tokens and your request has {prompt} input tokens ({asked} > {window} - {prompt})."
        )
        return Turn(status=400, body=f'{{"object": "error", "message": "{said}", "code": 400}}')

    fake.check = check


@pytest.fixture(params=LANES)
def lane(request: pytest.FixtureRequest) -> type[ProviderModel]:
    chosen: type[ProviderModel] = request.param
    return chosen


async def test_an_unknown_model_is_asked_without_a_limit(lane: type[ProviderModel]) -> None:
    async with openai_server([Turn(text="a")]) as fake:
        model = lane("fake", api_base=fake.base_url)
        await ask(model)
        await model.close()
    assert "max_tokens" not in fake.requests[0].body


async def test_the_responses_api_is_asked_without_a_limit_for_an_unknown_model() -> None:
    async with responses_server([Turn(text="a")]) as fake:
        await ask(NativeModel("openai/responses/fake", api_base=fake.base_url))
    assert "max_output_tokens" not in fake.requests[0].body


async def test_anthropics_format_always_has_a_limit() -> None:
    async with anthropic_server([Turn(text="a")]) as fake:
        await ask(NativeModel("anthropic/unheard-of", api_base=fake.base_url))
    assert fake.requests[0].body["max_tokens"] == 8_192


async def test_a_refusal_that_names_the_limit_is_answered_by_one_request_with_less(
    lane: type[ProviderModel],
) -> None:
    counted = {"input": 900, "output": 20}
    async with openai_server([Turn(text="hello", usage=counted), Turn(text="again")]) as fake:
        checks_window(fake, 4_096, 900)
        model = lane("openai/gpt-4o", api_base=fake.base_url)
        heard = await ask(model)
        again = await ask(model)
        await model.close()
    assert heard.message.text == "hello"
    assert [type(event) for event in heard.events][:1] == [Adapted]
    assert [each.body["max_tokens"] for each in fake.requests][:2] == [
        16_384,
        4_096 - round(900 * 1.1) - 64,
    ]
    assert (len(fake.requests), again.message.text, model.context_window) == (3, "again", 4_096)


async def test_a_second_refusal_is_said_and_not_repeated() -> None:
    async with openai_server([]) as fake:
        checks_window(fake, 4_096, 900)
        refuse = fake.check
        fake.check = lambda body: refuse({**body, "max_tokens": 9_000})
        with pytest.raises(ModelError):
            await ask(NativeModel("openai/gpt-4o", api_base=fake.base_url))
    assert len(fake.requests) == 2


async def test_a_prompt_that_fills_the_window_is_too_long_and_not_asked_again() -> None:
    async with openai_server([]) as fake:
        checks_window(fake, 4_096, 4_000)
        with pytest.raises(ModelError) as caught:
            await ask(NativeModel("openai/gpt-4o", api_base=fake.base_url))
    assert (caught.value.kind, len(fake.requests)) == ("context_window", 1)


async def test_an_answer_is_never_asked_to_be_longer_than_what_the_window_has_left() -> None:
    long = request(UserMessage.from_text("word " * 120_000))
    async with openai_server([Turn(text="a"), Turn(text="b")]) as fake:
        model = NativeModel("openai/gpt-4o", api_base=fake.base_url)
        await ask(model, long)
        await model.close()
    assert 0 < fake.requests[0].body["max_tokens"] <= 128_000 - 120_000


async def test_thinking_fits_into_what_the_window_has_left() -> None:
    long = request(UserMessage.from_text("word " * 170_000))
    async with anthropic_server([Turn(text="a")]) as fake:
        await ask(
            NativeModel("anthropic/claude-sonnet-4-5", api_base=fake.base_url, thinking="high"),
            long,
        )
    body = fake.requests[0].body
    assert body["max_tokens"] <= 200_000 - 170_000
    assert body.get("thinking", {"budget_tokens": 0})["budget_tokens"] < body["max_tokens"]


@for_each(
    ("said", "room", "window"),
    [
        (
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (904 in the "
            "messages, 4096 in the completion). Please reduce the length of the messages or completion.",
            3_192,
            4_096,
        ),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 4000 output tokens and your "
            "prompt contains at least 97 input tokens, for a total of at least 4097 tokens.",
            3_999,
            4_096,
        ),
        (
            "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of "
            "5000 tokens: 904 tokens from the input messages and 4096 tokens for the completion.",
            3_192,
            4_096,
        ),
        (
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens "
            "(8000 of text input, 132000 in the output).",
            123_072,
            131_072,
        ),
        (
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 1000 `inputs` tokens "
            "and 8192 `max_new_tokens`",
            3_096,
            4_096,
        ),
        (
            "input length and `max_tokens` exceed context limit: 198393 + 21333 > 200000, decrease",
            1_607,
            200_000,
        ),
        (
            "max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens for c",
            32_000,
            None,
        ),
        (
            "max_tokens is too large: 32000. This model supports at most 16384 completion tokens",
            16_384,
            None,
        ),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8_192, None),
        ("Range of max_tokens should be [1, 8192]", 8_192, None),
        (
            "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens`",
            8_192,
            None,
        ),
        (
            "The maximum tokens you requested exceeds the model limit of 4096. Try again with",
            4_096,
            None,
        ),
        (
            "the request exceeds the available context size (4096 tokens), try increasing it",
            None,
            None,
        ),
        ("prompt is too long: 210000 tokens > 200000 maximum", None, None),
    ],
)
def test_the_wording_of_each_server_is_understood(
    said: str, room: int | None, window: int | None
) -> None:
    known = AnswerBudget()
    assert known.refused(said, request(), 200_000) == room
    assert known.window == window


def test_a_limit_that_is_not_below_what_was_asked_for_helps_nothing() -> None:
    said = "max_tokens is too large. This model supports at most 16384 completion tokens"
    assert AnswerBudget().refused(said, request(), 16_384) is None
    assert AnswerBudget().refused(said, request(), 16_385) == 16_384
