"""Draws the attachments of a prompt: a row each and, for an image, a thumbnail in half blocks."""

import base64
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.color import Color
from rich.style import Style

from codeagent.tui.rendering.lines import Line, cells, cut_end, cut_middle, flat, line
from codeagent.tui.rendering.palette import Palette

if TYPE_CHECKING:  # the first frame does not show any
    from codeagent.core.display import Thumbnail

_MOST_COLUMNS = 64
_MOST_ROWS = 32
"""Pixels; a log may come from elsewhere."""


def attached_row(name: str, about: str, width: int, palette: Palette) -> Line:
    """Return a row with a name and a size."""
    size = cut_end(flat(about), max(1, width // 2))
    named = cut_middle(flat(name), max(1, width - cells(size) - 4))
    return line([("+ ", palette.accent), (named, palette.text), (f"  {size}", palette.muted)])


def thumbnail_lines(thumbnail: "Thumbnail", width: int, palette: Palette) -> list[Line]:
    """Return the rows of an image, cut to the width; none without colours, or if it cannot be
    read."""
    return [] if palette.accent.color is None else _half_blocks(thumbnail, width)


@lru_cache(64)
def _half_blocks(thumbnail: "Thumbnail", width: int) -> list[Line]:
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
