"""The `write` tool: creates a file, replaces all of it, or adds to its end."""

from codeagent.core.sanitize import spelled
from codeagent.core.tool import Failed, ToolContext, ToolResult
from codeagent.tools.changes import ChangeTool, PathArgs
from codeagent.tools.edit.diff import count, diff_block
from codeagent.tools.edit.encoding import NotEncodable, NotText, TextFile, read_text
from codeagent.tools.edit.hunks import PendingChange
from codeagent.tools.edit.reads import NOTHING, Lines, joined

_NEW = TextFile(b"", "", "utf-8", b"")


class WriteArgs(PathArgs):
    content: str
    append: bool = False


class Write(ChangeTool[WriteArgs, PendingChange]):
    name = "write"
    label = "Write"
    description = (
        "Create a file, or replace one that was read whole; append adds to it. Change part "
        "of one with edit."
    )
    Args = WriteArgs

    def _answer(self, args: WriteArgs, change: PendingChange) -> ToolResult:
        lines = change.after.count("\n") + (not change.after.endswith("\n") and change.after != "")
        known = _known_after(change, lines) if args.append else ((1, lines),)
        whole = change.known.whole or not args.append
        details = self._reads.wrote(change.path, change.data, known, whole=whole)
        did = "Created" if change.old is None else "Added to" if args.append else "Replaced"
        facts = f"{did} {spelled(change.path)}: {count(lines, 'line')}, {count(len(change.data), 'byte')}."
        text = "\n".join([facts, *change.notes])
        block = diff_block(change.path, change.before, change.after)
        return ToolResult.from_text(text, blocks=(block,), details=details)

    def _change(self, args: WriteArgs, ctx: ToolContext, *, again: bool) -> PendingChange:
        path = ctx.workspace.resolve(args.path)
        old = self._present(path, ctx)
        if old is None:
            return PendingChange(
                path, None, _NEW, args.content, _encoded(_NEW, args.content, path), NOTHING
            )
        seen = self._known(path, old, ctx, again=again)
        if not args.append and not (seen.whole or seen.stale):
            reason = f"{spelled(path)} was read only in part; nothing was written."
            raise self._reads.refusal(
                path, old, reason, "Read all of it before you replace it, or use edit."
            )
        try:
            there = read_text(old)
        except NotText as error:
            raise Failed(
                f"{spelled(path)} is {error}; it is not replaced by text. Remove it first if that is meant."
            ) from None
        if args.append:
            added = (
                args.content if "\r\n" in args.content else _with_newlines_of(there, args.content)
            )
            return PendingChange(
                path, old, there, there.text + added, old + _encoded(there, added, path), seen
            )
        content = _with_newlines_of(there, args.content)
        return PendingChange(
            path, old, there, content, there.bom + _encoded(there, content, path), seen
        )


def _known_after(change: PendingChange, lines: int) -> tuple[Lines, ...]:
    """Return what the model knows of `lines` lines after appending to a file that may have been
    partly read."""
    begun = change.before != "" and not change.before.endswith("\n")
    return joined([*change.known.lines, (change.before.count("\n") + 1 + begun, lines)])


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
