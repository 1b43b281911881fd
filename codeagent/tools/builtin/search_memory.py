"""The `search_memory` tool: searches what was asked, answered and run in earlier sessions here."""

import asyncio
import time
from typing import Annotated

from codeagent.core.deferred import Field
from codeagent.core.memory import Found, Hit, Memory
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.tool import Access, InvalidArgs, Tool, ToolArgs, ToolContext, ToolResult

_HITS = 10
_MOST_HITS = 50
_MOST_WORDS = 20
_LABELS = {"prompt": "user", "answer": "you", "command": "ran"}


class SearchMemoryArgs(ToolArgs):
    query: Annotated[str, Field(max_length=500)]
    limit: Annotated[int, Field(ge=1, le=_MOST_HITS)] = _HITS


class SearchMemory(Tool[SearchMemoryArgs]):
    """Does not need approval: it reads what the model was told here in earlier sessions."""

    name = "search_memory"
    label = "Memory"
    description = "Search earlier sessions here (prompts, answers, commands) for all these words."
    Args = SearchMemoryArgs
    permission = "auto"
    concurrency = "shared"
    effect = "nothing"

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def access(self, args: SearchMemoryArgs, workspace: Workspace) -> Access:
        return Access("shared", "")

    def approval_key(self, args: SearchMemoryArgs) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(args.query,))

    async def run(self, args: SearchMemoryArgs, ctx: ToolContext) -> ToolResult:
        words = tuple(args.query.split()[:_MOST_WORDS])
        if not words:
            raise InvalidArgs("the query is empty; give the words to look for")
        found = await asyncio.to_thread(self._memory.search, words, args.limit)
        return ToolResult.from_text("\n".join([*map(_line, found.hits), _end(found)]))


def _line(hit: Hit) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(hit.at))
    return f"{hit.session}  {when}  {_LABELS[hit.what]}: {hit.snippet}"


def _end(found: Found) -> str:
    looked = f"{found.sessions} earlier session{'s' * (found.sessions != 1)} of this workspace looked through"
    rest = "" if found.complete else "; older ones were not"
    return f"[{'' if found.hits else 'Nothing found. '}{looked}{rest}.]"
