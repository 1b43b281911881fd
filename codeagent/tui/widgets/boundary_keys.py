"""Which keys the card of the boundary has, and in which words."""

from codeagent.tui.keymap import Keymap
from codeagent.tui.stage import Paused
from codeagent.tui.widgets.approval_keys import Choice
from codeagent.tui.widgets.card_keys import card_key, labelled

_PAUSED = {
    "c": "boundary.go_on",
    "plus": "boundary.more",
    "s": "boundary.step",
    "S": "boundary.run_on",
    "x": "boundary.skip",
    "X": "boundary.skip_because",
    "e": "boundary.edit",
    "up": "boundary.up",
    "down": "boundary.down",
}
_PLAN = {"p": "plan.start", "P": "plan.start_accepting", "e": "plan.edit", "k": "plan.keep"}


def paused_key(key: str, keymap: Keymap) -> str:
    """What a key means while a run is paused: the first key of its action by default, or a digit."""
    return card_key(key, keymap, _PAUSED)


def plan_key(key: str, keymap: Keymap) -> str:
    """The same where a plan is ready."""
    return card_key(key, keymap, _PLAN)


def paused_choices(paused: Paused, keymap: Keymap, *, stepping: bool, focused: bool) -> tuple[Choice, ...]:
    """For a pause; `stepping`: step mode is on, `focused`: the card has the keys."""
    out = [Choice("c", "continue", keep=95)]
    if paused.why in ("budget", "limit"):
        out = [Choice("plus", "continue with as much again", "as much again", keep=95)]
    if stepping:
        out.append(Choice("S", "end step mode", "step off", keep=70))
    else:
        out.append(Choice("s", "step one batch", "step", keep=70))
    if paused.calls:
        out += [
            Choice("x", "skip", keep=90),
            Choice("X", "skip, because…", "because…", keep=60),
            Choice("e", "edit", keep=80),
        ]
        out.append(Choice("text", "or type a correction", "or correct it", keep=50))
    else:
        out.append(Choice("text", "or type what is sent first", "or type", keep=50))
    out.append(Choice("esc", "back" if focused else "stop", keep=85))
    return labelled(out, keymap, _PAUSED)


def plan_choices(keymap: Keymap) -> tuple[Choice, ...]:
    """For a plan."""
    out = (
        Choice("p", "start", keep=95),
        Choice("P", "start, auto-accept edits", "start, accept edits", keep=90),
        Choice("e", "edit", keep=80),
        Choice("k", "keep planning", keep=85),
    )
    return labelled(out, keymap, _PLAN)


def writing_choices(*, command: bool) -> tuple[Choice, ...]:
    """While a reason or another command is typed."""
    words = "run this command instead" if command else "skip, with this reason"
    return (Choice("enter", words, keep=90), Choice("esc", "back"))
