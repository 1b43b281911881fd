"""Card content for a pause, a plan that is ready, or a summary to read."""

import re
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import Literal

from rich.cells import cell_len, set_cell_size

from codeagent.core.acts import SkipCall
from codeagent.core.policy import ALWAYS_ASKS, Mode
from codeagent.tui.parts.card_content import (
    CardChoice,
    CardContent,
    CardView,
    Check,
    Continue,
    KeyMeaning,
    MarkRow,
    Say,
    Send,
    ShowAs,
    StartPlan,
    UseSummary,
    Writing,
    WrittenCall,
)
from codeagent.tui.parts.checks import CallEdit, call_edit
from codeagent.tui.parts.line_pane import Piece, marked_piece
from codeagent.tui.parts.rows import Part
from codeagent.tui.rendering.diff import LEAST_FOLDED
from codeagent.tui.rendering.lines import Line, cut_end, cut_middle, flat, line
from codeagent.tui.rendering.palette import PERMISSION, PLAIN, Palette, StyleName
from codeagent.tui.state import AtBoundary, Paused, PausedCall, PlanReady, SummaryReady

_MOST_NAME = 14
"""Cells for a tool's name."""
_INDENT = 6
"""Indent of what belongs to a call, in cells."""
_END = 1_000
"""Characters shown of each end of a long target."""
_OUTLINE = 6
"""Rows shown of a plan that the user changed; the original is in the conversation above."""
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_ITEM = re.compile(r"\s{0,3}(?:#{1,6}|[-*+]|\d{1,3}[.)])\s+\S")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+")
_LIMITS = ("budget", "limit")
_UNASKED = ("step", *_LIMITS)
"""The reasons for pauses that the user did not just ask for."""
_CONTINUING = "continuing"
_NO_EDIT = Say("it cannot be edited: its arguments are not JSON")
_BACK = CardChoice("esc", "back")


def place_of(now: AtBoundary) -> Hashable:
    """Return what identifies the boundary, even if its calls change; None if there is no
    boundary."""
    match now:
        case Paused():
            return (now.why, now.batch, now.text, tuple(call.call_id for call in now.calls))
        case PlanReady() | SummaryReady():
            return now.text
        case None:
            return None


def rings(now: AtBoundary) -> bool:
    """Whether to ring the bell: the user did not just ask for this boundary."""
    return isinstance(now, SummaryReady) or (isinstance(now, Paused) and now.why in _UNASKED)


def subjects_of(now: AtBoundary) -> tuple[str, ...]:
    """Return the ids or texts that the user may be writing about."""
    match now:
        case Paused():
            return tuple(call.call_id for call in now.calls)
        case PlanReady() | SummaryReady():
            return (now.text,)
        case None:
            return ()


def pause_content(
    paused: Paused, view: CardView, *, stepping: bool, focused: bool, sent: str
) -> CardContent:
    """Return a pause with the calls of its batch; `stepping`: step mode is on, `focused`: the card
    has the focus."""
    count = len(paused.calls)
    marked = min(view.row or 0, count - 1) if count else 0
    beside: dict[str, KeyMeaning] = {"c": _go_on()}
    if count:
        beside |= {"up": MarkRow(max(0, marked - 1)), "down": MarkRow(min(marked + 1, count - 1))}
        beside |= {str(at + 1): MarkRow(at) for at in range(count)}
    return CardContent(
        id=place_of(paused),
        scope="boundary",
        left=(Part(title_of(paused), 90, "strong"),),
        right=(Part(f"step mode {'on' if stepping else 'off'}", 50),),
        body=paused_pieces(paused, marked, view.problem),
        drawn_of=(paused, marked, view.problem),
        choices=pause_choices(paused, marked, stepping=stepping, focused=focused),
        beside=beside,
        row=marked if count else None,
        sent=sent,
    )


