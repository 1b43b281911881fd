"""The three wire formats as their providers speak them, and an agent on each, whose pauses take no
time."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from codeagent.agent.limits import ContextLimits
from codeagent.llm.native.model import NativeModel
from codeagent.llm.retry import RetryingModel
from tests.agent.compaction.reading import Show
from tests.agent.doubles import Scene, scene
from tests.servers import (
    FakeProvider,
    Turn,
    anthropic_server,
    anthropic_stream,
    openai_server,
    openai_stream,
    responses_server,
    responses_stream,
)

IDLE = 0.3
"""Seconds of silence that are too long if a server is to stall: that costs a test as much."""


@dataclass(frozen=True)
class Wire:
    name: str
    model: str
    server: Callable[..., AbstractAsyncContextManager[FakeProvider]]
    render: Callable[[Turn], bytes]
    length: str
    """How the provider says that the output limit was reached."""
    refusal: str
    error: Callable[[str, str], str]
    """An error event of a stream, from code and message."""

    def broken(self, code: str, message: str, after: str = "half") -> Turn:
        """A stream that says a word, and then that something is wrong."""
        begun = self.render(Turn(text=after))
        said = begun.index(after.encode()) + len(after)
        end = begun.index(b"\n\n", said) + 2
        return Turn(raw=begun[:end] + self.error(code, message).encode())

    def thought(self) -> Turn:
        """An answer that is nothing but thinking."""
        return (
            Turn(thinking=(("Hm?", "sig=="),))
            if self.name == "anthropic"
            else Turn(reasoning="Hm?")
        )


def _chat_error(code: str, message: str) -> str:
    return f"data: {json.dumps({'error': {'message': message, 'type': code, 'code': code}})}\n\n"


def _responses_error(code: str, message: str) -> str:
    failed = {"status": "failed", "error": {"code": code, "message": message}}
    return f"event: response.failed\ndata: {json.dumps({'type': 'response.failed', 'response': failed})}\n\n"


def _anthropic_error(code: str, message: str) -> str:
    return f"event: error\ndata: {json.dumps({'type': 'error', 'error': {'type': code, 'message': message}})}\n\n"


WIRES = (
    Wire("chat", "fake", openai_server, openai_stream, "length", "content_filter", _chat_error),
    Wire(
        "responses",
        "openai/responses/gpt-5",
        responses_server,
        responses_stream,
        "max_output_tokens",
        "content_filter",
        _responses_error,
    ),
    Wire(
        "anthropic",
        "anthropic/x",
        anthropic_server,
        anthropic_stream,
        "max_tokens",
        "refusal",
        _anthropic_error,
    ),
)


@dataclass
class Slept:
    """Pauses that end at once, and how long they would have taken."""

    seconds: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)


def agent_on(
    wire: Wire,
    base_url: str,
    slept: Slept,
    *,
    client: Any = None,
    window: int | None = None,
    idle: float = 90.0,
) -> Scene:
    """An agent whose model is reached over this wire, or over a client of the test's."""
    return agent_of(model_on(wire, base_url, slept, client=client, idle=idle), window)


def model_on(
    wire: Wire, base_url: str, slept: Slept, *, client: Any = None, idle: float = 90.0
) -> RetryingModel:
    inner = NativeModel(wire.model, api_base=base_url, api_key="k", idle_timeout=idle)
    if client is not None:
        inner._client = client
    return RetryingModel(inner, sleep=slept.sleep, jitter=lambda: 1.0)


def agent_of(model: Any, window: int | None = None) -> Scene:
    return scene(model=model, context=ContextLimits(window=window or 100_000), more=(Show(),))


def said(message: str, **fields: str) -> str:
    """The body of an error response."""
    return json.dumps(
        {"type": "error", "error": {"type": "some_error", "message": message, **fields}}
    )


def status(number: int, message: str = "oops", after: str | None = None, **fields: str) -> Turn:
    return Turn(
        status=number,
        body=said(message, **fields),
        headers={} if after is None else {"retry-after": after},
    )
