"""Events about a call before it runs, when it is planned, asked about and answered; and about hosts
it asks for."""

from typing import ClassVar, Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.display import DisplayBlock
from codeagent.core.json_types import BaseEvent, JsonForm
from codeagent.core.policy import Answer, ApprovalSource, Permission

ASK_USER = "ask_user"
"""The tool with which the model asks the user."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedCall:
    call_id: str
    name: str
    target: str
    permission: Permission
    """What the policy says, before any hook."""
    reason: str = ""
    """Why, as a phrase."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalRequested(BaseEvent):
    json_form: ClassVar[JsonForm] = JsonForm(omitted=("whose", "about", "follows"))

    type: Literal["approval.requested"] = "approval.requested"
    approval_id: str
    call_id: str
    name: str
    target: str
    reason: str
    blocks: tuple[DisplayBlock, ...]
    binding: str
    """SHA-256 over tool, arguments, root and the preview's base, to which the answer is bound."""
    arguments: str = ""
    """JSON that `edit` begins with; empty if the arguments cannot be edited."""
    proposal: str = ""
    """A rule that would allow this call and similar ones, for the user to edit; empty if none can
    be proposed."""
    by_hunk: bool = False
    """Whether its DiffBlock may be answered hunk by hunk."""
    whose: str = ""
    """Whose tool it is, as a phrase; empty if it is built in."""
    about: str = ""
    """What a tool that is not built in says about itself: its description, as the model reads
    it."""
    follows: bool = False
    """After a yes the question stays open while the call runs, and asks about hosts that no rule
    decides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalResolved(BaseEvent):
    type: Literal["approval.resolved"] = "approval.resolved"
    approval_id: str
    call_id: str
    answer: Answer | Literal["cancelled"]
    source: ApprovalSource
    reason: str = ""
    rule: str = ""
    """The rule that was made from the answer."""
    keep: bool = False
    """Whether the rule also holds in later sessions of this workspace."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EffectsFound(BaseEvent):
    """What a command changed that was tried out; nothing of it is in the workspace yet."""

    type: Literal["effects.found"] = "effects.found"
    call_id: str
    changed: tuple[str, ...]
    """`A path`, `M path` or `D path`; the last one may say how many more there are."""
    unasked: int = 0
    """How many files it changed besides that the ignore rules leave out."""
    left: tuple[str, ...] = ()
    """Paths that are never taken: protected ones, and those that somebody else changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostDecided(BaseEvent):
    """What became of a command's requests to a host that no card about hosts decided; once for each
    reason."""

    type: Literal["host.decided"] = "host.decided"
    call_id: str
    """Empty for an MCP server in the sandbox."""
    host: str
    """`example.org`, or `example.org:8443` for a port other than those of HTTP and HTTPS."""
    allowed: bool
    source: ApprovalSource
    reason: str
    rule: str = ""
    """The rule that decided."""
