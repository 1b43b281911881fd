"""The package cache: what is kept of it and what is removed, whatever commands put there."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codeagent.sandbox import packages
from codeagent.sandbox.packages import PackageCache, package_cache, package_caches
from tests.table import for_each

ENTRY = 4096
"""What the smallest file and a folder of a removed unit count."""
UNPACKED = "go/example.org/module@v1"
CONTENT = "npm/_cacache/content-v2/sha512/ab"


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[PackageCache]:
    workspace = tmp_path / "project"
    workspace.mkdir()
    cache = package_cache(tmp_path / "state", workspace)
    cache.open(os.getuid())
    yield cache


def put(cache: PackageCache, *names: str) -> None:
    """One-byte files, each used an hour after the one before it."""
    for number, name in enumerate(names):
        path = cache.folder / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        when = time.time() + (number + 1) * 3600
        os.utime(path, (when, when))


def left(cache: PackageCache) -> set[str]:
    files = cache.folder / "files"
    return {str(path.relative_to(files)) for path in files.rglob("*") if not path.is_dir()}


@for_each(
    ("kept", "entries", "stays"),
    [
        (("pip/a", "pip/b", "pip/c"), 3, {"pip/a", "pip/b", "pip/c"}),
        (("pip/a", "pip/b", "pip/c"), 2, {"pip/b", "pip/c"}),
        (("pip/http-v2/1/2/3/4/5/a", "pip/http-v2/1/2/3/4/5/b"), 1, {"pip/http-v2/1/2/3/4/5/b"}),
        (
            (f"{CONTENT}/a", f"{CONTENT}/b", "npm/_npx/1/a", "npm/_npx/1/b"),
            3,
            {"npm/_npx/1/a", "npm/_npx/1/b"},
        ),
        (
            ("npm/_npx/1/a", f"{CONTENT}/a", f"{CONTENT}/b", "npm/_npx/1/b"),
            3,
            {"npm/_npx/1/a", "npm/_npx/1/b"},
        ),
        ((f"{UNPACKED}/a", f"{UNPACKED}/b", "pip/a"), 3, {"pip/a"}),
        (("uv/archive-v0/1/a", "uv/archive-v0/1/b", "uv/archive-v0/2/a"), 2, {"uv/archive-v0/2/a"}),
        (
            ("cargo/registry/src/i/c-1/a", "cargo/registry/cache/i/c-1"),
            3,
            {"cargo/registry/cache/i/c-1"},
        ),
        (("cargo/registry/src/i/c-1/a", "cargo/registry/cache/i/c-1"), 2, set()),
    ],
)
def test_what_was_not_used_for_the_longest_time_goes_first_and_what_is_unpacked_goes_whole(
    cache: PackageCache, kept: tuple[str, ...], entries: int, stays: set[str]
) -> None:
    put(cache, *kept)
    cache.trim(entries * ENTRY)
    assert left(cache) == stays
    assert cache.size() <= entries * ENTRY
    cache.clear()
    assert not any((cache.folder / "files").iterdir())


def deep(top: Path, levels: int) -> None:
    """Folders in folders, deeper than any path can be."""
    folder = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d" * 100, dir_fd=folder)
        inner = os.open("d" * 100, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)


def _too_large(files: Path) -> None:
    (files / "pip" / "hog").write_bytes(b"x" * 20 * ENTRY)


def _nested(files: Path) -> None:
    (files / "uv" / "a" / "b").mkdir(parents=True)
    deep(files / "uv" / "a" / "b", 1500)


def _unreadable(files: Path) -> None:
    (files / "go" / "a" / "b" / "c").mkdir(parents=True)
    for number in range(12):
        (files / "go" / "a" / "b" / "c" / str(number)).touch()
    for folder in ("go/a/b/c", "go/a/b", "go/a", "."):
        (files / folder).chmod(0)


def _empty_folders(files: Path) -> None:
    for number in range(12):
        (files / "junk" / str(number)).mkdir(parents=True, exist_ok=True)


@pytest.mark.parametrize("hostile", [_too_large, _nested, _unreadable, _empty_folders])
def test_nothing_that_a_command_leaves_there_outgrows_it_or_cannot_be_removed(
    cache: PackageCache, hostile: Callable[[Path], None]
) -> None:
    put(cache, "pip/a")
    hostile(cache.folder / "files")
    cache.trim(10 * ENTRY)
    assert cache.size() <= 10 * ENTRY
    if hostile is not _empty_folders:
        assert left(cache) == {"pip/a"}, "what can never fit goes first"
    hostile(cache.folder / "files")
    cache.forget()
    assert not cache.folder.exists()


def test_a_cache_of_more_parts_than_are_counted_is_emptied(
    cache: PackageCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "_MOST_UNITS", 3)
    put(cache, "pip/a", "pip/b", "pip/c")
    cache.trim(100 * ENTRY)
    assert len(left(cache)) == 3
    put(cache, "pip/d")
    cache.trim(100 * ENTRY)
    assert left(cache) == set()


def test_links_are_removed_and_what_they_lead_to_is_neither_counted_nor_touched(
    cache: PackageCache, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keys").write_bytes(b"x" * 20 * ENTRY)
    outside.chmod(0o500)
    for name in ("link", "pip/link", "uv/a/b"):
        link = cache.folder / "files" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(outside)
    assert cache.size() == 3 * ENTRY
    cache.trim(0)
    assert left(cache) == set()
    assert (outside / "keys").stat().st_size == 20 * ENTRY
    assert outside.stat().st_mode & 0o777 == 0o500


@pytest.mark.parametrize("part", ["files", "removed"])
def test_a_link_in_the_place_of_the_cache_itself_is_refused(
    cache: PackageCache, tmp_path: Path, part: str
) -> None:
    put(cache, "pip/a")
    outside = tmp_path / "outside"
    (outside / "pip").mkdir(parents=True)
    (outside / "pip" / "mine").touch()
    shutil.rmtree(cache.folder / part, ignore_errors=True)
    (cache.folder / part).symlink_to(outside)
    with pytest.raises(NotADirectoryError):
        cache.clear()
    if part == "files":
        with pytest.raises(NotADirectoryError):
            cache.open(os.getuid())
    assert (outside / "pip" / "mine").exists()


def test_what_a_killed_process_was_removing_is_removed_by_the_next(cache: PackageCache) -> None:
    half = cache.folder / "removed" / "0123" / "half"
    half.mkdir(parents=True)
    cache.trim(ENTRY)
    assert not any((cache.folder / "removed").iterdir())


def test_sessions_may_trim_and_clear_at_once(cache: PackageCache) -> None:
    put(cache, *(f"uv/archive-v0/{number}/{name}" for number in range(60) for name in "ab"))
    again = PackageCache(cache.folder, cache.workspace)
    work = [
        lambda: cache.trim(20 * ENTRY),
        lambda: again.trim(10 * ENTRY),
        again.clear,
        cache.clear,
    ]
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert left(cache) == set()
    cache.trim(0)
    assert not any((cache.folder / "removed").iterdir())


def test_another_folder_in_its_place_has_another_cache_and_the_old_one_is_an_orphan(
    cache: PackageCache, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    assert package_cache(state, cache.workspace) == cache
    (tmp_path / "link").symlink_to(cache.workspace)
    assert package_cache(state, tmp_path / "link") == cache
    assert package_caches(state) == (cache,)
    assert not cache.is_orphan
    cache.workspace.rename(tmp_path / "moved")
    assert cache.is_orphan
    cache.workspace.mkdir()
    assert package_cache(state, cache.workspace) != cache
    assert cache.is_orphan
    (cache.folder / "workspace").unlink()
    assert package_caches(state)[0].is_orphan
    cache.forget()
    assert package_caches(state) == ()


def test_it_is_private_and_takes_the_owner_of_the_workspace(cache: PackageCache) -> None:
    (cache.folder / "files").chmod(0)
    path, inode = cache.open(os.getuid())
    status = path.stat()
    assert (status.st_ino, status.st_uid, status.st_mode & 0o777) == (inode, os.getuid(), 0o700)
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    if os.getuid() == 0:
        assert cache.open(1234)[0].stat().st_uid == 1234
    else:
        with pytest.raises(PermissionError):
            cache.open(os.getuid() + 1)
