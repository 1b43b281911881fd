"""The `list` tool: the tree of a directory, without what the repository ignores."""

import asyncio
import posixpath
from collections.abc import Iterator
from dataclasses import field
from typing import Annotated

from pydantic import Field

from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.display import FilesBlock
from codeagent.core.errors import WorkspaceError
from codeagent.core.json_types import JsonObject
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import DirEntry, IgnoreRules, Workspace
from codeagent.core.tool import Tool, ToolArgs, ToolContext, ToolResult
from codeagent.core.wildmatch import IgnoreLine, ignore_line
from codeagent.tools.arguments import Count, PathText
from codeagent.tools.edit.diff import count
from codeagent.tools.edit.encoding import shown
from codeagent.tools.shell.rules import path_key

_DEPTH = 3
_DEEPEST = 64
_MOST_LINES = 500
_MOST_IN_ONE = 100


class ListArgs(ToolArgs):
    path: PathText = "."
    depth: Annotated[Count, Field(le=_DEEPEST)] | None = None
    glob: str | None = None


class List(Tool[ListArgs]):
    name = "list"
    label = "List"
    description = (
        f"Show a directory as a tree with file sizes, {_DEPTH} levels deep, ignored files (.gitignore) left out and "
        "counted. With glob, list matching paths instead: *.py, src/**/test_*."
    )
    Args = ListArgs
    permission = "auto"
    concurrency = "shared"
    effect = "nothing"

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def approval_key(self, args: ListArgs) -> ApprovalKey:
        return path_key(self._workspace, args.path, reading=True)

    def target(self, args: ListArgs) -> str:
        return f"{args.path} {args.glob}" if args.glob else args.path

    async def run(self, args: ListArgs, ctx: ToolContext) -> ToolResult:
        path = ctx.workspace.resolve(args.path)
        glob = ignore_line(args.glob) if args.glob else None
        depth = args.depth or (_DEEPEST if glob else _DEPTH)
        walk = _TreeWalk(ctx.workspace, ctx.workspace.ignores(), ctx.cancel, depth, glob)
        await asyncio.to_thread(walk.list, path)
        ctx.cancel.raise_if_cancelled()
        lines = [*walk.lines, *walk.notes()] or ["[The directory is empty.]"]
        text = f"{shown(path)}/\n" + "\n".join(lines)
        blocks = (FilesBlock(paths=tuple(walk.files)),) if walk.files and glob else ()
        details: JsonObject = {
            "path": shown(path),
            "files": len(walk.files),
            "ignored": walk.ignored,
            "left_out": walk.left_out,
        }
        return ToolResult.from_text(text, blocks=blocks, details=details)


@dataclass
class _TreeWalk:
    """One walk of the tree; every directory is opened beneath the root, no link is followed."""

    workspace: Workspace
    rules: IgnoreRules
    cancel: CancelToken
    depth: int
    glob: IgnoreLine | None
    lines: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    ignored: int = 0
    left_out: int = 0
    unreadable: int = 0
    beyond_depth: int = 0

    def list(self, path: str) -> None:
        """Fills the fields. Raises WorkspaceError for the directory itself, not for those in it."""
        self._directory(path, self.workspace.entries(path), 1)

    def notes(self) -> Iterator[str]:
        """What the lines do not show."""
        if self.ignored:
            yield f"[{count(self.ignored, 'ignored name')} left out]"
        if self.beyond_depth:
            many = "directory" if self.beyond_depth == 1 else "directories"
            yield f"[{self.beyond_depth} {many} not opened: depth {self.depth}]"
        if self.left_out:
            yield f"[{self.left_out} more names left out; list a smaller directory, or use glob]"
        if self.unreadable:
            yield f"[{self.unreadable} could not be opened]"
        if self.glob is not None and not self.files:
            yield "[No file matches.]"

    def _directory(self, path: str, entries: Iterator[DirEntry], level: int) -> None:
        kept = 0
        for entry in entries:
            if self.cancel.cancelled:
                return
            below = posixpath.normpath(posixpath.join(path, entry.name))
            directory = entry.kind == "directory"
            if self.rules.ignored(below, directory):
                self.ignored += 1
                continue
            if self.glob is None and kept >= _MOST_IN_ONE:
                self.left_out += 1
                continue
            kept += 1
            if directory:
                self._enter(below, entry, level)
            else:
                self._file(below, entry, level)

    def _enter(self, path: str, entry: DirEntry, level: int) -> None:
        closed = entry.name == ".git"
        if self.glob is None:
            self._add(f"{_indent(level)}{shown(entry.name)}/{' (not listed)' if closed else ''}")
        if closed or len(self.lines) >= _MOST_LINES:
            return
        if level >= self.depth:
            self.beyond_depth += 1
            return
        try:
            entries = self.workspace.entries(path)
        except WorkspaceError:
            self.unreadable += 1
            return
        self._directory(path, entries, level + 1)

    def _file(self, path: str, entry: DirEntry, level: int) -> None:
        if self.glob is not None and not self.glob.matches(path, False):
            return
        name = shown(path if self.glob is not None else entry.name)
        what = _size(entry.size) if entry.kind == "file" else entry.kind
        if entry.link_target is not None:
            what = f"-> {shown(entry.link_target)}"
        if self._add(f"{_indent(level) if self.glob is None else ''}{name}  {what}"):
            self.files.append(shown(path))

    def _add(self, line: str) -> bool:
        if len(self.lines) >= _MOST_LINES:
            self.left_out += 1
            return False
        self.lines.append(line)
        return True


def _indent(level: int) -> str:
    return "  " * level


def _size(size: int) -> str:
    if size < 1000:
        return f"{size} B"
    if size < 1_000_000:
        return f"{size / 1000:.1f} KB"
    return f"{size / 1_000_000:.1f} MB"
