"""Approvals: the requests that wait for the user, the approval flow of one call, and the model's own questions."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from codeagent.agent.calls import CallRefused, Permit, PreparedCall
from codeagent.agent.emitter import Emitter
from codeagent.agent.hooks.hook import Deny, Hooks, Modify
from codeagent.agent.permissions import Permissions
from codeagent.agent.results import result_of_refusal
from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved
from codeagent.core.cancel import CancelToken
from codeagent.core.display import QuestionBlock
from codeagent.core.errors import ConfigError, RunCancelled
from codeagent.core.policy import SAID_NO, Decision, Verdict
from codeagent.core.ports import Reply
from codeagent.core.tool import Denied, Failed, Preview, ToolError
from codeagent.tools.arguments import parse_arguments

ASK_USER = "ask_user"
"""The tool with which the model asks the user."""
_MOST_PREVIEWS = 3
"""How often a call is shown again because what it would change keeps changing."""
Show = Callable[[PreparedCall, str | None], Awaitable[Preview]]
"""Makes the preview of a call as things are now; the text is the base of the preview that was shown before.

Raises ToolError where the preview shows that the call cannot work."""


@dataclass(frozen=True)
class ApprovalRequest:
    """What the user is asked about one call."""

    call_id: str
    name: str
    """The tool."""
    preview: Preview
    reason: str
    """Why it is asked."""
    binding: str
    """The fingerprint of what the answer is for."""
    arguments: str = ""
    """JSON for the user to edit; empty where there is nothing to edit."""
    proposal: str = ""
    """A rule that would allow this call and similar ones; empty where there is none."""


class Approvals:
    """The requests that wait for an answer, and the exact calls that were allowed for the whole session."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._waiting: dict[str, asyncio.Future[Decision]] = {}
        self._granted: set[str] = set()
        self._asked = 0

    def granted(self, tool: str, arguments: dict[str, Any]) -> bool:
        """Whether the user allowed exactly this call for the session."""
        return fingerprint(tool, arguments) in self._granted

    def grant(self, tool: str, arguments: dict[str, Any]) -> None:
        self._granted.add(fingerprint(tool, arguments))

    async def ask(self, request: ApprovalRequest, token: CancelToken) -> Decision:
        """Ask the user and wait for the answer. Raises RunCancelled where the token is cancelled first."""
        self._asked += 1
        call_id, approval_id = request.call_id, f"{request.call_id}.{self._asked}"
        answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._waiting[approval_id] = answer
        self._emitter.emit(
            ApprovalRequested(
                approval_id=approval_id,
                call_id=call_id,
                name=request.name,
                target=request.preview.target,
                reason=request.reason,
                blocks=request.preview.blocks,
                binding=request.binding,
                arguments=request.arguments,
                proposal=request.proposal,
                by_hunk=request.preview.by_hunk,
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
        """Answer a request; False if it is no longer waiting for an answer."""
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


class ApprovalFlow:
    """Asks the user about one call until they allow it, refuse it, or edit it."""

    def __init__(self, approvals: Approvals, permissions: Permissions, hooks: Hooks) -> None:
        self._approvals = approvals
        self._permissions = permissions
        self._hooks = hooks

    async def ask(
        self, prepared: PreparedCall, verdict: Verdict, show: Show, token: CancelToken, *, again: bool
    ) -> tuple[PreparedCall, Permit]:
        """The call to run, and its permit. What runs is what was shown last: an edited call is asked about again.

        `again`: ask even where exactly this call was allowed for the session. Raises CallRefused, RunCancelled, and
        ToolError where the preview shows that the call cannot work.
        """
        if not again and self._approvals.granted(prepared.tool.name, prepared.arguments):
            return prepared, Permit("user", (await show(prepared, None)).base)
        reason, changed = verdict.reason, 0
        preview = await show(prepared, None)
        while changed < _MOST_PREVIEWS:
            decision = await self._approvals.ask(_request(prepared, preview, reason), token)
            match decision.answer:
                case "deny":
                    raise CallRefused(result_of_refusal(Denied(_in_words(decision))), decision.source)
                case "edit":
                    prepared, reason = await self._edited(prepared, decision.arguments, token)
                    preview = await show(prepared, None)
                    continue
                case "rule" if problem := await self._learn(prepared, decision):
                    reason = problem
                    continue
                case _ if decision.hunks is not None and not preview.by_hunk:
                    reason = "this cannot be answered hunk by hunk: allow or deny the whole of it"
                    continue
                case _:
                    pass
            shown, preview = preview, await show(prepared, preview.base)
            if preview.base == shown.base:
                return prepared, self._permit(prepared, preview, decision)
            changed += 1
        raise Failed("what this call would change keeps changing; nothing was applied. Read it again first.")

    def _permit(self, prepared: PreparedCall, preview: Preview, decision: Decision) -> Permit:
        if decision.answer == "session":
            self._approvals.grant(prepared.tool.name, prepared.arguments)
        return Permit(decision.source, preview.base, decision.hunks, decision.rule or None)

    async def _edited(self, prepared: PreparedCall, arguments: str, token: CancelToken) -> tuple[PreparedCall, str]:
        """The call with the user's arguments, or unchanged where they do not fit; and why the user is asked again.

        Raises RunCancelled.
        """
        try:
            args = parse_arguments(prepared.tool, arguments)
            edited = replace(prepared.call, arguments=arguments)
            match await token.guard(self._hooks.before_tool(edited)):
                case Deny(reason):
                    return prepared, f"your edit is not allowed ({reason}), so this is the call as it was"
                case Modify(changed):
                    args = parse_arguments(prepared.tool, json.dumps(changed))
                case None:
                    pass
        except ToolError as error:
            return prepared, f"your edit does not fit, so this is the call as it was: {error}"
        verdict = self._permissions.judge(prepared.tool, args, confined=False)
        if verdict.permission == "deny":
            return prepared, f"your edit is not allowed ({verdict.reason}), so this is the call as it was"
        return replace(prepared, args=args, edited=True), "edited by you"

    async def _learn(self, prepared: PreparedCall, decision: Decision) -> str | None:
        """Add the rule; a phrase where it cannot be added: then nothing is allowed."""
        try:
            rule = self._permissions.parse(decision.rule, keep=decision.keep)
            if not self._permissions.would_allow(rule, prepared.tool, prepared.args):
                return f"{rule} does not allow all of this call; answer it once, or write another rule"
            await self._permissions.add(rule)
        except ConfigError as error:
            return str(error)
        return None


def _request(prepared: PreparedCall, preview: Preview, reason: str) -> ApprovalRequest:
    return ApprovalRequest(
        call_id=prepared.call.id,
        name=prepared.tool.name,
        preview=preview,
        reason=reason,
        binding=fingerprint(prepared.tool.name, prepared.arguments, preview.base or ""),
        arguments=prepared.json,
        proposal=prepared.tool.proposal(prepared.args),
    )


def _in_words(denial: Decision) -> str:
    """The denial for the model, which tells the user's word from others."""
    if denial.source != "user":
        return denial.reason or SAID_NO
    return f"{SAID_NO}: {denial.reason}" if denial.reason else SAID_NO


class UserQuestions:
    """Asks the user what the model wants to know (the Asker of `core.ports`); until it is connected nobody answers."""

    def __init__(self) -> None:
        self._approvals: Approvals | None = None

    def connect(self, approvals: Approvals) -> None:
        """Ask through these approvals from now on."""
        self._approvals = approvals

    async def ask(self, call_id: str, question: str, options: tuple[str, ...], token: CancelToken) -> Reply:
        """The user's reply: the `reason` of a decision that is not a denial; an empty one is not an answer."""
        if self._approvals is None:
            return Reply(None, "no user")
        preview = Preview(question, (QuestionBlock(question=question, options=options),))
        binding = fingerprint(ASK_USER, {"question": question, "options": options})
        decision = await self._approvals.ask(
            ApprovalRequest(call_id, ASK_USER, preview, "the agent asks you", binding), token
        )
        if decision.answer == "deny" or not decision.reason.strip():
            return Reply(None, decision.reason.strip())
        return Reply(decision.reason)
