"""What a snapshot holds, and what it leaves out and says so."""

import functools
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from codeagent.core.checkpoints import FileChange, Node
from codeagent.core.errors import CheckpointError
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.snapshots.coverage import SnapshotRecord
from codeagent.workspace.snapshots.scan import SizeLimits
from tests.workspace.trees import git, go_back, look

RESTLESS = """
import os, sys
os.chdir(sys.argv[1])
print("ready", flush=True)
turn = 0
while True:
    turn += 1
    with open("grows", "ab" if turn % 50 else "wb") as file:
        file.write(b"x" * 5000)
    with open("new", "w") as file:
        file.write(str(turn))
    os.replace("new", "replaced")
    os.symlink("grows", "kind") if turn % 2 else os.mkdir("kind")
    os.unlink("kind") if turn % 2 else os.rmdir("kind")
    os.mkfifo("pipe")
    os.unlink("pipe")
    os.makedirs("d/e")
    open("d/e/f", "w").close()
    os.unlink("d/e/f")
    os.removedirs("d/e")
"""


@contextmanager
def restless(root: Path) -> Iterator[None]:
    """A process that changes files, folders and links as fast as it can."""
    (root / "steady").write_text("steady")
    process = subprocess.Popen([sys.executable, "-c", RESTLESS, str(root)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
        assert process.poll() is None, "the process died, so nothing was tested"
    finally:
        process.kill()
        process.communicate()


async def covered(checkpoints: GitCheckpoints, snapshot: str, *paths: str) -> list[str]:
    return [path for path in paths if await checkpoints.node(snapshot, path) is not None]


async def test_ignore_files_of_every_level_and_the_users_own_are_respected(
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


async def test_the_global_ignore_file_is_the_one_that_the_users_configuration_names(
    state: Path, root: Path
) -> None:
    (root.parent / ".gitconfig").write_text(
        "[core]\n\texcludesFile = ~/mine\n[alias]\n\tconfig = !touch pwned\n"
    )
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


async def test_what_the_user_tracks_is_covered_though_it_is_ignored(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    git(root, "init", "-q")
    (root / "dist/deep").mkdir(parents=True)
    for name in ("dist/deep/kept", "dist/deep/not", "a.log", "b.log"):
        (root / name).write_text("x")
    git(root, "add", "dist/deep/kept", "a.log")
    (root / ".gitignore").write_text("dist/\n*.log\n")
    snapshot = (await checkpoints.take()).id
    assert await covered(
        checkpoints, snapshot, "dist/deep/kept", "dist/deep/not", "a.log", "b.log"
    ) == ["dist/deep/kept", "a.log"]


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
    with pytest.raises(
        CheckpointError, match=r"x was not a folder then, and x/a\.log, which no snapshot holds"
    ):
        await checkpoints.restore(before.id, present=after.id)
    assert (root / "x/b").exists() and (root / "x/a.log").read_text() == "precious"


async def test_what_is_too_large_is_left_out_said_and_left_alone(state: Path, root: Path) -> None:
    checkpoints = GitCheckpoints(state, root, limits=SizeLimits(file=100, total=250))
    (root / "grows").write_text("x" * 100)
    (root / "z").write_text("x" * 100)
    before = await checkpoints.take()
    assert before.left_out == ()
    (root / "grows").write_text("x" * 101)
    (root / "other").write_text("y" * 90)
    (root / "over").write_text("z" * 90)
    after = await checkpoints.take()
    assert "grows: larger than 100 bytes" in after.left_out
    assert any(
        phrase.endswith(": beyond the 250 bytes that a snapshot holds") for phrase in after.left_out
    )
    assert len(after.left_out) == 2 and after.files == 2
    assert all(
        change.change == "added"
        for change in await checkpoints.changes(before.id, after.id)
        if change.path != "z"
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


async def test_what_cannot_be_read_is_left_out_and_said(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    (root / "secret").write_text("x")
    (root / "closed").mkdir()
    (root / "secret").chmod(0)
    if os.access(root / "secret", os.R_OK):
        pytest.skip("this user may read everything")
    (root / "closed").chmod(0)
    try:
        left_out = (await checkpoints.take()).left_out
    finally:
        (root / "closed").chmod(0o700)
    assert left_out == (
        "closed/: cannot be read (Permission denied)",
        "secret: cannot be read (Permission denied)",
    )


async def test_files_that_change_while_they_are_read_never_make_it_fail(
    checkpoints: GitCheckpoints, root: Path
) -> None:
    with restless(root):
        for _ in range(15):
            snapshot = await checkpoints.take()
            node = await checkpoints.node(snapshot.id, "steady")
            assert node == Node("file", b"steady")


async def test_ignored_files_that_run_outside_the_sandbox_are_covered_and_brought_back(
    root: Path, checkpoints: GitCheckpoints
) -> None:
    (root / ".gitignore").write_text(".envrc\n.vscode/\nbuild/\nnode_modules/\n*.log\n")
    (root / ".envrc").write_text("export A=1")
    (root / "a.log").write_text("a log")
    for folder in ("build", "node_modules/a"):
        (root / folder).mkdir(parents=True)
        (root / folder / "package.json").write_text("{}")
    before = await checkpoints.take()
    assert await covered(
        checkpoints,
        before.id,
        ".envrc",
        "a.log",
        "build/package.json",
        "node_modules/a/package.json",
    ) == [".envrc"]
    (root / ".envrc").write_text("touch /tmp/P")
    (root / ".vscode/sub").mkdir(parents=True)
    (root / ".vscode/tasks.json").write_text("{}")
    (root / ".vscode/sub/x.json").write_text("{}")
    (root / "b.log").write_text("another")
    after = await checkpoints.take()
    changes = await checkpoints.changes(before.id, after.id)
    assert changes == (
        FileChange(".envrc", "modified"),
        FileChange(".vscode/sub/x.json", "added"),
        FileChange(".vscode/tasks.json", "added"),
    )
    await checkpoints.restore(before.id, present=after.id)
    assert (root / ".envrc").read_text() == "export A=1"
    assert not (root / ".vscode").exists()
    assert (root / "b.log").exists()


async def test_a_snapshot_of_before_they_were_covered_says_nothing_about_them(
    root: Path, checkpoints: GitCheckpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / ".gitignore").write_text(".envrc\n")
    (root / ".envrc").write_text("export A=1")
    with monkeypatch.context() as old_version:
        old_version.setattr("codeagent.workspace.snapshots.scan.watched", lambda path: False)
        old_version.setattr(
            "codeagent.workspace.checkpoints.SnapshotRecord",
            functools.partial(SnapshotRecord, watches=False),
        )
        before = await checkpoints.take()
    after = await checkpoints.take()
    assert await covered(checkpoints, after.id, ".envrc") == [".envrc"]
    assert await checkpoints.changes(before.id, after.id) == ()
    await checkpoints.restore(before.id, present=after.id)
    assert (root / ".envrc").exists()


async def test_what_git_takes_for_a_repository_is_found_wherever_it_is(
    root: Path, checkpoints: GitCheckpoints
) -> None:
    git(root, "init", "-q")
    (root / ".gitignore").write_text("build/\n")
    (root / "build/deep/er").mkdir(parents=True)
    assert (await checkpoints.take()).marks == {}
    git(root, "init", "-q", "--bare", "data")
    git(root, "init", "-q", "sub")
    git(root, "init", "-q", "build/deep/er/one")
    (root / "linked").mkdir()
    (root / "linked/.git").write_text("gitdir: ../data\n")
    found = (await checkpoints.take()).marks
    assert sorted(found) == ["build/deep/er/one/.git", "data/HEAD", "linked/.git", "sub/.git"]
    assert (await checkpoints.take()).marks == found
    git(root / "sub", "config", "core.fsmonitor", "touch P")
    now = (await checkpoints.take()).marks
    assert [path for path in found if now[path] != found[path]] == ["sub/.git"]


async def test_a_bare_repository_that_folders_alone_complete_is_found(
    root: Path, checkpoints: GitCheckpoints
) -> None:
    (root / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "config").write_text("[core]\n\tfsmonitor = touch P\n")
    assert (await checkpoints.take()).marks == {}
    (root / "objects").mkdir()
    (root / "refs").mkdir()
    assert list((await checkpoints.take()).marks) == ["HEAD"]
