"""One call's own work: awaited until it ends, or until it is moved to the background."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from codeagent.agent.job_talk import Inbox
from codeagent.agent.prepared import Prepared
from codeagent.agent.watch import Watch
from codeagent.core.cancel import CancelToken
from codeagent.core.tool import ToolResult

_GRACE = 10.0


class Work:
    """Goes on by itself; it ends by its token, never because nobody awaits it any more."""

    def __init__(self, prepared: Prepared, token: CancelToken, watch: Watch, inbox: Inbox) -> None:
        self.prepared = prepared
        self.token = token
        self.watch = watch
        self.inbox = inbox
        self._moved: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._alarm: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[ToolResult] | None = None

    def begin(self, work: Coroutine[Any, Any, ToolResult], limit: float | None) -> None:
        """`work` must not raise; `limit` in seconds."""
        self._task = asyncio.create_task(work)
        if limit is not None:
            reason = f"timeout after {limit:g} s"
            self._alarm = asyncio.get_running_loop().call_later(limit, self.token.cancel, reason)
            self._task.add_done_callback(lambda _: self._disarm())

    @property
    def ended(self) -> bool:
        return self._task is not None and self._task.done()

    @property
    def movable(self) -> bool:
        tool = self.prepared.tool
        return not (self.ended or self._moved.done() or self.token.cancelled or tool.waits_for_user)

    def move(self, job_id: str) -> None:
        """Whoever awaits it is told that it goes on as this job, and its limit holds no more."""
        self._disarm()
        self._moved.set_result(job_id)

    async def settle(self) -> ToolResult | str:
        """Its result, or the id of the job it goes on as."""
        assert self._task is not None
        try:
            either: set[asyncio.Future[Any]] = {self._task, self._moved}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if not self._moved.done():
                self._task.cancel()
                await asyncio.wait({self._task}, timeout=_GRACE)
            raise
        return self._moved.result() if self._moved.done() else self._task.result()

    async def result(self) -> ToolResult:
        """Once it has ended; a caller that is cancelled leaves it alone."""
        assert self._task is not None
        return await asyncio.shield(self._task)

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
