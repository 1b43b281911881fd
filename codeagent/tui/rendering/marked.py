"""Draws text that a user is asked to allow: whatever could hide something in it is marked, and
nothing is left out."""

import re
from collections.abc import Iterator
from functools import lru_cache
from unicodedata import category

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from codeagent.core.lookalikes import lookalikes
from codeagent.core.sanitize import BLANKS, counted_blanks, emoji_spans
from codeagent.tui.rendering.lines import NARROWEST, Line, Row, draw, wrap
from codeagent.tui.rendering.palette import Palette

_LISTED = 8
_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp", "Zs"})
# Characters that are invisible, or change the one before, although their category does not say so.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef]"
)
_ODD = re.compile(rf"{BLANKS}|[^\n\x20-\x7e]")
_SPACES = re.compile(" {2,}")
_FIXED = "\xa0"
_CUT = "↩"
_UNDERLINE = Style(underline=True)


def marked_text(
    text: str, palette: Palette, names: re.Pattern[str] | None = None
) -> list[tuple[str, Style]]:
    """Return the text as (text, style), without the summary of its look-alikes; newlines stay.

    Invisible code points and marks on no letter are written as `\\u{202e}`, and long runs of spaces, tabs and blank
    lines as their count, both in the warning style; what passes for ASCII is underlined in it. Well-formed emoji and
    all other letters are as they are. What matches `names` is in the warning style, too.
    """
    parts: list[tuple[str, Style]] = []
    at = 0
    odd = lookalikes(text)
    emoji = _within(emoji_spans(text))
    for found in _ODD.finditer(text):
        is_odd = found.start() in odd
        is_shown = (
            is_odd
            or len(found[0]) > 1
            or _is_unseen(found[0])
            or _is_stray_mark(text, found.start())
        )
        if found.start() in emoji or not is_shown:
            continue
        if found.start() > at:
            parts += _named(text[at : found.start()], palette, names)
        parts.append(
            (found[0], palette.warning + _UNDERLINE)
            if is_odd
            else (_written(found[0]), palette.warning)
        )
        at = found.end()
    if at < len(text):
        parts += _named(text[at:], palette, names)
    return parts


def marked_lines(
    text: str, width: int, palette: Palette, names: re.Pattern[str] | None = None
) -> list[Line]:
    """Return the text's rows; a row that ends inside a word ends in `↩`. A last line lists what
    passes for ASCII.

    `names`: see `marked_text`.
    """
    room = max(width - 1, NARROWEST)
    # Only a single space may be dropped at the end of a row; a no-break space is free, as the
    # text's own are escaped.
    parts = [
        (_SPACES.sub(_fixed, part), style) for part, style in marked_text(text, palette, names)
    ]
    rows = wrap(parts, room)
    lines = []
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        free = [(part.replace(_FIXED, " "), style) for part, style in row.parts]
        drawn = draw(Row(free, row.joins), exact=True)
        if following is not None and following.joins == "":
            drawn = Line(
                Strip([*drawn.strip, Segment(_CUT, palette.muted)]), drawn.text, 0, drawn.joins
            )
        lines.append(drawn)
    return [*lines, *_summary(text, width, palette)]


def unseen(text: str) -> tuple[str, ...]:
    """Return the distinct invisible code points of a text, as `U+202E`, without those of
    well-formed emoji."""
    if text.isascii() and text.isprintable():
        return ()
    emoji = _within(emoji_spans(text))
    bare = (found for at, found in enumerate(text) if at not in emoji)
    return tuple(
        f"U+{ord(found):04X}" for found in dict.fromkeys(bare) if found != " " and _is_unseen(found)
    )


def odd_letters(text: str) -> str:
    """Return how many letters and signs pass for ASCII, which, and how they read; empty if there
    are none."""
    odd = lookalikes(text)
    if not odd:
        return ""
    different = dict.fromkeys(f"U+{ord(text[at]):04X} as {reads}" for at, reads in odd.items())
    listed = ", ".join([*different][:_LISTED]) + (", …" if len(different) > _LISTED else "")
    return f"{len(odd)} look-alike{'' if len(odd) == 1 else 's'}: {listed}"


def _named(
    text: str, palette: Palette, names: re.Pattern[str] | None
) -> Iterator[tuple[str, Style]]:
    at = 0
    for found in () if names is None else names.finditer(text):
        yield text[at : found.start()], palette.text
        yield found[0], palette.warning
        at = found.end()
    if at < len(text):
        yield text[at:], palette.text


def _fixed(spaces: re.Match[str]) -> str:
    return _FIXED * len(spaces[0])


def _within(spans: list[tuple[int, int]]) -> frozenset[int]:
    return frozenset(at for span in spans for at in range(*span))


def _written(found: str) -> str:
    return counted_blanks(found) if len(found) > 1 else f"\\u{{{ord(found):x}}}"


def _is_stray_mark(text: str, at: int) -> bool:
    """Whether a combining mark is on no letter, so that it may not be seen, or change how a sign
    looks."""
    before = text[at - 1 : at]
    return category(text[at])[0] == "M" and not (before.isalpha() or before > "\x7f")


@lru_cache(1024)
def _is_unseen(character: str) -> bool:
    kind = category(character)
    if kind == "Cn":
        import regex  # heavy; it knows characters that are newer than Python's own data

        return regex.match(r"\p{Cn}", character) is not None
    return kind in _UNSEEN or _BLANK.match(character) is not None


def _summary(text: str, width: int, palette: Palette) -> Iterator[Line]:
    odd = odd_letters(text)
    for row in wrap([(odd, palette.warning)], width) if odd else ():
        yield Line(draw(row).strip, "", 0, "")
