"""The one path for every call: find, validate, hooks, policy, approval, run, result."""

import asyncio
import json
import time
from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from codeagent.agent.approvals import Approvals
from codeagent.agent.consent import Consent
from codeagent.agent.emitter import Emitter
from codeagent.agent.floor import Floor
from codeagent.agent.hooks.hook import Deny, Modify
from codeagent.agent.inspection import Inspection
from codeagent.agent.jobs.run import JobRun
from codeagent.agent.jobs.store import TOO_MANY, TOO_MANY_RUN, Jobs
from codeagent.agent.jobs.work import CallUpdates, CallWork, Inbox, run_stateful
from codeagent.agent.outcome import (
    Settled,
    as_edited,
    as_read,
    cap_output,
    checked,
    result_of_error,
    result_of_refusal,
    with_notes,
)
from codeagent.agent.permissions import Permissions
from codeagent.agent.prepared import CallKind, Circumstances, Permit, Prepared, Refused, Surroundings
from codeagent.agent.repeats import TOO_OFTEN
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import RunCancelled
from codeagent.core.events import PlannedCall, ToolFinished, ToolResultAdded, ToolStarted
from codeagent.core.messages import ToolCall, ToolMessage
from codeagent.core.policy import ApprovalSource, Verdict
from codeagent.core.tool import EXCLUSIVE, Access, Denied, Failed, Preview, Tool, ToolContext, ToolError
from codeagent.core.tool import ToolResult as Result
from codeagent.tools.arguments import parse_arguments, read_arguments

_ORDINARY = Circumstances()


