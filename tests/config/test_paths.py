"""Folders follow the platform."""

from pathlib import Path

import pytest

from codeagent.config.local_environment import state_dir, user_config_file


def test_folders_follow_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    assert state_dir() == tmp_path / "s/codeagent"
    assert user_config_file() == tmp_path / "c/codeagent/config.toml"


def test_without_xdg_they_are_below_the_home_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_dir() == tmp_path / ".local/state/codeagent"
    assert user_config_file() == tmp_path / ".config/codeagent/config.toml"
