"""Executes calls, all of them on one path: find, validate, hooks, policy, approval, run, result."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from codeagent.agent.approvals import Approvals
from codeagent.agent.calls import (
    CallRefused,
    Permit,
    PreparedCall,
    as_edited,
    as_read,
    cap_output,
    result_of_error,
    result_of_refusal,
    with_notes,
)
from codeagent.agent.checkpoints import WorkspaceLock
from codeagent.agent.environment import ToolEnvironment
from codeagent.agent.inspection import Inspection
from codeagent.agent.jobs.run import JobRun, moved
from codeagent.agent.jobs.store import TOO_MANY, TOO_MANY_RUN, Jobs
from codeagent.agent.jobs.work import CallWork
from codeagent.agent.preparation import Admission, CallContexts, CallPreparation, Channels
from codeagent.agent.work_time import part
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import RunCancelled
from codeagent.core.events import ToolFinished, ToolResultAdded, ToolStarted
from codeagent.core.messages import ImagePart, ToolCall
from codeagent.core.policy import ApprovalSource
from codeagent.core.tool import REDEFINED, Failed, ToolError
from codeagent.core.tool import ToolResult as Result


class Executor:
    """Turns each call into exactly one result; nothing a call does escapes as an exception."""

    def __init__(
        self,
        environment: ToolEnvironment,
        approvals: Approvals,
        channels: Channels,
        *,
        lock: WorkspaceLock,
        jobs: Jobs,
        inspection: Inspection,
        slots: asyncio.Semaphore,
    ) -> None:
        """`slots`: one for each call that may run at the same time. `channels`: see
        `CallContexts`."""
        self.contexts = CallContexts(environment, approvals, channels)
        self._environment = environment
        self.calls = CallPreparation(environment, approvals.permissions)
        self._admission = Admission(environment, self.calls, self.contexts, approvals)
        self.outputs = environment.outputs
        self._emitter = approvals.emitter
        self._approvals = approvals
        self._permissions = approvals.permissions
        self._lock = lock
        self._slots = slots
        self._seconds = environment.limits.timeout_per_call
        self._running: dict[str, CancelToken] = {}
        self._jobs = jobs
        self._inspection = inspection
        self._working: dict[str, CallWork] = {}
        """The calls that are awaited, by id, the oldest first."""

    def limit_calls(self, seconds: float | None) -> None:
        """Give each awaited call at most this time from now on; None: the limit of the
        conversation."""
        self._seconds = self._environment.limits.timeout_per_call if seconds is None else seconds

    def cancel(self, call_id: str, reason: str) -> bool:
        """Cancel one running call; its siblings continue. False if it is not running."""
        if (token := self._running.get(call_id)) is None:
            return False
        token.cancel(reason)
        return True

    async def execute(
        self, call: ToolCall, run_token: CancelToken, *, edited: bool = False, repeated: int = 1
    ) -> Result:
        """Run the call and return its one result, which has been emitted.

        `edited`: the user edited its arguments; `repeated`: how many answers in a row contain this
        call.
        """
        token = run_token.child()
        self._running[call.id] = token
        try:
            with part() as self._approvals.times[call.id]:
                return await self._execute(call, token, edited, repeated)
        finally:
            del self._running[call.id], self._approvals.times[call.id]
            token.close()

    def refuse(
        self, call: ToolCall, error: ToolError, source: ApprovalSource | None = None
    ) -> Result:
        """Settle a call that is not tried: skipped, cut off, over a limit."""
        return self._settle(call, result_of_refusal(error), Permit(source) if source else None)

    async def _execute(
        self, call: ToolCall, token: CancelToken, edited: bool, repeated: int
    ) -> Result:
        try:
            prepared, permit = await self._admission.admit(
                call, token, edited=edited, repeated=repeated
            )
        except CallRefused as refused:
            permit_or_none = Permit(refused.source, rule=refused.rule) if refused.source else None
            return self._settle(call, refused.result, permit_or_none)
        except (ToolError, RunCancelled) as error:
            return self._settle(call, result_of_refusal(error), None)
        except Exception as error:
            return self._settle(call, result_of_error(error, executed=False), None)
        async with nullcontext() if prepared.tool.starts_agents else self._slots:
            return await self._in_turn(prepared, permit, token)

    async def _in_turn(self, prepared: PreparedCall, permit: Permit, token: CancelToken) -> Result:
        """Run the call; one that may change something waits while one of the user's own commands
        runs."""
        if prepared.tool.effect == "nothing" or not prepared.tool.may_write:
            return await self._run(prepared, permit, token)
        if not self._lock.enter_now(alone=False):
            try:
                await token.guard(self._lock.enter(alone=False))
            except RunCancelled as error:
                return self._settle(prepared.call, result_of_refusal(error), permit)
        try:
            return await self._run(prepared, permit, token)
        finally:
            self._lock.leave(alone=False)

    async def _run(self, prepared: PreparedCall, permit: Permit, token: CancelToken) -> Result:
        call, tool = prepared.call, prepared.tool
        background = tool.in_background(prepared.args)
        try:
            if background and self._jobs.full:
                token.raise_if_cancelled()
                raise Failed(TOO_MANY)
            await self._ready(prepared, permit, token)
        except Exception as error:
            return self._settle(call, result_of_error(error, executed=False), permit)
        confined = self._permissions.confines(tool)
        sandbox = self._environment.sandbox
        viewed = permit.tried and sandbox is not None and not sandbox.tried_read_only
        inspected = prepared.runs_commands and not confined and not viewed
        if inspected:
            await self._inspection.before()
        elif tool.effect != "nothing":
            await self._inspection.sweep()
        spent = self._approvals.times[call.id]
        started_at, started = time.time(), spent.seconds
        self._emitter.emit(
            ToolStarted(
                call_id=call.id,
                name=tool.name,
                target=tool.target(prepared.args),
                arguments=prepared.arguments,
            )
        )
        context = self.contexts.of(prepared, token, permit)
        limit = prepared.limit(self._seconds)
        work = CallWork(prepared, context, limit, self._emitter, self._environment.hooks)
        result, job = await self._awaited(work, background)
        self._permissions.hear(prepared.key.answered_by)
        result = result if result.executed else replace(result, executed=True)
        duration_ms = round((spent.seconds - started) * 1000)
        self._emitter.emit(
            ToolFinished(
                call_id=call.id, name=tool.name, is_error=result.is_error, duration_ms=duration_ms
            )
        )
        notes: tuple[str, ...] = ()
        if inspected and job is None:
            notes = await self._inspection.after(call.id, token, self._approvals)
        if tool.effect == "files" or viewed:
            self._inspection.wrote(result.details)
        if any(isinstance(part, ImagePart) for part in result.content):
            from codeagent.tools.pictures import with_pictures  # few results have an image

            result = await with_pictures(result, token)
        result = self._for_model(prepared, result, notes)
        self._settle(call, result, permit, started_at=started_at, duration_ms=duration_ms)
        if job is not None:
            self._jobs.follow(job)
            if inspected:
                self._inspection.later(job.over)
        await self._environment.hooks.after_tool(call, result)
        return result

    async def _ready(self, prepared: PreparedCall, permit: Permit, token: CancelToken) -> None:
        """Wait until the call can start, which does not count towards its time. Raises whatever
        keeps it from starting."""
        token.raise_if_cancelled()
        await self._admission.sandbox_ready(prepared.tool, token)
        sandbox = self._environment.sandbox
        if sandbox is not None and (permit.tried or self._permissions.tries_for_plan(prepared)):
            await token.guard(sandbox.prepare_trials())
        await self._refuse_outdated(prepared, permit, token)
        if prepared.tool.effect != "nothing":
            await self._emitter.sync()

    def _for_model(self, prepared: PreparedCall, result: Result, notes: Sequence[str]) -> Result:
        """Return the result as the model gets it: cut to size, with notes about the call."""
        outputs = self._environment.outputs
        result = cap_output(result, prepared.tool.output_limit, outputs, prepared.call.id)
        result = with_notes(result, notes)
        if prepared.edited:
            return as_edited(result, prepared.json)
        if prepared.read_as or prepared.dropped:
            return as_read(result, prepared.read_as, prepared.dropped)
        return result

    async def _refuse_outdated(
        self, prepared: PreparedCall, permit: Permit, token: CancelToken
    ) -> None:
        """Raises Failed unless the tool that would run is still the one that the call was judged
        and shown with."""
        name, tool = prepared.call.name, prepared.tool
        if name not in self.calls.tools or self.calls.tools.get(name) is not tool:
            raise Failed(f"{name} was not called: {REDEFINED}")
        finding = tool.outdated(asked=permit.source in ("user", "flag"))
        if finding is not None and (why := await token.guard(finding)):
            raise Failed(why)

    async def _awaited(self, work: CallWork, background: bool) -> tuple[Result, JobRun | None]:
        """Return the result, or the placeholder and the job that the call became."""
        call_id = work.prepared.call.id
        if background:
            job = self._jobs.take(work)
            return job.placeholder(), job
        self._working[call_id] = work
        seconds = self._environment.preferences.partial_results
        if seconds is not None and work.prepared.prints and "job_read" in self.calls.tools:
            work.after(seconds, partial(self.promote, call_id, seconds))
        try:
            settled = await work.settle()
        finally:
            del self._working[call_id]
        if isinstance(settled, Result):
            return settled, None
        job = self._jobs.run_of(settled)
        return job.placeholder(), job

    def promote(self, call_id: str | None, after: float | None = None) -> bool:
        """Move a call that is awaited to the background, for the user; None: the one that has run
        longest.

        `after`: the settings want it after so many seconds, and its time limit still applies.
        """
        known = [
            work for key, work in self._working.items() if call_id in (None, key) and work.movable
        ]
        if not known:
            return False
        if self._jobs.full:
            self._emitter.notice(
                "job.limit", f"{TOO_MANY_RUN}; nothing was moved to the background: stop one first"
            )
            return False
        known[0].move(self._jobs.take(known[0], moved(after)).job.id, limited=after is not None)
        return True

    def _settle(
        self,
        call: ToolCall,
        result: Result,
        permit: Permit | None,
        *,
        started_at: float | None = None,
        duration_ms: int = 0,
    ) -> Result:
        sandboxed = started_at is not None and self.calls.tools.get(call.name).sandboxed
        added = ToolResultAdded(
            call_id=call.id,
            name=call.name,
            content=result.content,
            is_error=result.is_error,
            executed=result.executed,
            error=result.error,
            blocks=result.blocks,
            details=result.details,
            started_at=started_at,
            duration_ms=duration_ms,
            approval=None if permit is None else permit.source,
            rule=None if permit is None else permit.rule,
            sandbox=self._environment.sandbox_kind if sandboxed else None,
            child_session=result.child_session,
        )
        self._emitter.emit(added)
        self._jobs.answered(added)
        return result
