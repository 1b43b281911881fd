"""Drives the work of a stateful tool: what it yields is printed, what it is sent goes back in."""

import asyncio
from typing import Any

from pydantic import BaseModel

from codeagent.core.tool import Tool, ToolContext, ToolResult

_MOST = 1000


class Inbox:
    """Texts sent to one job, the oldest first."""

    def __init__(self) -> None:
        self._texts: asyncio.Queue[str] = asyncio.Queue(_MOST)

    def put(self, text: str) -> bool:
        """False where too much waits."""
        if self._texts.full():
            return False
        self._texts.put_nowait(text)
        return True

    async def receive(self) -> str:
        return await self._texts.get()

    def take(self) -> str | None:
        return None if self._texts.empty() else self._texts.get_nowait()


async def talk_through(tool: Tool[Any], args: BaseModel, context: ToolContext, inbox: Inbox) -> ToolResult:
    """From its first text to its end. Raises as the tool's `run`."""
    talk = tool.talk(args, context)
    try:
        text = await talk.asend(None)
        while True:
            await context.on_update(text if text.endswith("\n") else f"{text}\n")
            await asyncio.sleep(0)
            text = await talk.asend(inbox.take())
    except StopAsyncIteration:
        return ToolResult(content=())
    finally:
        await talk.aclose()
