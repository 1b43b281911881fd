"""What the user is asked: about a call before it runs, from its plan to their answer; about hosts;
and what the model wants to know."""

from dataclasses import field
from typing import ClassVar, Literal, Protocol

from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass, record
from codeagent.core.display import DisplayBlock, QuestionBlock
from codeagent.core.json_types import BaseEvent, JsonForm
from codeagent.core.policy import Answer, ApprovalSource, Permission

ASK_USER = "ask_user"
"""The tool with which the model asks the user."""


@record
class PlannedCall:
    call_id: str
    name: str
    target: str
    permission: Permission
    """What the policy says, before any hook."""
    reason: str = ""
    """Why, as a phrase."""


@record
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


@record
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


@record
class ListedEffect:
    """What a command did to one file, link or folder."""

    json_form: ClassVar[JsonForm] = JsonForm(omitted=("source", "note", "added", "removed"))

    path: str
    what: Literal["added", "modified", "deleted", "renamed"]
    source: str = ""
    """Where a renamed file was."""
    note: str = ""
    """What a diff of lines does not show, such as `mode 644 → 755`."""
    added: int | None = None
    """Lines added; None if it is not text, or too much to compare."""
    removed: int | None = None

    def __str__(self) -> str:
        """Return `M path`, `A path`, `D path` or `R old -> new`."""
        sign = "R" if self.what == "renamed" else self.what[0].upper()
        path = f"{self.source} -> {self.path}" if self.source else self.path
        return f"{sign} {path}" + (f" ({self.note})" if self.note else "")


@record
class EffectsFound(BaseEvent):
    """What a command changed that was tried out; nothing of it is in the workspace yet."""

    type: Literal["effects.found"] = "effects.found"
    call_id: str
    changes: tuple[ListedEffect, ...]
    ignored: dict[str, int] = field(default_factory=dict)
    """How many files it changed that the ignore rules leave out, by the file or folder that they
    name; they are taken with the rest."""
    truncated: bool = False
    """Whether it changed more than is listed."""
    left: tuple[str, ...] = ()
    """Paths that are never taken: protected ones, and those that somebody else changed."""
    permission: Permission
    """`auto`: taken. `deny`: thrown away. `prompt`: the user is asked."""
    source: ApprovalSource
    reason: str
    """Why, as a phrase."""
    rule: str = ""
    """The rule that decided."""

    def listed(self) -> list[str]:
        """Return a phrase for each thing that it changed."""
        more = ["and more"] if self.truncated else []
        ignored = [f"{path} ({many:,} ignored)" for path, many in self.ignored.items()]
        return [
            *map(str, self.changes),
            *ignored,
            *(f"{path} (left out)" for path in self.left),
            *more,
        ]

    def told(self) -> str:
        """Return in one line what it changed, and what becomes of that."""
        becomes = {
            "auto": f"taken, {self.reason}",
            "prompt": "asked about",
            "deny": f"thrown away, {self.reason}",
        }
        return f"it changed {', '.join(self.listed())}: {becomes[self.permission]}"


@record
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


@dataclass(frozen=True)
class Reply:
    """The user's reply to a question."""

    answer: str | None
    """None if they did not answer."""
    why: str = ""
    """Why not, if that is known."""


class Asker(Protocol):
    """Asks the user a question in the middle of a run."""

    async def ask(self, call_id: str, question: QuestionBlock, token: CancelToken) -> Reply:
        """Wait for the answer, which need not be one of the options, nor of the kinds of the form's
        fields.

        Raises RunCancelled.
        """
