"""What the card of the boundary shows, which call is marked, and what the user wants: no drawing."""

from dataclasses import dataclass, replace
from typing import Literal

from codeagent.core.acts import SkipCall
from codeagent.core.policy import Mode
from codeagent.tui.keymap import Keymap
from codeagent.tui.parts.boundary_body import (
    paused_choices,
    paused_key,
    paused_pieces,
    plan_choices,
    plan_key,
    plan_pieces,
    title_of,
    writing_choices,
)
from codeagent.tui.parts.call_edit import CallEdit, call_edit
from codeagent.tui.parts.card_keys import CardChoice
from codeagent.tui.parts.line_pane import Piece
from codeagent.tui.state import Paused, PausedCall, PlanReady

Writing = Literal["", "reason", "command"]
SKIPPED = "it is skipped already"
NO_EDIT = "its arguments are not JSON: it cannot be edited"


@dataclass(frozen=True)
class Continue:
    """End the pause; `step` turns step mode on or off first, None leaves it as it is."""

    step: bool | None = None


@dataclass(frozen=True)
class WriteCall:
    """Let the user write its arguments in their editor."""

    call_id: str
    edit: CallEdit
    written: str
    """What the editor begins with: as it is, or as it was refused."""


@dataclass(frozen=True)
class WrittenCall:
    """Run the call with these arguments instead."""

    call_id: str
    arguments: str
    """JSON."""
    written: str
    """What the user wrote, given back where it does not fit."""


@dataclass(frozen=True)
class StartPlan:
    """Carry out the plan."""

    text: str
    """Markdown, as it is or as the user changed it."""
    mode: Mode


@dataclass(frozen=True)
class WritePlan:
    """Let the user write the plan in their editor."""

    text: str


BoundaryAct = Continue | SkipCall | WriteCall | WrittenCall | StartPlan | WritePlan


