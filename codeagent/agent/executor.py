"""Executes calls, all of them on one path: find, validate, hooks, policy, approval, run, result."""

import asyncio
import json
import time
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from codeagent.agent.approvals import Approvals
from codeagent.agent.calls import (
    CallKind,
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
from codeagent.agent.contexts import CallContexts
from codeagent.agent.emitter import Emitter
from codeagent.agent.environment import ToolEnvironment
from codeagent.agent.hooks.hook import Deny, Modify
from codeagent.agent.inspection import Inspection
from codeagent.agent.jobs.run import JobRun, moved
from codeagent.agent.jobs.store import TOO_MANY, TOO_MANY_RUN, Jobs
from codeagent.agent.jobs.work import CallWork
from codeagent.agent.limits import TOO_OFTEN
from codeagent.agent.work_time import part
from codeagent.core.approval_events import PlannedCall
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import OutsideWorkspace, RunCancelled, WorkspaceError
from codeagent.core.events import ToolFinished, ToolResultAdded, ToolStarted
from codeagent.core.messages import ToolCall
from codeagent.core.paths import refuse_protected
from codeagent.core.policy import ApprovalSource, Verdict
from codeagent.core.tool import (
    EXCLUSIVE,
    REDEFINED,
    Access,
    Denied,
    Failed,
    Preview,
    Skipped,
    Tool,
    ToolError,
    Unavailable,
)
from codeagent.core.tool import ToolResult as Result
from codeagent.core.toolbox import ToolsInUse
from codeagent.tools.arguments import parse_arguments, read_arguments

_INFO = "info"
"""The tool that shows the documentation of other tools."""
_MOST_PREPARED = 64
"""How many calls' arguments are kept as they were read."""


class Executor:
    """Turns each call into exactly one result; nothing a call does escapes as an exception."""

    def __init__(
        self,
        environment: ToolEnvironment,
        emitter: Emitter,
        approvals: Approvals,
        lock: WorkspaceLock,
        jobs: Jobs,
        inspection: Inspection,
        slots: asyncio.Semaphore,
    ) -> None:
        """`slots`: one for each call that may run at the same time."""
        self.contexts = CallContexts(environment, emitter, approvals)
        self._environment = environment
        self.tools: ToolsInUse = environment.tools
        self.outputs = environment.outputs
        self._emitter = emitter
        self._approvals = approvals
        self._permissions = approvals.permissions
        self._lock = lock
        self._slots = slots
        self._seconds = environment.limits.timeout_per_call
        self._prepared: dict[ToolCall, PreparedCall] = {}
        self._running: dict[str, CancelToken] = {}
        self._jobs = jobs
        self._inspection = inspection
        self._working: dict[str, CallWork] = {}
        """The calls that are awaited, by id, the oldest first."""

    def use_tools(self, only: ToolsInUse | None) -> None:
        """Use only these tools from now on; None: all that the conversation has."""
        self.tools = self._environment.tools if only is None else only
        self._prepared.clear()

    def limit_calls(self, seconds: float | None) -> None:
        """Give each awaited call at most this time from now on; None: the limit of the
        conversation."""
        self._seconds = self._environment.limits.timeout_per_call if seconds is None else seconds

    def plan(self, call: ToolCall) -> PlannedCall:
        """Return what the user sees of the call before its batch runs."""
        try:
            prepared = self._prepare(call)
        except ToolError as error:
            reason = str(error).partition("\n")[0]
            return PlannedCall(
                call_id=call.id, name=call.name, target="", permission="deny", reason=reason
            )
        verdict = self._judge(prepared)
        return PlannedCall(
            call_id=call.id,
            name=call.name,
            target=prepared.tool.target(prepared.args),
            permission=verdict.permission,
            reason=verdict.reason,
        )

    def check(self, call: ToolCall) -> None:
        """Check a call that the user edited. Raises ToolError if the tool is unknown or the
        arguments do not fit."""
        parse_arguments(self.tools.get(call.name), call.arguments)

    def only_writes_files(self, call: ToolCall) -> bool:
        """Whether the call changes nothing, or only files through the workspace, which records what
        it writes."""
        try:
            tool = self._prepare(call).tool
        except ToolError:
            return True
        if self._environment.hooks.registered or tool.starts_agents:
            return False
        return tool.effect == "nothing" or (tool.effect == "files" and tool.source == "builtin")

    def change(self, call: ToolCall) -> str:
        """Return name and target of a call that may change files, as far as known before it runs;
        otherwise empty."""
        try:
            prepared = self._prepare(call)
        except ToolError:
            return ""
        tool = prepared.tool
        if tool.starts_agents and self._permissions.mode != "plan":
            return f"{tool.name} {tool.target(prepared.args)}"
        harmless = tool.effect == "nothing" or not tool.may_write or self._confined(tool)
        if harmless or self._judge(prepared).permission == "deny":
            return ""
        changes = self._environment.hooks.may_modify(tool.name) or prepared.may_change_files
        return f"{tool.name} {tool.target(prepared.args)}".strip() if changes else ""

    def kind(self, call: ToolCall) -> CallKind:
        """Whether the call, as the model wrote it, reads or changes.

        One whose tool has no place to run in counts as changing; any other that cannot run counts
        as reading.
        """
        try:
            return self._prepare(call).kind
        except ToolError as error:
            return "change" if error.kind == "unavailable" else "read"

    def most_calls(self, call: ToolCall) -> int | None:
        """Return how often the call's tool may be called in one run; None means any number of
        times."""
        return self.tools.get(call.name).max_calls if call.name in self.tools else None

    def repeatable(self, call: ToolCall) -> bool:
        """Whether the same call may give another result each time."""
        return call.name in self.tools and self.tools.get(call.name).repeatable

    def unread(self, call: ToolCall) -> bool:
        """Whether the call is refused until the model has read the documentation of its tool, and
        it can read it."""
        return _INFO in self.tools and self.held_back(call.name)

    def held_back(self, name: str) -> bool:
        """Whether the model may not use the tool, because it has not read its documentation."""
        return name in self.tools and self._environment.recall.unread(self.tools.get(name))

    def access(self, call: ToolCall) -> Access:
        """Return what the call may conflict with; a call that cannot run conflicts with nothing."""
        try:
            prepared = self._prepare(call)
        except ToolError:
            return Access("shared", "")
        if (
            self._environment.hooks.may_modify(prepared.tool.name)
            and prepared.tool.effect != "nothing"
        ):
            return EXCLUSIVE
        return prepared.tool.access(prepared.args, self._environment.workspace)

    def may_begin_early(self, call: ToolCall) -> bool:
        """Whether the call may run before its answer is complete: it changes nothing, and nobody is
        asked about it.

        False if that cannot be told: the call then fails, or not, in its turn.
        """
        try:
            return self._only_reads(call)
        except Exception:
            return False

    def _only_reads(self, call: ToolCall) -> bool:
        """Raises ToolError, and what a tool raises by mistake."""
        prepared = self._prepare(call)
        if not prepared.reads_here or self._environment.hooks.may_modify(prepared.tool.name):
            return False
        access = self.access(call)
        verdict = self._judge(prepared)
        reads = access.mode == "shared" and access.key != ""
        return reads and verdict.permission == "auto" and not verdict.later

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
            token.raise_if_cancelled()
            prepared = replace(self._prepare(call), edited=edited)
            del self._prepared[call]  # the tool may change the arguments that it gets
            prepared = await self._after_hooks(prepared, token)
            prepared, permit = await self._permitted(prepared, token, repeated)
        except CallRefused as refused:
            permit_or_none = Permit(refused.source, rule=refused.rule) if refused.source else None
            return self._settle(call, refused.result, permit_or_none)
        except (ToolError, RunCancelled) as error:
            return self._settle(call, result_of_refusal(error), None)
        except Exception as error:
            return self._settle(call, result_of_error(error, executed=False), None)
        async with nullcontext() if prepared.tool.starts_agents else self._slots:
            return await self._in_turn(prepared, permit, token)

    def _prepare(self, call: ToolCall) -> PreparedCall:
        """Find the tool and read the arguments, once for everything that is asked about a call.

        Raises ToolError: not_found, invalid_args; skipped if the tool's documentation must be read
        first, and unavailable if it cannot be.
        """
        tool, known = self.tools.get(call.name), self._prepared.get(call)
        if self._environment.recall.unread(tool):
            if _INFO not in self.tools:
                raise Unavailable(
                    f"Not executed: the documentation of {tool.name} must be read before its first call, but {_INFO}, "
                    "which shows it, may not be used here. Only the user can change that"
                )
            raise Skipped(
                f'Not executed: read the documentation of this tool first, with info(name="{tool.name}")'
            )
        if known is not None and known.tool is tool:
            return known
        read = read_arguments(tool, call.arguments)
        if len(self._prepared) == _MOST_PREPARED:
            self._prepared.clear()
        prepared = PreparedCall(call, tool, read.args, read_as=read.read_as, dropped=read.dropped)
        self._prepared[call] = prepared
        return prepared

    async def _after_hooks(self, prepared: PreparedCall, token: CancelToken) -> PreparedCall:
        if not self._environment.hooks.may_modify(prepared.tool.name):
            return prepared
        match await token.guard(self._environment.hooks.before_tool(prepared.call)):
            case Deny(reason):
                raise CallRefused(result_of_refusal(Denied(reason)), "hook")
            case Modify(arguments):
                args = parse_arguments(prepared.tool, json.dumps(arguments))
                return replace(prepared, args=args, read_as=(), dropped=())
            case None:
                return prepared

    def _judge(self, prepared: PreparedCall) -> Verdict:
        return self._permissions.judge(
            prepared.tool, prepared.args, confined=self._confined(prepared.tool)
        )

    async def _verdict(self, prepared: PreparedCall, token: CancelToken) -> Verdict:
        """Judge a call that is about to run, once the sandbox is ready and what it confines is
        known."""
        if self._judge(prepared).permission == "auto":
            await self._sandbox_ready(prepared.tool, token)
        return self._judge(prepared)

    async def _sandbox_ready(self, tool: Tool[Any], token: CancelToken) -> None:
        """Wait for the sandbox, if the call runs there. Raises SandboxUnavailable, RunCancelled."""
        sandbox = self._environment.sandbox
        if sandbox is not None and tool.sandboxed:
            await token.guard(sandbox.ready())

    def _confined(self, tool: Tool[Any]) -> bool:
        """Whether the mode is plan and the sandbox keeps the tool from changing anything."""
        return (
            self._permissions.mode == "plan"
            and tool.sandboxed
            and self._environment.sandbox_kind == "docker"
        )

    async def _permitted(
        self, prepared: PreparedCall, token: CancelToken, repeated: int
    ) -> tuple[PreparedCall, Permit]:
        """Return the call to run and its permit. Raises CallRefused, or ToolError if the preview
        shows a failure."""
        verdict = await self._verdict(prepared, token)
        too_often = repeated >= TOO_OFTEN
        if verdict.permission == "deny":
            raise CallRefused(
                result_of_refusal(Denied(verdict.reason)), verdict.source, verdict.rule
            )
        await self._refuse(prepared, token)
        if too_often and not self._environment.attended:
            raise Failed(
                f"Not executed: this is the same call {repeated} times in a row, and its result would be the "
                "same. Do something else, or say what keeps you from it."
            )
        if verdict.permission == "auto" and not too_often:
            return prepared, Permit(verdict.source, rule=verdict.rule, later=verdict.later)
        if too_often:
            verdict = replace(verdict, reason=f"the same call {repeated} times in a row")

        async def show(shown: PreparedCall, base: str | None) -> Preview:
            if shown is not prepared:  # the user edited it
                await self._refuse(shown, token)
            context = replace(self.contexts.of(shown, token), base=base)
            return await token.guard(shown.tool.preview(shown.args, context))

        return await self._approvals.permit(prepared, verdict, show, token, again=too_often)

    async def _refuse(self, prepared: PreparedCall, token: CancelToken) -> None:
        """Raise ToolError or WorkspaceError for a call that is denied whatever the user answers."""
        for path in prepared.paths:
            try:
                self._environment.workspace.resolve(path)
            except OutsideWorkspace:
                raise
            except WorkspaceError:
                pass  # the tool says it better
            if prepared.tool.effect == "files":
                refuse_protected(path)
        prepared.tool.refuse(prepared.args, self.contexts.of(prepared, token))

    async def _in_turn(self, prepared: PreparedCall, permit: Permit, token: CancelToken) -> Result:
        """Run the call; one that may change something waits while one of the user's own commands
        runs."""
        if prepared.tool.effect == "nothing" or not prepared.tool.may_write:
            return await self._run(prepared, permit, token)
        try:
            await token.guard(self._lock.enter(alone=False))
        except RunCancelled as error:
            return self._settle(prepared.call, result_of_refusal(error), permit)
        try:
            return await self._run(prepared, permit, token)
        finally:
            self._lock.leave(alone=False)

    async def _run(self, prepared: PreparedCall, permit: Permit, token: CancelToken) -> Result:
        call, tool, environment = prepared.call, prepared.tool, self._environment
        background = tool.in_background(prepared.args)
        try:
            token.raise_if_cancelled()
            if background and self._jobs.full:
                raise Failed(TOO_MANY)
            await self._sandbox_ready(
                tool, token
            )  # its start does not count towards the call's time
            await self._refuse_outdated(prepared, permit, token)
            if tool.effect != "nothing":
                await self._emitter.sync()
        except Exception as error:
            return self._settle(call, result_of_error(error, executed=False), permit)
        inspected = prepared.runs_commands and not self._confined(tool)
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
        answered_by = tool.approval_key(
            prepared.args
        ).answered_by  # the tool may change its arguments
        work = CallWork(prepared, context, limit, self._emitter, environment.hooks)
        result, job = await self._awaited(work, background)
        self._permissions.hear(answered_by)
        result = result if result.executed else replace(result, executed=True)
        duration_ms = round((spent.seconds - started) * 1000)
        self._emitter.emit(
            ToolFinished(
                call_id=call.id, name=tool.name, is_error=result.is_error, duration_ms=duration_ms
            )
        )
        notes = (
            await self._inspection.after(call.id, token, self._approvals)
            if inspected and job is None
            else ()
        )
        if tool.effect == "files":
            self._inspection.wrote(result.details)
        result = with_notes(
            cap_output(result, tool.output_limit, self._environment.outputs, call.id), notes
        )
        if prepared.edited:
            result = as_edited(result, prepared.json)
        elif prepared.read_as or prepared.dropped:
            result = as_read(result, prepared.read_as, prepared.dropped)
        self._settle(call, result, permit, started_at=started_at, duration_ms=duration_ms)
        if job is not None:
            self._jobs.follow(job)
            if inspected:
                self._inspection.later(job.over)
        await self._environment.hooks.after_tool(call, result)
        return result

    async def _refuse_outdated(
        self, prepared: PreparedCall, permit: Permit, token: CancelToken
    ) -> None:
        """Raises Failed unless the tool that would run is still the one that the call was judged
        and shown with."""
        name, tool = prepared.call.name, prepared.tool
        if name not in self.tools or self.tools.get(name) is not tool:
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
        if seconds is not None and work.prepared.prints and "job_read" in self.tools:
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
        sandboxed = started_at is not None and self._environment.tools.get(call.name).sandboxed
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
