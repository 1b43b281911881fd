"""Going back brings back exactly what was there, refuses to lose anything, and says what it
changed."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from codeagent.core.checkpoints import FileChange, Node
from codeagent.core.errors import CheckpointError
from codeagent.workspace.checkpoints import GitCheckpoints
from tests.workspace.trees import empty, go_back, look


async def test_the_same_content_has_the_same_id_in_any_order_and_process(
    checkpoints: GitCheckpoints, state: Path, root: Path
) -> None:
    (root / "a").write_text("one")
    first = await checkpoints.take()
    (root / "a").write_text("two")
    second = await checkpoints.take()
    (root / "a").write_text("one")
    assert (await checkpoints.take()).id == first.id != second.id
    other = GitCheckpoints(state, root, environment={"HOME": str(state.parent)})
    assert (await other.take()).id == first.id
    other.close()


async def test_an_empty_folder_has_a_snapshot_too(checkpoints: GitCheckpoints, root: Path) -> None:
    empty = await checkpoints.take()
    assert (empty.files, empty.left_out) == (0, ())
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/c").write_text("x")
    assert await go_back(checkpoints, empty.id) == (FileChange("a/b/c", "deleted"),)
    assert look(root) == {} and not (root / "a").exists()


async def test_odd_names_links_modes_and_bytes_come_back_as_they_were(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    names = [
        b"-rf",
        b"new\nline",
        b'quote"back\\slash',
        b"\xff\xfe not utf-8",
        b"x" * 255,
        b" lead",
        b"trail ",
        b"tab\t",
    ]
    for number, name in enumerate(names):
        (root / os.fsdecode(name)).write_bytes(bytes([number, 0, 255, 13, 10]))
    (root / "empty").touch()
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "out").symlink_to("/etc/passwd")
    (root / "dangling").symlink_to(os.fsdecode(b"no\xffwhere\n"))
    before, snapshot = look(root), await checkpoints.take()
    assert snapshot.files == len(before)
    empty(root)
    changes = await checkpoints.changes(snapshot.id, None)
    assert [os.fsencode(change.path) for change in changes] == [
        os.fsencode(path) for path in sorted(os.fsdecode(path) for path in before)
    ]
    await go_back(checkpoints, snapshot.id)
    assert look(root) == before


async def test_changes_name_what_was_added_modified_and_deleted_in_order(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    for name in ("b", "c", "mode", "z/becomes"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(name)
    before = await checkpoints.take()
    (root / "b").write_text("changed")
    (root / "c").unlink()
    (root / "mode").chmod(0o755)
    shutil.rmtree(root / "z")
    (root / "z").symlink_to("a")
    (root / "a").write_text("new")
    expected = (
        FileChange("a", "added"),
        FileChange("b", "modified"),
        FileChange("c", "deleted"),
        FileChange("mode", "modified"),
        FileChange("z", "added"),
        FileChange("z/becomes", "deleted"),
    )
    assert await checkpoints.changes(before.id, None) == expected
    after = await checkpoints.take()
    assert await checkpoints.changes(before.id, after.id) == expected
    assert await go_back(checkpoints, after.id) == ()


async def test_a_node_is_read_from_a_snapshot_or_from_the_workspace(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    (root / "d").mkdir()
    (root / "d/run").write_text("one")
    (root / "d/run").chmod(0o700)
    (root / "link").symlink_to("d")
    snapshot = (await checkpoints.take()).id
    (root / "d/run").write_text("two")
    (root / "d/run").chmod(0o600)
    assert await checkpoints.node(snapshot, "d/run") == Node("executable", b"one")
    assert await checkpoints.node(None, "d/run") == Node("file", b"two")
    assert (
        await checkpoints.node(snapshot, "link")
        == await checkpoints.node(None, "link")
        == Node("link", b"d")
    )
    for path in ("d", "link/run", "none", "d/run/x", ".git/config"):
        assert await checkpoints.node(snapshot, path) is None
        assert await checkpoints.node(None, path) is None


async def test_a_file_type_may_become_any_other_and_back(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    def as_file() -> None:
        (root / "x").write_text("file")

    def as_folder() -> None:
        (root / "x/deep").mkdir(parents=True)
        (root / "x/deep/y").write_text("inside")

    def as_link() -> None:
        (root / "x").symlink_to("elsewhere")

    ids, looks = [], []
    for make in (as_file, as_folder, as_link):
        make()
        ids.append((await checkpoints.take()).id)
        looks.append(look(root))
        shutil.rmtree(root / "x") if (root / "x").is_dir() else (root / "x").unlink()
    for at in (0, 1, 0, 2, 1, 2, 0):
        await go_back(checkpoints, ids[at])
        assert look(root) == looks[at]


async def test_only_the_executable_bit_of_a_mode_is_brought_back(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    (root / "f").write_text("one")
    (root / "f").chmod(0o755)
    (root / "private").write_text("one")
    (root / "private").chmod(0o600)
    before = await checkpoints.take()
    (root / "f").chmod(0o640)
    (root / "private").write_text("two")
    await go_back(checkpoints, before.id)
    assert stat.S_IMODE((root / "f").stat().st_mode) == 0o750
    assert stat.S_IMODE((root / "private").stat().st_mode) == 0o600


async def test_a_hard_link_is_cut_and_never_written_through(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    (root / "f").write_text("one")
    before = await checkpoints.take()
    (root / "f").write_text("two")
    os.link(root / "f", root.parent / "store")
    await go_back(checkpoints, before.id)
    assert ((root / "f").read_text(), (root.parent / "store").read_text()) == ("one", "two")


async def test_a_change_is_seen_even_where_size_and_time_stamp_are_the_same(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    (root / "f").write_text("one")
    os.utime(root / "f", (1, 1))
    before = await checkpoints.take()
    for text in ("two", "six"):
        (root / "f").write_text(text)
        os.utime(root / "f", (1, 1))
        assert await checkpoints.changes(before.id, None) == (FileChange("f", "modified"),)
        assert await checkpoints.node((await checkpoints.take()).id, "f") == Node(
            "file", text.encode()
        )


async def test_only_the_paths_asked_for_are_brought_back(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    for name in ("a", "b", "d/x", "d/y"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("one")
    before = await checkpoints.take()
    for name in ("a", "b", "d/x", "d/y"):
        (root / name).write_text("two")
    after = await checkpoints.take()
    done = await checkpoints.restore(before.id, present=after.id, paths=["a", "d/x"])
    assert done == (FileChange("a", "modified"), FileChange("d/x", "modified"))
    assert [(root / name).read_text() for name in ("a", "b", "d/x", "d/y")] == [
        "one",
        "two",
        "one",
        "two",
    ]


async def test_a_file_that_needs_another_one_to_go_is_not_brought_back_alone(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    (root / "a").mkdir()
    (root / "a/x").write_text("one")
    before = await checkpoints.take()
    shutil.rmtree(root / "a")
    (root / "a").write_text("file")
    after = await checkpoints.take()
    with pytest.raises(
        CheckpointError, match="a/x cannot be restored while a is not a folder; nothing was changed"
    ):
        await checkpoints.restore(before.id, present=after.id, paths=["a/x"])
    assert (root / "a").read_text() == "file"


async def test_what_somebody_changed_since_the_snapshot_refuses_the_whole_and_changes_nothing(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    for name in ("a", "b", "c"):
        (root / name).write_text("one")
    before = await checkpoints.take()
    for name in ("a", "b", "c"):
        (root / name).write_text("two")
    after = await checkpoints.take()
    (root / "b").write_text("mine")
    with pytest.raises(
        CheckpointError, match=r"^b changed since the last snapshot; nothing was changed"
    ):
        await checkpoints.restore(before.id, present=after.id)
    assert [(root / name).read_text() for name in ("a", "b", "c")] == ["two", "mine", "two"]
    (root / "b").write_text("one")
    done = await checkpoints.restore(before.id, present=after.id)
    assert done == (FileChange("a", "modified"), FileChange("c", "modified"))


async def test_one_file_is_replaced_only_where_it_is_as_expected(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    (root / "f").write_text("one")
    await checkpoints.replace("f", Node("executable", b"two"), present=Node("file", b"one"))
    assert (root / "f").read_text() == "two" and os.access(root / "f", os.X_OK)
    with pytest.raises(CheckpointError, match=r"^f has changed since; nothing was changed"):
        await checkpoints.replace("f", Node("file", b"three"), present=Node("file", b"one"))
    assert (root / "f").read_text() == "two"
    await checkpoints.replace("d/new", Node("link", b"../f"), present=None)
    assert (root / "d/new").readlink() == Path("../f")
    await checkpoints.replace("d/new", None, present=Node("link", b"../f"))
    assert not (root / "d").exists()
    for path in (".git/config", "../out", "/etc/x", "a//b", ""):
        with pytest.raises(CheckpointError, match="nothing was changed"):
            await checkpoints.replace(path, Node("file", b"x"), present=None)


async def test_a_workspace_that_was_replaced_is_not_touched(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    (root / "f").write_text("one")
    before = await checkpoints.take()
    shutil.move(root, root.parent / "moved")
    shutil.copytree(root.parent / "moved", root)
    with pytest.raises(CheckpointError, match="was moved or replaced; nothing was changed"):
        await checkpoints.restore(before.id, present=before.id)


async def test_an_unknown_snapshot_is_said_to_be_gone(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    known = (await checkpoints.take()).id
    for unknown in ("0" * 64, "refs/last", "--batch", ""):
        with pytest.raises(
            CheckpointError, match="that snapshot no longer exists; nothing was changed"
        ):
            await checkpoints.restore(unknown, present=known)
