"""`codeagent sandbox`, as a user types it."""

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from subprocess import PIPE, CompletedProcess

import pytest

from codeagent.sandbox.packages import package_cache, package_caches
from tests.warm import WarmProcess


def codeagent(
    *arguments: str, cwd: Path, stdin: str = "", **environment: str
) -> CompletedProcess[str]:
    recently = cwd.parent / "state" / "codeagent" / "sandbox" / "pull-failed"
    recently.parent.mkdir(parents=True, exist_ok=True)
    recently.write_text("tests pull nothing")
    state = {
        "XDG_STATE_HOME": str(cwd.parent / "state"),
        "XDG_CONFIG_HOME": str(cwd.parent / "config"),
    }
    with tempfile.TemporaryFile("w+") as typed:
        typed.write(stdin)
        typed.seek(0)
        env = os.environ | state | environment
        process = WarmProcess(
            ["sandbox", *arguments], cwd=cwd, env=env, stdin=typed, stdout=PIPE, stderr=PIPE
        )
        return CompletedProcess(arguments, *_ended(process))


def _ended(process: WarmProcess) -> tuple[int, str, str]:
    out, err = process.communicate(100)
    return process.wait(), out, err


@pytest.mark.docker
def test_status_says_engine_and_image(workspace_dir: Path) -> None:
    done = codeagent("status", cwd=workspace_dir)
    assert done.returncode == 0, done
    assert "engine" in done.stdout
    facts = json.loads(codeagent("status", "--json", cwd=workspace_dir).stdout)
    assert {"socket", "engine", "runc", "image", "image_origin", "containers"} <= facts.keys()
    assert facts["packages"] | {"folder": ""} == {"folder": "", "bytes": 0, "limit": 2 * 1024**3}


@pytest.mark.docker
def test_test_shows_every_check_that_holds(workspace_dir: Path) -> None:
    done = codeagent("test", cwd=workspace_dir)
    assert done.returncode == 0, done
    assert "✓ no network but loopback" in done.stdout
    assert "✗" not in done.stdout


@pytest.mark.docker
def test_a_shell_without_a_terminal_runs_its_standard_input(workspace_dir: Path) -> None:
    done = codeagent("shell", cwd=workspace_dir, stdin="pwd; cat hello.py; exit 5\n")
    assert done.returncode == 5, done
    assert done.stdout.splitlines()[:2] == [str(workspace_dir), "def hello():"]


@pytest.mark.docker
def test_prune_says_what_it_removed(workspace_dir: Path) -> None:
    """Tests beside this one kill sessions, whose containers may be among those that are removed."""
    done = codeagent("prune", cwd=workspace_dir)
    assert done.returncode == 0, done
    assert re.fullmatch("1 container removed\n|(?!1 )[0-9]+ containers removed\n", done.stdout)


@pytest.mark.docker
def test_the_package_cache_is_shown_and_cleared_and_one_of_a_folder_that_is_gone_is_pruned(
    workspace_dir: Path,
) -> None:
    state = workspace_dir.parent / "state" / "codeagent"
    (gone := workspace_dir.parent / "gone").mkdir()
    here = package_cache(state, workspace_dir)
    caches = (here, package_cache(state, gone))

    def fill() -> None:
        for cache in caches:
            (cache.open(os.getuid())[0] / "package").write_bytes(b"x" * 1_000_000)

    fill()
    gone.rmdir()
    shown = codeagent("cache", cwd=workspace_dir).stdout
    assert shown == f"1.0 MB of 2,147.5 MB, in {here.folder}\n"
    assert codeagent("prune", cwd=workspace_dir).stdout.splitlines()[1:] == [
        "1 package cache removed, 1.0 MB"
    ]
    assert package_caches(state) == (here,)
    assert codeagent("cache", "--clear", cwd=workspace_dir).stdout == "1.0 MB removed\n"
    assert codeagent("cache", cwd=workspace_dir).stdout.startswith("0.0 MB of")
    fill()
    done = codeagent("prune", "--packages", cwd=workspace_dir)
    assert done.stdout.splitlines()[1:] == ["2 package caches removed, 2.0 MB"]
    assert (here.folder / "files").is_dir(), "a container may have it"
    assert here.size() == 0


@pytest.mark.parametrize("action", ["status", "test", "shell", "prune", "build"])
def test_without_an_engine_each_says_why_and_what_to_do(workspace_dir: Path, action: str) -> None:
    done = codeagent(action, cwd=workspace_dir, DOCKER_HOST="unix:///nonexistent/docker.sock")
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("codeagent: no Docker engine")
    assert "install" in line


def test_whether_commands_may_read_a_git_directory_elsewhere_is_kept(workspace_dir: Path) -> None:
    linked = workspace_dir.parent / "linked"
    subprocess.run(
        ["git", "-C", workspace_dir, "worktree", "add", "-q", linked],
        check=True,
        capture_output=True,
    )
    assert "nothing from outside" in codeagent("git", cwd=workspace_dir).stdout
    refused, allowed = (
        "commands may not read it and commits may not go to it",
        "commands may read it and commits may",
    )
    steps = (
        ((), f"{refused}, until"),
        (("--allow",), allowed),
        ((), allowed),
        (("--refuse",), refused),
    )
    for arguments, said in steps:
        assert f"{workspace_dir}/.git: {said}" in codeagent("git", *arguments, cwd=linked).stdout
