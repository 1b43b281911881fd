"""What was read is remembered by content, bounded, and survives a resume."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from codeagent.core.tool import Failed
from codeagent.tools.edit.reads import (
    LARGEST_FILE,
    ReadTracker,
    after_change,
    content,
    joined,
    printed_lines,
)
from codeagent.workspace.files import LocalWorkspace
from tests.fakes import put
from tests.table import for_each


@pytest.fixture
def workspace(tmp_path: Path) -> LocalWorkspace:
    root = tmp_path / "project"
    put(root, "a.txt", "one\n")
    return LocalWorkspace(root)


@for_each("size", [0, 1, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, LARGEST_FILE, LARGEST_FILE + 1])
def test_a_file_is_read_whole_unless_it_is_too_large(tmp_path: Path, size: int) -> None:
    (tmp_path / "file").write_bytes(b"x" * size)
    with (tmp_path / "file").open("rb") as file:
        assert content(file) == (None if size > LARGEST_FILE else b"x" * size)


def restored(workspace: LocalWorkspace, *details: object) -> ReadTracker:
    seen = ReadTracker(workspace)
    for one in details:
        seen.restore(json.loads(json.dumps(one)))
    return seen


def test_a_resumed_session_knows_what_it_had_read(workspace: LocalWorkspace) -> None:
    seen = ReadTracker(workspace)
    first = seen.read("a.txt", b"1\n2\n3\n4\n", [(1, 2)], 4)
    second = seen.read("a.txt", b"1\n2\n3\n4\n", [(4, 4)], 4)
    known = restored(workspace, first, second).check("a.txt", b"1\n2\n3\n4\n")
    assert known.lines == ((1, 2), (4, 4))
    assert known.covers(1, 2)
    assert not known.covers(2, 3)
    with pytest.raises(Failed, match="changed since"):
        restored(workspace, first).check("a.txt", b"other")


def test_a_resumed_session_knows_what_commands_and_searches_showed(
    workspace: LocalWorkspace,
) -> None:
    put(workspace.root, "b.txt", "two\nthree\n")
    details = ReadTracker(workspace).printed("cat a.txt; head -1 b.txt", "one\ntwo")
    seen = restored(workspace, details)
    assert seen.check("a.txt", b"one\n").whole
    assert seen.check("b.txt", b"two\nthree\n").lines == ((1, 1),)


def test_a_resumed_session_knows_the_change_a_refusal_showed(workspace: LocalWorkspace) -> None:
    seen = ReadTracker(workspace)
    details = seen.read("a.txt", b"one\n", [(1, 1)], 1)
    with pytest.raises(Failed) as caught:
        seen.check("a.txt", b"two\n")
    assert restored(workspace, details, caught.value.details).check("a.txt", b"two\n").whole


def test_pages_that_together_are_the_file_make_it_known_as_a_whole(
    workspace: LocalWorkspace,
) -> None:
    seen = ReadTracker(workspace)
    for lines in ((3, 4), (1, 2)):
        seen.read("a.txt", b"1\n2\n3\n4\n", [lines], 4)
    assert seen.check("a.txt", b"1\n2\n3\n4\n").whole


def test_a_change_too_long_to_show_must_be_read_first(workspace: LocalWorkspace) -> None:
    seen = ReadTracker(workspace)
    seen.read("a.txt", b"one\n", [(1, 1)], 1)
    for _ in range(2):
        with pytest.raises(Failed, match="Read it again first"):
            seen.check("a.txt", b"two\n" * 10_000)


def test_details_of_other_tools_are_passed_over(workspace: LocalWorkspace) -> None:
    seen = restored(
        workspace,
        {},
        {"path": "a.txt"},
        {"path": 1, "sha256": 2, "seen": 3, "whole": 4},
        {"shown_files": [1]},
    )
    with pytest.raises(Failed, match="not read"):
        seen.check("a.txt", b"one\n")


def test_copies_are_bounded_and_without_one_the_error_is_plain(workspace: LocalWorkspace) -> None:
    seen = ReadTracker(workspace, kept_bytes=1000)
    for number in range(20):
        seen.read(f"{number}.txt", b"x" * 100, [(1, 1)], 1)
    with pytest.raises(Failed) as caught:
        seen.check("0.txt", b"y")
    assert "What changed" not in str(caught.value)
    with pytest.raises(Failed, match="What changed"):
        seen.check("19.txt", b"y")


def test_reads_in_several_threads_are_all_remembered_and_stay_bounded(
    workspace: LocalWorkspace, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(partial(sys.setswitchinterval, sys.getswitchinterval()))
    sys.setswitchinterval(1e-6)
    seen = ReadTracker(workspace, kept_bytes=2000)

    def read(thread: int) -> None:
        for line in range(250):
            seen.read("a.txt", b"1" * 200, [(4 * line + thread, 4 * line + thread)], 1000)
            seen.read("b.txt", b"%d" % thread * (200 + thread), [(1, 1)], 2)

    with ThreadPoolExecutor() as threads:
        list(threads.map(read, range(1, 5)))
    assert seen.check("a.txt", b"1" * 200).whole
    with pytest.raises(Failed, match="What changed"):
        seen.check("b.txt", b"y")


_RUNS = st.lists(
    st.tuples(st.integers(1, 60), st.integers(0, 10)).map(lambda pair: (pair[0], sum(pair))),
    max_size=6,
)


@given(_RUNS)
def test_joined_runs_hold_the_same_lines_in_order_and_apart(runs: list[tuple[int, int]]) -> None:
    out = joined(runs)
    assert {n for first, last in out for n in range(first, last + 1)} == {
        n for first, last in runs for n in range(first, last + 1)
    }
    assert all(before[1] + 1 < after[0] for before, after in pairwise(out))


@given(_RUNS, st.integers(1, 60), st.integers(0, 5), st.integers(0, 8))
def test_runs_move_with_the_lines_they_name(
    runs: list[tuple[int, int]], first: int, length: int, count: int
) -> None:
    last = first + length
    lines = [(f"line {n}", any(a <= n <= b for a, b in runs)) for n in range(1, 101)]
    changed = [*lines[: first - 1], *[("new", True)] * count, *lines[last:]]
    expected = {number for number, (_, known) in enumerate(changed, start=1) if known}
    out = after_change(joined(runs), first, last, count)
    assert {n for a, b in out for n in range(a, b + 1)} == expected


_LINES = st.lists(st.sampled_from(["a", "b", "", "    c", "1\ta"]), min_size=1, max_size=12)


@given(_LINES, _LINES)
def test_only_lines_that_stand_in_the_output_count_as_printed(
    lines: list[str], output: list[str]
) -> None:
    known = {n for first, last in printed_lines("f", lines, output) for n in range(first, last + 1)}
    assert {lines[n - 1] for n in known} <= {*output} | {line.partition("\t")[2] for line in output}


@given(
    st.lists(st.text("ab ", min_size=1, max_size=4), min_size=1, max_size=12, unique=True),
    st.data(),
)
def test_a_run_of_lines_in_the_output_is_known(lines: list[str], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first, len(lines) - 1))
    assume("".join(lines[first : last + 1]).strip())
    assert printed_lines("f", lines, ["==> f <==", *lines[first : last + 1], ""]) == [
        (first + 1, last + 1)
    ]


def test_a_command_that_printed_nothing_reads_no_file(
    workspace: LocalWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have made one of millions of lines: see `tests/security/test_floods.py`."""
    put(workspace.root, "numbers", "1\n2\n")
    tracker = ReadTracker(workspace)
    assert tracker.printed("cat numbers", "1\n2\n") != {}, "the control"
    monkeypatch.setattr(ReadTracker, "_content", lambda *_: pytest.fail("it was read"))
    assert tracker.printed("seq 2 > numbers", "\n") == {}


