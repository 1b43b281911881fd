"""The toolset `patches`: a tool that takes the patch of a task into the workspace."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from codeagent.changes.change_set import listing, named
from codeagent.changes.keys import paths_key
from codeagent.config.local_environment import state_dir
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.display import TextBlock
from codeagent.core.errors import ConfigError, WorkspaceError
from codeagent.core.json_types import JsonValue
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import spelled
from codeagent.core.tool import Failed, Preview, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.extensions.batch.copies import Mirror, merged_text
from codeagent.extensions.batch.results import Results
from codeagent.tools.changes import FileTool
from codeagent.tools.edit.accepted import (
    answered_result,
    answers_to,
    change_set,
    check_approved,
    land_all,
    taken,
)
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.edit.replacing import Edited
from codeagent.tools.extension import ExtensionContext


class TakePatchArgs(ToolArgs):
    results: str
    key: str


class TakePatch(FileTool[TakePatchArgs]):
    name = "take_patch"
    label = "Take a patch"
    description = (
        "Take the patch of one task of a batch into the workspace. `results` is the results folder, "
        "`key` the task's key. Changes that were made here since are merged."
    )
    Args = TakePatchArgs

    def __init__(self, workspace: Workspace, reads: ReadTracker) -> None:
        super().__init__(workspace, reads)
        self._read: dict[TakePatchArgs, Sequence[Change[Node]]] = {}

    def approval_key(self, args: TakePatchArgs) -> ApprovalKey:
        return paths_key(self._workspace, self._paths(args))

    def target(self, args: TakePatchArgs) -> str:
        return f"{args.key}: {named(self._paths(args))}"

    async def preview(self, args: TakePatchArgs, ctx: ToolContext) -> Preview:
        edits, left = await asyncio.to_thread(self._edits, args, ctx)
        preview = change_set(edits).preview()
        if not left:
            return preview
        return replace(preview, blocks=(TextBlock(text="\n".join(left)), *preview.blocks))

    async def run(self, args: TakePatchArgs, ctx: ToolContext) -> ToolResult:
        edits, left = await asyncio.to_thread(self._edits, args, ctx)
        changes = change_set(edits)
        if answered := answers_to(changes, ctx, "no file was changed"):
            land_all(taken(answered), ctx)
            return answered_result(edits, answered, self._reads)
        check_approved(changes, ctx)
        land_all(changes, ctx)
        text = "\n".join([*(listing(edited.change) for edited in edits), *left])
        details: Mapping[str, JsonValue] = {"changed_files": [*map(self._landed, edits)]}
        return ToolResult.from_text(text, blocks=changes.blocks, details=details)

    def _landed(self, edited: Edited) -> JsonValue:
        if edited.change.after is None:
            return {"path": spelled(edited.path), "sha256": ""}
        return self._reads.wrote(edited.path, edited.data, (), whole=False)

    def _paths(self, args: TakePatchArgs) -> list[str]:
        return [change.path for change in self._changes(args)]

    def _changes(self, args: TakePatchArgs) -> Sequence[Change[Node]]:
        """Return what the task changed in its working copy. Raises Failed."""
        if args not in self._read:
            try:
                self._read[args] = _changes_of_task(Path(args.results), args.key)
            except (ConfigError, OSError, ValueError) as error:
                raise Failed(f"the patch cannot be read: {error}") from error
        return self._read[args]

    def _edits(self, args: TakePatchArgs, ctx: ToolContext) -> tuple[list[Edited], list[str]]:
        """Return the changes to the workspace, and why other files are left alone. Raises Failed if
        nothing would change."""
        edits, left = list[Edited](), list[str]()
        for theirs in self._changes(args):
            try:
                change = self._onto_present(theirs, ctx)
            except (Failed, WorkspaceError) as error:
                left.append(f"{spelled(theirs.path)} is left: {error}")
                continue
            if change is not None:
                edits.append(Edited(change))
        if not edits:
            raise Failed("; ".join(left) or "the workspace already has all of these changes")
        return edits, left

    def _onto_present(self, theirs: Change[Node], ctx: ToolContext) -> Change[Node] | None:
        """Return the task's change, applied to the file as it is here; None if it is here already.
        Raises Failed if it does not fit, WorkspaceError."""
        path, before, after = theirs.path, theirs.before, theirs.after
        if "link" in theirs.contents:
            raise Failed("it is a link or a submodule")
        if ctx.workspace.resolve(path, reading=False) != path:
            raise Failed("it is behind a link")
        present = self._present(path, ctx)
        if _same(present, after):
            return None
        if _same(present, before):
            return Change(path, present, after)
        if present is None or before is None or after is None:
            raise Failed("it was changed here in another way")
        text = merged_text(present.data, before.data, after.data)
        if text is None:
            raise Failed("the same lines were changed here")
        kind = present.kind if before.kind == after.kind else after.kind
        made = Node(kind, text)
        return None if _same(present, made) else Change(path, present, made)


def patch_tools(context: ExtensionContext) -> tuple[Tool[Any], ...]:
    return (TakePatch(context.workspace, context.reads),)


def _same(one: Node | None, other: Node | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.kind, one.data) == (other.kind, other.data)


def _changes_of_task(results: Path, key: str) -> Sequence[Change[Node]]:
    """Raises ConfigError, OSError, ValueError."""
    folder = Results(results).folder(Path(key).name)
    record = folder.record()
    if record is None:
        raise ConfigError(f"{folder.path} has no result")
    mirror = Mirror.of(record.repository, state_dir() / "mirrors")
    return mirror.changes(record.commit, folder.patch)
