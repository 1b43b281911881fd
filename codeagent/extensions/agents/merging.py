"""Merges what a child changed in its worktree into the workspace: everything that is allowed, or
nothing.

If a file was changed in the workspace in the meantime, nothing is taken. What is not taken stays as
a diff.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from codeagent.agent.approvals import Approvals
from codeagent.agent.checkpoints import WorkspaceLock
from codeagent.agent.emitter import Emitter
from codeagent.agent.hooks.hook import Deny, Hooks, Modify
from codeagent.agent.inspection import Inspection
from codeagent.agent.permissions import Permissions, fingerprint
from codeagent.changes.change_set import ChangeSet, diff_blocks, listing, named
from codeagent.changes.diff import count
from codeagent.changes.hunks import Answered
from codeagent.core.cancel import CancelToken
from codeagent.core.changes import Change, digest
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DisplayBlock, TextBlock, cut
from codeagent.core.errors import (
    CheckpointError,
    MissingPath,
    NotAFile,
    RunCancelled,
    WorkspaceError,
)
from codeagent.core.json_types import JsonValue
from codeagent.core.memory import OutputStore
from codeagent.core.messages import ErrorInfo, ErrorKind, ToolCall, text_of
from codeagent.core.paths import secret_reason
from codeagent.core.policy import SAID_NO, ApprovalKey, Verdict
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import on_one_line, spelled
from codeagent.core.tool import Cancelled, Failed, Preview, ToolContext, ToolResult
from codeagent.tools.changes import file_node
from codeagent.tools.edit.accepted import land_all

if TYPE_CHECKING:  # whoever made the worktree has imported it
    from codeagent.workspace.worktrees import Worktree

_WRITE = "write"
"""The tool whose rules and hooks decide what is taken, together with the rules that deny or ask
about `edit`."""
_READ = "read"
_MOST_FILES = 100
_MOST_BYTES = 32 << 20
"""The most changes offered; beyond that they are only kept as a diff, like everything that is not
taken."""
_MOST_DIFFS = 20
_EDITED = "its lines cannot be edited here: choose hunks, take it, or leave it"
_RULE = "a rule cannot be added here: take it, or leave it"
_WHOLE = "this cannot be answered hunk by hunk: take it, or leave it"
_WITH_THE_REST = "the user took the rest"
_NOTHING_TAKEN = "Nothing of what it changed was taken"


@dataclass(frozen=True)
class Receiver:
    """The parent's side of a merge."""

    emitter: Emitter
    permissions: Permissions
    """The parent's permissions, in a mode that is not wider than the child's."""
    approvals: Approvals
    workspace: Workspace
    lock: WorkspaceLock
    inspection: Inspection
    outputs: OutputStore
    hooks: Hooks


