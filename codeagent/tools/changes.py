"""The common base of tools that change files: their rules, their preview, and how an accepted
change is written."""

from abc import abstractmethod
from typing import Generic, TypeVar

from codeagent.core.errors import MissingPath
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import spelled
from codeagent.core.tool import Access, Failed, Preview, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.arguments import PathText
from codeagent.tools.edit.hunks import PendingChange, is_bound, taken_by_hunk
from codeagent.tools.edit.reads import LARGEST_FILE, NOTHING, ReadState, ReadTracker, content
from codeagent.tools.edit.replacing import Replacing
from codeagent.tools.shell.rules import path_key, path_proposal


class PathArgs(ToolArgs):
    path: PathText


AnyArgsT = TypeVar("AnyArgsT", bound=ToolArgs)
ArgsT = TypeVar("ArgsT", bound=PathArgs)
ChangeT = TypeVar("ChangeT", bound=PendingChange)


class FileTool(Tool[AnyArgsT]):
    """A tool that changes a file only if the model has read it as it is now."""

    permission = "prompt"
    concurrency = "keyed"
    effect = "files"

    def __init__(self, workspace: Workspace, reads: ReadTracker) -> None:
        self._workspace = workspace
        self._reads = reads

    def proposal(self, args: AnyArgsT) -> str:
        return path_proposal(self.name, self.approval_key(args))

    def _present(self, path: str, ctx: ToolContext) -> bytes | None:
        """Return the file's content; None if there is no file. Raises Failed if it is too large, or
        WorkspaceError."""
        try:
            return whole_content(path, ctx.workspace, "change it with a command instead")
        except MissingPath:
            return None

    def _known(self, path: str, data: bytes, ctx: ToolContext, *, again: bool) -> ReadState:
        """Return what the model has read of the current content. Raises Failed if it is unread, or
        changed since.

        `again`: the change is only shown again, so the state of the file does not matter.
        """
        return self._reads.check(path, data, shown=again or is_bound(ctx.base, path, data))

    def _replacing(
        self, asked: str, ctx: ToolContext, *, again: bool, makes: bool = False
    ) -> Replacing:
        """Return the file for replacing parts of it; `makes`: it may be missing. Raises ToolError,
        WorkspaceError."""
        path = ctx.workspace.resolve(asked)
        old = self._present(path, ctx)
        if old is None and not makes:
            raise MissingPath(f"{spelled(path)} does not exist")
        return Replacing(path, old, self._known(path, old, ctx, again=again) if old else NOTHING)


class ChangeTool(FileTool[ArgsT], Generic[ArgsT, ChangeT]):
    """Computes a change of one file from a call, shows it, and writes the part that the user
    accepted."""

    def access(self, args: ArgsT, workspace: Workspace) -> Access:
        return Access("keyed", workspace.key(args.path))

    def approval_key(self, args: ArgsT) -> ApprovalKey:
        return path_key(self._workspace, args.path, reading=False)

    async def preview(self, args: ArgsT, ctx: ToolContext) -> Preview:
        return self._change(args, ctx, again=ctx.base is not None).preview()

    async def run(self, args: ArgsT, ctx: ToolContext) -> ToolResult:
        return self._written(args, ctx, self._change(args, ctx, again=False))

    def _written(self, args: ArgsT, ctx: ToolContext, change: ChangeT) -> ToolResult:
        """Write the part of the change that the user accepted. Raises ToolError, WorkspaceError."""
        if (taken := taken_by_hunk(change, ctx, self._reads)) is not None:
            return taken
        change.apply(ctx)
        return self._answer(args, change)

    @abstractmethod
    def _change(self, args: ArgsT, ctx: ToolContext, *, again: bool) -> ChangeT:
        """Compute the change; `again`: it is only shown again. Raises ToolError, WorkspaceError."""

    @abstractmethod
    def _answer(self, args: ArgsT, change: ChangeT) -> ToolResult:
        """Return the result of a change that was written in full."""


def whole_content(path: str, workspace: Workspace, otherwise: str) -> bytes:
    """Return all of a file. Raises WorkspaceError, or Failed with the next step `otherwise` if it
    is too large."""
    with workspace.open(path) as file:
        data = content(file)
    if data is None:
        raise Failed(f"{spelled(path)} is larger than {LARGEST_FILE >> 20} MiB; {otherwise}")
    return data
