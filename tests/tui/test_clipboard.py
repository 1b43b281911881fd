"""What is copied goes through the terminal, or into a file only its owner can read."""

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.app import App

from codeagent.tui.clipboard import MAX_BYTES, copy

Copy = Callable[[str], str]


class Recorder(App[None]):
    """An app that remembers what it was told to copy."""

    copied: str | None = None

    def copy_to_clipboard(self, text: str) -> None:
        self.copied = text


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setenv("TERM", "xterm-256color")
    return Recorder()


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_a_short_text_goes_through_the_terminal(app: Recorder, tmp_path: Path) -> None:
    assert copy(app, "a", tmp_path) == "copied 1 character"
    assert copy(app, "one\ntwo", tmp_path) == "copied 2 lines"
    assert (app.copied, list(tmp_path.iterdir())) == ("one\ntwo", [])


def test_control_characters_are_made_visible(app: Recorder, tmp_path: Path) -> None:
    copy(app, "a\x1b[31m\u202eb\ud800", tmp_path)
    assert app.copied == "a\\x1b[31m\\u202eb\\ud800"


def test_the_limit_is_on_what_the_terminal_is_sent(app: Recorder, tmp_path: Path) -> None:
    most = MAX_BYTES // 4 * 3
    assert len(base64.b64encode(b"x" * most)) == MAX_BYTES
    assert copy(app, "x" * most, tmp_path) == f"copied {most:,} characters"
    said = copy(app, "y" * (most + 1), tmp_path)
    path = only_file(tmp_path)
    assert said == f"written to {path}: {most + 1:,} characters, too long for the clipboard"
    assert (app.copied, path.read_text()) == ("x" * most, "y" * (most + 1))


def test_the_file_is_its_owners_alone(app: Recorder, tmp_path: Path) -> None:
    copy(app, "x" * MAX_BYTES, tmp_path / "state" / "copies")
    path = only_file(tmp_path / "state" / "copies")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_terminal_that_takes_nothing_gets_a_file(
    app: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    said = copy(app, "text", tmp_path)
    assert (
        said
        == f"written to {only_file(tmp_path)}: 4 characters, this terminal does not accept copies"
    )
    assert app.copied is None
