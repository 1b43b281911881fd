"""What docs/how-to/editor.md says of editors, run in the real ones where they are installed."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from codeagent.config.checking import checked
from codeagent.config.settings import FileSettings

PAGE = (Path(__file__).parents[3] / "docs/how-to/editor.md").read_text()


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a `codeagent` on PATH writes what it was given."""
    program, told = tmp_path / "bin/codeagent", tmp_path / "told"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nprintf '%s ' \"$@\" > {told}\necho sent\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a b.py").write_text("".join(f"line {number}\n" for number in range(1, 9)))
    return told


def test_neovim_sends_its_selection(told: Path, tmp_path: Path) -> None:
    program = shutil.which("nvim")
    if program is None:
        pytest.skip("Neovim is not installed")
    (tmp_path / "init.lua").write_text(block("lua"))
    keys = r"normal 2GVjj\a"
    words = ("--headless", "-u", "init.lua", "a b.py", "-c", keys, "-c", "qa!")
    subprocess.run((program, *words), cwd=tmp_path, check=True, timeout=60, capture_output=True)
    assert told.read_text() == f"send-selection {tmp_path}/a b.py:2-4 "


def test_emacs_sends_its_region(told: Path, tmp_path: Path) -> None:
    program = shutil.which("emacs")
    if program is None:
        pytest.skip("Emacs is not installed")
    (tmp_path / "init.el").write_text(block("elisp"))
    code = """(progn (find-file "a b.py") (transient-mark-mode 1) (goto-char (point-min))
      (forward-line 1) (push-mark nil t t) (forward-line 2)
      (call-interactively #'codeagent-send-selection))"""
    words = ("-Q", "--batch", "-l", "init.el", "--eval", code)
    subprocess.run((program, *words), cwd=tmp_path, check=True, timeout=60, capture_output=True)
    assert told.read_text() == f"send-selection {tmp_path}/a b.py:2-4 "


def test_the_task_of_vs_code_is_a_process_without_a_shell() -> None:
    (task,) = json.loads(block("json"))["tasks"]
    assert (task["type"], task["command"]) == ("process", "codeagent")
    assert task["args"] == ["send-selection", "${file}:${lineNumber}"]


def test_the_commands_of_the_settings_are_taken() -> None:
    editor = checked(FileSettings, tomllib.loads(block("toml"))).editor
    assert editor.open == "code -g {file}:{line}"
    for command in re.findall(r"^\| .* \| `(.*)` \|$", PAGE, re.MULTILINE):
        assert checked(FileSettings, {"editor": {"diff": command}}).editor.diff == command
