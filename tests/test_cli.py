"""The command line as a contract: what is accepted, what a mistake costs, and that it starts
light."""

import asyncio
import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import get_args

import pytest

from codeagent import __version__, cli
from codeagent.commands.arguments import MODES
from codeagent.config.extensions import BUILT_IN
from codeagent.config.kept import KeptRulesFile
from codeagent.core.errors import CodeagentError, ConfigError
from codeagent.core.policy import Mode
from tests.effort import part


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings and no sessions of whoever runs the tests."""
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in [name for name in os.environ if name.startswith("CODEAGENT_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "codeagent", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)  # type: ignore[call-overload,no-any-return]  # options are run's own


def test_version_is_one_line() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"codeagent {__version__}\n", "")


def test_help_lists_every_command_and_shows_the_screens_options_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(f"\n  {each.name} " in printed for each in cli.commands())
    assert printed.startswith("usage: codeagent [PATH] [options]\n")
    assert all(
        option in printed
        for option in ("--model", "--resume", "--continue", "--mode", "--theme", "--sandbox")
    )


def test_without_a_terminal_there_is_one_line_that_points_to_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main([]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and len(printed.err.splitlines()) == 1
    assert "is not a terminal" in printed.err and "codeagent run PROMPT" in printed.err


STEPS: tuple[tuple[str, set[str]], ...] = (
    ("main(['--version'])", {"textual", "pydantic", "asyncio", "rich", "dataclasses"}),
    ("main(['--help'])", {"textual", "pydantic", "asyncio", "rich"}),
    ("main([])  # no terminal, so no screen", {"textual", "pydantic", "rich"}),
    (
        "import codeagent.commands.run",
        {"litellm", "openai", "docker", "requests", "git", "textual", "rich"},
    ),
)
"""One after the other in one process, each with what it may not have loaded."""


def test_what_needs_no_heavy_library_loads_none() -> None:
    lines = [line for step, _ in STEPS for line in (step, "print('loaded:', *sys.modules)")]
    code = "\n".join(["import sys", "from codeagent.cli import main", *lines])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    reports = [
        set(line.split()) for line in done.stdout.splitlines() if line.startswith("loaded: ")
    ]
    for (step, heavy), loaded in zip(STEPS, reports, strict=True):
        assert "codeagent.cli" in loaded and loaded.isdisjoint(heavy), step


UNUSED = {
    *(
        "yaml",
        "jsonschema",
        "referencing",
        "regex",
        "keyring",
        "git",
        "docker",
        "requests",
        "urllib3",
    ),
    *("litellm", "openai", "httpx", "aiohttp", "textual", "rich", "pygments", "markdown_it"),
    *(
        "codeagent.extensions.user_tools.python",
        "codeagent.extensions.mcp.source",
        "codeagent.extensions.web.web_set",
        "codeagent.agent.hooks.python",
        "codeagent.agent.hooks.command",
        "codeagent.tui",
    ),
    *("codeagent.workspace.commits", "codeagent.workspace.git", "codeagent.sandbox.docker_sandbox"),
    *("codeagent.tools.source", "codeagent.tools.names", "codeagent.core.agents"),
}
"""What a run imports only if it has user-defined tools or hooks, sources of tools, rules, lists of
tools or agents, commits, uses the container, or checks a schema."""


PRUNE = "codeagent.workspace.snapshots.prune"
FEATURE = re.compile(r"codeagent\.(?:tools\.builtin|extensions)\.\w+")
"""A tool, or the manifest of an extension: each costs a run its one module, and no other."""


def test_a_plain_run_imports_only_what_it_uses(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(
        '[{"calls": [["read", {"path": "script.json"}]]}, {"text": "done"}]'
    )
    arguments = [
        "run",
        "hi",
        "--model",
        "script:script.json",
        "--sandbox",
        "off",
        "--output",
        "json",
    ]
    code = f"import sys\nfrom codeagent import cli\nprint(cli.main({arguments!r}), *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
        env={name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        | {"HOME": str(tmp_path)},
    )
    exit_code, *loaded = done.stdout.splitlines()[-1].split()
    assert exit_code == "0"
    assert UNUSED.isdisjoint(loaded)
    # On a busy machine the run may last until old snapshots are removed.
    ours = {name for name in loaded if name.startswith("codeagent")} - {PRUNE}
    assert len(ours) <= 195 + len(BUILT_IN)
    assert len([name for name in ours if not FEATURE.fullmatch(name)]) <= 179


def test_the_modes_of_the_screen_are_those_there_are() -> None:
    assert get_args(Mode) == MODES


def test_a_folder_opens_the_screen_there_with_what_was_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[tuple[Path, dict[str, object]]] = []

    def open_screen(workspace: Path, app: object, **options: object) -> int:
        opened.append((workspace, {name: value for name, value in options.items() if value}))
        return 0

    monkeypatch.setattr("codeagent.commands.chat.open_screen", open_screen)
    monkeypatch.setattr("codeagent.commands.chat.require_terminal", lambda instead: None)
    (tmp_path / "project").mkdir()
    assert (
        cli.main(
            ["project", "--model", "m", "--mode", "plan", "--theme", "ink", "--sandbox", "off"]
        )
        == 0
    )
    assert cli.main(["--step", "project"]) == 0
    assert (
        cli.main(["--continue"])
        == cli.main(["--resume"])
        == cli.main(["--resume", "2026", "project"])
        == 0
    )
    assert opened == [
        (
            tmp_path / "project",
            {
                "named": True,
                "model": "m",
                "mode": "plan",
                "theme": "ink",
                "flags": {"sandbox": "off"},
            },
        ),
        (tmp_path / "project", {"named": True, "step": True}),
        (tmp_path, {"resume": "last"}),
        (tmp_path, {"resume": "last"}),
        (tmp_path / "project", {"named": True, "resume": "2026"}),
    ]


@pytest.mark.parametrize("name", [each.name for each in cli.commands()])
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: codeagent {name} ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "'nonsense' is neither a command nor a folder"),
        (["fix", "the", "bug"], 'a prompt goes to codeagent run "what to do"'),
        (["sesions", "list"], "did you mean sessions?\n"),
        (["--model", "m", "nonsense"], "'nonsense' is neither a command nor a folder"),
        (["--resume", "a", "--continue"], "not allowed with"),
        (["demo"], "codeagent demo --headless"),
        (["--modle"], "--modle; did you mean --mode or --model?\n"),
        (["--promp"], "--promp; did you mean --prompt?\n"),
        (["run", "hi", "--sandbix", "off"], "did you mean --sandbox?\n"),
        (["run"], "PROMPT"),
        (["run", "hi", "--mode", "yolo"], "invalid choice: 'yolo'"),
        (["run", "hi", "--output", "xml"], "invalid choice: 'xml'"),
        (["run", "hi", "--sandbox", "podman"], "invalid choice: 'podman'"),
        (["run", "hi", "--max-turns", "0"], "at least 1"),
        (["run", "hi", "--max-turns", "many"], "must be a whole number, not 'many'"),
        (["run", "hi", "--max-calls", "-1"], "at least 1"),
        (["run", "hi", "--timeout-per-call", "x"], "a duration such as 30s, 5m or 1h30m, not 'x'"),
        (["run", "hi", "--budget", "0"], "more than 0"),
        (["run", "hi", "--budget", "nan"], "more than 0"),
        (["run", "hi", "--timeout-per-call", "inf"], "more than 0"),
        (["run", "hi", "--ye"], "--ye"),
        (["run", "hi", "--model", "demo", "--step"], "codeagent --step opens the screen"),
        (["run", "hi", "there"], "unrecognized arguments: there"),
        (["run", "hi", "--unknown"], "--unknown"),
        (["run", "", "--model", "demo"], "the prompt is empty"),
        (["run", "hi"], "no model is set: give --model NAME, set CODEAGENT_MODEL, or write model"),
        (["run", "hi", "--model", "demo", "--cwd", "nowhere"], "not an existing folder"),
        (["run", "hi", "--model", "demo", "--allow", "bash("], "not a rule"),
        (["run", "hi", "--model", "demo", "--strategy", "batched:0"], "batched:N"),
        (["run", "hi", "--model", "demo", "--api-base", "nope"], "http"),
        (["run", "hi", "--model", "demo", "--inject", "steer@tool:0=x"], "KIND@POINT:N=TEXT"),
        (["run", "hi", "--model", "script:nowhere.json"], "nowhere.json"),
        (["sessions"], "ACTION"),
        (["sessions", "check", "x", "--last"], "not allowed with"),
        (["tools", "show"], "NAME"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert words in printed.err and printed.err.startswith("codeagent")


def test_a_mistake_leaves_no_session_behind(tmp_path: Path) -> None:
    assert cli.main(["run", "hi", "--model", "script:nowhere.json"]) == 2
    assert not (tmp_path / "XDG_STATE_HOME").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--yes", "fix it", "--model", "m"],
        ["run", "fix it", "--model", "m", "--yes"],
        ["run", "--model", "m", "--yes", "--", "fix it"],
        ["run", "--model=m", "--yes", "fix it"],
    ],
)
def test_options_stand_before_or_behind_the_prompt(arguments: list[str]) -> None:
    args = cli.build_parser("run").parse_args(arguments[1:])
    assert (args.prompt, args.model, args.yes) == ("fix it", "m", True)


def test_behind_two_dashes_a_prompt_may_look_like_an_option() -> None:
    args = cli.build_parser("run").parse_args(["--model", "m", "--", "--help me"])
    assert args.prompt == "--help me"


def test_rules_and_injections_repeat() -> None:
    line = [
        "x",
        "--allow",
        "a",
        "--allow",
        "b(c d)",
        "--deny",
        "e",
        "--inject",
        "f",
        "--inject",
        "g",
    ]
    args = cli.build_parser("run").parse_args(line)
    assert (args.allow, args.deny, args.inject) == (["a", "b(c d)"], ["e"], ["f", "g"])


class Breaking:
    def __init__(self, error: BaseException, *, late: bool = False) -> None:
        self.error = error
        self.late = late

    def add_arguments(self, parser: object) -> None:
        return None

    def main(self, args: object, app: object) -> object:
        if not self.late:
            raise self.error
        return self._work()

    async def _work(self) -> int:
        await asyncio.sleep(0)
        raise self.error


@pytest.mark.parametrize("late", [False, True], ids=["before the loop", "in the loop"])
@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("a.toml:3: no"), 2, "codeagent: a.toml:3: no\n"),
        (CodeagentError("it broke"), 1, "codeagent: it broke\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_is_one_line_and_its_exit_code(
    error: BaseException,
    code: int,
    line: str,
    late: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "load", lambda name: Breaking(error, late=late))
    assert cli.main(["doctor"]) == code
    assert capsys.readouterr().err == line


@pytest.mark.soak(tried=1)
@pytest.mark.parametrize(
    ("command", "closed"),
    part(
        [
            ("tools list", "<&- >&- 2>&-"),
            ("tools list", "2>&-"),
            ("tools list", ">&-"),
            ("sessions list", "<&-"),
            ("nonsense", "2>&-"),
            ("nonsense", "<&- >&- 2>&-"),
            ("--version", ">&-"),
            ("--version", "<&- >&- 2>&-"),
        ],
        4,
    ),
)
def test_closed_standard_streams_do_not_crash(command: str, closed: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m codeagent {command} {closed}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == (2 if command == "nonsense" else 0)
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_ends_a_listing_quietly() -> None:
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"{sys.executable} -m codeagent tools list --json | true; echo ${{PIPESTATUS[0]}}",
        ],
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() in ("0", "141")
    assert done.stderr == ""


PROGRAM = """
import atexit, sys, threading
from codeagent import cli

