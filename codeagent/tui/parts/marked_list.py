"""A list of rows, one of which is marked; every picker and panel uses it."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from rich.cells import cell_len, set_cell_size
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from codeagent.core.dataclass import dataclass
from codeagent.tui.fuzzy import scattered
from codeagent.tui.rendering.lines import Styled, cut_end, flat, line
from codeagent.tui.rendering.palette import PLAIN, Palette, palette_of

RowT = TypeVar("RowT")
_MARK = 3
"""Cells before a row's text."""
_BESIDE = 36
"""Cells from which on there is room for the description of a row."""


class MarkedList(ScrollView, Generic[RowT]):
    """Never has the focus: its owner moves the mark. Headings are never marked; only rows on screen
    are drawn."""

    DEFAULT_CSS = """
    MarkedList {
        height: auto;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
    }
    """
    can_focus = False
    ALLOW_SELECT = False

    class Marked(Message):
        """Another row is marked, or there are no rows left."""

    class Clicked(Message):
        """A row was clicked, and is now marked."""

    def __init__(self, rows: Sequence[RowT] = (), *, mark: object = None) -> None:
        """`mark` is the key of the row to mark first; if there is no such row, the topmost is
        marked."""
        super().__init__()
        self._rows = tuple(rows)
        self._at = self._place_of(mark, 0)
        self.nothing = ""
        """The text of an empty list."""

    @abstractmethod
    def parts(self, row: RowT, width: int, palette: Palette, *, marked: bool) -> Styled:
        """Return a row in at most `width` cells; if it is marked, every style is applied over that
        of the mark."""

    def is_heading(self, row: RowT) -> bool:
        """Whether the row cannot be marked; `parts` draws it over the whole width."""
        return False

    def key(self, row: RowT) -> object:
        """Return what identifies a row, even if its text changes."""
        return row

    @property
    def marked(self) -> RowT | None:
        """The marked row; None if no row can be marked."""
        return self._rows[self._at] if self._at in self._places() else None

    @property
    def count(self) -> int:
        return len(self._rows)

    def show(self, rows: Sequence[RowT], *, mark: object = None) -> None:
        """Replace the rows; the mark moves to the row with the key `mark`, else stays on its row or
        near it."""
        wanted = self.key(self.marked) if mark is None and self.marked is not None else mark
        before = len(self._rows), self._at
        self._rows = tuple(rows)
        self._at = self._place_of(wanted, self._at)
        self._lay(scroll=before != (len(self._rows), self._at))

    def move(self, step: int) -> None:
        """Move the mark by that many rows; it stops at the ends."""
        places = self._places()
        if places:
            at = places.index(self._at) if self._at in places else 0
            self._mark(places[min(max(at + step, 0), len(places) - 1)])

    def page(self, direction: int) -> None:
        """Move the mark by one row less than there are on screen."""
        self.move(direction * max(1, self.scrollable_content_region.height - 1))

    def on_mount(self) -> None:
        self._lay(scroll=True)

    def on_resize(self, event: Resize) -> None:
        self._lay(scroll=True)

    def on_click(self, event: Click) -> None:
        event.stop()
        at = self.scroll_offset.y + event.y
        if at in self._places():
            self._mark(at)
            self.post_message(self.Clicked())

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return max(1, len(self._rows))

    def render_line(self, y: int) -> Strip:
        width, style, palette = (
            self.scrollable_content_region.width,
            self.rich_style,
            palette_of(self),
        )
        at = self.scroll_offset.y + y
        if at < len(self._rows):
            parts = self._drawn(at, width, palette)
        elif at == 0 and self.nothing:
            parts = [(f"   {self.nothing}", palette.muted)]
        else:
            return Strip.blank(width, style)
        return line(parts).strip.adjust_cell_length(width, style).apply_style(style)

    def _drawn(self, at: int, width: int, palette: Palette) -> Styled:
        row = self._rows[at]
        if self.is_heading(row):
            return self.parts(row, width, palette, marked=False)
        marked = at == self._at
        parts = self.parts(row, max(0, width - _MARK - 1), palette, marked=marked)
        if not marked:
            return [("   ", None), *parts]
        body = palette.marks.selection
        rest = " " * max(0, width - _MARK - sum(cell_len(text) for text, _ in parts))
        return [
            (" ▸ ", palette.accent + body),
            *((text, (own or PLAIN) + body) for text, own in parts),
            (rest, body),
        ]

    def _places(self) -> list[int]:
        """The indices of the rows that can be marked."""
        return [at for at, row in enumerate(self._rows) if not self.is_heading(row)]

    def _place_of(self, key: object, near: int) -> int:
        """Return the index of the row with that key, else of the one nearest to `near`."""
        places = self._places()
        found = (at for at in places if self.key(self._rows[at]) == key)
        return next(found, min(places, key=lambda at: abs(at - near), default=0))

    def _mark(self, at: int) -> None:
        changed = at != self._at
        self._at = at
        self._show_mark()
        if changed:
            self.post_message(self.Marked())

    def _lay(self, *, scroll: bool) -> None:
        size = Size(self.scrollable_content_region.width, len(self._rows))
        grown = size.height != self.virtual_size.height
        self.virtual_size = size
        self.refresh(layout=grown)
        if scroll:
            self.call_after_refresh(self._show_mark)

    def _show_mark(self) -> None:
        """Scroll to the mark; for the first row below a heading, show the heading too."""
        height = max(1, self.scrollable_content_region.height)
        headed = height > 1 and self._at > 0 and self.is_heading(self._rows[self._at - 1])
        first = self._at - 1 if headed else self._at
        self.scroll_to(
            y=min(max(self.scroll_offset.y, self._at - height + 1), first), animate=False
        )
        self.refresh()


