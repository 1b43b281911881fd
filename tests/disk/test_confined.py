"""Paths confined to one directory: the kernel and the walk find the same, or refuse the same."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.core.errors import WorkspaceError
from codeagent.disk.confined import ConfinedRoot
from codeagent.disk.opens import open_folder

PATHS = (
    ".",
    "a",
    "missing",
    "d/a",
    "d/missing",
    "d/./a",
    "d//a/",
    "d/../a",
    "missing/a",
    "a/below",
    "to_a",
    "to_d/a",
    "d/up/a",
    "out/a",
    "to_out",
    "circle",
    "circle/a",
    "../a",
    "d/..",
    "a\0b",
    "d\0/a",
    "\ud800/a",
    "x" * 300,
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[tuple[int, str]]:
    root = tmp_path / "root"
    (root / "d").mkdir(parents=True)
    (root / "a").write_text("top")
    (root / "d/a").write_text("below")
    links = {
        "to_a": "a",
        "to_d": "d",
        "d/up": "..",
        "out": "..",
        "to_out": "../x",
        "circle": "circle",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    fd = open_folder(root)
    yield fd, str(root)
    os.close(fd)


def located(root: ConfinedRoot, path: str, *, follow: bool) -> str:
    try:
        with root.locate(path, follow=follow) as location:
            return f"{os.fstat(location.parent).st_ino} {location.name} {location.path}"
    except WorkspaceError as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_located_with_the_kernel_as_without(
    folder: tuple[int, str], path: str, follow: bool
) -> None:
    with_kernel, without = (ConfinedRoot(*folder, kernel=kernel) for kernel in (True, False))
    assert located(with_kernel, path, follow=follow) == located(without, path, follow=follow)


@pytest.mark.parametrize("kernel", [True, False])
def test_a_path_is_never_cut_at_a_nul(folder: tuple[int, str], kernel: bool) -> None:
    with pytest.raises(WorkspaceError, match="is not a path"):
        ConfinedRoot(*folder, kernel=kernel).open("a\0.yaml", os.O_RDONLY)


def test_locating_leaves_no_descriptor_open(folder: tuple[int, str]) -> None:
    root = ConfinedRoot(*folder)
    before = os.listdir("/proc/self/fd")  # noqa: PTH208  # only the names are compared
    for path in PATHS:
        for follow in (True, False):
            located(root, path, follow=follow)
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208  # only the names are compared