def plan_content(plan: PlanReady, text: str, *, sent: str) -> CardContent:
    """Return a plan, with its text as the user left it."""
    lines = len(text.splitlines())
    changed = "" if text == plan.text else ", as you changed it"
    return CardContent(
        id=place_of(plan),
        scope="plan",
        left=(Part(f"Plan ready{changed}", 90, "strong"),),
        right=(Part(f"{lines} {'line' if lines == 1 else 'lines'}", 50),),
        body=plan_pieces(text) if changed else (),
        drawn_of=text,
        choices=(
            CardChoice("p", "start", keep=95, does=_start(text, "ask")),
            CardChoice(
                "P",
                "start, auto-accept edits",
                "start, accept edits",
                90,
                does=_start(text, "accept-edits"),
            ),
            CardChoice("e", "edit", keep=80, does=text_write(plan)),
            CardChoice("k", "keep planning", keep=85, does=ShowAs("away", True)),
        ),
        sent=sent,
    )


def summary_content(summary: SummaryReady, text: str, *, sent: str) -> CardContent:
    """Return a summary, with its text as the user left it."""
    changed = "" if text == summary.text else ", as you changed it"
    replaces = f"for {summary.replaces} {'message' if summary.replaces == 1 else 'messages'}"
    return CardContent(
        id=place_of(summary),
        scope="summary",
        left=(Part(f"Summary to replace the older part{changed}", 90, "strong"),),
        right=(Part(replaces, 50),),
        body=plan_pieces(text) if changed else (),
        drawn_of=text,
        choices=(
            CardChoice(
                "c", "use it", keep=95, does=Send((UseSummary(text, summary.text),), "compacting")
            ),
            CardChoice("e", "edit", keep=90, does=text_write(summary)),
            CardChoice(
                "k",
                "keep the conversation as it is",
                "keep all",
                85,
                does=Send((UseSummary(None),), "kept"),
            ),
        ),
        sent=sent,
    )


def pause_choices(
    paused: Paused, marked: int, *, stepping: bool, focused: bool
) -> tuple[CardChoice, ...]:
    """Return the choices of a pause; they skip or edit the marked call (from 0)."""
    out = [CardChoice("c", "continue", keep=95, does=_go_on())]
    if paused.why in _LIMITS:
        out = [
            CardChoice("plus", "continue with as much again", "as much again", 95, does=_go_on())
        ]
    if stepping:
        out.append(CardChoice("S", "end step mode", "step off", 70, does=_go_on(step=False)))
    else:
        out.append(CardChoice("s", "step one batch", "step", 70, does=_go_on(step=True)))
    if paused.calls:
        call = paused.calls[marked]
        skip = SkipCall(call.call_id, on=not call.skipped)
        out += [
            CardChoice("x", "skip" if skip.on else "undo skip", keep=90, does=Send((skip,))),
            CardChoice("X", "skip, because…", "because…", 60, does=_reason(call)),
            CardChoice("e", "edit", keep=80, does=partial(call_write, call)),
        ]
        out.append(CardChoice("text", "or type a correction", "or correct it", 50))
    else:
        out.append(CardChoice("text", "or type what to send first", "or type", 50))
    return (*out, CardChoice("esc", "back" if focused else "stop", keep=85))


def call_write(call: PausedCall) -> Writing | Say:
    """Let the user edit a call's arguments: a command in the line, anything else in the user's
    editor."""
    edit = call_edit(call.name, call.arguments)
    if edit is None:
        return _NO_EDIT
    return Writing(
        "call",
        call.call_id,
        edit.kind,
        partial(_written_call, call.call_id, edit),
        text=edit.text,
        choices=(CardChoice("enter", "run this command instead", keep=90), _BACK),
        placeholder="the command to run instead",
        judge=None if edit.kind == "command" else edit.check,
        suffix=edit.suffix,
    )


def text_write(shown: PlanReady | SummaryReady) -> Writing:
    """Let the user edit the plan or the summary; from then on their text is used."""
    kind: Literal["plan", "summary"] = "plan" if isinstance(shown, PlanReady) else "summary"
    return Writing(
        kind,
        shown.text,
        kind,
        lambda text: None,
        text=shown.text,
        judge=lambda text: Check("" if text.strip() else f"a {kind} cannot be empty"),
        suffix=".md",
    )


def _go_on(*, step: bool | None = None) -> Send:
    return Send((Continue(step),), _CONTINUING)


def _start(text: str, mode: Mode) -> Send:
    return Send((StartPlan(text, mode),), "starting the plan")


def _reason(call: PausedCall) -> Writing:
    return Writing(
        "call",
        call.call_id,
        "reason",
        lambda text: Send((SkipCall(call.call_id, text.strip()),)),
        choices=(CardChoice("enter", "skip, with this reason", keep=90), _BACK),
        placeholder="skipped, because …",
    )


