"""The `write` tool: creates a file, replaces all of it, or adds to its end."""

from dataclasses import replace

from codeagent.changes.diff import count, diff_block
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.sanitize import spelled
from codeagent.core.text_files import NotEncodable, NotText, TextFile, read_text
from codeagent.core.tool import Failed, ToolContext, ToolResult
from codeagent.tools.changes import ChangeTool, PathArgs
from codeagent.tools.edit.reads import NOTHING, Lines, joined
from codeagent.tools.edit.replacing import Edited

_NEW = TextFile(b"", "", "utf-8", b"")


class WriteArgs(PathArgs):
    content: str
    append: bool = False


class Write(ChangeTool[WriteArgs]):
    name = "write"
    label = "Write"
    description = (
        "Create a file, or replace one that was read whole; append adds to it. Change part "
        "of one with edit."
    )
    Args = WriteArgs

    def _answer(self, args: WriteArgs, edited: Edited) -> ToolResult:
        after = edited.texts[1]
        lines = after.count("\n") + (not after.endswith("\n") and after != "")
        known = _known_after(edited, lines) if args.append else ((1, lines),)
        whole = edited.whole or not args.append
        details = self._reads.wrote(edited.path, edited.data, known, whole=whole)
        new = edited.change.before is None
        did = "Created" if new else "Added to" if args.append else "Replaced"
        facts = f"{did} {spelled(edited.path)}: {count(lines, 'line')}, {count(len(edited.data), 'byte')}."
        text = "\n".join([facts, *edited.notes])
        block = diff_block(edited.path, *edited.texts)
        return ToolResult.from_text(text, blocks=(block,), details=details)

    def _change(self, args: WriteArgs, ctx: ToolContext, *, again: bool) -> Edited:
        path = ctx.workspace.resolve(args.path, reading=False)
        old = self._present(path, ctx)
        if old is None:
            new = Node("file", _encoded(_NEW, args.content, path))
            return Edited(Change(path, None, new, decoded=_NEW), NOTHING)
        seen = self._known(path, old.data, ctx, again=again)
        if not args.append and not (seen.whole or seen.stale):
            reason = f"{spelled(path)} was read only in part; nothing was written."
            raise self._reads.refusal(
                path, old.data, reason, "Read all of it before you replace it, or use edit."
            )
        try:
            there = read_text(old.data)
        except NotText as error:
            raise Failed(
                f"{spelled(path)} is {error}; it is not replaced by text. Remove it first if that is meant."
            ) from None
        if args.append:
            added = (
                args.content if "\r\n" in args.content else _with_newlines_of(there, args.content)
            )
            data = old.data + _encoded(there, added, path)
        else:
            content = _with_newlines_of(there, args.content)
            data = there.bom + _encoded(there, content, path)
        return Edited(Change(path, old, replace(old, data=data), decoded=there), seen)


def _known_after(edited: Edited, lines: int) -> tuple[Lines, ...]:
    """Return what the model knows of `lines` lines after appending to a file that may have been
    partly read."""
    before, known = edited.texts[0], edited.known
    begun = before != "" and not before.endswith("\n")
    return joined([*(known.lines if known else ()), (before.count("\n") + 1 + begun, lines)])


def _encoded(file: TextFile, text: str, path: str) -> bytes:
    try:
        return file.encode(text)
    except NotEncodable as error:
        raise Failed(f"{spelled(path)} was not written: {error}") from None


def _with_newlines_of(file: TextFile, text: str) -> str:
    """Return the text with CRLF, if every line of the file ends in CRLF."""
    crlf = file.text.count("\r\n")
    if crlf == 0 or crlf != file.text.count("\n") or "\r\n" in text:
        return text
    return text.replace("\n", "\r\n")
