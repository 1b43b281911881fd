"""Draws what a prompt brought with it, and images in half blocks: two pixels in a cell."""

import base64
import zlib
from functools import lru_cache

from rich.color import Color
from rich.style import Style

from codeagent.core.display import Thumbnail
from codeagent.core.messages import Attached
from codeagent.tui.rendering.lines import Line, cut_end, cut_middle, flat, line
from codeagent.tui.transcript.layout import Look

_MOST_COLUMNS = 64
_MOST_ROWS = 32
"""Pixels; a log may come from elsewhere."""


def attached_lines(attached: Attached, look: Look) -> list[Line]:
    """Return a row with name and size and, of an image, what it looks like."""
    size = cut_end(flat(attached.about), max(1, look.width // 2))
    name = cut_middle(flat(attached.name), max(1, look.width - len(size) - 4))
    head = line(
        [("+ ", look.palette.accent), (name, look.palette.text), (f"  {size}", look.palette.muted)]
    )
    if attached.thumbnail is None or look.detail == "quiet":
        return [head]
    return [head, *thumbnail_lines(attached.thumbnail, look.width)]


@lru_cache(64)
def thumbnail_lines(thumbnail: Thumbnail, width: int) -> list[Line]:
    """Return the rows of an image, cut to the width; none if it cannot be read."""
    columns = thumbnail.width
    if not 0 < columns <= _MOST_COLUMNS:
        return []
    size = 3 * columns
    try:
        packed = base64.b64decode(thumbnail.pixels)
        pixels = zlib.decompressobj().decompress(packed, size * _MOST_ROWS)
    except (ValueError, zlib.error):
        return []
    rows = [pixels[at : at + size] for at in range(0, len(pixels) - size + 1, size)]
    pairs = [rows[at : at + 2] for at in range(0, len(rows), 2)]
    shown = min(columns, width)
    return [line([_cell(pair, 3 * column) for column in range(shown)]) for pair in pairs]


def _cell(pair: list[bytes], at: int) -> tuple[str, Style]:
    """Return a half block: the upper pixel above the lower one, which the last row may lack."""
    upper, *lower = (Color.from_rgb(*row[at : at + 3]) for row in pair)
    return "▀", Style.from_color(upper, *lower)