def main():
    {body}

atexit.register(print, "the interpreter's own end")
{before}
cli.main = main
cli.program()
"""
ENDING = """
    atexit.register(print, "told")
    threading.Thread(target=lambda: sys.stdout.write("waited for\\n")).start()
    sys.stdout.write("written\\n")
    return 3
"""


def ended(body: str, before: str = "") -> tuple[int, set[str], str]:
    code = PROGRAM.format(body=body.strip(), before=before)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode, set(done.stdout.splitlines()), done.stderr


def test_the_program_ends_at_once_but_loses_nothing_that_waits_for_its_end() -> None:
    assert ended(ENDING) == (3, {"told", "waited for", "written"}, "")


def test_under_a_tracer_and_after_a_bug_the_program_ends_as_any_other() -> None:
    last = "the interpreter's own end"
    assert ended(ENDING, "sys.settrace(lambda *args: None)") == (
        3,
        {"told", "waited for", "written", last},
        "",
    )
    code, printed, error = ended("raise RuntimeError('a bug')")
    assert (code, printed, error.splitlines()[-1]) == (1, {last}, "RuntimeError: a bug")


class _Refuses(BaseHTTPRequestHandler):
    """A model's server that answers no question and no request."""

    def do_GET(self) -> None:
        self.send_error(404)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_error(400)

    def log_message(self, *told: object) -> None:
        return None