def _written_call(call_id: str, edit: CallEdit, text: str) -> Send | Say:
    try:
        return Send((WrittenCall(call_id, edit.arguments(text), text),))
    except ValueError as error:
        return Say(str(error))


def state_of(call: PausedCall) -> str:
    """Return what will happen to a call: `runs`, `will ask`, `denied: …`, `skipped`, `edited,
    runs`."""
    if call.skipped:
        return "skipped"
    words = {"auto": "runs", "prompt": "will ask", "deny": "denied"}[call.permission]
    if call.edited:
        return f"edited, {words}"
    return f"{words}: {flat(call.reason)}" if call.permission == "deny" and call.reason else words


def title_of(paused: Paused) -> str:
    """Return a text such as `paused before batch 3 · 3 calls`."""
    if paused.why in _LIMITS and not paused.calls:
        return f"paused: the {paused.why}"
    before = f"paused before batch {paused.batch}" if paused.batch else "paused"
    words = flat(paused.text) or before
    count = len(paused.calls)
    return f"{words} · {count} {'call' if count == 1 else 'calls'}" if count else words


def paused_pieces(paused: Paused, marked: int, problem: str) -> tuple[Piece, ...]:
    """Return every call, the marked one (from 0) in full; `problem` says what was wrong with the
    edit of it."""
    out: list[Piece] = []
    if paused.why in _LIMITS:
        out.append(marked_piece(paused.text, "text"))
    if not paused.calls:
        limited = "Continuing allows as much again."
        step = (
            limited
            if paused.why in _LIMITS
            else "Next: ask the model. Anything you type is sent first."
        )
        out.append(marked_piece(step, "muted"))
    for at in range(len(paused.calls)):
        out.append(_call(paused.calls, at, marked == at))
        if marked == at and problem:
            out.append(marked_piece(problem, "error", lead=" " * _INDENT))
    return tuple(out)


def plan_pieces(text: str) -> tuple[Piece, ...]:
    """Return the outline of a plan, or its first lines if it has no outline."""

    def make(width: int, palette: Palette) -> Iterator[Line]:
        rows = outline(text)
        shown = rows if len(rows) < _OUTLINE + LEAST_FOLDED else rows[:_OUTLINE]
        for row in shown:
            heading = _HEADING.match(row)
            words = cut_end(flat(row[heading.end() :] if heading else row), width)
            yield line([(words, palette.strong if heading else palette.text)])
        if len(shown) < len(rows):
            yield line([(cut_end(f"… {len(rows) - _OUTLINE} more", width), palette.muted)])

    return (make,)


def outline(text: str) -> list[str]:
    """Return the headings and items of a Markdown text, except within code; if there are none, its
    lines."""
    found, lines, fenced = [], [], False
    for row in text.splitlines():
        if _FENCE.match(row):
            fenced = not fenced
        elif not fenced and row.strip():
            lines.append(row)
            if _ITEM.match(row):
                found.append(row)
    return found or lines


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
        target = cut_middle(flat(call.target[:_END]) + flat(call.target[_END:][-_END:]), column)
        pad = " " * (column - cell_len(target) + 2)
        body = palette.marks.selection if marked else PLAIN
        rest = " " * max(0, width - cell_len(lead) - column - 2 - cell_len(state))
        yield line(
            [
                (lead, palette.text + body),
                (target + pad, palette.text + body),
                (state, body if marked else palette.named(_style(call))),
                (rest, body),
            ]
        )
        if not marked:
            return
        if target != call.target:
            yield from marked_piece(call.target, "text", lead=" " * _INDENT)(width, palette)
        # There may be a better reason than that this tool always asks.
        asks = (
            not call.skipped
            and not call.edited
            and call.permission == "prompt"
            and call.reason not in ("", ALWAYS_ASKS)
        )
        if state != states[at] or asks:
            words = f"{state_of(call).partition(':')[0]}: {call.reason}"
            yield from marked_piece(words, "muted", lead=" " * _INDENT)(width, palette)

    return make


def _style(call: PausedCall) -> StyleName:
    if call.skipped:
        return "muted"
    return "accent" if call.edited else PERMISSION[call.permission]
