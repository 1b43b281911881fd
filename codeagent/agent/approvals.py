"""Approvals: the requests that wait for the user, and how a call gets its permit."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any

from codeagent.agent.calls import CallRefused, Permit, PreparedCall, result_of_refusal
from codeagent.agent.emitter import Emitter
from codeagent.agent.hooks.hook import Deny, Hooks, Modify
from codeagent.agent.limits import BudgetMeter
from codeagent.agent.permissions import Permissions, fingerprint
from codeagent.agent.work_time import WorkTime
from codeagent.core.approval_events import ASK_USER, ApprovalRequested, ApprovalResolved, Reply
from codeagent.core.cancel import CancelToken
from codeagent.core.display import QuestionBlock, TextBlock
from codeagent.core.errors import RunCancelled
from codeagent.core.json_types import MAIN
from codeagent.core.policy import SAID_NO, Decision, Verdict
from codeagent.core.tool import Denied, Failed, Preview, ToolError
from codeagent.tools.arguments import parse_arguments

_MOST_PREVIEWS = 3
"""How often a call is shown again because what it would change keeps changing."""
Show = Callable[[PreparedCall, str | None], Awaitable[Preview]]
"""Makes the preview of a call from the present files; the text is the base of the preview shown
before.

Raises ToolError if the preview shows that the call cannot work."""


async def _answer(future: "asyncio.Future[Decision]") -> Decision:
    return await future


class Approvals:
    """Asks the user about calls, each until it is allowed, refused or edited, and about anything
    else.

    Holds the requests that wait for an answer, and the exact calls that were allowed for the whole
    session.
    """

    def __init__(
        self,
        emitter: Emitter,
        permissions: Permissions,
        hooks: Hooks,
        spending: BudgetMeter,
        granted: set[str] | None = None,
    ) -> None:
        """`granted`: the fingerprints of the calls that the user allowed for the session; None if
        there are none."""
        self.emitter = emitter
        self.permissions = permissions
        self._hooks = hooks
        self._spending = spending
        self._waiting: dict[str, asyncio.Future[Decision]] = {}
        self.granted = set() if granted is None else granted
        self.times: dict[str, WorkTime] = {}
        """The time of each call that is executed, by id; what is asked about the call stops it."""
        self._asked = 0
        self._prefix = "" if emitter.agent == MAIN else f"{emitter.agent}:"
        """Keeps the ids of requests unique in the queue that an agent and its children share."""

    async def ask(
        self,
        call_id: str,
        tool: str,
        preview: Preview,
        reason: str,
        token: CancelToken,
        *,
        binding: str,
        arguments: str = "",
        proposal: str = "",
        whose: str = "",
        about: str = "",
        follows: bool = False,
    ) -> Decision:
        """Ask the user about a call and wait for the answer. Raises RunCancelled if the token is
        cancelled first.

        `binding` is the fingerprint of what the answer is for, `arguments` is JSON for the user to
        edit, `proposal` a rule that would allow this call and similar ones; each of the two is
        empty if there is nothing to offer. `whose`, `about` and `follows`: see `ApprovalRequested`.
        """
        self._asked += 1
        approval_id = f"{self._prefix}{call_id}.{self._asked}"
        answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._waiting[approval_id] = answer
        self.emitter.emit(
            ApprovalRequested(
                approval_id=approval_id,
                call_id=call_id,
                name=tool,
                target=preview.target,
                reason=reason,
                blocks=preview.blocks,
                binding=binding,
                arguments=arguments,
                proposal=proposal,
                by_hunk=preview.by_hunk,
                whose=whose,
                about=about,
                follows=follows,
            )
        )
        try:
            time = self.times.get(call_id)
            with self._spending.waiting(), nullcontext() if time is None else time.waiting():
                decision = await token.guard(_answer(answer))
        except RunCancelled:
            self._resolved(
                approval_id, call_id, "cancelled", Decision("deny", token.reason or "cancelled")
            )
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
        self.emitter.emit(
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

    async def permit(
        self,
        prepared: PreparedCall,
        verdict: Verdict,
        show: Show,
        token: CancelToken,
        *,
        again: bool,
    ) -> tuple[PreparedCall, Permit]:
        """Return the call to run and its permit. What runs is what was shown last: an edited call
        is asked about again.

        `again`: ask even if exactly this call was allowed for the session. Raises CallRefused,
        RunCancelled, and ToolError if the preview shows that the call cannot work.
        """
        known = self.permissions.known
        call = self.permissions.bound(prepared, known)
        if not again and call in self.granted:
            named = self.permissions.hosts_asked_with(prepared.key)
            agreed = tuple(host for host in named if _with_host(call, host) in self.granted)
            return prepared, Permit("user", (await show(prepared, None)).base, hosts=agreed)
        tool, reason, changed = prepared.tool, verdict.reason, 0
        preview = await show(prepared, None)
        while changed < _MOST_PREVIEWS:
            known = self.permissions.known
            hosts = self.permissions.hosts_asked_with(prepared.key)
            decision = await self._ask_about(prepared, preview, hosts, reason, token)
            match decision.answer:
                case "deny":
                    raise CallRefused(
                        result_of_refusal(Denied(in_words(decision))), decision.source
                    )
                case "edit":
                    prepared, reason = await self._edited(prepared, decision.arguments, token)
                    preview = await show(prepared, None)
                    continue
                case "rule" if problem := await self.permissions.learn(
                    decision, tool.name, replace(prepared).key, tool.effect, known
                ):
                    reason = problem
                    continue
                case _ if decision.hunks is not None and not preview.by_hunk:
                    reason = "this cannot be answered hunk by hunk: allow or deny the whole of it"
                    continue
                case _:
                    pass
            shown, preview = preview, await show(prepared, preview.base)
            if preview.base == shown.base:
                if decision.answer == "session":
                    call = self.permissions.bound(prepared, known)
                    self.granted |= {call, *(_with_host(call, host) for host in hosts)}
                return prepared, Permit(
                    decision.source, preview.base, decision.hunks, decision.rule or None, hosts
                )
            changed += 1
        raise Failed(
            "what this call would change keeps changing; nothing was applied. Read it again first."
        )

    async def _ask_about(
        self,
        prepared: PreparedCall,
        preview: Preview,
        hosts: tuple[str, ...],
        reason: str,
        token: CancelToken,
    ) -> Decision:
        """Ask about a call as it is shown, and the hosts that it is known to reach. Raises
        RunCancelled."""
        tool = prepared.tool
        texts = (tool.description, tool.documentation) if tool.whose else ()
        return await self.ask(
            prepared.call.id,
            tool.name,
            self._with_hosts(hosts, prepared, preview),
            reason,
            token,
            binding=fingerprint(tool.name, prepared.arguments, preview.base or "", *hosts),
            arguments=prepared.json,
            proposal=tool.proposal(prepared.args),
            whose=tool.whose,
            about="\n\n".join(filter(None, texts)),
            follows=not hosts and self.permissions.asks_about_hosts(prepared.key),
        )

    def _with_hosts(
        self, hosts: tuple[str, ...], prepared: PreparedCall, preview: Preview
    ) -> Preview:
        """Return the preview of a call that says which hosts are allowed with it, and that others
        are asked about."""
        if not hosts and not self.permissions.asks_about_hosts(prepared.key):
            return preview
        text = "While it runs, this question shows each host that no rule decides, and waits for your answer."
        if hosts:
            text = f"It may reach {', '.join(hosts)}. You are asked about every other host that no rule decides."
        return replace(preview, blocks=(*preview.blocks, TextBlock(text=text)))

    async def _edited(
        self, prepared: PreparedCall, arguments: str, token: CancelToken
    ) -> tuple[PreparedCall, str]:
        """Return the call with the user's arguments, or unchanged if they do not fit; and why the
        user is asked again.

        Raises RunCancelled.
        """
        try:
            args = parse_arguments(prepared.tool, arguments)
            edited = replace(prepared.call, arguments=arguments)
            match await token.guard(self._hooks.before_tool(edited)):
                case Deny(reason):
                    return (
                        prepared,
                        f"your edit is not allowed ({reason}), so this is the call as it was",
                    )
                case Modify(changed):
                    args = parse_arguments(prepared.tool, json.dumps(changed))
                case None:
                    pass
        except ToolError as error:
            return prepared, f"your edit does not fit, so this is the call as it was: {error}"
        asked = replace(prepared, args=args, edited=True)
        verdict = self.permissions.judge(asked, edited=True)
        if verdict.permission == "deny":
            return (
                prepared,
                f"your edit is not allowed ({verdict.reason}), so this is the call as it was",
            )
        return asked, "edited by you"


def _with_host(call: str, host: str) -> str:
    """Fingerprint a host that was allowed with a call; `call` is the fingerprint of that."""
    return fingerprint(host, {}, call)


def in_words(denial: Decision) -> str:
    """Word the denial for the model, which has to know whether it was the user's."""
    if denial.source != "user":
        return denial.reason or SAID_NO
    return f"{SAID_NO}: {denial.reason}" if denial.reason else SAID_NO


class UserQuestions:
    """Passes the model's questions to the user (the Asker of `core.ports`); until it is connected
    nobody answers."""

    def __init__(self) -> None:
        self.approvals: Approvals | None = None

    def connect(self, approvals: Approvals) -> None:
        """Ask through these approvals from now on."""
        self.approvals = approvals

    async def ask(self, call_id: str, question: QuestionBlock, token: CancelToken) -> Reply:
        """Return the user's reply: the `reason` of a decision other than a denial; an empty one is
        not an answer."""
        if self.approvals is None:
            return Reply(None, "no user")
        preview = Preview(question.question, (question,))
        form = {"fields": tuple(map(asdict, question.fields))} if question.fields else {}
        binding = fingerprint(
            ASK_USER, {"question": question.question, "options": question.options, **form}
        )
        decision = await self.approvals.ask(
            call_id, ASK_USER, preview, "the agent asks you", token, binding=binding
        )
        if decision.answer == "deny" or not decision.reason.strip():
            return Reply(None, decision.reason.strip())
        return Reply(decision.reason)
