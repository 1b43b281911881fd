"""The one path for every call: find, validate, hooks, policy, approval, run, result."""

import asyncio
import json
import time
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel

from codeagent.agent.approvals import Approvals
from codeagent.agent.emitter import Emitter
from codeagent.agent.floor import Floor
from codeagent.agent.hooks import Deny, Hooks, Modify
from codeagent.agent.limits import Limits
from codeagent.agent.outcome import Settled, cap_output, result_of_error, result_of_refusal
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import RunCancelled
from codeagent.core.events import PlannedCall, ToolFinished, ToolProgress, ToolResultAdded, ToolStarted, ToolUpdated
from codeagent.core.messages import ToolCall, ToolMessage
from codeagent.core.policy import SAID_NO, ApprovalSource, Decision, Mode, Policy, Verdict
from codeagent.core.ports import OutputStore, Sandbox, Workspace
from codeagent.core.tool import EXCLUSIVE, Access, Denied, Failed, OutputStream, Preview, Tool, ToolContext, ToolError
from codeagent.core.tool import ToolResult as Result
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.registry import ToolRegistry

_PREVIEWS = 3
"""How often a call is shown again because what it would change keeps changing."""


@dataclass(frozen=True)
class Surroundings:
    """What calls work on; the same for every call of a run."""

    tools: ToolRegistry
    workspace: Workspace
    sandbox: Sandbox | None
    sandbox_kind: Literal["docker", "host"] | None
    outputs: OutputStore
    policy: Policy
    limits: Limits
    hooks: Hooks


@dataclass(frozen=True)
class _Prepared:
    """A call whose arguments are known to fit."""

    call: ToolCall
    tool: Tool[Any]
    args: BaseModel

    @property
    def arguments(self) -> dict[str, Any]:
        return self.args.model_dump(mode="json", exclude_unset=True)


@dataclass(frozen=True)
class _Permit:
    source: ApprovalSource
    base: str | None = None


class _Refused(Exception):
    """The call will not run; carries its result and who refused it."""

    def __init__(self, result: Result, source: ApprovalSource | None) -> None:
        super().__init__()
        self.result = result
        self.source = source


