"""Places of the workspace open in the user's own editor, and a diff in its own view."""

import asyncio
import json
import os
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from codeagent.config.checking import WrongValue, checked
from codeagent.config.settings import EditorSettings, FileSettings
from codeagent.tui.parts.external_editor import EditorFailed, edit_difference, open_place
from tests.table import for_each
from tests.tui.parts.test_external_editor import Lending

CODE = "import json, sys; json.dump(sys.argv[2:], open(sys.argv[1], 'w'))"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "work space"
    (root / "src").mkdir(parents=True)
    (root / "src/a;b.py").write_text("one\n")
    (root / "out").symlink_to("/etc/passwd")
    (tmp_path / "secret").write_text("")
    return root


def app(tmp_path: Path, **commands: str) -> Lending:
    lending: Any = Lending()
    note = shlex.join([sys.executable, "-c", CODE, str(tmp_path / "said")])
    lending.editor = EditorSettings(**{name: f"{note} {rest}" for name, rest in commands.items()})
    lending.folders = SimpleNamespace(workspace=tmp_path / "work space")
    return lending


def said(tmp_path: Path) -> list[str]:
    words: list[str] = json.loads((tmp_path / "said").read_text())
    return words


async def test_the_configured_command_gets_file_and_line_without_a_shell(
    workspace: Path, tmp_path: Path
) -> None:
    await open_place(app(tmp_path, open="-g '{file}:{line}' {other}"), workspace, "src/a;b.py", 7)
    assert said(tmp_path) == ["-g", f"{workspace}/src/a;b.py:7", "{other}"]


EDITORS = (
    ("vim -R", ["-R", "+7", "FILE"]),
    ("nano", ["+7", "FILE"]),
    ("hx", ["FILE:7"]),
    ("code --wait", ["--wait", "-g", "FILE:7"]),
    ("subl", ["FILE:7"]),
)


@pytest.mark.parametrize(("editor", "words"), EDITORS)
async def test_every_editor_gets_the_line_as_it_wants_it(
    editor: str, words: list[str], workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, *rest = editor.split()
    program = tmp_path / name
    program.write_text(
        f'#!{sys.executable}\nimport sys; sys.argv[1:1] = ["{tmp_path}/said"]\n{CODE}\n'
    )
    program.chmod(0o755)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", shlex.join([str(program), *rest]))
    await open_place(Lending(), workspace, "src/a;b.py", 7)
    assert said(tmp_path) == [word.replace("FILE", f"{workspace}/src/a;b.py") for word in words]


@pytest.mark.parametrize(
    "path", ["../secret", "/etc/passwd", "out", "src", "missing.py", "src/\0", "x" * 5000]
)
async def test_nothing_outside_the_workspace_is_opened(
    path: str, workspace: Path, tmp_path: Path
) -> None:
    with pytest.raises(EditorFailed, match="not a file of this workspace"):
        await open_place(app(tmp_path, open="{file}"), workspace, path, 1)
    assert not (tmp_path / "said").exists()


async def test_a_program_of_the_workspace_is_not_run(workspace: Path, tmp_path: Path) -> None:
    lending: Any = Lending()
    for command in ("./edit {file}", "bin/edit {file}", "no-such-editor {file}"):
        lending.editor = EditorSettings(open=command)
        with pytest.raises(EditorFailed, match=r"\[editor\] open"):
            await open_place(lending, workspace, "src/a;b.py", 1)


async def test_what_is_saved_in_the_diff_view_comes_back(workspace: Path, tmp_path: Path) -> None:
    code = (
        "import os, sys; old, new = sys.argv[1:]; text = open(new).read(); "
        "assert open(old).read() == 'before\\n' and not os.stat(old).st_mode & 0o077; "
        "assert os.path.basename(old) == os.path.basename(new) == 'a.py'; "
        "open(new, 'w').write(text + 'mine\\n')"
    )
    lending = app(tmp_path)
    command = shlex.join([sys.executable, "-c", code, "{before}", "{after}"])
    lending.editor = EditorSettings(diff=command)  # type: ignore[attr-defined]  # as the app has it
    assert await edit_difference(lending, "a.py", ("before\n", "after\n")) == "after\nmine\n"


async def test_without_a_diff_command_the_error_says_how_to_set_one(tmp_path: Path) -> None:
    with pytest.raises(EditorFailed, match="diff = "):
        await edit_difference(app(tmp_path), "a.py", ("", ""))


@for_each(
    ("given", "lacking"),
    [
        ({"open": "code"}, "{file}"),
        ({"diff": "code --diff {before}"}, "{after}"),
        ({"diff": "code"}, "{before} and {after}"),
    ],
)
def test_a_command_that_would_open_nothing_is_refused(given: dict[str, str], lacking: str) -> None:
    with pytest.raises(WrongValue, match=f"needs {lacking}"):
        checked(FileSettings, {"editor": given})


async def test_a_graphical_editor_stays_open_when_the_screen_stops_waiting(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "kate"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(program))
    opening = asyncio.create_task(open_place(Lending(), workspace, "src/a;b.py", 7))
    async with asyncio.timeout(10):
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():  # noqa: ASYNC110  # another process writes it
            await asyncio.sleep(0.01)
    opening.cancel()
    await asyncio.wait({opening})
    os.kill(int((tmp_path / "pid").read_text()), 9)  # raises if it has ended
