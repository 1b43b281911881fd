"""What the card of the boundary shows, and which keys it has."""

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from codeagent.core.policy import ALWAYS_ASKS
from codeagent.tui.actions import letters
from codeagent.tui.keymap import Keymap
from codeagent.tui.parts.card_keys import CardChoice, card_key, labelled
from codeagent.tui.parts.line_pane import Piece
from codeagent.tui.parts.pieces import marked_piece
from codeagent.tui.rendering.diff import LEAST_FOLDED
from codeagent.tui.rendering.lines import Line, cut_end, cut_middle, flat, line
from codeagent.tui.rendering.palette import PLAIN, Palette
from codeagent.tui.state import Paused, PausedCall

_MOST_NAME = 14
"""Cells of a tool's name."""
_INDENT = 6
"""Cells in front of what belongs to a call."""
_OUTLINE = 6
"""Rows of a plan: all of it is in the conversation above."""
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_ITEM = re.compile(r"\s{0,3}(?:#{1,6}|[-*+]|\d{1,3}[.)])\s+\S")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+")
_LIMITS = ("budget", "limit")
_PAUSED, _PLAN = letters("boundary"), letters("plan")


def state_of(call: PausedCall) -> str:
    """What will become of a call, in words: `runs`, `will ask`, `denied: …`, `skipped`, `edited, runs`."""
    if call.state == "skipped":
        return "skipped"
    words = {"auto": "runs", "prompt": "will ask", "deny": "denied"}[call.permission]
    if call.state == "edited":
        return f"edited, {words}"
    return f"{words}: {flat(call.reason)}" if call.permission == "deny" and call.reason else words


def title_of(paused: Paused) -> str:
    """`paused before batch 3 · 3 calls`."""
    if paused.why in _LIMITS and not paused.calls:
        return f"paused: the {paused.why}"
    before = f"paused before batch {paused.batch}" if paused.batch else "paused"
    words = flat(paused.text) or before
    count = len(paused.calls)
    return f"{words} · {count} {'call' if count == 1 else 'calls'}" if count else words


def paused_pieces(paused: Paused, marked: int, problem: str) -> tuple[Piece, ...]:
    """Every call, the marked one (from 0) whole; `problem` is what was wrong with what was written for it."""
    out: list[Piece] = []
    if paused.why in _LIMITS:
        out.append(marked_piece(paused.text, "text"))
    if not paused.calls:
        out.append(marked_piece(_next_step(paused), "muted"))
    for at in range(len(paused.calls)):
        out.append(_call(paused.calls, at, marked == at))
        if marked == at and problem:
            out.append(marked_piece(problem, "error", lead=" " * _INDENT))
    return tuple(out)


def plan_pieces(text: str) -> tuple[Piece, ...]:
    """The outline of a plan; where it has none, its first lines."""

    def make(width: int, palette: Palette) -> Iterator[Line]:
        rows = outline(text)
        shown = rows if len(rows) < _OUTLINE + LEAST_FOLDED else rows[:_OUTLINE]
        for row in shown:
            heading = _HEADING.match(row)
            words = cut_end(flat(row[heading.end() :] if heading else row), width)
            yield line([(words, palette.strong if heading else palette.text)])
        if len(shown) < len(rows):
            yield line([(cut_end(f"… {len(rows) - _OUTLINE} more above", width), palette.muted)])

    return (make,)


def outline(text: str) -> list[str]:
    """Headings and items of a Markdown text, not those within code; where there are none, its lines."""
    found, lines, fenced = [], [], False
    for row in text.splitlines():
        if _FENCE.match(row):
            fenced = not fenced
        elif not fenced and row.strip():
            lines.append(row)
            if _ITEM.match(row):
                found.append(row)
    return found or lines


def _next_step(paused: Paused) -> str:
    if paused.why in _LIMITS:
        return "Continuing allows as much again."
    return "Next: ask the model. Anything you type is sent first."


