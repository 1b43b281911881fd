"""Tools that the provider runs, through the real command: declared, logged, shown, exported, sent
back on a resume."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Done, Product, of, say
from tests.fakes import put
from tests.provider_streams import CITED, FOUND, PNG, SEARCH, anthropic_answer, responses_answer
from tests.servers import FakeProvider, Turn, anthropic_server, openai_server

GROUP = """\
[toolsets]
offer = ["provider"]
use = ["look"]
[toolsets.groups.look]
source = "provider"
tools = ["web_*"]
"""
CLAUDE, GPT = "anthropic/claude-sonnet-4-5", "openai/responses/gpt-5"


async def run(product: Product, model: str, server: FakeProvider, *arguments: str) -> Done:
    command = (
        "run",
        "how large?",
        "--model",
        model,
        "--api-base",
        server.base_url,
        "--sandbox",
        "off",
        *arguments,
    )
    environment = product.environment | {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    return await asyncio.to_thread(product.call_apart, *command, env=environment)


async def test_a_search_is_shown_exported_and_sent_back_unchanged_when_the_session_is_resumed(
    product: Product,
) -> None:
    pending = {**SEARCH, "id": "srvtoolu_2", "input": {"query": "again"}}
    turns = [
        Turn(
            raw=anthropic_answer(
                [{"type": "text", "text": "I look."}, SEARCH, FOUND, pending], "pause_turn", 1
            )
        ),
        Turn(raw=anthropic_answer([{**FOUND, "tool_use_id": "srvtoolu_2"}, CITED], searches=1)),
        Turn(text="As I said."),
    ]
    async with anthropic_server(turns) as server:
        done = await run(product, CLAUDE, server, "--toolset", "provider")
        again = await run(
            product, CLAUDE, server, "--toolset", "provider", "--resume", product.sessions[0].name
        )
    assert server.rejected == []
    assert (done.code, done.out) == (0, "I look.\n\nIt is large.\n"), done.err
    assert "web_search: größe\n  https://example.org/size  Size\\x1b]0;x\\x07 matters\n" in done.err
    assert (
        f"{CLAUDE} has no image_generation of its provider's own that can be used here: not sent"
        in done.err
    )
    assert (again.code, again.out) == (0, "As I said.\n"), again.err
    first, second, third = (request.body for request in server.requests)
    assert {"type": "web_search_20250305", "name": "web_search"} in first["tools"]
    assert "toolset_use" not in json.dumps(first["messages"])
    content = third["messages"][1]["content"]
    assert (
        content[:4]
        == second["messages"][1]["content"]
        == [{"type": "text", "text": "I look."}, SEARCH, FOUND, pending]
    )
    assert content[5]["citations"] == CITED["citations"]
    log = product.log()
    assert [event["usage"].get("searches") for event in of(log, "run.finished")] == [2, None]
    assert [event["stop"] for event in of(log, "turn.finished")] == ["paused", "end", "end"]
    exported = product.call("sessions", "export", product.sessions[0].name).out
    assert "https://example.org/size" in exported and "by the provider" in exported
    assert "\x1b" not in exported + done.err + done.out
    assert product.call("sessions", "check").code == 0


async def test_an_image_is_saved_beside_the_log_and_its_path_is_told(product: Product) -> None:
    drawn = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG}
    async with openai_server(
        [Turn(raw=responses_answer([drawn])), Turn(raw=responses_answer([drawn]))]
    ) as server:
        done = await run(product, GPT, server, "--toolset", "provider", "--output", "jsonl")
        again = await run(
            product, GPT, server, "--output", "jsonl", "--resume", product.sessions[0].name
        )
    assert (done.code, again.code) == (0, 0), done.err + again.err
    for number, one in enumerate((done, again), start=1):
        (use,) = of(one.events, "provider.used")
        (image,) = map(Path, use["images"])
        assert image == product.sessions[0] / "outputs" / f"image-{number}.png"
        assert image.read_bytes().startswith(b"\x89PNG") and image.stat().st_mode & 0o077 == 0
    assert PNG not in json.dumps(product.log())
    assert {"type": "image_generation_call", "id": "ig_1"} in server.requests[1].body["input"]
    assert {"type": "image_generation"} in server.requests[1].body["tools"]


@pytest.mark.parametrize(
    ("arguments", "settings", "expected"),
    [
        ((), "", []),
        ((), '[toolsets]\noffer = ["provider"]\n', []),
        (("--toolset", "provider"), "", ["web_search", "code_execution", "image_generation"]),
        (
            ("--toolset", "provider"),
            '[rules]\ndeny = ["web_search"]\n',
            ["code_execution", "image_generation"],
        ),
        (
            ("--toolset", "provider"),
            '[toolsets]\nrequire_info = ["code*", "web_*"]\n',
            ["image_generation"],
        ),
        (("--tools", "read,web_search"), "", ["web_search"]),
        (("--tools", "read,web_search"), '[web]\nsearch = "brave"\n', []),
        ((), GROUP, ["web_search"]),
    ],
)
def test_they_are_on_only_if_the_user_says_so_in_the_ways_that_other_tools_are(
    product: Product, arguments: tuple[str, ...], settings: str, expected: list[str]
) -> None:
    config = product.home / "config" / "codeagent" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(settings)
    done = product.run(product.script(say("ok")), "--output", "jsonl", *arguments)
    assert done.code == 0, done.err
    missing = [
        event["data"]["tools"]
        for event in of(done.events, "notice")
        if event["code"] == "tools.not_at_provider"
    ]
    assert missing == ([expected] if expected else [])
    assert not any(event["code"] == "tools.problem" for event in of(done.events, "notice"))


def test_one_whose_documentation_is_required_is_sent_once_that_was_read(product: Product) -> None:
    put(
        product.home,
        "config/codeagent/config.toml",
        '[toolsets]\nuse = ["provider"]\nrequire_info = ["*"]\n',
    )
    read: dict[str, Any] = {"calls": [["info", {"name": "web_search"}]]}
    done = product.run(product.script(read, say("ok")), "--output", "jsonl")
    told = [
        event for event in of(done.events, "notice") if event["code"] == "tools.not_at_provider"
    ]
    assert [event["data"]["tools"] for event in told] == [["web_search"]]
    assert told[0]["seq"] > of(done.events, "tool.result")[0]["seq"]


def test_a_call_of_one_as_a_function_is_answered_with_what_to_do(product: Product) -> None:
    call: dict[str, Any] = {"calls": [["web_search", {}]]}
    done = product.run(
        product.script(call, say("ok")), "--toolset", "provider", "--output", "jsonl"
    )
    (answered,) = of(done.events, "tool.result")
    assert "web_search runs at the provider" in answered["error"]["message"]


def test_computer_use_is_refused_in_the_settings_with_the_reason(product: Product) -> None:
    config = product.home / "config" / "codeagent" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('[provider_tools]\n"anthropic/*" = ["web_search", "computer_use"]\n')
    done = product.run(product.script(say("ok")))
    assert done.code == 2
    assert "config.toml:1: provider_tools" in done.err and "computer use is refused" in done.err
