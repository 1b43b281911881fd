"""Questions that wait for a person: asked as events, answered by id."""

import asyncio
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from codeagent.agent.emitter import Emitter
from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import RunCancelled
from codeagent.core.policy import Decision
from codeagent.core.tool import Preview


@dataclass(frozen=True)
class Question:
    """What a person is asked about one call."""

    call_id: str
    name: str
    """The tool."""
    preview: Preview
    reason: str
    """Why it is asked."""
    binding: str
    """What the answer is bound to."""
    arguments: str = ""
    """JSON; empty where they cannot be edited."""
    proposal: str = ""
    """A rule that would allow it and its like; empty where there is none."""


class Approvals:
    """The desk where calls wait, and the exact calls that need not ask again in this session."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._waiting: dict[str, asyncio.Future[Decision]] = {}
        self._granted: set[str] = set()
        self._asked = 0

    def granted(self, tool: str, arguments: dict[str, Any]) -> bool:
        """The person allowed exactly this call for the session."""
        return fingerprint(tool, arguments) in self._granted

    def grant(self, tool: str, arguments: dict[str, Any]) -> None:
        self._granted.add(fingerprint(tool, arguments))

    async def put(self, question: Question, token: CancelToken) -> Decision:
        """Ask and wait, whatever was answered before. Raises RunCancelled when the token fires first."""
        self._asked += 1
        call_id, approval_id = question.call_id, f"{question.call_id}.{self._asked}"
        answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._waiting[approval_id] = answer
        self._emitter.emit(
            ApprovalRequested(
                approval_id=approval_id,
                call_id=call_id,
                name=question.name,
                target=question.preview.target,
                reason=question.reason,
                blocks=question.preview.blocks,
                binding=question.binding,
                arguments=question.arguments,
                proposal=question.proposal,
                by_hunk=question.preview.by_hunk,
            )
        )
        try:
            decision = await token.guard(_answer(answer))
        except RunCancelled:
            self._resolved(approval_id, call_id, "cancelled", Decision("deny", token.reason or "cancelled"))
            raise
        finally:
            del self._waiting[approval_id]
        self._resolved(approval_id, call_id, decision.answer, decision)
        return decision

    def respond(self, approval_id: str, decision: Decision) -> bool:
        answer = self._waiting.get(approval_id)
        if answer is None or answer.done():
            return False
        answer.set_result(decision)
        return True

    def _resolved(self, approval_id: str, call_id: str, answer: Any, decision: Decision) -> None:
        self._emitter.emit(
            ApprovalResolved(
                approval_id=approval_id,
                call_id=call_id,
                answer=answer,
                source=decision.source,
                reason=decision.reason,
                rule=decision.rule,
                keep=decision.keep,
            )
        )


def fingerprint(tool: str, arguments: dict[str, Any], *more: str) -> str:
    """SHA-256 (hex) over the tool, its arguments in canonical form, and anything else bound to it."""
    canonical = json.dumps([tool, arguments, *more], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


async def _answer(future: "asyncio.Future[Decision]") -> Decision:
    return await future
