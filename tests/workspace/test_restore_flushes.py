"""A restore of many files flushes them together, before any has its name, and is still all or
nothing."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from codeagent.core.errors import CheckpointError
from codeagent.disk import atomic, opens
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.snapshots import nodes, restore

MANY = 200


async def damaged(root: Path, checkpoints: GitCheckpoints) -> tuple[str, str]:
    """Take a snapshot of many files, change one half of them and remove the other, and take
    another."""
    for number in range(MANY):
        (root / f"d{number % 40}").mkdir(exist_ok=True)
        (root / f"d{number % 40}" / f"{number}.txt").write_text(f"old {number}\n")
    before = await checkpoints.take()
    for number in range(MANY):
        file = root / f"d{number % 40}" / f"{number}.txt"
        file.unlink() if number % 2 else file.write_text("new\n")
    return before.id, (await checkpoints.take()).id


def contents(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()
    }


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a restore does to the disk, in order."""
    made: list[str] = []
    fsync, give_name, everything = os.fsync, atomic.give_name, nodes.sync_file_system
    monkeypatch.setattr(nodes.os, "fsync", lambda fd: (made.append("one"), fsync(fd)))
    monkeypatch.setattr(nodes, "sync_file_system", lambda fd: (made.append("all"), everything(fd)))
    monkeypatch.setattr(
        atomic, "give_name", lambda *a, **k: (made.append("name"), give_name(*a, **k))
    )
    return made


async def test_many_files_are_flushed_at_once_before_and_after_they_get_their_names(
    root: Path, checkpoints: GitCheckpoints, order: list[str]
) -> None:
    before, now = await damaged(root, checkpoints)
    order.clear()
    await checkpoints.restore(before, present=now)
    of_files = [one for one in order if one != "one"]
    assert of_files == ["all", *["name"] * MANY, "all"]
    assert order.count("one") < 10, "only the journal is flushed by itself"
    assert len(contents(root)) == MANY and "new\n" not in contents(root).values()


async def test_files_on_another_file_system_than_the_workspace_are_flushed_by_themselves(
    root: Path, checkpoints: GitCheckpoints, order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, now = await damaged(root, checkpoints)
    mounted = (root / "d7").stat().st_ino

    def device_of(fd: int) -> int:
        return 2 if os.fstat(fd).st_ino == mounted else 1

    monkeypatch.setattr(nodes, "_device_of", device_of)
    order.clear()
    await checkpoints.restore(before, present=now)
    of_files = order[order.index("all") :]
    assert of_files[: of_files.index("name")] == ["all", *["one"] * (MANY // 40)]


async def test_groups_are_flushed_one_after_the_other(
    root: Path, checkpoints: GitCheckpoints, order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "_GROUP", 100)
    before, now = await damaged(root, checkpoints)
    order.clear()
    await checkpoints.restore(before, present=now)
    assert [one for one in order if one != "one"] == [
        "all",
        *["name"] * 100,
        "all",
        *["name"] * 100,
        "all",
    ]


async def test_where_the_file_system_cannot_be_flushed_at_once_each_file_is(
    root: Path, checkpoints: GitCheckpoints, order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(fd: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(nodes, "sync_file_system", missing)
    before, now = await damaged(root, checkpoints)
    order.clear()
    await checkpoints.restore(before, present=now)
    assert order[: order.index("name")].count("one") >= MANY
    assert len(contents(root)) == MANY


@pytest.mark.parametrize(
    ("release", "types", "flushes"),
    [
        ("6.1.0-18-amd64", opens._REPORTING, True),
        ("5.8.0", opens._REPORTING, True),
        ("5.7.19", opens._REPORTING, False),
        ("4.19", opens._REPORTING, False),
        ("unknown", opens._REPORTING, False),
        ("6.1.0", frozenset(), False),
    ],
)
def test_everything_is_flushed_at_once_only_where_a_write_that_failed_is_reported(
    root: Path, monkeypatch: pytest.MonkeyPatch, release: str, types: frozenset[int], flushes: bool
) -> None:
    monkeypatch.setattr(opens.os, "uname", lambda: SimpleNamespace(release=release))
    monkeypatch.setattr(opens, "_type_of", lambda fd: 0xEF53)
    monkeypatch.setattr(opens, "_REPORTING", types)
    fd = opens.open_folder(root)
    try:
        if flushes:
            opens.sync_file_system(fd)
        else:
            with pytest.raises(OSError, match="not implemented"):
                opens.sync_file_system(fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize("fails", ["at the flush", "at a name"])
async def test_a_restore_of_many_files_that_fails_leaves_every_file_as_it_was(
    root: Path, checkpoints: GitCheckpoints, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    monkeypatch.setattr(restore, "_GROUP", 80)
    before, now = await damaged(root, checkpoints)
    was, calls, give_name = contents(root), 0, atomic.give_name

    def full(*arguments: object, **options: object) -> None:
        nonlocal calls
        calls += 1
        if fails == "at the flush" or calls == 130:
            raise OSError(28, "No space left on device")
        give_name(*arguments, **options)  # type: ignore[arg-type]  # as it was called

    if fails == "at the flush":
        monkeypatch.setattr(nodes, "sync_file_system", full)
    else:
        monkeypatch.setattr(atomic, "give_name", full)
    with pytest.raises(CheckpointError, match="nothing was changed"):
        await checkpoints.restore(before, present=now)
    assert contents(root) == was
    assert not any(".codeagent-" in path for path in contents(root))


async def test_restored_files_that_could_only_be_linked_leave_no_drafts(
    root: Path, checkpoints: GitCheckpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*arguments: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    before, now = await damaged(root, checkpoints)
    monkeypatch.setattr(atomic, "rename_new", missing)
    await checkpoints.restore(before, present=now)
    assert len(contents(root)) == MANY