def test_what_left_the_conversation_does_not_count_as_read_until_it_is_read_again(
    workspace: LocalWorkspace,
) -> None:
    seen = ReadTracker(workspace)
    gone = seen.read("a.txt", b"1\n2\n", [(1, 2)], 2)
    left = seen.read("b.txt", b"3\n", [(1, 1)], 1)
    seen.keep_only([left])
    assert seen.check("b.txt", b"3\n").whole
    with pytest.raises(Failed, match="not in your context: the conversation was compacted"):
        seen.check("a.txt", b"1\n2\n")
    seen.restore(gone)
    assert seen.check("a.txt", b"1\n2\n").whole


def test_a_part_that_left_the_conversation_is_forgotten_and_the_rest_is_not(
    workspace: LocalWorkspace,
) -> None:
    seen = ReadTracker(workspace)
    data = b"1\n2\n3\n4\n"
    seen.read("a.txt", data, [(1, 2)], 4)
    left = ReadTracker(workspace).read("a.txt", data, [(3, 4)], 4)
    seen.keep_only([left])
    known = seen.check("a.txt", data)
    assert known.lines == ((3, 4),) and not known.covers(1, 2)


def test_the_latest_calls_are_named_whose_page_holds_the_lines_of_the_content_that_was_seen_last(
    workspace: LocalWorkspace,
) -> None:
    seen, data = ReadTracker(workspace), b"1\n2\n3\n"
    for call, page in (("whole", (1, 3)), ("head", (1, 2)), ("tail", (3, 3))):
        seen.read("a.txt", data, [page], 3, (call, page))
    assert seen.shown_by("a.txt", data, (1, 2)) == ("head", "whole")
    assert seen.shown_by("a.txt", data, (2, 3)) == ("whole",)
    assert seen.shown_by("a.txt", b"other\n", (1, 1)) == seen.shown_by("b.txt", data, (1, 1)) == ()
    for number in range(50):
        seen.read("a.txt", data, [(1, 1)], 3, (f"r{number}", (1, 1)))
    assert seen.shown_by("a.txt", data, (1, 1)) == tuple(
        f"r{number}" for number in range(49, 29, -1)
    )
    seen.wrote("a.txt", b"new\n", (), whole=True)
    assert seen.shown_by("a.txt", data, (1, 1)) == ()
