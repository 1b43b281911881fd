"""The user's editor gets the text, and whatever it does the text is not lost."""

import contextlib
import os
import shlex
import shutil
import stat
import sys
from collections.abc import Iterator
from errno import ENOSPC
from pathlib import Path

import pytest
from textual.app import App

from codeagent.config.settings import EditorSettings
from codeagent.tui.parts import external_editor
from codeagent.tui.parts.external_editor import (
    EditorFailed,
    edit_difference,
    edit_in_editor,
    editor_command,
)
from tests.table import for_each


class Lending(App[None]):
    """Without a terminal there is none to lend; what the editor does is real."""

    @contextlib.contextmanager
    def suspend(self) -> Iterator[None]:
        yield


def editor(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv(
        "EDITOR", shlex.join([sys.executable, "-c", f"import os, sys; name = sys.argv[1]; {code}"])
    )


async def test_what_the_editor_writes_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    editor(monkeypatch, "text = open(name).read(); open(name, 'w').write(text + ' and é\\n')")
    assert await edit_in_editor(Lending(), "first\nsecond") == "first\nsecond and é"


async def test_the_name_of_the_file_says_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    editor(monkeypatch, "open(name, 'w').write(os.path.splitext(name)[1])")
    assert await edit_in_editor(Lending(), "{}", suffix=".json") == ".json"


async def test_an_editor_that_replaces_the_file_is_understood(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    editor(monkeypatch, "open(name + '~', 'w').write('new'); os.replace(name + '~', name)")
    assert await edit_in_editor(Lending(), "old") == "new"


async def test_an_editor_that_takes_the_file_away_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    editor(monkeypatch, "os.remove(name)")
    with pytest.raises(EditorFailed, match="The edited text cannot be read"):
        await edit_in_editor(Lending(), "text")


async def test_only_its_owner_can_read_the_file_and_it_is_gone_afterwards(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    editor(monkeypatch, f"open({str(report)!r}, 'w').write(f'{{os.stat(name).st_mode}} {{name}}')")
    await edit_in_editor(Lending(), "text")
    mode, name = report.read_text().split()
    assert stat.S_IMODE(int(mode)) == 0o600
    assert not os.path.exists(name)  # noqa: ASYNC240, PTH110  # a test may block


async def test_an_editor_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    editor(monkeypatch, "open(name, 'w').write('half'); sys.exit(3)")
    with pytest.raises(EditorFailed, match=r"ended with 3\. Your text is unchanged\."):
        await edit_in_editor(Lending(), "text")


async def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**options: str) -> None:
        raise OSError(ENOSPC, "No space left on device")

    editor(monkeypatch, "pass")
    for name in ("mkstemp", "TemporaryDirectory"):
        monkeypatch.setattr(external_editor, name, full)
    app = Lending()
    app.editor = EditorSettings(diff="/bin/true {before} {after}")  # type: ignore[attr-defined]  # as the settings set it
    for work in (edit_in_editor(app, "text"), edit_difference(app, "a.py", ("1", "2"))):
        with pytest.raises(EditorFailed, match="No space left"):
            await work


async def test_a_terminal_that_cannot_be_lent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    editor(monkeypatch, "pass")
    app: App[None] = App()
    async with app.run_test():
        with pytest.raises(EditorFailed, match="cannot be lent"):
            await edit_in_editor(app, "text")


def test_visual_comes_before_editor_and_may_have_arguments() -> None:
    given = {**os.environ, "VISUAL": "sh -c 'a b'", "EDITOR": "vi"}
    assert editor_command(given, Path("/nowhere")) == [shutil.which("sh"), "-c", "a b"]


def test_an_editor_of_the_workspace_is_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    planted = tmp_path / "sh"
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert editor_command({"EDITOR": "sh"}, Path("/nowhere")) == [str(planted)], "the control"
    assert editor_command({"EDITOR": "sh"}, tmp_path) != [str(planted)]


@for_each(
    ("environ", "words"),
    [
        ({}, "No editor is set"),
        ({"EDITOR": "  "}, "No editor is set"),
        ({"EDITOR": "'half"}, r"\$EDITOR cannot be read"),
        (
            {"EDITOR": "no-such-editor --wait"},
            "names a program that does not exist: no-such-editor --wait",
        ),
    ],
)
def test_without_an_editor_the_user_is_told_what_to_do(environ: dict[str, str], words: str) -> None:
    with pytest.raises(EditorFailed, match=words):
        editor_command({"PATH": os.environ["PATH"], **environ}, Path("/nowhere"))
