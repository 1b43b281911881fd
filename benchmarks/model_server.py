"""A bare OpenAI-format model on loopback that notes when requests come and answers end.

`python -m benchmarks.model_server FILE` prints its port; FILE holds a JSON list of turns
`{"text": …, "calls": [[name, {arguments}], …]}`. GET /log returns `[{"arrived", "ended", "bytes",
"prefix_bytes"}, …]`, times in seconds of the system-wide monotonic clock.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class ModelServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, turns: list[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.turns = turns
        self.log: list[dict[str, float]] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer

    def log_message(self, *args: Any) -> None:
        return None

    def do_GET(self) -> None:
        body = json.dumps(self.server.log).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        arrived = time.monotonic()
        raw = self.rfile.read(int(self.headers["content-length"]))
        request = json.loads(raw)
        prefix = [request.get("tools", []), *(m for m in request["messages"] if m["role"] == "system")]
        entry = {"arrived": arrived, "bytes": len(raw), "prefix_bytes": len(json.dumps(prefix).encode())}
        turn = self.server.turns[min(len(self.server.log), len(self.server.turns) - 1)]
        self.server.log.append(entry)
        body = b"".join(b"data: " + part + b"\n\n" for part in _chunks(turn, len(self.server.log)))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        entry["ended"] = time.monotonic()


def _chunks(turn: dict[str, Any], number: int) -> list[bytes]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": turn.get("text", "")}]
    for index, (name, arguments) in enumerate(turn.get("calls", [])):
        function = {"name": name, "arguments": json.dumps(arguments)}
        deltas.append(
            {"tool_calls": [{"index": index, "id": f"c{number}_{index}", "type": "function", "function": function}]}
        )
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
    choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    reason = "tool_calls" if turn.get("calls") else "stop"
    choices.append([{"index": 0, "delta": {}, "finish_reason": reason}])
    parts = [json.dumps({**head, "choices": choice}) for choice in choices]
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    parts.append(json.dumps({**head, "choices": [], "usage": usage}))
    return [part.encode() for part in [*parts, "[DONE]"]]


if __name__ == "__main__":
    server = ModelServer(json.loads(Path(sys.argv[1]).read_text()))
    print(server.server_address[1], flush=True)
    server.serve_forever()
