"""What litellm posts for a request, captured on loopback, and what our own writers make of it."""

import copy
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from codeagent.core.budget import Effort
from codeagent.core.errors import ModelError
from codeagent.core.model import ModelRequest
from codeagent.llm.litellm_model import LitellmModel
from codeagent.llm.native import format_of
from codeagent.llm.provider_model import sees_images
from codeagent.llm.provider_tools import MakeProviderTools, ProviderTools
from codeagent.llm.providers import Target, WireFormat, native_target
from codeagent.llm.wire import in_words
from tests.llm.asking import ask
from tests.servers import FakeProvider, Turn, running

Json = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """A model, and how it is asked."""

    name: str
    effort: Effort | None = None

    def target(self, api_base: str) -> Target:
        """Return what the native lane makes of the name."""
        target = native_target(self.name, api_base, "k", {})
        assert target is not None
        return target

    def __str__(self) -> str:
        return self.name if self.effort is None else f"{self.name} at {self.effort}"


async def posted(
    asked: Asked, requests: Iterable[ModelRequest], tools: MakeProviderTools = ProviderTools
) -> tuple[Target, list[Json]]:
    """Return what the name stands for, and the bodies; every request is refused once it has
    come."""
    server = FakeProvider(
        [Turn(status=400)], lambda _: b"", lambda _: [], chunk=0, delay=0, repeat=True
    )
    async with running(server, "" if asked.name.startswith("anthropic/") else "/v1"):
        model = LitellmModel(
            asked.name,
            api_base=server.base_url,
            api_key="k",
            thinking=asked.effort,
            idle_timeout=20,
            provider_tools=tools,
        )
        for request in requests:
            with suppress(ModelError):
                await ask(model, request)
        await model.close()
    return asked.target(server.base_url), [r.body for r in server.requests]


def as_ours(body: Json, asked: Asked, target: Target, conversation: ModelRequest) -> Json:
    """Return litellm's body with the differences that ADR 15 explains."""
    body = copy.deepcopy(body)
    if "input" in body:
        for tool in body.get("tools", ()):
            tool["strict"] = False
    if asked == Asked("openai/responses/gpt-5"):
        body["max_output_tokens"] = 32_000
    if target.bare_name == "o3" or "magistral" in target.bare_name:
        body["messages"][0] = {"role": "system", "content": conversation.system}
    if asked == Asked("deepseek/deepseek-reasoner", "off"):
        del body["reasoning_effort"]
        body["thinking"] = {"type": "disabled"}
        for message in body["messages"]:
            message.pop("reasoning_content", None)
    if target.bare_name == "deepseek-v4-pro":
        for message in body["messages"]:
            if message["role"] == "assistant":
                message["reasoning_content"] = " "
    return body


def ours(
    wire_format: WireFormat, asked: Asked, target: Target, *conversations: ModelRequest
) -> list[Json]:
    """Write one request after the other, as a model does."""
    writer = format_of(wire_format).writer(target, asked.effort)
    convert = (lambda each: each) if sees_images(target) else in_words
    sent = (replace(one, messages=tuple(map(convert, one.messages))) for one in conversations)
    return [json.loads(writer.body(conversation, target)) for conversation in sent]
