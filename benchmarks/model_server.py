"""A bare OpenAI-format model on loopback that notes when requests come and answers begin and end.

`python -m benchmarks.model_server FILE` prints its port; FILE holds a JSON list of turns `{"text":
…, "calls": [[name, {arguments}], …], "chunks": 1, "wait": 0, "pace": 0}`: after `wait` seconds the
text is sent in so many chunks, `pace` seconds apart. GET /log returns `[{"arrived", "began",
"ended", "bytes", "prefix_bytes"}, …]`, times in seconds of the system-wide monotonic clock.
"""

import itertools
import json
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
"""The answer to what a client asks a server about itself."""


class ModelServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, turns: list[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.responses = [Response(turn, number) for number, turn in enumerate(turns)]
        self.log: list[dict[str, float]] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ModelServer

    def log_message(self, *args: Any) -> None:
        return None

    def do_GET(self) -> None:
        if self.path != "/log":
            self.wfile.write(_NOT_FOUND)
            return
        body = json.dumps(self.server.log).encode()
        self.wfile.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)

    def do_POST(self) -> None:
        arrived = time.monotonic()
        raw = self.rfile.read(int(self.headers["content-length"]))
        if not self.path.endswith("/chat/completions"):
            self.wfile.write(_NOT_FOUND)
            return
        number = len(self.server.log)
        entry = {"arrived": arrived, "bytes": len(raw)}
        self.server.log.append(entry)
        response = self.server.responses[min(number, len(self.server.responses) - 1)]
        time.sleep(response.wait)
        entry["began"] = time.monotonic()
        for piece in response.pieces:
            self.wfile.write(piece)
            time.sleep(response.pace)
        entry["ended"] = time.monotonic()
        entry["prefix_bytes"] = 0 if number else _prefix_bytes(json.loads(raw))


def _prefix_bytes(request: dict[str, Any]) -> int:
    """Of system prompt and tools, which every later request repeats; only the first one is looked
    at."""
    system = [message for message in request["messages"] if message["role"] == "system"]
    return len(
        json.dumps(
            [request.get("tools", []), *system], separators=(",", ":"), ensure_ascii=False
        ).encode()
    )


class Response:
    """Head and stream, made beforehand: no client waits for this server. It is one piece unless it
    has a pace."""

    def __init__(self, turn: dict[str, Any], number: int) -> None:
        self.wait: float = turn.get("wait", 0)
        self.pace: float = turn.get("pace", 0)
        events = [f"data: {part}\n\n".encode() for part in _stream(turn, number)]
        length = sum(map(len, events))
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n".encode()
        self.pieces = [head, *events] if self.pace else [b"".join([head, *events])]


def _stream(turn: dict[str, Any], number: int) -> Iterator[str]:
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
    for delta in _deltas(turn, number):
        yield json.dumps({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    reason = "tool_calls" if turn.get("calls") else "stop"
    yield json.dumps({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    usage = turn.get("usage", {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20})
    yield json.dumps({**head, "choices": [], "usage": usage})
    yield "[DONE]"


def _deltas(turn: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    text, chunks = turn.get("text", ""), turn.get("chunks", 1)
    cuts = [len(text) * cut // chunks for cut in range(chunks + 1)]
    for first, last in itertools.pairwise(cuts):
        yield {"role": "assistant", "content": text[first:last]}
    for index, (name, arguments) in enumerate(turn.get("calls", [])):
        function = {"name": name, "arguments": json.dumps(arguments)}
        yield {
            "tool_calls": [
                {
                    "index": index,
                    "id": f"c{number}_{index}",
                    "type": "function",
                    "function": function,
                }
            ]
        }


if __name__ == "__main__":
    server = ModelServer(json.loads(Path(sys.argv[1]).read_text()))
    print(server.server_address[1], flush=True)
    server.serve_forever()
