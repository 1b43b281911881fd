"""Checkpoints: nothing of the workspace is run, nothing outside is read or
written."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from codeagent.core.checkpoints import Node
from codeagent.core.errors import CheckpointError
from codeagent.workspace.checkpoints import GitCheckpoints
from tests.effort import times
from tests.fakes import put
from tests.security.race import CANARY, Arena, make_arena, swapping
from tests.workspace.trees import git, look

TRIES = times(6)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def checkpoints(tmp_path: Path, root: Path) -> Iterator[GitCheckpoints]:
    made = GitCheckpoints(tmp_path / "state", root, environment={"HOME": str(tmp_path)})
    yield made
    made.close()


def poison(repository: Path, marker: Path) -> None:
    """Everything that git would run for this repository leaves the marker."""
    program = repository.parent / f"{marker.name}.sh"
    program.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n")
    program.chmod(0o755)
    for key in (
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "diff.evil.textconv",
        "diff.evil.command",
        "diff.external",
        "merge.evil.driver",
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "core.editor",
        "gpg.program",
        "alias.add",
        "alias.fast-import",
    ):
        git(repository, "config", key, str(program))
    git(repository, "config", "core.hooksPath", str(repository.parent))
    git(repository, "config", "commit.gpgSign", "true")
    git(repository, "config", "core.alternateRefsCommand", str(program))
    (repository / ".gitattributes").write_text(
        "* filter=evil diff=evil merge=evil ident text eol=crlf\n"
    )
    (repository / ".gitmodules").write_text(
        f'[submodule "x"]\n\tpath = x\n\turl = ext::{program}\n\tupdate = !{program}\n'
    )
    for hook in (
        "post-index-change",
        "pre-commit",
        "post-checkout",
        "reference-transaction",
        "pre-auto-gc",
    ):
        shutil.copy(program, repository.parent / hook)


def poisoned(folder: Path, marker: Path, where: str) -> None:
    target = folder if where == "." else folder / where
    target.mkdir(parents=True, exist_ok=True)
    git(target, "init", "-q", *(("--bare",) if where == "bare" else ()))
    put(target, "a.txt", "one\n")
    poison(target, marker)


async def everything(checkpoints: GitCheckpoints, root: Path) -> None:
    """Each operation, over files that the attributes name."""
    before = await checkpoints.take()
    put(root, "a.txt", "two $Id$\r\n")
    put(root, "nested/a.txt", "two\n")
    put(root, ".gitattributes.d", "x")
    await checkpoints.changes(before.id, None)
    after = await checkpoints.take()
    await checkpoints.node(before.id, "a.txt")
    await checkpoints.restore(before.id, present=after.id)
    await checkpoints.restore(after.id, present=before.id)
    assert (root / "a.txt").read_bytes() == b"two $Id$\r\n"
    await checkpoints.replace(
        "a.txt", Node("file", b"three"), present=Node("file", b"two $Id$\r\n")
    )
    await checkpoints.prune()
    await checkpoints.recover()


@pytest.mark.parametrize("where", [".", "nested", "bare", "deep/er/nested"])
async def test_nothing_that_a_poisoned_work_tree_names_is_run(
    checkpoints: GitCheckpoints, root: Path, tmp_path: Path, where: str
) -> None:
    marker = tmp_path / "fired"
    poisoned(root, marker, where)
    await everything(checkpoints, root)
    assert not marker.exists()
    git(root / where, "status", check=False)
    git(root / where, "--work-tree=.", "add", "-A", check=False)
    assert marker.exists(), "the poison works under plain git"


async def test_no_git_that_the_workspace_brings_along_is_run(
    checkpoints: GitCheckpoints, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = root / "bin/git"
    put(root, "bin/git", f"#!/bin/sh\ntouch {tmp_path}/fired\n")
    program.chmod(0o755)
    (tmp_path / "linked").symlink_to(root / "bin")
    monkeypatch.setenv("PATH", f".:{root}/bin:{tmp_path}/linked:{os.environ['PATH']}")
    monkeypatch.chdir(root / "bin")
    assert (await checkpoints.take()).files == 1
    assert not (tmp_path / "fired").exists()


async def test_a_pointer_to_a_repository_that_does_not_point_back_is_not_read(
    checkpoints: GitCheckpoints, root: Path, tmp_path: Path
) -> None:
    put(tmp_path, "canary/info/exclude", "*\n")
    put(tmp_path, "canary/commondir", ".\n")
    put(tmp_path, "canary/gitdir", f"{tmp_path}/elsewhere/.git\n")
    put(root, "a.txt", "one")
    for pointer in (f"gitdir: {tmp_path}/canary\n", "gitdir: ../canary\n"):
        (root / ".git").write_text(pointer)
        assert (await checkpoints.take()).files == 1
    (root / ".git").unlink()
    (root / ".git").symlink_to(tmp_path / "canary")
    assert (await checkpoints.take()).files == 1


def links(root: Path, outside: Path) -> None:
    """Every kind of link that a repository may come with."""
    (root / "file").symlink_to(outside / "f.txt")
    (root / "folder").symlink_to(outside)
    (root / "up").symlink_to("../outside/f.txt")
    (root / "dangling").symlink_to(outside / "none")
    (root / "loop").symlink_to("loop")
    (root / ".gitignore").symlink_to(outside / "f.txt")
    for number in range(40):
        (root / f"chain{number}").symlink_to(f"chain{number + 1}")
    (root / "chain40").symlink_to(outside)


async def test_links_are_kept_as_links_and_never_followed(
    checkpoints: GitCheckpoints, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    put(outside, "f.txt", f"{CANARY}\n")
    links(root, outside)
    before, canary = look(root), look(outside)
    snapshot = await checkpoints.take()
    assert snapshot.files == len(before)
    for path in before:
        node = await checkpoints.node(snapshot.id, os.fsdecode(path))
        assert node == await checkpoints.node(None, os.fsdecode(path))
        assert node is not None and node.kind == "link"
    assert await checkpoints.node(None, "folder/f.txt") is None
    for path in sorted(before):
        (root / os.fsdecode(path)).unlink()
    await checkpoints.restore(snapshot.id, present=(await checkpoints.take()).id)
    assert (look(root), look(outside)) == (before, canary)


@pytest.mark.parametrize("depth", ["d", "d/e"])
async def test_a_folder_that_became_a_link_to_outside_is_not_written_through(
    checkpoints: GitCheckpoints, root: Path, tmp_path: Path, depth: str
) -> None:
    outside = tmp_path / "outside"
    put(root, f"{depth}/f.txt", "one")
    put(root, f"{depth}/only-then.txt", "one")
    before = await checkpoints.take()
    put(root, f"{depth}/f.txt", "two")
    (root / depth / "only-then.txt").unlink()
    put(root, f"{depth}/new.txt", "two")
    after = await checkpoints.take()
    shutil.move(root / depth, outside)
    (root / depth).symlink_to(outside)
    canary = look(outside)
    with pytest.raises(
        CheckpointError, match="changed since the last snapshot; nothing was changed"
    ):
        await checkpoints.restore(before.id, present=after.id)
    with pytest.raises(CheckpointError, match="nothing was changed"):
        await checkpoints.replace(
            f"{depth}/f.txt", Node("file", b"x"), present=Node("file", b"two")
        )
    with pytest.raises(CheckpointError, match="nothing was changed"):
        await checkpoints.replace(f"{depth}/made.txt", Node("file", b"x"), present=None)
    assert look(outside) == canary
    then = await checkpoints.take()
    await checkpoints.restore(before.id, present=then.id)
    assert look(outside) == canary and (root / depth / "f.txt").read_text() == "one"
    assert not (root / depth).is_symlink()


async def back_and_forth(checkpoints: GitCheckpoints, ids: tuple[str, str], turn: int) -> None:
    await checkpoints.restore(ids[turn % 2], present=ids[1 - turn % 2])


async def take_and_restore(checkpoints: GitCheckpoints, ids: tuple[str, str], turn: int) -> None:
    present = (await checkpoints.take()).id
    await checkpoints.restore(ids[turn % 2], present=present, paths=["d/f.txt", "d/f1.txt"])


async def take_and_compare(checkpoints: GitCheckpoints, ids: tuple[str, str], turn: int) -> None:
    for change in await checkpoints.changes(ids[0], None):
        assert CANARY not in change.path
    snapshot = (await checkpoints.take()).id
    for path in ("d/f.txt", "s/f.txt"):
        for node in (await checkpoints.node(snapshot, path), await checkpoints.node(None, path)):
            assert node is None or CANARY.encode() not in node.data


async def replace(checkpoints: GitCheckpoints, ids: tuple[str, str], turn: int) -> None:
    if turn % 3 == 0:
        await checkpoints.replace(f"d/deep/er-{turn}", Node("file", b"x"), present=None)
        return
    path = ("d/f.txt", "s/f.txt")[turn % 2]
    there = await checkpoints.node(None, path)
    await checkpoints.replace(path, Node("file", b"turn %d" % turn), present=there)


@pytest.mark.soak(tried=TRIES, row="path race")
@pytest.mark.parametrize("attempt", [back_and_forth, take_and_restore, take_and_compare, replace])
async def test_nothing_outside_is_read_or_written_while_a_directory_becomes_a_link(
    tmp_path: Path, attempt: Callable[[GitCheckpoints, tuple[str, str], int], Awaitable[None]]
) -> None:
    arena = make_arena(tmp_path)
    checkpoints = GitCheckpoints(
        tmp_path / "state", arena.root, environment={"HOME": str(tmp_path)}
    )
    first = (await checkpoints.take()).id
    for number in range(5):
        put(arena.root, f"d/f{number}.txt", "other")
    put(arena.root, "d/f.txt", "other")
    ids = (first, (await checkpoints.take()).id)
    before = arena.outside_state()
    tries, worked = await _raced(arena, checkpoints, ids, attempt)
    sys.stdout.write(f"\n{attempt.__name__}: {tries} tries, {worked} worked\n")
    assert arena.outside_state() == before
    assert all(CANARY.encode() not in data for _, data, _ in look(arena.root).values())
    assert b"inside-value" in objects(arena) and CANARY.encode() not in objects(arena)
    checkpoints.close()


async def _raced(
    arena: Arena,
    checkpoints: GitCheckpoints,
    ids: tuple[str, str],
    attempt: Callable[[GitCheckpoints, tuple[str, str], int], Awaitable[None]],
) -> tuple[int, int]:
    tries = worked = 0
    with swapping(arena.root):
        while tries < TRIES or not worked:
            tries += 1
            try:
                await attempt(checkpoints, ids, tries)
                worked += 1
            except CheckpointError:
                pass
            # A restore that lost the race midway is taken up again, perhaps to lose it again.
            with contextlib.suppress(CheckpointError):
                await checkpoints.recover()
    await checkpoints.recover()
    return tries, worked


def objects(arena: Arena) -> bytes:
    """Everything the store holds."""
    (store,) = (arena.root.parent / "state/checkpoints").glob("*")
    command = ["git", f"--git-dir={store}/git", "cat-file", "--batch-all-objects", "--batch"]
    return subprocess.run(command, capture_output=True, check=True).stdout
