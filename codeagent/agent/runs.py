"""The runs of one conversation, one at a time: how each begins and ends, and when a job's end begins another."""

import asyncio

from codeagent.agent.floor import Floor
from codeagent.agent.gate import Gate
from codeagent.agent.hooks.hook import Hooks
from codeagent.agent.loop import Conversation
from codeagent.agent.parts import Parts
from codeagent.agent.run import Run
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import CodeagentError, RunCancelled
from codeagent.core.notices import SessionNotSaved

_CLOSED = "this conversation is closed"


class Runs:
    def __init__(self, conversation: Conversation, hooks: Hooks, gate: Gate, floor: Floor) -> None:
        self.conversation = conversation
        """What the next run is held with."""
        self._hooks = hooks
        self._gate = gate
        self._floor = floor
        self._parts: Parts | None = None
        self._token = CancelToken()
        self._current: Run | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._rousing: asyncio.Task[None] | None = None

    def connect(self, parts: Parts) -> None:
        """Runs share these; no run begins before."""
        self._parts = parts

    @property
    def going_on(self) -> bool:
        """From `start` until `run.finished` is emitted, or a hook denied what it was to begin with."""
        return self._current is not None

    @property
    def closed(self) -> bool:
        return self._token.cancelled

    def start(self, prompt: str | None) -> "tuple[Run, asyncio.Task[None]]":
        """A run and its work; None: with what is queued. Raises CodeagentError where none can begin now."""
        if self.closed:
            raise CodeagentError(_CLOSED)
        if self._current is not None:
            raise CodeagentError("this agent is already running; steer it, or wait for the end")
        if prompt is None and not self._shared.steering.waiting:
            raise CodeagentError("nothing is queued, so there is nothing to begin with")
        return self._begin(prompt)

    def stop(self, reason: str) -> bool:
        """Cancel the run; False where none is going on."""
        if self._current is None:
            return False
        self._current.token.cancel(reason)
        return True

    def rouse(self) -> None:
        """A job has ended: where a user is there and nothing is going on, one run begins for all that ended."""
        if self.conversation.attended and (self._rousing is None or self._rousing.done()):
            self._rousing = asyncio.create_task(self._wake_up())

    def close(self) -> None:
        """Cancel the run; none begins any more."""
        self._token.cancel("interrupted")

    async def ended(self) -> None:
        """Return once no run is going on, and the last one's end was told to the hooks."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    @property
    def _shared(self) -> Parts:
        assert self._parts is not None  # connected where the agent is made
        return self._parts

    def _begin(self, prompt: str | None) -> "tuple[Run, asyncio.Task[None]]":
        run = self._current = Run(self.conversation, self._shared, self._token.child())
        if not self._hooks.judges_prompts:
            self._enter(run, prompt)
        work = self._submit(run, prompt) if self._hooks.judges_prompts else self._work(run)
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run, task

    def _enter(self, run: Run, prompt: str | None) -> None:
        try:
            run.begin(prompt)
        except BaseException:
            self._current = None
            raise

    async def _submit(self, run: Run, prompt: str | None) -> None:
        """Begin once the hooks have let it through; where they do not, no run begins and nothing is lost."""
        try:
            why = await run.submit(prompt)
        except (RunCancelled, asyncio.CancelledError):
            why = "stopped before the prompt was sent; it is kept"
            self._shared.steering.take_back_all()
        if why is None:
            self._enter(run, prompt)
            await self._work(run)
            return
        self._leave(run)
        self._shared.submission.tell_not_begun(prompt, why)

    async def _work(self, run: Run) -> None:
        emitter = self._shared.emitter
        finished = await run.work()
        if finished.reason not in ("done", "denied"):
            self._shared.steering.rest()
        self._leave(run)
        finished = emitter.emit(finished)
        try:
            await emitter.sync()
        except CodeagentError as failure:
            emitter.emit(SessionNotSaved(text=str(failure)))
        await self._hooks.run_finished(finished)
        self.rouse()

    async def _wake_up(self) -> None:
        await self._floor.enter(alone=False)
        self._floor.leave(alone=False)
        steering = self._shared.steering
        if steering.wakes and not steering.waiting and self._current is None and not self.closed:
            self._begin(None)

    def _leave(self, run: Run) -> None:
        run.token.close()
        self._gate.end()
        self._current = None
