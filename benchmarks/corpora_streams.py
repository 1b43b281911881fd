"""Recorded provider streams through our model and through plain litellm, on loopback.

    python -m benchmarks.corpora_streams FOLDER [--lane native|litellm] [--chunk BYTES] [--baseline]

FOLDER holds `streams/index.jsonl` with the recordings and `harness/replay_server.py`, which serves
them; without `--lane` both lanes read each. A record counts as equal if text, reasoning, calls and
usage are what the recording says; a recording that ends with an error must become a ModelError.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from typing import Any

from codeagent.core.errors import ModelError
from codeagent.core.messages import AssistantMessage, Usage, UserMessage
from codeagent.core.model import ModelAnswer, ModelRequest
from codeagent.core.tool import ToolDefinition
from codeagent.llm.litellm_model import LitellmModel
from codeagent.llm.native.model import NativeModel
from codeagent.llm.provider_model import ProviderModel

MODELS = {
    "openai.responses": ("openai/responses/gpt-5", ""),
    "openai.chat": ("openai/x", ""),
    "anthropic.messages": ("anthropic/claude-sonnet-4-5", "/v1/messages"),
    "gemini.generateContent": ("gemini/gemini-2.5-flash", ""),
}
LANES: dict[str, type[ProviderModel]] = {"native": NativeModel, "litellm": LitellmModel}
LITELLM_ONLY = {"gemini.generateContent"}
TOOL = ToolDefinition("x", "a tool", {"type": "object", "properties": {}})
REQUEST = ModelRequest("system", (UserMessage.from_text("hi"),), (TOOL,))
Record = dict[str, Any]


async def ours(record: Record, base: str, lane: str) -> tuple[AssistantMessage, Usage]:
    """Raises ModelError."""
    name, path = MODELS[record["api"]]
    model = LANES[lane](name, api_base=base + path, api_key="k", idle_timeout=20)
    async with aclosing(model.stream(REQUEST)) as events:
        async for event in events:
            if isinstance(event, ModelAnswer):
                await model.close()
                return event.message, event.usage
    raise AssertionError("the stream ended without an answer")


async def plain(record: Record, base: str) -> tuple[str, list[tuple[str, Any]], int]:
    """What litellm's own stream and its chunk builder make of it."""
    import litellm

    litellm.suppress_debug_info = True
    name, path = MODELS[record["api"]]
    tools = [
        {
            "type": "function",
            "function": {"name": "x", "parameters": {"type": "object", "properties": {}}},
        }
    ]
    stream = await litellm.acompletion(
        model=name,
        api_base=base + path,
        api_key="k",
        messages=[{"role": "user", "content": "hi"}],
        tools=tools,
        stream=True,
        stream_options={"include_usage": True},
        max_retries=0,
        timeout=20,
        _skip_mcp_handler=True,
    )
    whole = litellm.stream_chunk_builder([chunk async for chunk in stream])
    message = whole.choices[0].message
    calls = [
        (call.function.name, parsed(call.function.arguments)) for call in message.tool_calls or ()
    ]
    return message.content or "", calls, whole.usage.completion_tokens


def parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments) if arguments else {}
    except ValueError:
        return arguments


def differences(record: Record, message: AssistantMessage, usage: Usage) -> list[str]:
    expect = record["expect"]
    found = []
    if message.text.strip() != expect["text"].strip():
        found.append("text")
    if [(call.name, parsed(call.arguments)) for call in message.calls] != wanted_calls(expect):
        found.append("calls")
    if (
        "".join(block.text for block in message.thinking).strip()
        != (expect.get("reasoning") or "").strip()
    ):
        found.append("reasoning")
    if expect["usage"].get("output") and usage.output_tokens not in outputs(expect["usage"]):
        found.append("usage")
    return found


def wanted_calls(expect: Record) -> list[tuple[str, Any]]:
    return [(call["name"], parsed(call["arguments"])) for call in expect["tool_calls"]]


def outputs(usage: Record) -> set[int]:
    """Providers differ in whether reasoning is part of the output."""
    return {usage["output"], usage["output"] + usage.get("reasoning", 0)}


async def compare(
    record: Record, base: str, counts: Counter[tuple[str, str]], lane: str
) -> str | None:
    """Counts the record; a line about it where something differs."""
    broken = "stream_error" in record["flags"]
    try:
        message, usage = await ours(record, base, lane)
    except ModelError as error:
        counts[record["api"], "refused as broken" if broken else "FAILED"] += 1
        return f"{record['id']} {record['flags']}: {error.kind}: {error}"
    found = differences(record, message, usage)
    if usage.estimated:
        counts[record["api"], "usage estimated"] += 1
    for part in ("text", "calls", "reasoning", "usage"):
        counts[record["api"], f"{part} equal" if part not in found else f"{part} DIFFERS"] += 1
    if not found:
        return None
    return f"{record['id']} {record['flags']}: {', '.join(found)}; got {message.calls!r:.200} {usage!r:.200}"


async def compare_plain(
    record: Record, base: str, counts: Counter[tuple[str, str]], _: str
) -> str | None:
    expect = record["expect"]
    try:
        text, calls, output = await plain(record, base)
    except Exception as error:
        counts[record["api"], "FAILED"] += 1
        return f"{record['id']} {record['flags']}: {type(error).__name__}: {error!s:.120}"
    right = {
        "text": text.strip() == expect["text"].strip(),
        "calls": calls == wanted_calls(expect),
        "usage": not expect["usage"].get("output") or output in outputs(expect["usage"]),
    }
    for part, equal in right.items():
        counts[record["api"], f"{part} equal" if equal else f"{part} DIFFERS"] += 1
    wrong = [part for part, equal in right.items() if not equal]
    return f"{record['id']} {record['flags']}: {', '.join(wrong)}" if wrong else None


async def run(folder: Path, chunk: int, lane: str) -> None:
    """`lane` is one of ours, or "plain litellm"."""
    lines = (folder / "streams" / "index.jsonl").read_text(encoding="utf-8").splitlines()
    records = [r for r in map(json.loads, lines) if r["stream"] and r["api"] in MODELS]
    if lane == "native":
        records = [record for record in records if record["api"] not in LITELLM_ONLY]
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        str(folder / "harness" / "replay_server.py"),
        "--chunk",
        str(chunk),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert server.stdout is not None
    port = int(await server.stdout.readline())
    counts: Counter[tuple[str, str]] = Counter()
    remarks = []
    try:
        for record in records:
            base = f"http://127.0.0.1:{port}/r/{record['id']}"
            remark = await (compare if lane in LANES else compare_plain)(record, base, counts, lane)
            remarks += [remark] if remark else []
    finally:
        server.terminate()
        await server.wait()
    print(f"{len(records)} streams, {chunk or 'all'} bytes a write, {lane}")
    for (api, what), count in sorted(counts.items()):
        print(f"  {api:24} {what:20} {count}")
    for remark in remarks:
        print("  " + remark)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chunk", type=int, default=0)
    parser.add_argument("--baseline", action="store_true")
    parser.add_argument("--lane", choices=LANES)
    options = parser.parse_args()
    for lane in (
        ["plain litellm"] if options.baseline else [options.lane] if options.lane else LANES
    ):
        asyncio.run(run(options.folder, options.chunk, lane))


if __name__ == "__main__":
    main()
