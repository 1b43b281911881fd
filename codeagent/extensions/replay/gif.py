"""Draws a recording of the screen as an animated GIF; what it needs is in `codeagent[gif]`."""

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import pyte
from fontpkg.errors import StyleNotAvailable
from fontpkg.pil import truetype
from PIL import Image, ImageDraw, ImageFont
from pyte.screens import Char

from codeagent.core.dataclass import dataclass

Rows = tuple[tuple[Char, ...], ...]
Colour = tuple[int, int, int]
_FRAME = 0.1
"""How long the shortest frame is shown, in seconds."""
_SETTLED, _LONGEST = 0.04, 0.3
"""Seconds without a change after which a screen counts as complete, and after which it is shown
even if it is not."""
_LAST = 3.0
"""Seconds for which the last frame is shown before the GIF starts again."""
_POINTS = 15
"""Font size; characters are then 9 pixels wide."""
_FONTS = ("JetBrains Mono", "Fira Code")
"""Characters that the first one lacks are drawn in the second one."""
_SIMILAR = {"✗": "×", "✘": "×", "⋯": "…", "➜": "→"}
"""Substitutes for characters that neither font has."""
_BRAILLE = range(0x2800, 0x2900)
_DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
"""Column and row of the dot for each bit of a Braille pattern."""
_NO_GLYPH = "\U0010fffe"
_COLOURS = 256
_NAMED = {
    "black": (0, 0, 0),
    "red": (205, 49, 49),
    "green": (13, 188, 121),
    "brown": (229, 229, 16),
    "blue": (36, 114, 200),
    "magenta": (188, 63, 188),
    "cyan": (17, 168, 205),
    "white": (229, 229, 229),
}


def animated(size: tuple[int, int], written: Sequence[tuple[float, str]]) -> bytes:
    """Return the GIF of a screen of so many columns and rows; `written`: what was drawn, and when
    in seconds."""
    frames = list(_frames(size, written))
    brushes = _brushes({cell for _, rows in frames for row in rows for cell in row})
    images = _images(size, (rows for _, rows in frames), brushes)
    durations = [round(seconds * 100) * 10 for seconds, _ in frames]
    target = io.BytesIO()
    next(images).save(
        target,
        "GIF",
        save_all=True,
        append_images=images,
        duration=durations,
        loop=0,
        disposal=1,
        optimize=False,
    )
    return target.getvalue()


def _frames(
    size: tuple[int, int], written: Sequence[tuple[float, str]]
) -> Iterator[tuple[float, Rows]]:
    """Yield each screen that differs from the one before, with the seconds for which it was
    shown."""
    screen = pyte.Screen(*size)
    stream = pyte.Stream(screen)
    shown: Rows = ()
    since = before = drawing = 0.0
    for at, text in written:
        from_then, settled = max(before, since + _FRAME), at - before >= _SETTLED
        if from_then <= at and (settled or at - drawing >= _LONGEST):
            rows = _rows(screen, shown)
            if shown and rows != shown:
                yield from_then - since, shown
                since = from_then
            shown, drawing = rows, at
        drawing = at if settled else drawing
        stream.feed(text)
        before = at
    rows = _rows(screen, shown)
    if shown and rows != shown:
        yield max(before - since, _FRAME), shown
        since = before
    yield max(before - since, 0.0) + _LAST, rows


def _rows(screen: pyte.Screen, before: Rows) -> Rows:
    """Return what the screen shows; rows that nothing was written to are taken from `before`."""
    dirty, width = screen.dirty, range(screen.columns)
    rows = tuple(
        before[y] if before and y not in dirty else tuple(screen.buffer[y][x] for x in width)
        for y in range(screen.lines)
    )
    dirty.clear()
    return rows


@dataclass(frozen=True)
class _Brushes:
    """The palette, and its entry for each pair of colours at each strength of ink."""

    palette: tuple[Colour, ...]
    entries: dict[tuple[Colour, Colour], list[int]]


def _brushes(cells: set[Char]) -> _Brushes:
    """Choose a palette with as many shades between the two colours of each cell as it has room
    for."""
    pairs = sorted({_colours(cell) for cell in cells})
    for shades in (8, 6, 5, 4, 3, 2):
        mixed = {
            pair: [_mixed(*pair, step / (shades - 1)) for step in range(shades)] for pair in pairs
        }
        palette = tuple(dict.fromkeys(colour for each in mixed.values() for colour in each))
        if len(palette) <= _COLOURS:
            break
    palette = palette[:_COLOURS]

    @cache
    def entry(colour: Colour) -> int:
        return min(range(len(palette)), key=lambda at: math.dist(palette[at], colour))

    steps = [round(ink / 255 * (shades - 1)) for ink in range(256)]
    entries = {pair: [entry(each[step]) for step in steps] for pair, each in mixed.items()}
    return _Brushes(palette, entries)


