"""A change of one file hunk by hunk: the rows, the answer for each hunk, and the pane that draws
them."""

from collections.abc import Callable, Collection, Iterator, Sequence
from sys import maxsize
from typing import Literal

from rich.segment import Segment
from textual.strip import Strip

from codeagent.core.dataclass import dataclass
from codeagent.core.display import DiffBlock, Hunk, HunkAnswer, cut, landed
from codeagent.core.sanitize import visible
from codeagent.tui.parts.guard import wholly_on_screen
from codeagent.tui.parts.line_pane import SPLIT_FROM, LinePane, chunks
from codeagent.tui.parts.rows import Part, fit, joined_width, styled
from codeagent.tui.rendering.diff import (
    LEAST_FOLDED,
    LINES_BY_WORD,
    DiffRow,
    ending_rows,
    line_ends,
    mark_words,
    ruler_of,
    split_lines,
    unified_lines,
)
from codeagent.tui.rendering.lines import Line, line, wrap
from codeagent.tui.rendering.marked import unseen
from codeagent.tui.rendering.palette import PLAIN, Palette, palette_of

CONTEXT = 3
"""Unchanged lines shown before and after a hunk."""
Word = Literal["accept", "reject", "edited"]
Heading = Callable[[int], Sequence[Part]]
"""Returns the row above a hunk, by the hunk's number from 0."""


@dataclass(frozen=True)
class HunkRows:
    """The rows of one hunk; every row of the diff belongs to exactly one hunk."""

    line: int
    """The number of its first line in the old text or, if it only adds lines, of the line after
    them."""
    gap: int
    """Unchanged lines left out before it."""
    rows: tuple[DiffRow, ...]


def hunk_rows(
    diff: DiffBlock,
    hunks: Sequence[Hunk],
    new: Sequence[tuple[str, ...]],
    *,
    everything: bool = False,
) -> tuple[HunkRows, ...]:
    """`new` replaces each hunk's old lines. `everything`: all unchanged lines are included."""
    carriage = common_carriage(diff)
    lines = [line.removesuffix(carriage) for line in diff.before.split("\n")]
    total = len(lines)
    by_word = total + sum(map(len, new)) <= LINES_BY_WORD
    ending = ending_rows(diff.before, landed(diff.before, hunks, tuple(new)))
    found: list[HunkRows] = []
    before_first = range(hunks[0].start if hunks else 0)
    lead, gap, shift = (before_first if everything else before_first[-CONTEXT:]), 0, 0
    for at, hunk in enumerate(hunks):
        end = hunk.start + len(hunk.old)
        is_last = end == total
        old, come = (
            side[:-1] if is_last and side[-1:] == ("",) else side for side in (hunk.old, new[at])
        )
        first = diff.start_line + hunk.start
        removed = [
            DiffRow("removed", line.removesuffix(carriage), old=first + place)
            for place, line in enumerate(old)
        ]
        added = [
            DiffRow("added", line.removesuffix(carriage), new=first + shift + place)
            for place, line in enumerate(come)
        ]
        if by_word:
            mark_words(removed, added)
        following = hunks[at + 1].start if at + 1 < len(hunks) else total - (lines[-1] == "")
        between = range(end, max(end, following))
        trail, next_lead = _shared(between, everything, is_last=at + 1 == len(hunks))
        rows = [*_same(lead, lines, diff.start_line, shift), *removed, *added]
        shift += len(new[at]) - len(hunk.old)
        rows += [*_same(trail, lines, diff.start_line, shift), *(ending if is_last else ())]
        found.append(HunkRows(first, gap, tuple(rows)))
        lead, gap = next_lead, len(between) - len(trail) - len(next_lead)
    return tuple(found)


def common_carriage(diff: DiffBlock) -> str:
    """Return a carriage return if all lines of both texts end with one, and need not show it; else
    an empty text."""
    ends = {line_ends(diff.before), line_ends(diff.after)} - {""}
    return "\r" if ends == {"CRLF"} else ""


def _shared(between: range, everything: bool, *, is_last: bool) -> tuple[range, range]:
    """Return which of the lines between two hunks are shown after the first and before the
    second."""
    if is_last:
        return (between if everything else between[:CONTEXT]), range(0)
    if everything or len(between) < 2 * CONTEXT + LEAST_FOLDED:
        place = max(0, len(between) - CONTEXT)
        return between[:place], between[place:]
    return between[:CONTEXT], between[-CONTEXT:]


def _same(places: range, lines: Sequence[str], start: int, shift: int) -> list[DiffRow]:
    return [DiffRow("same", lines[at], start + at, start + at + shift) for at in places]


