"""Tools of users are tried out in a real view: what they change lands once it is taken."""

from pathlib import Path

import pytest

from codeagent.core.acts import Answer
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.events import KnownEvent, ToolResultAdded
from codeagent.core.messages import text_of
from codeagent.core.policy import Decision
from codeagent.core.tool import Tool
from codeagent.extensions.user_tools.yaml_loader import YamlLoader
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.folders import LoaderNeeds, ToolFile
from codeagent.workspace.files import LocalWorkspace
from tests.agent.doubles import Turn, of, scene
from tests.conftest import MakeSandbox
from tests.extensions.user_tools.python_tools import Author
from tests.extensions.user_tools.test_python_tools_page import example
from tests.fakes import FakeOutputs

pytestmark = pytest.mark.docker

APPENDS = """
name: append
description: Appends a line to a file.
parameters: [{name: line}]
command: echo {{args.line}} >> list
approval: effects
"""


def yaml_tool(workspace: LocalWorkspace) -> Tool[object]:
    loader = YamlLoader(LoaderNeeds(FakeOutputs(), ReadTracker(workspace), dict))
    file = ToolFile(workspace.root / "t.yaml", "t.yaml", APPENDS.encode(), "project")
    (tool,) = loader.load(file).tools
    return tool


async def test_what_they_change_is_the_question(
    workspace_dir: Path, make_sandbox: MakeSandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sandbox = await make_sandbox(workspace_dir)
    workspace = LocalWorkspace(workspace_dir)
    monkeypatch.setattr("tests.agent.doubles.Place", lambda: workspace)
    (workspace_dir / "list").write_text("b\n")
    tools = (yaml_tool(workspace), example(Author(tmp_path), "sort_lines"))
    calls = (
        ("append", '{"line": "a"}'),
        ("sort_lines", '{"path": "list"}'),
        ("sort_lines", '{"path": "list"}'),
    )
    turns = [*(Turn("", (call,)) for call in calls), Turn("done")]
    s = scene(*turns, sandbox=sandbox, attended=True, more=tools, tries=True)
    contents = []

    def answer(event: KnownEvent) -> None:
        if isinstance(event, ApprovalRequested):
            contents.append((event.name, (workspace_dir / "list").read_text()))
            s.agent.do(Answer(event.approval_id, Decision("once")))

    events = await s.run(on_event=answer)
    assert contents == [("effects", "b\n"), ("effects", "b\na\n")]
    assert (workspace_dir / "list").read_text() == "a\nb\n"
    results = [text_of(event.content) for event in of(events, ToolResultAdded)]
    assert results == [
        "[taken into the workspace: M list]",
        "[taken into the workspace: M list]\n2 lines sorted",
        "2 lines sorted",
    ]
    workspace.close()
