"""What the user wants at a boundary, as the card says it."""

from dataclasses import dataclass

from codeagent.core.policy import Mode
from codeagent.tui.parts.call_edit import CallEdit


@dataclass(frozen=True)
class GoOn:
    """End the pause; `step` turns step mode on or off first, None leaves it as it is."""

    step: bool | None = None


@dataclass(frozen=True)
class SkipCall:
    call_id: str
    reason: str = ""


@dataclass(frozen=True)
class EditCall:
    """Let the user write its arguments in their editor."""

    call_id: str
    edit: CallEdit
    written: str
    """What the editor begins with: as it is, or as it was refused."""


@dataclass(frozen=True)
class AmendCall:
    call_id: str
    arguments: str
    """JSON."""
    written: str
    """What the user wrote, given back where it does not fit."""


@dataclass(frozen=True)
class StartPlan:
    text: str
    """Markdown, as it is or as the user changed it."""
    mode: Mode


@dataclass(frozen=True)
class EditPlan:
    """Let the user write the plan in their editor."""

    text: str


BoundaryAct = GoOn | SkipCall | EditCall | AmendCall | StartPlan | EditPlan
