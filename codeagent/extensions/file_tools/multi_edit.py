"""The `multi_edit` tool: replaces pieces of one or more files, either all or none."""

from collections.abc import Sequence
from typing import Annotated, Self

from codeagent.core.deferred import Field, model_validator
from codeagent.core.tool import ToolArgs, ToolContext
from codeagent.extensions.file_tools.changeset import ChangeSetTool
from codeagent.tools.arguments import PathText
from codeagent.tools.edit.replacing import Edited, Replacement, Replacing

_MOST_EDITS = 200


class FileReplacement(Replacement):
    path: PathText


class MultiEditArgs(ToolArgs):
    edits: Annotated[tuple[FileReplacement, ...], Field(min_length=1, max_length=_MOST_EDITS)]

    @model_validator(mode="after")
    def _each_changes(self) -> Self:
        for number, edit in enumerate(self.edits, start=1):
            if edit.old_string == edit.new_string:
                raise ValueError(
                    f"old_string and new_string of edit {number} are the same: nothing to change"
                )
        return self


class MultiEdit(ChangeSetTool[MultiEditArgs]):
    name = "multi_edit"
    label = "Edit files"
    description = (
        "Replace text in several files at once, all edits or none; each as edit does it, on what "
        "those before it made."
    )
    documentation = (
        "Every edit names its file. Read a file before you edit it; `old_string` must be there exactly once, unless "
        "`replace_all` is set. The first edit of a file with an empty `old_string` makes that file. If one edit does "
        "not fit, no file is changed, and the error names the edit."
    )
    Args = MultiEditArgs

    def _paths(self, args: MultiEditArgs) -> Sequence[str]:
        return [edit.path for edit in args.edits]

    def _edits(self, args: MultiEditArgs, ctx: ToolContext, *, again: bool) -> Sequence[Edited]:
        works: dict[str, Replacing] = {}
        for number, edit in enumerate(args.edits, start=1):
            path = ctx.workspace.resolve(edit.path, reading=False)
            if path not in works:
                works[path] = self._replacing(
                    edit.path, ctx, again=again, makes=not edit.old_string
                )
            works[path].apply(
                edit, f"edit {number} of {len(args.edits)}: " if len(args.edits) > 1 else ""
            )
        return [work.change() for work in works.values()]
