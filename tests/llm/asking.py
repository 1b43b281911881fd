"""Asking a model in a test: requests, and what came back."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from codeagent.core.messages import (
    AssistantMessage,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from codeagent.core.model import (
    CallClosed,
    Model,
    ModelAnswer,
    ModelEvent,
    ModelRequest,
    ReasoningPiece,
    Retrying,
    TextPiece,
)
from codeagent.core.tool import ToolDefinition
from codeagent.llm.litellm_model import LitellmModel
from codeagent.llm.native.model import NativeModel

LITELLM_WORKER = pytest.mark.xdist_group("litellm")
"""For the worker that imports litellm."""
LANES = [
    pytest.param(NativeModel, id="native"),
    pytest.param(LitellmModel, id="litellm", marks=LITELLM_WORKER),
]
"""What a fixture takes as `params` if its tests are about every model of a provider."""

READ = ToolDefinition(
    "read",
    "Reads a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
BASH = ToolDefinition(
    "bash", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}}
)


def request(*messages: Message, system: str = "You are a test.") -> ModelRequest:
    return ModelRequest(system, messages or (UserMessage.from_text("hi"),), (READ, BASH))


def result(call: ToolCall, text: str, **fields: Any) -> ToolMessage:
    return ToolMessage(call_id=call.id, name=call.name, content=(TextPart(text=text),), **fields)


@dataclass
class Heard:
    """What a model streamed, until its end or its error."""

    events: list[ModelEvent] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextPiece))

    @property
    def reasoning(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, ReasoningPiece))

    @property
    def closed(self) -> list[ToolCall]:
        return [event.call for event in self.events if isinstance(event, CallClosed)]

    @property
    def retries(self) -> list[Retrying]:
        return [event for event in self.events if isinstance(event, Retrying)]

    @property
    def answers(self) -> list[ModelAnswer]:
        return [event for event in self.events if isinstance(event, ModelAnswer)]

    @property
    def message(self) -> AssistantMessage:
        (answer,) = self.answers
        assert answer is self.events[-1]
        return answer.message

    @property
    def usage(self) -> Usage:
        return self.answers[0].usage


async def ask(model: Model, asked: ModelRequest | None = None, heard: Heard | None = None) -> Heard:
    """`heard` keeps what came before an error. Raises ModelError."""
    heard = heard or Heard()
    async for event in model.stream(asked or request()):
        heard.events.append(event)
    return heard
