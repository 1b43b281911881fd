"""The work of one call: awaited until it ends or goes on as a job; what it prints, and what it is sent."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, get_args

from pydantic import BaseModel

from codeagent.agent.calls import PreparedCall
from codeagent.agent.emitter import Emitter
from codeagent.agent.hooks.hook import Hooks
from codeagent.agent.jobs.output import JobOutput
from codeagent.core.cancel import CancelToken
from codeagent.core.events import JobUpdated, ToolProgress, ToolUpdated
from codeagent.core.messages import OutputStream, ToolCall
from codeagent.core.tool import Tool, ToolContext, ToolResult

_CANCEL_SECONDS = 10.0
"""How long a caller that is cancelled waits for the work to end."""
_CHARACTERS_PER_SECOND = 1 << 20
_MOST_MESSAGES = 1000


class OutputThrottle:
    """Lets a megabyte of output a second through to the screen, and says how much it held back."""

    def __init__(self) -> None:
        self._window = time.monotonic()
        self._shown = 0
        self._held_back = 0

    def take(self, text: str) -> str:
        """The part of `text` to show now; may be empty."""
        now = time.monotonic()
        if now - self._window >= 1:
            self._window, self._shown = now, 0
        self._shown += len(text)
        if self._shown > _CHARACTERS_PER_SECOND:
            self._held_back += len(text)
            return ""
        if self._held_back and text:
            text = f"\n[… {self._held_back} characters went by too fast to show …]\n{text}"
            self._held_back = 0
        return text


class CallUpdates:
    """The callbacks of one call: they keep its output, and emit it as that of the call, or of the job it became.

    Once `ended` is set they do nothing.
    """

    def __init__(self, call: ToolCall, emitter: Emitter, hooks: Hooks) -> None:
        self._call = call
        self._emitter = emitter
        self._hooks = hooks
        self._throttle = OutputThrottle()
        self.output = JobOutput()
        self.ended = False
        self._job_id: str | None = None
        self._printed: Callable[[], None] = lambda: None

    @property
    def is_job(self) -> bool:
        return self._job_id is not None

    def become(self, job_id: str, printed: Callable[[], None]) -> None:
        """From now on the output is that of this job; `printed` is called after every piece."""
        self._job_id = job_id
        self._printed = printed

    async def update(self, text: str, stream: OutputStream = "output") -> None:
        if self.ended:
            return
        _require_text("on_update", text)
        if stream not in get_args(OutputStream):
            raise ValueError(f"stream is one of {', '.join(get_args(OutputStream))}, not {stream!r}")
        self.output.add(text, stream)
        self._printed()
        shown = self._throttle.take(text)
        if not shown or not await self._hooks.before_update(self._call, shown) or self.ended:
            return
        self._show(shown, stream)
        await self._hooks.after_update(self._call, shown)

    async def progress(self, text: str) -> None:
        """Emit the text, unless the call has become a job: of a job only its output is shown."""
        _require_text("on_progress", text)
        if not self.ended and self._job_id is None:
            call = self._call
            self._emitter.emit(ToolProgress(call_id=call.id, name=call.name, text=text))

    def _show(self, text: str, stream: OutputStream) -> None:
        call = self._call
        if self._job_id is not None:
            self._emitter.emit(JobUpdated(job_id=self._job_id, text=text, stream=stream))
            return
        self._emitter.emit(ToolUpdated(call_id=call.id, name=call.name, text=text, stream=stream))


class Inbox:
    """The texts sent to one job, oldest first."""

    def __init__(self) -> None:
        self._texts: asyncio.Queue[str] = asyncio.Queue(_MOST_MESSAGES)

    def put(self, text: str) -> bool:
        """False where too many texts wait already."""
        if self._texts.full():
            return False
        self._texts.put_nowait(text)
        return True

    async def receive(self) -> str:
        return await self._texts.get()

    def take(self) -> str | None:
        return None if self._texts.empty() else self._texts.get_nowait()


class CallWork:
    """Runs in a task of its own: only its token ends it early, not that its caller stops waiting."""

    def __init__(self, prepared: PreparedCall, token: CancelToken, updates: CallUpdates, inbox: Inbox) -> None:
        self.prepared = prepared
        self.token = token
        self.updates = updates
        self.inbox = inbox
        self._moved: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._alarm: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[ToolResult] | None = None

    def begin(self, work: Coroutine[Any, Any, ToolResult], limit: float | None) -> None:
        """Run `work`, which must not raise, for at most `limit` seconds."""
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
        """Whether it can go on in the background."""
        tool = self.prepared.tool
        return not (self.ended or self._moved.done() or self.token.cancelled or tool.waits_for_user)

    def move(self, job_id: str) -> None:
        """Let `settle` return this job's id; the time limit no longer applies."""
        self._disarm()
        self._moved.set_result(job_id)

    async def settle(self) -> ToolResult | str:
        """Wait for the result, or for the id of the job it goes on as."""
        assert self._task is not None
        try:
            either: set[asyncio.Future[Any]] = {self._task, self._moved}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if not self._moved.done():
                self._task.cancel()
                await asyncio.wait({self._task}, timeout=_CANCEL_SECONDS)
            raise
        return self._moved.result() if self._moved.done() else self._task.result()

    async def result(self) -> ToolResult:
        """Wait for the result; a caller that is cancelled leaves the work running."""
        assert self._task is not None
        return await asyncio.shield(self._task)

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()


async def run_stateful(tool: Tool[Any], args: BaseModel, context: ToolContext, inbox: Inbox) -> ToolResult:
    """Run a stateful tool: what it yields is output, and it gets what was sent to it. Raises what the tool raises."""
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


def _require_text(what: str, text: object) -> None:
    """Raises TypeError: a tool may be user-defined, and pass anything."""
    if not isinstance(text, str):
        raise TypeError(f"{what} takes text, not {type(text).__name__}")
