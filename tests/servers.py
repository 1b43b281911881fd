"""Providers on loopback: real HTTP, real wire formats, and a provider's strictness about what it is
sent.

    async with openai_server([Turn(text="hi")], chunk=5) as server:
        model = LitellmModel("openai/fake", api_base=server.base_url)

Each request gets the next turn; the last one repeats only where `repeat` says so.
"""

import asyncio
import json
import re
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """One response. Everything after `status` bends it away from a good answer."""

    text: str = ""
    reasoning: str = ""
    """Unsigned, as OpenAI-compatible servers send it."""
    thinking: tuple[tuple[str, str], ...] = ()
    """Signed blocks for Anthropic: text and signature; no text means a redacted block."""
    calls: tuple[tuple[str, Json | str], ...] = ()
    ids: tuple[str, ...] = ()
    """Ids of the calls; made up where there are fewer."""
    stop: str | None = None
    usage: Json | None = field(default_factory=lambda: {"input": 100, "output": 20})
    """`input`, `output`, `cache_read`, `cache_write`, `reasoning`; None sends no usage."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    """Of an error; a provider-like one otherwise."""
    raw: bytes | None = None
    """The stream itself instead of one made from the fields above."""
    page: tuple[str, bytes] | None = None
    """A body that is not a stream: its header lines and bytes."""
    hang_up: bool = False
    """Reset the connection before the first byte."""
    silent: bool = False
    """Hold the connection open without a byte."""
    cut_after: int | None = None
    """Bytes of the stream after which the connection ends."""
    clean_cut: bool = False
    """The cut looks like the end of the response, not like a broken connection."""
    stall: bool = False
    """Stop sending at the cut, or at the end, and hold the connection open."""


@dataclass(frozen=True)
class Request:
    path: str
    headers: Mapping[str, str]
    body: Json


class FakeProvider:
    """One server; `requests` are those received, `rejected` what was wrong with the last bad
    one."""

    def __init__(
        self,
        turns: Sequence[Turn],
        render: Callable[[Turn], bytes],
        problems: Callable[[Json], list[str]],
        *,
        chunk: int,
        delay: float,
        repeat: bool,
    ) -> None:
        self.turns = list(turns)
        self.requests: list[Request] = []
        self.rejected: list[str] = []
        self.facts: dict[str, Json] = {}
        """What the server says about itself, by path; other paths that are read are not found."""
        self.asked: list[Request] = []
        """The requests for facts; they take no turn."""
        self.check: Callable[[Json], Turn | None] = lambda body: None
        """What the server refuses before it takes a turn."""
        self.key = ""
        """The only key that it takes; empty if it takes any."""
        self.client_left = asyncio.Event()
        self.streaming = asyncio.Event()
        self.connections = 0
        self.base_url = ""
        self._render, self._problems = render, problems
        self._chunk, self._delay, self._repeat = chunk, delay, repeat
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while await self._one_request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _one_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """False where the connection ends with this response."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = json.loads(
            await reader.readexactly(int(headers.get("content-length", "0"))) or b"{}"
        )
        method, path, *_ = head[0].split()
        if self.key and headers.get("authorization") != f"Bearer {self.key}":
            return await self._error(Turn(status=401), writer)
        if method == "GET" or path.startswith("/api/"):
            self.asked.append(Request(path, headers, body))
            return await self._page(self.facts.get(path.partition("?")[0]), writer)
        self.requests.append(Request(path, headers, body))
        if (refused := self.check(body)) is not None:
            return await self._error(refused, writer)
        found = self._problems(body)
        if found:
            self.rejected = found
            turn = Turn(
                status=400,
                body=json.dumps({"error": {"message": "; ".join(found), "type": "invalid"}}),
            )
        elif self.turns:
            turn = self.turns[0] if self._repeat and len(self.turns) == 1 else self.turns.pop(0)
        else:
            turn = Turn(
                status=500, body=json.dumps({"error": {"message": "the fake has no more turns"}})
            )
        if turn.hang_up:
            writer.transport.abort()
            return False
        if turn.silent:
            await self._hold(reader)
            return False
        if turn.page is not None:
            kind, body = turn.page
            writer.write(
                f"HTTP/1.1 200 OK\r\n{kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
            )
            await writer.drain()
            return True
        if turn.status != 200:
            return await self._error(turn, writer)
        return await self._stream(turn, reader, writer)

    async def _page(self, facts: Json | None, writer: asyncio.StreamWriter) -> bool:
        text = json.dumps(facts if facts is not None else {"error": "not found"})
        return await self._error(Turn(status=404 if facts is None else 200, body=text), writer)

    async def _error(self, turn: Turn, writer: asyncio.StreamWriter) -> bool:
        text = (
            turn.body
            if turn.body is not None
            else json.dumps({"error": {"message": "scripted failure"}})
        )
        lines = [
            f"HTTP/1.1 {turn.status} X",
            "content-type: application/json",
            f"content-length: {len(text.encode())}",
        ]
        lines += [f"{name}: {value}" for name, value in turn.headers.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n" + text).encode())
        await writer.drain()
        return True

    async def _stream(
        self, turn: Turn, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        data = turn.raw if turn.raw is not None else self._render(turn)
        whole = data if turn.cut_after is None else data[: turn.cut_after]
        lines = ["HTTP/1.1 200 OK", "content-type: text/event-stream", "transfer-encoding: chunked"]
        lines += [f"{name}: {value}" for name, value in turn.headers.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        size = self._chunk or len(whole) or 1
        for start in range(0, len(whole), size):
            part = whole[start : start + size]
            writer.write(b"%x\r\n%s\r\n" % (len(part), part))
            try:
                await writer.drain()
            except ConnectionError:
                self.client_left.set()
                raise
            self.streaming.set()
            await asyncio.sleep(self._delay)
        if turn.stall:
            await self._hold(reader)
            return False
        if turn.cut_after is not None and not turn.clean_cut:
            writer.transport.abort()
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _hold(self, reader: asyncio.StreamReader) -> None:
        """Until the client hangs up."""
        self.streaming.set()
        try:
            await reader.read(1)
        except ConnectionError:
            pass
        self.client_left.set()


@asynccontextmanager
async def openai_server(
    turns: Sequence[Turn], *, chunk: int = 0, delay: float = 0.0, repeat: bool = False
) -> AsyncIterator[FakeProvider]:
    """Chat completions at `base_url` + /chat/completions; `chunk` bytes per write, 0 for all at
    once."""
    fake = FakeProvider(
        turns, openai_stream, openai_problems, chunk=chunk, delay=delay, repeat=repeat
    )
    async with running(fake, "/v1"):
        yield fake


@asynccontextmanager
async def responses_server(
    turns: Sequence[Turn], *, chunk: int = 0, delay: float = 0.0, repeat: bool = False
) -> AsyncIterator[FakeProvider]:
    """The responses API at `base_url` + /responses."""
    fake = FakeProvider(
        turns, responses_stream, responses_problems, chunk=chunk, delay=delay, repeat=repeat
    )
    async with running(fake, "/v1"):
        yield fake


@asynccontextmanager
async def anthropic_server(
    turns: Sequence[Turn], *, chunk: int = 0, delay: float = 0.0, repeat: bool = False
) -> AsyncIterator[FakeProvider]:
    """Messages at `base_url` + /v1/messages. Thinking must come back as one of the turns sent
    it."""
    sent = [block for turn in turns for block in turn.thinking]
    fake = FakeProvider(
        turns,
        anthropic_stream,
        lambda body: anthropic_problems(body, sent),
        chunk=chunk,
        delay=delay,
        repeat=repeat,
    )
    async with running(fake, ""):
        yield fake


@asynccontextmanager
async def running(fake: FakeProvider, path: str) -> AsyncIterator[None]:
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0, limit=2**26)
    fake.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{path}"
    try:
        yield
    finally:
        server.close()
        await fake.stop()


@asynccontextmanager
async def behind_tls(fake: FakeProvider, certificate: Path) -> AsyncIterator[int]:
    """The fake behind TLS; yields the port. `certificate` holds the key too."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0, limit=2**26, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def self_signed(folder: Path, *names: str) -> Path:
    """A certificate for `names` (`DNS:…`, `IP:…`) that nobody signed, and its key, in one file."""
    file, key = folder / "server.pem", folder / "server.key"
    curve = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=test",
    ]
    command = ["openssl", "req", "-x509", *curve, "-addext", f"subjectAltName={','.join(names)}"]
    subprocess.run([*command, "-keyout", key, "-out", file], check=True, capture_output=True)
    file.write_bytes(key.read_bytes() + file.read_bytes())
    return file


def pieces(text: str, size: int = 6) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def call_ids(turn: Turn, prefix: str) -> list[str]:
    """The turn's ids, filled up with ids no other turn has."""
    made = [f"{prefix}{id(turn):x}{number}" for number in range(len(turn.ids), len(turn.calls))]
    return [*turn.ids, *made]


def arguments_of(arguments: Json | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def openai_stream(turn: Turn) -> bytes:
    """Server-sent events as chat completions has them; arguments of parallel calls are
    interleaved."""
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in pieces(turn.reasoning)]
    deltas += [{"content": piece} for piece in pieces(turn.text)]
    arguments = [pieces(arguments_of(call[1])) for call in turn.calls]
    for index, ((name, _), call_id) in enumerate(
        zip(turn.calls, call_ids(turn, "call_"), strict=True)
    ):
        function = {"name": name, "arguments": ""}
        deltas.append(
            {
                "tool_calls": [
                    {"index": index, "id": call_id, "type": "function", "function": function}
                ]
            }
        )
    for step in range(max(map(len, arguments), default=0)):
        for index, parts in enumerate(arguments):
            if step < len(parts):
                deltas.append(
                    {"tool_calls": [{"index": index, "function": {"arguments": parts[step]}}]}
                )
    finish = turn.stop or ("tool_calls" if turn.calls else "stop")
    choices: list[list[Json]] = [
        [{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas
    ]
    choices.append([{"index": 0, "delta": {}, "finish_reason": finish}])
    events: list[Json] = [{"choices": choice} for choice in choices]
    if turn.usage is not None:
        events.append({"choices": [], "usage": openai_usage(turn.usage)})
    lines = [json.dumps({"id": "chatcmpl-1", **event}) for event in events]
    return "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()


def openai_usage(usage: Json) -> Json:
    return {
        "prompt_tokens": usage["input"],
        "completion_tokens": usage["output"],
        "total_tokens": usage["input"] + usage["output"],
        "prompt_tokens_details": {"cached_tokens": usage.get("cache_read", 0)},
        "completion_tokens_details": {"reasoning_tokens": usage.get("reasoning", 0)},
    }


def responses_stream(turn: Turn) -> bytes:
    """Server-sent events of OpenAI's responses API: one item after the other, and all of them again
    at the end."""
    items = list(_responses_items(turn))
    events: list[Json] = [{"type": "response.created", "response": _response("in_progress", [])}]
    for index, item in enumerate(items):
        place = {"output_index": index, "item_id": item["id"]}
        events.append(
            {"type": "response.output_item.added", "output_index": index, "item": _begun_item(item)}
        )
        for kind, texts in _responses_deltas(item):
            events += [{"type": f"response.{kind}.delta", **place, "delta": text} for text in texts]
            if kind == "function_call_arguments":
                events.append(
                    {"type": f"response.{kind}.done", **place, "arguments": item["arguments"]}
                )
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    usage = turn.usage and {
        "input_tokens": turn.usage["input"],
        "output_tokens": turn.usage["output"],
        "total_tokens": turn.usage["input"] + turn.usage["output"],
    }
    status = "incomplete" if turn.stop else "completed"
    whole = _response(status, items) | {"usage": usage}
    if turn.stop:
        whole["incomplete_details"] = {"reason": turn.stop}
    events.append({"type": f"response.{status}", "response": whole})
    return "".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events
    ).encode()


def _response(status: str, items: list[Json]) -> Json:
    fixed = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "parallel_tool_calls": True,
        "tools": [],
    }
    return {**fixed, "status": status, "output": items}


def _responses_items(turn: Turn) -> Iterator[Json]:
    if turn.reasoning:
        yield {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": turn.reasoning}],
        }
    if turn.text:
        part = {"type": "output_text", "text": turn.text, "annotations": []}
        yield {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
    for number, ((name, arguments), call_id) in enumerate(
        zip(turn.calls, call_ids(turn, "call_"), strict=True)
    ):
        call = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": call_id,
            "name": name,
            "status": "completed",
        }
        yield {**call, "arguments": arguments_of(arguments)}


def _begun_item(item: Json) -> Json:
    empty: Json = {"summary": [], "content": [], "arguments": ""}
    return {name: empty.get(name, value) for name, value in item.items()}


def _responses_deltas(item: Json) -> list[tuple[str, list[str]]]:
    match item:
        case {"summary": [{"text": text}]}:
            return [("reasoning_summary_text", pieces(text))]
        case {"content": [{"text": text}]}:
            return [("output_text", pieces(text))]
        case {"arguments": arguments}:
            return [("function_call_arguments", pieces(arguments))]
    return []


def anthropic_stream(turn: Turn) -> bytes:
    """Server-sent events as the messages API has them: one block after the other."""
    usage = turn.usage or {"input": 0, "output": 0}
    cached = {
        "cache_read_input_tokens": usage.get("cache_read", 0),
        "cache_creation_input_tokens": usage.get("cache_write", 0),
    }
    fresh = usage["input"] - sum(cached.values())
    message: Json = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": fresh, "output_tokens": 1, **cached},
    }
    events: list[Json] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(_blocks(turn)):
        start, deltas = block
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    stop = turn.stop or ("tool_use" if turn.calls else "end_turn")
    delta = {"stop_reason": stop, "stop_sequence": None}
    events.append(
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": usage["output"]}}
    )
    events.append({"type": "message_stop"})
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )


