"""Runs, one at a time, each from a prompt to `run.finished`; the end of a job, or a part that an
extension adds, may begin another."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from codeagent import __version__
from codeagent.agent.checkpoints import WorkspaceLock
from codeagent.agent.conversation import Conversation, RunContext, RunSeries
from codeagent.agent.hooks.hook import Deny, Hooks
from codeagent.agent.limits import Deadline, RunMeter, WorkspaceWatch
from codeagent.agent.loop import Loop
from codeagent.agent.prompt import mode_note
from codeagent.agent.queue import MessageQueue
from codeagent.agent.work_time import part
from codeagent.core.acts import Compact, ContextAct, Refused
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import CodeagentError, RunCancelled
from codeagent.core.events import MessageAdded, RunFinished, RunReason, RunStarted
from codeagent.core.messages import UserMessage
from codeagent.core.model import from_now_on
from codeagent.core.notices import ModelFellBack, RunNotBegun, SessionNotSaved


class Run:
    """One run; it always ends with `run.finished`."""

    def __init__(self, conversation: Conversation, context: RunContext, token: CancelToken) -> None:
        self.conversation = conversation
        self._context = context
        self.token = token
        self.meter: RunMeter | None = None
        """Counts what it uses; None until it works."""
        self._notes: tuple[UserMessage, ...] = ()

    async def submit(self, prompt: str | None) -> str | None:
        """Ask the hooks about the prompt; return why the run must not begin, in one line. Raises
        RunCancelled."""
        context = self._context
        if prompt is None:
            await context.queue.admit(self.token, follow_up=True)
            begins = context.queue.deliverable or context.queue.wakes
            return None if begins else "none of the queued text was sent"
        answer = await context.queue.check(prompt, "prompt", self.token)
        if isinstance(answer, Deny):
            return f"the prompt was not sent: {answer.why}"
        self._notes = answer
        return None

    def begin(self, prompt: str | None) -> None:
        """Emit `run.started` and the first messages; None begins with what is queued."""
        context = self._context
        context.emitter.emit(
            RunStarted(
                model=self.conversation.model.name,
                workspace=str(context.workspace.root),
                mode=context.permissions.own_mode,
                strategy=str(self.conversation.strategy),
                codeagent=__version__,
                resumed=bool(context.line.items),
                server=self.conversation.server,
            )
        )
        said = context.line.items
        context.queue.begin_boundary()
        context.checkpoints.before_prompt(prompt or _first_queued(context.queue))
        said.extend(context.queue.deliver_notes())
        if (note := mode_note(said, context.permissions.mode)) is not None:
            said.append(note)
            context.emitter.emit(MessageAdded(message=note))
        if prompt is None:
            said.extend(context.queue.deliver_steering() or context.queue.deliver_follow_ups())
            return
        for message in (UserMessage.from_text(prompt), *self._notes):
            said.append(message)
            context.emitter.emit(MessageAdded(message=message))

    async def compact(self, hint: str) -> None:
        """Compact the conversation and do nothing else; a failure is reported. Raises nothing."""
        try:
            await Loop(self.conversation, self._context).compact(hint, self.token)
        except (RunCancelled, asyncio.CancelledError):
            self._context.queue.take_back_all()

    async def work(self) -> RunFinished:
        """Run to the end; return the event for the caller to emit. Raises nothing."""
        with part() as spent:
            return replace(await self._worked(), duration_ms=spent.milliseconds)

    async def _worked(self) -> RunFinished:
        """Return the event without its duration."""
        context = self._context
        loop = (self.conversation.begin_work or Loop)(self.conversation, context)
        self.meter = loop.meter
        attended = self.conversation.attended
        deadline = Deadline(
            None if attended else self.conversation.limits.max_seconds, self.token, context.emitter
        )
        watch = WorkspaceWatch(context.workspace, self.token, context.emitter, attended=attended)
        reason: RunReason = "failed"
        error: str | None = None
        context.spending.work()
        try:
            reason = await loop.run(self.token)
            await context.emitter.sync()  # what cannot be logged is not done
        except (RunCancelled, asyncio.CancelledError):
            error = watch.lost
            reason = "failed" if error else "limit" if deadline.passed else "interrupted"
            context.queue.take_back_all()
            context.compaction.take_back()
            loop.stop_report.tell(context.emitter)
        except CodeagentError as failure:
            error = watch.said(failure)
        except Exception as failure:
            error = f"internal error: {type(failure).__name__}: {failure}"
        deadline.close()
        watch.close()
        try:
            await context.inspection.at_rest(self.token)
        except Exception as failure:
            reason, error = (
                "failed",
                error or f"internal error: {type(failure).__name__}: {failure}",
            )
        context.spending.rest()
        if not attended:
            await context.checkpoints.end()
        return RunFinished(
            reason=reason,
            text=loop.text,
            usage=loop.meter.usage,
            error=error,
            turns=loop.meter.turns,
            calls=loop.meter.calls,
            duration_ms=0,
        )


def _first_queued(queue: MessageQueue) -> str:
    if queue.waiting:
        return queue.waiting[0].text
    return "(a job ended, or a trigger fired)" if queue.wakes else ""


class Runs:
    """The runs of one conversation, one at a time."""

    def __init__(
        self, conversation: Conversation, context: RunContext, hooks: Hooks, lock: WorkspaceLock
    ) -> None:
        self.conversation = conversation
        """The model, prompt and limits of the next run."""
        self.server = conversation.server
        """The host that the conversation's text went to last; empty if it went nowhere."""
        self._context = context
        self._hooks = hooks
        self._lock = lock
        self._token = CancelToken()
        self._current: Run | None = None
        self._series: RunSeries | None = None
        """What is followed, until its last run ends."""
        self._scope: RunSeries | None = None
        """The series whose scope the current run is in."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._waking: asyncio.Task[None] | None = None
        context.emitter.observe(self._follow_fallback, ModelFellBack)

    @property
    def going_on(self) -> bool:
        """Whether there is a run: from `start` until `run.finished` is emitted, or a hook denied
        the prompt.

        Also between two runs of a series.
        """
        return self._current is not None or self._series is not None

    @property
    def closed(self) -> bool:
        return self._token.cancelled

    @property
    def meter(self) -> RunMeter | None:
        """The meter of the current run."""
        return None if self._current is None else self._current.meter

    def start(self, prompt: str | None, within: Conversation | None = None) -> asyncio.Task[None]:
        """Begin a run, None with what is queued; return its task. Raises CodeagentError if none can
        begin.

        `within` takes the place of the conversation for this run.
        """
        self._refuse_second()
        if prompt is None and not self._context.queue.waiting and not self._context.queue.wakes:
            raise CodeagentError("nothing is queued, so there is nothing to begin with")
        return self._hold(self._and_rouse(self._made(within or self.conversation, prompt)))

    def follow(self, series: RunSeries) -> asyncio.Task[None]:
        """Begin the runs of a series, one after the other. Raises CodeagentError if none can
        begin."""
        self._refuse_second()
        self._series = series
        return self._hold(self._follow(series))

    def act_on_context(self, act: ContextAct) -> Refused | None:
        """Carry out an act on the context; without a run, a compaction begins at once, and runs
        wait for its end."""
        if not isinstance(act, Compact) or self.going_on:
            return self._context.compaction.do(act)
        run = self._current = Run(self.conversation, self._context, self._token.child())
        self._hold(self._compact(run, act.hint))
        return None

    def stop(self, reason: str) -> bool:
        """Cancel the run, and begin no further one of its series; False if nothing is running."""
        running = self.going_on
        self._series = None
        if self._current is not None:
            self._current.token.cancel(reason)
        return running

    def busy(self) -> bool:
        """Whether only the user may begin a run now: one is in progress, or no user is present."""
        return self.going_on or not self.conversation.attended

    def rouse(self) -> None:
        """Begin one run for everything that wakes the agent, if a user is present and it is
        idle."""
        self._context.parts.look()
        if self.conversation.attended and (self._waking is None or self._waking.done()):
            self._waking = asyncio.create_task(self._wake_up())

    def goes_to(self, server: str) -> str:
        """Take note of where text goes from now on; return how to say so, empty if that is where it
        went before."""
        if server in ("", self.server):
            return ""
        self.server = server
        return from_now_on(server)

    def close(self) -> None:
        """Cancel the run, and begin no other."""
        self._context.queue.closed = True
        self._token.cancel("interrupted")

    async def ended(self) -> None:
        """Wait until no run is left and the hooks were told of the last one's end."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def _refuse_second(self) -> None:
        if self.closed:
            raise CodeagentError("this conversation is closed")
        if self.going_on:
            raise CodeagentError("this agent is already running; steer it, or wait for the end")

    async def _compact(self, run: Run, hint: str) -> None:
        """Compact; then begin a run with what the user typed in the meantime."""
        self._context.spending.work()
        self._tell_server(run.conversation)
        try:
            await run.compact(hint)
        finally:
            self._context.spending.rest()
            self._leave(run)
        if self._context.queue.waiting and not self.closed:
            self.start(None)
        self.rouse()

    def _made(
        self, conversation: Conversation, prompt: str | None
    ) -> Coroutine[Any, Any, RunFinished | None]:
        """Make a run the current one, and return its work."""
        run = self._current = Run(conversation, self._context, self._token.child())
        queued = self._context.queue.waiting
        texts = [one.text for one in queued] if prompt is None else [prompt]
        if any(map(self._hooks.judges, texts)):
            return self._submit(run, prompt)
        self._enter(run, prompt)
        return self._work(run)

    def _hold(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _and_rouse(self, work: Coroutine[Any, Any, RunFinished | None]) -> None:
        await work
        self.rouse()

    async def _follow(self, series: RunSeries) -> None:
        failure = None
        try:
            while self._series is series and not series.is_over:
                await self._run_next(series)
        except CodeagentError as error:
            failure = str(error)
        if self._series is series:
            self._series = None
        if not series.is_over:
            series.stopped(failure)
        self.rouse()

    async def _run_next(self, series: RunSeries) -> None:
        """Raises CodeagentError if it cannot begin."""
        conversation = await series.open(self.conversation)
        try:
            if self._series is not series or self.closed:  # stopped in the meantime
                return
            self._scope = series
            await self._made(*await series.enter(conversation))
        finally:
            self._leave_scope()
            await series.close()

    def _leave_scope(self) -> None:
        """Undo what applied to one run only; idempotent."""
        scope = self._scope
        self._scope = None
        if scope is not None:
            scope.leave()

    def _follow_fallback(self, event: ModelFellBack) -> None:
        """The model that takes over is asked at its own server, in later runs as well."""
        if event.agent != self._context.emitter.agent or not event.server:
            return
        self.server = event.server
        run = self._current
        if run is None or run.conversation.model is self.conversation.model:
            self.conversation = replace(self.conversation, server=event.server)

    def _enter(self, run: Run, prompt: str | None) -> None:
        self._tell_server(run.conversation)
        try:
            run.begin(prompt)
        except BaseException:
            self._current = None
            raise

    def _tell_server(self, conversation: Conversation) -> None:
        """Report that the text of the conversation goes to another host than before, as for one run
        of a series."""
        if where := self.goes_to(conversation.server):
            text = f"the model is {conversation.model.name}{where}"
            self._context.emitter.warn("model.server", text)

    async def _submit(self, run: Run, prompt: str | None) -> RunFinished | None:
        """Begin once the hooks allow the prompt; None if they deny it: then no run begins, and
        nothing is lost."""
        try:
            why = await run.submit(prompt)
        except (RunCancelled, asyncio.CancelledError):
            why = "stopped before the prompt was sent; it is kept"
            self._context.queue.take_back_all()
        if why is None:
            self._enter(run, prompt)
            return await self._work(run)
        self._series = None
        self._leave(run)
        self._context.emitter.emit(RunNotBegun(text=why, prompt=prompt or ""))
        return None

    async def _work(self, run: Run) -> RunFinished:
        emitter = self._context.emitter
        finished = await run.work()
        if self._series is not None and not self._series.continues(finished):
            # Before anybody is told of the end, because then another run may begin.
            self._series = None
        if finished.reason not in ("done", "denied"):
            self._context.queue.rest()
        self._leave(run)
        finished = emitter.emit(finished)
        try:
            await emitter.sync()
        except CodeagentError as failure:
            emitter.emit(SessionNotSaved(text=str(failure)))
        await self._hooks.run_finished(finished)
        return finished

    async def _wake_up(self) -> None:
        await self._lock.enter(alone=False)
        self._lock.leave(alone=False)
        queue = self._context.queue
        if queue.wakes and not queue.waiting and not self.going_on and not self.closed:
            self.start(None)

    def _leave(self, run: Run) -> None:
        run.token.close()
        self._context.gate.end()
        self._leave_scope()
        self._current = None
