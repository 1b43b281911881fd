"""Texts are merged by git, beside the store's own contents, and nothing of that is left."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.core.errors import CheckpointError
from codeagent.workspace.snapshots.store import SnapshotStore


@pytest.fixture
def store(state: Path, root: Path) -> Iterator[SnapshotStore]:
    store = SnapshotStore(state, root)
    with store.locked(threading.Event()):
        yield store
    store.close()


BASE = b"a\nb\nc\nd\ne\n"
OURS = b"A\nb\nc\nd\ne\n"
THEIRS = b"a\nb\nc\nd\nE\n"


def test_changes_to_different_lines_are_merged_and_those_to_the_same_are_not(
    store: SnapshotStore,
) -> None:
    assert store.merged(BASE, OURS, THEIRS) == b"A\nb\nc\nd\nE\n"
    assert store.merged(BASE, OURS, b"x\nb\nc\nd\ne\n") is None
    assert not list(store.folder.glob("merge-*"))


def test_a_git_that_fails_is_not_taken_for_changes_to_the_same_lines(
    store: SnapshotStore, tmp_path: Path
) -> None:
    broken = tmp_path / "git"
    broken.write_text('#!/bin/sh\necho "fatal: out of memory" >&2\nexit 255\n')
    broken.chmod(0o700)
    store.program = str(broken)
    with pytest.raises(
        CheckpointError, match=r"git could not use the checkpoints in .*: fatal: out of memory"
    ):
        store.merged(BASE, OURS, THEIRS)
    assert not list(store.folder.glob("merge-*"))


def test_what_a_crash_left_of_a_merge_is_removed(state: Path, root: Path) -> None:
    store = SnapshotStore(state, root)
    store.ready()
    left = store.folder / "merge-0123"
    left.mkdir()
    (left / "ours").write_text("private")
    (store.folder / "writing").touch()
    with store.locked(threading.Event()):
        assert not left.exists()
    store.close()