class Executor:
    """Turns each call into exactly one result; nothing a call does escapes as an exception."""

    def __init__(
        self,
        around: Surroundings,
        emitter: Emitter,
        approvals: Approvals,
        permissions: Permissions,
        floor: Floor,
        jobs: Jobs,
        inspection: Inspection,
    ) -> None:
        self._around = around
        self._emitter = emitter
        self._consent = Consent(approvals, permissions, around.hooks)
        self._permissions = permissions
        self._floor = floor
        self._slots = asyncio.Semaphore(around.limits.max_concurrency)
        self._running: dict[str, CancelToken] = {}
        self._jobs = jobs
        self._inspection = inspection
        self._working: dict[str, CallWork] = {}
        """What is awaited, by call, the oldest first."""

    def plan(self, call: ToolCall) -> PlannedCall:
        """What a person is shown before the batch runs."""
        try:
            prepared = self._prepare(call)
        except ToolError as error:
            reason = str(error).partition("\n")[0]
            return PlannedCall(call_id=call.id, name=call.name, target="", permission="deny", reason=reason)
        verdict = self._judge(prepared)
        return PlannedCall(
            call_id=call.id,
            name=call.name,
            target=prepared.tool.target(prepared.args),
            permission=verdict.permission,
            reason=verdict.reason,
        )

    def check(self, call: ToolCall) -> None:
        """Raises ToolError where a call as the user wrote it cannot run: no such tool, or arguments that do not fit."""
        parse_arguments(self._around.tools.get(call.name), call.arguments)

    def may_change(self, call: ToolCall) -> bool:
        """The call may change files, for all that is known before it runs."""
        try:
            prepared = self._prepare(call)
        except ToolError:
            return False
        tool = prepared.tool
        if tool.effect == "nothing" or self._confined(tool) or self._judge(prepared).permission == "deny":
            return False
        return self._around.hooks.may_modify(tool.name) or prepared.kind == "change"

    def kind(self, call: ToolCall) -> CallKind:
        """As the model asked for it; a call that cannot run would only have read."""
        try:
            return self._prepare(call).kind
        except ToolError:
            return "read"

    def most_calls(self, call: ToolCall) -> int | None:
        """How often its tool may be called in one run; None: as often as any."""
        tools = self._around.tools
        return tools.get(call.name).max_calls if call.name in tools else None

    def repeatable(self, call: ToolCall) -> bool:
        """The same call may give another result each time."""
        tools = self._around.tools
        return call.name in tools and tools.get(call.name).repeatable

    def access(self, call: ToolCall) -> Access:
        """What the call may disturb; a call that cannot run disturbs nothing."""
        try:
            prepared = self._prepare(call)
        except ToolError:
            return Access("shared", "")
        if self._around.hooks.may_modify(prepared.tool.name) and prepared.tool.effect != "nothing":
            return EXCLUSIVE
        return prepared.tool.access(prepared.args, self._around.workspace)

    def cancel(self, call_id: str, reason: str) -> None:
        """Cancel one running call; its siblings go on."""
        if (token := self._running.get(call_id)) is not None:
            token.cancel(reason)

    async def execute(
        self, call: ToolCall, run_token: CancelToken, circumstances: Circumstances = _ORDINARY
    ) -> Settled:
        """The call's one result, emitted and returned."""
        token = run_token.child()
        self._running[call.id] = token
        try:
            return await self._execute(call, token, circumstances)
        finally:
            del self._running[call.id]
            token.close()

    def refuse(self, call: ToolCall, error: ToolError, source: ApprovalSource | None = None) -> Settled:
        """The result of a call that is not even tried: skipped, cut off, over a limit."""
        return self._settle(call, result_of_refusal(error), Permit(source) if source else None)

    async def _execute(self, call: ToolCall, token: CancelToken, circumstances: Circumstances) -> Settled:
        try:
            token.raise_if_cancelled()
            prepared = replace(self._prepare(call), edited=circumstances.edited)
            prepared = await self._after_hooks(prepared, token)
            prepared, permit = await self._permitted(prepared, token, circumstances.repeated)
        except Refused as refused:
            permit_or_none = Permit(refused.source, rule=refused.rule) if refused.source else None
            return self._settle(call, refused.result, permit_or_none)
        except (ToolError, RunCancelled) as error:
            return self._settle(call, result_of_refusal(error), None)
        except Exception as error:
            return self._settle(call, result_of_error(error, executed=False), None)
        async with self._slots:
            return await self._in_turn(prepared, permit, token)

    def _prepare(self, call: ToolCall) -> Prepared:
        """Raises ToolError: not_found or invalid_args."""
        tool = self._around.tools.get(call.name)
        read = read_arguments(tool, call.arguments)
        return Prepared(call, tool, read.args, read_as=read.read_as, dropped=read.dropped)

    async def _after_hooks(self, prepared: Prepared, token: CancelToken) -> Prepared:
        if not self._around.hooks.may_modify(prepared.tool.name):
            return prepared
        match await token.guard(self._around.hooks.before_tool(prepared.call)):
            case Deny(reason):
                raise Refused(result_of_refusal(Denied(reason)), "hook")
            case Modify(arguments):
                args = parse_arguments(prepared.tool, json.dumps(arguments))
                return replace(prepared, args=args, read_as=(), dropped=())
            case None:
                return prepared

    def _judge(self, prepared: Prepared) -> Verdict:
        return self._permissions.judge(prepared.tool, prepared.args, confined=self._confined(prepared.tool))

    def _confined(self, tool: Tool[Any]) -> bool:
        """Plan mode, and the kernel sees to it that the tool changes nothing."""
        return self._permissions.mode == "plan" and tool.sandboxed and self._around.sandbox_kind == "docker"

    async def _permitted(self, prepared: Prepared, token: CancelToken, repeated: int) -> tuple[Prepared, Permit]:
        """The call as it shall run. Raises Refused, or ToolError where the preview shows that it cannot work."""
        verdict = self._judge(prepared)
        too_often = repeated >= TOO_OFTEN
        if verdict.permission == "deny":
            raise Refused(result_of_refusal(Denied(verdict.reason)), verdict.source, verdict.rule)
        if too_often and not self._around.attended:
            raise Failed(
                f"Not executed: this is the same call {repeated} times in a row, and its result was not going to be "
                "another. Do something else, or say what keeps you from it."
            )
        if verdict.permission == "auto" and not too_often:
            return prepared, Permit(verdict.source, rule=verdict.rule)
        if too_often:
            verdict = replace(verdict, reason=f"the same call {repeated} times in a row")

        async def show(shown: Prepared, base: str | None) -> Preview:
            context = replace(self._context(shown, token), base=base)
            return await token.guard(shown.tool.preview(shown.args, context))

        return await self._consent.ask(prepared, verdict, show, token, anew=too_often)

    def _context(self, prepared: Prepared, token: CancelToken, permit: Permit | None = None) -> ToolContext:
        around = self._around
        return ToolContext(
            prepared.call.id,
            prepared.tool.name,
            around.workspace,
            around.sandbox,
            token,
            withheld=partial(self._permissions.withheld, prepared.tool.name, prepared.paths),
            base=None if permit is None else permit.base,
            hunks=None if permit is None else permit.hunks,
            read_only=self._permissions.mode == "plan" and around.sandbox_kind == "docker",
            session_id=self._emitter.session_id,
            agent=self._emitter.agent,
            scratchpad=around.scratchpad,
        )

    async def _in_turn(self, prepared: Prepared, permit: Permit, token: CancelToken) -> Settled:
        """What may change something waits while the person's own command runs."""
        if prepared.tool.effect == "nothing":
            return await self._run(prepared, permit, token)
        try:
            await token.guard(self._floor.enter(alone=False))
        except RunCancelled as error:
            return self._settle(prepared.call, result_of_refusal(error), permit)
        try:
            return await self._run(prepared, permit, token)
        finally:
            self._floor.leave(alone=False)

    async def _run(self, prepared: Prepared, permit: Permit, token: CancelToken) -> Settled:
        call, tool = prepared.call, prepared.tool
        background = tool.in_background(prepared.args)
        try:
            token.raise_if_cancelled()
            if background and self._jobs.full:
                raise Failed(TOO_MANY)
            if tool.effect != "nothing":
                await self._emitter.sync()
        except Exception as error:
            return self._settle(call, result_of_error(error, executed=False), permit)
        inspected = prepared.runs_commands and not self._confined(tool)
        if inspected:
            await self._inspection.before()
        elif tool.effect != "nothing":
            await self._inspection.sweep()
        started_at, started = time.time(), time.monotonic()
        self._emitter.emit(
            ToolStarted(
                call_id=call.id, name=tool.name, target=tool.target(prepared.args), arguments=prepared.arguments
            )
        )
        work = self._begin(prepared, permit, token)
        result, job = await self._awaited(work, background)
        result = result if result.executed else replace(result, executed=True)
        duration_ms = round((time.monotonic() - started) * 1000)
        self._emitter.emit(
            ToolFinished(call_id=call.id, name=tool.name, is_error=result.is_error, duration_ms=duration_ms)
        )
        notes = await self._inspection.after(call.id, token) if inspected and job is None else ()
        if tool.effect == "files":
            self._inspection.wrote(result.details)
        result = with_notes(cap_output(result, tool.output_limit, self._around.outputs, call.id), notes)
        if prepared.edited:
            result = as_edited(result, prepared.json)
        elif prepared.read_as or prepared.dropped:
            result = as_read(result, prepared.read_as, prepared.dropped)
        settled = self._settle(call, result, permit, started_at=started_at, duration_ms=duration_ms)
        if job is not None:
            self._jobs.follow(job)
            if inspected:
                self._inspection.later(job.over)
        await self._around.hooks.after_tool(call, settled.result)
        return settled

    def _begin(self, prepared: Prepared, permit: Permit, token: CancelToken) -> CallWork:
        """The tool's own work on its way, under the call's token and its time limit."""
        tool, args = prepared.tool, prepared.args
        updates = CallUpdates(prepared.call, self._emitter, self._around.hooks)
        work = CallWork(prepared, token, updates, Inbox())
        context = replace(
            self._context(prepared, token, permit),
            on_update=updates.update,
            on_progress=updates.progress,
            is_job=lambda: updates.is_job,
        )
        if tool.mode == "stateful":
            context = replace(context, receive=work.inbox.receive)
            work.begin(_result(token, run_stateful(tool, args, context, work.inbox)), self._limit(prepared))
        else:
            work.begin(_result(token, tool.run(args, context)), self._limit(prepared))
        return work

    def _limit(self, prepared: Prepared) -> float | None:
        """Seconds; the run's own limit is for calls that are awaited."""
        if prepared.tool.waits_for_user:
            return None
        own = prepared.tool.time_limit(prepared.args)
        general = None if prepared.tool.in_background(prepared.args) else self._around.limits.timeout_per_call
        return min((seconds for seconds in (own, general) if seconds is not None), default=None)

    async def _awaited(self, work: CallWork, background: bool) -> tuple[Result, JobRun | None]:
        """The result, or the placeholder of what goes on as a job."""
        call_id = work.prepared.call.id
        if background:
            job = self._jobs.take(work, promoted=False)
            return job.placeholder(), job
        self._working[call_id] = work
        try:
            settled = await work.settle()
        finally:
            del self._working[call_id]
        if isinstance(settled, Result):
            work.updates.ended = True
            return settled, None
        job = self._jobs.run_of(settled)
        return job.placeholder(), job

    def promote(self, call_id: str | None) -> bool:
        """Move a call that is awaited to the background; None: the one that has run longest."""
        known = [work for key, work in self._working.items() if call_id in (None, key) and work.movable]
        if not known:
            return False
        if self._jobs.full:
            self._emitter.notice("job.limit", f"{TOO_MANY_RUN}; nothing was moved to the background: stop one first")
            return False
        known[0].move(self._jobs.take(known[0], promoted=True).job.id)
        return True

    def _settle(
        self,
        call: ToolCall,
        result: Result,
        permit: Permit | None,
        *,
        started_at: float | None = None,
        duration_ms: int = 0,
    ) -> Settled:
        sandboxed = started_at is not None and self._around.tools.get(call.name).sandboxed
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
            sandbox=self._around.sandbox_kind if sandboxed else None,
            child_session=result.child_session,
        )
        self._emitter.emit(added)
        self._jobs.answered(added)
        message = ToolMessage(call_id=call.id, name=call.name, content=result.content, is_error=result.is_error)
        return Settled(message, result)


async def _result(token: CancelToken, work: Coroutine[Any, Any, Result]) -> Result:
    try:
        return checked(await token.guard(work))
    except Exception as error:
        failed = result_of_error(error, executed=True, cancelled_because=token.reason)
    try:
        return checked(failed)
    except Failed as odd:
        return result_of_error(odd, executed=True)
