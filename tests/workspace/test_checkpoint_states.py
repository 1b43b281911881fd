"""In whatever state the user's repository is, files come back and nothing of the repository is
touched."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from codeagent.workspace.checkpoints import GitCheckpoints
from tests.copies import copied
from tests.workspace.trees import git, look

Setup = Callable[[Path], Path]
STATES: dict[str, Setup] = {}


def state(setup: Setup) -> Setup:
    STATES[setup.__name__.replace("_", " ")] = setup
    return setup


def plain(folder: Path) -> Path:
    """A repository with two commits, a staged change, a change that is not, and a new file."""
    return copied(make_plain, folder / "work")


def make_plain(root: Path) -> None:
    (root / "src").mkdir()
    for name in ("a.txt", "b.txt", "src/c.txt"):
        (root / name).write_text(f"{name}\n" * 3)
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("a.txt")
    (root / "empty").touch()
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    (root / "a.txt").write_text("two\n")
    git(root, "commit", "-qam", "two")
    (root / "a.txt").write_text("staged\n")
    git(root, "add", "a.txt")
    (root / "b.txt").write_text("not staged\n")
    (root / "new.txt").write_text("new\n")


@state
def a_repository_with_changes(folder: Path) -> Path:
    return plain(folder)


@state
def no_repository(folder: Path) -> Path:
    root = plain(folder)
    shutil.rmtree(root / ".git")
    return root


@state
def no_commit_yet(folder: Path) -> Path:
    root = no_repository(folder)
    git(root, "init", "-q")
    git(root, "add", "a.txt")
    return root


@state
def a_detached_head(folder: Path) -> Path:
    root = plain(folder)
    git(root, "checkout", "-q", "--detach")
    return root


def _conflict(root: Path, command: str) -> None:
    git(root, "checkout", "-qf", "main")
    git(root, "checkout", "-qb", "other", "HEAD~1")
    (root / "a.txt").write_text("other\n")
    git(root, "commit", "-qam", "other")
    git(root, command, "main", check=False)


@state
def a_rebase_in_progress(folder: Path) -> Path:
    root = plain(folder)
    _conflict(root, "rebase")
    assert (root / ".git/rebase-merge").exists()
    return root


@state
def a_merge_in_progress(folder: Path) -> Path:
    root = plain(folder)
    _conflict(root, "merge")
    assert (root / ".git/MERGE_HEAD").exists()
    return root


@state
def a_stash(folder: Path) -> Path:
    root = plain(folder)
    git(root, "stash", "-q")
    (root / "b.txt").write_text("again\n")
    return root


@state
def a_linked_worktree(folder: Path) -> Path:
    root = plain(folder)
    git(root, "worktree", "add", "-q", "../linked", "-b", "linked")
    (folder / "linked/b.txt").write_text("changed\n")
    return folder / "linked"


@state
def a_submodule(folder: Path) -> Path:
    root = plain(folder)
    inner = plain(folder / "inner")
    git(root, "submodule", "--quiet", "add", str(inner), "vendor/inner")
    (root / "vendor/inner/b.txt").write_text("changed\n")
    return root


@state
def inside_a_submodule(folder: Path) -> Path:
    return a_submodule(folder) / "vendor/inner"


@state
def a_shallow_clone(folder: Path) -> Path:
    git(folder, "clone", "-q", "--depth=1", f"file://{plain(folder)}", "shallow")
    return folder / "shallow"


@state
def a_sparse_checkout(folder: Path) -> Path:
    root = plain(folder)
    git(root, "reset", "-q", "--hard")
    git(root, "sparse-checkout", "set", "nothing")
    (root / "a.txt").write_text("changed\n")
    assert not (root / "src").exists()
    return root


@state
def a_sparse_index(folder: Path) -> Path:
    root = plain(folder)
    git(root, "reset", "-q", "--hard")
    git(root, "sparse-checkout", "set", "--cone", "--sparse-index", "nothing")
    return root


@state
def an_index_lock(folder: Path) -> Path:
    root = plain(folder)
    (root / ".git/index.lock").touch()
    return root


@state
def a_repository_inside(folder: Path) -> Path:
    root = plain(folder)
    shutil.move(plain(folder / "inner"), root / "inner")
    return root


@state
def a_bare_repository_inside(folder: Path) -> Path:
    root = plain(folder)
    git(root, "init", "-q", "--bare", "bare")
    return root


@state
def it_is_a_bare_repository(folder: Path) -> Path:
    git(folder, "init", "-q", "--bare", "bare")
    return folder / "bare"


@state
def a_broken_repository(folder: Path) -> Path:
    root = plain(folder)
    (root / ".git/HEAD").write_bytes(b"\0\xff")
    (root / ".git/index").write_bytes(b"no index")
    return root


@state
def a_pointer_to_nowhere(folder: Path) -> Path:
    root = no_repository(folder)
    (root / ".git").write_text("gitdir: /does/not/exist\n")
    return root


@state
def a_folder_of_a_repository(folder: Path) -> Path:
    return plain(folder) / "src"


@state
def a_split_index(folder: Path) -> Path:
    root = plain(folder)
    git(root, "update-index", "--split-index")
    return root


@state
def a_sha256_repository(folder: Path) -> Path:
    root = no_repository(folder)
    git(root, "init", "-q", "--object-format=sha256")
    git(root, "add", "a.txt")
    return root


def every_git_file(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """All there is below any `.git`, the worktrees' and submodules' too, with time stamps."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if ".git" in path.parts and not path.is_dir() and path.exists():
            status = path.lstat()
            # `git status`, which this test runs itself, gives a shared index a new time stamp.
            changed = 0 if path.name.startswith("sharedindex.") else status.st_mtime_ns
            found[str(path)] = (path.read_bytes(), changed, status.st_mode)
    return found


def status(root: Path) -> str:
    """Without refreshing the index, which would change it."""
    command = [
        "git",
        "--no-optional-locks",
        "status",
        "--porcelain=v2",
        "--branch",
        "--untracked-files=all",
    ]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout


def work_with_bash(root: Path) -> None:
    """What commands do to files, by the commands."""
    script = """
        find . -name .git -prune -o -type f -name '*.txt' -exec sed -i 's/$/!/' {} +
        rm -rf src
        mkdir -p made/deep && echo made > made/deep/file && ln -s ../made made/link
        if [ -e b.txt ]; then mv b.txt moved.txt; fi
        if [ -e run.sh ]; then chmod -x run.sh; fi
        printf 'x' > 'a name
with a line'; : > nothing; rm -f link; mkdir link; echo in > link/in
    """
    subprocess.run(["sh", "-ec", script], cwd=root, check=True)


@pytest.mark.parametrize("name", STATES)
async def test_what_bash_did_is_undone_and_redone_and_the_repository_is_as_it_was(
    tmp_path: Path, name: str
) -> None:
    root = STATES[name](tmp_path)
    checkpoints = GitCheckpoints(tmp_path / "state", root)
    files, internals, said = look(root), every_git_file(tmp_path), status(root)
    before = await checkpoints.take()
    assert (look(root), every_git_file(tmp_path)) == (files, internals)
    work_with_bash(root)
    changed = look(root)
    after = await checkpoints.take()
    assert changed != files and after.id != before.id
    await checkpoints.restore(before.id, present=after.id)
    assert look(root) == files
    assert (every_git_file(tmp_path), status(root)) == (internals, said)
    assert (await checkpoints.take()).id == before.id
    await checkpoints.restore(after.id, present=before.id)
    assert (look(root), every_git_file(tmp_path)) == (changed, internals)
    assert before.left_out == after.left_out == ()
    checkpoints.close()
