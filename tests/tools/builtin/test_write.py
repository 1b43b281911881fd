"""The write tool: new files freely, existing ones only when they were read whole."""

import pytest

from codeagent.core.display import DiffBlock
from codeagent.core.errors import NotAFile, ProtectedPath
from codeagent.core.tool import BaseChanged, Failed
from tests.fakes import put, tool_context
from tests.toolbox import Toolbox


async def test_a_new_file_is_made_with_its_directories(box: Toolbox) -> None:
    result = await box.call("write", path="a/b/c.txt", content="one\ntwo\n")
    assert (box.root / "a/b/c.txt").read_bytes() == b"one\ntwo\n"
    assert result.blocks == (DiffBlock(path="a/b/c.txt", before="", after="one\ntwo\n"),)


async def test_an_existing_file_is_replaced_only_after_it_was_read_whole(box: Toolbox) -> None:
    path = put(box.root, "a.txt", "1\n2\n3\n")
    with pytest.raises(Failed, match="was not read"):
        await box.call("write", path="a.txt", content="new")
    await box.call("read", path="a.txt", limit=1)
    with pytest.raises(Failed, match="only in part"):
        await box.call("write", path="a.txt", content="new")
    await box.call("read", path="a.txt")
    await box.call("write", path="a.txt", content="new\n")
    assert path.read_bytes() == b"new\n"


async def test_what_the_agent_wrote_it_may_write_again(box: Toolbox) -> None:
    await box.call("write", path="a.txt", content="1")
    await box.call("write", path="a.txt", content="2")
    await box.call("edit", path="a.txt", old_string="2", new_string="3")
    assert (box.root / "a.txt").read_text() == "3"


async def test_a_file_that_came_up_after_the_preview_is_not_overwritten(box: Toolbox) -> None:
    base = await box.preview_base("write", path="a.txt", content="mine")
    put(box.root, "a.txt", "theirs")
    with pytest.raises((BaseChanged, Failed)):
        await box.call("write", base=base, path="a.txt", content="mine")
    assert (box.root / "a.txt").read_text() == "theirs"


async def test_append_adds_to_the_end_in_the_file_s_own_newlines(box: Toolbox) -> None:
    put(box.root, "a.txt", b"one\r\ntwo\r\n")
    with pytest.raises(Failed, match="was not read"):
        await box.call("write", path="a.txt", content="three\n", append=True)
    await box.call("read", path="a.txt", limit=1)
    await box.call("write", path="a.txt", content="three\n", append=True)
    assert (box.root / "a.txt").read_bytes() == b"one\r\ntwo\r\nthree\r\n"
    await box.call("write", path="new.txt", content="x", append=True)
    assert (box.root / "new.txt").read_bytes() == b"x"


async def test_encoding_and_newlines_of_a_replaced_file_stay(box: Toolbox) -> None:
    put(box.root, "a.txt", b"\xef\xbb\xbfcaf\xc3\xa9\r\n")
    await box.call("read", path="a.txt")
    await box.call("write", path="a.txt", content="th\u00e9\nx\n")
    assert (box.root / "a.txt").read_bytes() == b"\xef\xbb\xbfth\xc3\xa9\r\nx\r\n"


async def test_a_preview_shows_everything_that_would_change(box: Toolbox) -> None:
    put(box.root, "a.txt", "".join(f"{n}\n" for n in range(100)))
    await box.call("read", path="a.txt")
    content = (
        "".join(f"{n}\n" for n in range(50)) + "new\n" + "".join(f"{n}\n" for n in range(51, 100))
    )
    tool = box.tool("write")
    preview = await tool.preview(
        tool.Args(path="a.txt", content=content), tool_context(box.workspace)
    )
    block = preview.blocks[0]
    assert isinstance(block, DiffBlock)
    assert block.start_line == 43
    assert block.before == "\n".join(str(n) for n in range(42, 59))
    assert block.after == block.before.replace("50", "new")


@pytest.mark.parametrize(
    ("path", "error"),
    [("sub", NotAFile), (".git/hooks/x", ProtectedPath), (".codeagent/x", ProtectedPath)],
)
async def test_directories_and_protected_paths_are_refused(
    box: Toolbox, path: str, error: type[Exception]
) -> None:
    put(box.root, "sub/x", "")
    with pytest.raises(error):
        await box.call("write", path=path, content="x")


async def test_files_that_run_on_the_host_are_always_asked_about(box: Toolbox) -> None:
    tool = box.tool("write")
    assert tool.approval_key(tool.Args(path=".vscode/tasks.json", content="")).sensitive is not None
    assert tool.approval_key(tool.Args(path="src/a.py", content="")).sensitive is None


async def test_rules_see_the_path_without_detours_and_its_target(box: Toolbox) -> None:
    put(box.root, "secret/a.txt", "")
    (box.root / "link").symlink_to("secret")
    tool = box.tool("write")
    assert tool.approval_key(tool.Args(path="./x/../link//a.txt", content="")).parts == (
        "link/a.txt",
        "secret/a.txt",
    )
    assert tool.approval_key(tool.Args(path=str(box.root / "b.txt"), content="")).parts == (
        "b.txt",
    )
    assert tool.approval_key(tool.Args(path="../x", content="")).opaque
