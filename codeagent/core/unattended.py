"""Runs without a user: the answers to what is asked then, and how such a run ended."""

from dataclasses import replace

from codeagent.core.acts import Answer
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.display import QuestionBlock
from codeagent.core.events import KnownEvent, RunFinished, RunReason
from codeagent.core.messages import Usage
from codeagent.core.notices import RecipeStopped, RunNotBegun, TypedNotice
from codeagent.core.policy import HOSTS, Decision

NOBODY = "there is nobody to ask (headless); allow it with --allow or --yes"
NOBODY_FOR_HOSTS = "nobody to ask; --allow 'network(HOST)' allows it"
NO_USER = "no user"
"""The answer to the agent's own questions; a yes would be no answer to them."""


def answer_of_nobody(event: ApprovalRequested, *, approve: bool) -> Answer:
    """Return the answer to a request: a yes only if everything is to be approved."""
    if any(isinstance(block, QuestionBlock) for block in event.blocks):
        return Answer(event.approval_id, Decision("deny", NO_USER, source="auto"))
    if approve:
        return Answer(event.approval_id, Decision("once", source="flag"))
    why = NOBODY_FOR_HOSTS if event.name == HOSTS else NOBODY
    return Answer(event.approval_id, Decision("deny", why, source="auto"))


def end_of(event: KnownEvent) -> RunFinished | None:
    """Return the run's end if the event is one, or says that the run could not begin."""
    match event:
        case RunFinished():
            return event
        case RunNotBegun():
            return _without_run(event, "denied")
        case RecipeStopped() if event.error is not None:
            return _without_run(event, "failed")
        case _:
            return None


def _without_run(event: TypedNotice, reason: RunReason) -> RunFinished:
    end = RunFinished(
        reason=reason, text="", usage=Usage(), turns=0, calls=0, error=event.text, duration_ms=0
    )
    return replace(end, seq=event.seq, ts=event.ts, session=event.session, agent=event.agent)
