"""The edit tool: all or nothing, only what was read, and only what was approved."""

import os

import pytest

from codeagent.core.display import DiffBlock
from codeagent.core.errors import MissingPath, NotAFile, ProtectedPath
from codeagent.core.tool import BaseChanged, Failed, InvalidArgs, ToolError
from tests.fakes import put
from tests.toolbox import Toolbox


@pytest.fixture(autouse=True)
def file(box: Toolbox) -> None:
    put(box.root, "src/a.py", "def f():\n    return 1\n\n\ndef g():\n    return 1\n")


async def test_one_replacement(box: Toolbox) -> None:
    await box.call("read", path="src/a.py")
    result = await box.call(
        "edit",
        path="src/a.py",
        old_string="def f():\n    return 1",
        new_string="def f():\n    return 2",
    )
    assert box.content("src/a.py") == "def f():\n    return 2\n\n\ndef g():\n    return 1\n"
    block = result.blocks[0]
    assert isinstance(block, DiffBlock)
    assert (block.path, block.start_line) == ("src/a.py", 1)
    assert "return 2" in block.after


async def test_several_edits_see_what_the_ones_before_made(box: Toolbox) -> None:
    await box.call("read", path="src/a.py")
    edits = [
        {"old_string": "return 1", "new_string": "return 2", "replace_all": True},
        {"old_string": "def g():\n    return 2", "new_string": "def g():\n    return 3"},
    ]
    assert "3 replacements" in await box.text("edit", path="src/a.py", edits=edits)
    assert box.content("src/a.py") == "def f():\n    return 2\n\n\ndef g():\n    return 3\n"


async def test_when_one_edit_fails_none_is_applied(box: Toolbox) -> None:
    before = box.content("src/a.py")
    await box.call("read", path="src/a.py")
    edits = [
        {"old_string": "def f", "new_string": "def h"},
        {"old_string": "nowhere at all", "new_string": "x"},
    ]
    with pytest.raises(Failed, match="edit 2 of 2: nothing was changed"):
        await box.call("edit", path="src/a.py", edits=edits)
    assert box.content("src/a.py") == before


async def test_an_ambiguous_edit_lists_every_place(box: Toolbox) -> None:
    await box.call("read", path="src/a.py")
    with pytest.raises(Failed, match="2 times, on lines 2, 6"):
        await box.call("edit", path="src/a.py", old_string="return 1", new_string="return 2")


async def test_an_empty_old_string_makes_a_file_and_never_overwrites_one(box: Toolbox) -> None:
    assert "Created new/b.py" in await box.text(
        "edit", path="new/b.py", old_string="", new_string="x\n"
    )
    assert (box.root / "new/b.py").read_text() == "x\n"
    put(box.root, "empty.txt", "")
    await box.call("edit", path="empty.txt", old_string="", new_string="y")
    assert (box.root / "empty.txt").read_text() == "y"
    await box.call("read", path="src/a.py")
    with pytest.raises(InvalidArgs, match="old_string is empty"):
        await box.call("edit", path="src/a.py", old_string="", new_string="z")


async def test_a_file_that_was_not_read_is_not_edited(box: Toolbox) -> None:
    with pytest.raises(Failed, match="was not read in this session"):
        await box.call("edit", path="src/a.py", old_string="def f", new_string="def h")