class Merge:
    """Everything that one child changed, on its way into the workspace."""

    def __init__(
        self, receiver: Receiver, agent: str, context: ToolContext, token: CancelToken
    ) -> None:
        """`context` is that of the call that started the child; `token` ends the questions."""
        self._to = receiver
        self._agent = agent
        self._context = context
        self._token = token
        self._changes: list[Change[Node]] = []
        self._conflicts: list[str] = []
        self._taken: list[Change[Node]] = []
        self._unasked: dict[str, JsonValue] = {}
        """What allowed the change, by path, for what is taken without a question."""
        self._left: list[str] = []
        """Paths that were not taken, each with the reason."""
        self._handle = ""

    async def carry_out(self, worktree: "Worktree", result: ToolResult) -> ToolResult:
        """Take what is allowed; return the child's result, with what became of its changes.

        Nothing of a failed child is offered. Raises Cancelled, which names the diff, if the
        questions are stopped.
        """
        try:
            await self._read(worktree)
            if not self._handle and not self._left:
                return _told(result, "It changed no file.")
            said, error = await self._outcome(result)
        except RunCancelled:
            content = self._ended(result, f"{_NOTHING_TAKEN}.", "cancelled").content
            raise Cancelled(
                "nothing of what the agent changed was taken", content=content
            ) from None
        except (CheckpointError, WorkspaceError, OSError) as fault:
            said, error = f"{_NOTHING_TAKEN}: {fault}", "failed"
        return await asyncio.to_thread(self._ended, result, said, error)

    async def _outcome(self, result: ToolResult) -> tuple[str, ErrorKind | None]:
        """Ask and apply; return what became of the changes, and the kind of error if it is one.
        Raises RunCancelled."""
        if result.error is not None:
            return f"{_NOTHING_TAKEN}, as it did not finish.", None
        if self._conflicts:
            return (
                f"{_NOTHING_TAKEN}: changed here in the meantime: {named(self._conflicts)}.",
                "failed",
            )
        if not self._changes and not self._left:
            return "The workspace already has all that it changed.", None
        await self._ask_about_all()
        try:
            await self._apply()
        except Failed as fault:
            return f"{_NOTHING_TAKEN}: {fault}.", "failed"
        if not self._taken:
            return f"{_NOTHING_TAKEN}.", "denied" if self._changes else "failed"
        return f"Taken into the workspace: {', '.join(map(listing, self._taken))}.", None

    async def _read(self, worktree: "Worktree") -> None:
        """Read all changes: keep the whole diff, and sort what can be offered. Raises
        CheckpointError."""
        paths = await worktree.changed()
        self._left += [on_one_line(phrase) for phrase in worktree.left_out]
        if not paths:
            return
        sink, size = self._to.outputs.create(f"{self._context.call_id}-diff"), 0
        self._handle = sink.handle
        try:
            for path in paths:
                file = await worktree.file(path)
                size += sum(
                    len(node.data) for node in (file.before, file.after) if node is not None
                )
                # The model may read the diff unasked, which it could not do with every file.
                hidden = secret_reason(path) is not None or self._to.permissions.withheld(
                    (_READ,), (), path
                )
                sink.write(await asyncio.to_thread(_diff, file, hidden))
                if len(paths) <= _MOST_FILES and size <= _MOST_BYTES:
                    await asyncio.to_thread(self._take_in, file)
        finally:
            sink.close()
        if len(paths) > _MOST_FILES or size > _MOST_BYTES:
            self._changes = []
            self._conflicts = []
            self._left = [f"{count(len(paths), 'file')} (too much to be offered)"]

    def _take_in(self, file: Change[Node]) -> None:
        """Sort a file into what can be offered, conflicts, and what cannot be taken; blocks on a
        large file."""
        if "link" in file.contents:
            self._left.append(f"{spelled(file.path)} (a link)")
            return
        could, can = (
            node is not None and node.kind == "executable" for node in (file.before, file.after)
        )
        if could != can and file.after is not None:
            self._left.append(
                f"{spelled(file.path)} (that it can {'' if can else 'no longer '}be run)"
            )
        before, after = _bytes(file.before), _bytes(file.after)
        if before == after:
            return
        try:
            present = _present(self._to.workspace, file.path)
        except (WorkspaceError, OSError):
            self._conflicts.append(file.path)
            return
        if _bytes(present) == after:
            return
        if _bytes(present) != before:
            self._conflicts.append(file.path)
            return
        self._changes.append(_onto(file, present))

    def _judged(self, change: Change[Node]) -> tuple[ApprovalKey, Verdict]:
        key = ChangeSet((change,)).policy_key(self._to.workspace)
        return key, self._to.permissions.policy.check(_WRITE, key, "prompt", "files")

    async def _ask_about_all(self) -> None:
        """Decide about every file before any is changed. Raises RunCancelled."""
        rest = False
        for number, change in enumerate(self._changes, start=1):
            path, all_of = change.path, len(self._changes)
            if objection := await self._objection(change):
                self._left.append(f"{spelled(path)} ({objection})")
                continue
            key, verdict = self._judged(change)
            may_follow = rest and key.sensitive is None and verdict.source != "rule"
            match verdict.permission:
                case "deny":
                    self._left.append(f"{spelled(path)} ({verdict.reason})")
                case "prompt" if not may_follow:
                    place = (
                        f" ({number} of {all_of}; a yes for the session takes the rest)"
                        if number < all_of
                        else ""
                    )
                    about = f"changed by {self._agent} in its worktree{place}"
                    rest = (
                        await self._ask(
                            change, f"{about}: {key.sensitive}" if key.sensitive else about
                        )
                        or rest
                    )
                case _:
                    self._unasked[spelled(path)] = (
                        verdict.reason if verdict.permission == "auto" else _WITH_THE_REST
                    )
                    self._taken.append(change)

    async def _objection(self, change: Change[Node]) -> str:
        """Return why a hook keeps the file from being taken, as a phrase; empty if none does.
        Raises RunCancelled.

        The hooks also judged the child's calls, but those may have named the file by its path in
        the worktree.
        """
        if not self._to.hooks.may_modify(_WRITE):
            return ""
        arguments = {"path": spelled(change.path)}
        if change.after is not None and change.texts is not None and diff_blocks(change):
            arguments["content"] = change.texts[1]
        call = ToolCall(id=self._context.call_id, name=_WRITE, arguments=json.dumps(arguments))
        match await self._token.guard(self._to.hooks.before_tool(call)):
            case Deny(reason):
                return reason or "a hook denied it"
            case Modify(others) if others != arguments:
                return "a hook would change what is written"
            case _:
                return ""

    async def _ask(self, change: Change[Node], reason: str) -> bool:
        """Ask about one file; return whether the rest is to be taken as well. Raises
        RunCancelled."""
        preview, path = _preview(change), change.path
        why = reason
        while True:
            binding = fingerprint(_WRITE, {"path": path}, preview.base or "", self._agent)
            decision = await self._to.approvals.ask(
                self._context.call_id, _WRITE, preview, why, self._token, binding=binding
            )
            match decision.answer:
                case "deny":
                    said = decision.reason or SAID_NO
                    self._left.append(f"{spelled(path)} ({said})")
                    return False
                case "edit" | "rule":
                    why = f"{_EDITED if decision.answer == 'edit' else _RULE}; {reason}"
                case "once" | "session" if decision.hunks is not None and not preview.by_hunk:
                    why = f"{_WHOLE}; {reason}"
                case "once" | "session":
                    try:
                        self._answered(change, decision.hunks)
                    except Failed as error:
                        why = f"{error}; {reason}"
                        continue
                    return decision.answer == "session"

    def _answered(
        self, change: Change[Node], hunks: Sequence[bool | tuple[str, ...]] | None
    ) -> None:
        """Raises Failed if the answers do not fit."""
        if hunks is None or change.after is None:
            self._taken.append(change)
            return
        answered = Answered.of(change, hunks)
        if not answered.whole:
            self._left.append(f"{spelled(change.path)} (in part)")
        if not answered.left_out:
            self._taken.append(answered.took)

    async def _apply(self) -> None:
        """Raises Failed, and changes nothing then; RunCancelled."""
        if not self._taken:
            return
        await self._token.guard(self._to.lock.enter(alone=False))
        try:
            await self._to.emitter.sync()
            await asyncio.to_thread(self._do, ChangeSet(tuple(self._taken)))
        finally:
            self._to.lock.leave(alone=False)
        for change in self._taken:
            written = "" if change.after is None else digest(change.after.data)
            self._to.inspection.wrote({"path": spelled(change.path), "sha256": written})

    def _do(self, changes: ChangeSet) -> None:
        """Land the changes unless the files differ from what was allowed. Raises Failed; blocks."""
        for change in changes.changes:
            path = change.path
            _, verdict = self._judged(change)
            if verdict.permission == "deny":
                raise Failed(f"{spelled(path)}: {verdict.reason}")
            if self._to.workspace.key(path) != path:
                raise Failed(f"{spelled(path)} has become a link, or is behind one")
        land_all(changes, self._context)

    def _ended(self, result: ToolResult, text: str, error: ErrorKind | None = None) -> ToolResult:
        """Return the result with what was taken and what was not; blocks on a large diff."""
        if self._left:
            more = (
                f" and {len(self._left) - _MOST_DIFFS} more"
                if len(self._left) > _MOST_DIFFS
                else ""
            )
            text += f" Not taken: {', '.join(self._left[:_MOST_DIFFS])}{more}."
        if self._handle and (self._left or error is not None or result.error is not None):
            text += f' All that it changed: output_read(id="{self._handle}").'
        shown = self._taken if self._taken and error is None else self._changes
        blocks = ChangeSet(tuple(shown)).blocks
        details: dict[str, JsonValue] = {
            "taken": [spelled(change.path) for change in self._taken] if error is None else [],
            "unasked": self._unasked if error is None else {},
            "diff": self._handle,
        }
        told = _told(result, text, error, blocks[:_MOST_DIFFS])
        return replace(told, details={**result.details, "worktree": details})


