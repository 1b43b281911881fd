"""The common base of tools that change several files: shown together, bound to the content of each,
and landed either all or none."""

import asyncio
from abc import abstractmethod
from collections.abc import Sequence

from codeagent.changes.change_set import listing, named
from codeagent.changes.diff import count
from codeagent.changes.keys import paths_key
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import spelled
from codeagent.core.tool import EXCLUSIVE, Access, Preview, ToolContext, ToolResult
from codeagent.tools.changes import AnyArgsT, FileTool
from codeagent.tools.edit.accepted import (
    answered_result,
    answers_to,
    change_set,
    check_approved,
    land_all,
    taken,
)
from codeagent.tools.edit.replacing import Edited


class ChangeSetTool(FileTool[AnyArgsT]):
    """Computes a change of several files from a call, shows it, and applies the part that the user
    accepted."""

    def access(self, args: AnyArgsT, workspace: Workspace) -> Access:
        keys = {workspace.key(path) for path in self._paths(args)}
        return Access("keyed", keys.pop()) if len(keys) == 1 else EXCLUSIVE

    def approval_key(self, args: AnyArgsT) -> ApprovalKey:
        return paths_key(self._workspace, self._paths(args))

    def target(self, args: AnyArgsT) -> str:
        return named(self._paths(args))

    async def preview(self, args: AnyArgsT, ctx: ToolContext) -> Preview:
        return await asyncio.to_thread(self._previewed, args, ctx)

    async def run(self, args: AnyArgsT, ctx: ToolContext) -> ToolResult:
        edits = await asyncio.to_thread(self._edits, args, ctx, again=False)
        changes = change_set(edits)
        if answered := answers_to(changes, ctx, "no file was changed"):
            land_all(taken(answered), ctx)
            return answered_result(edits, answered, self._reads)
        check_approved(changes, ctx)
        land_all(changes, ctx)
        known = [about for edited in edits for about in edited.record(self._reads)]
        notes = [note for edited in edits for note in _notes(edited)]
        text = "\n".join([*map(_line, edits), *dict.fromkeys(notes)])
        return ToolResult.from_text(text, blocks=changes.blocks, details={"changed_files": known})

    def _previewed(self, args: AnyArgsT, ctx: ToolContext) -> Preview:
        edits = self._edits(args, ctx, again=ctx.base is not None)
        return change_set(edits).preview([_line(edited) for edited in edits])

    @abstractmethod
    def _paths(self, args: AnyArgsT) -> Sequence[str]:
        """Return the files that the call names, as written there."""

    @abstractmethod
    def _edits(self, args: AnyArgsT, ctx: ToolContext, *, again: bool) -> Sequence[Edited]:
        """Compute the changes; `again`: it is only shown again. Raises ToolError, WorkspaceError.

        Call it in a thread: a patch of many parts takes seconds on a large file.
        """


def _line(edited: Edited) -> str:
    change = edited.change
    replaced = change.source is None and change.kind == "modified"
    return listing(change) + (f": {count(edited.replaced, 'replacement')}" if replaced else "")


def _notes(edited: Edited) -> tuple[str, ...]:
    return (*(f"{spelled(edited.path)}: {note}" for note in edited.told), *edited.notes)