class Executor:
    """Turns each call into exactly one result; nothing a call does escapes as an exception."""

    def __init__(self, around: Surroundings, emitter: Emitter, approvals: Approvals, floor: Floor) -> None:
        self._around = around
        self._emitter = emitter
        self._approvals = approvals
        self._floor = floor
        self._slots = asyncio.Semaphore(around.limits.max_concurrency)
        self._running: dict[str, CancelToken] = {}

    @property
    def mode(self) -> Mode:
        return self._around.policy.mode

    def set_mode(self, mode: Mode) -> None:
        """Holds for every call that is not judged yet."""
        self._around = replace(self._around, policy=replace(self._around.policy, mode=mode))

    def plan(self, call: ToolCall) -> PlannedCall:
        """What a person is shown before the batch runs."""
        try:
            prepared = self._prepare(call)
        except ToolError:
            return PlannedCall(call_id=call.id, name=call.name, target="", permission="deny")
        verdict = self._judge(prepared)
        target = prepared.tool.target(prepared.args)
        return PlannedCall(call_id=call.id, name=call.name, target=target, permission=verdict.permission)

    def access(self, call: ToolCall) -> Access:
        """What the call may disturb; a call that cannot run disturbs nothing."""
        try:
            prepared = self._prepare(call)
        except ToolError:
            return Access("shared", "")
        if self._around.hooks.may_modify and prepared.tool.effect != "nothing":
            return EXCLUSIVE
        return prepared.tool.access(prepared.args, self._around.workspace)

    def cancel(self, call_id: str, reason: str) -> None:
        """Cancel one running call; its siblings go on."""
        if (token := self._running.get(call_id)) is not None:
            token.cancel(reason)

    async def execute(self, call: ToolCall, run_token: CancelToken) -> Settled:
        """The call's one result, emitted and returned."""
        token = run_token.child()
        self._running[call.id] = token
        try:
            return await self._execute(call, token)
        finally:
            del self._running[call.id]
            token.close()

    def refuse(self, call: ToolCall, error: ToolError) -> Settled:
        """The result of a call that is not even tried: skipped, cut off, over a limit."""
        return self._settle(call, result_of_refusal(error), source=None)

    async def _execute(self, call: ToolCall, token: CancelToken) -> Settled:
        try:
            token.raise_if_cancelled()
            prepared = await self._after_hooks(self._prepare(call))
            permit = await self._permit(prepared, token)
        except _Refused as refused:
            return self._settle(call, refused.result, source=refused.source)
        except (ToolError, RunCancelled) as error:
            return self._settle(call, result_of_refusal(error), source=None)
        except Exception as error:
            return self._settle(call, result_of_error(error, executed=False), source=None)
        async with self._slots:
            return await self._in_turn(prepared, permit, token)

    def _prepare(self, call: ToolCall) -> _Prepared:
        """Raises ToolError: not_found or invalid_args."""
        tool = self._around.tools.get(call.name)
        return _Prepared(call, tool, parse_arguments(tool, call.arguments))

    async def _after_hooks(self, prepared: _Prepared) -> _Prepared:
        match await self._around.hooks.before_tool(prepared.call):
            case Deny(reason):
                raise _Refused(result_of_refusal(Denied(reason)), "hook")
            case Modify(arguments):
                args = parse_arguments(prepared.tool, json.dumps(arguments))
                return replace(prepared, args=args)
            case None:
                return prepared

    def _judge(self, prepared: _Prepared) -> Verdict:
        tool = prepared.tool
        key = tool.approval_key(prepared.args)
        return self._around.policy.check(tool.name, key, tool.permission, tool.effect)

    async def _permit(self, prepared: _Prepared, token: CancelToken) -> _Permit:
        """Raises _Refused, or ToolError where the preview shows that the call cannot work."""
        verdict = self._judge(prepared)
        match verdict.permission:
            case "deny":
                raise _Refused(result_of_refusal(Denied(verdict.reason)), verdict.source)
            case "auto":
                return _Permit(verdict.source)
            case "prompt":
                return await self._ask(prepared, verdict, token)

    async def _ask(self, prepared: _Prepared, verdict: Verdict, token: CancelToken) -> _Permit:
        preview = await self._preview(prepared, token)
        for _ in range(_PREVIEWS):
            decision = await self._approvals.ask(
                prepared.call.id, prepared.tool.name, prepared.arguments, preview, verdict.reason, token
            )
            if decision.answer == "deny":
                raise _Refused(result_of_refusal(Denied(_in_words(decision))), decision.source)
            shown, preview = preview, await self._preview(prepared, token)
            if preview.base == shown.base:
                return _Permit(decision.source, preview.base)
        raise Failed("what this call would change keeps changing; nothing was applied. Read it again first.")

    async def _preview(self, prepared: _Prepared, token: CancelToken) -> Preview:
        return await token.guard(prepared.tool.preview(prepared.args, self._context(prepared, token, None)))

    def _context(self, prepared: _Prepared, token: CancelToken, base: str | None) -> ToolContext:
        around = self._around
        return ToolContext(prepared.call.id, prepared.tool.name, around.workspace, around.sandbox, token, base=base)

    async def _in_turn(self, prepared: _Prepared, permit: _Permit, token: CancelToken) -> Settled:
        """What may change something waits while the person's own command runs."""
        if prepared.tool.effect == "nothing":
            return await self._run(prepared, permit, token)
        try:
            await token.guard(self._floor.enter(alone=False))
        except RunCancelled as error:
            return self._settle(prepared.call, result_of_refusal(error), source=permit.source)
        try:
            return await self._run(prepared, permit, token)
        finally:
            self._floor.leave(alone=False)

    async def _run(self, prepared: _Prepared, permit: _Permit, token: CancelToken) -> Settled:
        call, tool = prepared.call, prepared.tool
        try:
            token.raise_if_cancelled()
            if tool.effect != "nothing":
                await self._emitter.sync()
        except Exception as error:
            return self._settle(call, result_of_error(error, executed=False), source=permit.source)
        started_at, started = time.time(), time.monotonic()
        self._emitter.emit(
            ToolStarted(
                **self._emitter.head(),
                call_id=call.id,
                name=tool.name,
                target=tool.target(prepared.args),
                arguments=prepared.arguments,
            )
        )
        watch = _Watch(call, self._emitter, self._around.hooks)
        result = await self._limited(prepared, permit, token, watch)
        watch.settled = True
        duration_ms = round((time.monotonic() - started) * 1000)
        self._emitter.emit(
            ToolFinished(
                **self._emitter.head(),
                call_id=call.id,
                name=tool.name,
                is_error=result.is_error,
                duration_ms=duration_ms,
            )
        )
        settled = self._settle(
            call,
            cap_output(result, tool.output_limit, self._around.outputs, call.id),
            source=permit.source,
            started_at=started_at,
            duration_ms=duration_ms,
        )
        await self._around.hooks.after_tool(call, settled.result)
        return settled

    async def _limited(self, prepared: _Prepared, permit: _Permit, token: CancelToken, watch: "_Watch") -> Result:
        """The tool's own work, under the call's token and time limit."""
        tool = prepared.tool
        limits = [s for s in (self._around.limits.timeout_per_call, tool.timeout) if s is not None]
        alarm = None
        if limits and not tool.waits_for_person:
            alarm = asyncio.get_running_loop().call_later(min(limits), token.cancel, f"timeout after {min(limits):g} s")
        context = replace(
            self._context(prepared, token, permit.base), on_update=watch.update, on_progress=watch.progress
        )
        try:
            return await token.guard(tool.run(prepared.args, context))
        except Exception as error:
            return result_of_error(error, executed=True, cancelled_because=token.reason)
        finally:
            if alarm is not None:
                alarm.cancel()

    def _settle(
        self,
        call: ToolCall,
        result: Result,
        *,
        source: ApprovalSource | None,
        started_at: float | None = None,
        duration_ms: int = 0,
    ) -> Settled:
        sandboxed = started_at is not None and self._around.tools.get(call.name).sandboxed
        self._emitter.emit(
            ToolResultAdded(
                **self._emitter.head(),
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
                approval=source,
                sandbox=self._around.sandbox_kind if sandboxed else None,
                child_session=result.child_session,
            )
        )
        message = ToolMessage(call_id=call.id, name=call.name, content=result.content, is_error=result.is_error)
        return Settled(message, result)


def _in_words(denial: Decision) -> str:
    """What the model is told, such that it knows whose word it is."""
    if denial.source != "user":
        return denial.reason or SAID_NO
    return f"{SAID_NO}: {denial.reason}" if denial.reason else SAID_NO


class _Watch:
    """The two callbacks of one call; deaf once it is settled."""

    def __init__(self, call: ToolCall, emitter: Emitter, hooks: Hooks) -> None:
        self._call = call
        self._emitter = emitter
        self._hooks = hooks
        self.settled = False

    async def update(self, text: str, stream: OutputStream = "output") -> None:
        if self.settled or not await self._hooks.before_update(self._call, text):
            return
        self._emitter.emit(
            ToolUpdated(**self._emitter.head(), call_id=self._call.id, name=self._call.name, text=text, stream=stream)
        )
        await self._hooks.after_update(self._call, text)

    async def progress(self, text: str) -> None:
        if not self.settled:
            self._emitter.emit(
                ToolProgress(**self._emitter.head(), call_id=self._call.id, name=self._call.name, text=text)
            )
