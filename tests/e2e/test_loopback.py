"""The demo's bug, fixed through real HTTP in both wire formats, five bytes at a time."""

import asyncio
import json
from importlib.resources import files
from typing import Any

import pytest

from codeagent.llm.demo import DEMO_PROMPT, demo_files
from tests.e2e.product import Event, Product, of, results
from tests.servers import FakeProvider, Turn, anthropic_server, openai_server

pytestmark = pytest.mark.docker


def turns(*, signed: bool) -> list[Turn]:
    """The demo's script as a provider's answers; the thinking of one family is signed, of the other
    not."""
    script = json.loads((files("codeagent.llm") / "demo.json").read_text(encoding="utf-8"))
    return [
        Turn(
            text=turn["text"],
            reasoning="" if signed else turn.get("reasoning", ""),
            thinking=((turn["reasoning"], f"signature-{number}"),)
            if signed and "reasoning" in turn
            else (),
            calls=tuple((name, arguments) for name, arguments in turn.get("calls", ())),
        )
        for number, turn in enumerate(script)
    ]


async def fix(product: Product, model: str, server: FakeProvider) -> list[Event]:
    """Run the agent on the demo's project; returns its events once the project's own tests pass."""
    for name, text in demo_files().items():
        path = product.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    arguments = ["--model", model, "--api-base", server.base_url, "--yes", "--output", "jsonl"]
    environment = product.environment | {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    done = await asyncio.to_thread(
        product.call_apart, "run", DEMO_PROMPT, *arguments, env=environment
    )
    assert (done.code, done.err) == (0, "")
    assert product.call_in(product.workspace, "python3", "-m", "unittest").code == 0
    events = done.events
    commands = [
        (result["is_error"], result["sandbox"])
        for result in results(events)
        if result["name"] == "bash"
    ]
    assert commands == [(True, "docker"), (False, "docker"), (False, "docker")]
    return events


async def test_the_bug_is_fixed_through_an_openai_format_server(product: Product) -> None:
    async with openai_server(turns(signed=False), chunk=5) as server:
        events = await fix(product, "openai/local", server)
    assert server.rejected == []
    assert thinking(events) == "".join(turn.reasoning for turn in turns(signed=False))
    (parallel,) = [event for event in of(events, "batch.planned") if len(event["calls"]) == 2]
    assert [call["name"] for call in parallel["calls"]] == ["read", "search"]


async def test_the_bug_is_fixed_through_an_anthropic_format_server_and_its_thinking_goes_back(
    product: Product,
) -> None:
    async with anthropic_server(turns(signed=True), chunk=5) as server:
        events = await fix(product, "anthropic/claude-sonnet-4-5", server)
    assert server.rejected == []
    blocks = [block for turn in turns(signed=True) for block in turn.thinking]
    assert thinking(events) == "".join(text for text, _ in blocks)
    assert signed_blocks(server.requests[-1].body) == blocks
    assert of(events, "run.finished")[0]["usage"]["input_tokens"] == 100 * len(turns(signed=True))


def thinking(events: list[Event]) -> str:
    return "".join(event["text"] for event in of(events, "reasoning.delta"))


def signed_blocks(body: dict[str, Any]) -> list[tuple[str, str]]:
    content = [
        block
        for message in body["messages"]
        if message["role"] == "assistant"
        for block in message["content"]
    ]
    return [
        (block["thinking"], block["signature"]) for block in content if block["type"] == "thinking"
    ]
