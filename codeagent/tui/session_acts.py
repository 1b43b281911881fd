"""What becomes of an act on its way to the agent: which one fits by now, and what the screen shows
of it at once."""

import time

from codeagent.core import acts
from codeagent.core.acts import Act, Refused
from codeagent.tui.parts.status import MODE_MEANS
from codeagent.tui.state import UiState


def directed(act: Act, *, running: bool) -> Act:
    """Return the act that fits the text now: a run may have begun or ended since the key was
    pressed."""
    match act:
        case acts.Prompt(str(text)) if running:
            return acts.Steer(text)
        case acts.Steer(text) | acts.Interrupt(text) | acts.FollowUp(text) if not running:
            return acts.Prompt(text)
        case _:
            return act


def show_act(act: Act, refused: Refused | None, state: UiState, *, running: bool) -> None:
    """Show what an act did if no event does; refused text returns to the composer."""
    match act:
        case _ if refused is not None:
            _give_back(act, refused, state)
        case acts.Prompt() | acts.RunRecipe() if running:
            state.status.set(phase="working", since=time.time())
        case acts.Stop() if running:
            state.status.set(halt="stopping")
        case acts.Step(on):
            state.status.set(stepping=on)
        case acts.SetMode(mode):
            state.status.set(mode=mode, notice=f"mode: {mode} · {MODE_MEANS[mode]}")
        case _:
            pass


def _give_back(act: Act, refused: Refused, state: UiState) -> None:
    """Return refused text to the composer; of other acts, the caller says why they were refused."""
    match act:
        case acts.Prompt(text) | acts.Steer(text) | acts.Interrupt(text) | acts.FollowUp(text):
            lost = text or ""
        case acts.RunShell(command, shared):
            lost = ("!" if shared else "!!") + command
        case _:
            return
    state.document.remark(refused.reason, "error")
    if lost:
        state.give_back(lost)
