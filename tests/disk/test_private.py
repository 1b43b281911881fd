"""The program's own files are for their owner only, are replaced whole, and are changed by one process at a time."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.disk.private import locked, replace_private, write_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_file_and_missing_folders_are_for_their_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "file"
    replace_private(file, b"one")
    write_private(file.with_name("other"), b"two")
    assert (file.read_bytes(), file.with_name("other").read_bytes()) == (b"one", b"two")
    assert [mode(path) for path in (file, file.with_name("other"), file.parent, file.parent.parent)] == [
        0o600,
        0o600,
        0o700,
        0o700,
    ]


def test_a_replaced_file_is_another_one_so_a_reader_sees_it_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    replace_private(file, b"old")
    with file.open("rb") as reader:
        replace_private(file, b"new")
        assert reader.read() == b"old"
    assert file.read_bytes() == b"new"


def test_what_fails_keeps_the_old_content_and_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    replace_private(file, b"old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_private(file, b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"old"}


def test_a_link_at_the_path_is_replaced_and_not_followed(tmp_path: Path) -> None:
    outside, file = tmp_path / "outside", tmp_path / "file"
    outside.write_bytes(b"untouched")
    file.symlink_to(outside)
    with pytest.raises(OSError, match="symbolic link"):
        write_private(file, b"new")
    replace_private(file, b"new")
    assert outside.read_bytes() == b"untouched" and not file.is_symlink()


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codeagent.disk.private._PATIENCE", 0.0)
    lock = tmp_path / "lock"
    with locked(lock), pytest.raises(TimeoutError), locked(lock):
        raise AssertionError
    with locked(lock):
        pass
