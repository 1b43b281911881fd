"""A call before it runs, as it is planned, asked about and answered, and the hosts that it then asked for."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class HostDecided(BaseEvent):
    """What became of a command's requests to one host, unless an answer of the user's says so; once for each reason."""

    type: Literal["host.decided"] = "host.decided"
    call_id: str
    """Empty for an MCP server in the sandbox."""
    host: str
    """`example.org`, or `example.org:8443` for a port that is not that of HTTP or HTTPS."""
    allowed: bool
    source: ApprovalSource
    reason: str
    rule: str = ""
    """The rule that decided."""
