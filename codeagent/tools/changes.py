"""The common bases of tools that read files, and of tools that change them: their rules, their
preview, and how an accepted change is written."""

import os
import stat
from abc import abstractmethod
from typing import BinaryIO, TypeVar

from codeagent.changes.keys import path_key
from codeagent.core.checkpoints import Node
from codeagent.core.errors import MissingPath
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import spelled
from codeagent.core.tool import Access, Failed, Preview, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.arguments import PathText
from codeagent.tools.edit.reads import LARGEST_FILE, NOTHING, ReadState, ReadTracker, content
from codeagent.tools.edit.replacing import Edited, Replacing
from codeagent.tools.shell.rules import path_proposal


class PathArgs(ToolArgs):
    path: PathText


AnyArgsT = TypeVar("AnyArgsT", bound=ToolArgs)
ArgsT = TypeVar("ArgsT", bound=PathArgs)


class ReadingTool(Tool[ArgsT]):
    """A tool that shows a file or names, and changes nothing; rules match its path."""

    permission = "auto"
    concurrency = "shared"
    effect = "nothing"

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def approval_key(self, args: ArgsT) -> ApprovalKey:
        return path_key(self._workspace, args.path, reading=True)


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

    def _present(self, path: str, ctx: ToolContext) -> Node | None:
        """Return the file; None if there is none. Raises Failed if it is too large, or
        WorkspaceError."""
        try:
            return whole_file(path, ctx.workspace, "change it with a command instead")
        except MissingPath:
            return None

    def _known(self, path: str, data: bytes, ctx: ToolContext, *, again: bool) -> ReadState:
        """Return what the model has read of the current content. Raises Failed if it is unread, or
        changed since.

        `again`: the change is only shown again, so the state of the file does not matter.
        """
        return self._reads.check(path, data, shown=again or _is_bound(ctx.base, path, data))

    def _replacing(
        self, asked: str, ctx: ToolContext, *, again: bool, makes: bool = False
    ) -> Replacing:
        """Return the file for replacing parts of it; `makes`: it may be missing. Raises ToolError,
        WorkspaceError."""
        path = ctx.workspace.resolve(asked, reading=False)
        old = self._present(path, ctx)
        if old is None and not makes:
            raise MissingPath(f"{spelled(path)} does not exist")
        if old is None or not old.data:
            return Replacing(path, old, NOTHING)
        return Replacing(path, old, self._known(path, old.data, ctx, again=again))


class ChangeTool(FileTool[ArgsT]):
    """Computes a change of one file from a call, shows it, and writes the part that the user
    accepted."""

    def access(self, args: ArgsT, workspace: Workspace) -> Access:
        return Access("keyed", workspace.key(args.path))

    def approval_key(self, args: ArgsT) -> ApprovalKey:
        return path_key(self._workspace, args.path, reading=False)

    async def preview(self, args: ArgsT, ctx: ToolContext) -> Preview:
        from codeagent.tools.edit.accepted import change_set  # only what changes a file needs it

        return change_set([self._change(args, ctx, again=ctx.base is not None)]).preview()

    async def run(self, args: ArgsT, ctx: ToolContext) -> ToolResult:
        return self._written(args, ctx, self._change(args, ctx, again=False))

    def _written(self, args: ArgsT, ctx: ToolContext, edited: Edited) -> ToolResult:
        """Land the part of the change that the user accepted. Raises ToolError, WorkspaceError."""
        from codeagent.tools.edit import accepted  # only what changes a file needs it

        changes = accepted.change_set([edited])
        kept = f"{spelled(edited.path)} was not changed"
        if answered := accepted.answers_to(changes, ctx, kept):
            accepted.land_approved(accepted.taken(answered), ctx)
            return accepted.answered_result([edited], answered, self._reads)
        accepted.check_approved(changes, ctx)
        accepted.land_approved(changes, ctx)
        return self._answer(args, edited)

    @abstractmethod
    def _change(self, args: ArgsT, ctx: ToolContext, *, again: bool) -> Edited:
        """Compute the change; `again`: it is only shown again. Raises ToolError, WorkspaceError."""

    @abstractmethod
    def _answer(self, args: ArgsT, edited: Edited) -> ToolResult:
        """Return the result of a change that was written in full."""


def _is_bound(base: str | None, path: str, content: bytes) -> bool:
    if base is None:
        return False
    from codeagent.changes.change_set import is_bound  # only what changes a file needs it

    return is_bound(base, path, content)


def whole_file(path: str, workspace: Workspace, otherwise: str) -> Node:
    """Return a file with its content. Raises WorkspaceError, or Failed with the next step
    `otherwise` if it is too large."""
    with workspace.open(path) as file:
        data = content(file)
        if data is None:
            raise Failed(f"{spelled(path)} is larger than {LARGEST_FILE >> 20} MiB; {otherwise}")
        return file_node(file, data)


def file_node(file: BinaryIO, data: bytes) -> Node:
    """Return an open file with the content that was read from it."""
    mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    return Node("executable" if mode & stat.S_IXUSR else "file", data, mode)
