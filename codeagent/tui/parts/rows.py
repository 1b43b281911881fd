"""Rows of a screen: text cut to fit, edges, titles, hints and keys that can be clicked."""

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from rich.cells import cell_len
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from codeagent.core.dataclass import dataclass
from codeagent.tui.keymap import keymap_of
from codeagent.tui.rendering.lines import Line, Styled, cut_end, cut_middle, flat, line
from codeagent.tui.rendering.palette import Palette, StyleName, palette_of

SEPARATOR = " · "
_GAP = "  "
_EDGES = 6
"""Cells of both corners, each with a piece of rule and a space before the words."""
_MARGIN = 1
_EVERY_KEY = "chat.keys"
_ID = re.compile(r"\{([a-z_.]+)\}")


@dataclass(frozen=True)
class Part:
    """A piece of a row; if the row is too narrow, the parts with the lowest `keep` are dropped
    first."""

    text: str
    keep: int
    style: StyleName = "muted"


def fit(parts: Sequence[Part], width: int, separator: str = SEPARATOR) -> tuple[Part, ...]:
    """Return the parts, in order, that fit `width` cells with separators; at least one, which may
    be too wide."""
    kept = [part for part in parts if part.text]
    while len(kept) > 1 and joined_width(kept, separator) > width:
        kept.remove(min(kept, key=lambda part: part.keep))
    return tuple(kept)


def joined_width(parts: Sequence[Part], separator: str = SEPARATOR) -> int:
    """Return the width of the parts with separators in between, in cells."""
    return sum(cell_len(part.text) for part in parts) + cell_len(separator) * max(0, len(parts) - 1)


def styled(parts: Sequence[Part], palette: Palette, separator: str = SEPARATOR) -> Styled:
    """Return (text, style) pairs of the parts and the separators between them."""
    out: Styled = []
    for part in parts:
        if out:
            out.append((separator, palette.muted))
        out.append((part.text, palette.named(part.style)))
    return out


class RowsWidget(Widget):
    """Draws `rows(width, palette)`, each cut or filled to the width; subclasses refresh it when they
    change."""

    ALLOW_SELECT = False

    @abstractmethod
    def rows(self, width: int, palette: Palette) -> Sequence[Line]:
        """Return what is shown in `width` cells."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.rows(width, palette_of(self)))

    def render_line(self, y: int) -> Strip:
        width, style = self.size.width, self.rich_style
        rows = self.rows(width, palette_of(self)) if width else ()
        if y >= len(rows):
            return Strip.blank(width, style)
        return rows[y].strip.adjust_cell_length(width, style).apply_style(style)


class RowWidget(RowsWidget):
    """Draws a single row."""

    DEFAULT_CSS = """
    RowWidget {
        height: 1;
        width: 1fr;
    }
    """

    @abstractmethod
    def row(self, width: int, palette: Palette) -> Line:
        """Return what is shown in `width` cells."""

    def rows(self, width: int, palette: Palette) -> Sequence[Line]:
        return (self.row(width, palette),)


class RuleRow(RowWidget):
    """Draws `╭─ left ───── right ─╮` in the widget's own colour; `corners` are its two ends."""

    def __init__(self, corners: tuple[str, str]) -> None:
        super().__init__()
        self._corners = corners
        self._left: tuple[Part, ...] = ()
        self._right: tuple[Part, ...] = ()

    def show(self, left: Sequence[Part] = (), right: Sequence[Part] = ()) -> None:
        """Set both sides; the widest on the left is cut first, then those with the lowest `keep`
        are dropped."""
        words = (
            tuple(part for part in left if part.text),
            tuple(part for part in right if part.text),
        )
        if words != (self._left, self._right):
            self._left, self._right = words
            self.refresh()

    def row(self, width: int, palette: Palette) -> Line:
        first, last = self._corners
        room = width - _EDGES
        if room < 4:
            return line([(first + "─" * max(0, width - 2) + last, None)])
        right = tuple(
            replace(part, text=cut_end(part.text, room)) for part in fit(self._right, room, _GAP)
        )
        left_room = room - (joined_width(right, _GAP) + 3 if right else 0)
        left = _within(self._left, left_room)
        body: Styled = [(f"{first}─", None)]
        if left:
            body += [(" ", None), *styled(left, palette, _GAP), (" ", None)]
        tail: Styled = []
        if right:
            tail += [(" ", None), *styled(right, palette, _GAP), (" ", None)]
        tail.append((f"─{last}", None))
        used = sum(cell_len(text) for text, _ in (*body, *tail))
        return line([*body, ("─" * max(0, width - used), None), *tail])