def _blocks(turn: Turn) -> list[tuple[Json, list[Json]]]:
    blocks: list[tuple[Json, list[Json]]] = []
    for text, signature in turn.thinking:
        if not text:
            blocks.append(({"type": "redacted_thinking", "data": signature}, []))
            continue
        deltas: list[Json] = [
            {"type": "thinking_delta", "thinking": piece} for piece in pieces(text)
        ]
        deltas.append({"type": "signature_delta", "signature": signature})
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if turn.text:
        blocks.append(
            (
                {"type": "text", "text": ""},
                [{"type": "text_delta", "text": p} for p in pieces(turn.text)],
            )
        )
    for (name, arguments), call_id in zip(turn.calls, call_ids(turn, "toolu_"), strict=True):
        start = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        parts = ["", *pieces(arguments_of(arguments))]
        blocks.append(
            (start, [{"type": "input_json_delta", "partial_json": part} for part in parts])
        )
    return blocks


_OPENAI_KEYS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}


def openai_problems(body: Json) -> list[str]:
    """What chat completions would answer with 400."""
    if "input" in body:
        return responses_problems(body)
    problems: list[str] = []
    waiting: list[str] = []
    for number, message in enumerate(body["messages"]):
        role = message["role"]
        problems += [
            f"message {number}: unknown field {key}" for key in message.keys() - _OPENAI_KEYS[role]
        ]
        if '"cache_control":' in json.dumps(message):
            problems.append(f"message {number}: unknown field cache_control")
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                problems.append(
                    f"message {number}: no tool call {message['tool_call_id']} precedes it"
                )
            else:
                waiting.remove(message["tool_call_id"])
            if not isinstance(message["content"], str):
                problems.append(f"message {number}: tool content must be text")
            continue
        problems += [
            f"message {number}: tool call {call_id} has no response" for call_id in waiting
        ]
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        problems += _bad_arguments(message)
        if role == "assistant" and not message.get("content") and not waiting:
            problems.append(f"message {number}: empty")
    problems += [f"tool call {call_id} has no response" for call_id in waiting]
    return problems + [f"missing {key}" for key in ("model", "tools") if not body.get(key)]


