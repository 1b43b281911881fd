"""The two callbacks of one call: what it prints is kept for a job, and shown to whoever watches."""

from collections.abc import Callable
from typing import get_args

from codeagent.agent.emitter import Emitter
from codeagent.agent.flood import Flood
from codeagent.agent.hooks.hook import Hooks
from codeagent.agent.job_output import JobOutput
from codeagent.core.events import JobUpdated, ToolProgress, ToolUpdated
from codeagent.core.messages import OutputStream, ToolCall


class Watch:
    """Tells of the call while it is awaited, of the job once it is one; deaf once it has ended."""

    def __init__(self, call: ToolCall, emitter: Emitter, hooks: Hooks) -> None:
        self._call = call
        self._emitter = emitter
        self._hooks = hooks
        self._flood = Flood()
        self.output = JobOutput()
        self.ended = False
        self._job_id: str | None = None
        self._printed: Callable[[], None] = _nobody

    @property
    def is_job(self) -> bool:
        return self._job_id is not None

    def becomes(self, job_id: str, printed: Callable[[], None]) -> None:
        """From now on it is this job that prints; `printed` is called with every piece."""
        self._job_id = job_id
        self._printed = printed

    async def update(self, text: str, stream: OutputStream = "output") -> None:
        if self.ended:
            return
        _require_text("on_update", text)
        if stream not in get_args(OutputStream):
            raise ValueError(f"on_update takes a stream among {', '.join(get_args(OutputStream))}, not {stream!r}")
        self.output.add(text, stream)
        self._printed()
        shown = self._flood.take(text)
        if not shown or not await self._hooks.before_update(self._call, shown) or self.ended:
            return
        self._show(shown, stream)
        await self._hooks.after_update(self._call, shown)

    async def progress(self, text: str) -> None:
        """Not of a job: what it prints is all there is to see of it."""
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


def _require_text(what: str, text: object) -> None:
    """A tool may be anybody's."""
    if not isinstance(text, str):
        raise TypeError(f"{what} takes text, not {type(text).__name__}")


def _nobody() -> None:
    return None
