"""The tools glob and tree: what a directory holds, ignored files left out."""

import pytest

from codeagent.core.tool import InvalidArgs
from tests.extensions.file_tools.conftest import ExtraBox
from tests.fakes import put


@pytest.fixture(autouse=True)
def files(box: ExtraBox) -> None:
    put(box.root, ".gitignore", "build/\n")
    for path in (
        "a.py",
        "src/b.py",
        "src/deep/er/c.py",
        "src/deep/c.txt",
        "src/b_pb2.py",
        "build/d.py",
    ):
        put(box.root, path, "x\n")


async def test_glob_lists_what_matches_one_pattern_and_none_that_leaves_out(box: ExtraBox) -> None:
    text = await box.text("glob", patterns=["*.py", "*.txt", "!*_pb2.py"])
    paths = [line.split()[0] for line in text.split("\n")[1:] if not line.startswith("[")]
    assert paths == ["a.py", "src/b.py", "src/deep/c.txt", "src/deep/er/c.py"]
    assert "[1 ignored name left out]" in text
    result = await box.call("glob", path="src/deep", patterns=["!*.txt"])
    assert result.details["files"] == 1


async def test_glob_says_if_nothing_matches_or_a_pattern_is_none(box: ExtraBox) -> None:
    assert "[No file matches.]" in await box.text("glob", patterns=["*.rs"])
    with pytest.raises(InvalidArgs, match="'#x' is not a pattern"):
        await box.call("glob", patterns=["#x"])


async def test_tree_shows_all_levels_or_only_the_directories(box: ExtraBox) -> None:
    assert "      c.py  2 B" in await box.text("tree")
    assert await box.text("tree", folders=True) == (
        "./\n  src/  4 files\n    deep/  2 files\n      er/  1 file\n[1 ignored name left out]"
    )
    assert "[1 directory not opened: depth 2]" in await box.text("tree", depth=2)
