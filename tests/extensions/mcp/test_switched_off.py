"""What is left of configured servers while the extension is switched off."""

import json
from pathlib import Path

import pytest

from codeagent import cli
from codeagent.app.describe import describe_tools
from codeagent.commands.doctor import of_extensions
from codeagent.config.extensions import all_extensions
from codeagent.config.local_environment import LocalEnvironment, user_config_file
from codeagent.config.settings import ExtensionSettings, Settings

OFF = Settings(extensions=ExtensionSettings(off=("mcp",)))


def test_its_files_are_ignored(tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    (own := tmp_path / "config").mkdir()
    (work / ".mcp.json").write_text("{")
    (own / "mcp.json").write_text(json.dumps({"mcpServers": {"git": {"command": "git-server"}}}))
    local = LocalEnvironment(work, tmp_path / "state", {}, config_dir=own)
    on, off = describe_tools(local, Settings()), describe_tools(local, OFF)
    assert on.toolsets.available.known == {"git"}
    assert [problem.where for problem in on.now.problems] == [".mcp.json:1"]
    assert (off.toolsets.available.known, off.now.problems) == (frozenset(), ())


def test_the_doctor_and_the_list_of_extensions_say_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    user_config_file().parent.mkdir(parents=True, exist_ok=True)
    user_config_file().write_text('[extensions]\noff = ["mcp"]\n')
    user_config_file().chmod(0o600)
    said = "mcp.json and .mcp.json are ignored, and no server is started"
    [finding] = of_extensions(all_extensions().without({"mcp"}), tmp_path)
    assert (finding.name, finding.state, finding.text) == ("mcp", "note", f"switched off: {said}")
    assert cli.main(["extensions", "show", "mcp"]) == 0
    assert said in capsys.readouterr().out
