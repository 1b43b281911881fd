"""The product as its users get it: the real command with a scripted model, real files and real
descriptors."""

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

from codeagent.cli import main
from tests.warm import WarmProcess

Turn = dict[str, Any]
Event = dict[str, Any]
_PATIENCE = 30.0
"""Seconds to wait for something that happens within one."""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def events(self) -> list[Event]:
        """What `--output jsonl` printed."""
        return [json.loads(line) for line in self.out.splitlines()]


LONG_PATH = f"/{'p' * 76}"
"""The path of a workspace, for what is measured in bytes: where a test's own is depends on the
machine."""


@dataclass(frozen=True)
class Product:
    """One workspace, and settings and sessions of its own."""

    workspace: Path
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: os.environ[name]
            for name in ("PATH", "HOME", "LANG", "DOCKER_HOST")
            if name in os.environ
        }
        own = {"XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config", "TMPDIR": "."}
        return kept | {name: str(self.home / folder) for name, folder in own.items()}

    def script(self, *turns: Turn) -> str:
        """The name of a model that answers with these turns."""
        number = len(list(self.home.glob("script-*.json")))
        path = self.home / f"script-{number}.json"
        path.write_text(json.dumps(turns))
        return f"script:{path}"

    def start(self, *arguments: str, **options: Any) -> WarmProcess:
        settings = {
            "cwd": self.workspace,
            "env": self.environment,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        return WarmProcess(arguments, **{**settings, **options})

    def call(self, *arguments: str, stdin: str = "", env: dict[str, str] | None = None) -> Done:
        """The command's own `main` in this process, which spares its start-up; descriptors are the
        real ones."""
        environment = self.environment if env is None else env
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
            patch.dict(os.environ, environment, clear=True),
            contextlib.chdir(self.workspace),
        ):
            given.write(stdin.encode())
            given.seek(0)
            with _standard_streams(given.fileno(), out.fileno(), err.fileno()):
                code = main(arguments)
            return Done(code, _text(out), _text(err))

    def call_apart(self, *arguments: str, **options: Any) -> Done:
        """In a process of its own."""
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=100)
        return Done(process.returncode, out, err)

    def call_in(self, folder: Path, *command: str) -> Done:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
        return Done(done.returncode, done.stdout, done.stderr)

    def run(self, model: str, *arguments: str, prompt: str = "go") -> Done:
        """`codeagent run` without a container: commands, where there are any, run on this
        machine."""
        return self.call("run", prompt, "--model", model, "--sandbox", "off", *arguments)

    def run_in_container(self, model: str, *arguments: str, prompt: str = "go") -> Done:
        return self.call_apart("run", prompt, "--model", model, *arguments)

    @property
    def sessions(self) -> list[Path]:
        """The folders of all sessions, the oldest first; names of the same second say nothing about
        that."""
        return sorted(
            self.home.glob("state/codeagent/sessions/*"),
            key=lambda folder: (folder.name[:15], _began(folder)),
        )

    def log(self, session: Path | None = None) -> list[Event]:
        """The events of a session, the newest unless given, without their checksums."""
        events = []
        for line in ((session or self.sessions[-1]) / "events.jsonl").read_text().splitlines():
            event = json.loads(line)
            event.pop("prev", None)  # old logs have none
            del event["crc"]
            events.append(event)
        return events

    def wait_for(self, what: Callable[[list[Event]], bool]) -> None:
        """Until the newest session's log holds it."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            try:
                if self.sessions and what(self.log()):
                    return
            except (OSError, ValueError):
                pass
            time.sleep(0.02)
        raise AssertionError("the log never held it")


@contextlib.contextmanager
def _standard_streams(*descriptors: int) -> Iterator[None]:
    """Descriptors 0, 1 and 2, and what `sys` makes of them, lead to the given ones."""
    before = sys.stdin, sys.stdout, sys.stderr
    kept = [os.dup(fd) for fd in range(3)]
    try:
        for fd, target in enumerate(descriptors):
            os.dup2(target, fd)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(fd, mode, closefd=False) for fd, mode in enumerate("rww")
        )
        yield
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for fd, original in enumerate(kept):
            os.dup2(original, fd)
            os.close(original)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def calls(*named: tuple[str, dict[str, Any] | str], text: str = "") -> Turn:
    return {"text": text, "calls": [[name, arguments] for name, arguments in named]}


def say(text: str, expect: str | None = None) -> Turn:
    return {"text": text} if expect is None else {"text": text, "expect": expect}


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return "bash", {"command": command}


def read(path: str) -> tuple[str, dict[str, Any]]:
    return "read", {"path": path}


def of(events: list[Event], kind: str) -> list[Event]:
    return [event for event in events if event["type"] == kind]


def results(events: list[Event]) -> list[Event]:
    return of(events, "tool.result")


def text_of(result: Event) -> str:
    return "\n".join(part.get("text", "") for part in result["content"])


def running() -> list[bytes]:
    """The command lines of every process there is."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            found.append((process / "cmdline").read_bytes())
    return found


def _began(folder: Path) -> float:
    """Return when the first event of a session was written; infinite if there is none yet, or it is
    damaged."""
    try:
        with (folder / "events.jsonl").open() as log:
            return float(json.loads(log.readline())["ts"])
    except (OSError, ValueError, KeyError):
        return math.inf
