"""The colours a program printed, as rich styles; everything else that acts on a terminal is shown."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from rich.color import Color
from rich.style import Style

from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette

_SGR = re.compile(r"\x1b\[([0-9;:]*)m")


class Ink(NamedTuple):
    """How a terminal would write at some point of the output. Nothing is ever concealed, and nothing blinks."""

    color: Color | None = None
    background: Color | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False
    strike: bool = False


FRESH = Ink()


def ansi_line(raw: str, palette: Palette, base: Style | None = None) -> Line:
    """A printed line that begins without colours; `base` (the palette's text) is where it sets none."""
    return line(ansi_parts(raw, palette.text if base is None else base)[0])


def ansi_parts(raw: str, base: Style, ink: Ink = FRESH) -> tuple[list[tuple[str, Style | None]], Ink]:
    """A printed line as (text, style), and how the line after it begins."""
    if "\x1b" not in raw:
        return [(raw, _style(base, ink))], ink
    parts: list[tuple[str, Style | None]] = []
    at = 0
    for found in _SGR.finditer(raw):
        if found.start() > at:
            parts.append((raw[at : found.start()], _style(base, ink)))
        ink = _after(ink, found[1])
        at = found.end()
    if at < len(raw):
        parts.append((raw[at:], _style(base, ink)))
    return parts, ink


@lru_cache(1024)
def _style(base: Style, ink: Ink) -> Style:
    if ink == FRESH:
        return base
    return base + Style(
        color=ink.color,
        bgcolor=ink.background,
        bold=ink.bold or None,
        dim=ink.dim or None,
        italic=ink.italic or None,
        underline=ink.underline or None,
        reverse=ink.reverse or None,
        strike=ink.strike or None,
    )


@lru_cache(1024)
def _after(ink: Ink, parameters: str) -> Ink:
    """How it goes on after an SGR sequence; what it says that is not known is left out."""
    codes = iter(parameters.split(";"))
    for code in codes:
        number, *rest = [int(part[-9:] or "0") for part in code.split(":")]
        if number in (38, 48):
            colour = _colour(rest[:1] + rest[-3:] if rest[:1] == [2] else rest, codes)
            ink = _coloured(ink, number, colour) if colour is not None else ink
        else:
            ink = _changed(ink, number, bool(not rest or rest[0]))
    return ink


def _coloured(ink: Ink, number: int, colour: Color | None) -> Ink:
    return ink._replace(color=colour) if number < 40 or 90 <= number < 98 else ink._replace(background=colour)


def _colour(parts: list[int], codes: Iterator[str]) -> Color | None:
    """The colour behind 38 or 48: from the same parameter, or from those that follow."""
    following = not parts
    if following:
        parts = [int(next(codes, "0")[-9:].replace(":", "") or "0")]
    count = {2: 3, 5: 1}.get(parts[0], 0)
    if following:
        parts += [int(next(codes, "0")[-9:].replace(":", "") or "0") for _ in range(count)]
    numbers = parts[1:]
    if not count or len(numbers) != count or max(numbers) > 255:
        return None
    return Color.from_ansi(numbers[0]) if count == 1 else Color.from_rgb(*numbers)


def _changed(ink: Ink, number: int, on: bool) -> Ink:
    match number:
        case 0:
            return FRESH
        case 1:
            return ink._replace(bold=True)
        case 2:
            return ink._replace(dim=True)
        case 3:
            return ink._replace(italic=True)
        case 4:
            return ink._replace(underline=on)
        case 7:
            return ink._replace(reverse=True)
        case 9:
            return ink._replace(strike=True)
        case 21:
            return ink._replace(underline=True)
        case 22:
            return ink._replace(bold=False, dim=False)
        case 23:
            return ink._replace(italic=False)
        case 24:
            return ink._replace(underline=False)
        case 27:
            return ink._replace(reverse=False)
        case 29:
            return ink._replace(strike=False)
        case 39 | 49:
            return _coloured(ink, number, None)
    if 30 <= number < 38 or 40 <= number < 48:
        return _coloured(ink, number, Color.from_ansi(number % 10))
    if 90 <= number < 98 or 100 <= number < 108:
        return _coloured(ink, number, Color.from_ansi(number % 10 + 8))
    return ink