def _told(
    result: ToolResult,
    text: str,
    error: ErrorKind | None = None,
    blocks: Sequence[DisplayBlock] = (),
) -> ToolResult:
    """Return the result with one more paragraph; `error` is set if that makes it an error."""
    whole = f"{text_of(result.content)}\n\n{text}"
    info = (
        result.error
        if error is None or result.error is not None
        else ErrorInfo(kind=error, message=text)
    )
    content = ToolResult.from_text(whole).content
    shown_blocks = (TextBlock(text=whole), *blocks) if blocks else result.blocks
    return replace(result, content=content, error=info, blocks=shown_blocks)


def _diff(file: Change[Node], hidden: bool) -> str:
    """Return the change as a `git diff -U0`, or a line that there is one; slow for a large file."""
    path = spelled(file.path)
    if hidden:
        return f"{path}: changed, and not for the model to read without a question\n"
    if file.texts is None:
        return f"{path}: not text\n"
    old, new = file.texts
    if old == new:
        return f"{path}: {'an empty file' if file.before is None or file.after is None else 'the same text'}\n"
    shift = 0
    lines = [f"--- {'/dev/null' if file.before is None else f'a/{path}'}"]
    lines.append(f"+++ {'/dev/null' if file.after is None else f'b/{path}'}")
    for hunk in cut(old, new):
        # For a range without lines, git gives the number of the line before.
        first, begin = hunk.start + bool(hunk.old), hunk.start + shift + bool(hunk.new)
        lines.append(f"@@ -{first},{len(hunk.old)} +{begin},{len(hunk.new)} @@")
        lines += [*(f"-{line}" for line in hunk.old), *(f"+{line}" for line in hunk.new)]
        shift += len(hunk.new) - len(hunk.old)
    return "\n".join([*lines, ""])


