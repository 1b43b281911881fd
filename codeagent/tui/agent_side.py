"""What a person does that is handed on to the agent as it is, once there is one."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from codeagent.core.decisions import decisions
from codeagent.core.errors import CheckpointError, CodeagentError, ConfigError
from codeagent.core.jobs import JobBook
from codeagent.core.ledger import LedgerRow
from codeagent.core.policy import Decision, Rule
from codeagent.core.ports import SandboxInfo
from codeagent.core.rewind import Rewind
from codeagent.core.runtime import AgentHandle, Runtime
from codeagent.core.toolbox import Toolbox
from codeagent.tui.launcher import Launcher

_NO_JOB = "{} is no job of this session; /jobs lists them"


class AgentSide:
    """The part of the Talk of `tui.ports` that shows nothing itself; what happens comes back as events."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._runtime: Runtime | None = None

    def answer(self, approval_id: str, decision: Decision) -> bool:
        return self._runtime is not None and self._runtime.agent.respond(approval_id, decision)

    def skip_call(self, call_id: str, reason: str = "") -> bool:
        return self._agent().skip(call_id, reason)

    def amend_call(self, call_id: str, arguments: str) -> str:
        try:
            found = self._agent().amend(call_id, arguments)
        except ConfigError as error:
            return str(error)
        return "" if found else "this call is no longer pending"

    def rewrite(self, queued_id: str, text: str) -> bool:
        return self._agent().rewrite(queued_id, text)

    def move(self, queued_id: str, position: int) -> bool:
        return self._agent().move(queued_id, position)

    def rules(self) -> tuple[Rule, ...]:
        return self._agent().rules

    async def allow(self, rule: str, *, keep: bool) -> None:
        await self._agent().allow(rule, keep=keep)

    async def revoke(self, rule: Rule) -> None:
        await self._agent().revoke(rule)

    async def decisions(self) -> tuple[LedgerRow, ...]:
        return decisions(await asyncio.to_thread(self._launcher.recorded, self._agent().session_id))

    def promote(self, call_id: str | None = None) -> bool:
        return self._agent().promote(call_id)

    def job_lines(self) -> Mapping[str, int]:
        jobs = () if self._runtime is None else self._runtime.agent.jobs.jobs()
        return {job.id: job.lines for job in jobs if job.status == "running"}

    async def job_output(self, job_id: str) -> str | None:
        try:
            return await asyncio.to_thread(_all_of, self._agent().jobs, job_id)
        except KeyError:
            return None

    async def stop_job(self, job_id: str) -> None:
        try:
            await self._agent().jobs.stop(job_id, "stopped by the user")
        except KeyError:
            raise CodeagentError(_NO_JOB.format(job_id)) from None

    def send_to_job(self, job_id: str, text: str) -> bool:
        try:
            return self._agent().jobs.send(job_id, text)
        except KeyError:
            raise CodeagentError(_NO_JOB.format(job_id)) from None

    def toolbox(self) -> Toolbox | None:
        keeper = self._agent().toolbox
        if keeper is None:
            return None
        info, now = self._info, keeper.now
        if info is None or info.kind != "host":
            return now
        # Without a sandbox, what would run in it runs on this machine.
        return replace(now, tools=tuple(replace(tool, sandboxed=False) for tool in now.tools))

    async def trust_tools(self, trusted: bool) -> None:
        keeper = self._agent().toolbox
        if keeper is None:
            raise CodeagentError("no tools are read from files here; nothing was changed")
        await (keeper.trust() if trusted else keeper.distrust())

    @property
    def rewind(self) -> Rewind:
        if self._runtime is None or self._runtime.rewind is None:
            missing = "codeagent is still starting" if self._runtime is None else "no checkpoints are kept here"
            raise CheckpointError(f"{missing}; nothing was changed")
        return self._runtime.rewind

    @property
    def _info(self) -> SandboxInfo | None:
        return None if self._runtime is None else self._runtime.sandbox_info

    def _agent(self) -> AgentHandle:
        if self._runtime is None:
            raise CodeagentError("codeagent is still starting; nothing was changed")
        return self._runtime.agent


def _all_of(book: JobBook, job_id: str) -> str:
    """Blocks on a file. Raises KeyError."""
    total = book.read(job_id, 1, 1).total
    return "\n".join(book.read(job_id, 1, max(total, 1)).lines)
