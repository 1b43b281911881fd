"""A change of one file hunk by hunk, each below a row that says which it is."""

from collections.abc import Callable, Iterator, Sequence
from sys import maxsize

from textual.strip import Strip

from codeagent.tui.rendering.diff import DiffRow, split_lines, unified_lines
from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette, palette_of
from codeagent.tui.rendering.rows import wrap
from codeagent.tui.widgets.diff_piece import SPLIT_FROM, chunks
from codeagent.tui.widgets.fitting import Part, fit, joined_width, styled
from codeagent.tui.widgets.hunk_rows import HunkRows
from codeagent.tui.widgets.line_pane import LinePane
from codeagent.tui.widgets.on_screen import wholly_on_screen

Heading = Callable[[int], Sequence[Part]]
"""What the row above a hunk says, by the hunk's number from 0."""


class HunkPane(LinePane):
    """One hunk is the current one. Keys are its owner's; so is calling `look` after something was drawn."""

    DEFAULT_CSS = """
    HunkPane { padding: 0 1; }
    """

    def __init__(self, heading: Heading) -> None:
        super().__init__()
        self._heading = heading
        self._path = ""
        self._hunks: Sequence[HunkRows] = ()
        self._notes: Sequence[DiffRow] = ()
        self._words: Sequence[str] = ()
        self._split = False
        self._places: dict[int, dict[int, tuple[int, int]]] = {}
        """By width: the row of a hunk's heading, and the one behind its last, `maxsize` until that is known."""
        self._heads: dict[int, dict[int, int]] = {}
        """By width: the hunks by the rows of their headings."""
        self._read: dict[int, set[int]] = {}
        """By width: the rows that were on screen."""
        self.current = 0
        self.seen: set[int] = set()
        """Hunks of which every row was on screen."""

    @property
    def is_split(self) -> bool:
        return self._split and self.layout_width >= SPLIT_FROM

    def show_hunks(
        self, path: str, hunks: Sequence[HunkRows], notes: Sequence[DiffRow] = (), words: Sequence[str] = ()
    ) -> None:
        """Another change, from its first hunk on; `words`, each on its own line, and `notes` come before it."""
        self.current = 0
        self.seen.clear()
        self._path, self._hunks, self._notes, self._words = path, hunks, notes, words
        self._again()

    def replace_hunks(self, hunks: Sequence[HunkRows], changed: int | None = None) -> None:
        """The same hunks otherwise: with other lines around them, or one of them `changed`, to be seen again."""
        self._hunks = hunks
        if changed is not None:
            self.seen.discard(changed)
        self._again()

    def toggle_split(self) -> bool:
        """Both versions beside each other, or below each other; False where they do not fit."""
        if self.layout_width < SPLIT_FROM:
            return False
        self._split = not self._split
        self._again()
        return True

    def go_to_hunk(self, at: int) -> None:
        """Make a hunk the current one and put its heading at the top, as far as there are rows below it."""
        self.current = max(0, min(at, len(self._hunks) - 1))
        if self._width < 1:
            return
        laid, places = self._at(self._width), self._places.setdefault(self._width, {})
        while self.current not in places and not laid.complete:
            laid.reach(len(laid.lines) + self.size.height)
        if self.current in places:
            first = places[self.current][0] if self.current else 0
            laid.reach(first + 2 * self.size.height)
            self._publish(laid)
            self.go_to(first)
        self.refresh()

    def look(self) -> None:
        """Take note of what is on screen now; a hunk that is not on screen is not the current one."""
        if not self._hunks or not wholly_on_screen(self):
            return
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        shown = range(top, min(top + height, len(self.lines)))
        read = self._read.setdefault(self._width, set())
        read.update(shown)
        places = self._places.get(self._width, {})
        visible = [at for at, (first, end) in places.items() if first < shown.stop and end > shown.start]
        self.seen.update(at for at in visible if all(row in read for row in range(*places[at])))
        if visible and self.current not in visible:
            self.current = visible[0]
            self.refresh()

    def render_line(self, y: int) -> Strip:
        at = self._heads.get(self._width, {}).get(y + self.scroll_offset.y)
        if at is None:
            return super().render_line(y)
        width, style = self.scrollable_content_region.width, self.rich_style
        return self._head(at, width, palette_of(self)).adjust_cell_length(width, style).apply_style(style)

    def _again(self) -> None:
        """Lay everything out anew, and stay at the current hunk."""
        current = self.current
        for known in (self._places, self._heads, self._read):
            known.clear()
        self.show([self._lines])
        self.call_after_refresh(self.go_to_hunk, current)

    def _head(self, at: int, width: int, palette: Palette) -> Strip:
        current = at == self.current
        parts = fit(list(self._heading(at)), width - 6)
        filled = joined_width(parts) + 4
        return line(
            [
                ("▸─ " if current else "── ", palette.accent if current else palette.rule),
                *styled(parts, palette),
                (" " + "─" * max(0, width - filled), palette.accent if current else palette.rule),
            ]
        ).strip

    def _lines(self, width: int, palette: Palette) -> Iterator[Line]:
        places, heads = self._places.setdefault(width, {}), self._heads.setdefault(width, {})
        draw = split_lines if self._split and width >= SPLIT_FROM else unified_lines
        rows = [row for hunk in self._hunks for row in hunk.rows]
        highest = max((number for row in rows for number in (row.old, row.new) if number is not None), default=0)
        # The gutter is as wide as the highest number drawn: this row makes it the same for all, and is left out.
        ruler = DiffRow("gap", "", new=highest)
        made = 0
        for found in self._above((ruler, *self._notes), width, palette):
            yield found
            made += 1
        for at, hunk in enumerate(self._hunks):
            if hunk.gap:
                yield draw((ruler, DiffRow("gap", f"{hunk.gap:,} unchanged lines")), width, palette, self._path)[1]
                made += 1
            first = made
            places[at], heads[first] = (first, maxsize), at
            yield Line(Strip([]), "", 0, "")
            made += 1
            for chunk in chunks(hunk.rows):
                for found in draw((ruler, *chunk.rows), width, palette, self._path)[1:]:
                    yield found
                    made += 1
            places[at] = (first, made)

    def _above(self, notes: Sequence[DiffRow], width: int, palette: Palette) -> Iterator[Line]:
        """What comes before the first hunk; the first of `notes` is left out."""
        for text in self._words:
            for row in wrap([(text, palette.text)], width):
                yield line(row.parts, joins=row.joins)
        yield from unified_lines(notes, width, palette, self._path)[1:]
