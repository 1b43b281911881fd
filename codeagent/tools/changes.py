"""What the tools that change one file share: their rules, their preview, and how a change is taken and written."""

from abc import abstractmethod
from typing import Generic, TypeVar

from codeagent.core.errors import MissingPath
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.tool import Access, Failed, Preview, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.arguments import PathText
from codeagent.tools.edit.hunks import PendingChange, binding, taken_by_hunk
from codeagent.tools.edit.reads import LARGEST_FILE, ReadState, ReadTracker
from codeagent.tools.shell.rules import path_key, path_proposal


class PathArgs(ToolArgs):
    path: PathText


ArgsT = TypeVar("ArgsT", bound=PathArgs)
ChangeT = TypeVar("ChangeT", bound=PendingChange)


class ChangeTool(Tool[ArgsT], Generic[ArgsT, ChangeT]):
    """Computes a change of one file from a call, shows it, and writes what the user took of it."""

    permission = "prompt"
    concurrency = "keyed"
    effect = "files"

    def __init__(self, workspace: Workspace, reads: ReadTracker) -> None:
        self._workspace = workspace
        self._reads = reads

    def access(self, args: ArgsT, workspace: Workspace) -> Access:
        return Access("keyed", workspace.key(args.path))

    def approval_key(self, args: ArgsT) -> ApprovalKey:
        return path_key(self._workspace, args.path, reading=False)

    def proposal(self, args: ArgsT) -> str:
        return path_proposal(self.name, self.approval_key(args))

    async def preview(self, args: ArgsT, ctx: ToolContext) -> Preview:
        return self._change(args, ctx, again=ctx.base is not None).preview()

    async def run(self, args: ArgsT, ctx: ToolContext) -> ToolResult:
        change = self._change(args, ctx, again=False)
        if (taken := taken_by_hunk(change, ctx, self._reads)) is not None:
            return taken
        change.apply(ctx)
        return self._answer(args, change)

    @abstractmethod
    def _change(self, args: ArgsT, ctx: ToolContext, *, again: bool) -> ChangeT:
        """`again`: it is shown again, whatever happened to the file. Raises ToolError, WorkspaceError."""

    @abstractmethod
    def _answer(self, args: ArgsT, change: ChangeT) -> ToolResult:
        """The result of a change that was written as it is."""

    def _present(self, path: str, ctx: ToolContext) -> bytes | None:
        """The file's content; None if there is no file. Raises Failed if it is too large, WorkspaceError."""
        try:
            with ctx.workspace.open(path) as file:
                data = file.read(LARGEST_FILE + 1)
        except MissingPath:
            return None
        if len(data) > LARGEST_FILE:
            raise Failed(f"{path} is larger than {LARGEST_FILE >> 20} MiB; change it with a command instead")
        return data

    def _known(self, path: str, data: bytes, ctx: ToolContext, *, again: bool) -> ReadState:
        """What the model has read of the present content. Raises Failed: unread, or changed since and not shown."""
        return self._reads.check(path, data, shown=again or ctx.base == binding(path, data))
