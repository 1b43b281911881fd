"""What the makers of the corpus have in common: a screen that is typed on, and files of a machine."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.screens import READY
from tests.old.reading import Machine
from tests.pty_screen import PtyScreen

CONFIG = "home/config/codeagent"


def put(made: Machine, name: str, text: str | bytes) -> None:
    path = made.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o600)


def screen(
    made: Machine, model: str, *arguments: str, size: tuple[int, int] = (100, 30)
) -> PtyScreen:
    """The screen in the workspace, ready for a prompt."""
    subprocess.run(["git", "init", "-q", made.workspace], check=True)
    command = [sys.executable, "-m", "codeagent", "--sandbox", "off", "--model", model, *arguments]
    environment = made.environment | {"PYTHONPATH": str(Path.cwd())}
    opened = PtyScreen(command, env=environment, cwd=made.workspace, size=size)
    opened.wait_for(READY)
    return opened


def typed(opened: PtyScreen, *lines: tuple[str, str]) -> None:
    """Type each line, and wait for what it leads to."""
    for line, shows in lines:
        opened.wait_for(READY)
        opened.send(line, "enter")
        opened.wait_for(shows, 10)


def leave(opened: PtyScreen) -> None:
    opened.wait_for(READY)
    opened.send("ctrl+d")
    assert opened.exit_code() == 0


def done(result: Any, code: int = 0) -> Any:
    assert result.code == code, result
    return result


def git(made: Machine) -> None:
    """Make the workspace a repository with one commit, and an author for others."""
    for command in (
        ("init", "-q"),
        ("config", "user.name", "A"),
        ("config", "user.email", "a@example.org"),
        ("add", "-A"),
        ("commit", "-qm", "first"),
    ):
        subprocess.run(["git", *command], cwd=made.workspace, check=True, env=made.environment)
