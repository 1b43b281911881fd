"""Writes are whole or not at all, and keep what belonged to the file."""

import errno
import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from codeagent.core.errors import (
    ContentChanged,
    MissingPath,
    NotAFile,
    OutsideWorkspace,
    ProtectedPath,
    WorkspaceError,
)
from codeagent.disk.locks import try_lock
from codeagent.workspace.files import LocalWorkspace
from tests.effort import up_to
from tests.fakes import put
from tests.landings import move, remove, write


@pytest.fixture(params=[True, False], ids=["openat2", "walk"])
def workspace(tmp_path: Path, request: pytest.FixtureRequest) -> LocalWorkspace:
    root = tmp_path / "project"
    root.mkdir()
    return LocalWorkspace(root, kernel=request.param)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_kernel_s_own_confinement_is_found_where_there_is_one(tmp_path: Path) -> None:
    assert LocalWorkspace(tmp_path)._beneath.kernel == (os.uname().release >= "5.6")


def test_a_new_file_comes_with_its_directories_and_the_usual_mode(
    workspace: LocalWorkspace,
) -> None:
    old_mask = os.umask(0o022)
    try:
        write(workspace, "a/b/c.txt", b"new", base=None)
    finally:
        os.umask(old_mask)
    written = workspace.root / "a/b/c.txt"
    assert written.read_bytes() == b"new"
    assert stat.S_IMODE(written.stat().st_mode) == 0o644
    assert names(written.parent) == ["c.txt"]


def test_a_new_file_belongs_to_the_owner_of_the_workspace(workspace: LocalWorkspace) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    os.chown(workspace.root, 1234, 1235)
    workspace = LocalWorkspace(workspace.root)
    write(workspace, "a/b.txt", b"new", base=None)
    for path in (workspace.root / "a", workspace.root / "a/b.txt"):
        assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o644, 0o660])
def test_mode_owner_and_attributes_stay(workspace: LocalWorkspace, mode: int) -> None:
    path = put(workspace.root, "f.sh", b"old")
    path.chmod(mode)
    attributes = {"user.note": b"kept"}
    try:
        os.setxattr(path, "user.note", b"kept")
    except OSError as error:
        assert error.errno == errno.ENOTSUP
        attributes = {}
    if os.geteuid() == 0:
        os.chown(path, 1234, 1235)
    before = path.stat()
    write(workspace, "f.sh", b"new", base=b"old")
    after = path.stat()
    assert path.read_bytes() == b"new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert {
        name: os.getxattr(path, name) for name in os.listxattr(path) if name.startswith("user.")
    } == attributes


def test_set_id_bits_do_not_survive_a_write(workspace: LocalWorkspace) -> None:
    path = put(workspace.root, "tool", b"old")
    path.chmod(0o6755)
    write(workspace, "tool", b"new", base=b"old")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_a_hard_link_elsewhere_keeps_the_old_content(workspace: LocalWorkspace) -> None:
    path = put(workspace.root, "a.txt", b"old")
    os.link(path, workspace.root.parent / "store.txt")
    write(workspace, "a.txt", b"new", base=b"old")
    assert (workspace.root.parent / "store.txt").read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_a_link_stays_and_its_target_is_written(workspace: LocalWorkspace) -> None:
    put(workspace.root, "real/a.txt", b"old")
    (workspace.root / "a").symlink_to("real/a.txt")
    write(workspace, "a", b"new", base=b"old")
    assert (workspace.root / "a").is_symlink()
    assert (workspace.root / "real/a.txt").read_bytes() == b"new"


def test_a_dangling_link_inside_is_written_through(workspace: LocalWorkspace) -> None:
    (workspace.root / "a").symlink_to("new.txt")
    write(workspace, "a", b"new", base=None)
    assert (workspace.root / "new.txt").read_bytes() == b"new"


@pytest.mark.parametrize("base", [None, b"other"])
def test_content_that_is_not_what_it_was_is_kept(
    workspace: LocalWorkspace, base: bytes | None
) -> None:
    put(workspace.root, "a.txt", b"theirs")
    with pytest.raises(ContentChanged):
        write(workspace, "a.txt", b"new", base=base)
    assert (workspace.root / "a.txt").read_bytes() == b"theirs"
    assert names(workspace.root) == ["a.txt"]


