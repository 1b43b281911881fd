"""`codeagent demo`: a scripted model fixes a bug in a throwaway repository, with the real loop,
tools and sandbox."""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.commands.arguments import add_flag, add_safe, add_sandbox
from codeagent.commands.chat import open_screen, require_terminal
from codeagent.core.errors import CodeagentError
from codeagent.core.host_programs import NEW_REPOSITORY, minimal, run_program
from codeagent.core.programs import find_program, why_not_found
from codeagent.llm.demo import DEMO_PROMPT, demo_files

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_SECONDS = 600.0
_AUTHOR = ("-c", "user.name=codeagent demo", "-c", "user.email=demo@localhost")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_flag(
        parser, "--headless", "print the run, approving everything, instead of opening a screen"
    )
    parser.add_argument(
        "--output",
        choices=("text", "json", "jsonl"),
        default="text",
        help="with --headless: text (default), json: one object at the end, jsonl: one event per line",
    )
    add_sandbox(parser, "off runs the demo's commands on this machine (default: docker)")
    parser.add_argument("--theme", metavar="NAME", help="theme of the screen")
    add_safe(parser)


def main(args: argparse.Namespace, app: "App") -> int | Coroutine[Any, Any, int]:
    """Run the demo. Raises CodeagentError if the repository cannot be made, ConfigError without a
    terminal."""
    if not args.headless:
        require_terminal("`codeagent demo --headless` works without a screen")
    try:
        repository = make_repository(Path(tempfile.mkdtemp(prefix="codeagent-demo-")), os.environ)
    except OSError as error:
        raise CodeagentError(
            f"the demo's repository cannot be made ({error.strerror or error}); nothing was run"
        ) from error
    if args.headless:
        return _headless(args, repository, app)
    options = {
        "model": "demo",
        "mode": "ask",
        "theme": args.theme,
        "flags": {"sandbox": args.sandbox, "safe": args.safe},
        "prompt": DEMO_PROMPT,
    }
    code = open_screen(repository, app, **options)
    _say_where(repository)
    return code


def _headless(args: argparse.Namespace, repository: Path, app: "App") -> Coroutine[Any, Any, int]:
    # The screen does not need what a headless run imports.
    from codeagent.commands.arguments import settings_of
    from codeagent.commands.run import print_work
    from codeagent.config.local_environment import LocalEnvironment, state_dir
    from codeagent.config.sessions import Task

    args.model = "demo"
    settings = settings_of(args, repository)
    local = LocalEnvironment(repository, state_dir(), dict(os.environ))

    app.prepare()

    async def show() -> int:
        task = Task(
            DEMO_PROMPT, local, settings, approve=True, needs_sandbox=True, lists_changes=False
        )
        code = await print_work(app, task, local.redactor, output=args.output)
        _say_where(repository)
        return code

    return show()


def _say_where(repository: Path) -> None:
    if sys.stderr is not None:
        print(
            f"the repository is kept: git -C {shlex.quote(str(repository))} diff", file=sys.stderr
        )


def make_repository(folder: Path, environment: Mapping[str, str]) -> Path:
    """Make the demo's project in `folder` and commit it, without the user's own git settings and
    hooks."""
    for name, text in demo_files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return commit_all(folder, "A project with a bug", environment)


def commit_all(folder: Path, message: str, environment: Mapping[str, str]) -> Path:
    """Make a repository of a folder with one commit of all its files, without the user's own git
    settings and hooks.

    Raises CodeagentError.
    """
    guarded = minimal(environment) | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
    }
    _git(folder, ("init", "-q", "--template="), guarded)
    _git(folder, ("add", "-A"), guarded)
    _git(folder, (*_AUTHOR, "commit", "-q", "--allow-empty", "-m", message), guarded)
    return folder


def _git(folder: Path, arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
    program = find_program("git", Path.cwd())
    if program is None:
        why, remedy = why_not_found("git", Path.cwd())
        raise CodeagentError(
            f"this needs git, but {why}: {remedy}, for example with apt-get install git"
        )
    argv = [
        program,
        "-c",
        f"core.hooksPath={os.devnull}",
        "-c",
        "init.defaultBranch=main",
        *arguments,
    ]
    try:
        done = run_program(
            NEW_REPOSITORY, argv, folder=folder, environment=environment, seconds=_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CodeagentError(f"git cannot be run ({reason}); look at {program}") from error
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip().replace("\n", " ")
        raise CodeagentError(f"git {' '.join(arguments)} failed in {folder}: {reason}")
