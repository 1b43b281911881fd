"""The apply_patch tool: adding, updating, moving and deleting files as one, by the rules of the
format."""

import errno
import json
import os

import pytest
from pydantic import BaseModel

from codeagent.core.checkpoints import Node
from codeagent.core.display import DiffBlock
from codeagent.core.errors import MissingPath
from codeagent.core.policy import Policy, Rule
from codeagent.core.tool import Failed, InvalidArgs
from codeagent.disk import atomic
from codeagent.disk.confined import Location
from codeagent.tools.arguments import parse_arguments
from tests.extensions.file_tools.conftest import ExtraBox
from tests.fakes import put, tool_context

CODE = "class A:\n    def f(self):\n        return 1\n\n\nclass B:\n    def f(self):\n        return 1\n"


@pytest.fixture(autouse=True)
async def files(box: ExtraBox) -> None:
    put(box.root, "src/a.py", CODE)
    await box.call("read", path="src/a.py")


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def args(box: ExtraBox, *lines: str) -> BaseModel:
    return parse_arguments(box.tool("apply_patch"), json.dumps({"patch": patch(*lines)}))


async def apply(box: ExtraBox, *lines: str) -> str:
    return await box.text("apply_patch", patch=patch(*lines))


async def test_add_update_and_delete_in_one_patch(box: ExtraBox) -> None:
    put(box.root, "old.txt", "gone\n")
    await box.call("read", path="old.txt")
    text = await apply(
        box,
        "*** Add File: docs/new.md",
        "+# New",
        "+",
        "+text",
        "*** Update File: src/a.py",
        "@@ class B:",
        "     def f(self):",
        "-        return 1",
        "+        return 2",
        "*** Delete File: old.txt",
    )
    assert text == "A docs/new.md\nM src/a.py: 1 replacement\nD old.txt"
    assert box.content("docs/new.md") == "# New\n\ntext\n"
    assert box.content("src/a.py") == CODE[:-2] + "2\n"
    assert not (box.root / "old.txt").exists()


async def test_a_file_is_moved_and_changed_and_keeps_its_mode(box: ExtraBox) -> None:
    (box.root / "src/a.py").chmod(0o755)
    text = await apply(
        box,
        "*** Update File: src/a.py",
        "*** Move to: lib/c.py",
        "@@",
        "-class A:",
        "+class C:",
        "     def f(self):",
    )
    assert text == "M lib/c.py (moved from src/a.py)"
    assert box.content("lib/c.py") == CODE.replace("class A", "class C")
    assert os.stat(box.root / "lib/c.py").st_mode & 0o777 == 0o755  # noqa: PTH116  # the mode alone matters
    assert not (box.root / "src/a.py").exists()
    assert "1 replacement" in await box.text(
        "edit", path="lib/c.py", old_string="class C", new_string="class D"
    )


async def test_a_file_of_any_content_is_moved_without_reading_it(box: ExtraBox) -> None:
    put(box.root, "logo.png", b"\x89PNG\0\0")
    assert await apply(box, "*** Move File: logo.png", "*** Move to: img/logo.png") == (
        "M img/logo.png (moved from logo.png)"
    )
    assert (box.root / "img/logo.png").read_bytes() == b"\x89PNG\0\0"


async def test_several_parts_are_found_each_behind_the_one_before(box: ExtraBox) -> None:
    await apply(
        box,
        "*** Update File: src/a.py",
        "@@ class A:",
        "-        return 1",
        "+        return 10",
        "@@",
        "-        return 1",
        "+        return 20",
    )
    assert box.content("src/a.py") == CODE.replace("return 1", "return 10", 1).replace(
        "return 1\n", "return 20\n"
    )


async def test_the_first_place_counts_and_the_model_is_told_of_others(box: ExtraBox) -> None:
    text = await apply(
        box, "*** Update File: src/a.py", "@@", "-        return 1", "+        return 2"
    )
    assert "src/a.py: the context is at line 3 and again at 8; the first was changed." in text
    assert box.content("src/a.py") == CODE.replace("return 1", "return 2", 1)


