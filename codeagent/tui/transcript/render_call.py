"""Draws a tool call: one line that says what it is and how it went, and below it what it printed or
changed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import assert_never

from rich.segment import Segment

from codeagent.core.dataclass import dataclass
from codeagent.core.display import (
    DiffBlock,
    DisplayBlock,
    FilesBlock,
    ImageBlock,
    MarkdownBlock,
    QuestionBlock,
    TerminalBlock,
    TextBlock,
    UnknownBlock,
)
from codeagent.tui.rendering.ansi import ansi_line
from codeagent.tui.rendering.attached import thumbnail_lines
from codeagent.tui.rendering.diff import LEAST_FOLDED, DiffRow, counts, diff_rows, unified_lines
from codeagent.tui.rendering.lines import (
    Line,
    cells,
    cut_end,
    cut_middle,
    flat,
    indented,
    line,
    paragraph,
)
from codeagent.tui.rendering.markdown import render_markdown
from codeagent.tui.rendering.output_buffer import OutputBuffer
from codeagent.tui.rendering.palette import StyleName
from codeagent.tui.transcript.blocks import ENDED, CallCard, CallState, ChildView
from codeagent.tui.transcript.layout import Drawn, Look, Spot
from codeagent.tui.transcript.spelling import counted, duration, whole

Memo = dict[str, tuple[object, Drawn]]
"""The rows below the headlines of ended calls, and what they were drawn from, by call id."""
LIVE_ROWS = 8
"""Rows shown of a command's output while it is running."""
DONE_ROWS = 5
"""Rows shown of an ended command's output: enough to show how it went."""
OWN_ROWS = 20
"""Rows shown of the output of the user's own command."""
BRIEF_DIFF_ROWS = 12
_FAILED_ROWS = 6
_SHOWN_WHILE_RUNNING = 200
_CONTEXTS = (3, 1, 0)
"""Unchanged lines around a change: the longer the change, the fewer."""
_LONGEST_NAME = 14
_ROOMY_NAME = 40
"""The longest name where targets and notes leave the room."""
_LONGEST_NOTE = 40
_SHORTEST_TARGET = 8
_STATES: dict[CallState, tuple[str, StyleName, str]] = {
    "planned": ("○", "muted", "planned"),
    "asking": ("●", "warning", "waiting for you"),
    "running": ("●", "running", "running"),
    "background": ("&", "running", "in the background as"),
    "done": ("✓", "success", ""),
    "failed": ("✗", "error", "failed"),
    "timeout": ("✗", "error", "timed out"),
    "denied": ("–", "warning", "denied"),
    "skipped": ("–", "warning", "skipped"),
    "cancelled": ("–", "warning", "cancelled"),
    "stopped": ("–", "warning", "stopped"),
    "lost": ("–", "warning", "lost"),
}
"""The mark of a call, its style in the palette, and its words: empty if the call's note says how it
went."""


@dataclass(frozen=True)
class StyledText:
    text: str
    style: StyleName = "text"


def draw_cards(
    cards: Sequence[CallCard],
    look: Look,
    gutter: Segment,
    memo: Memo | None = None,
    *,
    beside: str = "",
    own: bool = False,
    draw_child: Callable[[ChildView, Look], Drawn] = lambda child, look: Drawn(),
) -> Drawn:
    """Draw the cards of one batch after a gutter; with a memo, ended calls are not drawn again.

    `beside` follows what is said of each call. `own`: the user ran it, so more of its output is
    shown. `draw_child` draws the child agent of a call.
    """
    drawn = Drawn()
    blanks = " " * cells(gutter.text)
    inner = replace(look, width=max(1, look.width - len(blanks)))
    columns = _columns(cards, inner, beside)
    for card in cards:
        first = len(drawn.lines)
        drawn.lines.append(indented(_headline(card, columns, inner, beside), gutter))
        if look.detail != "quiet":
            inside = replace(inner, width=max(1, inner.width - 2))
            below = _remembered(card, inside, memo, own=own)
            deeper = Segment(blanks + "  ")
            if card.child is not None:
                drawn.lines += [
                    indented(row, deeper) for row in draw_child(card.child, inside).lines
                ]
            drawn.add(Drawn([indented(row, deeper) for row in below.lines], below.spots))
        drawn.spots.append(Spot(first, len(drawn.lines) - 1, card.call_id))
    return drawn


