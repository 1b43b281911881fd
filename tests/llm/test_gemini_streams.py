"""A Gemini stream as litellm reads it: it says that it has stopped, or it was cut."""

import json
from typing import Any

from codeagent.core.errors import ModelError
from codeagent.core.model import ModelAnswer
from codeagent.llm.litellm_model import LitellmModel
from tests.llm.asking import LITELLM_WORKER, request
from tests.servers import FakeProvider, Turn, running
from tests.table import for_each

pytestmark = LITELLM_WORKER
TEXT = {"text": "I look first."}
CALL = {"functionCall": {"name": "read", "args": {"path": "a.py"}}}


def page(*candidates: dict[str, Any]) -> Turn:
    lines = [f"data: {json.dumps({'candidates': [one]})}\r\n\r\n" for one in candidates]
    return Turn(page=("content-type: text/event-stream", "".join(lines).encode()))


def said(*parts: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    content = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    return {"index": 0, **content, **({"finishReason": finish} if finish else {})}


async def answer(turn: Turn) -> ModelAnswer:
    """Ask a server that answers with the page. Raises ModelError."""
    server = FakeProvider([turn], lambda turn: b"", lambda body: [], chunk=0, delay=0, repeat=False)
    async with running(server, ""):
        model = LitellmModel("gemini/gemini-2.5-flash", api_base=server.base_url, api_key="k")
        try:
            return [
                event async for event in model.stream(request()) if isinstance(event, ModelAnswer)
            ][-1]
        finally:
            await model.close()


@for_each(
    "turn",
    [
        page(said(TEXT)),
        page(said(TEXT), said(CALL)),
        page(said(CALL)),
        page(said(TEXT), said(TEXT)),
    ],
)
async def test_a_stream_that_ends_without_a_finish_reason_is_cut_off_and_none_of_its_calls_is_run(
    turn: Turn,
) -> None:
    try:
        got = await answer(turn)
    except ModelError as error:
        assert (error.kind, error.retryable) == ("cut", True)
    else:
        raise AssertionError(f"taken for done: {got}")


@for_each(
    "turn, stop, calls",
    [
        (page(said(TEXT), said(finish="STOP")), "end", 0),
        (page(said(TEXT, finish="STOP")), "end", 0),
        (page(said(TEXT), said(CALL, finish="STOP")), "tool_calls", 1),
        (page(said(CALL), said({"text": ""}, finish="STOP")), "tool_calls", 1),
        (page(said(CALL), said(finish="STOP")), "tool_calls", 1),
        (page(said(TEXT, finish="MAX_TOKENS")), "length", 0),
        (page(said(TEXT), said(finish="SAFETY")), "content_filter", 0),
    ],
)
async def test_a_stream_with_its_finish_reason_is_done(turn: Turn, stop: str, calls: int) -> None:
    got = await answer(turn)
    assert (got.message.stop, len(got.message.calls)) == (stop, calls)