async def test_context_that_differs_in_white_space_or_typography_is_found_and_kept(
    box: ExtraBox,
) -> None:
    put(box.root, "b.txt", "“one” – two  \n\tthree\nfour\n")
    await box.call("read", path="b.txt")
    text = await apply(
        box, "*** Update File: b.txt", "@@", ' "one" - two', " three", "-four", "+FOUR"
    )
    assert box.content("b.txt") == "“one” – two  \n\tthree\nFOUR\n"
    assert "the lines from 1 match only up to typography" in text


async def test_the_end_of_the_file_comes_first_if_it_is_meant(box: ExtraBox) -> None:
    put(box.root, "n.txt", "x\ny\nx\n")
    await box.call("read", path="n.txt")
    await apply(box, "*** Update File: n.txt", "@@", "-x", "+z", "*** End of File")
    assert box.content("n.txt") == "x\ny\nz\n"
    await apply(box, "*** Update File: n.txt", "@@", "+last")
    assert box.content("n.txt") == "x\ny\nz\nlast\n"


async def test_line_numbers_of_other_diffs_and_a_shell_s_wrapping_are_passed_over(
    box: ExtraBox,
) -> None:
    body = patch(
        "*** Update File: src/a.py",
        "@@ -6,2 +6,2 @@ class B:",
        "-    def f(self):",
        "+    def g(self):",
    )
    await box.call("apply_patch", patch=f"apply_patch <<'EOF'\n{body}\nEOF\n")
    assert box.content("src/a.py").endswith("class B:\n    def g(self):\n        return 1\n")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (
            ("*** Update File: src/a.py", "@@ class Z:", "-x", "+y"),
            "the line 'class Z:' after @@ is not there",
        ),
        (
            ("*** Update File: src/a.py", "@@", "-    def k(self):", "+x"),
            "(?s)context is not there; the nearest.*def f",
        ),
        (("*** Update File: src/a.py", "@@ class B:", "+x = 1"), "give a line of context"),
        (("*** Add File: src/a.py", "+x"), "src/a.py exists already"),
        (("*** Update File: src/a.py", "*** Move to: taken.txt"), "taken.txt exists already"),
        (("*** Delete File: unread.txt",), "unread.txt was not read in this session"),
        (("*** Delete File: link.py",), "link.py leads through a link to src/a.py"),
        (("*** Delete File: data.bin",), "data.bin is a binary file; remove it with a command"),
    ],
)
async def test_if_one_part_does_not_fit_nothing_is_done(
    box: ExtraBox, lines: tuple[str, ...], why: str
) -> None:
    for name in ("taken.txt", "unread.txt"):
        put(box.root, name, "there\n")
    put(box.root, "data.bin", b"\0\1\2")
    (box.root / "link.py").symlink_to("src/a.py")
    before = {path: path.read_bytes() for path in box.root.rglob("*") if path.is_file()}
    with pytest.raises(Failed, match=why):
        await apply(box, "*** Add File: new.txt", "+x", *lines)
    assert {path: path.read_bytes() for path in box.root.rglob("*") if path.is_file()} == before


async def test_a_missing_file_is_named(box: ExtraBox) -> None:
    for lines in (("*** Update File: gone.py", "@@", "-x", "+y"), ("*** Delete File: gone.py",)):
        with pytest.raises(MissingPath, match=r"gone\.py does not exist"):
            await apply(box, *lines)