def text_of_block(block: DisplayBlock) -> tuple[StyledText, ...]:
    """Return a block as text; diffs, Markdown and printed output are usually drawn instead."""
    match block:
        case TextBlock(text=text) | MarkdownBlock(text=text):
            return (StyledText(text),)
        case DiffBlock(path=path, after=after):
            return (StyledText(path), StyledText(after))
        case TerminalBlock(command=command, output=output):
            return (StyledText(f"$ {command}"), *((StyledText(output, "muted"),) if output else ()))
        case FilesBlock(paths=paths):
            return tuple(map(StyledText, paths))
        case ImageBlock(path=path, media_type=media_type):
            return (StyledText(f"image {path}".rstrip() + f" ({media_type})"),)
        case QuestionBlock(question=question, options=options, fields=fields):
            return (
                StyledText("\n".join((question, *options, *(field.label for field in fields)))),
            )
        case UnknownBlock(type=kind):
            return (
                StyledText(f"a block of the kind {kind}, which this version cannot show", "error"),
            )
        case _:
            assert_never(block)


def state_words(card: CallCard, now: float) -> str:
    """Return the state of a call; empty if it is done, as its note says how it went."""
    words = _STATES[card.state][2]
    match card.state:
        case "planned" if card.asks:
            return f"{words}, will ask you"
        case "running" if card.began is not None:
            return f"{words} {whole(now - card.began)}"
        case "background":
            return f"{words} {flat(card.job, 40)}"
        case _:
            return words


def _columns(cards: Sequence[CallCard], look: Look, beside: str) -> tuple[int, int]:
    """Return the widths of name and target, in cells, so that the cards of a batch line up."""
    note = min(_LONGEST_NOTE, max((cells(_note(card, look.now)) for card in cards), default=0))
    longest = max((cells(flat(card.target)) for card in cards), default=0)
    room = look.width - 2 - 2 - 2 - note - cells(beside)
    most = max(_LONGEST_NAME, min(_ROOMY_NAME, room - longest))
    name = min(most, max((cells(flat(card.name)) for card in cards), default=0))
    return name, min(longest, max(_SHORTEST_TARGET, room - name))


def _headline(card: CallCard, columns: tuple[int, int], look: Look, beside: str) -> Line:
    palette = look.palette
    mark, style_name, _ = _STATES[card.state]
    style = palette.named(style_name)
    names, targets = columns
    name = cut_middle(flat(card.name), names)
    target = cut_end(flat(card.target), targets)
    gap = " " * (targets - cells(target) + 2)
    room = look.width - 2 - names - 2 - targets - 2 - cells(beside)
    note = cut_end(_note(card, look.now), max(room, 0))
    return line(
        [
            (f"{mark} ", style),
            (
                name + " " * (names - cells(name) + 2),
                palette.text if card.state == "done" else palette.strong,
            ),
            (target, palette.text),
            (gap + note, style if card.state != "done" else palette.muted),
            (beside, palette.muted),
        ]
    )


def _note(card: CallCard, now: float) -> str:
    """Return what follows the target."""
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
    """Return the lines added and removed, unless the note gives the numbers."""
    if card.note.startswith("+") or card.state not in ("done", "running", "asking"):
        return 0, 0
    pairs = [counts(_diff_rows(shown)) for shown in card.shown if isinstance(shown, DiffBlock)]
    return sum(added for added, _ in pairs), sum(removed for _, removed in pairs)


def _remembered(card: CallCard, look: Look, memo: Memo | None, *, own: bool) -> Drawn:
    if memo is None or card.state not in ENDED:
        return _below(card, look, own=own)
    printed = None if card.output is None else card.output.total
    words = (card.state, card.target, card.error, card.said)
    drawn_from = (look.width, look.detail, look.palette, *words, card.shown, printed)
    known = memo.get(card.call_id)
    if known is None or known[0] != drawn_from:
        known = memo[card.call_id] = (drawn_from, _below(card, look, own=own))
    return known[1]


def _below(card: CallCard, look: Look, *, own: bool) -> Drawn:
    """Return what follows the headline."""
    if card.state == "running":
        count = _SHOWN_WHILE_RUNNING if look.detail == "full" else LIVE_ROWS
        return Drawn([] if card.output is None else _newest(card.output, count, look))
    if look.detail == "full":
        return _everything(card, look)
    failed = card.state in ("failed", "timeout", "cancelled")
    drawn = Drawn([*_said(card, look), *(_error(card, look)[:2] if failed else [])])
    if card.output is not None and (failed or own or card.state == "done"):
        rows = OWN_ROWS if own else _FAILED_ROWS if failed else DONE_ROWS
        drawn.add(_brief(card.output, rows, look, "text" if own or failed else "muted"))
    for shown in card.shown:
        if isinstance(shown, DiffBlock) and card.state == "done":
            drawn.add(_diff(shown, look, BRIEF_DIFF_ROWS))
        elif isinstance(shown, ImageBlock) and card.state == "done":
            drawn.lines += _shown(shown, look)[1:]
    return drawn


