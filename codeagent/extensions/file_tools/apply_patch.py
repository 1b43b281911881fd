"""The `apply_patch` tool: adds, updates, moves and deletes files according to one patch, either all
or none."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, assert_never

from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.deferred import AfterValidator
from codeagent.core.errors import MissingPath
from codeagent.core.sanitize import spelled
from codeagent.core.text_files import NotText, read_text
from codeagent.core.tool import Failed, InvalidArgs, ToolArgs, ToolContext
from codeagent.extensions.file_tools.changeset import ChangeSetTool
from codeagent.extensions.file_tools.patch import (
    AddFile,
    DeleteFile,
    FilePatch,
    UpdateFile,
    apply_chunks,
    parse_patch,
    paths_of,
)
from codeagent.tools.edit.reads import NOTHING, ReadState
from codeagent.tools.edit.replacing import Edited, Replacement, Replacing


def _readable(patch: str) -> str:
    parse_patch(patch)
    return patch


class ApplyPatchArgs(ToolArgs):
    patch: Annotated[str, AfterValidator(_readable)]


class ApplyPatch(ChangeSetTool[ApplyPatchArgs]):
    name = "apply_patch"
    label = "Patch files"
    description = (
        "Apply a patch in the format '*** Begin Patch' … '*** End Patch' to one or more files, "
        "all of it or nothing."
    )
    documentation = """\
Between `*** Begin Patch` and `*** End Patch` come one or more files:

- `*** Add File: PATH`, then every line of the new file with a `+` in front.
- `*** Delete File: PATH`.
- `*** Update File: PATH`, perhaps `*** Move to: NEW PATH`, then the parts that change. A part begins with `@@`, or
  `@@ LINE` to look for it only below that line, such as the head of a function; several such lines narrow it further.
  Then come lines of the file: with a space in front those that stay (about three before and after), with `-` those that
  go, with `+` new ones. `*** End of File` behind a part says that it is at the end of the file.

The parts of a file are in the order of the file. Lines are looked for exactly, then without blanks at their ends, then
without blanks around them, then with quotes and dashes of any kind; the first place counts. Read a file before you
change or delete it. A new file, or a new name, must not exist yet. If one part does not fit, no file is changed."""
    Args = ApplyPatchArgs

    def _paths(self, args: ApplyPatchArgs) -> Sequence[str]:
        return paths_of(parse_patch(args.patch))

    def _edits(self, args: ApplyPatchArgs, ctx: ToolContext, *, again: bool) -> Sequence[Edited]:
        patches = parse_patch(args.patch)
        used: set[str] = set()
        for path in paths_of(patches):
            resolved = ctx.workspace.resolve(path, reading=False)
            if resolved in used:
                raise InvalidArgs(
                    f"the patch names {spelled(path)} twice; put all its changes under one name"
                )
            used.add(resolved)
        return [self._edited(patch, ctx, again=again) for patch in patches]

    def _edited(self, patch: FilePatch, ctx: ToolContext, *, again: bool) -> Edited:
        match patch:
            case AddFile(path=path, lines=lines):
                return self._added(path, "".join(f"{line}\n" for line in lines), ctx)
            case DeleteFile(path=path):
                return self._removed(path, ctx, again=again)
            case UpdateFile(path=path, to=to):
                if to is not None:
                    return self._moved(patch, path, to, ctx, again=again)
                work = self._replacing(path, ctx, again=again)
                apply_chunks(work, patch.chunks, path)
                return work.change()
            case _:
                assert_never(patch)

    def _added(self, path: str, text: str, ctx: ToolContext) -> Edited:
        resolved = self._free(path, ctx)
        work = Replacing(resolved, None, NOTHING)
        work.apply(Replacement(old_string="", new_string=text), "")
        return work.change()

    def _removed(self, path: str, ctx: ToolContext, *, again: bool) -> Edited:
        resolved, file = self._itself(path, ctx)
        try:
            text = read_text(file.data)
        except NotText as error:
            raise Failed(f"{spelled(path)} is {error}; remove it with a command") from None
        if file.data:
            self._known(resolved, file.data, ctx, again=again)
        return Edited(Change(resolved, file, None, decoded=text))

    def _moved(
        self, patch: UpdateFile, path: str, to: str, ctx: ToolContext, *, again: bool
    ) -> Edited:
        resolved, file = self._itself(path, ctx)
        target = self._free(to, ctx)
        if not patch.chunks:
            seen = self._seen(resolved, file.data)
            return Edited(Change(target, file, file, resolved), seen, seen.lines if seen else ())
        known = self._known(resolved, file.data, ctx, again=again) if file.data else NOTHING
        work = Replacing(target, file, known)
        apply_chunks(work, patch.chunks, path)
        edited = work.change()
        return replace(edited, change=replace(edited.change, source=resolved))

    def _seen(self, path: str, data: bytes) -> ReadState | None:
        """Return what the model has read of a file whose content stays the same."""
        try:
            return self._reads.check(path, data)
        except Failed:
            return None

    def _itself(self, path: str, ctx: ToolContext) -> tuple[str, Node]:
        """Return the path of a file, and the file. Raises MissingPath, or Failed if the path goes
        through a link."""
        resolved = ctx.workspace.resolve(path, reading=False)
        if resolved != ctx.workspace.relative(path):
            raise Failed(
                f"{spelled(path)} leads through a link to {resolved}; name that, or remove the link with a command"
            )
        file = self._present(resolved, ctx)
        if file is None:
            raise MissingPath(f"{spelled(path)} does not exist; no file was changed")
        return resolved, file

    def _free(self, path: str, ctx: ToolContext) -> str:
        """Return the path of a file that does not exist yet. Raises Failed, WorkspaceError."""
        resolved = ctx.workspace.resolve(path, reading=False)
        try:
            ctx.workspace.stat(resolved)
        except MissingPath:
            return resolved
        raise Failed(
            f"{spelled(path)} exists already; use '*** Update File: ' to change it. No file was changed"
        )
