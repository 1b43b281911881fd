"""Ten seconds after a `kill -9`, no program that codeagent started is alive,
and no child."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.product import Product, bash, calls, running, say
from tests.effort import times
from tests.fakes import put
from tests.sandboxes import make_repository
from tests.table import for_each

SECONDS = 10.0
_PATIENCE = 60.0
_MANY = 600
"""Files of 15 MiB, all the same one: a search of them takes longer than the test."""


def alive(mark: str) -> list[str]:
    lines = (line.decode(errors="replace").replace("\0", " ") for line in running())
    return [line for line in lines if mark in line]


@pytest.fixture
def tidied() -> Iterator[list[str]]:
    """Marks whose processes are killed after the test, also after one that fails."""
    marks: list[str] = []
    yield marks
    for mark in marks:
        subprocess.run(["pkill", "-KILL", "-f", f"{mark}[0-9]"])


def wait_until(holds: Callable[[], object], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not (held := bool(holds())) and time.monotonic() < until:
        time.sleep(0.02)
    return held


def configure(product: Product, name: str, text: str) -> None:
    put(product.home, f"config/codeagent/{name}", text)


def tree_of(mark: str) -> str:
    """A shell script for a child of the program, one with a session of its own, and one whose
    parent has ended."""
    return f"sleep {mark}1 & setsid sleep {mark}2 & (sleep {mark}3 &) ; exec sleep {mark}4"


def hiding(mark: str) -> str:
    """The same, for a program that leads a session: the one whose parent has ended has no
    environment either."""
    return tree_of(mark).replace("(sleep", "(env -i sleep")


def stub(product: Product, name: str, mark: str) -> None:
    """A program that never ends in place of a real one: in a folder on PATH, outside the
    workspace."""
    put(product.home, f"bin/{name}", f"#!/bin/bash\n{tree_of(mark)}\n").chmod(0o755)


def a_search(product: Product, mark: str) -> list[str]:
    put(product.workspace, "big/0", "a" * (15 << 20))
    for number in range(1, _MANY):
        os.link(product.workspace / "big/0", product.workspace / f"big/{number}")
    turn = calls(("search", {"pattern": f"(a|b)+[ab]*x{mark}.*(a|b)*y", "path": "big"}))
    return ["--model", product.script(turn, say("never"))]


def git_for_a_checkpoint(product: Product, mark: str) -> list[str]:
    stub(product, "git", mark)
    return [
        "--model",
        product.script(calls(("write", {"path": "new", "content": "x"})), say("never")),
    ]


def a_hook(product: Product, mark: str) -> list[str]:
    put(product.home, "hook", f"#!/bin/bash\n{hiding(mark)}\n").chmod(0o755)
    configure(
        product,
        "config.toml",
        f'[[hooks]]\nevent = "prompt_submit"\ncommand = ["{product.home}/hook"]\n',
    )
    return ["--model", product.script(say("never"))]


def a_command(product: Product, mark: str) -> list[str]:
    return ["--model", product.script(calls(bash(hiding(mark).replace("exec ", ""))), say("never"))]


def a_server(product: Product, mark: str, command: list[str]) -> list[str]:
    server = {"command": command[0], "args": command[1:], "where": "machine"}
    configure(product, "mcp.json", json.dumps({"mcpServers": {"it": server}}))
    turn = calls(("toolset_use", {"name": "it"}))
    return ["--model", product.script(turn, say("never"))]


def a_server_in_python(product: Product, mark: str) -> list[str]:
    code = f"import subprocess, time; subprocess.Popen(['bash', '-c', {hiding(mark)!r}]); time.sleep({mark}5)"
    return a_server(product, mark, [sys.executable, str(put(product.home, "server.py", code))])


def a_server_in_node(product: Product, mark: str) -> list[str]:
    code = (
        f"require('child_process').spawn('bash', ['-c', {json.dumps(tree_of(mark))}], {{detached: true}}); "
        "setTimeout(() => {}, 1e9)"
    )
    return a_server(product, mark, ["node", str(put(product.home, f"server{mark}5.js", code))])


STARTING: dict[str, tuple[Callable[[Product, str], list[str]], int]] = {
    "a search": (a_search, 1),
    "git for a checkpoint": (git_for_a_checkpoint, 4),
    "a hook": (a_hook, 4),
    "a command without a sandbox": (a_command, 4),
    "a server in Python": (a_server_in_python, 4),
    "a server in Node": (a_server_in_node, 5),
}
"""By what is started: how, and how many processes it then has."""


@contextmanager
def started(product: Product, arguments: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    environment = product.environment
    environment["PATH"] = f"{product.home / 'bin'}:{environment['PATH']}"
    command = [
        sys.executable,
        "-m",
        "codeagent",
        "run",
        "go",
        "--sandbox",
        "off",
        "--yes",
        *arguments,
    ]
    said = product.home / "said"
    with said.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=product.workspace, env=environment, stdout=out, stderr=out
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.mark.soak(tried=times(1), row="host programs")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("what", STARTING)
def test_nothing_on_the_machine_lives_on_after_a_kill(
    tmp_path: Path, tidied: list[str], what: str
) -> None:
    prepare, processes = STARTING[what]
    for round_ in range(times(1)):
        folder = tmp_path / f"{round_}"
        product = Product(make_repository(folder / "work"), folder / "home")
        product.home.mkdir()
        mark = f"7{[*STARTING].index(what)}{round_}{os.getpid()}"
        tidied.append(mark)
        with started(product, prepare(product, mark)) as process:
            begun = wait_until(lambda mark=mark: len(alive(mark)) >= processes, _PATIENCE)
            assert begun, f"{alive(mark)} {(product.home / 'said').read_text()[-2000:]}"
            process.kill()
            process.wait(30)
        assert wait_until(lambda mark=mark: not alive(mark), SECONDS), alive(mark)


def test_what_a_command_left_running_on_purpose_outlives_an_orderly_end_and_a_kill(
    tmp_path: Path, tidied: list[str]
) -> None:
    for number, killed in enumerate((False, True)):
        product = Product(make_repository(tmp_path / f"{number}/work"), tmp_path / f"{number}/home")
        product.home.mkdir()
        mark = f"6{number}{os.getpid()}"
        tidied.append(mark)
        last = [calls(bash(f"sleep {mark}9"))] if killed else []
        turns = [calls(bash(f"sleep {mark}1 > /dev/null 2>&1 &")), *last, say("done")]
        with started(product, ["--model", product.script(*turns)]) as process:
            if killed:
                assert wait_until(lambda mark=mark: len(alive(mark)) == 2, _PATIENCE)
                process.kill()
            process.wait(60)
        assert wait_until(lambda mark=mark: len(alive(mark)) == 1, SECONDS)
        assert alive(mark) == [f"sleep {mark}1 "]


DIRECTLY = {
    "the editor": (
        "from codeagent.tui.parts.external_editor import _run\nimport asyncio\nasyncio.run(_run([program]))"
    ),
    "git's status": (
        "from pathlib import Path\nfrom codeagent.workspace import git_status\n"
        "git_status._STATUS_SECONDS = 600\ngit_status.git_status(Path.cwd())"
    ),
    "a hook of the repository": (
        "from codeagent.core.host_programs import COMMIT_HOOKS, run_program\n"
        "run_program(COMMIT_HOOKS, [program], folder='.', environment={'PATH': '/usr/bin:/bin'}, seconds=600)"
    ),
    "a credential helper": (
        "from pathlib import Path\nfrom codeagent.sandbox.credentials import CredentialHelpers\n"
        "CredentialHelpers(Path.cwd(), None)['stub'].get('registry')"
    ),
    "an image build": ("from codeagent.sandbox.image import _watch\n_watch([program], print)"),
    "a version": (
        "from codeagent.commands.doctor import _program\n_program('git', program, '', 'note')"
    ),
    "a new repository": (
        "from pathlib import Path\nfrom codeagent.commands.demo import _git\nimport os\n"
        "_git(Path.cwd(), ('init',), dict(os.environ))"
    ),
    "git for a commit": (
        "from pathlib import Path\nfrom codeagent.workspace.git import IsolatedGit\n"
        "git = IsolatedGit(Path.cwd())\ngit.program = program\n"
        "git.completed(Path.cwd(), 'status', seconds=600)"
    ),
}
"""Programs that take long to reach from the command line: started by the code that starts them, in
a real process."""


@for_each("what", DIRECTLY)
@pytest.mark.soak(tried=len(DIRECTLY), row="host programs")
def test_a_program_started_by_any_part_ends_with_a_kill(
    tmp_path: Path, tidied: list[str], what: str
) -> None:
    number = [*DIRECTLY].index(what)
    folder = tmp_path / str(number)
    mark = f"5{number}{os.getpid()}"
    tidied.append(mark)
    for name in ("git", "docker-credential-stub"):
        put(folder, f"bin/{name}", f"#!/bin/bash\n{tree_of(mark)}\n").chmod(0o755)
    make_repository(folder / "work")
    code = f"program = {str(folder / 'bin/git')!r}\n{DIRECTLY[what]}\n"
    environment = os.environ | {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "HOME": str(folder),
    }
    process = subprocess.Popen([sys.executable, "-c", code], cwd=folder / "work", env=environment)
    try:
        assert wait_until(lambda: len(alive(mark)) >= 4, _PATIENCE), alive(mark)
    finally:
        process.kill()
        process.wait()
    assert wait_until(lambda: not alive(mark), SECONDS), alive(mark)
