"""A workspace with settings and sessions of its own, scripts for the model in it, and a long
session to resume."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import CODEAGENT, run, workspace

_ROOT = Path(__file__).parents[1]
LAST_ANSWER = "the-last-answer-of-the-session"


@dataclass(frozen=True)
class BenchEnvironment:
    workspace: Path
    home: Path

    @property
    def env(self) -> dict[str, str]:
        kept = {
            name: os.environ[name]
            for name in ("PATH", "DOCKER_HOST", "VIRTUAL_ENV")
            if name in os.environ
        }
        modules = os.environ.get("PYTHONPATH", str(_ROOT))
        folders = {name: str(self.home / name) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")}
        return (
            kept | folders | {"HOME": str(self.home), "PYTHONPATH": modules, "OPENAI_API_KEY": "k"}
        )

    @property
    def session(self) -> str:
        """The id of the newest session."""
        return max(
            path.name for path in (self.home / "XDG_STATE_HOME").glob("codeagent/sessions/*")
        )

    def script(self, *turns: dict[str, Any]) -> str:
        """The name of a model that answers with these turns."""
        path = self.home / f"script-{len(list(self.home.glob('script-*')))}.json"
        path.write_text(json.dumps(turns))
        return f"script:{path}"

    def long_session(self, turns: int, *, size: int = 300) -> str:
        """The id of a recorded session of that many tool turns: twice as many messages, about that
        long each."""
        (self.workspace / "notes.txt").write_text(f"{'a line of text ' * (size // 300)}\n" * 20)
        more = " ".join(f"Line {number}." for number in range(size // 12))
        answers = [
            {
                "text": f"Part {number}: **bold**, `code` and a list.\n\n- one\n- two\n\n{more}",
                "calls": [call],
            }
            for number in range(turns)
            for call in [["read", {"path": "notes.txt", "offset": number % 20 + 1}]]
        ]
        model = self.script(*answers, {"text": LAST_ANSWER})
        limits = ["--max-turns", str(turns + 5), "--max-calls", str(turns + 5)]
        command = [
            *CODEAGENT,
            "run",
            "--model",
            model,
            "--sandbox",
            "off",
            "--output",
            "json",
            *limits,
            "look",
        ]
        done = run(command, cwd=self.workspace, env=self.env)
        session: str = json.loads(done.stdout)["session"]
        return session


@contextmanager
def place() -> Iterator[BenchEnvironment]:
    with workspace() as folder, tempfile.TemporaryDirectory(prefix="codeagent-bench-home-") as home:
        git = [
            "git",
            "-C",
            str(folder),
            "-c",
            "user.name=bench",
            "-c",
            "user.email=bench@localhost",
        ]
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "empty"], check=True)
        yield BenchEnvironment(folder, Path(home))
