"""Rules that keep files from being read hold in a tool that narrows another one."""

from pathlib import Path

import pytest

from codeagent.core.events import ToolResultAdded
from codeagent.core.messages import text_of
from codeagent.core.policy import Policy
from codeagent.extensions.user_tools.yaml_loader import YamlLoader
from codeagent.tools.builtin.list import List
from codeagent.tools.builtin.search import Search
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.folders import LoaderNeeds, ToolFile
from tests.agent.doubles import Turn, of, scene
from tests.fakes import FakeOutputs
from tests.tools.private_files import DENY, private_workspace


@pytest.mark.parametrize("inner", ["search", "list"])
async def test_rules_on_reading_hold_in_a_tool_that_narrows_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: str
) -> None:
    workspace = private_workspace(tmp_path, monkeypatch)
    made = Search(workspace, ReadTracker(workspace)) if inner == "search" else List(workspace)
    loader = YamlLoader(LoaderNeeds(FakeOutputs(), ReadTracker(workspace), lambda: {inner: made}))
    text = f"name: docs\nbuiltin: {inner}\n"
    [narrowed] = loader.load(
        ToolFile(tmp_path / "t.yaml", "t.yaml", text.encode(), "project")
    ).tools
    arguments = '{"pattern": "needle"}' if inner == "search" else "{}"
    s = scene(
        Turn("", (("docs", arguments),)), Turn("done"), policy=Policy("ask", DENY), more=(narrowed,)
    )
    [result] = of(await s.run(), ToolResultAdded)
    assert "a.txt" in text_of(result.content) and "key.txt" not in text_of(result.content)
