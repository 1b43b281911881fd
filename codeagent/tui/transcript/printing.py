"""The whole transcript as plain text: for `/print`, for what stays in the terminal at the end, for screen readers."""

from codeagent.tui.rendering.palette import Palette
from codeagent.tui.transcript.blocks import Detail, Greeting
from codeagent.tui.transcript.document import Document
from codeagent.tui.transcript.drawn import MARGIN, Look
from codeagent.tui.transcript.render import draw, gap


def printed(document: Document, width: int, detail: Detail, now: float) -> str:
    """As it looks, without colours; `width` in cells, `now` in seconds since the epoch."""
    rows: list[str] = []
    for index, block in enumerate(document.blocks):
        drawn = draw(block, Look(max(1, width - MARGIN), block.detail or detail, Palette(), now))
        if not drawn.lines or isinstance(block, Greeting):
            continue
        rows += [""] * gap(document.blocks[index - 1] if index else None, block)
        rows += [(drawn.margin.text + line.strip.text).rstrip() for line in drawn.lines]
    return "\n".join(rows)