@dataclass(frozen=True)
class PickerRow:
    key: str
    """What the picker returns if this row is chosen."""
    text: str
    about: str = ""
    warn: bool = False
    """Whether the description is a warning."""
    keys: str = ""
    """The key that does the same, at the right."""
    heading: bool = False
    """Whether it heads the rows below it, and cannot be chosen; not shown among matches."""


class PickerList(MarkedList[PickerRow]):
    """Rows with descriptions, which can be narrowed by typing."""

    def __init__(self, rows: Sequence[PickerRow], marked: str = "") -> None:
        """`marked` is the key of the row to mark first."""
        super().__init__(rows, mark=marked)
        self._take(rows)

    def key(self, row: PickerRow) -> object:
        return row.key

    def is_heading(self, row: PickerRow) -> bool:
        return row.heading

    @property
    def count(self) -> int:
        return len(self._places())

    def show(self, rows: Sequence[PickerRow], *, mark: object = None) -> None:
        self.refill(rows, "", mark)

    @property
    def longest(self) -> int:
        """The cells of the longest text of a row."""
        return self._longest

    def refill(self, rows: Sequence[PickerRow], query: str, mark: object = None) -> None:
        """Replace the rows, and show those that match; unless `mark` says which to mark, the mark
        stays where it is if it can."""
        self._take(rows)
        super().show(matching(rows, query), mark=mark)

    def narrow(self, query: str) -> None:
        """Show the matching rows, the best first; the mark stays on its row, or moves to the
        best."""
        before = self.marked
        found = matching(self._all, query)
        stays = not query and before in found
        super().show(
            found,
            mark=before.key if stays and before is not None else found[0].key if found else None,
        )
        if self.marked is not before:
            self.post_message(self.Marked())

    @property
    def is_cut(self) -> bool:
        """Whether there is a row without room for all of it."""
        return any(map(self.whole, self._all))

    def whole(self, row: PickerRow) -> str:
        """Return a row in full if it is cut; else an empty text."""
        room = self.scrollable_content_region.width - 4
        drawn = "".join(text for text, _ in self.parts(row, room, Palette(), marked=False))
        said = flat(f"{row.text}  {row.about}".strip())
        return said if drawn.count("…") > said.count("…") or flat(row.about) not in drawn else ""

    def parts(self, row: PickerRow, width: int, palette: Palette, *, marked: bool) -> Styled:
        text, about = flat(row.text), flat(row.about)
        if row.heading:
            return [(f" {text}", palette.heading)]
        widest = max(width // 2, width - self._beside - 2)
        column = min(max(self._column, cell_len(text)), widest)
        width -= cell_len(row.keys) and cell_len(row.keys) + 2
        if about and width >= _BESIDE:
            text = set_cell_size(cut_end(text, column), column)
            about = "  " + cut_end(about, width - column - 2)
        elif about and row.warn:
            text = cut_end(text, max(8, width - cell_len(about) - 2))
            about = "  " + cut_end(about, max(0, width - cell_len(text) - 2))
        else:
            text, about = cut_end(text, width), ""
        beside = None if marked else palette.warning if row.warn else palette.muted
        gap = " " * (width + 2 - cell_len(text + about)) if row.keys else ""
        return [(text, palette.text), (about, beside), (gap + row.keys, palette.strong)]

    def _take(self, rows: Sequence[PickerRow]) -> None:
        self._all = tuple(rows)
        sizes = sorted(cell_len(flat(row.text)) for row in rows if not row.heading)
        # A few long rows do not push the descriptions of all others aside.
        self._column = sizes[len(sizes) * 9 // 10] if sizes else 0
        self._longest = sizes[-1] if sizes else 0
        self._beside = max((cell_len(flat(row.about)) for row in rows), default=0)
        self.nothing = "nothing matches" if rows else "there is nothing here yet"


def matching(rows: Sequence[PickerRow], query: str) -> tuple[PickerRow, ...]:
    """Return rows whose text starts with the query, contains it, whose description does, then
    scattered matches."""
    wanted = query.strip().lower()
    if not wanted:
        return tuple(rows)
    pattern = scattered(wanted)
    ranked: list[tuple[int, int, PickerRow]] = []
    for place, row in enumerate(row for row in rows if not row.heading):
        text = flat(row.text).lower()
        if text.startswith(wanted):
            rank = 0
        elif wanted in text:
            rank = 1
        elif wanted in flat(row.about).lower():
            rank = 2
        elif pattern.search(text):
            rank = 3
        else:
            continue
        ranked.append((rank, place, row))
    return tuple(row for _, _, row in sorted(ranked, key=lambda found: found[:2]))
