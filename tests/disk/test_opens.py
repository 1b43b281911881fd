"""One name is opened itself: no link is followed, no pipe is waited for, nothing is replaced by
accident."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from codeagent.disk.opens import (
    create_file,
    open_appended,
    open_below,
    open_emptied,
    open_file,
    open_folder,
    open_regular,
    read_regular,
)

Opener = Callable[[Path], int]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inner" / "deep").mkdir(parents=True)
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder link").symlink_to("inner")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.mark.parametrize(
    "opener", [open_file, open_regular, create_file, open_emptied, open_appended]
)
def test_no_link_to_a_file_is_followed(folder: Path, opener: Opener) -> None:
    with pytest.raises(OSError):  # ELOOP or EEXIST, by what is asked for
        opener(folder / "link")
    assert (folder / "file").read_bytes() == b"text"


@pytest.mark.parametrize("listed", [True, False])
def test_no_link_to_a_folder_is_followed(folder: Path, listed: bool) -> None:
    with pytest.raises(NotADirectoryError):
        open_folder(folder / "folder link", listed=listed)


def test_a_pipe_is_refused_and_not_waited_for(folder: Path) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(folder / "pipe")


def test_a_link_is_followed_where_that_is_asked_for(folder: Path) -> None:
    assert read_regular(folder / "link", follow=True) == b"text"
    os.close(open_folder(folder / "folder link", follow=True))


@pytest.mark.parametrize(
    "parts", [("folder link", "deep"), ("inner", "..", "folder link"), ("inner", "missing")]
)
def test_the_way_down_goes_through_no_link(folder: Path, parts: tuple[str, ...]) -> None:
    top = open_folder(folder)
    try:
        with pytest.raises(OSError):  # ENOTDIR or ENOENT
            open_below(top, parts)
    finally:
        os.close(top)


def test_a_folder_that_may_not_be_listed_still_leads_on(folder: Path) -> None:
    (folder / "inner").chmod(0o100)
    top = open_folder(folder)
    try:
        deep = open_below(top, ("inner", "deep"))
        assert os.path.sameopenfile(deep, deep)
        os.close(deep)
    finally:
        os.close(top)
        (folder / "inner").chmod(0o700)


def test_a_file_is_read_up_to_the_bound(folder: Path) -> None:
    assert read_regular(folder / "file", most=2) == b"te"
    assert read_regular(folder / "file", largest=4) == b"text"
    with pytest.raises(OSError, match="larger than 3 bytes"):
        read_regular(folder / "file", largest=3)


def test_what_is_made_only_its_owner_may_read(folder: Path) -> None:
    for name, opener in (("a", create_file), ("b", open_emptied), ("c", open_appended)):
        os.close(opener(folder / name))
        assert (folder / name).stat().st_mode & 0o777 == 0o600


def test_a_new_file_never_replaces_another(folder: Path) -> None:
    with pytest.raises(FileExistsError):
        create_file(folder / "file")
