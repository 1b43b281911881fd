"""How text is made to fit a number of cells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from codeagent.core.sanitize import visible
from codeagent.tui.rendering.palette import Palette

SEPARATOR = " · "


@dataclass(frozen=True)
class Part:
    """A piece of a row; where the row is too narrow, the parts with the lowest `keep` go first."""

    text: str
    keep: int
    style: Callable[[Palette], Style] = lambda palette: palette.muted


def flat(text: str) -> str:
    """Text of anybody's as one line that only shows."""
    return " ".join(visible(text).split())


def cut_end(text: str, width: int) -> str:
    """At most `width` cells, the end replaced with `…`."""
    if cell_len(text) <= width:
        return text
    return "" if width < 1 else set_cell_size(text, width - 1).rstrip() + "…"


def cut_middle(text: str, width: int) -> str:
    """At most `width` cells, the middle replaced with `…`: names tell themselves apart at both ends."""
    if cell_len(text) <= width:
        return text
    if width < 1:
        return ""
    head = (width - 1) // 2
    tail = text
    while cell_len(tail) > width - 1 - head:
        tail = tail[1:]
    return set_cell_size(text, head).rstrip() + "…" + tail


def fit(parts: Sequence[Part], width: int, separator: str = SEPARATOR) -> tuple[Part, ...]:
    """The parts, in their order, that fit `width` cells with separators in between; at least one, to be cut."""
    kept = [part for part in parts if part.text]
    while len(kept) > 1 and joined_width(kept, separator) > width:
        kept.remove(min(kept, key=lambda part: part.keep))
    return tuple(kept)


def joined_width(parts: Sequence[Part], separator: str = SEPARATOR) -> int:
    """Cells of the parts with separators in between."""
    return sum(cell_len(part.text) for part in parts) + cell_len(separator) * max(0, len(parts) - 1)


def styled(parts: Sequence[Part], palette: Palette, separator: str = SEPARATOR) -> list[tuple[str, Style | None]]:
    """(text, style) pairs of the parts and the separators between them."""
    out: list[tuple[str, Style | None]] = []
    for part in parts:
        if out:
            out.append((separator, palette.muted))
        out.append((part.text, part.style(palette)))
    return out
