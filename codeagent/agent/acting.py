"""Carries out acts: each is done at once, refused, or begun as a task that reports how it ended."""

import asyncio
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, assert_never

from codeagent.agent.parts import Host
from codeagent.agent.rewind import SessionRewind
from codeagent.core import acts
from codeagent.core.acts import Act, Refused
from codeagent.core.errors import CodeagentError
from codeagent.core.notices import ActFailed

if TYPE_CHECKING:  # most users run no commands of their own
    from codeagent.agent.shell import Shell

Outcome = Refused | asyncio.Task[Refused | None] | None
"""What became of an act: refused, done, or begun as a task that reports at its end whether it could
be done."""
_READ = "the agent has already read it"
_NOT_MOVED = "it cannot be moved, or has just ended: nothing was moved to the background"
_NOT_PAUSED = "the run is no longer paused; nothing was changed"


class Acting:
    """Carries out the acts of one conversation until it is closed."""

    def __init__(self, host: Host, going_back: SessionRewind) -> None:
        self._host = host
        self._parts = host.parts
        self._shell: Shell | None = None
        """Runs the user's own commands; made for the first one."""
        self._going_back = going_back
        self._queue = host.context.queue
        self._gate = host.context.gate
        self._executor = host.context.executor
        self._permissions = host.context.permissions
        self._jobs = host.context.jobs
        self._emitter = host.context.emitter
        self._begun: set[asyncio.Task[Refused | None]] = set()
        self.closed = False

    def do(self, act: Act) -> Refused | None:
        outcome = self._outcome(act)
        if not isinstance(outcome, asyncio.Task):
            return outcome
        outcome.add_done_callback(partial(self._tell_failed, act))
        return None

    async def finish(self, act: Act) -> Refused | None:
        """Like `do`, but wait for what it begins; if that fails, the act is refused."""
        outcome = self._outcome(act)
        if not isinstance(outcome, asyncio.Task):
            return outcome
        try:
            return await asyncio.shield(outcome)
        except asyncio.CancelledError:
            outcome.add_done_callback(partial(self._tell_failed, act))
            raise

    async def settled(self) -> None:
        """Wait until everything that acts began has ended; runs are not waited for."""
        while self._begun:
            await asyncio.wait(set(self._begun))

    def _outcome(self, act: Act) -> Outcome:
        if self.closed:
            return Refused("this conversation is closed")
        if isinstance(act, acts.Pause | acts.Step):
            self._parts.pass_on(act)
        try:
            return self._act(act)
        except CodeagentError as error:
            return Refused(str(error))

    def _act(self, act: Act) -> Outcome:
        """Raises CodeagentError if it cannot be done now."""
        host = self._host
        match act:
            case acts.Prompt(text):
                host.runs.start(text)
            case (
                acts.RunRecipe()
                | acts.StopTrigger()
                | acts.TrustServers()
                | acts.GiveVariables()
                | acts.RestartServer()
                | acts.AgreeToServer()
            ):
                begun = self._parts.do(act)
                return self._begin(begun) if isinstance(begun, Coroutine) else _done(begun)
            case acts.Steer() | acts.Interrupt() | acts.FollowUp():
                self._queue.add(act.kind, act.text)
            case acts.TakeBack() | acts.Rewrite() | acts.Reorder():
                return _done(self._change_queue(act), _READ)
            case acts.Pause() | acts.Resume() | acts.Step() | acts.SkipCall() | acts.EditCall():
                return self._step_in(act)
            case acts.Stop(reason):
                stopped = host.runs.stop(reason)
                if self._shell is not None:
                    stopped |= self._shell.cancel_all(reason)
                return _done(stopped, "nothing is running")
            case acts.CancelCall():
                return _done(self._cancel_call(act), "that call is no longer running")
            case acts.Background(call_id):
                return _done(self._executor.promote(call_id), _NOT_MOVED)
            case acts.Answer(approval_id, decision):
                answered = host.approvals.respond(approval_id, decision)
                answered = answered or self._parts.pass_on(act)
                return _done(answered, "the question is no longer pending")
            case acts.SetMode() | acts.SetNetwork():
                return None if (left := self._permissions.set(act)) is None else self._begin(left)
            case acts.SetBudget(budget):
                host.context.spending.set(budget)
            case acts.SetModel() | acts.SetEffort():
                return self._begin(host.model.change(act))
            case acts.AllowRule(text, keep):
                return self._begin(self._permissions.add(self._permissions.parse(text, keep=keep)))
            case acts.RevokeRule(rule):
                return self._begin(self._permissions.revoke(rule))
            case acts.RunShell(command, shared):
                return self._begin(self._own_shell().start(command, shared=shared))
            case acts.StopJob() | acts.SendToJob():
                return self._change_job(act)
            case acts.Compact() | acts.AnswerSummary() | acts.Pin() | acts.Unpin():
                return host.runs.act_on_context(act)
            case acts.TrustTools() | acts.SetToolset():
                return self._change_tools(act)
            case acts.Restore() | acts.RestoreFile():
                return self._begin(self._going_back.restore(act))
            case _:
                assert_never(act)
        return None

    def _change_queue(self, act: acts.TakeBack | acts.Rewrite | acts.Reorder) -> bool:
        match act:
            case acts.TakeBack(queued_id):
                return self._queue.take_back(queued_id)
            case acts.Rewrite(queued_id, text):
                return self._queue.rewrite(queued_id, text)
            case acts.Reorder(queued_id, position):
                return self._queue.move(queued_id, position)
            case _:
                assert_never(act)

    def _step_in(
        self, act: acts.Pause | acts.Resume | acts.Step | acts.SkipCall | acts.EditCall
    ) -> Refused | None:
        match act:
            case acts.Pause():
                if not self._host.runs.going_on:
                    return Refused("nothing is running that could be paused")
                self._gate.pause()
            case acts.Resume():
                resumed = self._gate.resume() | self._parts.pass_on(act)
                return _done(resumed, "nothing is paused")
            case acts.Step(on):
                self._gate.step(on)
            case acts.SkipCall(call_id, why, on):
                return _done(self._gate.mark(call_id, why if on else None), _NOT_PAUSED)
            case acts.EditCall(call_id, arguments):
                edited = self._gate.edit(call_id, arguments)
                return _done(edited, "this call is no longer pending")
            case _:
                assert_never(act)
        return None

    def _cancel_call(self, act: acts.CancelCall) -> bool:
        if act.agent != self._emitter.agent:
            return self._parts.pass_on(act)
        if self._executor.cancel(act.call_id, "cancelled"):
            return True
        return self._shell is not None and self._shell.cancel(act.call_id, "cancelled")

    def _own_shell(self) -> "Shell":
        if self._shell is None:
            from codeagent.agent.shell import Shell  # most users run no commands of their own

            host = self._host
            self._shell = Shell(host.environment, self._emitter, host.shared.lock, self._queue)
        return self._shell

    async def close(self) -> None:
        """End the user's own commands."""
        if self._shell is not None:
            await self._shell.close()

    def _change_job(self, act: acts.StopJob | acts.SendToJob) -> Outcome:
        """Raises CodeagentError."""
        job_id = self._jobs.require(act.job_id)
        if isinstance(act, acts.StopJob):
            return self._begin(self._jobs.stop(job_id, "stopped by the user"))
        sent = self._jobs.send(job_id, act.text)
        return _done(sent, f"{act.job_id} accepts no text; it was not sent")

    def _change_tools(self, act: acts.TrustTools | acts.SetToolset) -> Outcome:
        runs = self._host.runs
        builder = runs.conversation.prompt_builder
        if isinstance(act, acts.SetToolset):
            if builder is None:
                return Refused("no toolsets here; nothing was changed")
            return self._begin(builder.choose(act, self._emitter, running=lambda: runs.going_on))
        if builder is None:
            return Refused("no tools are read from files here; nothing was changed")
        return self._begin(
            builder.trust(act.trusted, self._emitter, running=runs.going_on, seen=act.seen)
        )

    def _begin(self, work: Awaitable[object]) -> Outcome:
        task = asyncio.create_task(_outcome_of(work))
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        return task

    def _tell_failed(self, act: Act, task: asyncio.Task[Refused | None]) -> None:
        if not task.cancelled() and (refused := task.result()) is not None:
            self._emitter.emit(ActFailed(text=refused.reason, act=type(act).__name__))


def _done(done: object, otherwise: str = "") -> Refused | None:
    """Return the refusal for an act that was not done: `done` is False, or the refusal itself."""
    if isinstance(done, Refused):
        return done
    return Refused(otherwise) if done is False else None


async def _outcome_of(work: Awaitable[object]) -> Refused | None:
    try:
        await work
    except CodeagentError as error:
        return Refused(str(error))
    except Exception as error:
        return Refused(f"internal error: {type(error).__name__}: {error}")
    return None
