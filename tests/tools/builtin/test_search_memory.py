"""The search_memory tool: its hits as lines, and how far it looked."""

import json
import time
from pathlib import Path

import pytest

from codeagent.core.memory import Found, Hit
from codeagent.core.messages import text_of
from codeagent.core.tool import InvalidArgs
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.builtin.search_memory import SearchMemory
from codeagent.workspace.files import LocalWorkspace
from tests.fakes import tool_context


class Recall:
    """A Memory that finds what it was given."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.asked: list[tuple[tuple[str, ...], int]] = []

    def search(self, words: tuple[str, ...], limit: int) -> Found:
        self.asked.append((words, limit))
        return self.found


async def ask(recall: Recall, folder: Path, **arguments: object) -> str:
    tool = SearchMemory(recall)
    args = parse_arguments(tool, json.dumps(arguments))
    workspace = LocalWorkspace(folder)
    try:
        return text_of((await tool.run(args, tool_context(workspace))).content)
    finally:
        workspace.close()


async def test_each_hit_is_a_line_with_session_time_and_who_said_it(tmp_path: Path) -> None:
    at = time.mktime((2026, 3, 4, 5, 6, 0, 0, 0, -1))
    hits = (
        Hit("20260304-050600-0000000a", at, "command", "pytest -q"),
        Hit("20260303-000000-0000000b", at, "prompt", "fix it"),
    )
    recall = Recall(Found(hits, 2, True))
    assert await ask(recall, tmp_path, query=" fix  it ", limit=5) == (
        "20260304-050600-0000000a  2026-03-04 05:06  ran: pytest -q\n"
        "20260303-000000-0000000b  2026-03-04 05:06  user: fix it\n"
        "[2 earlier sessions of this workspace looked through.]"
    )
    assert recall.asked == [(("fix", "it"), 5)]


async def test_nothing_found_says_how_far_it_looked(tmp_path: Path) -> None:
    assert await ask(Recall(Found((), 1, False)), tmp_path, query="x") == (
        "[Nothing found. 1 earlier session of this workspace looked through; older ones were not.]"
    )


async def test_an_empty_query_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgs, match="query is empty"):
        await ask(Recall(Found((), 0, True)), tmp_path, query="  ")
