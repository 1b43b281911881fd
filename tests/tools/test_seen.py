"""F18: what was read is remembered by content, bounded, and survives a resume."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.tool import Failed
from codeagent.tools.seen import SeenFiles, after_change, joined
from codeagent.workspace.files import LocalWorkspace
from tests.fakes import put


@pytest.fixture
def workspace(tmp_path: Path) -> LocalWorkspace:
    root = tmp_path / "project"
    put(root, "a.txt", "one\n")
    return LocalWorkspace(root)


def restored(workspace: LocalWorkspace, *details: object) -> SeenFiles:
    seen = SeenFiles(workspace)
    for one in details:
        seen.restore(json.loads(json.dumps(one)))
    return seen


def test_a_resumed_session_knows_what_it_had_read(workspace: LocalWorkspace) -> None:
    seen = SeenFiles(workspace)
    first = seen.read("a.txt", b"1\n2\n3\n4\n", (1, 2), whole=False)
    second = seen.read("a.txt", b"1\n2\n3\n4\n", (4, 4), whole=False)
    known = restored(workspace, first, second).check("a.txt", b"1\n2\n3\n4\n")
    assert known.lines == ((1, 2), (4, 4))
    assert known.covers(1, 2)
    assert not known.covers(2, 3)
    with pytest.raises(Failed, match="changed since"):
        restored(workspace, first).check("a.txt", b"other")


def test_a_resumed_session_knows_what_its_commands_changed(workspace: LocalWorkspace) -> None:
    seen = SeenFiles(workspace)
    details = seen.read("a.txt", b"one\n", (1, 1), whole=True)
    fresh = seen.before_command()
    put(workspace.root, "a.txt", "two\n")
    changed = seen.after_command(fresh)
    assert restored(workspace, details, changed).check("a.txt", b"two\n").whole


def test_details_of_other_tools_are_passed_over(workspace: LocalWorkspace) -> None:
    seen = restored(workspace, {}, {"path": "a.txt"}, {"path": 1, "sha256": 2, "seen": 3, "whole": 4}, {"rehashed": 1})
    with pytest.raises(Failed, match="not read"):
        seen.check("a.txt", b"one\n")


def test_a_file_a_command_removed_or_a_person_changed_stays_as_it_was_known(workspace: LocalWorkspace) -> None:
    seen = SeenFiles(workspace)
    seen.read("a.txt", b"one\n", (1, 1), whole=True)
    fresh = seen.before_command()
    (workspace.root / "a.txt").unlink()
    assert seen.after_command(fresh) == {}
    put(workspace.root, "a.txt", "two\n")
    fresh = seen.before_command()
    put(workspace.root, "a.txt", "three\n")
    seen.after_command(fresh)
    with pytest.raises(Failed, match="changed since"):
        seen.check("a.txt", b"three\n")


def test_commands_that_overlap_each_take_only_what_was_known_at_their_start(workspace: LocalWorkspace) -> None:
    seen = SeenFiles(workspace)
    put(workspace.root, "a.txt", "one\n")
    seen.read("a.txt", b"one\n", (1, 1), whole=True)
    long = seen.before_command()
    put(workspace.root, "a.txt", "a person's\n")
    short = seen.before_command()
    assert (long, short) == ({"a.txt"}, frozenset())
    assert seen.after_command(short) == {}
    with pytest.raises(Failed, match="changed since"):
        seen.check("a.txt", b"a person's\n")


def test_copies_are_bounded_and_without_one_the_error_is_plain(workspace: LocalWorkspace) -> None:
    seen = SeenFiles(workspace, kept_bytes=1000)
    for number in range(20):
        seen.read(f"{number}.txt", b"x" * 100, (1, 1), whole=True)
    with pytest.raises(Failed) as caught:
        seen.check("0.txt", b"y")
    assert "What changed" not in str(caught.value)
    with pytest.raises(Failed, match="What changed"):
        seen.check("19.txt", b"y")


_RUNS = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 10)).map(lambda pair: (pair[0], sum(pair))), max_size=6)


@given(_RUNS)
def test_joined_runs_hold_the_same_lines_in_order_and_apart(runs: list[tuple[int, int]]) -> None:
    out = joined(runs)
    assert {n for first, last in out for n in range(first, last + 1)} == {
        n for first, last in runs for n in range(first, last + 1)
    }
    assert all(before[1] + 1 < after[0] for before, after in pairwise(out))


@given(_RUNS, st.integers(1, 60), st.integers(0, 5), st.integers(0, 8))
def test_runs_move_with_the_lines_they_name(runs: list[tuple[int, int]], first: int, length: int, count: int) -> None:
    last = first + length
    lines = [(f"line {n}", any(a <= n <= b for a, b in runs)) for n in range(1, 101)]
    changed = [*lines[: first - 1], *[("new", True)] * count, *lines[last:]]
    expected = {number for number, (_, known) in enumerate(changed, start=1) if known}
    out = after_change(joined(runs), first, last, count)
    assert {n for a, b in out for n in range(a, b + 1)} == expected
