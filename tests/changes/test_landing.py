"""A set of changes lands all or none, only on what it is based on, and is undone the same way."""

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.changes import landing
from codeagent.changes.change_set import ChangeSet
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.errors import ContentChanged, PartlyChanged, WorkspaceError
from codeagent.disk import atomic
from codeagent.disk.confined import Location
from codeagent.workspace.files import LocalWorkspace
from tests.effort import times
from tests.landings import tree

Tree = dict[str, Node]
PATHS = ("a", "b.txt", "d", "d/one", "d/two", "d/e/three", "a/below")
_MODES = st.sampled_from([0o644, 0o600, 0o755, 0o744, 0o444])
_DATA = st.sampled_from([b"", b"old\n", b"one\ntwo\n", b"caf\xe9\n", b"\0binary", b"x" * 5000])


_FILES = st.builds(
    lambda data, mode: Node("executable" if mode & 0o100 else "file", data, mode), _DATA, _MODES
)
_LINKS = st.sampled_from([b"b.txt", b"nowhere", b"../out"]).map(lambda to: Node("link", to))
_TREES = st.dictionaries(st.sampled_from(PATHS), _FILES | _FILES | _LINKS, max_size=5).map(
    lambda wanted: {path: node for path, node in wanted.items() if not _has_below(path, wanted)}
)
CASES = st.tuples(_TREES, _TREES, st.randoms(use_true_random=False)).map(
    lambda case: (case[0], changes_between(*case))
)
"""What is there, and changes that make another tree of it."""


def _has_below(path: str, others: Iterable[str]) -> bool:
    return any(other.startswith(f"{path}/") for other in others)


def changes_between(before: Tree, after: Tree, chance: Random) -> ChangeSet:
    """Return the changes in any order; some files are renamed."""
    gone = [path for path, node in before.items() if path not in after and node.kind != "link"]
    changes = []
    for path, node in after.items():
        if path in before:
            changes += [Change(path, before[path], node)] if before[path] != node else []
        elif gone and node.kind != "link" and chance.random() < 0.5:
            source = gone.pop()
            changes.append(Change(path, before[source], node, source))
        else:
            changes.append(Change(path, None, node))
    moved = {change.source for change in changes}
    changes += [
        Change(path, node, None)
        for path, node in before.items()
        if path not in after and path not in moved
    ]
    chance.shuffle(changes)
    return ChangeSet(tuple(changes))


@contextmanager
def workspace_with(files: Tree) -> Iterator[LocalWorkspace]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "project")
        root.mkdir()
        for path, node in files.items():
            there = root / path
            there.parent.mkdir(parents=True, exist_ok=True)
            if node.kind == "link":
                there.symlink_to(os.fsdecode(node.data))
            else:
                there.write_bytes(node.data)
                there.chmod(node.mode or 0o644)
        workspace = LocalWorkspace(root)
        try:
            yield workspace
        finally:
            workspace.close()


def expected(files: Tree) -> dict[str, tuple[str, bytes]]:
    return {
        path: ("link" if node.kind == "link" else oct(node.mode or 0), node.data)
        for path, node in files.items()
    }


def applied(files: Tree, changes: ChangeSet) -> Tree:
    left = dict(files)
    for change in changes.changes:
        left.pop(change.paths[0], None)
    return left | {one.path: one.after for one in changes.changes if one.after is not None}


@settings(max_examples=times(40), deadline=None)
@given(case=CASES)
def test_a_landed_set_is_there_and_its_undo_gives_the_same_bytes_modes_and_links(
    case: tuple[Tree, ChangeSet],
) -> None:
    files, changes = case
    with workspace_with(files) as workspace:
        changes.land(workspace)
        assert tree(workspace.root) == expected(applied(files, changes))
        changes.undo(workspace)
        assert tree(workspace.root) == expected(files)


_STEPS = ("fill", "flush", "name", "remove", "move")


@settings(max_examples=times(40), deadline=None)
@given(case=CASES, step=st.sampled_from(_STEPS), at=st.integers(1, 4))
def test_if_a_write_fails_in_the_middle_nothing_has_changed(
    case: tuple[Tree, ChangeSet], step: str, at: int
) -> None:
    files, changes = case
    holder = atomic if step in ("remove", "move") else atomic.FileDraft
    real, calls = getattr(holder, step), 0

    def failing(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == at:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments, **options)

    with workspace_with(files) as workspace:
        try:
            with patch.object(holder, step, failing):
                changes.land(workspace)
        except WorkspaceError:
            assert tree(workspace.root) == expected(files)
        else:
            assert calls < at
            assert tree(workspace.root) == expected(applied(files, changes))


