"""Durations written as text mean the same seconds wherever the product takes a duration."""

import json
from pathlib import Path
from typing import Any

import pytest

from codeagent.commands.arguments import duration
from codeagent.config.layers import load_settings
from codeagent.core.budget import as_seconds
from codeagent.extensions.agents.definitions import AgentLoader
from codeagent.extensions.agents.group_files import load_group
from codeagent.extensions.mcp.entries import parse_servers, written_timeout
from codeagent.extensions.recipes.reading import load_recipe
from codeagent.extensions.user_tools.decorator import marked_as, register_tool
from codeagent.extensions.user_tools.yaml_loader import YamlLoader
from codeagent.tools.arguments import read_arguments
from codeagent.tools.builtin.bash import Bash
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.folders import LoaderNeeds, ToolFile
from codeagent.workspace.files import LocalWorkspace
from tests.fakes import FakeOutputs
from tests.table import for_each


@for_each(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("1h30m", 5400),
        ("5m", 300),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("1d", 86_400),
        (" 2m ", 120),
    ],
)
def test_each_unit_has_its_seconds(text: str, seconds: float) -> None:
    assert as_seconds(text) == seconds


@for_each(
    "text", ["", "30", "s", "30 s", "-5s", "30sec", "1h 30m", "٣s", "1e3s", "30s!", "9" * 13 + "s"]
)
def test_text_that_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="30s, 5m or 1h30m"):
        as_seconds(text)


def test_what_is_not_text_is_left_to_the_check_of_the_number() -> None:
    assert [as_seconds(value) for value in (30, 2.5, None, True)] == [30, 2.5, None, True]


def settings(folder: Path, user: str, project: str = "") -> Any:
    for path, text in (
        (folder / "user.toml", user),
        (folder / "project/.codeagent/config.toml", project),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return load_settings(
        {},
        environment={},
        user_file=folder / "user.toml",
        workspace=folder / "project",
        decides=lambda rule, example: True,
    )


def test_settings_take_them_and_a_project_lowers_a_limit_with_them(tmp_path: Path) -> None:
    user = (
        '[limits]\ntimeout_per_call = "1m"\nmax_seconds = "1h"\nmodel_timeout = 20\n'
        '[context]\nreview_seconds = "10s"\n[experimental]\npartial_results = "2s"\n'
    )
    found = settings(
        tmp_path,
        user,
        '[limits]\ntimeout_per_call = "30s"\nmax_seconds = "2h"\nmodel_timeout = "10s"\n',
    )
    limits = found.limits
    assert (limits.timeout_per_call, limits.max_seconds, limits.model_timeout) == (30, 3600, 10)
    assert (found.context.review_seconds, found.experimental.partial_results) == (10, 2)


def test_a_wrong_one_in_the_settings_is_an_error_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(
        Exception,
        match=r"user.toml:2: limits.max_seconds: write seconds as a number, or a duration",
    ):
        settings(tmp_path, '[limits]\nmax_seconds = "soon"\n')


def file(name: str, text: str) -> ToolFile:
    return ToolFile(Path("/w") / name, name, text.encode(), "project")


def of_yaml_tool(text: str) -> Any:
    loader = YamlLoader(LoaderNeeds(FakeOutputs(), ReadTracker(LocalWorkspace(Path("/"))), dict))
    [tool] = loader.load(
        file("t.yaml", f"name: t\ndescription: d\nargv: [ls]\ntimeout: {text}\n")
    ).tools
    return tool.timeout


def of_recipe(text: str) -> Any:
    found = load_recipe(
        file("r.yaml", f"steps:\n  - prompt: x\n    limits: {{timeout_per_call: {text}}}\n")
    )
    assert found.recipe is not None, found.problems
    return found.recipe.steps[0].limits.timeout_per_call


def of_agent(text: str) -> Any:
    head = f"---\nname: a\ndescription: d\nlimits: {{timeout_per_call: {text}}}\n---\nx\n"
    [agent] = AgentLoader().load(file("a.md", head)).agents
    return agent.limits["timeout_per_call"]


def of_group(text: str) -> Any:
    head = "agents: [{name: a, prompt: p}]\nstart: a\n"
    group, _ = load_group(file("g.yaml", f"{head}limits: {{max_seconds: {text}}}\n"))
    assert group is not None
    return dict(group.limits)["max_seconds"]


def of_decorator(text: str) -> Any:
    def tool() -> str:
        """Do nothing."""
        return ""

    mark = marked_as(register_tool(timeout=text)(tool))
    assert mark is not None
    return mark.timeout


def of_server(text: str) -> Any:
    entry = {"command": "x", "timeout": text}
    [server] = parse_servers(
        json.dumps({"mcpServers": {"a": entry}}).encode(), "mcp.json", "user"
    ).entries
    return server.config.timeout


@for_each("seconds", [1, 30, 999, 1000, 3600])
def test_a_servers_time_limit_is_read_as_it_was_written(seconds: float) -> None:
    entry = {"command": "x", "timeout": written_timeout(seconds)}
    [server] = parse_servers(
        json.dumps({"mcpServers": {"a": entry}}).encode(), "mcp.json", "user"
    ).entries
    assert server.config.timeout == seconds


def of_command_line(text: str) -> Any:
    return duration(text)


def of_call(text: str) -> Any:
    bash = Bash(FakeOutputs(), ReadTracker(LocalWorkspace(Path("/"))))
    return read_arguments(bash, json.dumps({"command": "ls", "timeout": text})).args.timeout  # type: ignore[attr-defined]  # bash's own


@for_each(
    "place",
    [
        of_yaml_tool,
        of_recipe,
        of_agent,
        of_group,
        of_decorator,
        of_server,
        of_command_line,
        of_call,
    ],
)
def test_every_place_with_a_duration_takes_text(place: Any) -> None:
    assert (place("30s"), place("20m")) == (30, 1200)
