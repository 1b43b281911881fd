"""The record of who changed what: one order for all sessions, and no change that nobody answers
for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.core.errors import CheckpointError, WorkspaceError
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.files import LocalWorkspace
from codeagent.workspace.snapshots.moments import MomentsFile
from tests.landings import write
from tests.workspace.trees import texts


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[MomentsFile, MomentsFile]]:
    one, two = MomentsFile(tmp_path / "moments", "one"), MomentsFile(tmp_path / "moments", "two")
    yield one, two
    one.close()
    two.close()


def add(
    record: MomentsFile,
    snapshot: str,
    *,
    commands: bool = False,
    living: tuple[str, ...] = ("one", "two"),
) -> str:
    return record.add(record.begin(), snapshot, commands=commands, living=living)


def test_the_moments_of_all_sessions_have_one_order(pair: tuple[MomentsFile, MomentsFile]) -> None:
    one, two = pair
    add(two, "s0", commands=True)
    since = add(one, "s1")
    add(two, "s2")
    found = one.since(since)
    assert [(moment.session, moment.snapshot) for moment in found.moments] == [
        ("one", "s1"),
        ("two", "s2"),
    ]
    assert [(moment.session, moment.commands) for moment in found.known] == [("two", True)]


def test_a_session_that_died_while_a_command_ran_changes_nothing_any_longer(
    pair: tuple[MomentsFile, MomentsFile],
) -> None:
    one, two = pair
    since = add(two, "s0", commands=True)
    add(one, "s1", living=("one",))
    found = one.since(since)
    assert [(moment.session, moment.commands) for moment in found.moments] == [
        ("two", True),
        ("two", False),
        ("one", False),
    ]


@pytest.mark.parametrize("landed", ["before", "during", "after", "never"])
def test_what_may_not_be_in_the_snapshot_of_a_moment_counts_as_done_since(
    pair: tuple[MomentsFile, MomentsFile], landed: str
) -> None:
    one, two = pair
    entries = two.intend([("a", "", "x")])
    if landed == "before":
        two.landed(entries)
    begun = one.begin()
    if landed == "during":
        two.landed(entries)
    since = one.add(begun, "s1", commands=False, living=("one", "two"))
    if landed == "after":
        two.landed(entries)
    assert bool(one.since(since).landings) is (landed != "before")


def test_what_was_not_changed_after_all_is_forgotten(pair: tuple[MomentsFile, MomentsFile]) -> None:
    one, two = pair
    since = add(one, "s1")
    two.withdraw(two.intend([("a", "", "x")]))
    assert one.since(since).landings == ()


def test_pruning_keeps_everything_since_the_first_moment_of_a_living_session(
    pair: tuple[MomentsFile, MomentsFile],
) -> None:
    one, two = pair
    gone, since = add(two, "s0"), add(one, "s1")
    kept = add(two, "s2")
    one.prune(-1, ["one"])
    assert [moment.name for moment in one.since(since).moments] == [since, kept]
    with pytest.raises(CheckpointError, match="the record of who changed what since then is gone"):
        one.since(gone)


async def test_a_file_is_written_only_if_that_can_be_recorded(
    checkpoints: GitCheckpoints, root: Path, state: Path
) -> None:
    workspace = LocalWorkspace(root)
    workspace.recorder = checkpoints.landing
    write(workspace, "before.txt", b"no snapshots are kept yet", base=None)
    await checkpoints.take(commands=False)
    write(workspace, "a.txt", b"one", base=None)
    checkpoints.close()
    block_the_record(state)
    with pytest.raises(WorkspaceError, match="cannot be used"):
        write(workspace, "b.txt", b"two", base=None)
    assert texts(root) == {"one", "no snapshots are kept yet"}
    workspace.close()


async def test_a_write_that_fails_says_why_even_if_that_cannot_be_recorded(
    checkpoints: GitCheckpoints, root: Path, state: Path
) -> None:
    await checkpoints.take(commands=False)

    def fail() -> None:
        with checkpoints.landing(("a.txt", "", "x")):
            checkpoints.close()
            block_the_record(state)
            raise WorkspaceError("a.txt exists already")

    with pytest.raises(WorkspaceError, match=r"a\.txt exists already"):
        fail()


async def test_a_restore_that_cannot_be_recorded_changes_nothing_and_is_not_taken_for_a_crash(
    state: Path, root: Path
) -> None:
    mine, other = GitCheckpoints(state, root), GitCheckpoints(state, root)
    (root / "a.txt").write_text("one")
    await other.take(commands=False)
    before = await mine.take(commands=False)
    (root / "a.txt").write_text("two")
    present = await mine.take(commands=False)
    mine._moments.close()
    other.close()
    block_the_record(state)
    with pytest.raises(CheckpointError, match="cannot be used"):
        await mine.restore(before.id, present=present.id)
    assert texts(root) == {"two"}
    assert (await mine.take()).files == 1
    mine.close()


def block_the_record(state: Path) -> None:
    (file,) = state.glob("checkpoints/*/moments.sqlite")
    for path in file.parent.glob("moments.sqlite*"):
        path.unlink()
    file.mkdir()
