"""Turns the colours that a program printed into rich styles; other control sequences are shown as
text."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from rich.color import Color
from rich.style import Style

from codeagent.tui.rendering.lines import Line, line

_SGR = re.compile(r"\x1b\[([0-9;:]*)m")


class _Ink(NamedTuple):
    """The current attributes of a terminal, named as in `Style`. Text is never concealed and never
    blinks."""

    color: Color | None = None
    bgcolor: Color | None = None
    bold: bool | None = None
    dim: bool | None = None
    italic: bool | None = None
    underline: bool | None = None
    reverse: bool | None = None
    strike: bool | None = None


_FRESH = _Ink()
_ATTRIBUTES: dict[int, dict[str, Any]] = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underline": True},
    7: {"reverse": True},
    9: {"strike": True},
    21: {"underline": True},
    22: {"bold": None, "dim": None},
    23: {"italic": None},
    24: {"underline": None},
    27: {"reverse": None},
    29: {"strike": None},
}
_COLOURS: dict[int, dict[str, Any]] = {
    first + number: {name: Color.from_ansi(number + brighter)}
    for first, name, brighter in (
        (30, "color", 0),
        (40, "bgcolor", 0),
        (90, "color", 8),
        (100, "bgcolor", 8),
    )
    for number in range(8)
}
_CHANGES = {**_ATTRIBUTES, **_COLOURS, 39: {"color": None}, 49: {"bgcolor": None}}
"""What each number in an SGR sequence changes."""


def ansi_line(raw: str, base: Style) -> Line:
    """Return a printed line in styles, starting without colours; `base` (the palette's text) is the
    default style."""
    return line(_parts(raw, base))


def _parts(raw: str, base: Style) -> Iterator[tuple[str, Style]]:
    ink, at = _FRESH, 0
    for found in _SGR.finditer(raw):
        if found.start() > at:
            yield raw[at : found.start()], _style(base, ink)
        ink, at = _after(ink, found[1]), found.end()
    yield raw[at:], _style(base, ink)


@lru_cache(1024)
def _style(base: Style, ink: _Ink) -> Style:
    return base if ink == _FRESH else base + Style(**ink._asdict())


@lru_cache(1024)
def _after(ink: _Ink, parameters: str) -> _Ink:
    """Return the attributes after an SGR sequence; unknown parameters are ignored."""
    codes = iter(parameters.split(";"))
    for code in codes:
        number, *rest = map(_number, code.split(":"))
        match number, rest:
            case 0, _:
                ink = _FRESH
            case 38 | 48, _:
                colour = _colour(rest[:1] + rest[-3:] if rest[:1] == [2] else rest, codes)
                if colour is not None:
                    ink = (
                        ink._replace(color=colour) if number == 38 else ink._replace(bgcolor=colour)
                    )
            case 4, [0, *_]:
                ink = ink._replace(underline=None)
            case _:
                ink = ink._replace(**_CHANGES.get(number, {}))
    return ink


def _colour(parts: list[int], codes: Iterator[str]) -> Color | None:
    """Return the colour after 38 or 48, from the same parameter or the following ones."""
    following = not parts
    if following:
        parts = [_number(next(codes, ""))]
    count = {2: 3, 5: 1}.get(parts[0], 0)
    if following:
        parts += [_number(next(codes, "")) for _ in range(count)]
    numbers = parts[1:]
    if not count or len(numbers) != count or max(numbers) > 255:
        return None
    return Color.from_ansi(numbers[0]) if count == 1 else Color.from_rgb(*numbers)


def _number(digits: str) -> int:
    """Read a parameter of at most nine digits; meaningful numbers are never longer."""
    return int(digits[-9:].replace(":", "") or "0")
