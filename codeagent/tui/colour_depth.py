"""Themes on terminals with 256 or 16 colours, where every text stays as readable as in true
colour."""

from collections.abc import Mapping
from functools import lru_cache
from math import dist

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color, Lab, rgb_to_lab
from textual.filter import LineFilter

from codeagent.tui.theme_file import ThemeFile

READABLE = 4.5
"""The contrast that WCAG 2 asks of text."""
FIXED = tuple(Color.from_rich_color(RichColor.from_ansi(number)) for number in range(16, 256))
"""The part of the 256 colours that is the same on every terminal: a cube, then a ramp of greys."""
_VGA = (
    "000000 aa0000 00aa00 aa5500 0000aa aa00aa 00aaaa aaaaaa "
    "555555 ff5555 55ff55 ffff55 5555ff ff55ff 55ffff ffffff"
)
SIXTEEN = tuple(Color.parse(f"#{each}") for each in _VGA.split())
"""The values that Rich assumes for a terminal's sixteen colours."""

_STEPS = (36, 6, 1)
"""How far apart two neighbours in the cube are along red, green and blue."""
_ON_BLACK = (SIXTEEN[11], SIXTEEN[10], SIXTEEN[14], SIXTEEN[13])
_ON_WHITE = (SIXTEEN[4], SIXTEEN[5])
"""The hues that can be read, beside the red of errors."""


class ByNumber(LineFilter):
    """Draws a true-colour theme in the colours that a terminal has.

    A background becomes the nearest colour; text becomes the nearest colour that contrasts with its
    background as before, or by `READABLE`. The backgrounds of a diff, whose nearest colour would be
    grey, keep their hue.
    """

    def __init__(self, colours: tuple[Color, ...], theme: ThemeFile) -> None:
        super().__init__()
        self._colours = colours
        self._labs = tuple(map(rgb_to_lab, colours))
        self._places = _bands(theme) if colours is FIXED else {}
        self._places |= {colour: place for place, colour in enumerate(colours)}
        self._style = lru_cache(4096)(self._drawn)
        self._nearest = lru_cache(4096)(self._search)

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(text, style and self._style(style, background), control)
            for text, style, control in segments
        ]

    def _drawn(self, style: Style, background: Color) -> Style:
        """Return the style in the terminal's colours; drawn again, it stays as it is."""
        behind = Color.from_rich_color(style.bgcolor) if style.bgcolor else background
        ground = self._nearest(behind)
        text = style.color
        if text:
            front = Color.from_rich_color(text)
            least = min(READABLE, contrast(rgb_to_lab(front), rgb_to_lab(behind)))
            text = self._rich(self._nearest(front, ground, least))
        return style + Style.from_color(text, style.bgcolor and self._rich(ground))

    def _rich(self, place: int) -> RichColor:
        """Return a colour that Rich writes as it is; it would round the greys among the fixed
        ones."""
        if self._colours is FIXED:
            return RichColor.from_ansi(16 + place)
        return self._colours[place].rich_color

    def _search(self, colour: Color, ground: int | None = None, least: float = 1) -> int:
        """Return the nearest colour with at least that contrast to the background, or else the one
        with the most."""
        if ground is None and colour in self._places:
            return self._places[colour]
        wanted = rgb_to_lab(colour)

        def far(lab: Lab) -> tuple[float, float]:
            missing = 0.0 if ground is None else least - contrast(lab, self._labs[ground])
            return max(0.0, missing), dist(lab, wanted)

        return self._labs.index(min(self._labs, key=far))


def contrast(one: Lab, other: Lab) -> float:
    """From 1 to 21, as WCAG 2 defines it."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(lab: Lab) -> float:
    return float(((lab.L + 16) / 116) ** 3 if lab.L > 8 else lab.L / 903.3)


def _bands(theme: ThemeFile) -> dict[Color, int]:
    """Return places in the cube for the backgrounds of a diff; those of changed words are
    stronger."""
    diff, base = theme.palette.diff, rgb_to_lab(Color.parse(theme.textual.background or ""))
    found: dict[Color, int] = {}
    pairs = ((diff.added, diff.removed), (diff.added_word, diff.removed_word))
    for strength, pair in enumerate(pairs, 1):
        for ground in (Color.from_rich_color(style.bgcolor) for style in pair if style.bgcolor):
            if contrast(rgb_to_lab(ground), base) < READABLE:
                step = _STEPS[ground.rgb.index(max(ground.rgb))]
                dark, light = strength * step, 215 - strength * (sum(_STEPS) - step)
                found[ground] = dark if theme.dark else light
    return found


def sixteen_of(theme: ThemeFile) -> Mapping[str, str]:
    """Return the theme's part of the design for sixteen colours: the nearest of the readable
    hues."""
    base = theme.textual
    given = {"primary": base.primary, "secondary": base.secondary, "accent": base.accent}
    return {key: _hue(Color.parse(colour or ""), theme.dark) for key, colour in given.items()}


def _hue(colour: Color, dark: bool) -> str:
    def apart(readable: Color) -> float:
        around = abs(readable.hsl.h - colour.hsl.h)
        return min(around, 1 - around)

    return min(_ON_BLACK if dark else _ON_WHITE, key=apart).hex.lower()
