"""A change of several files: shown together, bound to the content of each, and applied either to
all or to none."""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import assert_never

from codeagent.core.dataclass import dataclass
from codeagent.core.display import DisplayBlock, TextBlock
from codeagent.core.errors import ContentChanged, WorkspaceError
from codeagent.core.json_types import JsonValue
from codeagent.core.policy import ApprovalKey, EquivalentCall
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import spelled
from codeagent.core.tool import (
    EXCLUSIVE,
    Access,
    BaseChanged,
    Denied,
    Failed,
    Preview,
    ToolContext,
    ToolResult,
)
from codeagent.tools.changes import AnyArgsT, FileTool
from codeagent.tools.edit.diff import count, diff_block
from codeagent.tools.edit.hunks import BETWEEN, Answered, answered_result, binding, hunks_of
from codeagent.tools.edit.reads import ReadState, ReadTracker, digest
from codeagent.tools.edit.replacing import Edited
from codeagent.tools.shell.rules import path_key

_MOST_NAMED = 3


@dataclass(frozen=True)
class Removal:
    """A file that is removed."""

    path: str
    old: bytes
    before: str


@dataclass(frozen=True)
class Move:
    """A file that is renamed, and perhaps changed."""

    path: str
    to: str
    old: bytes
    known: ReadState | None
    """What the model has read of it; None if nothing."""
    edited: Edited | None = None
    """The change of the content, under the new name; None if it is unchanged."""


FileStep = Edited | Move | Removal


@dataclass(frozen=True)
class ChangeSet:
    """What one call does to files; each path has at most one step."""

    steps: tuple[FileStep, ...]

    @property
    def binding(self) -> str:
        """The text that an approval is bound to."""
        return BETWEEN.join(binding(step.path, step.old) for step in self.steps)

    @property
    def lines(self) -> tuple[str, ...]:
        """Return `A path`, `M path` or `D path` for each file."""
        return tuple(_line(step) for step in self.steps)

    def preview(self) -> Preview:
        if len(self.steps) == 1 and isinstance(self.steps[0], Edited):
            return self.steps[0].preview()
        listed = TextBlock(text="\n".join(self.lines))
        by_hunk = all(isinstance(step, Edited) and step.preview().by_hunk for step in self.steps)
        target = named([step.path for step in self.steps])
        return Preview(target, (listed, *self.blocks), base=self.binding, by_hunk=by_hunk)

    @property
    def blocks(self) -> tuple[DisplayBlock, ...]:
        return tuple(block for step in self.steps for block in _blocks(step))

    def taken_by_hunk(self, ctx: ToolContext, reads: ReadTracker) -> ToolResult | None:
        """Apply the hunks that the user took, in all files or none; None if all were taken, or not
        asked hunk by hunk.

        Raises BaseChanged, Denied if none was taken, Failed if the answers do not fit the hunks.
        """
        if ctx.hunks is None:
            return None
        self._check(ctx)
        rest, answered = list(ctx.hunks if ctx.base is not None else ()), list[Answered[Edited]]()
        for step in self.steps:
            if not isinstance(step, Edited):
                raise Failed(
                    "a change that moves or removes files cannot be taken by hunk; make the same call again"
                )
            own = len(hunks_of(step)) if step is not self.steps[-1] else len(rest)
            answered.append(Answered.of(step, rest[:own]))
            del rest[:own]
        if all(one.left_out for one in answered):
            hunks = count(sum(len(one.hunks) for one in answered), "hunk")
            raise Denied(f"the user took none of the {hunks}; no file was changed")
        if all(one.whole for one in answered):
            return None
        ChangeSet(tuple(one.took for one in answered if not one.left_out)).do(ctx)
        return answered_result(answered, reads)

    def apply(self, ctx: ToolContext) -> None:
        """Do every step, or put back what was done. Raises BaseChanged if something else was
        approved, Failed."""
        self._check(ctx)
        self.do(ctx)

    def _check(self, ctx: ToolContext) -> None:
        if ctx.base is not None and ctx.base != self.binding:
            raise BaseChanged

    def do(self, ctx: ToolContext) -> None:
        """Do every step, or put back what was done. Raises BaseChanged if a file is not as it was
        shown, Failed."""
        undo: list[tuple[str, Callable[[], None]]] = []
        try:
            # Removals come last: until then, everything can be put back as it was.
            for step in sorted(self.steps, key=lambda step: isinstance(step, Removal)):
                _apply(step, ctx.workspace, undo)
        except WorkspaceError as error:
            lost = _put_back(undo)
            if lost:
                raise Failed(
                    f"{error}; and these could not be put back as they were: {named(lost)}"
                ) from None
            if isinstance(error, ContentChanged) and ctx.base is not None:
                raise BaseChanged from None
            raise Failed(f"{error}; no file was changed") from None

    def record(self, reads: ReadTracker) -> dict[str, JsonValue]:
        """Record what the model knows of the files now. Returns the details of the result."""
        known: list[JsonValue] = []
        for step in self.steps:
            if not isinstance(step, Edited):
                known.append({"path": spelled(step.path), "sha256": ""})
            match step:
                case (Edited() as edited) | Move(edited=Edited() as edited):
                    known.append(
                        reads.wrote(edited.path, edited.data, edited.seen, whole=edited.known.whole)
                    )
                case Move(known=ReadState() as seen):
                    known.append(reads.wrote(step.to, step.old, seen.lines, whole=seen.whole))
                case _:
                    pass
        return {"changed_files": known}


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
        changes = await asyncio.to_thread(self._changes, args, ctx, again=False)
        if (taken := changes.taken_by_hunk(ctx, self._reads)) is not None:
            return taken
        changes.apply(ctx)
        notes = [note for step in changes.steps for note in _notes(step)]
        text = "\n".join([*changes.lines, *dict.fromkeys(notes)])
        return ToolResult.from_text(
            text, blocks=changes.blocks, details=changes.record(self._reads)
        )

    def _previewed(self, args: AnyArgsT, ctx: ToolContext) -> Preview:
        return self._changes(args, ctx, again=ctx.base is not None).preview()

    @abstractmethod
    def _paths(self, args: AnyArgsT) -> Sequence[str]:
        """Return the files that the call names, as written there."""

    @abstractmethod
    def _changes(self, args: AnyArgsT, ctx: ToolContext, *, again: bool) -> ChangeSet:
        """Compute the change; `again`: it is only shown again. Raises ToolError, WorkspaceError.

        Call it in a thread: a patch of many parts takes seconds on a large file.
        """