def responses_problems(body: Json) -> list[str]:
    """What the responses API would answer with 400."""
    problems = [f"missing {key}" for key in ("model", "input") if not body.get(key)]
    waiting: list[str] = []
    for number, item in enumerate(body["input"]):
        match item["type"]:
            case "function_call":
                waiting.append(item["call_id"])
                problems += _bad_name(item["name"]) + _bad_json(item["call_id"], item["arguments"])
            case "function_call_output" if item["call_id"] in waiting:
                waiting.remove(item["call_id"])
            case "function_call_output":
                problems.append(f"input[{number}]: no tool call found for {item['call_id']}")
            case "message" if not all(part.get("text", "an image") for part in item["content"]):
                problems.append(f"input[{number}]: empty")
    return problems + [f"no tool output found for {call_id}" for call_id in waiting]


def _bad_name(name: str) -> list[str]:
    return (
        []
        if re.fullmatch("[A-Za-z0-9_-]{1,64}", name)
        else [f"{name!r} does not match the pattern of names"]
    )


def _bad_arguments(message: Json) -> list[str]:
    bad = []
    for call in message.get("tool_calls") or ():
        bad += _bad_name(call["function"]["name"]) + _bad_json(
            call["id"], call["function"]["arguments"]
        )
    return bad


def _bad_json(call_id: str, arguments: str) -> list[str]:
    try:
        json.loads(arguments)
    except ValueError:
        return [f"arguments of {call_id} are no JSON"]
    return []


