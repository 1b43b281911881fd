"""The multi_edit tool: several files, all or nothing, only what was read, and only what was
approved."""

import errno
import json
from dataclasses import replace
from typing import Any

import pytest

from codeagent.core.display import DiffBlock, TextBlock
from codeagent.core.errors import MissingPath, ProtectedPath
from codeagent.core.messages import text_of
from codeagent.core.policy import Policy, Rule
from codeagent.core.tool import (
    EXCLUSIVE,
    Access,
    BaseChanged,
    Denied,
    Failed,
    InvalidArgs,
    Preview,
    ToolContext,
)
from codeagent.disk import atomic
from codeagent.disk.confined import Location
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.edit.reads import ReadTracker
from tests.extensions.file_tools.conftest import ExtraBox
from tests.fakes import put, tool_context
from tests.landings import write

A = "def f():\n    return 1\n"
B = "import f\n\nprint(f())\n"
BOTH = [
    {"path": "a.py", "old_string": "def f", "new_string": "def g"},
    {"path": "src/b.py", "old_string": "import f", "new_string": "import g"},
    {"path": "./src/b.py", "old_string": "print(f())", "new_string": "print(g())"},
]


@pytest.fixture(autouse=True)
async def files(box: ExtraBox) -> None:
    put(box.root, "a.py", A)
    put(box.root, "src/b.py", B)
    for path in ("a.py", "src/b.py"):
        await box.call("read", path=path)


def args(box: ExtraBox, edits: list[dict[str, Any]]) -> Any:
    return parse_arguments(box.tool("multi_edit"), json.dumps({"edits": edits}))


async def preview(box: ExtraBox, edits: list[dict[str, Any]], base: str | None = None) -> Preview:
    return await box.tool("multi_edit").preview(
        args(box, edits), tool_context(box.workspace, base=base)
    )


async def test_edits_of_several_files_are_applied_and_listed(box: ExtraBox) -> None:
    result = await box.call("multi_edit", edits=BOTH)
    assert box.content("a.py") == A.replace("def f", "def g")
    assert box.content("src/b.py") == B.replace("f", "g")
    assert result.content[0].text == "M a.py: 1 replacement\nM src/b.py: 2 replacements"
    assert [block.path for block in result.blocks if isinstance(block, DiffBlock)] == [
        "a.py",
        "src/b.py",
    ]


async def test_if_one_edit_does_not_fit_no_file_is_changed(box: ExtraBox) -> None:
    with pytest.raises(Failed, match=r"edit 2 of 2: nothing was changed in src/b\.py"):
        await box.call(
            "multi_edit",
            edits=[BOTH[0], {"path": "src/b.py", "old_string": "nowhere", "new_string": "x"}],
        )
    assert (box.content("a.py"), box.content("src/b.py")) == (A, B)


