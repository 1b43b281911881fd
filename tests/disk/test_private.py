"""The program's own files are for their owner only, are replaced whole, and are changed by one
process at a time."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.disk.private import (
    LARGEST,
    UnsafeFile,
    read_owned,
    read_private,
    read_small,
    replace_private,
    write_private,
)


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
    assert [
        mode(path) for path in (file, file.with_name("other"), file.parent, file.parent.parent)
    ] == [0o600, 0o600, 0o700, 0o700]


def test_a_replaced_file_is_another_one_so_a_reader_sees_it_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    replace_private(file, b"old")
    with file.open("rb") as reader:
        replace_private(file, b"new")
        assert reader.read() == b"old"
    assert file.read_bytes() == b"new"


def test_what_fails_keeps_the_old_content_and_leaves_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_file_that_is_missing_is_nothing(tmp_path: Path) -> None:
    assert [read(tmp_path / "none") for read in (read_private, read_owned)] == [None, None]
    assert read_small(tmp_path / "none", 10) is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_may_touch_is_not_private(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "keys"
    file.write_bytes(b"x")
    file.chmod(mode)
    with pytest.raises(UnsafeFile, match="can be read by others: chmod 600"):
        read_private(file)


def test_a_file_that_others_may_change_is_not_owned(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes(b"x")
    file.chmod(0o644)
    assert read_owned(file) == b"x"
    tmp_path.chmod(0o777)
    with pytest.raises(UnsafeFile, match="can be changed by others"):
        read_owned(file)


def test_only_an_owned_file_may_be_a_link(tmp_path: Path) -> None:
    write_private(tmp_path / "real", b"x")
    (tmp_path / "link").symlink_to("real")
    assert read_owned(tmp_path / "link") == b"x"
    with pytest.raises(UnsafeFile, match="cannot be read"):
        read_private(tmp_path / "link")
    with pytest.raises(UnsafeFile, match="cannot be read"):
        read_small(tmp_path / "link", 10)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    write_private(tmp_path / "large", b"x" * (LARGEST + 1))
    with pytest.raises(UnsafeFile, match="more than"):
        read_private(tmp_path / "large")
