"""A small screen with an approval card, a composer and a clock that only moves when told."""

import json
from dataclasses import replace

from textual.app import App, ComposeResult
from textual.events import Key, Paste
from textual.pilot import Pilot
from textual.widgets import Input, Static

from codeagent.core.acts import Answer
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.display import DiffBlock, DisplayBlock, QuestionBlock, TerminalBlock
from codeagent.core.policy import Decision
from codeagent.tui.parts.card import Card
from codeagent.tui.parts.card_content import CardAct, ChooseHunks, Tell
from codeagent.tui.parts.card_frame import ReasonInput
from codeagent.tui.state import ApprovalQueue, UiState

BEFORE = "def days(y):\n    return 366 if y % 4 == 0 else 365\n\n\nclass Calendar:\n    pass\n"
AFTER = BEFORE.replace("y % 4 == 0", "y % 4 == 0 and y % 100 != 0")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeComposer(Input):
    """Tells the card about every key, as the chat screen does, and hands it Alt and Tab."""

    def _on_paste(self, event: Paste) -> None:
        super()._on_paste(event)
        event.prevent_default()
        self.screen.query_one(Card).typed()

    async def _on_key(self, event: Key) -> None:
        card = self.screen.query_one(Card)
        if event.key == "tab" and not self.value:
            event.stop()
            event.prevent_default()
            card.take_focus()
        elif event.key.startswith("alt+"):
            event.stop()
            event.prevent_default()
            card.press(event.key)
        else:
            card.typed()
            await super()._on_key(event)


class CardApp(App[None]):
    CSS = "#view { height: 1fr; } FakeComposer { height: 1; border: none; }"

    def __init__(self, *waiting: ApprovalRequested) -> None:
        super().__init__()
        self.approvals = ApprovalQueue(waiting)
        self.clock = Clock()
        self.answers: list[tuple[str, str, str]] = []
        self.decisions: list[Decision] = []
        self.hunks_wanted: list[tuple[str, DiffBlock]] = []
        self.told: list[tuple[str, str]] = []
        self.bells = 0

    def compose(self) -> ComposeResult:
        yield Static(id="view")
        yield Card(UiState(approvals=self.approvals), self.do, clock=self.clock, now=self.clock)
        yield FakeComposer()

    def on_mount(self) -> None:
        self.composer.focus()

    def bell(self) -> None:
        self.bells += 1

    @property
    def card(self) -> Card:
        return self.query_one(Card)

    @property
    def composer(self) -> FakeComposer:
        return self.query_one(FakeComposer)

    def do(self, act: CardAct) -> None:
        match act:
            case Answer():
                self.answers.append((act.approval_id, act.decision.answer, act.decision.reason))
                self.decisions.append(act.decision)
            case ChooseHunks():
                self.hunks_wanted += [(act.approval_id, diff) for diff in act.diffs]
            case Tell():
                self.told.append((act.text, act.back))
            case _:
                raise AssertionError(act)

    def on_card_left(self) -> None:
        self.composer.focus()

    @property
    def line(self) -> ReasonInput:
        return self.query_one(ReasonInput)

    def text(self) -> str:
        """The screen as it is drawn."""
        return "\n".join(strip.text.rstrip() for strip in self.screen._compositor.render_strips())

    async def keys(self, pilot: Pilot[None], *keys: str, apart: float = 1.0) -> None:
        """Press keys, `apart` seconds between them."""
        await pilot.pause()
        for key in keys:
            self.clock.now += apart
            await pilot.press(key)


def asking(
    name: str, approval_id: str, target: str, *shown: DisplayBlock, reason: str = "this call asks"
) -> ApprovalRequested:
    return ApprovalRequested(
        ts=988.0,
        approval_id=approval_id,
        call_id=f"call-{approval_id}",
        name=name,
        target=target,
        reason=reason,
        blocks=shown,
        binding="",
    )


def command(
    text: str, approval_id: str = "b", *, proposal: str = "", editable: bool = False
) -> ApprovalRequested:
    asked = asking("bash", approval_id, text.split("\n")[0], TerminalBlock(command=text))
    return replace(
        asked, proposal=proposal, arguments=json.dumps({"command": text}) if editable else ""
    )


def edit(
    approval_id: str = "e", before: str = BEFORE, after: str = AFTER, *, everything: bool = False
) -> ApprovalRequested:
    """`everything`: it may be answered with a rule, by other arguments, and hunk by hunk."""
    asked = asking(
        "edit",
        approval_id,
        "src/dates.py",
        DiffBlock(path="src/dates.py", before=before, after=after, start_line=41),
    )
    if not everything:
        return asked
    return replace(
        asked, proposal="edit(src/**)", arguments='{"path": "src/dates.py"}', by_hunk=True
    )


def question(*options: str, approval_id: str = "q") -> ApprovalRequested:
    return asking(
        "ask_user",
        approval_id,
        "Which?",
        QuestionBlock(question="Which **one**?", options=options),
        reason="",
    )