def test_a_file_that_is_gone_is_not_made_again(workspace: LocalWorkspace) -> None:
    with pytest.raises(ContentChanged, match="gone"):
        write(workspace, "a.txt", b"new", base=b"old")
    assert names(workspace.root) == []


def test_a_change_during_the_write_is_seen_before_the_rename(
    workspace: LocalWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(workspace.root, "a.txt", b"old")
    real_fsync = os.fsync

    def fsync_and_meddle(fd: int) -> None:
        path.write_bytes(b"theirs")
        real_fsync(fd)

    monkeypatch.setattr(os, "fsync", fsync_and_meddle)
    with pytest.raises(ContentChanged):
        write(workspace, "a.txt", b"new", base=b"old")
    assert path.read_bytes() == b"theirs"
    assert names(workspace.root) == ["a.txt"]


def test_a_file_that_comes_up_during_the_write_is_not_replaced(
    workspace: LocalWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_link = os.link

    def link_too_late(*args: object, **options: object) -> None:
        put(workspace.root, "a.txt", b"theirs")
        real_link(*args, **options)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(os, "link", link_too_late)
    with pytest.raises(ContentChanged):
        write(workspace, "a.txt", b"new", base=None)
    assert (workspace.root / "a.txt").read_bytes() == b"theirs"
    assert names(workspace.root) == ["a.txt"]


CALLS = ("open", "write", "fchmod", "fsync", "rename", "listxattr")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failing_system_call_leaves_the_old_content_and_nothing_else(
    workspace: LocalWorkspace, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    """Every occurrence of the call in turn fails: R16."""
    real = getattr(os, call)
    for failing in range(1, 12):
        put(workspace.root, "a.txt", b"old" * 1000)
        seen = 0

        def fail(*args: object, **options: object) -> object:
            nonlocal seen
            seen += 1
            if seen == failing:  # noqa: B023  # called within this turn of the loop
                raise OSError(code, os.strerror(code))
            return real(*args, **options)

        with monkeypatch.context() as patched:
            patched.setattr(os, call, fail)
            try:
                write(workspace, "a.txt", b"new" * 1000, base=b"old" * 1000)
                written = True
            except WorkspaceError:
                written = False
        content = (workspace.root / "a.txt").read_bytes()
        assert content in (b"old" * 1000, b"new" * 1000)
        assert not written or content == b"new" * 1000
        assert names(workspace.root) == ["a.txt"]


def test_a_read_only_file_is_refused_where_the_system_would(workspace: LocalWorkspace) -> None:
    path = put(workspace.root, "a.txt", b"old")
    path.chmod(0o444)
    if os.geteuid() == 0:
        write(workspace, "a.txt", b"new", base=b"old")
        assert stat.S_IMODE(path.stat().st_mode) == 0o444
        return
    with pytest.raises(WorkspaceError, match="read-only"):
        write(workspace, "a.txt", b"new", base=b"old")


def test_a_path_through_hundreds_of_missing_folders_is_resolved(workspace: LocalWorkspace) -> None:
    (workspace.root / "real").mkdir()
    (workspace.root / "link").symlink_to("real")
    assert workspace.resolve("link" + "/a" * 1500) == "real" + "/a" * 1500


def test_a_directory_or_a_missing_file_is_said_to_be_one(workspace: LocalWorkspace) -> None:
    put(workspace.root, "sub/f.txt", b"x")
    with pytest.raises(NotAFile):
        workspace.open("sub")
    with pytest.raises(NotAFile):
        workspace.open("sub/f.txt/g")
    with pytest.raises(MissingPath):
        workspace.open("sub/none")
    with pytest.raises(MissingPath):
        workspace.open("none/f.txt")


def test_entries_come_in_byte_order_with_links_unfollowed(workspace: LocalWorkspace) -> None:
    put(workspace.root, "b.txt", b"123")
    put(workspace.root, "Z/x", b"")
    (workspace.root / "link").symlink_to("/etc")
    found = [
        (entry.name, entry.kind, entry.size, entry.link_target) for entry in workspace.entries(".")
    ]
    assert found == [
        ("Z", "directory", 0, None),
        ("b.txt", "file", 3, None),
        ("link", "link", 0, "/etc"),
    ]


def test_no_descriptor_is_left_open(workspace: LocalWorkspace) -> None:
    put(workspace.root, "a/b.txt", b"x")
    before = names(Path("/proc/self/fd"))
    for _ in range(5):
        workspace.open("a/b.txt").close()
        workspace.stat("a/b.txt")
        list(workspace.entries("a"))
        workspace.resolve("a/none")
        write(workspace, "a/b.txt", b"x", base=b"x")
        for bad in ("none", "a", "a/b.txt/c", "../x"):
            with pytest.raises(WorkspaceError):
                workspace.open(bad)
    assert names(Path("/proc/self/fd")) == before


def test_a_file_is_removed_only_as_it_was(workspace: LocalWorkspace) -> None:
    file = workspace.root / "a.txt"
    file.write_bytes(b"new")
    with pytest.raises(ContentChanged):
        remove(workspace, "a.txt", base=b"old")
    assert file.read_bytes() == b"new"
    remove(workspace, "a.txt", base=b"new")
    assert names(workspace.root) == []
    with pytest.raises(ContentChanged, match="is gone"):
        remove(workspace, "a.txt", base=b"new")


def test_a_moved_file_is_the_same_file_and_never_takes_a_name_that_is_taken(
    workspace: LocalWorkspace,
) -> None:
    file = workspace.root / "a.sh"
    file.write_bytes(b"run")
    file.chmod(0o750)
    (workspace.root / "taken").write_bytes(b"mine")
    inode = file.stat().st_ino
    with pytest.raises(ContentChanged, match="taken exists already"):
        move(workspace, "a.sh", "taken", base=b"run")
    with pytest.raises(ContentChanged, match=r"a\.sh has changed"):
        move(workspace, "a.sh", "b.sh", base=b"old")
    assert names(workspace.root) == ["a.sh", "taken"]
    move(workspace, "a.sh", "bin/b.sh", base=b"run")
    found = (workspace.root / "bin/b.sh").stat()
    assert (found.st_ino, found.st_mode & 0o777, found.st_nlink) == (inode, 0o750, 1)
    assert (workspace.root / "taken").read_bytes() == b"mine"


@pytest.mark.parametrize("path", [".git/config", ".codeagent/x", "../out"])
def test_nothing_protected_or_outside_is_removed_or_moved(
    workspace: LocalWorkspace, path: str
) -> None:
    (workspace.root / "a").write_bytes(b"")
    with pytest.raises((ProtectedPath, OutsideWorkspace)):
        remove(workspace, path, base=b"")
    for place, to in (("a", path), (path, "b")):
        with pytest.raises((ProtectedPath, OutsideWorkspace)):
            move(workspace, place, to, base=b"")
    assert (workspace.root / "a").exists()


@pytest.mark.soak
def test_of_writers_that_checked_the_same_content_only_one_replaces_it(
    workspace: LocalWorkspace,
) -> None:
    """R22: eight that add lines to one file, each by its own open folder, lose none."""
    put(workspace.root, "a.txt", "")
    each = up_to(160, 4000) // 8

    def add(who: int) -> None:
        mine, added = LocalWorkspace(workspace.root), 0
        while added < each:
            with mine.open("a.txt") as file:
                data = file.read()
            with suppress(ContentChanged):
                write(mine, "a.txt", data + f"{who}.{added}\n".encode(), base=data)
                added += 1
        mine.close()

    writers = [threading.Thread(target=add, args=(who,)) for who in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lines = (workspace.root / "a.txt").read_text().splitlines()
    assert sorted(lines) == sorted(f"{who}.{number}" for who in range(8) for number in range(each))


def test_a_folder_that_another_program_keeps_locked_is_left_alone(
    workspace: LocalWorkspace,
) -> None:
    put(workspace.root, "a.txt", "old")
    fd = os.open(workspace.root, os.O_RDONLY)
    assert try_lock(fd)
    try:
        with pytest.raises(
            WorkspaceError,
            match=r"a\.txt: another process has locked its folder; nothing was changed",
        ):
            write(workspace, "a.txt", b"new", base=b"old")
    finally:
        os.close(fd)
    assert (workspace.root / "a.txt").read_text() == "old"
    assert names(workspace.root) == ["a.txt"]
