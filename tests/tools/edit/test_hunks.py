"""A change of which the user took some hunks: exactly those are in the file, and the model is told
which."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from codeagent.core.display import DiffBlock, HunkAnswer, cut
from codeagent.core.tool import BaseChanged, Denied, Failed, Preview, ToolResult
from tests.fakes import put, tool_context
from tests.toolbox import Toolbox

CODE = "import os\n\ndef f():\n    return 1\n\ndef g():\n    return 1\n\nlast = 1\n"
EDITS = [
    {"old_string": "import os", "new_string": "import sys"},
    {"old_string": "def f():\n    return 1", "new_string": "def f():\n    return 2"},
    {"old_string": "last = 1\n", "new_string": "last = 2\nmore = 3\n"},
]


async def preview(box: Toolbox, name: str, arguments: dict[str, Any]) -> Preview:
    tool = box.tool(name)
    return await tool.preview(
        tool.Args.model_validate(arguments, strict=False), tool_context(box.workspace)
    )


async def answered(
    box: Toolbox,
    name: str,
    answers: Sequence[HunkAnswer] | None,
    *,
    base: str | None = "",
    **arguments: Any,
) -> ToolResult:
    """The call as the user allows it, with their answers."""
    tool = box.tool(name)
    shown = await preview(box, name, arguments)
    bound = shown.base if base == "" else base
    context = replace(
        tool_context(box.workspace, base=bound), hunks=None if answers is None else tuple(answers)
    )
    return await tool.run(tool.Args.model_validate(arguments, strict=False), context)


def said(result: ToolResult) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")


@pytest.fixture
async def read(box: Toolbox) -> Toolbox:
    put(box.root, "src/a.py", CODE)
    await box.call("read", path="src/a.py")
    return box


async def test_what_can_be_answered_hunk_by_hunk_says_so(read: Toolbox) -> None:
    shown = await preview(read, "edit", {"path": "src/a.py", "edits": EDITS})
    (block,) = shown.blocks

    assert shown.by_hunk
    assert isinstance(block, DiffBlock)
    assert len(cut(block.before, block.after)) == 3


async def test_a_hunk_left_out_stays_as_it_was_and_the_model_is_told_exactly(read: Toolbox) -> None:
    result = await answered(
        read, "edit", (True, False, ("last = 4", "more = 5")), path="src/a.py", edits=EDITS
    )

    assert read.content("src/a.py") == CODE.replace("os", "sys").replace(
        "last = 1", "last = 4\nmore = 5"
    )
    assert said(result) == (
        "The user took 1 of 3 hunks of this change, changed 1 before applying it and left out 1. "
        "What changed in src/a.py:\n"
        "@@ -1,3 +1,3 @@\n-import os\n+import sys\n \n def f():\n"
        "@@ -7,4 +7,5 @@\n     return 1\n \n-last = 1\n+last = 4\n+more = 5\n \n"
        "Not applied, from the file as it is now to what you proposed:\n"
        "@@ -2,10 +2,10 @@\n \n def f():\n-    return 1\n+    return 2\n \n def g():\n     return 1\n \n"
        "-last = 4\n-more = 5\n+last = 2\n+more = 3\n "
    )
    assert result.details["hunks"] == {"taken": 1, "changed": 1, "left_out": 1}
    assert result.error is None


async def test_the_user_is_shown_what_landed(read: Toolbox) -> None:
    result = await answered(read, "edit", (False, True, False), path="src/a.py", edits=EDITS)
    (block,) = result.blocks

    assert isinstance(block, DiffBlock)
    assert (block.before, block.after) == (CODE, CODE.replace("1", "2", 1))


async def test_where_nothing_is_taken_the_file_is_not_touched_and_the_call_is_denied(
    read: Toolbox,
) -> None:
    path = read.root / "src/a.py"
    before = path.stat()
    with pytest.raises(
        Denied, match=r"the user took none of the 3 hunks; src/a.py was not changed"
    ):
        await answered(read, "edit", (False, False, ("last = 1",)), path="src/a.py", edits=EDITS)
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


async def test_a_new_file_of_which_nothing_is_taken_is_not_made(box: Toolbox) -> None:
    with pytest.raises(Denied):
        await answered(box, "write", (False,), path="new/b.txt", content="x\n")
    assert not (box.root / "new").exists()


async def test_a_new_file_can_be_changed_before_it_is_made(box: Toolbox) -> None:
    result = await answered(box, "write", (("y", "z"),), path="b.txt", content="x\n")

    assert box.content("b.txt") == "y\nz\n"
    assert said(result).startswith(
        "The user took 0 of 1 hunk of this change and changed 1 before applying it."
    )


async def test_all_hunks_taken_is_the_call_as_it_was_made(read: Toolbox) -> None:
    result = await answered(
        read, "edit", (True, ("    return 2",), True), path="src/a.py", edits=EDITS
    )

    assert said(result) == "Edited src/a.py: 3 replacements."
    assert "hunks" not in result.details


@pytest.mark.parametrize("answers", [(), (True, True), (True, True, True, True)])
async def test_an_answer_too_few_or_too_many_changes_nothing(
    read: Toolbox, answers: tuple[bool, ...]
) -> None:
    with pytest.raises(
        Failed, match=r"does not fit this change \(\d answers, 3 hunks\); src/a.py was not changed"
    ):
        await answered(read, "edit", answers, path="src/a.py", edits=EDITS)
    assert read.content("src/a.py") == CODE


async def test_answers_nobody_was_shown_a_change_for_change_nothing(read: Toolbox) -> None:
    with pytest.raises(Failed, match="does not fit"):
        await answered(read, "edit", (True, True, False), base=None, path="src/a.py", edits=EDITS)
    assert read.content("src/a.py") == CODE


async def test_a_file_that_changed_after_it_was_shown_is_asked_about_again(read: Toolbox) -> None:
    shown = await preview(read, "edit", {"path": "src/a.py", "edits": EDITS})
    put(read.root, "src/a.py", CODE + "theirs\n")
    await read.call("read", path="src/a.py")
    with pytest.raises(BaseChanged):
        await answered(
            read, "edit", (True, False, True), base=shown.base, path="src/a.py", edits=EDITS
        )
    assert read.content("src/a.py") == CODE + "theirs\n"


async def test_what_landed_may_be_edited_again_without_reading(read: Toolbox) -> None:
    await answered(read, "edit", (False, ("    return 7",), False), path="src/a.py", edits=EDITS)
    await read.call("edit", path="src/a.py", old_string="return 7", new_string="return 8")

    assert read.content("src/a.py") == CODE.replace("return 1", "return 8", 1)


async def test_lines_of_the_user_s_that_were_too_long_to_tell_must_be_read_first(
    read: Toolbox,
) -> None:
    own = tuple(f"line {at}" for at in range(500))
    result = await answered(read, "edit", (True, True, own), path="src/a.py", edits=EDITS)

    assert "[… the rest of the diff is left out …]" in said(result)
    with pytest.raises(Failed, match="were not read"):
        await read.call("edit", path="src/a.py", old_string="line 499 ", new_string="x")
    await read.call("edit", path="src/a.py", old_string="import sys", new_string="import re")
    assert read.content("src/a.py").startswith("import re\n")


async def test_of_a_file_read_in_part_only_the_lines_read_stay_known(box: Toolbox) -> None:
    put(box.root, "a.txt", "".join(f"{at}\n" for at in range(1, 31)))
    await box.call("read", path="a.txt", offset=5, limit=10)
    edits = [
        {"old_string": "5\n6\n", "new_string": "five\n"},
        {"old_string": "12\n", "new_string": "twelve\n"},
    ]
    await answered(box, "edit", (("V", "VI", "VI½"), False), path="a.txt", edits=edits)

    with pytest.raises(Failed, match=r"lines 16-16 of a\.txt were not read"):
        await box.call("edit", path="a.txt", old_string="15 \n", new_string="x\n")
    await box.call("edit", path="a.txt", old_string="14\n", new_string="fourteen\n")
    assert box.content("a.txt").split("\n")[3:8] == ["4", "V", "VI", "VI½", "7"]


async def test_adding_to_a_file_that_was_read_in_part_does_not_make_the_rest_known(
    box: Toolbox,
) -> None:
    put(box.root, "a.txt", "1\n2\n3\n")
    await box.call("read", path="a.txt", limit=1)
    await box.call("write", path="a.txt", content="4\n", append=True)

    with pytest.raises(Failed, match=r"lines 3-3 of a\.txt were not read"):
        await box.call("edit", path="a.txt", old_string="3 ", new_string="x")
    await box.call("edit", path="a.txt", old_string="4", new_string="four")


async def test_stray_bytes_that_are_shown_differently_are_not_taken_by_hunk(box: Toolbox) -> None:
    path = put(box.root, "a.txt", "é ü ß\n".encode() + b"\xff\n" + b"x\n" * 20 + b"y\n")
    await box.call("read", path="a.txt")
    near = {"path": "a.txt", "old_string": "é ü ß", "new_string": "e"}
    far = {"path": "a.txt", "old_string": "y\n", "new_string": "z\n"}

    assert not (await preview(box, "edit", near)).by_hunk
    assert (await preview(box, "edit", far)).by_hunk
    with pytest.raises(Failed, match="does not fit"):
        await answered(box, "edit", (("f",),), **near)
    await answered(box, "edit", (("ü",),), **far)
    assert path.read_bytes() == "é ü ß\n".encode() + b"\xff\n" + b"x\n" * 20 + "ü\n".encode()


async def test_a_character_the_file_cannot_hold_changes_nothing(box: Toolbox) -> None:
    path = put(box.root, "a.txt", b"caf\xe9\nx\n")
    await box.call("read", path="a.txt")
    with pytest.raises(
        Failed, match="the user changed a hunk, but the file is latin-1, which has no '→'"
    ):
        await answered(box, "edit", (("→",),), path="a.txt", old_string="café", new_string="cafe")
    assert path.read_bytes() == b"caf\xe9\nx\n"


@pytest.mark.parametrize(
    ("before", "old", "new", "own", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "b", "B", ("1", "2"), b"a\r\n1\r\n2\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "b", "B", ("1\r", "2\r"), b"a\r\n1\r\n2\r\nc\r\n"),
        (b"a\r\nb", "b", "B", ("1", "2"), b"a\r\n1\r\n2"),
        (b"a\r\nb", "b", "B", (), b"a"),
        (b"a\nb\n", "b", "B", ("1\r", "2\r"), b"a\n1\n2\n"),
        (b"a\r\nb\nc\n", "b", "B", ("1", "2\r"), b"a\r\n1\n2\r\nc\n"),
        (b"\xef\xbb\xbfa\r\nb\r\n", "b", "B", ("\u00e9",), b"\xef\xbb\xbfa\r\n\xc3\xa9\r\n"),
        (b"\xe9\xe8\xe7\nb\n", "b", "B", ("\u00e9",), b"\xe9\xe8\xe7\n\xe9\n"),
    ],
)
async def test_lines_of_the_user_s_get_encoding_and_newlines_of_the_file(
    box: Toolbox, before: bytes, old: str, new: str, own: tuple[str, ...], after: bytes
) -> None:
    path = put(box.root, "a.txt", before)
    await box.call("read", path="a.txt")
    await answered(box, "edit", (own,), path="a.txt", old_string=old, new_string=new)

    assert path.read_bytes() == after
