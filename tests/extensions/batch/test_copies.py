"""Copies of repositories: mirrors, working copies, and the patch of what was changed in them."""

import subprocess
from pathlib import Path

import pytest

from codeagent.core.errors import ConfigError
from codeagent.extensions.batch.copies import Mirror, changed_lines


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
    found.update(str(repository))
    return found


def test_a_working_copy_is_at_its_commit_and_leads_nowhere_else(
    mirror: Mirror, repository: Path, tmp_path: Path
) -> None:
    commit = mirror.commit("main")
    mirror.check_out(commit, tmp_path / "copy")
    assert (tmp_path / "copy" / "a.txt").read_text() == "one\n"
    assert git(tmp_path / "copy", "rev-parse", "HEAD") == git(repository, "rev-parse", "HEAD")
    assert git(tmp_path / "copy", "remote") == ""
    assert not (tmp_path / "copy/.git/objects/info/alternates").exists()


def test_an_update_brings_what_is_new(mirror: Mirror, repository: Path) -> None:
    (repository / "a.txt").write_text("two\n")
    git(repository, "commit", "-qam", "second")
    mirror.update(str(repository))
    assert mirror.commit("main") == git(repository, "rev-parse", "HEAD")


def test_a_bundle_is_a_repository_too(repository: Path, tmp_path: Path) -> None:
    git(repository, "bundle", "create", "-q", str(tmp_path / "it.bundle"), "--all")
    mirror = Mirror.of(str(tmp_path / "it.bundle"), tmp_path / "mirrors")
    mirror.update(str(tmp_path / "it.bundle"))
    assert mirror.commit("main") == git(repository, "rev-parse", "HEAD")


def test_a_patch_makes_of_the_commit_what_is_in_the_copy(
    mirror: Mirror, repository: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    mirror.check_out(mirror.commit("main"), copy)
    (copy / "a.txt").write_text("one\ntwo\n++ three\n")
    (copy / "new.bin").write_bytes(bytes(range(256)))
    (copy / "run.log").write_text("left out")
    (copy / "link").symlink_to("/etc/passwd")
    patch = mirror.patch(mirror.commit("main"), copy)
    (tmp_path / "it.diff").write_bytes(patch)
    git(repository, "apply", "--index", str(tmp_path / "it.diff"))
    assert (repository / "new.bin").read_bytes() == bytes(range(256))
    assert (repository / "a.txt").read_text() == "one\ntwo\n++ three\n"
    assert not (repository / "run.log").exists()
    assert changed_lines(patch) == (3, 3, 0)


def test_a_commit_that_the_agent_made_is_part_of_the_patch(mirror: Mirror, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    mirror.check_out(mirror.commit("main"), copy)
    (copy / "a.txt").write_text("two\n")
    git(copy, "commit", "-qam", "own")
    assert changed_lines(mirror.patch(mirror.commit("main"), copy)) == (1, 1, 1)


def test_nothing_of_the_copy_s_own_repository_is_run_for_a_patch(
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
    assert b"+two" in mirror.patch(mirror.commit("main"), copy)
    assert not ran.exists()


@pytest.mark.parametrize("name", ["gone", "--help", "main;ls"])
def test_a_commit_that_is_not_there_is_told(name: str, mirror: Mirror) -> None:
    with pytest.raises(ConfigError, match="git rev-parse"):
        mirror.commit(name)


@pytest.mark.parametrize("repository", ["/nowhere/at/all", "ext::sh -c touch% ran"])
def test_a_repository_that_cannot_be_copied_leaves_nothing(repository: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="git clone"):
        Mirror.of(repository, tmp_path / "mirrors").update(repository)
    assert [each.suffix for each in (tmp_path / "mirrors").iterdir()] == [".lock"]