class BoundarySheet:
    """A pause or a plan with what the user did about it so far. Nothing here draws."""

    def __init__(self) -> None:
        self.now: Paused | PlanReady | None = None
        self.marked = 0
        """The call that keys mean, from 0."""
        self.problem = ""
        """What was wrong with what was written for it."""
        self.sent = ""
        """What the user wanted, until the boundary has changed."""
        self.writing: Writing = ""
        """What is typed in the card's own line."""
        self.away = False
        """The user put the plan away."""
        self.stepping = False
        """Step mode is on."""
        self._drafts: dict[str, str] = {}
        """What was written for calls and did not fit, by id."""
        self._plan = ""
        """The plan as the user changed it; empty where they did not."""

    def update(self, now: Paused | PlanReady | None) -> bool:
        """Take the boundary as it is now; True where it is another one than before."""
        before, self.now = self.now, now
        if _place(before) == _place(now):
            self.problem = self.problem if before == now else ""
            return False
        self.marked, self.problem, self.sent, self.writing, self.away, self._plan = 0, "", "", "", False, ""
        self._drafts.clear()
        return True

    @property
    def call(self) -> PausedCall | None:
        """The marked one."""
        if not isinstance(self.now, Paused) or not self.now.calls:
            return None
        return self.now.calls[min(self.marked, len(self.now.calls) - 1)]

    @property
    def plan(self) -> str:
        """The plan that would be started; empty where none is ready."""
        return (self._plan or self.now.text) if isinstance(self.now, PlanReady) else ""

    def change_plan(self, text: str) -> None:
        self._plan = text

    def has(self, call_id: str) -> bool:
        return isinstance(self.now, Paused) and any(call.call_id == call_id for call in self.now.calls)

    def refuse(self, call_id: str, written: str, problem: str) -> None:
        """Keep what was written for a call for the next try."""
        self._drafts[call_id], self.problem = written, problem

    def meant(self, key: str, keymap: Keymap) -> str:
        """What a key means here."""
        return plan_key(key, keymap) if isinstance(self.now, PlanReady) else paused_key(key, keymap)

    def choices(self, keymap: Keymap, *, focused: bool) -> tuple[CardChoice, ...]:
        match self.now:
            case Paused() if self.writing:
                return writing_choices(command=self.writing == "command")
            case Paused() as paused:
                return paused_choices(paused, keymap, stepping=self.stepping, focused=focused)
            case PlanReady():
                return plan_choices(keymap)
            case None:
                return ()

    def keys(self, keymap: Keymap) -> frozenset[str]:
        """All that do something here, beside those that mark a call."""
        return frozenset({"c", *(choice.key for choice in self.choices(keymap, focused=True))} - {"text", "esc"})

    @property
    def is_skipped(self) -> bool:
        """Nothing more can be done about the marked call."""
        return self.call is not None and self.call.state == "skipped"

    def place(self, key: str) -> int | None:
        """The call that a key marks, from 0; None where it marks none."""
        last = len(self.now.calls) - 1 if isinstance(self.now, Paused) else -1
        if last < 0 or self.writing:
            return None
        if key in ("up", "down"):
            return max(0, min(self.marked + (1 if key == "down" else -1), last))
        return int(key) - 1 if len(key) == 1 and "1" <= key <= "9" and int(key) <= last + 1 else None

    def title(self) -> tuple[str, str]:
        """The words at the left and at the right of the upper edge."""
        match self.now:
            case Paused() as paused:
                return title_of(paused), f"step mode {'on' if self.stepping else 'off'}"
            case PlanReady():
                lines = len(self.plan.splitlines())
                changed = ", as you changed it" if self._plan else ""
                return f"Plan ready{changed}", f"{lines} {'line' if lines == 1 else 'lines'}"
            case None:
                return "", ""

    def body(self) -> tuple[Piece, ...]:
        match self.now:
            case Paused() as paused:
                return paused_pieces(paused, self.marked, self.problem)
            case PlanReady():
                return plan_pieces(self.plan)
            case None:
                return ()

    def act(self, key: str) -> BoundaryAct | None:
        """What a key asks for; None where it is for the card itself."""
        match key:
            case "c" | "plus":
                self.sent = "going on"
                return Continue()
            case "s" | "S":
                self.sent = "going on"
                return Continue(step=key == "s")
            case "p" | "P":
                self.sent = "starting the plan"
                return StartPlan(self.plan, "ask" if key == "p" else "accept-edits")
            case "e" if isinstance(self.now, PlanReady):
                return WritePlan(self.plan)
            case "e" if self.call is not None and self.edit is not None:
                return WriteCall(self.call.call_id, self.edit, self.draft)
            case "x" if self.call is not None:
                return SkipCall(self.call.call_id)
            case _:
                return None

    @property
    def edit(self) -> CallEdit | None:
        """How the marked call is edited; None where it cannot be."""
        return None if self.call is None else call_edit(self.call.name, self.call.arguments)

    @property
    def draft(self) -> str:
        """What an edit of the marked call begins with: what was written before and did not fit, else what it is."""
        if self.call is None or self.edit is None:
            return ""
        return self._drafts.get(self.call.call_id, self.edit.text)

    @property
    def in_line(self) -> bool:
        """The card's own line can hold the draft."""
        return self.edit is not None and replace(self.edit, text=self.draft).in_line

    def written(self, text: str) -> BoundaryAct | None:
        """What the card's own line asks for, when it is sent; None where it does not fit, which `problem` says."""
        if self.call is None:
            return None
        if self.writing == "reason":
            return SkipCall(self.call.call_id, text.strip())
        return self.written_call(self.call.call_id, self.edit, text)

    def written_call(self, call_id: str, edit: CallEdit | None, text: str) -> BoundaryAct | None:
        """Other arguments for a call, written as `edit` takes them; None where they do not fit."""
        try:
            return None if edit is None else WrittenCall(call_id, edit.arguments(text), text)
        except ValueError as error:
            self.refuse(call_id, text, str(error))
            return None


def _place(now: Paused | PlanReady | None) -> object:
    """What makes it this boundary, whatever becomes of its calls."""
    match now:
        case Paused():
            return (now.why, now.batch, now.text, tuple(call.call_id for call in now.calls))
        case _:
            return now