def paths_key(workspace: Workspace, paths: Sequence[str]) -> ApprovalKey:
    """Return what rules are matched against: every path, as `edit` would be asked about it."""
    keys = [path_key(workspace, path, reading=False) for path in dict.fromkeys(paths)]
    parts = tuple(dict.fromkeys(part for key in keys for part in key.parts))
    sensitive = next((key.sensitive for key in keys if key.sensitive is not None), None)
    opaque = not keys or any(key.opaque for key in keys)
    whole = ApprovalKey(kind="path", parts=parts, opaque=opaque, sensitive=sensitive)
    return ApprovalKey("path", parts, opaque, sensitive, does=(EquivalentCall("edit", whole),))


def named(paths: Sequence[str]) -> str:
    """Return the first few files and the number of others, in one line."""
    unique = [spelled(path) for path in dict.fromkeys(paths)]
    more = f" and {len(unique) - _MOST_NAMED} more" if len(unique) > _MOST_NAMED else ""
    return ", ".join(unique[:_MOST_NAMED]) + more


def _line(step: FileStep) -> str:
    match step:
        case Removal():
            return f"D {spelled(step.path)}"
        case Move():
            return f"M {spelled(step.to)} (moved from {spelled(step.path)})"
        case Edited():
            many = "" if step.old is None else f": {count(step.replaced, 'replacement')}"
            return f"{'A' if step.old is None else 'M'} {spelled(step.path)}{many}"
        case _:
            assert_never(step)


def _blocks(step: FileStep) -> tuple[DisplayBlock, ...]:
    match step:
        case Removal():
            return (diff_block(step.path, step.before, ""),)
        case (Edited() as edited) | Move(edited=Edited() as edited):
            return (diff_block(edited.path, edited.before, edited.after),)
        case Move():
            return ()
        case _:
            assert_never(step)


def _notes(step: FileStep) -> tuple[str, ...]:
    match step:
        case (Edited() as edited) | Move(edited=Edited() as edited):
            return (*(f"{spelled(edited.path)}: {note}" for note in edited.told), *edited.notes)
        case Move() | Removal():
            return ()
        case _:
            assert_never(step)


def _apply(
    step: FileStep, workspace: Workspace, undo: list[tuple[str, Callable[[], None]]]
) -> None:
    """Do one step, and record how to undo it. Raises WorkspaceError, without having done any of the
    step."""
    match step:
        case Removal(path=path, old=old):
            workspace.remove(path, base=digest(old))
            undo.append((path, partial(workspace.write, path, old, base=None)))
        case Move(path=path, to=to, old=old, edited=edited):
            workspace.move(path, to, base=digest(old))
            undo.append((path, partial(workspace.move, to, path, base=digest(old))))
            if edited is not None:
                _write(edited, digest(old), workspace, undo)
        case Edited():
            _write(step, step.base, workspace, undo)
        case _:
            assert_never(step)


def _write(
    edited: Edited,
    base: str | None,
    workspace: Workspace,
    undo: list[tuple[str, Callable[[], None]]],
) -> None:
    path, data = edited.path, edited.data
    workspace.write(path, data, base=base)
    if edited.old is None:
        undo.append((path, partial(workspace.remove, path, base=digest(data))))
    else:
        undo.append((path, partial(workspace.write, path, edited.old, base=digest(data))))


def _put_back(undo: list[tuple[str, Callable[[], None]]]) -> list[str]:
    """Undo the steps, the last first. Returns the paths that could not be put back."""
    lost = []
    for path, back in reversed(undo):
        try:
            back()
        except WorkspaceError:
            lost.append(path)
    return lost