class HunkSheet:
    """The answers for all hunks: each starts as accepted; the user's own lines are kept while a
    hunk is rejected."""

    def __init__(self, diff: DiffBlock) -> None:
        self.diff = diff
        self.hunks = cut(diff.before, diff.after)
        self._rejected = [False] * len(self.hunks)
        self._own: list[tuple[str, ...] | None] = [None] * len(self.hunks)
        self._drafts: list[str | None] = [None] * len(self.hunks)
        self._carriage = common_carriage(diff)

    def __len__(self) -> int:
        return len(self.hunks)

    def word(self, at: int) -> Word:
        if self._rejected[at]:
            return "reject"
        return "accept" if self._own[at] is None else "edited"

    @property
    def answers(self) -> tuple[HunkAnswer, ...]:
        """Return one answer for each hunk."""
        both = zip(self._rejected, self._own, strict=True)
        return tuple(not no if no or own is None else own for no, own in both)

    @property
    def result(self) -> str:
        """Return the text that would result."""
        return landed(self.diff.before, self.hunks, self.answers)

    def new_lines(self, at: int) -> tuple[str, ...]:
        """Return the proposed replacement of the hunk's old lines, or the user's own."""
        own = self._own[at]
        return self.hunks[at].new if own is None else own

    def toggle(self, at: int) -> None:
        self._rejected[at] = not self._rejected[at]

    def accept(self, at: int) -> None:
        """Accept the hunk as proposed; the user's own lines return when they edit it again."""
        self._rejected[at], self._own[at] = False, None

    def reject(self, at: int) -> None:
        self._rejected[at] = True

    def text(self, at: int) -> str:
        """Return the hunk's new lines to edit, without the last newline and carriage returns of all
        lines."""
        draft = self._drafts[at]
        if draft is not None:
            return draft
        lines = self.new_lines(at)
        lines = lines[:-1] if self._closes_file(at) else lines
        return "\n".join(line.removesuffix(self._carriage) for line in lines)

    def can_be_written_here(self, at: int) -> bool:
        """Whether a text field can show all of the text as it is."""
        text = self.text(at)
        return visible(text) == text and not unseen(text.replace("\n", "").replace("\t", ""))

    def keep(self, at: int, text: str) -> None:
        """Keep an unfinished text until the hunk is edited again."""
        self._drafts[at] = text

    def write(self, at: int, text: str) -> None:
        """Use the user's own lines; an empty text removes the old lines without a replacement."""
        if text == self.text(at) and self._drafts[at] is None:
            return
        hunk = self.hunks[at]
        lines = tuple(text.split("\n")) if text else ()
        if self._carriage:
            lines = tuple(line.removesuffix("\r") + "\r" for line in lines)
        closes = self._closes_file(at)
        if lines and self._is_last(at) and not closes:
            lines = (*lines[:-1], lines[-1].removesuffix(self._carriage))
        own = (*lines, "") if closes else lines
        self._drafts[at] = text if own != hunk.new else None
        self._use(at, own)

    def take(self, text: str) -> bool:
        """Answer so that `text` results; False if it changes lines outside the hunks, and then
        nothing is answered."""
        if not self.diff.after.endswith("\n"):
            text = text.removesuffix("\n")  # many editors add one
        before, rest = self.diff.before.split("\n"), f"\n{text}\n"
        starts = [hunk.start for hunk in self.hunks]
        ends = [hunk.start + len(hunk.old) for hunk in self.hunks]
        own: list[tuple[str, ...]] = []
        for start, end in zip([0, *ends], [*starts, len(before)], strict=True):
            kept = "\n" + "".join(f"{line}\n" for line in before[start:end])
            is_last = len(own) == len(self.hunks)
            between, found, rest = (rest.rpartition if is_last else rest.partition)(kept)
            if not found or (between and not own) or (rest and is_last):
                return False
            own.append(tuple(between.split("\n")[1:]))
            rest = f"\n{rest}"
        self._drafts = [None] * len(self.hunks)
        for at, new in enumerate(own[1:]):
            self._use(at, new)
        return True

    def counts(self) -> dict[Word, int]:
        found: dict[Word, int] = {"accept": 0, "reject": 0, "edited": 0}
        for at in range(len(self.hunks)):
            found[self.word(at)] += 1
        return found

    def _use(self, at: int, lines: tuple[str, ...]) -> None:
        """Answer so that these lines are the hunk's new ones."""
        hunk = self.hunks[at]
        self._rejected[at] = lines == hunk.old
        self._own[at] = None if lines in (hunk.new, hunk.old) else lines

    def _is_last(self, at: int) -> bool:
        """Whether its last line is not followed by a newline."""
        hunk = self.hunks[at]
        return hunk.start + len(hunk.old) == self.diff.before.count("\n") + 1

    def _closes_file(self, at: int) -> bool:
        """Whether its last new line is the empty one after the file's last newline."""
        return self._is_last(at) and self.hunks[at].new[-1:] == ("",)