@settings(max_examples=times(40), deadline=None)
@given(case=CASES, data=st.data())
def test_a_change_whose_base_no_longer_fits_is_a_conflict_and_nothing_lands(
    case: tuple[Tree, ChangeSet], data: st.DataObject
) -> None:
    files, changes = case
    based = [change for change in changes.changes if change.before is not None]
    if not based:
        return
    path = data.draw(st.sampled_from(based)).paths[0]
    node = files[path]
    other = replace(node, data=node.data + b"theirs")
    if node.kind != "link" and data.draw(st.booleans()):
        other = replace(node, mode=0o640)
    theirs = files | {path: other}
    with workspace_with(theirs) as workspace:
        with pytest.raises(ContentChanged):
            changes.land(workspace)
        assert tree(workspace.root) == expected(theirs)


def test_a_file_that_came_up_is_a_conflict(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("theirs")
    new = ChangeSet((Change("a", None, Node("file", b"1")), Change("b", None, Node("file", b"2"))))
    with pytest.raises(ContentChanged, match="b exists already"):
        new.land(LocalWorkspace(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_folder_that_has_become_a_link_is_a_conflict(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "d").symlink_to("real")
    with pytest.raises(ContentChanged, match="behind the link d"):
        ChangeSet((Change("d/a", None, Node("file", b"1")),)).land(LocalWorkspace(tmp_path))
    with pytest.raises(ContentChanged, match="behind the link d"):
        ChangeSet((Change("d/new/a", None, Node("file", b"1")),)).land(LocalWorkspace(tmp_path))
    assert list((tmp_path / "real").iterdir()) == []


def test_many_files_are_flushed_together_before_the_first_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    name, everything = atomic.FileDraft.name, landing.sync_file_system
    monkeypatch.setattr(
        landing, "sync_file_system", lambda fd: (order.append("all"), everything(fd))
    )
    monkeypatch.setattr(
        atomic.FileDraft, "name", lambda *given: (order.append("name"), name(*given))
    )
    new = [Change(f"d{n % 50}/{n}", None, Node("file", b"%d" % n)) for n in range(300)]
    ChangeSet(tuple(new)).land(LocalWorkspace(tmp_path))
    assert order == ["all", *["name"] * 300, "all"]
    assert len(tree(tmp_path)) == 300


def test_what_cannot_be_put_back_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("a", "b", "c"):
        (tmp_path / path).write_text("old")
    name = atomic.FileDraft.name

    def full(self: atomic.FileDraft, location: Location) -> None:
        if location.path == "c":
            (tmp_path / "a").write_text("theirs")
            raise OSError(errno.EIO, "Input/output error")
        name(self, location)

    monkeypatch.setattr(atomic.FileDraft, "name", full)
    node = Node("file", b"old")
    changes = ChangeSet(tuple(Change(path, node, Node("file", b"new")) for path in "abc"))
    with pytest.raises(PartlyChanged, match="could not be put back as they were: a"):
        changes.land(LocalWorkspace(tmp_path))
    assert (tmp_path / "a").read_text() == "theirs"


def test_where_the_file_system_cannot_be_flushed_at_once_each_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(fd: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    flushed: list[int] = []
    fsync = os.fsync
    monkeypatch.setattr(landing, "sync_file_system", missing)
    monkeypatch.setattr(os, "fsync", lambda fd: (flushed.append(fd), fsync(fd)))
    new = [Change(str(n), None, Node("file", b"%d" % n)) for n in range(150)]
    ChangeSet(tuple(new)).land(LocalWorkspace(tmp_path))
    assert len(flushed) == 151, "every file and the folder"


def test_what_is_gone_is_named_as_it_was_before_it_would_be_renamed(tmp_path: Path) -> None:
    there = Node("file", b"x", 0o644)
    moved = ChangeSet((Change("new", there, there, "old/a"),))
    with pytest.raises(ContentChanged, match=r"^old/a is gone"):
        moved.land(LocalWorkspace(tmp_path))


@pytest.mark.parametrize("source", [None, "old"])
def test_a_file_that_could_only_be_linked_keeps_no_second_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | None
) -> None:
    def missing(*arguments: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(atomic, "rename_new", missing)
    there = Node("file", b"x", 0o644)
    (tmp_path / "old").write_bytes(b"x")
    moved = Change("new", there, there, "old")
    new = [Change(str(n), None, there) for n in range(150)]
    ChangeSet((moved,) if source else tuple(new)).land(LocalWorkspace(tmp_path))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == ({"new"} if source else {"old", *map(str, range(150))})
