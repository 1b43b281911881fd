"""A command that needs no question must not run what files of the workspace name."""

from pathlib import Path

import pytest

from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.tools.shell.syntax import command_key
from tests.sandboxes import run
from tests.table import for_each

pytestmark = pytest.mark.docker


def plant(folder: Path, marker: Path) -> None:
    """Ordinary files that look like a repository to git: each could be written without a question
    in accept-edits."""
    for name, text in {
        "HEAD": "ref: refs/heads/main\n",
        "config": f'[core]\nrepositoryformatversion = 0\nbare = false\nworktree = ..\nfsmonitor = "touch {marker};:"\n',
        "objects/keep": "",
        "refs/keep": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@for_each("command", ["cd planted && git status", "git -C planted status", "cd planted; git diff"])
async def test_git_does_not_run_what_a_planted_folder_names(
    sandbox: DockerSandbox, workspace_dir: Path, command: str
) -> None:
    marker = workspace_dir / "FIRED"
    marker.unlink(missing_ok=True)
    plant(workspace_dir / "planted", marker)
    assert command_key(command).reads == "freely"
    await run(sandbox, command)
    assert not marker.exists()
    await run(sandbox, "cd planted && GIT_CONFIG_COUNT=0 git status")
    assert marker.exists(), "the folder would work, were it taken for a repository"
