"""What a snapshot holds, what it leaves out and says so, and what going back does and refuses to do."""

import asyncio
import fcntl
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.core.checkpoints import FileChange, Node
from codeagent.core.errors import CheckpointError
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.snapshots.pruning import Allowance
from codeagent.workspace.snapshots.scan import Limits
from tests.workspace.trees import empty, git, look, texts

PROCESS = """
import asyncio, sys
from pathlib import Path
from codeagent.workspace.checkpoints import GitCheckpoints

async def main():
    checkpoints = GitCheckpoints(Path(sys.argv[1]), Path(sys.argv[2]))
    for number in range(int(sys.argv[4])):
        Path(sys.argv[2], f"{sys.argv[3]}-{number}").write_text(str(number))
        print((await checkpoints.take()).id, flush=True)

asyncio.run(main())
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def checkpoints(state: Path, root: Path) -> Iterator[GitCheckpoints]:
    with_home = GitCheckpoints(state, root, environment={"HOME": str(state.parent)})
    yield with_home
    with_home.close()


def both_take(state: Path, root: Path) -> list[list[str]]:
    """What two processes took that run at the same time, each after a file of its own."""
    command = [sys.executable, "-c", PROCESS, str(state), str(root)]
    processes = [
        subprocess.Popen([*command, name, "12"], stdout=subprocess.PIPE, text=True) for name in ("left", "right")
    ]
    taken = [process.communicate(timeout=60)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return taken


async def go_back(checkpoints: GitCheckpoints, target: str) -> tuple[FileChange, ...]:
    return await checkpoints.restore(target, present=(await checkpoints.take()).id)


async def covered(checkpoints: GitCheckpoints, snapshot: str, *paths: str) -> list[str]:
    return [path for path in paths if await checkpoints.node(snapshot, path) is not None]


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


async def test_odd_names_links_modes_and_bytes_come_back_as_they_were(checkpoints: GitCheckpoints, root: Path) -> None:
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


async def test_a_node_is_read_from_a_snapshot_or_from_the_workspace(checkpoints: GitCheckpoints, root: Path) -> None:
    (root / "d").mkdir()
    (root / "d/run").write_text("one")
    (root / "d/run").chmod(0o700)
    (root / "link").symlink_to("d")
    snapshot = (await checkpoints.take()).id
    (root / "d/run").write_text("two")
    (root / "d/run").chmod(0o600)
    assert await checkpoints.node(snapshot, "d/run") == Node("executable", b"one")
    assert await checkpoints.node(None, "d/run") == Node("file", b"two")
    assert await checkpoints.node(snapshot, "link") == await checkpoints.node(None, "link") == Node("link", b"d")
    for path in ("d", "link/run", "none", "d/run/x", ".git/config"):
        assert await checkpoints.node(snapshot, path) is None
        assert await checkpoints.node(None, path) is None


async def test_a_file_type_may_become_any_other_and_back(checkpoints: GitCheckpoints, root: Path) -> None:
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


async def test_only_the_executable_bit_of_a_mode_is_brought_back(checkpoints: GitCheckpoints, root: Path) -> None:
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


async def test_a_hard_link_is_cut_and_never_written_through(checkpoints: GitCheckpoints, root: Path) -> None:
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
        assert await checkpoints.node((await checkpoints.take()).id, "f") == Node("file", text.encode())


async def test_only_the_paths_asked_for_are_brought_back(checkpoints: GitCheckpoints, root: Path) -> None:
    for name in ("a", "b", "d/x", "d/y"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("one")
    before = await checkpoints.take()
    for name in ("a", "b", "d/x", "d/y"):
        (root / name).write_text("two")
    after = await checkpoints.take()
    done = await checkpoints.restore(before.id, present=after.id, paths=["a", "d/x"])
    assert done == (FileChange("a", "modified"), FileChange("d/x", "modified"))
    assert [(root / name).read_text() for name in ("a", "b", "d/x", "d/y")] == ["one", "two", "one", "two"]


async def test_a_file_that_needs_another_one_to_go_is_not_brought_back_alone(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    (root / "a").mkdir()
    (root / "a/x").write_text("one")
    before = await checkpoints.take()
    shutil.rmtree(root / "a")
    (root / "a").write_text("file")
    after = await checkpoints.take()
    with pytest.raises(CheckpointError, match="a/x cannot be brought back while a is no folder; nothing was changed"):
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
    with pytest.raises(CheckpointError, match=r"^b changed since the last snapshot; nothing was changed"):
        await checkpoints.restore(before.id, present=after.id)
    assert [(root / name).read_text() for name in ("a", "b", "c")] == ["two", "mine", "two"]
    (root / "b").write_text("one")
    done = await checkpoints.restore(before.id, present=after.id)
    assert done == (FileChange("a", "modified"), FileChange("c", "modified"))


async def test_ignore_files_of_every_level_and_the_persons_own_are_respected(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    git(root, "init", "-q")
    (root / ".git/info/exclude").write_text("*.own\n")
    (root.parent / ".config/git").mkdir(parents=True)
    (root.parent / ".config/git/ignore").write_text("*~\n")
    for name in (
        "keep",
        "a.log",
        "a.own",
        "a~",
        "sub/a.log",
        "sub/keep.log",
        "sub/tmp/x",
        "sub/deep/tmp",
        "top/x",
        "sub/top/x",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    (root / ".gitignore").write_text("*.log\n/top/\n")
    (root / "sub/.gitignore").write_text("!keep.log\ntmp/\n")
    names = sorted(os.fsdecode(path) for path in look(root))
    snapshot = await checkpoints.take()
    git(root, "config", "core.excludesFile", str(root.parent / ".config/git/ignore"))
    expected = git(root, "ls-files", "--others", "--exclude-standard").split()
    assert await covered(checkpoints, snapshot.id, *names) == sorted(expected)
    assert snapshot.left_out == ()


async def test_the_global_ignore_file_is_the_one_that_the_persons_configuration_names(state: Path, root: Path) -> None:
    (root.parent / ".gitconfig").write_text("[core]\n\texcludesFile = ~/mine\n[alias]\n\tconfig = !touch pwned\n")
    (root.parent / "mine").write_text("*.mine\n")
    (root / "a.mine").write_text("x")
    (root / "a").write_text("x")
    checkpoints = GitCheckpoints(state, root, environment={"HOME": str(root.parent)})
    assert (await checkpoints.take()).files == 1
    checkpoints.close()


async def test_rules_of_folders_above_count_where_the_workspace_is_a_part_of_a_repository(
    state: Path, root: Path
) -> None:
    git(root, "init", "-q")
    (root / ".gitignore").write_text("*.log\n/part/inner/gone\nother/\n")
    part = root / "part"
    for name in ("a.log", "keep", "inner/gone", "inner/keep", "other/x"):
        (part / name).parent.mkdir(parents=True, exist_ok=True)
        (part / name).write_text("x")
    checkpoints = GitCheckpoints(state, part, environment={"HOME": "/nowhere"})
    snapshot = (await checkpoints.take()).id
    names = ("a.log", "keep", "inner/gone", "inner/keep", "other/x")
    assert await covered(checkpoints, snapshot, *names) == ["keep", "inner/keep"]
    checkpoints.close()


async def test_what_the_person_tracks_is_covered_though_it_is_ignored(checkpoints: GitCheckpoints, root: Path) -> None:
    git(root, "init", "-q")
    (root / "dist/deep").mkdir(parents=True)
    for name in ("dist/deep/kept", "dist/deep/not", "a.log", "b.log"):
        (root / name).write_text("x")
    git(root, "add", "dist/deep/kept", "a.log")
    (root / ".gitignore").write_text("dist/\n*.log\n")
    snapshot = (await checkpoints.take()).id
    assert await covered(checkpoints, snapshot, "dist/deep/kept", "dist/deep/not", "a.log", "b.log") == [
        "dist/deep/kept",
        "a.log",
    ]


async def test_ignored_files_are_never_deleted_not_even_where_the_rules_changed(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    (root / ".gitignore").write_text("venv/\n")
    (root / "venv").mkdir()
    (root / "venv/precious").write_text("x")
    before = await checkpoints.take()
    (root / ".gitignore").write_text("")
    after = await checkpoints.take()
    assert await covered(checkpoints, after.id, "venv/precious") == ["venv/precious"]
    assert await checkpoints.changes(before.id, after.id) == (FileChange(".gitignore", "modified"),)
    assert await go_back(checkpoints, before.id) == (FileChange(".gitignore", "modified"),)
    assert (root / "venv/precious").read_text() == "x"


async def test_what_became_ignored_while_it_was_changed_still_comes_back(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    (root / "src").mkdir()
    (root / "src/a").write_text("one")
    before = await checkpoints.take()
    (root / ".gitignore").write_text("src/\n")
    (root / "src/a").write_text("two")
    after = await checkpoints.take()
    await go_back(checkpoints, before.id)
    assert (root / "src/a").read_text() == "one"
    await go_back(checkpoints, after.id)
    assert (root / "src/a").read_text() == "two"


async def test_a_folder_that_must_become_a_file_is_left_where_it_holds_ignored_files(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    (root / ".gitignore").write_text("*.log\n")
    (root / "x").write_text("file")
    before = await checkpoints.take()
    (root / "x").unlink()
    (root / "x").mkdir()
    (root / "x/a.log").write_text("precious")
    (root / "x/b").write_text("b")
    after = await checkpoints.take()
    with pytest.raises(CheckpointError, match=r"x was no folder then, and x/a\.log, which no snapshot holds"):
        await checkpoints.restore(before.id, present=after.id)
    assert (root / "x/b").exists() and (root / "x/a.log").read_text() == "precious"


async def test_what_is_too_large_is_left_out_said_and_left_alone(state: Path, root: Path) -> None:
    checkpoints = GitCheckpoints(state, root, limits=Limits(file=100, total=250))
    (root / "grows").write_text("x" * 100)
    (root / "z").write_text("x" * 100)
    before = await checkpoints.take()
    assert before.left_out == ()
    (root / "grows").write_text("x" * 101)
    (root / "other").write_text("y" * 90)
    (root / "over").write_text("z" * 90)
    after = await checkpoints.take()
    assert "grows: larger than 100 bytes" in after.left_out
    assert any(phrase.endswith(": beyond the 250 bytes that a snapshot holds") for phrase in after.left_out)
    assert len(after.left_out) == 2 and after.files == 2
    assert all(
        change.change == "added" for change in await checkpoints.changes(before.id, after.id) if change.path != "z"
    )
    await checkpoints.restore(before.id, present=after.id)
    assert (root / "grows").read_text() == "x" * 101
    with pytest.raises(CheckpointError, match="grows: larger than 100 bytes; no snapshot holds it"):
        await checkpoints.node(None, "grows")
    checkpoints.close()


async def test_pipes_sockets_and_protected_names_are_left_out_and_said_without_waiting(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(root)
        try:
            listening.bind("socket")
        finally:
            os.chdir(here)
        for name in (".git", ".codeagent", ".GIT", "sub/.Codeagent."):
            (root / name).mkdir(parents=True)
            (root / name / "config").write_text("x")
        (root / "sub/.git ").write_text("x")
        snapshot = await checkpoints.take()
    assert set(snapshot.left_out) == {
        "pipe: a pipe",
        "socket: a socket",
        ".GIT/: a protected name",
        "sub/.Codeagent./: a protected name",
        "sub/.git : a protected name",
    }
    assert snapshot.files == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_what_cannot_be_read_is_left_out_and_said(checkpoints: GitCheckpoints, root: Path) -> None:
    (root / "secret").write_text("x")
    (root / "closed").mkdir()
    (root / "secret").chmod(0)
    (root / "closed").chmod(0)
    try:
        left_out = (await checkpoints.take()).left_out
    finally:
        (root / "closed").chmod(0o700)
    assert left_out == ("closed/: cannot be read (Permission denied)", "secret: cannot be read (Permission denied)")


async def test_the_store_is_nobody_elses_and_never_part_of_a_snapshot(root: Path) -> None:
    checkpoints = GitCheckpoints(root / "state", root)
    (root / ".env").write_text("TOKEN=x")
    assert (await checkpoints.take()).files == 1
    assert (await checkpoints.take()).files == 1
    assert stat.S_IMODE((root / "state/checkpoints").stat().st_mode) == 0o700
    (store,) = (root / "state/checkpoints").iterdir()
    assert stat.S_IMODE(store.stat().st_mode) == 0o700
    assert (store / "workspace").read_text() == f"{root}\n"
    checkpoints.close()


async def test_one_file_is_replaced_only_where_it_is_as_expected(checkpoints: GitCheckpoints, root: Path) -> None:
    (root / "f").write_text("one")
    await checkpoints.replace("f", Node("executable", b"two"), present=Node("file", b"one"))
    assert (root / "f").read_text() == "two" and os.access(root / "f", os.X_OK)
    with pytest.raises(CheckpointError, match=r"^f has changed meanwhile; nothing was changed"):
        await checkpoints.replace("f", Node("file", b"three"), present=Node("file", b"one"))
    assert (root / "f").read_text() == "two"
    await checkpoints.replace("d/new", Node("link", b"../f"), present=None)
    assert (root / "d/new").readlink() == Path("../f")
    await checkpoints.replace("d/new", None, present=Node("link", b"../f"))
    assert not (root / "d").exists()
    for path in (".git/config", "../out", "/etc/x", "a//b", ""):
        with pytest.raises(CheckpointError, match="nothing was changed"):
            await checkpoints.replace(path, Node("file", b"x"), present=None)


async def test_a_workspace_that_was_replaced_is_not_touched(checkpoints: GitCheckpoints, root: Path) -> None:
    (root / "f").write_text("one")
    before = await checkpoints.take()
    shutil.move(root, root.parent / "moved")
    shutil.copytree(root.parent / "moved", root)
    with pytest.raises(CheckpointError, match="was moved or replaced; nothing was changed"):
        await checkpoints.restore(before.id, present=before.id)


async def test_an_unknown_snapshot_is_said_to_be_gone(checkpoints: GitCheckpoints, root: Path) -> None:
    known = (await checkpoints.take()).id
    for unknown in ("0" * 64, "refs/last", "--batch", ""):
        with pytest.raises(CheckpointError, match="that snapshot is not there any more; nothing was changed"):
            await checkpoints.restore(unknown, present=known)


async def test_without_git_or_with_an_old_one_the_person_is_told(
    state: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CheckpointError, match="there is no git on PATH, so no checkpoints are kept: install git"):
        await GitCheckpoints(state, root).take()
    (tmp_path / "git").write_text("#!/bin/sh\necho git version 2.17.1\n")
    (tmp_path / "git").chmod(0o755)
    with pytest.raises(CheckpointError, match=r"says 'git version 2\.17\.1'.*install git 2\.29 or newer"):
        await GitCheckpoints(state, root).take()


async def test_a_full_disk_is_said_leaves_nothing_behind_and_the_next_snapshot_is_taken(
    state: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "git"
    full = "touch objects/pack/tmp_pack_x; echo 'fatal: write error. Out of diskspace' >&2; exit 128"
    program.write_text(f'#!/bin/sh\ncase $1 in fast-import) {full};; esac\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    (root / "f").write_bytes(b"x" * 200_000)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        checkpoints = GitCheckpoints(state, root)
        with pytest.raises(CheckpointError, match=r"^the disk of .* is full; nothing was changed: make room"):
            await checkpoints.take()
        checkpoints.close()
    (store,) = (state / "checkpoints").glob("*")
    assert list(store.glob("git/objects/pack/*")) == []
    checkpoints = GitCheckpoints(state, root)
    assert (await checkpoints.take()).files == 1
    checkpoints.close()


async def test_a_state_folder_that_cannot_be_used_is_named(root: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(
        CheckpointError, match=r"checkpoints cannot be kept in .*: Not a directory; nothing was changed"
    ):
        await GitCheckpoints(tmp_path / "state", root).take()


async def test_a_damaged_store_says_so_and_a_damaged_memory_of_stamps_is_made_anew(
    checkpoints: GitCheckpoints, state: Path, root: Path
) -> None:
    (root / "f").write_text("one")
    before = await checkpoints.take()
    checkpoints.close()
    (store,) = (state / "checkpoints").iterdir()
    (store / "known.sqlite").write_bytes(b"no database at all" * 500)
    (store / "known.sqlite-wal").unlink(missing_ok=True)
    assert (await checkpoints.take()).id == before.id
    shutil.rmtree(store / "git/objects")
    (store / "git/objects").mkdir()
    with pytest.raises(CheckpointError, match="not there any more"):
        await checkpoints.changes(before.id, before.id)
    (root / "f").write_text("two")
    again = await checkpoints.take()
    assert await checkpoints.node(again.id, "f") == Node("file", b"two")


async def test_the_callers_git_variables_and_configuration_are_not_in_force(
    checkpoints: GitCheckpoints, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE", "GIT_CONFIG_COUNT"):
        monkeypatch.setenv(name, str(root / "elsewhere"))
    (root / "f").write_text("one")
    assert (await checkpoints.take()).files == 1
    assert not (root / "elsewhere").exists()


async def test_two_processes_on_one_workspace_lose_no_snapshot(state: Path, root: Path) -> None:
    taken = both_take(state, root)
    checkpoints = GitCheckpoints(state, root)
    for name, ids in zip(("left", "right"), taken, strict=True):
        for number, snapshot in enumerate(ids):
            assert await checkpoints.node(snapshot, f"{name}-{number}") == Node("file", str(number).encode())
    checkpoints.close()


async def test_work_that_is_cancelled_has_ended_when_the_cancelling_is_over(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    for number in range(300):
        (root / str(number)).write_text("one")
    first = await checkpoints.take()
    for number in range(300):
        (root / str(number)).write_text("two")
    taking = asyncio.create_task(checkpoints.take())
    await asyncio.sleep(0.005)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    second = await checkpoints.take()
    restoring = asyncio.create_task(checkpoints.restore(first.id, present=second.id))
    await asyncio.sleep(0.02)
    restoring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await restoring
    assert texts(root) in ({"one"}, {"two"})
    assert await checkpoints.recover() is None


async def test_who_waits_for_another_process_can_be_cancelled_at_once(checkpoints: GitCheckpoints, state: Path) -> None:
    await checkpoints.take()
    (store,) = (state / "checkpoints").glob("*")
    with (store / "lock").open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = asyncio.create_task(checkpoints.take())
        await asyncio.sleep(0.05)
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(waiting, 10)
    assert (await checkpoints.take()).files == 0


async def test_the_event_loop_goes_on_while_a_snapshot_is_taken(checkpoints: GitCheckpoints, root: Path) -> None:
    for number in range(500):
        (root / str(number)).write_text("x" * 1000)
    turns = 0
    taking = asyncio.create_task(checkpoints.take())
    while not taking.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 50


async def test_pruning_drops_old_sessions_of_dead_processes_and_keeps_the_living(state: Path, root: Path) -> None:
    old, living = GitCheckpoints(state, root), GitCheckpoints(state, root, allowance=Allowance(age=-1))
    (root / "f").write_text("only in the old one")
    gone = (await old.take()).id
    (root / "f").write_text("in the living one")
    kept = (await living.take()).id
    await living.prune()
    assert await living.node(gone, "f") is not None
    old.close()
    await living.prune()
    with pytest.raises(CheckpointError, match="not there any more"):
        await living.node(gone, "f")
    assert await living.node(kept, "f") == Node("file", b"in the living one")
    assert (await living.take()).id == kept
    living.close()


async def test_pruning_drops_the_oldest_until_the_rest_is_small_enough(state: Path, root: Path) -> None:
    ids = []
    for _ in range(4):
        session = GitCheckpoints(state, root)
        (root / "f").write_bytes(os.urandom(300_000))
        ids.append((await session.take()).id)
        session.close()
    last = GitCheckpoints(state, root, allowance=Allowance(size=800_000))
    await last.prune()
    left = [snapshot for snapshot in ids if await _is_there(last, snapshot)]
    assert ids[-1] in left and ids[0] not in left
    last.close()


async def test_pruning_removes_the_stores_of_workspaces_that_nobody_used_for_long(state: Path, root: Path) -> None:
    other = root.parent / "other"
    other.mkdir()
    forgotten = GitCheckpoints(state, other)
    await forgotten.take()
    here = GitCheckpoints(state, root)
    await here.take()
    for folder in (state / "checkpoints").iterdir():
        os.utime(folder, (1, 1))
    await here.prune()
    assert len(list((state / "checkpoints").iterdir())) == 2
    forgotten.close()
    for folder in (state / "checkpoints").iterdir():
        os.utime(folder, (1, 1))
    await here.prune()
    assert len(list((state / "checkpoints").iterdir())) == 1
    here.close()


async def _is_there(checkpoints: GitCheckpoints, snapshot: str) -> bool:
    try:
        return await checkpoints.node(snapshot, "f") is not None
    except CheckpointError:
        return False
