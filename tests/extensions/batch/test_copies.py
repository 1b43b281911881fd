"""Mirrors of repositories, working copies, and the patches of what changed in them."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from codeagent.core.errors import ConfigError
from codeagent.extensions.batch import copies as module
from codeagent.extensions.batch.copies import Mirror, alone, changed_lines, discard
from tests.e2e.product import running


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


@pytest.fixture
def mirror(repository: Path, tmp_path: Path) -> Mirror:
    found = Mirror.of(str(repository), tmp_path / "mirrors")
    asyncio.run(found.update(str(repository)))
    return found


def patch_of(mirror: Mirror, copy: Path) -> bytes:
    to = copy.parent / "patch.diff"
    assert mirror.patch(mirror.commit("main"), copy, to) == ""
    return to.read_bytes()


def test_a_working_copy_is_at_its_commit_and_has_no_remote(
    mirror: Mirror, repository: Path, tmp_path: Path
) -> None:
    commit = mirror.commit("main")
    mirror.check_out(commit, tmp_path / "copy")
    assert (tmp_path / "copy" / "a.txt").read_text() == "one\n"
    assert git(tmp_path / "copy", "rev-parse", "HEAD") == git(repository, "rev-parse", "HEAD")
    assert git(tmp_path / "copy", "remote") == ""
    assert not (tmp_path / "copy/.git/objects/info/alternates").exists()


def test_an_update_fetches_what_is_new(mirror: Mirror, repository: Path) -> None:
    (repository / "a.txt").write_text("two\n")
    git(repository, "commit", "-qam", "second")
    asyncio.run(mirror.update(str(repository)))
    assert mirror.commit("main") == git(repository, "rev-parse", "HEAD")


def test_a_bundle_is_a_repository_too(repository: Path, tmp_path: Path) -> None:
    git(repository, "bundle", "create", "-q", str(tmp_path / "it.bundle"), "--all")
    mirror = Mirror.of(str(tmp_path / "it.bundle"), tmp_path / "mirrors")
    asyncio.run(mirror.update(str(tmp_path / "it.bundle")))
    assert mirror.commit("main") == git(repository, "rev-parse", "HEAD")


def test_a_patch_turns_the_commit_into_the_working_copy(
    mirror: Mirror, repository: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    mirror.check_out(mirror.commit("main"), copy)
    (copy / "a.txt").write_text("one\ntwo\n++ three\n")
    (copy / "new.bin").write_bytes(bytes(range(256)))
    (copy / "run.log").write_text("left out")
    (copy / "link").symlink_to("/etc/passwd")
    patch = patch_of(mirror, copy)
    (tmp_path / "it.diff").write_bytes(patch)
    git(repository, "apply", "--index", str(tmp_path / "it.diff"))
    assert (repository / "new.bin").read_bytes() == bytes(range(256))
    assert (repository / "a.txt").read_text() == "one\ntwo\n++ three\n"
    assert not (repository / "run.log").exists()
    assert changed_lines(patch.split(b"\n")) == (3, 3, 0)


def test_a_commit_that_the_agent_made_is_part_of_the_patch(mirror: Mirror, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    mirror.check_out(mirror.commit("main"), copy)
    (copy / "a.txt").write_text("two\n")
    git(copy, "commit", "-qam", "own")
    assert changed_lines(patch_of(mirror, copy).split(b"\n")) == (1, 1, 1)


def test_making_a_patch_runs_nothing_of_the_working_copys_own_repository(
    mirror: Mirror, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    mirror.check_out(mirror.commit("main"), copy)
    ran = tmp_path / "ran"
    git(copy, "config", "filter.evil.clean", f"touch {ran}; cat")
    git(copy, "config", "core.fsmonitor", f"touch {ran}")
    git(copy, "config", "diff.external", f"touch {ran}")
    (copy / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (copy / "a.txt").write_text("two\n")
    assert b"+two" in patch_of(mirror, copy)
    assert not ran.exists()


@pytest.mark.parametrize("name", ["gone", "--help", "main;ls"])
def test_a_missing_commit_is_an_error_that_names_it(name: str, mirror: Mirror) -> None:
    with pytest.raises(ConfigError, match="no commit, branch or tag"):
        mirror.commit(name)


@pytest.mark.parametrize("repository", ["/nowhere/at/all", "ext::sh -c touch% ran"])
def test_a_repository_that_cannot_be_copied_leaves_nothing(repository: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="git clone"):
        asyncio.run(Mirror.of(repository, tmp_path / "mirrors").update(repository))
    assert [each.suffix for each in (tmp_path / "mirrors").iterdir()] == [".lock"]


def test_a_patch_includes_what_git_would_not_add_by_itself(
    mirror: Mirror, repository: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    mirror.check_out(mirror.commit("main"), copy)
    for name in ("empty", "own", "deep/.GIT"):
        (copy / name).mkdir(parents=True)
        (copy / name / "new.txt").write_text("new\n")
    git(copy / "empty", "init", "-q")
    git(copy / "own", "init", "-q")
    git(copy / "own", "add", ".")
    git(copy / "own", "commit", "-qm", "own")
    (copy / "shut").mkdir()
    (copy / "shut" / "f\n\udcff").write_text("odd\n")
    (copy / "shut" / "f\n\udcff").chmod(0)
    (copy / "shut").chmod(0)
    patch = patch_of(mirror, copy)
    (tmp_path / "it.diff").write_bytes(patch)
    git(repository, "apply", "--index", str(tmp_path / "it.diff"))
    listed = git(repository, "ls-files").split("\n")
    assert listed == [".gitignore", "a.txt", "empty/new.txt", "own/new.txt", '"shut/f\\n\\377"']
    assert not [each for each in tmp_path.iterdir() if each.suffix == ".git"]


def test_a_large_file_is_left_out_and_named_unless_it_is_ignored(
    mirror: Mirror, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    mirror.check_out(mirror.commit("main"), copy)
    for name in ("huge *.bin", "huge.log", "a.txt"):
        with (copy / name).open("wb") as file:
            file.truncate(101 << 20)
    (copy / "new.txt").write_text("new\n")
    to = tmp_path / "patch.diff"
    said = mirror.patch(mirror.commit("main"), copy, to)
    assert "larger than 100 MB" in said
    assert "huge *.bin" in said
    assert "a.txt" in said
    assert "huge.log" not in said
    assert to.read_bytes().count(b"diff --git") == 1


def test_a_task_that_writes_to_its_git_objects_changes_no_other_working_copy(
    mirror: Mirror, tmp_path: Path
) -> None:
    mirror.check_out(mirror.commit("main"), tmp_path / "copy")
    for each in (tmp_path / "copy/.git/objects").rglob("*"):
        if each.is_file():
            each.chmod(0o600)
            each.write_text("evil")
    mirror.check_out(mirror.commit("main"), tmp_path / "other")
    assert (tmp_path / "other" / "a.txt").read_text() == "one\n"


def test_a_mirror_has_the_head_of_its_repository(mirror: Mirror, repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "feature")
    git(repository, "commit", "-q", "--allow-empty", "-m", "on the branch")
    asyncio.run(mirror.update(str(repository)))
    assert mirror.commit("HEAD") == git(repository, "rev-parse", "HEAD")


def test_what_a_killed_git_left_in_a_mirror_does_not_prevent_an_update(
    mirror: Mirror, repository: Path
) -> None:
    git(repository, "tag", "new")
    (mirror.folder.with_suffix(".new") / "objects").mkdir(parents=True)
    for name in ("packed-refs.lock", "HEAD.lock", "refs/tags/new.lock", "objects/pack/tmp_pack_x"):
        (mirror.folder / name).touch()
    asyncio.run(mirror.update(str(repository)))
    assert mirror.commit("new")
    assert not list(mirror.folder.rglob("tmp_*"))


def test_a_reference_can_be_removed_after_git_was_killed_while_writing_references(
    repository: Path, tmp_path: Path
) -> None:
    git(repository, "branch", "old")
    mirror = Mirror.of(str(repository), tmp_path / "mirrors")
    asyncio.run(mirror.update(str(repository)))
    git(repository, "branch", "-D", "old")
    (mirror.folder / "packed-refs.new").touch()
    asyncio.run(mirror.update(str(repository)))
    with pytest.raises(ConfigError, match="no commit, branch or tag old"):
        mirror.commit("old")


async def test_a_lock_is_free_when_its_work_is_done_even_if_git_left_a_program_running(
    tmp_path: Path,
) -> None:
    async with alone(tmp_path / "lock", 5) as lock:
        left = await asyncio.create_subprocess_exec("sleep", "60", pass_fds=(lock,))
    try:
        async with alone(tmp_path / "lock", 5):
            pass
    finally:
        left.kill()
        await left.wait()


def test_a_mirror_whose_making_was_cut_off_is_made_again(repository: Path, tmp_path: Path) -> None:
    found = Mirror.of(str(repository), tmp_path / "mirrors")
    found.folder.with_suffix(".new").mkdir(parents=True)
    (found.folder.with_suffix(".new") / "HEAD").write_text("half")
    asyncio.run(found.update(str(repository)))
    assert found.commit("main")


async def test_a_mirror_that_another_process_keeps_locked_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.1)
    mirror = Mirror.of("/there", tmp_path)
    async with alone(mirror.folder.with_suffix(".lock"), 5):
        with pytest.raises(ConfigError, match="mirror of /there: another process holds its lock"):
            await mirror.update("/there")


async def test_an_update_of_a_mirror_that_is_cancelled_or_takes_too_long_ends_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    where = f"git://127.0.0.1:{server.sockets[0].getsockname()[1]}/it.git"
    updating = asyncio.ensure_future(Mirror.of(where, tmp_path / "mirrors").update(where))
    await served.wait()
    updating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await updating
    monkeypatch.setattr(module, "_SECONDS", 0.2)
    with pytest.raises(ConfigError, match=r"git clone took longer than 0\.2 seconds"):
        await Mirror.of(where, tmp_path / "mirrors").update(where)
    assert [each.suffix for each in (tmp_path / "mirrors").iterdir()] == [".lock"]
    assert not any(where.encode() in line for line in running())
    server.close()


def test_a_working_copy_is_removed_even_if_its_folders_are_read_only(tmp_path: Path) -> None:
    (tmp_path / "copy/a/b").mkdir(parents=True)
    (tmp_path / "copy/a/b/c").touch()
    (tmp_path / "copy/link").symlink_to(tmp_path)
    for name in ("copy/a/b", "copy/a", "copy"):
        (tmp_path / name).chmod(0o500)
    (tmp_path / "kept").touch()
    discard(tmp_path / "copy")
    discard(tmp_path / "copy")
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]
