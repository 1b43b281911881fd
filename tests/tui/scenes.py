"""The states of the chat screen that are kept as pictures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from codeagent.core.display import TerminalBlock, TextBlock
from codeagent.tui.launcher import Missing, ModelRow
from tests.tui.scripts import (
    EDIT,
    START,
    USAGE,
    Recording,
    after_failing_tests,
    asks_to_edit,
    looked_around,
)
from tests.tui.scripts import running_tests as tests_running


@dataclass(frozen=True)
class Scene:
    """What was recorded, what the status says beyond that, and which keys are pressed."""

    record: Callable[[], Recording] = Recording
    keys: Sequence[str] = ()
    missing: Missing | None = None
    theme: str = ""
    depth: str = ""
    """The colours of the terminal, as Rich names them; empty for all."""
    status: dict[str, Any] = field(default_factory=dict)
    later: float = 12.0
    """Seconds after the last event."""
    after: str = ""
    """The scene whose app goes on with these keys: its start, its recording and its status."""
    at_each_size: bool = False
    """What the keys do depends on the size: they are pressed again once the terminal was
    resized."""


def thinking() -> Recording:
    return (
        Recording()
        .run("the date parser fails on leap days")
        .think("Leap years are divisible by four, but", seconds=4)
    )


def streaming() -> Recording:
    recording = looked_around()
    return recording.stream(
        "The rule for **full centuries** is missing:\n\n- 1900 was no leap year\n- 2000 was one\n\n"
        "```python\ndef is_leap(year: int) -> bool:\n    return year % 4 == 0 and (year % 100 != 0"
    )


def asks_to_run() -> Recording:
    recording = after_failing_tests()
    command = "git diff --stat && rm -rf build/ && python3 -m pytest -q"
    recording.plan(("c6", "bash", command, "prompt"))
    risk = "network access: it could send what it reads to the hosts it may reach"
    return recording.ask("c6", "bash", command, TerminalBlock(command=command), reason=risk)


def asks_for_hosts() -> Recording:
    recording = looked_around()
    recording.plan(("c4", "bash", "pip install -r requirements.txt", "prompt"))
    recording.start("c4", "bash", "pip install -r requirements.txt")
    hosts = "pypi.org, files.pythonhosted.org"
    said = (
        "pip install -r requirements.txt\n\nwants to reach\n\n  pypi.org\n  files.pythonhosted.org"
    )
    why = "it could send there what it reads; the command waits for your answer"
    rule = f"network({hosts})"
    return recording.ask("c4", "network", hosts, TextBlock(text=said), reason=why, proposal=rule)


def three_wait() -> Recording:
    recording = after_failing_tests()
    recording.plan(
        ("c5", "edit", "src/dates.py", "prompt"),
        ("c6", "bash", "make lint", "prompt"),
        ("c7", "bash", "make test", "prompt"),
    )
    recording.ask("c5", "edit", "src/dates.py", EDIT)
    recording.ask("c6", "bash", "make lint", TerminalBlock(command="make lint"))
    return recording.ask("c7", "bash", "make test", TerminalBlock(command="make test"))


def todo() -> Recording:
    return tests_running().todo(
        ("done", "find out why February fails"),
        ("active", "fix is_leap"),
        ("pending", "cover 1900 and 2000"),
        ("pending", "write a line for the changelog"),
        ("pending", "commit"),
    )


def queued() -> Recording:
    recording = tests_running().queue("q1", "steer", "also cover 1900")
    return recording.queue("q2", "follow_up", "then write a line for the changelog")


def cancelled() -> Recording:
    recording = tests_running()
    recording.result(
        "c4",
        "bash",
        "",
        error=("cancelled", "2 processes stopped"),
        details={"killed": 2},
        seconds=1.0,
    )
    recording.end_batch(executed=1)
    recording.notice(
        "run.stopped",
        "stopped",
        stream_closed=False,
        killed=2,
        edits_kept=["src/dates.py"],
        not_run=1,
        left_running=0,
    )
    return recording.finish("interrupted")


def failed() -> Recording:
    recording = Recording().run("fix the date parser")
    return recording.finish(
        "failed", error="anthropic/claude-sonnet-4-5: key refused by anthropic: invalid x-api-key"
    )


def retrying() -> Recording:
    recording = Recording().run("fix the date parser").stream("I'll")
    return recording.notice(
        "model.retry",
        "overloaded; attempt 2 in 20 s",
        level="warning",
        reason="overloaded",
        attempt=2,
        delay_s=20.0,
    )


def without_sandbox() -> Recording:
    text = "no sandbox, so bash is disabled: no engine answers. Start one: systemctl start docker"
    return Recording().notice("sandbox.unavailable", text, level="warning")


def resumed() -> Recording:
    recording = after_failing_tests()
    recording.answer(
        "The rule for full centuries is missing. I'll add it.",
        thinking="One line is enough.",
        usage=USAGE,
    )
    recording.plan(
        ("c5", "bash", "rm -rf build", "prompt"), ("c6", "bash", "python3 -m unittest -v", "auto")
    )
    recording.ask("c5", "bash", "rm -rf build").resolve("c5", "deny", "the release is in there")
    recording.result(
        "c5", "bash", error=("denied", "the user said no: the release is in there"), executed=False
    )
    printed = (
        "".join(f"test_{number} ... ok\n" for number in range(9))
        + "\nRan 9 tests in 0.002s\n\nOK\n"
    )
    block = TerminalBlock(command="python3 -m unittest -v", output=printed, exit_code=0)
    recording.start("c6", "bash", "python3 -m unittest -v")
    recording.result(
        "c6", "bash", blocks=(block,), details={"exit_code": 0}, seconds=1.2
    ).end_batch(executed=1)
    return recording.finish("interrupted", error="the process ended before the run did")


NO_KEY = Missing(
    "model",
    "No model configured yet",
    servers=(
        ModelRow(
            "ollama/qwen3",
            "answers on 127.0.0.1:11434",
            ready=True,
            api_base="http://127.0.0.1:11434",
        ),
    ),
)
SCENES: dict[str, Scene] = {
    "first-run": Scene(missing=NO_KEY),
    "idle": Scene(),
    "thinking": Scene(thinking),
    "streaming": Scene(streaming),
    "running": Scene(tests_running, later=0.0),
    "diff-approval": Scene(asks_to_edit),
    "diff-approval-split": Scene(after="diff-approval", keys=("wait", "alt+t"), at_each_size=True),
    "command-approval": Scene(asks_to_run),
    "host-approval": Scene(asks_for_hosts, status={"network": "ask"}),
    "three-waiting": Scene(three_wait),
    "lanes": Scene(queued),
    "todo": Scene(todo, later=0.0),
    "cancelled": Scene(cancelled),
    "error": Scene(failed),
    "retry": Scene(retrying, later=3.0),
    "no-sandbox": Scene(without_sandbox, status={"sandbox": "none"}),
    "resumed": Scene(resumed),
    "paused": Scene(after_failing_tests, status={"halt": "paused", "batch": 3}),
    "key-sheet": Scene(after="idle", keys=("f1",)),
    "palette": Scene(after="key-sheet", keys=("escape", "ctrl+p")),
    "model-picker": Scene(after="palette", keys=("escape", "slash", *"model", "enter")),
    "session-picker": Scene(after="model-picker", keys=("escape", "slash", *"resume", "enter")),
}
NOW = START
