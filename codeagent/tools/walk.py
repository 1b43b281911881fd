"""Walks a directory tree: lists every name below its folder, or the matching paths, without ignored
files."""

import asyncio
import posixpath
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import field

from codeagent.changes.diff import count
from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.display import FilesBlock
from codeagent.core.errors import WorkspaceError
from codeagent.core.json_types import JsonObject
from codeagent.core.patterns import IgnoreLine, IgnoreRules
from codeagent.core.ports import DirEntry, Workspace
from codeagent.core.sanitize import spelled
from codeagent.core.tool import ToolResult


@dataclass
class TreeWalk:
    """One walk of the tree; every directory is opened inside the root, and links are not
    followed."""

    workspace: Workspace
    cancel: CancelToken
    depth: int
    globs: tuple[IgnoreLine, ...] = ()
    """Globs of the listed files, with `!` those of files left out; empty lists everything as a
    tree."""
    only_folders: bool = False
    """For a tree: only the directories, each with its number of files."""
    most_lines: int = 500
    denied: Callable[[str], bool] = lambda path: False
    """Whether a rule keeps the file from being read: then it is not named either."""
    most_in_one: int = 100
    """The most names of one directory in a tree."""
    lines: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    unseen: Counter[str] = field(default_factory=Counter)
    """How many names, or directories, are not shown, by the reason."""

    async def result(self, path: str) -> ToolResult:
        """Walk in a thread. Raises WorkspaceError, RunCancelled."""
        await asyncio.to_thread(self.list, path)
        self.cancel.raise_if_cancelled()
        lines = [*self.lines, *self.notes()] or ["[The directory is empty.]"]
        text = f"{spelled(path)}/\n" + "\n".join(lines)
        blocks = (FilesBlock(paths=tuple(self.files)),) if self.files and self.globs else ()
        details: JsonObject = {
            "path": spelled(path),
            "files": len(self.files),
            "ignored": self.unseen["ignored"],
            "left_out": self.unseen["left_out"],
        }
        return ToolResult.from_text(text, blocks=blocks, details=details)

    def list(self, path: str) -> None:
        """Fill the fields. Raises WorkspaceError for the directory itself, not for those inside."""
        self._directory(path, self.workspace.entries(path), self.workspace.ignores(), 1)

    def notes(self) -> Iterator[str]:
        """Return notes about what the lines do not show."""
        unseen = self.unseen
        if ignored := unseen["ignored"]:
            yield f"[{count(ignored, 'ignored name')} left out]"
        if denied := unseen["denied"]:
            yield f"[{count(denied, 'name')} left out: a rule keeps what is there from being read]"
        if deeper := unseen["deeper"]:
            many = "directory" if deeper == 1 else "directories"
            yield f"[{deeper} {many} not opened: depth {self.depth}]"
        if left_out := unseen["left_out"]:
            yield f"[{left_out} more names left out; list a smaller directory, or use glob]"
        if unreadable := unseen["unreadable"]:
            yield f"[{unreadable} could not be opened]"
        if self.globs and not self.files:
            yield "[No file matches.]"

    def _directory(
        self, path: str, entries: Iterator[DirEntry], rules: IgnoreRules, level: int
    ) -> None:
        kept = 0
        for entry in entries:
            if self.cancel.cancelled:
                return
            below = posixpath.normpath(posixpath.join(path, entry.name))
            directory = entry.kind == "directory"
            if rules.ignored(below, directory):
                self.unseen["ignored"] += 1
                continue
            if self.denied(below):
                self.unseen["denied"] += 1
                continue
            if not self.globs and kept >= self.most_in_one:
                self.unseen["left_out"] += 1
                continue
            kept += 1
            if directory:
                self._enter(below, entry, rules, level)
            else:
                self._file(below, entry, level)

    def _enter(self, path: str, entry: DirEntry, rules: IgnoreRules, level: int) -> None:
        closed = entry.name == ".git"
        if not self.globs:
            self._add(f"{_indent(level)}{spelled(entry.name)}/{' (not listed)' if closed else ''}")
        if closed or len(self.lines) >= self.most_lines:
            return
        if level >= self.depth:
            self.unseen["deeper"] += 1
            return
        try:
            entries = self.workspace.entries(path)
        except WorkspaceError:
            self.unseen["unreadable"] += 1
            return
        line, before = len(self.lines) - 1, len(self.files)
        self._directory(path, entries, rules, level + 1)
        if self.only_folders:
            self.lines[line] += f"  {count(len(self.files) - before, 'file')}"

    def _wanted(self, path: str) -> bool:
        """Whether the file matches one of the globs (if there are any without `!`), and none with
        `!`."""
        matching = [glob.negated for glob in self.globs if glob.matches(path, False)]
        return not any(matching) and (bool(matching) or all(glob.negated for glob in self.globs))

    def _file(self, path: str, entry: DirEntry, level: int) -> None:
        if not self._wanted(path):
            return
        if self.only_folders:
            self.files.append(spelled(path))
            return
        name = spelled(path if self.globs else entry.name)
        what = _size(entry.size) if entry.kind == "file" else entry.kind
        if entry.link_target is not None:
            what = (
                "link"
                if self._leads_to_denied(path, entry.link_target)
                else f"-> {spelled(entry.link_target)}"
            )
        if self._add(f"{_indent(level) if not self.globs else ''}{name}  {what}"):
            self.files.append(spelled(path))

    def _leads_to_denied(self, path: str, target: str) -> bool:
        try:
            return self.denied(
                self.workspace.relative(posixpath.join(posixpath.dirname(path), target))
            )
        except WorkspaceError:
            return False

    def _add(self, line: str) -> bool:
        if len(self.lines) >= self.most_lines:
            self.unseen["left_out"] += 1
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
