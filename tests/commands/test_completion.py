"""Completion, in the shells themselves."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.e2e.product import Product, say
from tests.pty_screen import PtyScreen, environment

SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
SETUP = {
    "bash": "source <(codeagent completion bash)",
    "zsh": "autoload -U compinit; compinit -u -D; source <(codeagent completion zsh)",
    "fish": "codeagent completion fish | source",
}
RECIPE = "---\ndescription: Tidy it up\n---\nTidy up.\n"
TYPED = (
    ("codeagent ses", "codeagent sessions "),
    ("codeagent extensions show trig", "codeagent extensions show triggers "),
    ("codeagent tools show search_m", "codeagent tools show search_memory "),
    ("codeagent run --model dem", "codeagent run --model demo "),
    ("codeagent run --recipe tid", "codeagent run --recipe tidy-up "),
    ("codeagent mcp remove gith", "codeagent mcp remove github "),
    ("codeagent mcp test gith", "codeagent mcp test github "),
    ("codeagent sessions show 20", "codeagent sessions show {session}"),
)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_commands_and_values(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    work, home = tmp_path / "work", tmp_path / "home"
    (work / ".codeagent/commands").mkdir(parents=True)
    (work / ".codeagent/commands/tidy-up.md").write_text(RECIPE)
    home.mkdir()
    product = Product(work, home)
    product.run(product.script(say("Hello.")))
    [session] = product.sessions
    product.call("mcp", "add", "github", "--", "github-server")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = environment(home, PATH=path, PS1="$ ", CODEAGENT_MODEL="")
    with PtyScreen(SHELLS[shell], env, work, (100, 40)) as terminal:
        terminal.wait_until_silent()
        terminal.send(SETUP[shell] + "; echo re''ady", "enter")
        terminal.wait_for("ready")
        for typed, completed in TYPED:
            terminal.send(typed, "tab")
            terminal.wait_for(completed.format(session=session.name))
            terminal.send("ctrl+u")


def test_a_name_that_acts_on_a_terminal_is_not_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from codeagent.commands.completion import _fits

    assert _fits("tidy-up", "tid") and not _fits("ti\x1b[2Jdy", "ti") and not _fits("ti\ndy", "ti")
    assert not _fits("tidy", "up")