def anthropic_problems(body: Json, sent: Sequence[tuple[str, str]]) -> list[str]:
    """What the messages API would answer with 400; `sent` are the thinking blocks it has signed."""
    problems = [
        f"missing {key}" for key in ("model", "max_tokens", "messages") if not body.get(key)
    ]
    waiting: list[str] = []
    role = "assistant"
    for number, message in enumerate(body["messages"]):
        if message["role"] == role:
            problems.append(f"messages.{number}: roles must alternate")
        role = message["role"]
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if results != waiting:
            problems.append(
                f"messages.{number}: tool_result {results} must match tool_use {waiting}"
            )
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for block in blocks:
            problems += [
                f"messages.{number}: {problem}" for problem in _block_problems(block, sent)
            ]
    if waiting:
        problems.append(f"tool_use {waiting} without tool_result")
    if json.dumps(body).count('"cache_control"') > 4:
        problems.append("more than 4 cache_control markers")
    return problems


def _block_problems(block: Json, sent: Sequence[tuple[str, str]]) -> list[str]:
    match block["type"]:
        case "text" if not block["text"].strip():
            return ["text content blocks must be non-empty"]
        case "thinking" if (block["thinking"], block["signature"]) not in sent:
            return ["invalid signature in thinking block"]
        case "redacted_thinking" if ("", block["data"]) not in sent:
            return ["invalid data in redacted_thinking block"]
        case "tool_use" if not isinstance(block["input"], dict):
            return ["tool_use.input must be an object"]
        case "tool_use":
            return _bad_name(block["name"])
    return []
