"""Gives an agent its task, and judges what it answers."""

from dataclasses import asdict
from typing import Any

from codeagent.agent.calls import with_notes
from codeagent.core.agents import Check
from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.events import LimitReached, RunFinished
from codeagent.core.messages import ErrorInfo, ErrorKind, Usage
from codeagent.core.runtime import AgentHandle
from codeagent.core.tool import Failed, ToolResult

_DENIED = "a call of this agent was denied, so its answer may be incomplete"
_REPAIR = "Your answer is not in the format that was asked for: {fault}\nGive the whole answer again, in that format."


@dataclass(frozen=True)
class Ended:
    """How one run of a child ended."""

    finished: RunFinished
    limit: LimitReached | None
    """The error that ended it."""


async def answer_of(
    child: AgentHandle, name: str, task: str, check: Check, token: CancelToken
) -> ToolResult:
    """Give the child its task, and once more if its answer fails the check; return its result."""
    ended = [await run_child(child, task, token)]
    fault = _fault(ended[-1], check)
    if fault:
        ended.append(await run_child(child, _REPAIR.format(fault=fault), token))
        fault = _fault(ended[-1], check)
    runs, last = [one.finished for one in ended], ended[-1]
    denied = any(run.reason == "denied" for run in runs)
    details: dict[str, Any] = {
        "agent": name,
        "turns": sum(run.turns for run in runs),
        "calls": sum(run.calls for run in runs),
        "usage": asdict(sum((run.usage for run in runs), Usage())),
    }
    if denied:
        details["denied"] = True
    text = last.finished.text.strip()
    kind, why = _why_not(last, fault)
    if kind is None:
        result = ToolResult.from_text(text, details=details, child_session=child.session_id)
        return with_notes(result, (_DENIED,) if denied else ())
    message = f"The agent {name} {why}"
    content = f"{message}\nThe last thing it said:\n{text}" if text else message
    error = ErrorInfo(kind=kind, message=message)
    return ToolResult.from_text(
        content, details=details, child_session=child.session_id, error=error
    )


async def run_child(child: AgentHandle, prompt: str | None, token: CancelToken) -> Ended:
    """One run of the child to its end. Raises RunCancelled if it was stopped before it began."""
    token.raise_if_cancelled()
    finished: RunFinished | None = None
    limit: LimitReached | None = None
    # Read to the end: a reader that stops early stops the run, or the next one.
    async for event in child.run(prompt):
        match event:
            case LimitReached():
                limit = event
            case RunFinished():
                finished = event
            case _:
                pass
    if finished is None:
        raise Failed("the run of the agent did not begin")
    return Ended(finished, limit)


def _fault(ended: Ended, check: Check) -> str:
    return check(ended.finished.text) if ended.finished.reason in ("done", "denied") else ""


def _why_not(ended: Ended, fault: str) -> tuple[ErrorKind | None, str]:
    """Return the kind of error, and a phrase to follow the agent's name; None if the child did its
    task."""
    match ended.finished.reason, ended.limit:
        case (("done" | "denied"), _) if fault:
            return (
                "failed",
                f"did not give the format that was asked for, even after it was told: {fault}",
            )
        case "denied", _ if not ended.finished.text.strip():
            return "denied", "ended, because what it needed for its task was denied"
        case "done", _ if not ended.finished.text.strip():
            return "failed", "ended without an answer"
        case (("done" | "denied"), _):
            return None, ""
        case "limit", LimitReached(limit="max_seconds", maximum=seconds):
            return "timeout", f"was not done within {seconds:g} s"
        case "limit", LimitReached(limit=limit, maximum=most):
            return "failed", f"reached its limit {limit} = {most:g} before it was done"
        case "interrupted", _:
            return "cancelled", "was stopped before it was done"
        case _:
            return "failed", f"failed: {ended.finished.error or 'it did not say why'}"
