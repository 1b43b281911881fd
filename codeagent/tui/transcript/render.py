"""Draws blocks as rows at a width and a detail: pure functions, for everything but an answer that
is still growing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from codeagent.core.display import DiffBlock
from codeagent.tui.rendering.attached import attached_row, thumbnail_lines
from codeagent.tui.rendering.lines import Line, clipped, cut_end, flat, indented, line, paragraph
from codeagent.tui.rendering.markdown import render_markdown
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.transcript.blocks import (
    ENDED,
    AnswerBlock,
    AnyBlock,
    Batch,
    CallCard,
    ChildView,
    CommandBlock,
    Detail,
    Ending,
    Greeting,
    Pieces,
    PromptBlock,
    Remark,
    Thoughts,
)
from codeagent.tui.transcript.layout import MARGIN, Drawn, Look, Spot
from codeagent.tui.transcript.render_call import (
    BRIEF_DIFF_ROWS,
    DONE_ROWS,
    LIVE_ROWS,
    OWN_ROWS,
    Memo,
    draw_cards,
    state_words,
)
from codeagent.tui.transcript.spelling import counted, dollars, duration, tokens, whole

PROMPT_ROWS = 30
"""Rows shown of a prompt that is longer than `_LONG_PROMPT`."""
_LONG_PROMPT = 40
CHILD_ROWS = 6
"""Rows shown of a child agent while it is working."""
THOUGHTS_GUTTER = "  "
_OPEN_THOUGHTS_ROWS = 3
_SPEAKERS = {
    "prompt": "you",
    "steer": "you (while running)",
    "interrupt": "you (interrupting)",
    "follow_up": "you (when it was done)",
    "note": "codeagent",
    "task": "task",
}
_ENDINGS = {
    "failed": "failed",
    "limit": "stopped at a limit",
    "denied": "ended: denied calls were not done",
    "interrupted": "stopped",
}


def draw(block: AnyBlock, look: Look, memo: Memo | None = None) -> Drawn:
    """Return the rows of a block, none if it has nothing to show. Rows are never wider than the
    look.

    `memo` belongs to a batch that is drawn often.
    """
    drawn = _drawn(block, look, memo)
    drawn.lines = [clipped(row, look.width) for row in drawn.lines]
    return drawn


def _drawn(block: AnyBlock, look: Look, memo: Memo | None) -> Drawn:
    match block:
        case Greeting():
            return _greeting(block, look)
        case PromptBlock():
            return _prompt(block, look)
        case AnswerBlock():
            return draw_answer(block, render_markdown(block.text, look.width, look.palette), look)
        case Thoughts():
            return _thoughts(block, look)
        case Batch():
            return _batch(block, look, memo)
        case CommandBlock():
            return _command(block, look)
        case Remark():
            return _remark(block, look)
        case Ending():
            return _ending(block, look)
        case _:
            assert_never(block)


def draw_answer(block: AnswerBlock, body: list[Line], look: Look) -> Drawn:
    """Return an answer whose Markdown was already rendered."""
    if not (block.cut or block.stale):
        return Drawn(body)
    mark = "broken off here; the next attempt replaces it" if block.stale else "interrupted here"
    return Drawn([*body, *paragraph(mark, look.width, look.palette.warning)])


def draw_thoughts(block: Thoughts, body: list[Line], look: Look) -> Drawn:
    """Return thoughts whose rows are known; blank rows at the end are left out."""
    if not block.pieces.length:
        return Drawn()
    took = 0.0 if block.ended is None else block.ended - block.began
    if block.open:
        words = f"thinking {whole(look.now - block.began)}"
    else:
        words = f"thought for {duration(took)}" if took >= 0.05 else "thought"
    while body and not body[-1].text:
        body = body[:-1]
    return Drawn(
        [line([(f"{'▾' if body else '▸'} {words}", look.palette.talk.thinking)]), *body],
        [Spot(0, 0)],
    )


def toggled(block: AnyBlock, base: Detail) -> Detail | None:
    """Return the block's own detail after folding or opening it, if the whole transcript is at
    `base`."""
    shown = block.detail or base
    if shown == "full":
        return None if base != "full" else "normal"
    return None if base == "full" else "full"


def gap(before: AnyBlock | None, block: AnyBlock) -> int:
    """Return the blank rows between two blocks: calls, thoughts and remarks stay together, messages
    are set apart."""
    if before is None:
        return 0
    together = (Thoughts, Batch, Remark)
    return 0 if isinstance(before, together) and isinstance(block, together) else 1


def runs(block: AnyBlock) -> bool:
    """Whether the block shows a duration that is counting."""
    match block:
        case Batch():
            return any(card.state == "running" for card in block.cards)
        case CommandBlock():
            return block.card.state == "running"
        case Thoughts():
            return block.open
        case Greeting() | PromptBlock() | AnswerBlock() | Remark() | Ending():
            return False
        case _:
            assert_never(block)


def estimate(block: AnyBlock, width: int, detail: Detail) -> int:
    """Estimate the rows without the gap above, at almost no cost whatever the block holds."""
    width = max(width, 1)
    match block:
        case Greeting():
            return len(block.rows)
        case PromptBlock():
            rows = len(block.text) // width + block.text.count("\n") + 1
            return rows if detail == "full" else min(rows, PROMPT_ROWS + 1)
        case AnswerBlock():
            return _written(block.pieces, width)
        case Thoughts():
            written = _written(block.pieces, width)
            return min(written, 1) + (written if detail == "full" else 0)
        case Batch():
            if detail == "quiet":
                return 1
            return (len(block.cards) != 1) + sum(_card_height(card, detail) for card in block.cards)
        case CommandBlock():
            rows = 1 + _card_height(block.card, detail)
            return (
                rows if block.card.output is None else rows + min(OWN_ROWS, len(block.card.output))
            )
        case Remark():
            return 1 + len(block.text) // width
        case Ending():
            return 1 + len(block.text) // width + len(block.lines)
        case _:
            assert_never(block)


def _written(pieces: Pieces, width: int) -> int:
    return pieces.length // width + pieces.newlines + 1 if pieces.length else 0


def _card_height(card: CallCard, detail: Detail) -> int:
    if detail == "quiet":
        return 1
    nested = (
        0 if card.child is None else 1 + (CHILD_ROWS if card.child.phase or detail == "full" else 0)
    )
    printed = 0 if card.output is None else len(card.output)
    changed = sum(
        shown.after.count("\n") + 3 for shown in card.shown if isinstance(shown, DiffBlock)
    )
    if detail == "full":
        return 1 + nested + printed + changed
    shown = {"running": LIVE_ROWS, "failed": LIVE_ROWS, "done": DONE_ROWS}.get(card.state, 0)
    return 1 + nested + min(changed, BRIEF_DIFF_ROWS) + min(printed, shown)


def printed(blocks: Sequence[AnyBlock], width: int, detail: Detail, now: float) -> str:
    """Return all blocks as they look, without colours: for `/print`, and to leave in the terminal
    at the end.

    `width` in cells, `now` in seconds since the epoch.
    """
    rows: list[str] = []
    for index, block in enumerate(blocks):
        drawn = draw(block, Look(max(1, width - MARGIN), block.detail or detail, Palette(), now))
        if not drawn.lines or isinstance(block, Greeting):
            continue
        rows += [""] * gap(blocks[index - 1] if index else None, block)
        rows += [(drawn.margin.text + line.strip.text).rstrip() for line in drawn.lines]
    return "\n".join(rows)


def _greeting(block: Greeting, look: Look) -> Drawn:
    """Return one row per line, cut to fit, because all of it can be found elsewhere."""
    palette = look.palette
    (title, beside), *rows = block.rows or (("", ""),)
    column = max((cell_len(label) for label, _ in rows), default=0) + 2
    lines = [line([(f"{title} ", palette.strong), (beside, palette.muted)])]
    for label, text in rows:
        said = cut_end(flat(text), max(1, look.width - column))
        lines.append(
            line([(label + " " * (column - cell_len(label)), palette.muted), (said, palette.text)])
        )
    return Drawn(lines)


def _prompt(block: PromptBlock, look: Look) -> Drawn:
    palette = look.palette
    speaker = _SPEAKERS.get(block.source, "you")
    own_row = speaker != "you" or look.width < 30
    first = "" if own_row else f"{speaker}    "
    text = block.text.rstrip("\n")
    said = text if look.detail == "full" else text[: 2 * _LONG_PROMPT * look.width]
    found = paragraph(said, look.width, palette.text, first=first, gutter_style=palette.talk.user)
    drawn = Drawn(found, margin=Segment("▌ ", palette.talk.user))
    if look.detail != "full" and len(found) > _LONG_PROMPT:
        more = f"… {counted(len(text), 'character')} in all (click to expand)"
        found[PROMPT_ROWS:] = [line([(more, palette.muted)])]
        drawn.spots.append(Spot(PROMPT_ROWS + own_row, PROMPT_ROWS + own_row))
    for one in block.attached:
        found.append(attached_row(one.name, one.about, look.width, palette))
        if one.thumbnail is not None and look.detail != "quiet":
            found += thumbnail_lines(one.thumbnail, look.width, palette)
    if own_row:
        found[:1] = [
            line([], gutter=Segment(speaker, palette.talk.user)),
            replace(found[0], joins=""),
        ]
    return drawn


def _thoughts(block: Thoughts, look: Look) -> Drawn:
    body: list[Line] = []
    if look.detail == "full":
        body = paragraph(block.text, look.width, look.palette.talk.thinking, first=THOUGHTS_GUTTER)
    elif block.open and look.detail == "normal":
        recent = block.pieces.last((_OPEN_THOUGHTS_ROWS + 1) * look.width).rstrip()
        body = paragraph(recent, look.width, look.palette.talk.thinking, first=THOUGHTS_GUTTER)[
            -_OPEN_THOUGHTS_ROWS:
        ]
    return draw_thoughts(block, body, look)


def _batch(block: Batch, look: Look, memo: Memo | None) -> Drawn:
    opened = look.detail == "full" or (look.detail == "normal" and not block.finished)
    quiet = look.detail == "quiet"
    number = f" · batch {block.number}" if block.number else ""
    fold = Segment("▾ " if opened else "▸ ", look.palette.accent)
    if len(block.cards) == 1 and not quiet:
        return draw_cards(block.cards, look, fold, memo, beside=number, draw_child=_child)
    words = [duration(block.duration_ms / 1000)] if block.finished else []
    words += _troubles(block.cards, look) if quiet else []
    beside = number + "".join(f" · {word}" for word in words)
    calls = _calls(block.cards, targets=quiet)
    header = paragraph(
        cut_end(calls, max(20, look.width - 2 - cell_len(beside))) + beside,
        look.width,
        look.palette.muted,
        first=fold.text,
        gutter_style=look.palette.accent,
    )
    drawn = Drawn(header, [Spot(0, len(header) - 1)])
    if not quiet:
        drawn.add(draw_cards(block.cards, look, Segment("  "), memo, draw_child=_child))
    return drawn


def _calls(cards: Sequence[CallCard], *, targets: bool) -> str:
    """Return what a batch did, such as `read ×2, bash`; with targets, `read a.py, b.py · bash ls`."""
    names: dict[str, list[str]] = {}
    for card in cards:
        names.setdefault(flat(card.name), []).append(flat(card.target))
    if targets:
        return " · ".join(f"{name} {', '.join(filter(None, on))}" for name, on in names.items())
    return ", ".join(name + (f" ×{len(on)}" if len(on) > 1 else "") for name, on in names.items())


def _child(child: ChildView, look: Look) -> Drawn:
    """Return a line of state and, below it, the end of a child's conversation, or all of it at full
    detail."""
    words = [child.name, child.phase, counted(child.calls, "call") if child.calls else ""]
    words += [
        f"{tokens(child.tokens)} tokens" if child.tokens else "",
        dollars(child.cost_usd) if child.cost_usd else "",
    ]
    said = " · ".join(flat(word, 60) for word in words if word)
    drawn = Drawn(paragraph(said, look.width, look.palette.muted))
    everything = look.detail == "full"
    if not everything and not child.phase:
        return drawn
    inner = replace(look, width=max(1, look.width - 2), detail="normal")
    rows: list[Line] = []
    for block in reversed(child.blocks):
        rows = [*draw(block, replace(inner, detail=block.detail or inner.detail)).lines, *rows]
        if not everything and len(rows) >= CHILD_ROWS:
            rows = rows[-CHILD_ROWS:]
            break
    bar = Segment("│ ", look.palette.rule)
    drawn.lines += [indented(row, bar) for row in rows]
    return drawn


def _troubles(cards: list[CallCard], look: Look) -> list[str]:
    """Return what one line about a batch must not hide: calls that wait or run, and those that
    failed."""
    found = [
        f"{flat(card.name, 40)} {state_words(card, look.now)}"
        for card in cards
        if card.state in ("running", "asking", "background")
    ]
    for state in ("failed", "timeout", "denied", "skipped", "cancelled", "stopped", "lost"):
        ended = [card for card in cards if card.state == state]
        found += [f"{len(ended)} {state_words(ended[0], look.now)}"] if ended else []
    return found


def _command(block: CommandBlock, look: Look) -> Drawn:
    words = "you ran" if block.card.state in ENDED else "you are running"
    header = f"{words} a command" + ("" if block.shared else ", not shown to the model")
    drawn = Drawn(
        paragraph(header, look.width, look.palette.muted),
        margin=Segment("▌ ", look.palette.talk.user),
    )
    drawn.add(draw_cards([block.card], look, Segment(""), own=True))
    return drawn


def _remark(block: Remark, look: Look) -> Drawn:
    palette = look.palette
    word, style = {
        "info": ("note", palette.muted),
        "told": ("told the model", palette.muted),
        "provider": ("provider", palette.muted),
        "warning": ("warning", palette.warning),
        "error": ("error", palette.error),
    }[block.level]
    text_style = palette.muted if block.level == "info" else palette.text
    return Drawn(
        paragraph(block.text, look.width, text_style, first=f"{word}  ", gutter_style=style)
    )


def _ending(block: Ending, look: Look) -> Drawn:
    palette = look.palette
    reason = _ENDINGS.get(block.reason, flat(block.reason, 40))
    if block.reason == "done":
        return Drawn(paragraph(f"worked {block.text}", look.width, palette.muted))
    style: Style = palette.error if block.reason == "failed" else palette.warning
    mark = "✗ " if block.reason == "failed" else "– "
    text = (
        f"{reason}: {block.text}"
        if block.text and ":" not in reason
        else f"{reason}. {block.text}".rstrip(". ")
    )
    found = paragraph(text, look.width, style, first=mark, gutter_style=style)
    indent = " " * cell_len(mark)
    for item in block.lines:
        found += paragraph(
            item, look.width, palette.text, first=f"{indent}· ", gutter_style=palette.muted
        )
    return Drawn(found)