def _within(parts: tuple[Part, ...], room: int) -> tuple[Part, ...]:
    """Fit the parts into `room` cells: the widest is cut while it is still readable, then parts are
    dropped."""
    kept = list(parts)
    if not kept or room < 1:
        return ()
    widest = max(kept, key=lambda part: cell_len(part.text))
    over = joined_width(kept, _GAP) - room
    if over > 0:
        left = max(min(12, cell_len(widest.text)), cell_len(widest.text) - over)
        kept[kept.index(widest)] = replace(widest, text=cut_middle(widest.text, left))
    fitting = fit(kept, room, _GAP)
    return tuple(replace(part, text=cut_middle(part.text, room)) for part in fitting)


class TitleRow(RowWidget):
    """Draws `── title ─────── note ──`."""

    def __init__(self, title: str, note: str = "") -> None:
        super().__init__()
        self._title = flat(title)
        self._note = flat(note)

    def name_it(self, title: str) -> None:
        """Change the title at the left."""
        if flat(title) != self._title:
            self._title = flat(title)
            self.refresh()

    def tell(self, note: str) -> None:
        """Change the note at the right."""
        if flat(note) != self._note:
            self._note = flat(note)
            self.refresh()

    def row(self, width: int, palette: Palette) -> Line:
        title = cut_end(self._title, width - 6)
        note = (
            f" {self._note} "
            if self._note and joined_width([Part(title + self._note, 0)]) + 10 <= width
            else ""
        )
        filled = joined_width([Part(title + note, 0)]) + 6
        rest = "─" * max(0, width - filled)
        return line(
            [
                ("── ", palette.rule),
                (title, palette.heading),
                (f" {rest}", palette.rule),
                (note, palette.muted),
                ("──", palette.rule),
            ]
        )


@dataclass(frozen=True)
class HintKey:
    key: str
    """The key as a user reads it."""
    words: str
    action: str
    """What a click on it sends."""

    @property
    def text(self) -> str:
        return f"{self.key} {self.words}"


def with_keys(widget: object, text: str) -> str:
    """Replace each `{id}` of an action in the text with the key in force."""
    keymap = keymap_of(widget)
    return _ID.sub(lambda found: keymap.shown(found[1]), text)


class HintRow(RowWidget):
    """Draws the state and what the keys do, as far as it fits; or, for a while, what just
    happened.

    A hint that is a text may name keys by the ids of their actions, such as `{page.close}`.
    """

    @dataclass
    class Picked(Message):
        """A hint was clicked."""

        action: str

    def __init__(self, hints: Sequence[str | HintKey] = ()) -> None:
        """In a narrow row, the last hints are dropped first; then it ends with the key that shows
        every key."""
        super().__init__()
        self._standing: tuple[Part, ...] = ()
        self._hints = tuple(hints)
        self._said = ""

    def show(self, standing: Sequence[Part], hints: Sequence[str | HintKey]) -> None:
        """Replace the hints; `standing` comes before them, and is dropped last."""
        if (tuple(standing), tuple(hints)) != (self._standing, self._hints):
            self._standing = tuple(standing)
            self._hints = tuple(hints)
            self.refresh()

    def tell(self, text: str) -> None:
        """Show a text instead of everything; an empty one brings the hints back."""
        if flat(text) != self._said:
            self._said = flat(text)
            self.refresh()

    def row(self, width: int, palette: Palette) -> Line:
        if self._said:
            return line([(f" {cut_end(self._said, width - 2)}", palette.accent)])
        return line([(" " * _MARGIN, None), *styled(self._fitting(width), palette)])

    def on_click(self, event: Click) -> None:
        event.stop()
        if self._said:
            self.tell("")
            return
        keys = {hint.text: hint.action for hint in self._hints if isinstance(hint, HintKey)}
        at = _MARGIN
        for part in self._fitting(self.size.width):
            if at <= event.x < at + cell_len(part.text) and part.text in keys:
                self.post_message(self.Picked(keys[part.text]))
                return
            at += cell_len(part.text + SEPARATOR)

    def _fitting(self, width: int) -> tuple[Part, ...]:
        room = width - 2 * _MARGIN
        parts = [
            *self._standing,
            *(self._hint(hint, -place - 1) for place, hint in enumerate(self._hints)),
        ]
        kept = fit(parts, room)
        if len(kept) == len(parts):
            return kept
        return fit([*parts, Part(f"{keymap_of(self).shown(_EVERY_KEY)} more", 0)], room)

    def _hint(self, hint: str | HintKey, keep: int) -> Part:
        """Return a hint; what can be clicked has the style of text."""
        if isinstance(hint, str):
            return Part(with_keys(self, hint), keep)
        return Part(hint.text, keep, "text")
