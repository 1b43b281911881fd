"""The `edit` tool: replaces pieces of one file, either all or none."""

from typing import Self

from codeagent.changes.diff import count, diff_block
from codeagent.core.deferred import model_validator
from codeagent.core.sanitize import spelled
from codeagent.core.tool import ToolContext, ToolResult
from codeagent.tools.changes import ChangeTool, PathArgs
from codeagent.tools.edit.replacing import Edited, Replacement


class EditArgs(PathArgs):
    old_string: str | None = None
    new_string: str | None = None
    replace_all: bool = False
    edits: tuple[Replacement, ...] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        single = self.old_string is not None or self.new_string is not None
        if single == bool(self.edits):
            raise ValueError(
                "give either old_string and new_string, or edits with at least one entry"
            )
        if single and (self.old_string is None or self.new_string is None):
            missing = "old_string" if self.old_string is None else "new_string"
            raise ValueError(f"Missing required argument '{missing}'")
        for number, edit in enumerate(self.replacements(), start=1):
            if edit.old_string == edit.new_string:
                raise ValueError(
                    f"old_string and new_string of edit {number} are the same: nothing to change"
                )
        return self

    def replacements(self) -> tuple[Replacement, ...]:
        if self.edits:
            return self.edits
        old, new = self.old_string or "", self.new_string or ""
        return (Replacement(old_string=old, new_string=new, replace_all=self.replace_all),)


class Edit(ChangeTool[EditArgs]):
    name = "edit"
    label = "Edit"
    description = (
        "Replace old_string, copied from a file that was read, with new_string. It must occur once, unless "
        "replace_all is set. edits apply in order, all or none."
    )
    Args = EditArgs

    def _answer(self, args: EditArgs, edited: Edited) -> ToolResult:
        details = self._reads.wrote(edited.path, edited.data, edited.seen, whole=edited.whole)
        new = edited.change.before is None
        did = "Created" if new else "Edited"
        what = "" if new else f": {count(edited.replaced, 'replacement')}"
        text = "\n".join([f"{did} {spelled(edited.path)}{what}.", *edited.told, *edited.notes])
        block = diff_block(edited.path, *edited.texts)
        return ToolResult.from_text(text, blocks=(block,), details=details)

    def _change(self, args: EditArgs, ctx: ToolContext, *, again: bool) -> Edited:
        edits = args.replacements()
        work = self._replacing(args.path, ctx, again=again, makes=not edits[0].old_string)
        for number, edit in enumerate(edits, start=1):
            work.apply(edit, f"edit {number} of {len(edits)}: " if len(edits) > 1 else "")
        return work.change()
