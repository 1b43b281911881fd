"""`codeagent config`: what holds, where it is written, the allowed keys."""

import json
from pathlib import Path

import pytest

from codeagent.cli import main


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("CODEAGENT_MODEL", "CODEAGENT_MODE", "CODEAGENT_API_BASE", "CODEAGENT_STRATEGY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "config/codeagent").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configure(home: Path, text: str) -> Path:
    path = home / "config/codeagent/config.toml"
    path.write_text(text)
    return path


def test_show_tells_what_holds_files_and_environment_together(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(home, 'mode = "plan"\n[rules]\nallow = ["bash(make)"]\n')
    monkeypatch.setenv("CODEAGENT_MODEL", "ollama/qwen3")
    assert main(["config", "show"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["mode"], shown["model"], shown["read_only_commands"]) == (
        "plan",
        "ollama/qwen3",
        "allow",
    )
    assert shown["rules"]["user"]["allow"] == ["bash(make)"]
    file = str(home / "config/codeagent/config.toml")
    assert shown["origins"] == {"mode": file, "model": "CODEAGENT_MODEL"}


def test_show_names_the_line_that_is_wrong(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = configure(home, 'mode = "plan"\nmodle = "x"\n')
    assert main(["config", "show"]) == 2
    assert f"{path}:2: modle: no such setting; did you mean mode?" in capsys.readouterr().err


def test_path_is_the_user_s_file_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "path"]) == 0
    assert capsys.readouterr().out == f"{home}/config/codeagent/config.toml\n"


def test_all_paths_are_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "path", "--all"]) == 0
    rows = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert rows["project"] == f"{home}/.codeagent/config.toml"
    assert rows["state"] == f"{home}/state/codeagent"
    assert set(rows) == {
        "yours",
        "project",
        "keys",
        "themes",
        "servers",
        "documents",
        "rules",
        "state",
    }


def test_the_schema_knows_every_setting_of_a_file_and_nothing_else(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["additionalProperties"] is False
    assert {"model", "mode", "rules", "limits", "read_only_commands", "commit_hooks"} <= set(
        schema["properties"]
    )
