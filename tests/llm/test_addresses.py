"""What an address given by the user leads to, with `/v1` or without, and what a wrong one is told
as."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from codeagent.core.errors import ModelError
from codeagent.llm.errors import FailedRequest, ProviderError, model_error
from codeagent.llm.native.model import NativeModel
from codeagent.llm.provider_model import ProviderModel
from tests.llm.asking import LANES, ask
from tests.servers import FakeProvider, Turn, anthropic_server, openai_server, responses_server
from tests.table import for_each

Server = Callable[..., AbstractAsyncContextManager[FakeProvider]]
WIRES = [
    (openai_server, "fake", "/v1/chat/completions"),
    (responses_server, "openai/responses/fake", "/v1/responses"),
    (anthropic_server, "anthropic/claude-sonnet-4-5", "/v1/messages"),
]


@pytest.fixture(params=LANES)
def lane(request: pytest.FixtureRequest) -> type[ProviderModel]:
    chosen: type[ProviderModel] = request.param
    return chosen


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
@pytest.mark.parametrize(("server", "name", "path"), WIRES, ids=["chat", "responses", "anthropic"])
async def test_an_address_works_with_its_version_and_without(
    lane: type[ProviderModel], server: Server, name: str, path: str, suffix: str
) -> None:
    async with server([Turn(text="hi")]) as fake:
        model = lane(name, api_base=fake.base_url.removesuffix("/v1") + suffix)
        heard = await ask(model)
        await model.close()
    assert heard.message.text == "hi"
    assert [each.path for each in fake.requests] == [path]


async def test_a_server_without_a_version_in_its_path_is_found_and_remembered() -> None:
    missing = Turn(status=404, body='{"detail": "Not Found"}')
    async with openai_server([missing, Turn(text="hi"), Turn(text="again")]) as fake:
        model = NativeModel("fake", api_base=fake.base_url.removesuffix("/v1"))
        assert (await ask(model)).message.text == "hi"
        assert (await ask(model)).message.text == "again"
        await model.close()
    paths = [each.path for each in fake.requests]
    assert paths == ["/v1/chat/completions", "/chat/completions", "/chat/completions"]


async def test_a_wrong_path_is_told_with_its_address_and_not_as_a_wrong_name(
    lane: type[ProviderModel],
) -> None:
    missing = Turn(status=404, body='{"detail": "Not Found"}')
    async with openai_server([missing] * 3, repeat=True) as fake:
        model = lane("fake", api_base=f"{fake.base_url}/elsewhere")
        with pytest.raises(ModelError) as caught:
            await ask(model)
        await model.close()
        assert f"404 at {fake.base_url}/elsewhere" in str(caught.value)
    assert "check the address (--api-base)" in str(caught.value) and "name" not in str(caught.value)


async def test_a_model_that_is_missing_is_told_as_such_and_no_other_path_is_tried() -> None:
    said = '{"error": {"message": "The model `fake` does not exist.", "code": "model_not_found"}}'
    async with openai_server([Turn(status=404, body=said)]) as fake:
        with pytest.raises(ModelError, match="check the model's name"):
            await ask(NativeModel("fake", api_base=fake.base_url))
    assert len(fake.requests) == 1


@for_each(
    ("server", "name", "variable"),
    [
        (openai_server, "openai/gpt-4o", "OPENAI_API_KEY"),
        (anthropic_server, WIRES[2][1], "ANTHROPIC_API_KEY"),
    ],
)
async def test_a_refused_key_is_told_with_how_to_change_it(
    server: Server, name: str, variable: str
) -> None:
    async with server([Turn(status=401)]) as fake:
        told = f"choose /model, then Paste an API key: a key kept for a server wins over {variable}"
        with pytest.raises(ModelError, match=told):
            await ask(NativeModel(name, api_base=fake.base_url))


def test_a_key_that_the_provider_itself_refused_may_also_be_set() -> None:
    request = FailedRequest("openai/m", "api.openai.com", "openai", 60, "OPENAI_API_KEY")
    refused = ProviderError({"message": "no"}, 401)
    told = model_error(refused, request, streaming=False, clean=str)
    assert "set OPENAI_API_KEY or choose /model, then Paste an API key" in str(told)