def _call(calls: Sequence[PausedCall], at: int, marked: bool) -> Piece:
    call = calls[at]

    def make(width: int, palette: Palette) -> Iterator[Line]:
        number = str(at + 1).rjust(len(str(len(calls))))
        named = min(_MOST_NAME, width // 4, max(cell_len(flat(each.name)) for each in calls))
        name = set_cell_size(cut_end(flat(call.name), named), named)
        lead = f"{'▸' if marked else ' '} {number}  {name}  "
        states = [state_of(each) for each in calls]
        room = max(0, width - cell_len(lead) - 2)
        targets = max(cell_len(flat(each.target)) for each in calls)
        beside = min(max(map(cell_len, states)), max(room // 3, room - targets))
        state = cut_end(states[at], beside)
        column = max(1, room - beside)
        target = cut_middle(flat(call.target), column)
        pad = " " * (column - cell_len(target) + 2)
        body = palette.selection if marked else PLAIN
        rest = " " * max(0, width - cell_len(lead) - column - 2 - cell_len(state))
        yield line(
            [
                (lead, palette.text + body),
                (target + pad, palette.text + body),
                (state, body if marked else _style(call, palette)),
                (rest, body),
            ]
        )
        if not marked:
            return
        if target != call.target:
            yield from marked_piece(call.target, "text", lead=" " * _INDENT)(width, palette)
        if state != states[at] or (call.state == "planned" and _asks_for_a_reason(call)):
            words = f"{state_of(call).partition(':')[0]}: {call.reason}"
            yield from marked_piece(words, "muted", lead=" " * _INDENT)(width, palette)

    return make


def _asks_for_a_reason(call: PausedCall) -> bool:
    """There is more to say than that this tool always asks."""
    return call.permission == "prompt" and call.reason not in ("", ALWAYS_ASKS)


def _style(call: PausedCall, palette: Palette) -> Style:
    if call.state == "skipped":
        return palette.muted
    if call.state == "edited":
        return palette.accent
    return {"auto": palette.success, "prompt": palette.warning, "deny": palette.error}[call.permission]


def paused_key(key: str, keymap: Keymap) -> str:
    """What a key means while a run is paused: the first key of its action by default, or a digit."""
    return card_key(key, keymap, _PAUSED)


def plan_key(key: str, keymap: Keymap) -> str:
    """The same where a plan is ready."""
    return card_key(key, keymap, _PLAN)


def paused_choices(paused: Paused, keymap: Keymap, *, stepping: bool, focused: bool) -> tuple[CardChoice, ...]:
    """For a pause; `stepping`: step mode is on, `focused`: the card has the keys."""
    out = [CardChoice("c", "continue", keep=95)]
    if paused.why in ("budget", "limit"):
        out = [CardChoice("plus", "continue with as much again", "as much again", keep=95)]
    if stepping:
        out.append(CardChoice("S", "end step mode", "step off", keep=70))
    else:
        out.append(CardChoice("s", "step one batch", "step", keep=70))
    if paused.calls:
        out += [
            CardChoice("x", "skip", keep=90),
            CardChoice("X", "skip, because…", "because…", keep=60),
            CardChoice("e", "edit", keep=80),
        ]
        out.append(CardChoice("text", "or type a correction", "or correct it", keep=50))
    else:
        out.append(CardChoice("text", "or type what is sent first", "or type", keep=50))
    out.append(CardChoice("esc", "back" if focused else "stop", keep=85))
    return labelled(out, keymap, _PAUSED)


def plan_choices(keymap: Keymap) -> tuple[CardChoice, ...]:
    """For a plan."""
    out = (
        CardChoice("p", "start", keep=95),
        CardChoice("P", "start, auto-accept edits", "start, accept edits", keep=90),
        CardChoice("e", "edit", keep=80),
        CardChoice("k", "keep planning", keep=85),
    )
    return labelled(out, keymap, _PLAN)


def writing_choices(*, command: bool) -> tuple[CardChoice, ...]:
    """While a reason or another command is typed."""
    words = "run this command instead" if command else "skip, with this reason"
    return (CardChoice("enter", words, keep=90), CardChoice("esc", "back"))
