"""The demo's repository: really broken, committed, and untouched by the user's own git settings."""

import os
import subprocess
from pathlib import Path

import pytest

from codeagent.commands.demo import make_repository
from codeagent.core.errors import CodeagentError
from codeagent.llm.demo import demo_files


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout


def test_the_repository_holds_the_demos_files_in_one_commit(tmp_path: Path) -> None:
    make_repository(tmp_path, os.environ)
    assert git(tmp_path, "status", "--porcelain") == ""
    assert git(tmp_path, "ls-files").split() == sorted(demo_files())
    assert len(git(tmp_path, "log", "--oneline").splitlines()) == 1


def test_its_tests_fail_to_begin_with(tmp_path: Path) -> None:
    make_repository(tmp_path, os.environ)
    done = subprocess.run(
        ["python3", "-m", "unittest"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "FAIL" in done.stderr


def test_the_users_git_settings_and_hooks_have_no_say(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "demo"
    (home / "template/hooks").mkdir(parents=True)
    folder.mkdir()
    for hook in (home / "template/hooks/pre-commit", home / "template/hooks/commit-msg"):
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[init]\ntemplateDir = {home}/template\n[core]\nhooksPath = {home}/template/hooks\n[commit]\ngpgsign = true\n"
    )
    make_repository(
        folder,
        os.environ | {"HOME": str(home), "GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere"},
    )
    assert git(folder, "log", "--format=%an").strip() == "codeagent demo"


def test_without_git_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(CodeagentError, match="apt-get install git"):
        make_repository(tmp_path, {"PATH": str(tmp_path / "empty")})
