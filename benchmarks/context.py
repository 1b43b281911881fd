"""A long task in a small window: it must end, with what was said and found at its beginning still
known."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks.measure import Figure, ms, run
from benchmarks.model_server import Response
from benchmarks.place import place
from benchmarks.served import HOST

TURNS = 300
WINDOW = 16_384
NEEDLES = ("blue-heron", "port 8123")
"""Found by a command in turn 3, and said by the user at the beginning."""
_PER_TOKEN = 4
_ASKED = "replaced by a summary"


def figures() -> Iterator[Figure]:
    """Three hundred turns in a window of 16k tokens."""
    with place() as here, _Model() as model:
        config = here.home / "XDG_CONFIG_HOME" / "codeagent"
        config.mkdir(parents=True)
        (config / "config.toml").write_text(f"[context]\nwindow = {WINDOW}\n")
        base = f"http://127.0.0.1:{model.server_address[1]}/v1"
        limits = ["--max-turns", str(TURNS + 5), "--max-calls", str(TURNS + 5)]
        command = [part.replace("BASE", base) for part in HOST[:-1]]
        done = run(
            [*command, *limits, f"look around; it listens on {NEEDLES[1]}"],
            cwd=here.workspace,
            env=here.env,
        )
    known = [needle for needle in NEEDLES if needle in done.stdout]
    said = f"{len(known)} of {len(NEEDLES)} needles of the first turns, exit code {done.code}"
    yield Figure(f"{TURNS} turns in {WINDOW:,} tokens", ms(done.wall), said, None, "all needles, 0")
    yield Figure(
        "… summaries",
        str(model.summaries),
        f"{model.refused} requests were too long",
        None,
        "0 too long",
    )
    yield Figure(
        "… the largest request",
        f"{model.largest:,}",
        "tokens, at four characters each",
        None,
        f"<= {WINDOW:,}",
    )


class _Model(ThreadingHTTPServer):
    """A model that reads: it answers from what it is sent, and refuses what does not fit into its
    window."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.turns = self.summaries = self.refused = self.largest = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        super().__exit__(*error)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the next turn, as `benchmarks.model_server` plays it."""
        text = json.dumps(request["messages"], ensure_ascii=False)
        known = [needle for needle in NEEDLES if needle in text]
        if _ASKED in json.dumps(request["messages"][-1]):
            self.summaries += 1
            return {"text": f"Found so far: {', '.join(known)}"}
        self.turns += 1
        if self.turns >= TURNS:
            return {"text": f"It was {', '.join(known)}"}
        found = NEEDLES[0] if self.turns == 3 else "nothing"
        return {"calls": [["bash", {"command": f"echo {self.turns}: {found}; printf '%900s' ."}]]}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Model

    def log_message(self, *args: Any) -> None:
        return None

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        tokens = len(raw) // _PER_TOKEN
        if tokens > WINDOW:
            self.server.refused += 1
            error = json.dumps(
                {"error": {"message": f"This model's maximum context length is {WINDOW} tokens"}}
            )
            head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(error)}\r\n\r\n"
            self.wfile.write((head + error).encode())
            return
        self.server.largest = max(self.server.largest, tokens)
        usage = {"prompt_tokens": tokens, "completion_tokens": 10, "total_tokens": tokens + 10}
        number = self.server.turns + self.server.summaries
        for piece in Response(
            {**self.server.answer(json.loads(raw)), "usage": usage}, number
        ).pieces:
            self.wfile.write(piece)
