"""No file tool reads, lists, finds or changes anything outside, however the tree is swapped
under it."""

import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from codeagent.core.errors import WorkspaceError
from codeagent.core.tool import ToolError
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.builtin.edit import Edit
from codeagent.tools.builtin.list import List
from codeagent.tools.builtin.read import Read
from codeagent.tools.builtin.search import Search
from codeagent.tools.builtin.write import Write
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.registry import ToolRegistry
from codeagent.workspace.files import LocalWorkspace
from tests.effort import FACTOR, times
from tests.fakes import tool_context
from tests.security.race import CANARY, INSIDE, Arena, make_arena, naive_read, swapping

TRIES = times(200)
SECONDS = 3 * FACTOR
"""How long each tool is tried at least: a minute at the soak's usual factor."""
"""Calls of each tool, half of them without the kernel's help."""
Call = Callable[..., Awaitable[str]]


def report(line: str) -> None:
    """Seen with `pytest -s`."""
    sys.stdout.write(f"\n{line}\n")


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    return make_arena(tmp_path)


def caller(arena: Arena, *, kernel: bool) -> Call:
    """`await call("read", path=…)`: what the model would get, errors included."""
    workspace = LocalWorkspace(arena.root, kernel=kernel)
    seen = ReadTracker(workspace)
    tools = ToolRegistry(
        [
            Read(workspace, seen),
            Write(workspace, seen),
            Edit(workspace, seen),
            List(workspace),
            Search(workspace, seen),
        ]
    )

    async def call(name: str, **arguments: object) -> str:
        tool = tools.get(name)
        try:
            result = await tool.run(
                parse_arguments(tool, json.dumps(arguments)), tool_context(workspace)
            )
        except (ToolError, WorkspaceError) as error:
            return f"error: {error}"
        return json.dumps(asdict(result), ensure_ascii=False)

    return call


async def read_it(call: Call, turn: int) -> tuple[str, ...]:
    return (await call("read", path="d/f.txt"),)


async def list_it(call: Call, turn: int) -> tuple[str, ...]:
    return (await call("list", path="d"), await call("list", path="."))


async def search_it(call: Call, turn: int) -> tuple[str, ...]:
    return (
        await call(
            "search", pattern=f"{CANARY}|{INSIDE}", path=("d", ".", "d/f.txt")[turn % 3], context=1
        ),
    )


async def write_it(call: Call, turn: int) -> tuple[str, ...]:
    return (
        await call("write", path=f"d/new-{turn}.txt", content="x"),
        await call("read", path="d/f.txt"),
        await call("write", path="d/f.txt", content=f"{INSIDE}\n"),
        await call("write", path=f"d/deep/er-{turn}/f.txt", content="x"),
    )


async def edit_it(call: Call, turn: int) -> tuple[str, ...]:
    old, new = (INSIDE, f"{INSIDE}-b") if turn % 2 else (f"{INSIDE}-b", INSIDE)
    return (
        await call("read", path="d/f.txt"),
        await call("edit", path="d/f.txt", old_string=f"{old}\n", new_string=f"{new}\n"),
    )


@pytest.mark.soak(row="path race")
@pytest.mark.parametrize("attempt", [read_it, list_it, search_it, write_it, edit_it])
async def test_no_tool_escapes_while_a_directory_becomes_a_link(
    arena: Arena,
    attempt: Callable[[Call, int], Awaitable[tuple[str, ...]]],
    tried: Callable[[int], None],
) -> None:
    before = arena.outside_state()
    calls = [caller(arena, kernel=True), caller(arena, kernel=False)]
    tries, worked, until = 0, 0, time.monotonic() + SECONDS
    with swapping(arena.root):
        while tries < TRIES or not worked or time.monotonic() < until:
            for call in calls:
                for answer in await attempt(call, tries):
                    # A refusal names the link's target: that much is meant to be seen, its content
                    # is not.
                    assert CANARY not in answer
                    tries += 1
                    worked += not answer.startswith("error")
    tried(tries)
    report(f"{attempt.__name__}: {tries} tries, {worked} worked, 0 escapes")
    assert arena.outside_state() == before


def test_the_race_is_real_because_checking_first_loses_it(arena: Arena) -> None:
    leaks = tries = 0
    with swapping(arena.root):
        while leaks == 0 or tries < TRIES:
            tries += 1
            try:
                leaks += CANARY in (naive_read(arena.root, "d/f.txt") or "")
            except OSError:
                continue
    report(f"control: {tries} tries, {leaks} leaks")