async def test_a_file_that_changed_since_is_shown_as_a_diff(box: Toolbox) -> None:
    await box.call("read", path="src/a.py")
    before = (box.root / "src/a.py").stat()
    file = put(box.root, "src/a.py", box.content("src/a.py").replace("def g", "def k"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(Failed) as caught:
        await box.call("edit", path="src/a.py", old_string="def f", new_string="def h")
    assert "changed since you read it" in str(caught.value)
    assert "-def g():\n+def k():" in str(caught.value)
    assert "def h" not in box.content("src/a.py")


async def test_a_text_that_is_there_exactly_once_proves_that_the_model_knows_the_place(
    box: Toolbox,
) -> None:
    put(box.root, "long.txt", "".join(f"line {n}\n" for n in range(1, 101)))
    await box.call("read", path="long.txt", offset=10, limit=5)
    await box.call("edit", path="long.txt", old_string="line 50\n", new_string="x\n")
    assert box.content("long.txt").split("\n")[48:51] == ["line 49", "x", "line 51"]


@pytest.mark.parametrize(
    ("old", "replace_all"),
    [("line 50 \n", False), ("line 6", True)],
    ids=["it matches only nearly", "it matches several times"],
)
async def test_lines_that_were_not_read_are_not_edited_by_guess(
    box: Toolbox, old: str, replace_all: bool
) -> None:
    path = put(box.root, "long.txt", "".join(f"line {n}\n" for n in range(1, 101)))
    before = path.read_bytes()
    await box.call("read", path="long.txt", offset=10, limit=5)
    with pytest.raises(Failed, match=r"lines \d+-\d+ .* were not read.*offset=\d+"):
        await box.call(
            "edit", path="long.txt", old_string=old, new_string="x\n", replace_all=replace_all
        )
    assert path.read_bytes() == before


async def test_what_was_edited_stays_known_where_it_moved_to(box: Toolbox) -> None:
    path = put(box.root, "long.txt", "".join(f"line {n}\n" for n in range(1, 101)))
    await box.call("read", path="long.txt", offset=10, limit=5)
    await box.call("edit", path="long.txt", old_string="line 12\n", new_string="x\ny\nz\n")
    await box.call("edit", path="long.txt", old_string="line 14 \n", new_string="w\n")
    with pytest.raises(Failed, match="not read"):
        await box.call("edit", path="long.txt", old_string="line 15 \n", new_string="w\n")
    assert path.read_text().split("\n")[9:17] == [
        "line 10",
        "line 11",
        "x",
        "y",
        "z",
        "line 13",
        "w",
        "line 15",
    ]


async def test_lines_that_a_search_showed_count_as_read(box: Toolbox) -> None:
    await box.call("search", pattern="def g", context=1)
    await box.call(
        "edit",
        path="src/a.py",
        old_string="def g():\n    return 1",
        new_string="def g():\n    return 2",
    )
    assert box.content("src/a.py").endswith("def g():\n    return 2\n")


async def test_a_line_that_a_search_showed_only_in_part_does_not_count_as_read(
    box: Toolbox,
) -> None:
    put(box.root, "wide.txt", "needle" + "x" * 1000 + "\n")
    await box.call("search", pattern="needle")
    with pytest.raises(Failed, match="was not read"):
        await box.call("edit", path="wide.txt", old_string="needle", new_string="pin")


async def test_what_was_approved_is_what_is_applied_or_nothing(box: Toolbox) -> None:
    await box.call("read", path="src/a.py")
    arguments = {"path": "src/a.py", "old_string": "def f", "new_string": "def h"}
    base = await box.preview_base("edit", **arguments)
    await box.call("edit", path="src/a.py", old_string="def g", new_string="def k")
    with pytest.raises(BaseChanged):
        await box.call("edit", base=base, **arguments)
    assert "def h" not in box.content("src/a.py")
    await box.call("edit", base=await box.preview_base("edit", **arguments), **arguments)
    assert "def h" in box.content("src/a.py")


async def test_a_link_that_moves_to_another_file_after_the_approval_is_noticed(
    box: Toolbox,
) -> None:
    put(box.root, "a.txt", "same\n")
    put(box.root, "b.txt", "same\n")
    (box.root / "link").symlink_to("a.txt")
    for name in ("a.txt", "b.txt"):
        await box.call("read", path=name)
    arguments = {"path": "link", "old_string": "same", "new_string": "new"}
    base = await box.preview_base("edit", **arguments)
    (box.root / "link").unlink()
    (box.root / "link").symlink_to("b.txt")
    with pytest.raises(BaseChanged):
        await box.call("edit", base=base, **arguments)


async def test_drift_is_said_in_the_result(box: Toolbox) -> None:
    put(box.root, "a.txt", "x\n    a\n    b\n")
    await box.call("read", path="a.txt")
    text = await box.text("edit", path="a.txt", old_string="a\nb", new_string="a\nc")
    assert "matched line 2 only up to indentation" in text
    assert (box.root / "a.txt").read_text() == "x\n    a\n    c\n"


async def test_after_an_edit_the_file_counts_as_read(box: Toolbox) -> None:
    await box.call("read", path="src/a.py")
    await box.call("edit", path="src/a.py", old_string="def f", new_string="def h")
    await box.call("edit", path="src/a.py", old_string="def h", new_string="def i")
    assert box.content("src/a.py").startswith("def i")


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("none.txt", MissingPath),
        ("src", NotAFile),
        (".git/config", ToolError),
        ("bin.dat", ToolError),
    ],
)
async def test_what_cannot_be_edited_is_an_error_and_stays(
    box: Toolbox, path: str, error: type[Exception]
) -> None:
    put(box.root, ".git/config", "old")
    put(box.root, "bin.dat", b"old\0")
    with pytest.raises(error):
        await box.call("edit", path=path, old_string="old", new_string="new")


async def test_a_protected_file_is_not_edited_even_when_it_was_read(box: Toolbox) -> None:
    put(box.root, ".git/config", "old")
    await box.call("read", path=".git/config")
    with pytest.raises(ProtectedPath):
        await box.call("edit", path=".git/config", old_string="old", new_string="new")
