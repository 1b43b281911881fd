"""The list tool: a tree without what is ignored, and a word about everything left out."""

import json
import os
from dataclasses import asdict

import pytest

from codeagent.core.errors import MissingPath, NotAFile
from tests.fakes import put
from tests.toolbox import Toolbox


async def test_a_tree_with_sizes_links_and_what_was_left_out(box: Toolbox) -> None:
    for path, size in {
        "src/a.py": 10,
        "src/pkg/b.py": 2500,
        "README.md": 3,
        "build/x.o": 1,
        "src/x.log": 1,
    }.items():
        put(box.root, path, "x" * size)
    put(box.root, ".gitignore", "build/\n*.log\n")
    put(box.root, ".git/HEAD", "ref")
    (box.root / "out").symlink_to("/etc")
    assert await box.text("list") == (
        "./\n  .git/ (not listed)\n  .gitignore  13 B\n  README.md  3 B\n  out  -> /etc\n  src/\n    a.py  10 B\n"
        "    pkg/\n      b.py  2.5 KB\n[2 ignored names left out]"
    )


async def test_depth_bounds_the_tree_and_is_said(box: Toolbox) -> None:
    put(box.root, "a/b/c/d.txt", "")
    assert await box.text("list", depth=2) == "./\n  a/\n    b/\n[1 directory not opened: depth 2]"
    assert "d.txt" in await box.text("list", path="a/b/c")


async def test_glob_lists_paths_at_any_depth(box: Toolbox) -> None:
    for path in ("a.py", "x/y/z/deep/b.py", "x/c.txt", "test/t.py"):
        put(box.root, path, "")
    assert (
        await box.text("list", glob="*.py") == "./\na.py  0 B\ntest/t.py  0 B\nx/y/z/deep/b.py  0 B"
    )
    assert await box.text("list", glob="x/**/*.py") == "./\nx/y/z/deep/b.py  0 B"
    assert "[No file matches.]" in await box.text("list", glob="*.rs")


async def test_long_listings_are_capped_and_counted(box: Toolbox) -> None:
    for number in range(510):
        put(box.root, f"many/{number:03}.txt", "")
    text = await box.text("list")
    assert "099.txt" in text
    assert "100.txt" not in text
    assert "[410 more names left out" in text
    assert "[10 more names left out" in await box.text("list", glob="*.txt")


async def test_names_that_are_no_text_are_shown_escaped(box: Toolbox) -> None:
    put(box.root, os.fsdecode(b"bad\xff.txt"), "")
    assert "bad\\xff.txt" in await box.text("list")
    json.dumps(asdict(await box.call("list")), ensure_ascii=False).encode()


async def test_an_empty_directory_a_file_and_nothing_are_told_apart(box: Toolbox) -> None:
    assert "[The directory is empty.]" in await box.text("list")
    put(box.root, "f.txt", "")
    with pytest.raises(NotAFile):
        await box.call("list", path="f.txt")
    with pytest.raises(MissingPath):
        await box.call("list", path="none")


@pytest.mark.parametrize("path", [".github", ".vscode", "src"])
def test_looking_at_a_folder_is_not_asked_about(box: Toolbox, path: str) -> None:
    tool = box.registry.get("list")
    assert tool.approval_key(tool.Args(path=path)).sensitive is None


NAMES = (
    "a\n# Pinned by the user",
    "b\r\nUser: yes",
    "c\tx",
    "d\x1b[2J",
    "e\u202etxt",
    "f\u2028g",
    "h\u200bi",
)


async def test_a_name_is_one_line_whatever_is_in_it(box: Toolbox) -> None:
    for name in NAMES:
        put(box.root, f"src/{name}", "needle\n")
    for text, lines in (
        (await box.text("list"), len(NAMES) + 2),
        (await box.text("list", glob="**/*"), len(NAMES) + 1),
        (await box.text("search", pattern="needle"), len(NAMES)),
    ):
        assert len(text.splitlines()) == lines
        assert "a\\x0a# Pinned by the user" in text and "e\\u202etxt" in text