def test_a_run_with_settings_and_kept_rules_needs_no_pydantic_before_its_first_request(
    tmp_path: Path,
) -> None:
    config, workspace = tmp_path / ".config" / "codeagent", tmp_path / "work"
    workspace.mkdir()
    config.mkdir(parents=True, mode=0o700)
    (config / "config.toml").write_text(
        'mode = "plan"\n[limits]\nmax_turns = 5\n[rules]\nallow = ["bash(ls *)"]\n'
    )
    KeptRulesFile(config, workspace, lambda rule: None).keep("bash(git log *)")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refuses) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_address[1]}/v1"
        arguments = ["run", "hi", "--model", "openai/m", "--api-base", base, "--sandbox", "off"]
        later = "import codeagent.app.runtime as opening\nopening._HEAD_START = 3600.0"
        code = f"import sys\nfrom codeagent import cli\n{later}\ncli.main({arguments!r})\nprint(*sys.modules)"
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OPENAI_API_KEY": "k"}
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=workspace,
            env=environment,
        )
        server.shutdown()
    assert "the request was rejected" in done.stderr
    loaded = done.stdout.splitlines()[-1].split()
    assert "codeagent.llm.native.model" in loaded
    assert {
        "pydantic",
        "pydantic_core",
        "importlib.metadata",
        "email",
        "docker",
        "requests",
    }.isdisjoint(loaded)
