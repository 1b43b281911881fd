"""Asks the person about one call until they allow it, refuse it, or have made another of it."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

from codeagent.agent.approvals import Approvals, Question, fingerprint
from codeagent.agent.hooks.hook import Deny, Hooks, Modify
from codeagent.agent.outcome import result_of_refusal
from codeagent.agent.permissions import Permissions
from codeagent.agent.prepared import Permit, Prepared, Refused
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import ConfigError
from codeagent.core.policy import SAID_NO, Decision, Verdict
from codeagent.core.tool import Denied, Failed, Preview, ToolError
from codeagent.tools.arguments import parse_arguments

_PREVIEWS = 3
"""How often a call is shown again because what it would change keeps changing."""

Show = Callable[[Prepared, str | None], Awaitable[Preview]]
"""The call's preview as things are now, after one with that base was shown. Raises ToolError where it shows that the
call cannot work."""


class Consent:
    def __init__(self, approvals: Approvals, permissions: Permissions, hooks: Hooks) -> None:
        self._approvals = approvals
        self._permissions = permissions
        self._hooks = hooks

    async def ask(
        self, prepared: Prepared, verdict: Verdict, show: Show, token: CancelToken, *, anew: bool
    ) -> tuple[Prepared, Permit]:
        """The call as it shall run. What runs is what was shown last: an edited call is asked about again.

        `anew`: ask also where exactly this call was allowed for the session. Raises Refused, ToolError where the
        preview shows that the call cannot work, RunCancelled.
        """
        if not anew and self._approvals.granted(prepared.tool.name, prepared.arguments):
            return prepared, Permit("user", (await show(prepared, None)).base)
        reason, changed = verdict.reason, 0
        preview = await show(prepared, None)
        while changed < _PREVIEWS:
            decision = await self._approvals.put(_question(prepared, preview, reason), token)
            match decision.answer:
                case "deny":
                    raise Refused(result_of_refusal(Denied(_in_words(decision))), decision.source)
                case "edit":
                    prepared, reason = await self._edited(prepared, decision.arguments, token)
                    preview = await show(prepared, None)
                    continue
                case "rule" if problem := await self._learn(prepared, decision):
                    reason = problem
                    continue
                case _ if decision.hunks is not None and not preview.by_hunk:
                    reason = "this cannot be answered hunk by hunk: take it as a whole, or not"
                    continue
                case _:
                    pass
            shown, preview = preview, await show(prepared, preview.base)
            if preview.base == shown.base:
                return prepared, self._permit(prepared, preview, decision)
            changed += 1
        raise Failed("what this call would change keeps changing; nothing was applied. Read it again first.")

    def _permit(self, prepared: Prepared, preview: Preview, decision: Decision) -> Permit:
        if decision.answer == "session":
            self._approvals.grant(prepared.tool.name, prepared.arguments)
        return Permit(decision.source, preview.base, decision.hunks, decision.rule or None)

    async def _edited(self, prepared: Prepared, arguments: str, token: CancelToken) -> tuple[Prepared, str]:
        """The call with other arguments, or as it was, and why it is asked about again. Raises RunCancelled."""
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

    async def _learn(self, prepared: Prepared, decision: Decision) -> str | None:
        """Take the rule over; a phrase where it cannot be: nothing is allowed then."""
        try:
            rule = self._permissions.parse(decision.rule, keep=decision.keep)
            if not self._permissions.would_allow(rule, prepared.tool, prepared.args):
                return f"{rule} does not allow all of this call; answer it once, or write another rule"
            await self._permissions.add(rule)
        except ConfigError as error:
            return str(error)
        return None


def _question(prepared: Prepared, preview: Preview, reason: str) -> Question:
    return Question(
        call_id=prepared.call.id,
        name=prepared.tool.name,
        preview=preview,
        reason=reason,
        binding=fingerprint(prepared.tool.name, prepared.arguments, preview.base or ""),
        arguments=prepared.json,
        proposal=prepared.tool.proposal(prepared.args),
    )


def _in_words(denial: Decision) -> str:
    """What the model is told, such that it knows whose word it is."""
    if denial.source != "user":
        return denial.reason or SAID_NO
    return f"{SAID_NO}: {denial.reason}" if denial.reason else SAID_NO
