"""What the card of the boundary shows: the calls of a batch, what was used up, the outline of a plan."""

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from codeagent.core.policy import ALWAYS_ASKS
from codeagent.tui.rendering.diff import LEAST_FOLDED
from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.marked import marked_lines
from codeagent.tui.rendering.palette import PLAIN, Palette
from codeagent.tui.stage import Paused, PausedCall
from codeagent.tui.widgets.fitting import cut_end, cut_middle, flat
from codeagent.tui.widgets.line_pane import Piece

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
        out.append(_said(paused.text, "text"))
    if not paused.calls:
        out.append(_said(_next_step(paused), "muted"))
    for at in range(len(paused.calls)):
        out.append(_call(paused.calls, at, marked == at))
        if marked == at and problem:
            out.append(_said(problem, "error", indent=_INDENT))
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


def _said(text: str, style: str, *, indent: int = 0) -> Piece:
    """A text whole, in the palette's style of that name."""

    def make(width: int, palette: Palette) -> Iterator[Line]:
        for found in marked_lines(text, max(1, width - indent), palette):
            yield _moved(found, indent, getattr(palette, style), palette)

    return make


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
            yield from (
                _moved(found, _INDENT, palette.text, palette)
                for found in marked_lines(call.target, width - _INDENT, palette)
            )
        if state != states[at] or (call.state == "planned" and _asks_for_a_reason(call)):
            words = f"{state_of(call).partition(':')[0]}: {call.reason}"
            yield from (
                _moved(found, _INDENT, palette.muted, palette)
                for found in marked_lines(words, width - _INDENT, palette)
            )

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


def _moved(found: Line, cells: int, style: Style, palette: Palette) -> Line:
    """A line behind so many blanks; what is pointed out in it keeps its own style."""
    plain = (None, PLAIN, palette.text)
    body = (Segment(part, style if own in plain else own) for part, own, _ in found.strip)
    return Line(Strip([Segment(" " * cells), *body]), found.text, found.start + cells, found.joins)
