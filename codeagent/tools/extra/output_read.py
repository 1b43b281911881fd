"""The `output_read` tool: pages through output that was too long for the model (FEATURES F29)."""

import asyncio
from typing import Annotated

from pydantic import Field

from codeagent.core.messages import TextPart
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import OutputStore, Workspace
from codeagent.core.tool import SHARED, Access, InvalidArgs, NotFound, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.encoding import shown
from codeagent.tools.fields import Count

_LINES = 500
_MOST_LINES = 2000
_MOST_CHARACTERS = 60_000
_LONGEST_LINE = 4000
_MOST_HANDLES = 20


class OutputReadArgs(ToolArgs):
    id: str
    offset: Count = 1
    lines: Annotated[Count, Field(le=_MOST_LINES)] = _LINES


class OutputRead(Tool[OutputReadArgs]):
    name = "output_read"
    label = "Output"
    description = "Read more of an output that was cut, by the id in its marker. offset is the first line, from 1."
    Args = OutputReadArgs
    permission = "auto"
    concurrency = "shared"
    effect = "nothing"
    output_limit = None

    def __init__(self, outputs: OutputStore) -> None:
        self._outputs = outputs

    def access(self, args: OutputReadArgs, workspace: Workspace) -> Access:
        return SHARED

    def approval_key(self, args: OutputReadArgs) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(args.id,))

    async def run(self, args: OutputReadArgs, ctx: ToolContext) -> ToolResult:
        try:
            page = await asyncio.to_thread(self._outputs.read, args.id, args.offset, args.lines)
        except KeyError:
            known = self._outputs.handles()
            listed = ", ".join(known[-_MOST_HANDLES:]) or "none"
            raise NotFound(f"there is no output {args.id!r}; there are: {listed}") from None
        if not page.lines and args.offset > max(page.total, 1):
            raise InvalidArgs(f"the output has {page.total} lines; offset {args.offset} is past its end")
        text, last = _text(page.lines, page.first)
        notes = [f"[Lines {page.first}-{last} of {page.total}."]
        if last < page.total:
            notes.append(f" Go on with offset={last + 1}.")
        elif page.dropped_bytes:
            notes.append(f" {page.dropped_bytes} more bytes were too much to keep.")
        return ToolResult(content=(TextPart(text=f"{text}\n{''.join(notes)}]"),))


def _text(lines: tuple[str, ...], first: int) -> tuple[str, int]:
    """As many lines as fit, and the number of the last one."""
    out: list[str] = []
    size = 0
    for line in lines:
        if len(line) > _LONGEST_LINE:
            line = f"{line[:_LONGEST_LINE]}[… {len(line) - _LONGEST_LINE} more characters in this line]"
        size += len(line) + 1
        if size > _MOST_CHARACTERS and out:
            break
        out.append(shown(line))
    return "\n".join(out), first + len(out) - 1
