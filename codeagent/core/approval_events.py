"""A call before it runs, as it is planned, asked about and answered; the screen keeps all three as they are."""

from typing import Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.display import DisplayBlock
from codeagent.core.json_types import BaseEvent
from codeagent.core.policy import Answer, ApprovalSource, Permission


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedCall:
    call_id: str
    name: str
    target: str
    permission: Permission
    """What the policy will say, before hooks."""
    reason: str = ""
    """Why, as a phrase."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalRequested(BaseEvent):
    type: Literal["approval.requested"] = "approval.requested"
    approval_id: str
    call_id: str
    name: str
    target: str
    reason: str
    blocks: tuple[DisplayBlock, ...]
    binding: str
    """SHA-256 over tool, arguments, root and the preview's base: what the answer is bound to."""
    arguments: str = ""
    """JSON: what `edit` begins with; empty if they cannot be edited."""
    proposal: str = ""
    """A rule that would allow this and its like, for the user to edit; empty if none can be proposed."""
    by_hunk: bool = False
    """Its DiffBlock may be answered hunk by hunk."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalResolved(BaseEvent):
    type: Literal["approval.resolved"] = "approval.resolved"
    approval_id: str
    call_id: str
    answer: Answer | Literal["cancelled"]
    source: ApprovalSource
    reason: str = ""
    rule: str = ""
    """The rule that was made of the answer."""
    keep: bool = False
    """It holds in later sessions of this workspace, too."""
