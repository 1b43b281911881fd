"""What every wire does about the tools that a provider runs, if no extension knows any of them."""

from typing import Any

import pytest

from codeagent.core.messages import UserMessage
from codeagent.core.model import ModelRequest, ProviderUse, ToolsLeftOut
from codeagent.core.tool import ToolDefinition
from codeagent.llm.native.model import NativeModel
from tests.llm.asking import READ, ask
from tests.provider_streams import CITED, FOUND, SEARCH, anthropic_answer, responses_answer
from tests.servers import Turn, anthropic_server, openai_server

Json = dict[str, Any]
USER = UserMessage.from_text("how large?")
SEARCHES = ToolDefinition("web_search", "", {}, True)
ASKING = ModelRequest("You are a test.", (USER,), (READ, SEARCHES))
DRAWN = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Here.", "annotations": []}],
}
ANSWERS = [
    pytest.param(
        "anthropic/claude-sonnet-4-5", anthropic_answer([SEARCH, FOUND, CITED]), id="blocks"
    ),
    pytest.param("openai/responses/gpt-5", responses_answer([DRAWN, SAID]), id="items"),
]


@pytest.mark.parametrize(("name", "raw"), ANSWERS)
async def test_none_is_declared_and_what_a_provider_sent_nevertheless_goes_back(
    name: str, raw: bytes
) -> None:
    serve = anthropic_server if name.startswith("anthropic/") else openai_server
    async with serve([Turn(raw=raw), Turn(raw=raw)]) as server:
        model = NativeModel(name, api_base=server.base_url, api_key="k")
        heard = await ask(model, ASKING)
        await ask(model, ModelRequest("You are a test.", (USER, heard.message, USER), (READ,)))
        await model.close()
    first, second = (request.body for request in server.requests)
    assert len(first["tools"]) == 1
    assert [event.names for event in heard.events if isinstance(event, ToolsLeftOut)] == [
        ("web_search",)
    ]
    assert not [
        event
        for event in heard.events
        if isinstance(event, ProviderUse) and event.tool != "sources"
    ]
    expected = [SEARCH, FOUND, CITED]
    if "input" in second:
        expected = [{"type": "image_generation_call", "id": "ig_1"}, SAID]
        assert second["input"][1:-1] == expected
    else:
        assert second["messages"][1]["content"] == expected
