"""A screen at which nobody does anything has loaded what it shows, and nothing that may never be
needed."""

import signal
import subprocess
import sys
from pathlib import Path

from tests.e2e.product import Product
from tests.e2e.screens import READY
from tests.pty_screen import PtyScreen

ROOT = Path(__file__).parents[2]
LATER = {
    *("PIL", "argcomplete", "csv", "docker", "email.message", "git", "keyring", "litellm"),
    *("markdown_it", "pydantic", "pygments", "yaml"),
    *("codeagent.app.describe", "codeagent.config.model_marks", "codeagent.core.yaml_text"),
    *("codeagent.extensions.attachments.mentions", "codeagent.extensions.attachments.pasting"),
    *("codeagent.extensions.board.page", "codeagent.extensions.notify.command"),
    *("codeagent.extensions.recipes.reading", "codeagent.extensions.recipes.recipe_folders"),
    *("codeagent.extensions.review.findings", "codeagent.extensions.usage.requests"),
    *("codeagent.llm.model_lists", "codeagent.tools.files", "codeagent.tools.pictures"),
    *("codeagent.tui.colour_depth", "codeagent.tui.info_pages", "codeagent.tui.inline"),
    *("codeagent.tui.pages.models", "codeagent.tui.pages.picker", "codeagent.tui.pages.slash"),
    *("codeagent.tui.parts.own_status", "codeagent.tui.parts.vim"),
}
MOST = 345
"""How many modules of codeagent an idle screen has loaded."""
PROGRAM = """
import os, signal, sys
from codeagent.cli import main

def tell(number, frame):
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(" ".join(sys.modules))
    os.rename(sys.argv[1] + ".new", sys.argv[1])

signal.signal(signal.SIGUSR1, tell)
sys.exit(main(sys.argv[2:]))
"""


def loaded(screen: PtyScreen, told: Path) -> set[str]:
    told.unlink(missing_ok=True)
    screen.signal(signal.SIGUSR1)
    screen.wait_for(told.exists)
    return set(told.read_text().split())


def test_an_idle_screen_has_loaded_nothing_that_may_never_be_needed(product: Product) -> None:
    told, state = product.home / "loaded", product.home / "state/codeagent/editor"
    arguments = ["--sandbox", "off", "--model", "openai/any", "--api-base", "http://127.0.0.1:9/v1"]
    subprocess.run(["git", "init", "-q", product.workspace], check=True)
    env = {**product.environment, "PYTHONPATH": str(ROOT), "COLORTERM": "truecolor"}
    env["OPENAI_API_KEY"] = "k"
    command = [sys.executable, "-c", PROGRAM, str(told), *arguments]
    with PtyScreen(command, env=env, cwd=product.workspace, size=(100, 30)) as screen:
        screen.wait_for(READY)
        screen.wait_for(lambda: any(state.glob("*.json")))  # the last thing that a start does
        idle = loaded(screen, told)
        assert LATER & idle == set()
        ours = {name for name in idle if name.partition(".")[0] == "codeagent"}
        assert {"codeagent.tui.transcript.view", "codeagent.agent.loop"} < ours
        assert len(ours) <= MOST
        screen.send("/commit")
        screen.wait_for("Commit what changed")
        assert {"yaml", "pydantic", "codeagent.core.yaml_text"} < loaded(screen, told)
        screen.send("ctrl+c", "ctrl+c")
        screen.wait_for(lambda: screen.process.poll() is not None)
