"""Tools that installed packages bring: their entry points, one by one."""

import os
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path

import pytest

from codeagent.config.extensions import may_bring
from codeagent.extensions.user_tools.python import entry_point_tools
from codeagent.tools.folders import Loaded
from tests.extensions.user_tools.python_tools import threads_ended
from tests.fakes import FakeOutputs

MODULE = """
from codeagent import Tool, ToolArgs, ToolResult, register_tool

@register_tool
def first_tool(path: str) -> str:
    '''Tells the first of it all.

    Args:
        path: Where.
    '''
    return path

@register_tool(name="second_tool")
def another(n: int) -> int:
    '''Tells the second of it all.

    Args:
        n: How many.
    '''
    return n

def unmarked(): ...

@register_tool
def untyped(x):
    '''Tells nothing.'''

class Ready(Tool):
    name, label = "ready_made", "Ready"
    description = "Is a tool by itself already."
    Args = ToolArgs
    async def run(self, args, ctx):
        return ToolResult.from_text("x")

class Needy(Ready):
    def __init__(self, what): ...

instance = Ready()
number = 4
"""


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Path]:
    """A package on the path, with metadata."""
    (tmp_path / "many_tools.py").write_text(MODULE)
    (tmp_path / "good_tools.py").write_text(MODULE.partition("def unmarked")[0])
    (tmp_path / "broken_tools.py").write_text("raise RuntimeError('broken')")
    (tmp_path / "slow_tools.py").write_text("import time; time.sleep(0.5)")
    (tmp_path / "leaving_tools.py").write_text("import sys; print('bye'); sys.exit(3)")
    info = tmp_path / "many_tools-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: many-tools\nVersion: 1.2\n")
    sys.path.insert(0, str(tmp_path))
    yield tmp_path
    sys.path.remove(str(tmp_path))
    for name in ("many_tools", "good_tools", "broken_tools", "slow_tools", "leaving_tools"):
        sys.modules.pop(name, None)


def loaded(installed: Path, *values: str, import_seconds: float = 10) -> Loaded:
    distribution = Distribution.at(installed / "many_tools-1.2.dist-info")
    points = [
        EntryPoint(value.replace(":", "."), value, "codeagent.tools")._for(distribution)
        for value in values
    ]  # type: ignore[attr-defined]  # as importlib.metadata makes them
    return entry_point_tools(FakeOutputs(), points, import_seconds)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("many_tools:first_tool", ["first_tool"]),
        ("many_tools:Ready", ["ready_made"]),
        ("many_tools:instance", ["ready_made"]),
        ("good_tools", ["first_tool", "second_tool"]),
    ],
)
def test_an_entry_point_is_a_function_a_class_a_tool_or_a_module(
    installed: Path, value: str, names: list[str]
) -> None:
    found = loaded(installed, value)
    assert [tool.name for tool in found.tools] == names and found.problems == ()
    assert {(tool.source, tool.origin) for tool in found.tools} == {("python", "many-tools 1.2")}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("broken_tools", "broken_tools cannot be loaded: RuntimeError: broken"),
        (
            "nowhere_tools",
            "nowhere_tools cannot be loaded: ModuleNotFoundError: No module named 'nowhere_tools'",
        ),
        (
            "many_tools:gone",
            "many_tools:gone cannot be loaded: AttributeError: module 'many_tools' has no attribute",
        ),
        ("leaving_tools", "leaving_tools cannot be loaded: SystemExit: 3"),
        ("many_tools:Needy", "many_tools:Needy cannot be loaded: TypeError: "),
        (
            "many_tools:number",
            "many_tools:number is neither a Tool nor a function marked with @register_tool",
        ),
        (
            "many_tools:unmarked",
            "many_tools:unmarked is neither a Tool nor a function marked with @register_tool",
        ),
        ("many_tools:untyped", "untyped: parameter 'x' has no type hint, as in x: str"),
        ("json", "json holds no function that is marked with @register_tool"),
    ],
)
def test_one_that_fails_is_named_with_its_package_and_the_others_stay(
    installed: Path, value: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    found = loaded(installed, value, "good_tools")
    [problem] = found.problems
    assert str(problem).startswith(f"many-tools 1.2: {value.replace(':', '.')}: {said}")
    assert [tool.name for tool in found.tools] == ["first_tool", "second_tool"]
    assert capfd.readouterr() == ("", "")


def test_one_that_takes_too_long_is_a_problem(installed: Path) -> None:
    [problem] = loaded(installed, "slow_tools", import_seconds=0.05).problems
    assert problem.text == "slow_tools takes longer than 0.05 s to import; that cannot be stopped"
    threads_ended()


def test_a_name_that_a_package_brings_twice_is_a_problem(installed: Path) -> None:
    found = loaded(installed, "good_tools", "many_tools:first_tool")
    assert [problem.text for problem in found.problems] == [
        "there is another tool first_tool in this package"
    ]
    assert [tool.name for tool in found.tools] == ["first_tool", "second_tool"]


def test_without_packages_there_is_nothing() -> None:
    assert entry_point_tools(FakeOutputs(), []) == Loaded()


def test_only_a_place_where_a_package_may_have_tools_is_worth_a_closer_look(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    ours = tmp_path / "ours"
    zipped = tmp_path / "packages.zip"
    for site, text in (
        (plain, "[console_scripts]\nx = y:z\n"),
        (ours, "[codeagent.tools]\nx = y:z\n"),
    ):
        info = site / "some-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "entry_points.txt").write_text(text)
    zipped.write_bytes(b"")
    group = "codeagent.tools"
    assert not may_bring(group, [str(plain), str(tmp_path / "gone")])
    assert may_bring(group, [str(plain), str(ours)])
    assert may_bring(group, [str(zipped)])


def test_a_place_that_cannot_be_listed_brings_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", refuse)
        patch.setattr(os, "scandir", refuse)
        assert not may_bring("codeagent.tools", [str(tmp_path)])
