"""The how-to about tools in Python is true: its examples load without a word and do what it
says."""

import os
import re
from pathlib import Path

import pytest

from codeagent.core.sandbox import CommandResult
from codeagent.core.tool import Tool
from codeagent.extensions.user_tools.decorator import ToolMark
from codeagent.sandbox.host import HostSandbox
from tests.extensions.user_tools.python_tools import Author
from tests.fakes import FakeSandbox

PAGE = (Path(__file__).parents[3] / "docs/how-to/python-tools.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def author(tmp_path: Path) -> Author:
    return Author(tmp_path)


def example(author: Author, name: str) -> Tool[object]:
    [source] = [text for text in EXAMPLES if f"def {name}(" in text]
    return author.tool(source)


@pytest.mark.parametrize("source", EXAMPLES)
def test_every_example_is_a_tool_that_nothing_can_be_said_against(
    author: Author, source: str
) -> None:
    loaded = author.load(source, place="user")
    assert len(loaded.tools) == 1 and loaded.problems == ()


async def test_words_are_counted(author: Author) -> None:
    result = await author.call(example(author, "count_words"), text="a bb ccc", shortest=2)
    assert result.content[0].text == "2"  # type: ignore[union-attr]  # text


async def test_tests_are_run_in_the_sandbox(author: Author) -> None:
    author.sandbox = sandbox = FakeSandbox([("stdout", b"3 passed\n")])
    result = await author.call(example(author, "run_tests"), module="a b")
    assert sandbox.commands[0].text == "python3 -m pytest -q 'tests/a b'"
    assert result.content[0].text == "3 passed"  # type: ignore[union-attr]  # text


async def test_tests_that_fail_are_returned_with_their_output(author: Author) -> None:
    author.sandbox = FakeSandbox([("stdout", b"1 failed: test_sum\n")], CommandResult(exit_code=1))
    result = await author.call(example(author, "run_tests"), module="a")
    assert "1 failed: test_sum" in result.content[0].text  # type: ignore[union-attr]  # text
    assert "exit code 1" in result.content[0].text  # type: ignore[union-attr]  # text


async def test_the_longest_line_is_shown_while_it_is_looked_for(
    author: Author, tmp_path: Path
) -> None:
    (tmp_path / "list.txt").write_text("bb\n" + "a\n" * 1000)
    result = await author.call(example(author, "longest_line"), path=str(tmp_path / "list.txt"))
    assert author.updates == [("output", "1: 2 characters\n"), ("progress", "1000 lines so far")]
    assert result.content[0].text == "bb"  # type: ignore[union-attr]  # text


async def test_lines_are_sorted_inside(author: Author, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("b\na\n")
    author.sandbox = HostSandbox(tmp_path, dict(os.environ), tmp_path / "state")
    result = await author.call(example(author, "sort_lines"), path="list.txt")
    assert (tmp_path / "list.txt").read_text() == "a\nb\n"
    assert result.content[0].text == "2 lines sorted"  # type: ignore[union-attr]  # text


async def test_the_table_of_the_decorator_is_whole() -> None:
    table = PAGE.partition("## What the decorator takes")[2]
    assert [name for name in ToolMark.__dataclass_fields__ if f"`{name}`" not in table] == []
