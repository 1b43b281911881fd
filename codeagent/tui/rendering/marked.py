"""Draws text that a user is asked to allow: whatever could hide something in it is marked, and nothing is left out."""

import re
from collections.abc import Iterator
from unicodedata import category

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from codeagent.core.sanitize import BLANKS, counted_blanks
from codeagent.tui.rendering.lines import NARROWEST, Line, Row, draw, wrap
from codeagent.tui.rendering.palette import Palette

_LISTED = 8
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
# Characters that are invisible, or change the one before, although their category does not say so.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef]"
)
_ODD = re.compile(rf"{BLANKS}|[^\n\x20-\x7e]")
_SPACES = re.compile(" {2,}")
_FIXED = "\xa0"
_CUT = "↩"
_UNDERLINE = Style(underline=True)


def marked_text(text: str, palette: Palette, names: re.Pattern[str] | None = None) -> list[tuple[str, Style]]:
    """Return the text as (text, style), without the summary of its letters; newlines stay.

    Invisible code points are written as `\\u{202e}`, and long runs of spaces, tabs and blank lines as their count, both
    in the warning style; other characters that are not ASCII are underlined in it. What matches `names` is in the
    warning style, too.
    """
    parts: list[tuple[str, Style]] = []
    at = 0
    for found in _ODD.finditer(text):
        if found.start() > at:
            parts += _named(text[at : found.start()], palette, names)
        parts.append(_shown(found[0], palette))
        at = found.end()
    if at < len(text):
        parts += _named(text[at:], palette, names)
    return parts


def marked_lines(text: str, width: int, palette: Palette, names: re.Pattern[str] | None = None) -> list[Line]:
    """Return the text's rows; a row that ends inside a word ends in `↩`. A last line lists what is not ASCII.

    `names`: see `marked_text`.
    """
    room = max(width - 1, NARROWEST)
    # Only a single space may be dropped at the end of a row; a no-break space is free, as the text's own are escaped.
    parts = [(_SPACES.sub(_fixed, part), style) for part, style in marked_text(text, palette, names)]
    rows = wrap(parts, room)
    lines = []
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        free = [(part.replace(_FIXED, " "), style) for part, style in row.parts]
        drawn = draw(Row(free, row.joins), exact=True)
        if following is not None and following.joins == "":
            drawn = Line(Strip([*drawn.strip, Segment(_CUT, palette.muted)]), drawn.text, 0, drawn.joins)
        lines.append(drawn)
    return [*lines, *_summary(text, width, palette)]


def unseen(text: str) -> tuple[str, ...]:
    """Return the distinct invisible code points of a text, as `U+202E`."""
    return tuple(f"U+{ord(found):04X}" for found in dict.fromkeys(text) if found != " " and _is_unseen(found))


def odd_letters(text: str) -> str:
    """Return how many visible characters are not ASCII, and which; empty if there are none."""
    odd = [character for character in text if character > "\x7e" and not _is_unseen(character)]
    if not odd:
        return ""
    kind = "letter" if all(category(character)[0] in "LM" for character in odd) else "character"
    different = [f"U+{ord(character):04X}" for character in dict.fromkeys(odd)]
    listed = ", ".join(different[:_LISTED]) + (", …" if len(different) > _LISTED else "")
    return f"{len(odd)} non-ASCII {kind}{'' if len(odd) == 1 else 's'}: {listed}"


def _named(text: str, palette: Palette, names: re.Pattern[str] | None) -> Iterator[tuple[str, Style]]:
    at = 0
    for found in () if names is None else names.finditer(text):
        yield text[at : found.start()], palette.text
        yield found[0], palette.warning
        at = found.end()
    if at < len(text):
        yield text[at:], palette.text


def _fixed(spaces: re.Match[str]) -> str:
    return _FIXED * len(spaces[0])


def _shown(found: str, palette: Palette) -> tuple[str, Style]:
    if len(found) > 1:
        return counted_blanks(found), palette.warning
    if _is_unseen(found):
        return f"\\u{{{ord(found):x}}}", palette.warning
    return found, palette.warning + _UNDERLINE


def _is_unseen(character: str) -> bool:
    return category(character) in _UNSEEN or _BLANK.match(character) is not None


def _summary(text: str, width: int, palette: Palette) -> Iterator[Line]:
    if text.isascii():
        return
    for row in wrap([(odd_letters(text), palette.warning)], width) if odd_letters(text) else ():
        yield Line(draw(row).strip, "", 0, "")
