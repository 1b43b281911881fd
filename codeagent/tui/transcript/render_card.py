"""A tool call as rows: one line that says what it is and how it went, below it what it printed or changed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from codeagent.core.display import DiffBlock
from codeagent.tui.rendering.diff import counts
from codeagent.tui.rendering.lines import Line, cut_end, flat, indented, line, paragraph
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.transcript import render_output
from codeagent.tui.transcript.blocks import ENDED, CallCard
from codeagent.tui.transcript.drawn import Drawn, Look, Memo, Spot
from codeagent.tui.transcript.spelling import duration, whole

_LONGEST_NAME = 14
_LONGEST_NOTE = 40
_SHORTEST_TARGET = 8
_SHOWN_WHILE_RUNNING = 200
_FAILED_ROWS = 6
DONE_ROWS = 5
"""Rows of what a command printed that came to its end: what proves how it went."""
OWN_ROWS = 20
"""Rows of what a command of the user's own printed."""


@dataclass(frozen=True)
class _Columns:
    """Cells of each, so that the cards of a batch line up."""

    name: int
    target: int


def draw_cards(
    cards: Sequence[CallCard], look: Look, gutter: str, memo: Memo | None = None, *, own: bool = False
) -> Drawn:
    """The cards of one batch behind a gutter of blanks; with a memo, what ended is not drawn again and again.

    `own`: the user ran it, and wants to see what it printed.
    """
    drawn = Drawn()
    inner = replace(look, width=max(1, look.width - cell_len(gutter)))
    columns = _columns(cards, inner)
    blank = Segment(gutter)
    for card in cards:
        first = len(drawn.lines)
        drawn.lines.append(indented(_headline(card, columns, inner), blank))
        if look.detail != "quiet":
            below = _remembered(card, replace(inner, width=max(1, inner.width - 2)), memo, own=own)
            deeper = Segment(gutter + "  ")
            drawn.add(Drawn([indented(row, deeper) for row in below.lines], below.spots))
        drawn.spots.append(Spot(first, len(drawn.lines) - 1, card.call_id))
    return drawn


def state_words(card: CallCard, now: float) -> str:
    """How it stands, in words; empty where it is done and its note says so."""
    match card.state:
        case "planned":
            return "planned, will ask you" if card.asks else "planned"
        case "asking":
            return "waiting for you"
        case "running":
            return "running" if card.began is None else f"running {whole(now - card.began)}"
        case "background":
            return f"in the background as {flat(card.job, 40)}"
        case "done":
            return ""
        case "timeout":
            return "timed out"
        case "failed" | "denied" | "skipped" | "cancelled" | "stopped" | "lost":
            return card.state
        case _:
            assert_never(card.state)


def _mark(card: CallCard, palette: Palette) -> tuple[str, Style]:
    match card.state:
        case "planned":
            return "○", palette.muted
        case "asking":
            return "●", palette.warning
        case "running":
            return "●", palette.running
        case "background":
            return "&", palette.running
        case "done":
            return "✓", palette.success
        case "failed" | "timeout":
            return "✗", palette.error
        case "denied" | "skipped" | "cancelled" | "stopped" | "lost":
            return "–", palette.warning
        case _:
            assert_never(card.state)


def _columns(cards: Sequence[CallCard], look: Look) -> _Columns:
    name = min(_LONGEST_NAME, max((cell_len(flat(card.name)) for card in cards), default=0))
    note = min(_LONGEST_NOTE, max((cell_len(_note(card, look.now)) for card in cards), default=0))
    room = look.width - 2 - name - 2 - 2 - note
    longest = max((cell_len(flat(card.target)) for card in cards), default=0)
    return _Columns(name, min(longest, max(_SHORTEST_TARGET, room)))


def _headline(card: CallCard, columns: _Columns, look: Look) -> Line:
    palette = look.palette
    mark, style = _mark(card, palette)
    name = cut_end(flat(card.name), columns.name)
    target = cut_end(flat(card.target), columns.target)
    note = _note(card, look.now)
    parts: list[tuple[str, Style | None]] = [
        (f"{mark} ", style),
        (name + " " * (columns.name - cell_len(name) + 2), palette.accent),
        (target, palette.text),
    ]
    if note:
        room = look.width - 2 - columns.name - 2 - columns.target - 2
        gap = " " * (columns.target - cell_len(target) + 2)
        parts.append((gap + cut_end(note, max(room, 0)), style if card.state != "done" else palette.muted))
    return line(parts)


def _note(card: CallCard, now: float) -> str:
    """All that is said after the target."""
    added, removed = _changed(card)
    said = [
        state_words(card, now),
        flat(card.progress, 200) if card.state == "running" else "",
        f"+{added} −{removed}" if added or removed else "",
        flat(card.note, 200),
        duration(card.duration_ms / 1000) if card.duration_ms >= 1000 else "",
    ]
    return " · ".join(part for part in said if part) or "done"


def _changed(card: CallCard) -> tuple[int, int]:
    """Lines added and removed by what it shows, where its note does not say so."""
    if card.note.startswith("+") or card.state not in ("done", "running", "asking"):
        return 0, 0
    pairs = [counts(render_output.rows_of(shown)) for shown in card.shown if isinstance(shown, DiffBlock)]
    return sum(added for added, _ in pairs), sum(removed for _, removed in pairs)


def _remembered(card: CallCard, look: Look, memo: Memo | None, *, own: bool) -> Drawn:
    if memo is None or card.state not in ENDED:
        return _below(card, look, own=own)
    printed = None if card.output is None else card.output.total
    words = (card.state, card.target, card.error, card.said)
    drawn_from = (look.width, look.detail, look.palette, *words, card.shown, printed)
    known = memo.get(card.call_id)
    if known is not None and known[0] == drawn_from:
        return known[1]
    below = _below(card, look, own=own)
    memo[card.call_id] = (drawn_from, below)
    return below


def _below(card: CallCard, look: Look, *, own: bool) -> Drawn:
    """What follows the headline."""
    if card.state == "running":
        count = _SHOWN_WHILE_RUNNING if look.detail == "full" else render_output.LIVE_ROWS
        return Drawn([] if card.output is None else render_output.newest(card.output, count, look))
    if look.detail == "full":
        return _everything(card, look)
    failed = card.state in ("failed", "timeout", "cancelled")
    drawn = Drawn([*_said(card, look), *(_error(card, look)[:2] if failed else [])])
    if card.output is not None and (failed or own or card.state == "done"):
        drawn.add(render_output.brief(card.output, OWN_ROWS if own else _FAILED_ROWS if failed else DONE_ROWS, look))
    for shown in card.shown:
        if isinstance(shown, DiffBlock) and card.state == "done":
            drawn.add(render_output.diff(shown, look, render_output.BRIEF_DIFF_ROWS))
    return drawn


def _everything(card: CallCard, look: Look) -> Drawn:
    drawn = Drawn()
    if cell_len(flat(card.target)) > look.width - _LONGEST_NAME or "\n" in card.target:
        drawn.lines += paragraph(card.target, look.width, look.palette.muted)
    drawn.lines += _said(card, look) or _error(card, look)
    drawn.lines += render_output.everything(card.shown, look)
    if card.output is not None:
        drawn.add(render_output.whole(card.output, card.call_id, look))
    return drawn


def _said(card: CallCard, look: Look) -> list[Line]:
    return paragraph(card.said, look.width, look.palette.user) if card.said else []


def _error(card: CallCard, look: Look) -> list[Line]:
    return paragraph(card.error, look.width, look.palette.error) if card.error else []
