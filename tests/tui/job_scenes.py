"""The states of what runs in the background, and of the tools, that are kept as pictures."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from codeagent.core.toolbox import Toolbox, ToolProblem, ToolSummary
from tests.tui.parts.cards import asking
from tests.tui.replay import ReplayClient
from tests.tui.scenes import Scene
from tests.tui.scripts import Recording, looked_around

SERVER = "npm run dev -- --port 8000"


def _as_it_is(client: ReplayClient) -> None:
    """Nothing to prepare."""


@dataclass(frozen=True)
class JobScene(Scene):
    prepare: Callable[[ReplayClient], None] = _as_it_is


def background() -> Recording:
    """A dev server that was asked for in the background, and the tests that run beside it."""
    recording = looked_around()
    recording.plan(("c4", "bash", SERVER, "auto"), ("c5", "bash", "pytest -q tests", "auto"))
    recording.start("c4", "bash", SERVER).job("job-1", "c4", SERVER)
    recording.result("c4", "bash", "job-1 started", seconds=0.1)
    recording.start("c5", "bash", "pytest -q tests").output("c5", "bash", "........F...\n")
    recording.job_output("job-1", "\n> acme@1.0.0 dev\n> vite --port 8000\n\n", after=1.0)
    recording.job_output(
        "job-1", "  \x1b[32m➜\x1b[0m  Local:   \x1b[36mhttp://localhost:8000/\x1b[0m\n", after=1.0
    )
    return recording.notice(
        "job.port",
        "job-1 listens on port 8000, inside the sandbox",
        job_id="job-1",
        call_id="c4",
        port=8000,
    )


def with_a_tail() -> Recording:
    recording = background()
    for number in range(1, 900):
        status = "\x1b[31m500\x1b[0m" if number % 7 == 0 else "\x1b[32m200\x1b[0m"
        recording.job_output(
            "job-1", f"GET /api/dates?year={1900 + number} {status} in {number % 13} ms\n"
        )
    return recording


def every_state() -> Recording:
    """Five jobs, one of each state, and a second that runs and takes text."""
    recording = background()
    titles = {
        "c6": "make docs",
        "c7": "pytest -q --slow tests/integration && make coverage && python3 tools/report.py --all",
        "c8": "tail -f log/server.log",
        "c9": "cargo build --release",
        "c10": "python session",
    }
    recording.plan(*((call_id, "bash", title, "auto") for call_id, title in titles.items()))
    for number, (call_id, title) in enumerate(titles.items(), 2):
        recording.start(call_id, "bash", title)
        recording.job(f"job-{number}", call_id, title, after=2.0, takes_input=call_id == "c10")
        recording.result(call_id, "bash", f"job-{number} started", seconds=0.1)
    recording.job_output("job-6", ">>> import dates\n>>> dates.days(1900)\n\x1b[33m366\x1b[0m\n")
    recording.end_job(
        "job-4",
        "c8",
        titles["c8"],
        "stopped",
        seconds=12.0,
        summary="stopped by the user",
        lines=88,
    )
    recording.end_job(
        "job-2",
        "c6",
        titles["c6"],
        "done",
        seconds=31.0,
        summary="exit code 0",
        exit_code=0,
        lines=12,
    )
    recording.end_job(
        "job-3",
        "c7",
        titles["c7"],
        "failed",
        seconds=125.0,
        summary="exit code 1",
        exit_code=1,
        lines=1204,
        tail="E   assert 366 == 365\n1 failed, 310 passed\n",
    )
    return recording.end_job(
        "job-5", "c9", titles["c9"], "lost", summary="the process that ran it is gone"
    )


def takes_long() -> Recording:
    recording = looked_around()
    recording.plan(("c4", "bash", "pytest -q --slow tests/integration", "auto"))
    recording.start("c4", "bash", "pytest -q --slow tests/integration")
    return recording.output("c4", "bash", "tests/integration/test_api.py ......\n", after=61.0)


def two_take_long() -> Recording:
    recording = looked_around()
    recording.plan(("c4", "bash", "pytest -q --slow", "auto"), ("c5", "bash", "make docs", "auto"))
    recording.start("c4", "bash", "pytest -q --slow")
    recording.now += 20
    recording.start("c5", "bash", "make docs")
    recording.now += 45
    return recording


def promoted() -> Recording:
    recording = takes_long().job("job-1", "c4", "pytest -q --slow tests/integration", promoted=True)
    recording.result("c4", "bash", "moved to the background by the user: job-1", seconds=0.1)
    return recording.end_batch(executed=1, duration_ms=61_000)


def a_question(client: ReplayClient) -> None:
    client.state.approvals.add(replace(asking("bash", "c9.1", "rm -rf build", reason=""), ts=0.0))


def _tool(name: str, source: str = "builtin", **fields: object) -> ToolSummary:
    known: dict[str, object] = {
        "label": name.capitalize(),
        "origin": "",
        "description": "",
        "permission": "auto",
        "mode": "direct",
        "sandboxed": False,
    }
    return ToolSummary(name=name, source=source, **{**known, **fields})  # type: ignore[arg-type]  # by name


TOOLBOX = Toolbox(
    tools=(
        _tool("read", description="Read a file, or a part of it, with line numbers."),
        _tool(
            "bash",
            permission="prompt",
            sandboxed=True,
            description="Run a command in the sandbox with bash.",
        ),
        _tool(
            "deploy",
            "python",
            permission="prompt",
            mode="background",
            origin=".codeagent/tools/deploy.py:12",
            description="Deploy a branch to the staging server and wait until it answers.\nNever production.",
        ),
        _tool(
            "lint_all",
            "yaml",
            sandboxed=True,
            origin="~/.config/codeagent/tools/lint.yaml:1",
            description="Lint.",
        ),
    ),
    problems=(
        ToolProblem(".codeagent/tools/broken.py:7", "expected ':' after the function's signature"),
        ToolProblem(
            ".codeagent/tools/report.yaml:4: timeout", "is 'soon': write seconds, such as 30"
        ),
        ToolProblem(
            ".codeagent/tools/deploy.py:12", "the parameter 'branch' has no description", "warning"
        ),
    ),
    untrusted=(".codeagent/tools/release.py", ".codeagent/tools/db.yaml"),
)


def with_tools(client: ReplayClient) -> None:
    client.tools_in_use = TOOLBOX


SCENES: dict[str, JobScene] = {
    "background": JobScene(background),
    "offer": JobScene(takes_long, later=0.0),
    "promoted": JobScene(promoted),
    "choice": JobScene(two_take_long, keys=("ctrl+b", "wait"), later=0.0),
    "panel": JobScene(with_a_tail, keys=("ctrl+t", "wait")),
    "panel-scrolled": JobScene(after="panel", keys=("home", "pagedown", "wait"), at_each_size=True),
    "panel-states": JobScene(after="states", keys=("ctrl+t", "wait", "up", "up", "up", "wait")),
    "panel-stop": JobScene(after="panel-states", keys=("escape", "ctrl+t", "wait", "s")),
    "panel-send": JobScene(
        after="panel-stop", keys=("escape", "escape", "ctrl+t", "wait", "i", *"1900", "wait")
    ),
    "panel-question": JobScene(after="background", keys=("ctrl+t", "wait"), prepare=a_question),
    "states": JobScene(every_state),
    "tools": JobScene(keys=(*"/tools", "enter", "wait"), prepare=with_tools),
    "tools-trust": JobScene(after="tools", keys=("t",), prepare=with_tools),
}
