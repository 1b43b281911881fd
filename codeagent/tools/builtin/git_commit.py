"""The `git_commit` tool: commits files of the workspace to the user's repository, on this machine,
with approval."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

from codeagent.changes.diff import count, diff_block
from codeagent.changes.keys import path_key
from codeagent.core.changes import Change, CommitPlan, Committed, Committer
from codeagent.core.checkpoints import ChangeKind, Node
from codeagent.core.deferred import Field
from codeagent.core.display import DisplayBlock, FilesBlock, TextBlock
from codeagent.core.errors import ContentChanged
from codeagent.core.json_types import JsonObject
from codeagent.core.paths import secret_reason
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import spelled
from codeagent.core.text_files import shown
from codeagent.core.tool import BaseChanged, Preview, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.arguments import PathText, written

_MOST_PATHS = 200
_LONGEST_MESSAGE = 20_000
_MOST_DIFFS = 20
_MOST_NAMED = 20
_SHORT = 8
_WORDS: dict[ChangeKind, str] = {"added": "new", "modified": "changed", "deleted": "deleted"}


class GitCommitArgs(ToolArgs):
    message: Annotated[str, Field(max_length=_LONGEST_MESSAGE), written("message")]
    paths: Annotated[
        tuple[PathText, ...], Field(min_length=1, max_length=_MOST_PATHS, strict=False)
    ]


class GitCommit(Tool[GitCommitArgs]):
    """Runs alone, because it reads files that other calls write, and moves the branch."""

    name = "git_commit"
    label = "Commit"
    description = (
        "Commit these paths as they are on disk, deleted ones too. The user sees the diff first. "
        "Only when asked to."
    )
    Args = GitCommitArgs
    permission = "prompt"
    effect = "anything"

    def __init__(
        self, workspace: Workspace, committer: Callable[[], Committer], *, hooks: bool = False
    ) -> None:
        """`committer` is called once the model commits. `hooks`: whether it runs the repository's
        hooks, which every question then says."""
        self._workspace = workspace
        self._committer = committer
        self._hooks = hooks

    def target(self, args: GitCommitArgs) -> str:
        return shown(args.message.strip().splitlines()[0])

    def approval_key(self, args: GitCommitArgs) -> ApprovalKey:
        keys = [path_key(self._workspace, path, reading=True) for path in args.paths]
        parts = tuple(dict.fromkeys(part for key in keys for part in key.parts))
        reasons = [reason for part in parts if (reason := secret_reason(part))]
        if self._hooks:
            reasons.append("the repository's hooks run on your machine, outside the sandbox")
        opaque = any(key.opaque for key in keys)
        return ApprovalKey(
            kind="path", parts=parts, opaque=opaque, sensitive=reasons[0] if reasons else None
        )

    async def preview(self, args: GitCommitArgs, ctx: ToolContext) -> Preview:
        plan = await asyncio.to_thread(lambda: self._committer().plan(args.message, args.paths))
        return Preview(
            self.target(args), (_facts(args.message, plan), *_blocks(plan)), base=plan.base
        )

    async def run(self, args: GitCommitArgs, ctx: ToolContext) -> ToolResult:
        work = asyncio.ensure_future(
            asyncio.to_thread(lambda: self._committer().commit(args.message, args.paths, ctx.base))
        )
        while not work.done():
            try:
                await asyncio.wait({work})
            except (
                asyncio.CancelledError
            ):  # a commit is made completely or not at all, so a cancellation waits for its end
                continue
        try:
            done = work.result()
        except ContentChanged:
            raise BaseChanged from None
        return self._answer(args, done)

    def _answer(self, args: GitCommitArgs, done: Committed) -> ToolResult:
        plan = done.plan
        named = [_said(change) for change in plan.changes[:_MOST_NAMED]]
        rest = len(plan.changes) - len(named)
        lines = [
            f"Committed {done.commit[:_SHORT]} on {shown(plan.branch)}: {self.target(args)}",
            *named,
            *([f"and {count(rest, 'more file')}"] if rest else []),
            *(() if self._hooks else (f"Hooks did not run{_named(plan.skipped_hooks)}.",)),
            *(("It is not signed, although commit.gpgSign is on.",) if plan.unsigned else ()),
            *(f"Note: {shown(notice)}." for notice in done.notices),
        ]
        text = "\n".join(lines)
        files = FilesBlock(paths=tuple(spelled(change.path) for change in plan.changes))
        details: JsonObject = {
            "commit": done.commit,
            "branch": plan.branch,
            "files": len(plan.changes),
            "hooks": self._hooks,
        }
        return ToolResult.from_text(text, blocks=(TextBlock(text=text), files), details=details)


def _facts(message: str, plan: CommitPlan) -> TextBlock:
    kinds = [
        (sum(change.kind == kind for change in plan.changes), word) for kind, word in _WORDS.items()
    ]
    counted = ", ".join(f"{number} {kind}" for number, kind in kinds if number)
    after = f"after {plan.parent[:_SHORT]}" if plan.parent else "its first commit"
    lines = [
        shown(message.strip()),
        "",
        f"on {shown(plan.branch)}, {after}, by {shown(plan.author)}",
        f"{count(len(plan.changes), 'file')}: {counted}",
        *(
            (f"in the repository around this folder, {shown(plan.work_tree)}",)
            if plan.work_tree
            else ()
        ),
        *((f"hooks do not run{_named(plan.skipped_hooks)}",) if plan.skipped_hooks else ()),
        *(("not signed, although commit.gpgSign is on",) if plan.unsigned else ()),
    ]
    return TextBlock(text="\n".join(lines))


def _named(names: tuple[str, ...]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _blocks(plan: CommitPlan) -> list[DisplayBlock]:
    """Return a diff for each text file, if there are few; the rest by name, so that every file is
    shown."""
    blocks: list[DisplayBlock] = []
    listed: list[str] = []
    for change in plan.changes:
        left_out = plan.left_out.get(change.path, "")
        texts = None if left_out or len(blocks) >= _MOST_DIFFS else _texts(change)
        if texts is not None and texts[0] != texts[1]:
            blocks.append(diff_block(f"{change.path}{_note(change)}", *texts))
        else:
            listed.append(_said(change) + (f" ({left_out})" if left_out else ""))
    return [*blocks, FilesBlock(paths=tuple(listed))] if listed else blocks


def _texts(change: Change[Node]) -> tuple[str, str] | None:
    """Return the content before and after, of a link its target; None if one of them is not
    text."""
    before, after = (node and replace(node, kind="file") for node in (change.before, change.after))
    return Change(change.path, before, after).texts


def _said(change: Change[Node]) -> str:
    return f"{_WORDS[change.kind]} {spelled(change.path)}{_note(change)}"


def _note(change: Change[Node]) -> str:
    return f" ({change.note})" if change.note else ""