class HunkPane(LinePane):
    """Draws the hunks, one of which is current. Its owner handles keys, and calls `look` after
    drawing."""

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
        """By width: the row of each hunk's heading, and the row after its last, `maxsize` until
        that is known."""
        self._heads: dict[int, dict[int, int]] = {}
        """By width: the hunks by the rows of their headings."""
        self._read: dict[int, set[int]] = {}
        """By width: the rows that were on screen."""
        self.current = 0
        self.rejected: Collection[int] = ()
        """Hunks drawn in the colour of secondary text."""
        self.seen: set[int] = set()
        """Hunks of which every row was on screen."""

    def show_hunks(
        self,
        path: str,
        hunks: Sequence[HunkRows],
        notes: Sequence[DiffRow] = (),
        words: Sequence[str] = (),
    ) -> None:
        """Show another change from its first hunk on, after `words`, each on its own line, and
        `notes`."""
        self.current = 0
        self.seen.clear()
        self._path = path
        self._hunks = hunks
        self._notes = notes
        self._words = words
        self._again()

    def replace_hunks(self, hunks: Sequence[HunkRows], changed: int | None = None) -> bool:
        """Show the same hunks with other lines around them, or with one `changed`, which has to be
        seen again; False if that is what was shown."""
        before = self._hunks
        self._hunks = hunks
        if changed is not None:
            self.seen.discard(changed)
        self._again()
        return hunks != before

    def toggle_split(self) -> bool:
        """Switch between one and two columns; False if two do not fit."""
        if self.layout_width < SPLIT_FROM:
            return False
        self._split = not self._split
        self._again()
        return True

    def go_to_hunk(self, at: int) -> None:
        """Make a hunk the current one and scroll its heading to the top, or as far as possible."""
        self.current = max(0, min(at, len(self._hunks) - 1))
        if self.layout_width < 1:
            return
        laid, places = self._at(self.layout_width), self._places.setdefault(self.layout_width, {})
        while self.current not in places and not laid.complete:
            laid.reach(len(laid.lines) + self.size.height)
        if self.current in places:
            first = places[self.current][0] if self.current else 0
            laid.reach(first + 2 * self.size.height)
            self._publish(laid)
            self.go_to(first)
        self.refresh()

    def look(self) -> None:
        """Record what is on screen now; if the current hunk is not, make a visible one current."""
        if not self._hunks or not wholly_on_screen(self):
            return
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        shown = range(top, min(top + height, len(self.lines)))
        read = self._read.setdefault(self.layout_width, set())
        read.update(shown)
        places = self._places.get(self.layout_width, {})
        visible = [
            at for at, (first, end) in places.items() if first < shown.stop and end > shown.start
        ]
        self.seen.update(at for at in visible if all(row in read for row in range(*places[at])))
        if visible and self.current not in visible:
            self.current = visible[0]
            self.refresh()

    def render_line(self, y: int) -> Strip:
        at = self._heads.get(self.layout_width, {}).get(y + self.scroll_offset.y)
        if at is None:
            strip = super().render_line(y)
            return (
                self._quiet(strip)
                if self._hunk_at(y + self.scroll_offset.y) in self.rejected
                else strip
            )
        width, style = self.scrollable_content_region.width, self.rich_style
        return (
            self._head(at, width, palette_of(self))
            .adjust_cell_length(width, style)
            .apply_style(style)
        )

    def _hunk_at(self, row: int) -> int | None:
        places = self._places.get(self.layout_width, {})
        return next((at for at, (first, end) in places.items() if first <= row < end), None)

    def _quiet(self, strip: Strip) -> Strip:
        body = self.rich_style + palette_of(self).muted
        parts = (Segment(text, (own or PLAIN).without_color + body) for text, own, _ in strip)
        return Strip(parts, strip.cell_length)

    def _again(self) -> None:
        """Lay everything out again, and stay at the current hunk."""
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
        ruler = ruler_of([row for hunk in self._hunks for row in hunk.rows])
        made = 0
        for found in self._above((ruler, *self._notes), width, palette):
            yield found
            made += 1
        for at, hunk in enumerate(self._hunks):
            if hunk.gap:
                yield draw(
                    (ruler, DiffRow("gap", f"{hunk.gap:,} unchanged lines")),
                    width,
                    palette,
                    self._path,
                )[1]
                made += 1
            first = made
            places[at], heads[first] = (first, maxsize), at
            yield Line(Strip([]), "", 0, "")
            made += 1
            for chunk in chunks(hunk.rows):
                for found in draw((ruler, *chunk), width, palette, self._path)[1:]:
                    yield found
                    made += 1
            places[at] = (first, made)

    def _above(self, notes: Sequence[DiffRow], width: int, palette: Palette) -> Iterator[Line]:
        """Return what comes before the first hunk; the first of `notes` is left out."""
        for text in self._words:
            for row in wrap([(text, palette.text)], width):
                yield line(row.parts, joins=row.joins)
        yield from unified_lines(notes, width, palette, self._path)[1:]
