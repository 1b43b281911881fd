"""The git_commit tool: what the user is shown, what it is bound to, and what the model is told."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from codeagent.core.changes import Change, CommitPlan, CommitRefused, Committed
from codeagent.core.checkpoints import Node
from codeagent.core.display import DiffBlock, FilesBlock, TextBlock
from codeagent.core.errors import ContentChanged
from codeagent.core.messages import text_of
from codeagent.core.policy import Policy, Rule
from codeagent.core.tool import EXCLUSIVE, BaseChanged, InvalidArgs, Preview, ToolResult
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.builtin.git_commit import GitCommit, GitCommitArgs
from codeagent.workspace.files import LocalWorkspace
from tests.fakes import put, tool_context

CHANGE = Change("a.py", Node("file", b"one\ntwo\n"), Node("file", b"one\n2\n"))
PLAN = CommitPlan("main", "1" * 40, "Ada <ada@example.org>", (CHANGE,), (), False, "base-1")


class FakeCommitter:
    def __init__(self, plan: CommitPlan = PLAN) -> None:
        self.to_plan = plan
        self.bases: list[str | None] = []
        self.refusal: Exception | None = None
        self.seconds = 0.0

    def plan(self, message: str, paths: tuple[str, ...]) -> CommitPlan:
        if self.refusal is not None:
            raise self.refusal
        return self.to_plan

    def commit(self, message: str, paths: tuple[str, ...], base: str | None) -> Committed:
        import time

        time.sleep(self.seconds)
        if self.refusal is not None:
            raise self.refusal
        self.bases.append(base)
        return Committed("2" * 40, self.to_plan)


@pytest.fixture
def workspace(tmp_path: Path) -> LocalWorkspace:
    put(tmp_path, "a.py", "one\n2\n")
    return LocalWorkspace(tmp_path)


@pytest.fixture
def committer() -> FakeCommitter:
    return FakeCommitter()


@pytest.fixture
def tool(workspace: LocalWorkspace, committer: FakeCommitter) -> GitCommit:
    return GitCommit(workspace, lambda: committer)


def arguments(message: str = "Fix it\n\nbecause", *paths: str) -> GitCommitArgs:
    return GitCommitArgs(message=message, paths=paths or ("a.py",))


async def preview(tool: GitCommit, workspace: LocalWorkspace) -> Preview:
    return await tool.preview(arguments(), tool_context(workspace))


async def run(
    tool: GitCommit, workspace: LocalWorkspace, base: str | None = "base-1"
) -> ToolResult:
    return await tool.run(arguments(), tool_context(workspace, base=base))


async def test_the_user_sees_message_branch_author_and_the_diff(
    tool: GitCommit, workspace: LocalWorkspace
) -> None:
    shown = await preview(tool, workspace)
    assert (shown.target, shown.base) == ("Fix it", "base-1")
    facts, diff = shown.blocks
    assert facts == TextBlock(
        text="Fix it\n\nbecause\n\non main, after 11111111, by Ada <ada@example.org>\n1 file: 1 changed"
    )
    assert diff == DiffBlock(path="a.py", before="one\ntwo\n", after="one\n2\n")


async def test_what_does_not_happen_is_shown_before_and_said_after(
    workspace: LocalWorkspace,
) -> None:
    tool = GitCommit(
        workspace,
        lambda: FakeCommitter(
            replace(PLAN, skipped_hooks=("pre-commit", "commit-msg"), unsigned=True)
        ),
    )
    facts = (await preview(tool, workspace)).blocks[0]
    assert isinstance(facts, TextBlock)
    assert facts.text.endswith(
        "hooks do not run (pre-commit, commit-msg)\nnot signed, although commit.gpgSign is on"
    )
    said = text_of((await run(tool, workspace)).content)
    assert said.endswith(
        "Hooks did not run (pre-commit, commit-msg).\nIt is not signed, although commit.gpgSign is on."
    )


async def test_the_repository_around_a_folder_is_named(workspace: LocalWorkspace) -> None:
    tool = GitCommit(
        workspace, lambda: FakeCommitter(replace(PLAN, work_tree="/home/ada/monorepo"))
    )
    facts = (await preview(tool, workspace)).blocks[0]
    assert isinstance(facts, TextBlock)
    assert facts.text.endswith(
        "1 file: 1 changed\nin the repository around this folder, /home/ada/monorepo"
    )


async def test_every_file_is_there_as_a_diff_or_by_name(workspace: LocalWorkspace) -> None:
    file = Node("file", b"x\n")
    texts = [Change(f"f{n:02}", None, file) for n in range(25)]
    others = [
        Change("image.png", None, Node("file", b"\x89PNG\0\0\0")),
        Change("run", file, Node("executable", b"x\n")),
        Change("big", Node("file", b""), Node("file", b"")),
        Change("gone", file, None),
    ]
    plan = replace(PLAN, changes=(*others, *texts), left_out={"big": "too large"})
    tool = GitCommit(workspace, lambda: FakeCommitter(plan))
    blocks = (await preview(tool, workspace)).blocks
    diffs = [block.path for block in blocks if isinstance(block, DiffBlock)]
    listed = [path for block in blocks if isinstance(block, FilesBlock) for path in block.paths]
    assert len(diffs) == 20
    assert diffs[0] == "gone"
    assert listed[:3] == [
        "new image.png",
        "changed run (now executable)",
        "changed big (too large)",
    ]
    assert len(diffs) + len(listed) == 29


async def test_the_model_is_told_what_was_committed(
    tool: GitCommit, workspace: LocalWorkspace
) -> None:
    result = await run(tool, workspace)
    assert (
        text_of(result.content)
        == "Committed 22222222 on main: Fix it\nchanged a.py\nHooks did not run."
    )
    assert result.details == {"commit": "2" * 40, "branch": "main", "files": 1, "hooks": False}


async def test_what_was_approved_is_what_is_committed(
    tool: GitCommit, workspace: LocalWorkspace, committer: FakeCommitter
) -> None:
    await run(tool, workspace, base="base-1")
    assert committer.bases == ["base-1"]
    committer.refusal = ContentChanged("changed")
    with pytest.raises(BaseChanged):
        await run(tool, workspace)


async def test_a_refusal_is_told_as_it_is(
    tool: GitCommit, workspace: LocalWorkspace, committer: FakeCommitter
) -> None:
    committer.refusal = CommitRefused("a merge is under way")
    for call in (preview(tool, workspace), run(tool, workspace)):
        with pytest.raises(CommitRefused, match="a merge is under way"):
            await call


async def test_a_cancel_waits_for_the_commit_to_be_whole(
    tool: GitCommit, workspace: LocalWorkspace, committer: FakeCommitter
) -> None:
    committer.seconds = 0.3
    task = asyncio.create_task(run(tool, workspace))
    await asyncio.sleep(0.05)
    task.cancel()
    assert text_of((await task).content).startswith("Committed")


def test_it_asks_and_runs_alone(tool: GitCommit, workspace: LocalWorkspace) -> None:
    key = tool.approval_key(arguments())
    assert Policy().check("git_commit", key, tool.permission, tool.effect).permission == "prompt"
    assert (
        Policy(mode="accept-edits")
        .check("git_commit", key, tool.permission, tool.effect)
        .permission
        == "prompt"
    )
    assert (
        Policy(mode="plan").check("git_commit", key, tool.permission, tool.effect).permission
        == "deny"
    )
    assert tool.access(arguments(), workspace) == EXCLUSIVE


def test_a_rule_is_matched_against_every_path(tool: GitCommit) -> None:
    policy = Policy(rules=(Rule.parse("git_commit(src/**)", "auto"),))
    for paths, permission in (
        (("src/a", "src/b"), "auto"),
        (("src/a", "b"), "prompt"),
        (("../x",), "prompt"),
    ):
        key = tool.approval_key(arguments("m", *paths))
        assert (
            policy.check("git_commit", key, tool.permission, tool.effect).permission == permission
        )


def test_a_secret_and_hooks_that_run_are_reasons_to_ask(
    tool: GitCommit, workspace: LocalWorkspace
) -> None:
    assert "looks like a file of secrets" in (
        tool.approval_key(arguments("m", "a.py", "conf/.env")).sensitive or ""
    )
    assert tool.approval_key(arguments()).sensitive is None
    running = GitCommit(workspace, lambda: FakeCommitter(), hooks=True)
    assert "hooks run on your machine" in (running.approval_key(arguments()).sensitive or "")


@pytest.mark.parametrize(
    "call",
    [
        {"message": "", "paths": ["a"]},
        {"message": " \n", "paths": ["a"]},
        {"message": "x\0", "paths": ["a"]},
        {"message": "x" * 20_001, "paths": ["a"]},
        {"message": "x", "paths": []},
        {"message": "x", "paths": [""]},
        {"message": "x", "paths": ["a\0"]},
        {"message": "x"},
        {"message": "x", "paths": ["a"], "author": "somebody"},
    ],
)
def test_arguments_that_make_no_sense_are_refused(tool: GitCommit, call: dict[str, object]) -> None:
    with pytest.raises(InvalidArgs):
        parse_arguments(tool, json.dumps(call))