def _colours(cell: Char) -> tuple[Colour, Colour]:
    """Return the background and the foreground of a cell."""
    back, fore = _rgb(cell.bg, (0, 0, 0)), _rgb(cell.fg, (213, 218, 226))
    return (fore, back) if cell.reverse else (back, fore)


@cache
def _rgb(name: str, default: Colour) -> Colour:
    if name in _NAMED:
        return _NAMED[name]
    return default if len(name) != 6 else (int(name[:2], 16), int(name[2:4], 16), int(name[4:], 16))


def _mixed(back: Colour, fore: Colour, ink: float) -> Colour:
    red, green, blue = (round(a + (b - a) * ink) for a, b in zip(back, fore, strict=True))
    return red, green, blue


def _images(
    size: tuple[int, int], frames: Iterable[Rows], brushes: _Brushes
) -> Iterator[Image.Image]:
    """Yield a picture for each screen; only the rows that changed are drawn."""
    ink = _Ink()
    width, height = ink.size
    sheet = Image.new("L", (size[0] * width, size[1] * height))
    palette = [part for colour in brushes.palette for part in colour]
    drawn: Rows = ((),) * size[1]
    tiles: dict[tuple[Char, int], Image.Image] = {}
    for rows in frames:
        for y, row in enumerate(rows):
            if row == drawn[y]:
                continue
            for x, cell in enumerate(row):
                wide = 1 + (x + 1 < len(row) and row[x + 1].data == "")
                if cell.data == "":
                    continue  # the right half of a wide character
                tile = tiles.get((cell, wide))
                if tile is None:
                    tile = tiles[cell, wide] = ink.mask(cell, wide).point(
                        brushes.entries[_colours(cell)]
                    )
                sheet.paste(tile, (x * width, y * height))
        drawn = rows
        image = sheet.copy()
        image.putpalette(palette)
        yield image


class _Ink:
    """Draws single characters as masks: how much ink each pixel has."""

    def __init__(self) -> None:
        self._fonts = {
            (bold, italic): [_font(name, bold=bold, italic=italic) for name in _FONTS]
            for bold in (False, True)
            for italic in (False, True)
        }
        ascent, descent = self._fonts[False, False][0].getmetrics()
        self._ascent = ascent
        self.size = round(self._fonts[False, False][0].getlength("M")), ascent + descent

    def mask(self, cell: Char, wide: int) -> Image.Image:
        """Draw a cell that is `wide` columns wide."""
        width, height = self.size[0] * wide, self.size[1]
        mask = Image.new("L", (width, height))
        pen = ImageDraw.Draw(mask)
        text = _SIMILAR.get(cell.data, cell.data)
        if len(text) == 1 and ord(text) in _BRAILLE:
            for bit, (column, row) in enumerate(_DOTS):
                if ord(text) - _BRAILLE.start & 1 << bit:
                    left, top = (1 + 2 * column) * width // 4 - 1, (2 + 2 * row) * height // 10
                    pen.rectangle((left, top, left + 1, top + 1), fill=255)
        elif not text.isspace():
            fonts = self._fonts[cell.bold, cell.italics]
            font = next((one for one in fonts if _has(one, text[0])), fonts[0])
            pen.text((0, self._ascent), text, fill=255, font=font, anchor="ls")
        for crossed, at in (
            (cell.underscore, self._ascent + 2),
            (cell.strikethrough, self._ascent * 2 // 3),
        ):
            if crossed:
                pen.line((0, at, width, at), fill=255)
        return mask


def _font(name: str, *, bold: bool, italic: bool) -> ImageFont.FreeTypeFont:
    weight = "bold" if bold else "normal"
    font: ImageFont.FreeTypeFont
    try:
        font = truetype(name, _POINTS, weight, "italic" if italic else "normal")
    except StyleNotAvailable:
        font = truetype(name, _POINTS, weight)
    return font


@cache
def _has(font: ImageFont.FreeTypeFont, character: str) -> bool:
    """Whether the font can draw the character as anything but the box for those it lacks."""
    return bytes(font.getmask(character)) != bytes(font.getmask(_NO_GLYPH))
