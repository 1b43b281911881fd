"""A model with a small window: the product asks its server, says so, and sends a request that
fits."""

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.servers import FakeProvider, Turn, openai_server


async def run(folder: Path, fake: FakeProvider) -> tuple[int | None, str]:
    """Run one prompt without a sandbox; return its exit code and all that it printed."""
    arguments = [
        "run",
        "hi",
        "--model",
        "openai/fake",
        "--api-base",
        fake.base_url,
        "--sandbox",
        "off",
    ]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "codeagent",
        *arguments,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )
    printed, _ = await process.communicate()
    return process.returncode, printed.decode()


async def test_a_window_of_2048_tokens_gets_a_prompt_that_leaves_most_of_it_for_the_conversation(
    tmp_path: Path,
) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs. " * 2_000)
    async with openai_server([Turn(text="hello")]) as fake:
        fake.facts["/v1/models"] = {"data": [{"id": "fake", "max_model_len": 2_048}]}
        code, printed = await run(tmp_path, fake)
    body = fake.requests[0].body
    assert (code, "hello" in printed, "window of 2,048 tokens" in printed) == (0, True, True), (
        printed
    )
    assert {tool["function"]["name"] for tool in body["tools"]} <= {"read", "edit", "write", "bash"}
    assert len(json.dumps(body)) < 2_048 * 3
    assert 256 <= body["max_tokens"] < 2_048


async def test_a_large_window_gets_everything(tmp_path: Path) -> None:
    async with openai_server([Turn(text="hello")]) as fake:
        fake.facts["/v1/models"] = {"data": [{"id": "fake", "max_model_len": 131_072}]}
        code, printed = await run(tmp_path, fake)
    assert (code, "short prompt" in printed) == (0, False), printed
    assert "search" in {tool["function"]["name"] for tool in fake.requests[0].body["tools"]}