def _onto(file: Change[Node], present: Node | None) -> Change[Node]:
    """Return the child's change for the file that the workspace has, which keeps its mode."""
    after = file.after
    if after is None or present is None:
        return Change(file.path, present, after and Node("file", after.data))
    return Change(file.path, present, replace(present, data=after.data))


def _preview(change: Change[Node]) -> Preview:
    path, after = spelled(change.path), change.after
    if after is None:
        return Preview(path, (TextBlock(text=f"{path} is removed"), *diff_blocks(change)))
    texts = change.texts
    if texts is not None and (texts[0] != texts[1] or change.before is None):
        return ChangeSet((change,)).preview()
    what = "which is not text" if texts is None else "whose text stays the same"
    said = TextBlock(text=f"{path}, {what}, becomes {count(len(after.data), 'byte')}")
    return Preview(path, (said,), base=ChangeSet((change,)).binding)


def _bytes(node: Node | None) -> bytes | None:
    return None if node is None else node.data


def _present(workspace: Workspace, path: str) -> Node | None:
    """Return what the workspace has at the path itself; None if there is nothing.

    Raises WorkspaceError, also if the path leads through a link: a child's changes never do. Raises
    OSError.
    """
    if workspace.resolve(path, reading=False) != path:
        raise NotAFile(f"{path} leads through a link")
    try:
        with workspace.open(path) as file:
            return file_node(file, file.read(_MOST_BYTES + 1))
    except MissingPath:
        return None
