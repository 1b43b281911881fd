"""What a block says, without how it is drawn: for copying a block and for looking through everything."""

from typing import assert_never

from codeagent.core.display import DisplayBlock, TerminalBlock
from codeagent.tui.rendering.block_text import text_of_block
from codeagent.tui.transcript.blocks import (
    AnswerBlock,
    AnyBlock,
    Batch,
    CallCard,
    CommandBlock,
    Ending,
    Greeting,
    PromptBlock,
    Remark,
    Thoughts,
)


def wording(block: AnyBlock) -> str:
    """Everything a block holds, folded parts included; Markdown as it was written."""
    match block:
        case PromptBlock() | AnswerBlock() | Thoughts() | Remark():
            return block.text
        case Greeting():
            return ""
        case Batch():
            return "\n".join(card_wording(card) for card in block.cards)
        case CommandBlock():
            return card_wording(block.card)
        case Ending():
            return "\n".join([block.text or block.reason, *block.lines])
        case _:
            assert_never(block)


def card_wording(card: CallCard) -> str:
    """The call, its outcome, and what is kept of what it printed and changed."""
    printed = [] if card.output is None else card.output.lines()
    parts = [f"{card.name} {card.target}".rstrip(), card.error, card.said, *map(_shown, card.shown), *printed]
    return "\n".join(part for part in parts if part)


def _shown(block: DisplayBlock) -> str:
    """What it printed comes with the rest of the output."""
    return "" if isinstance(block, TerminalBlock) else "\n".join(said.text for said in text_of_block(block))
