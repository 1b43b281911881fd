"""A workspace with files that a rule keeps from being read, and what a tool lists of it."""

from pathlib import Path
from typing import Any

import pytest

from codeagent.core.events import ToolResultAdded
from codeagent.core.messages import text_of
from codeagent.core.policy import Policy, Rule
from codeagent.core.tool import Tool
from codeagent.workspace.files import LocalWorkspace
from tests.agent.doubles import Turn, of, scene

DENY = (Rule.parse("read(private/**)", "deny"),)


async def listed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tool: type[Tool[Any]],
    arguments: str,
    rule: Rule,
) -> str:
    """Return what a call of the tool says of that workspace."""
    made: Any = tool
    workspace = private_workspace(tmp_path, monkeypatch)
    s = scene(
        Turn("", ((tool.name, arguments),)),
        Turn("done"),
        policy=Policy("ask", (rule,)),
        more=(made(workspace),),
    )
    [result] = of(await s.run(), ToolResultAdded)
    return text_of(result.content)


def named_and_kept_back(text: str) -> tuple[bool, bool]:
    """Whether the text names the private file, and whether it says that a rule keeps it back."""
    refused = text == "denied by the rule read(private/**)"
    left_out = "left out: a rule keeps what is there from being read]" in text
    return "key.txt" in text, refused or left_out


def private_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalWorkspace:
    for name in ("private/key.txt", "src/a.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(f"needle in {name}\n")
    workspace = LocalWorkspace(tmp_path)
    monkeypatch.setattr("tests.agent.doubles.Place", lambda: workspace)
    return workspace
