"""The `output_read` tool: pages through output that was too long for the model."""

import asyncio
from typing import Annotated

from codeagent.core.deferred import Field
from codeagent.core.memory import OutputPage, OutputStore
from codeagent.core.policy import ApprovalKey
from codeagent.core.text_files import shown
from codeagent.core.tool import InvalidArgs, NotFound, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.arguments import Count
from codeagent.tools.paging import fitting, shortened
from codeagent.tools.shell.run import readable

_LINES = 500
_MOST_LINES = 2000
_MOST_CHARACTERS = 60_000
_LONGEST_LINE = 4000
_LONGEST_PIECE = 40_000
_MOST_HANDLES = 20


class OutputReadArgs(ToolArgs):
    id: str
    offset: Count = 1
    lines: Annotated[Count, Field(le=_MOST_LINES)] = _LINES
    column: Count | None = None


class OutputRead(Tool[OutputReadArgs]):
    name = "output_read"
    label = "Output"
    description = "Read more of a cut output by the id in its marker."
    Args = OutputReadArgs
    permission = "auto"
    concurrency = "shared"
    effect = "nothing"
    output_limit = None

    def __init__(self, outputs: OutputStore) -> None:
        self._outputs = outputs

    def approval_key(self, args: OutputReadArgs) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(args.id,))

    async def run(self, args: OutputReadArgs, ctx: ToolContext) -> ToolResult:
        count = args.lines if args.column is None else 1
        try:
            page = await asyncio.to_thread(self._outputs.read, args.id, args.offset, count)
        except KeyError:
            known = self._outputs.handles()
            listed = ", ".join(known[-_MOST_HANDLES:]) or "none"
            raise NotFound(f"unknown output {args.id!r}; there are: {listed}") from None
        if not page.lines and args.offset > max(page.total, 1):
            raise InvalidArgs(
                f"the output has {page.total} lines; offset {args.offset} is past its end"
            )
        text = _page(page) if args.column is None else _rest_of_line(page, args.column)
        return ToolResult.from_text(text)


def _page(page: OutputPage) -> str:
    """Return as many lines as fit, and where they are."""
    numbered = enumerate(map(_plain, page.lines), start=page.first)
    cut = (
        shortened(line, _LONGEST_LINE, f"offset={at}, column={_LONGEST_LINE + 1}")
        for at, line in numbered
    )
    out = list(fitting(cut, _MOST_CHARACTERS))
    last = page.first + len(out) - 1
    notes = [f"[Lines {page.first}-{last} of {page.total}."]
    if last < page.total:
        notes.append(f" Continue with offset={last + 1}.")
    elif page.dropped_bytes:
        notes.append(f" {page.dropped_bytes} more bytes were too much to keep.")
    text = "\n".join(out)
    return f"{text}\n{''.join(notes)}]"


def _rest_of_line(page: OutputPage, column: int) -> str:
    """Return the line from that column on, as far as it fits. Raises InvalidArgs."""
    line = _plain(page.lines[0]) if page.lines else ""
    if column > max(len(line), 1):
        raise InvalidArgs(
            f"line {page.first} has {len(line)} characters; column {column} is past its end"
        )
    piece = line[column - 1 : column - 1 + _LONGEST_PIECE]
    last = column + len(piece) - 1
    more = f" Continue with column={last + 1}." if last < len(line) else ""
    return f"{piece}\n[Characters {column}-{last} of {len(line)} in line {page.first} of {page.total}.{more}]"


def _plain(raw: str) -> str:
    """Return the line as in a command's output: without colours and, if it was overwritten, in its
    last state."""
    return shown(readable(raw))
