"""How high a block will be, guessed without drawing it."""

from typing import assert_never

from codeagent.core.display import DiffBlock
from codeagent.tui.transcript.blocks import (
    AnswerBlock,
    AnyBlock,
    Batch,
    CallCard,
    CommandBlock,
    Detail,
    Ending,
    Greeting,
    PromptBlock,
    Remark,
    Thoughts,
)
from codeagent.tui.transcript.render import PROMPT_ROWS
from codeagent.tui.transcript.render_card import DONE_ROWS, OWN_ROWS
from codeagent.tui.transcript.render_output import BRIEF_DIFF_ROWS, LIVE_ROWS


def estimate(block: AnyBlock, width: int, detail: Detail) -> int:
    """Rows, without the gap above. Costs next to nothing, whatever the block holds."""
    width = max(width, 1)
    match block:
        case Greeting():
            return len(block.rows)
        case PromptBlock():
            rows = len(block.text) // width + block.text.count("\n") + 1
            return rows if detail == "full" else min(rows, PROMPT_ROWS + 1)
        case AnswerBlock():
            return _text(block.pieces.length, block.pieces.newlines, width)
        case Thoughts():
            if not block.pieces.length:
                return 0
            return 1 + (_text(block.pieces.length, block.pieces.newlines, width) if detail == "full" else 0)
        case Batch():
            return 1 + (0 if detail == "quiet" else sum(_card(card, detail) for card in block.cards))
        case CommandBlock():
            rows = 1 + _card(block.card, detail)
            return rows if block.card.output is None else rows + min(OWN_ROWS, len(block.card.output))
        case Remark():
            return 1 + len(block.text) // width
        case Ending():
            return 1 + len(block.text) // width + len(block.lines)
        case _:
            assert_never(block)


def _text(length: int, newlines: int, width: int) -> int:
    return 0 if not length else length // width + newlines + 1


def _card(card: CallCard, detail: Detail) -> int:
    if detail == "quiet":
        return 1
    printed = 0 if card.output is None else len(card.output)
    changed = sum(shown.after.count("\n") + 3 for shown in card.shown if isinstance(shown, DiffBlock))
    if detail == "full":
        return 1 + printed + changed
    shown = {"running": LIVE_ROWS, "failed": LIVE_ROWS, "done": DONE_ROWS}.get(card.state, 0)
    return 1 + min(changed, BRIEF_DIFF_ROWS) + min(printed, shown)