async def test_a_failure_half_way_puts_everything_back(
    box: ExtraBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(box.root, "one.txt", "1\n")
    put(box.root, "two.txt", "2\n")
    for path in ("one.txt", "two.txt"):
        await box.call("read", path=path)
    remove = atomic.remove

    def stubborn(location: Location, base: Node, *, forced: bool = False) -> None:
        if location.path == "two.txt":
            raise OSError(errno.EPERM, "Operation not permitted")
        remove(location, base, forced=forced)

    monkeypatch.setattr(atomic, "remove", stubborn)
    why = "cannot remove two.txt: Operation not permitted; it was kept; no file was changed"
    with pytest.raises(Failed, match=why):
        await apply(
            box,
            "*** Add File: new.txt",
            "+x",
            "*** Update File: src/a.py",
            "*** Move to: b.py",
            "@@",
            "-class A:",
            "+class C:",
            "*** Delete File: one.txt",
            "*** Delete File: two.txt",
        )
    kept = {path.name: path.read_bytes().decode() for path in box.root.rglob("*") if path.is_file()}
    assert kept == {"a.py": CODE, "one.txt": "1\n", "two.txt": "2\n"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("*** Update File: x", "the first line of the patch must be"),
        ("*** Begin Patch\n*** Add File: x\n+y", "it may have been cut off"),
        (patch(), "the patch does not name a file"),
        (patch("*** Add File: x", "y"), "line 3 of the patch should be a line of the new file"),
        (patch("*** Update File: x", "@@", " y"), "this part changes nothing"),
        (patch("*** Update File: x"), "line 3 of the patch should be a line with '@@'"),
        (patch("*** Rename File: x"), "line 2 of the patch should be"),
        (patch("*** Add File: "), "line 2 of the patch should be"),
    ],
)
async def test_a_patch_that_cannot_be_read_says_which_line(
    box: ExtraBox, text: str, why: str
) -> None:
    with pytest.raises(InvalidArgs, match=why.replace("*", r"\*").replace("+", r"\+")):
        await box.call("apply_patch", patch=text)


async def test_a_file_is_named_once(box: ExtraBox) -> None:
    with pytest.raises(InvalidArgs, match=r"names \./src/a\.py twice"):
        await apply(box, "*** Delete File: src/a.py", "*** Add File: ./src/a.py", "+x")


async def test_rules_hold_for_every_path_and_deleting_is_no_weaker_than_writing(
    box: ExtraBox,
) -> None:
    tool = box.tool("apply_patch")
    key = tool.approval_key(
        args(box, "*** Delete File: src/a.py", "*** Move File: x.txt", "*** Move to: secrets/x.txt")
    )
    assert key.parts == ("src/a.py", "x.txt", "secrets/x.txt")

    def judged(*rules: tuple[str, str]) -> str:
        parsed = tuple(Rule.parse(rule, permission) for permission, rule in rules)
        return Policy("auto", parsed).check(tool.name, key, tool.permission, tool.effect).permission

    assert judged() == "auto"
    assert judged(("deny", "edit(secrets/**)")) == "deny"
    assert judged(("prompt", "write(src/**)")) == "prompt"


@pytest.mark.parametrize(
    "lines", [("*** Delete File: .git/config",), ("*** Move File: src/a.py", "*** Move to: .git/a")]
)
async def test_a_protected_file_is_neither_deleted_nor_made(
    box: ExtraBox, lines: tuple[str, ...]
) -> None:
    put(box.root, ".git/config", "")
    with pytest.raises(Failed, match=r"is protected: no tool writes to \.git"):
        await apply(box, *lines)
    assert (box.root / ".git/config").exists()
    assert (box.root / "src/a.py").exists()


async def test_the_user_sees_every_file_and_what_runs_is_what_they_saw(box: ExtraBox) -> None:
    tool = box.tool("apply_patch")
    lines = ("*** Delete File: src/a.py", "*** Add File: b.py", "+x")
    shown = await tool.preview(args(box, *lines), tool_context(box.workspace))
    blocks = [block for block in shown.blocks if isinstance(block, DiffBlock)]
    assert [(block.path, block.after) for block in blocks] == [("src/a.py", ""), ("b.py", "x\n")]
    put(box.root, "src/a.py", CODE + "# changed\n")
    with pytest.raises(Failed, match="changed since you read it"):
        await box.call("apply_patch", base=shown.base, patch=patch(*lines))