async def test_if_a_file_cannot_be_written_the_others_are_put_back(
    box: ExtraBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = {"path": "new.py", "old_string": "", "new_string": "x\n"}
    name = atomic.FileDraft.name

    def full(self: atomic.FileDraft, location: Location) -> None:
        if location.path == "src/b.py":
            raise OSError(errno.ENOSPC, "No space left on device")
        name(self, location)

    monkeypatch.setattr(atomic.FileDraft, "name", full)
    with pytest.raises(
        Failed, match="No space left on device; the old content was kept; no file was changed"
    ):
        await box.call("multi_edit", edits=[new, *BOTH])
    assert (box.content("a.py"), box.content("src/b.py")) == (A, B)
    assert not (box.root / "new.py").exists()


async def test_a_file_that_was_not_read_is_not_edited(box: ExtraBox) -> None:
    put(box.root, "c.py", "c = 1\n")
    with pytest.raises(Failed, match=r"c\.py was not read in this session"):
        await box.call(
            "multi_edit", edits=[BOTH[0], {"path": "c.py", "old_string": "c", "new_string": "d"}]
        )
    assert box.content("a.py") == A


async def test_a_missing_file_is_made_by_an_empty_old_string_only(box: ExtraBox) -> None:
    with pytest.raises(MissingPath, match=r"new\.py does not exist"):
        await box.call(
            "multi_edit", edits=[{"path": "new.py", "old_string": "x", "new_string": "y"}]
        )
    made = {"path": "new.py", "old_string": "", "new_string": "x = 1\n"}
    further = {"path": "new.py", "old_string": "1", "new_string": "2"}
    assert await box.text("multi_edit", edits=[made, further]) == "A new.py"
    assert box.content("new.py") == "x = 2\n"


async def test_what_runs_is_what_was_shown_of_every_file(box: ExtraBox) -> None:
    shown = await preview(box, BOTH)
    assert shown.target == "a.py, src/b.py"
    assert isinstance(shown.blocks[0], TextBlock)
    put(box.root, "src/b.py", B + "# more\n")
    with pytest.raises(Failed, match=r"src/b\.py has changed since you read it"):
        await box.call("multi_edit", base=shown.base, edits=BOTH)
    again = await preview(box, BOTH, shown.base)
    assert again.base != shown.base
    await box.call("multi_edit", base=again.base, edits=BOTH)
    assert box.content("src/b.py") == (B + "# more\n").replace("import f", "import g").replace(
        "f()", "g()"
    )


async def test_a_change_of_one_file_is_answered_hunk_by_hunk(box: ExtraBox) -> None:
    edits = [BOTH[1], BOTH[2]]
    shown = await preview(box, edits)
    assert shown.by_hunk
    context = replace(tool_context(box.workspace, base=shown.base), hunks=(True, False))
    result = await box.tool("multi_edit").run(args(box, edits), context)
    assert box.content("src/b.py") == B.replace("import f", "import g")
    assert "took 1 of 2 hunks" in result.content[0].text


async def test_a_change_of_several_files_is_answered_hunk_by_hunk_over_all_of_them(
    box: ExtraBox,
) -> None:
    before, run = (
        {path: box.content(path) for path in ("a.py", "src/b.py")},
        box.tool("multi_edit").run,
    )
    shown = await preview(box, BOTH)
    assert shown.by_hunk

    def answered(*hunks: bool) -> ToolContext:
        return replace(tool_context(box.workspace, base=shown.base), hunks=hunks)

    with pytest.raises(Denied, match="the user took none of the 3 hunks; no file was changed"):
        await run(args(box, BOTH), answered(False, False, False))
    with pytest.raises(Failed, match="does not fit"):
        await run(args(box, BOTH), answered(True, True))
    assert {path: box.content(path) for path in before} == before
    result = await run(args(box, BOTH), answered(False, True, False))
    assert box.content("a.py") == before["a.py"]
    assert box.content("src/b.py") == B.replace("import f", "import g")
    assert "took 1 of 3 hunks" in text_of(result.content)
    assert [block.path for block in result.blocks if isinstance(block, DiffBlock)] == ["src/b.py"]
    assert result.details["hunks"] == {"taken": 1, "changed": 0, "left_out": 2}


async def test_hunks_of_a_file_that_changed_meanwhile_leave_every_file_as_it_is(
    box: ExtraBox,
) -> None:
    shown = await preview(box, BOTH)
    put(box.root, "src/b.py", B + "# more\n")
    before = box.content("a.py")
    context = replace(tool_context(box.workspace, base=shown.base), hunks=(True, True, False))
    with pytest.raises((BaseChanged, Failed)):
        await box.tool("multi_edit").run(args(box, BOTH), context)
    assert box.content("a.py") == before


async def test_rules_on_paths_hold_for_every_file(box: ExtraBox) -> None:
    tool = box.tool("multi_edit")
    key = tool.approval_key(args(box, BOTH))
    assert key.parts == ("a.py", "src/b.py")

    def judged(*rules: tuple[str, str]) -> str:
        parsed = tuple(Rule.parse(text, permission) for permission, text in rules)
        return (
            Policy("ask", parsed).check("multi_edit", key, tool.permission, tool.effect).permission
        )

    assert judged() == "prompt"
    assert judged(("auto", "write(src/**)")) == "prompt"
    assert judged(("auto", "write(src/**)"), ("auto", "edit(a.py)")) == "auto"
    assert judged(("auto", "write"), ("deny", "edit(src/**)")) == "deny"
    assert judged(("auto", "multi_edit"), ("deny", "write(a.*)")) == "deny"
    assert (
        Policy("accept-edits").check("multi_edit", key, tool.permission, tool.effect).permission
        == "auto"
    )
    assert (
        Policy("plan").check("multi_edit", key, tool.permission, tool.effect).permission == "deny"
    )


async def test_a_protected_or_sensitive_file_is_treated_as_by_edit(box: ExtraBox) -> None:
    tool = box.tool("multi_edit")
    secret = {"path": ".env", "old_string": "", "new_string": "K=1"}
    assert (
        tool.approval_key(args(box, [BOTH[0], secret])).sensitive
        == ".env looks like a file of secrets"
    )
    hook = {"path": ".git/hooks/pre-commit", "old_string": "", "new_string": "x"}
    with pytest.raises(
        Failed,
        match=r"protected: no tool writes to \.git; nothing was written; no file was changed",
    ):
        await box.call("multi_edit", edits=[BOTH[0], hook])
    assert box.content("a.py") == A
    with pytest.raises(ProtectedPath):
        write(box.workspace, ".git/x", b"", base=None)


def test_calls_for_one_file_wait_only_for_that_file(box: ExtraBox) -> None:
    tool = box.tool("multi_edit")
    assert tool.access(args(box, BOTH[1:]), box.workspace) == Access("keyed", "src/b.py")
    assert tool.access(args(box, BOTH), box.workspace) == EXCLUSIVE


async def test_what_was_written_is_known_after_a_resume(box: ExtraBox) -> None:
    result = await box.call("multi_edit", edits=BOTH)
    tracker = ReadTracker(box.workspace)
    tracker.restore(result.details)
    assert tracker.check("a.py", (box.root / "a.py").read_bytes()).whole


async def test_an_edit_that_changes_nothing_is_refused(box: ExtraBox) -> None:
    with pytest.raises(InvalidArgs, match="of edit 1 are the same"):
        await box.call("multi_edit", edits=[{"path": "a.py", "old_string": "f", "new_string": "f"}])