def _everything(card: CallCard, look: Look) -> Drawn:
    drawn = Drawn()
    if cells(flat(card.target)) > look.width - _LONGEST_NAME or "\n" in card.target:
        drawn.lines += paragraph(card.target, look.width, look.palette.muted)
    drawn.lines += _said(card, look) or _error(card, look)
    for shown in card.shown:
        drawn.lines += _shown(shown, look)
    if card.output is not None:
        drawn.add(_kept(card.output, card, look))
    return drawn


def _said(card: CallCard, look: Look) -> list[Line]:
    return paragraph(card.said, look.width, look.palette.talk.user) if card.said else []


def _error(card: CallCard, look: Look) -> list[Line]:
    style = look.palette.named(_STATES[card.state][1])
    return paragraph(card.error, look.width, style) if card.error else []


def _shown(block: DisplayBlock, look: Look) -> list[Line]:
    """Return everything that a tool showed; what it printed is part of the output."""
    palette, width = look.palette, look.width
    match block:
        case DiffBlock():
            return _diff(block, look, None).lines
        case MarkdownBlock():
            return render_markdown(block.text, width, palette)
        case TerminalBlock():
            return []
        case _:
            said = (
                (said.text.rstrip("\n"), palette.named(said.style)) for said in text_of_block(block)
            )
            rows = [row for text, style in said for row in paragraph(text, width, style)]
            if isinstance(block, ImageBlock) and block.thumbnail is not None:
                rows += thumbnail_lines(block.thumbnail, width, palette)
            return rows


def _diff(shown: DiffBlock, look: Look, most: int | None) -> Drawn:
    """Draw a change; a long one is cut to about `most` rows and the number of others, unchanged
    rows first."""
    enough = float("inf") if most is None else most + LEAST_FOLDED
    rows = next(
        (
            rows
            for rows in (_diff_rows(shown, context) for context in _CONTEXTS)
            if len(rows) < enough
        ),
        None,
    )
    if rows is not None:
        return Drawn(unified_lines(rows, look.width, look.palette, shown.path))
    rows = _diff_rows(shown, _CONTEXTS[-1])
    drawn = Drawn(unified_lines(rows[:most], look.width, look.palette, shown.path))
    drawn.add(_offer(f"… {len(rows[most:])} more rows (click to expand)", look))
    return drawn


@lru_cache(64)
def _diff_rows(shown: DiffBlock, context: int = _CONTEXTS[0]) -> Sequence[DiffRow]:
    """Return the undrawn rows of a change, with `context` unchanged lines around each hunk."""
    return diff_rows(shown.before, shown.after, shown.start_line, context)


def _newest(output: OutputBuffer, count: int, look: Look, style: StyleName = "text") -> list[Line]:
    """Return the last lines of the output, each on one row."""
    return _behind_bar((_printed(raw, look, style) for raw in output.last(count)), look)


def _brief(output: OutputBuffer, count: int, look: Look, style: StyleName) -> Drawn:
    """Return the last lines, and how many came before."""
    newest = _newest(output, count, look, style)
    before = output.total - len(newest)
    if before < LEAST_FOLDED:
        return Drawn(_newest(output, output.total, look, style))
    drawn = _offer(f"… {counted(before, 'earlier line')} (click to expand)", look)
    drawn.lines += newest
    return drawn


def _kept(output: OutputBuffer, card: CallCard, look: Look) -> Drawn:
    """Return all kept lines; if lines are missing, an offer to show the whole output.

    Of an ended job, only the end may have been seen.
    """
    kept = output.lines()
    hidden = output.total - len(output)
    gap = 0 if output.gap_at is None and card.job and hidden else output.gap_at
    drawn = Drawn(_behind_bar((_printed(raw, look) for raw in kept[:gap]), look))
    if gap is not None:
        missing = f"… {counted(hidden, 'line')} more: Enter opens the whole output"
        offer = line([(missing, look.palette.accent)])
        drawn.add(
            Drawn(_behind_bar([offer], look), [Spot(0, 0, card.job or card.call_id, whole=True)])
        )
        drawn.lines += _behind_bar((_printed(raw, look) for raw in kept[gap:]), look)
    return drawn


def _printed(raw: str, look: Look, style: StyleName = "text") -> Line:
    """Draw a printed line on one row; if it is too long it is cut, but copied in full."""
    drawn = ansi_line(raw, look.palette.named(style))
    most = look.width - 2
    if drawn.strip.cell_length <= most:
        return drawn
    strip = drawn.strip.crop(0, max(0, most - 1))
    end = Segment("…", look.palette.muted)
    return replace(drawn, strip=type(strip)([*strip, end], strip.cell_length + 1))


def _offer(words: str, look: Look) -> Drawn:
    return Drawn([line([(words, look.palette.muted)])], [Spot(0, 0)])


def _behind_bar(found: Iterable[Line], look: Look) -> list[Line]:
    bar = Segment("│ ", look.palette.rule)
    return [indented(row, bar) for row in found]
