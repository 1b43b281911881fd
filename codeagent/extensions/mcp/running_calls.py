"""The calls that a server is working on, and its questions to the user during one of them."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from codeagent.core.approval_events import Asker
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import RunCancelled
from codeagent.core.tool import ToolContext
from codeagent.extensions.mcp.elicitation import Reaction, ask_for_server
from codeagent.extensions.mcp.server_tool import ANSWER_SECONDS

_MOST_QUESTIONS = 5
"""Of a server, during one call."""


@dataclass
class _RunningCall:
    ctx: ToolContext
    limit: asyncio.Timeout
    questions: int = 0


class RunningCalls:
    """Those of one server; it is true while there are any."""

    def __init__(self, server: str, asker: Asker | None) -> None:
        """`asker` None: every question is declined."""
        self._server = server
        self._asker = asker
        self._calls: list[_RunningCall] = []
        self._asking = asyncio.Lock()

    def __bool__(self) -> bool:
        return bool(self._calls)

    @contextmanager
    def begun(self, ctx: ToolContext, limit: asyncio.Timeout) -> Iterator[None]:
        """Let the server ask in the name of this call, which ends with the context."""
        running = _RunningCall(ctx, limit)
        self._calls.append(running)
        try:
            yield
        finally:
            self._calls.remove(running)

    async def ask(self, params: Mapping[str, Any]) -> Reaction:
        """Ask on behalf of the latest call; time spent waiting does not count."""
        running = self._calls[-1] if self._calls else None
        if running is None or self._asker is None or running.questions >= _MOST_QUESTIONS:
            return Reaction("decline")
        running.questions += 1
        async with self._asking:
            if running not in self._calls:
                return Reaction("cancel")  # its call ended while others were asked about
            loop = asyncio.get_running_loop()
            end = running.limit.when()
            asked = loop.time()
            running.limit.reschedule(asked + ANSWER_SECONDS)
            try:
                reaction = await ask_for_server(self._server, params, self._asker, running.ctx)
            except RunCancelled:
                return Reaction("cancel")
            finally:
                if end is not None and running in self._calls:
                    running.limit.reschedule(end + loop.time() - asked)
            # Nobody waits for the answer once the call has ended.
            return reaction if running in self._calls else Reaction("cancel")
