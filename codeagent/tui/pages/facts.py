"""The facts page: rows in columns that can be filtered, each with what Enter does."""

from collections.abc import Sequence
from itertools import accumulate, zip_longest
from typing import ClassVar, assert_never

from rich.cells import cell_len, set_cell_size
from textual import on
from textual.app import ComposeResult
from textual.events import Resize
from textual.widgets import Static

from codeagent.core.lazy_regex import lazy_regex
from codeagent.tui.bindings import bindings
from codeagent.tui.clipboard import copy
from codeagent.tui.facts import Bar, Caption, Fact, FactRow, Facts
from codeagent.tui.pages.info import OutputScreen
from codeagent.tui.pages.page import Guarded, ListKeys
from codeagent.tui.parts.line_input import LineInput
from codeagent.tui.parts.marked_list import MarkedList
from codeagent.tui.parts.rows import HintRow, Part, TitleRow
from codeagent.tui.rendering.lines import Styled, cut_end, flat
from codeagent.tui.rendering.palette import Palette

_GAP = "  "
_LEAST = 6
"""Cells to which a column is cut at most."""
_LONGEST_BAR = 30
_NUMBER = lazy_regex(r"[<≥]?\$?[0-9][0-9,.]*%?$")


class FactList(MarkedList[FactRow]):
    """Lists facts in columns as wide as they need; if there is no room, the widest is cut."""

    DEFAULT_CSS = """
    FactList { height: 1fr; scrollbar-gutter: stable; }
    """

    def __init__(self, facts: Facts) -> None:
        self.know(facts.rows)
        found = (row for row in self.facts if row.cells[0] == facts.marked)
        super().__init__(facts.rows, mark=next(found, None))
        self.nothing = "nothing matches"

    def know(self, rows: Sequence[FactRow]) -> None:
        """Take these as all the rows there are; `narrow` shows them."""
        self._all = tuple(rows)
        cells = [row.cells for row in rows if not isinstance(row, Bar) and row.cells[1:]]
        self._columns = [
            (max(cell_len(flat(cell)) for cell in each), _is_numeric(each))
            for each in zip_longest(*cells, fillvalue="")
        ]
        """How wide each column is, and whether it holds numbers, which are aligned at the right."""

    @property
    def facts(self) -> list[Fact]:
        """All facts, whether they are shown or not."""
        return [row for row in self._all if isinstance(row, Fact)]

    def narrow(self, query: str) -> None:
        """Show only the facts that contain the query; everything if it is empty."""
        wanted = query.strip().casefold()
        matching = [row for row in self.facts if wanted in str((row.cells, row.about)).casefold()]
        self.show(matching if wanted else self._all)

    def is_heading(self, row: FactRow) -> bool:
        return not isinstance(row, Fact)

    def parts(self, row: FactRow, width: int, palette: Palette, *, marked: bool) -> Styled:
        match row:
            case Bar():
                return [("   ", None), *_drawn(row, width - 4, palette)]
            case Caption():
                return [("   ", None), (_GAP.join(self._aligned(row, width - 4)), palette.heading)]
            case Fact():
                first, *rest = self._aligned(row, width)
                style = palette.named(row.style)
                text = "".join(_GAP + cell for cell in rest)
                room = min(width - cell_len(first + text) - len(_GAP), _LONGEST_BAR)
                bar = _GAP + "█" * round(room * row.bar)
                return [
                    (first, palette.strong if rest else style),
                    (text, style),
                    (bar, palette.accent),
                ]
            case _:
                assert_never(row)

    def more(self, fact: Fact) -> str:
        """Return what the row has no room for: its cells, if one is cut, and its description."""
        cut = "…" in "".join(self._aligned(fact, self.scrollable_content_region.width - 4))
        return flat(_GAP.join((*(fact.cells if cut else ()), fact.about)).strip(), 1_000)

    def _aligned(self, row: Fact | Caption, width: int) -> list[str]:
        if len(row.cells) == 1:
            return [cut_end(flat(row.cells[0]), width)]
        widths = [room for room, _ in self._columns]
        while sum(widths) + len(_GAP) * (len(widths) - 1) > width and max(widths) > _LEAST:
            widths[widths.index(max(widths))] -= 1
        return [
            _placed(flat(cell), room, right=right)
            for cell, room, (_, right) in zip(row.cells, widths, self._columns, strict=False)
        ]


def _is_numeric(column: tuple[str, ...]) -> bool:
    """Whether the last cell that is not empty is a number."""
    return _NUMBER.match(next(filter(None, reversed(column)), "")) is not None


def _placed(cell: str, room: int, *, right: bool) -> str:
    cut = cut_end(cell, room)
    return " " * (room - cell_len(cut)) + cut if right else set_cell_size(cut, room)


def _drawn(bar: Bar, width: int, palette: Palette) -> Styled:
    """Draw every part that has a share at least once, in `width` cells."""
    ends = [round(width * share) for share in accumulate(share for _, share, _ in bar.parts)]
    return [
        (sign * max(end - begin, share > 0), palette.named(style))
        for (sign, share, style), begin, end in zip(bar.parts, (0, *ends), ends, strict=False)
    ]


class FactsPage(ListKeys, Guarded[str | None]):
    """Covers the conversation; returns the slash command that was chosen, None after Esc."""

    DEFAULT_CSS = """
    FactsPage {
        layout: vertical;
        background: $background;
        color: $foreground;
        & > LineInput { margin: 0 1 0 3; }
        & > Static { height: 2; padding: 0 1 0 3; color: $text-muted; }
    }
    """
    BINDINGS = bindings("facts")
    AUTO_FOCUS = ""
    HINTS: ClassVar = ("{facts.close} closes", "{facts.filter} filters", "{facts.copy} copies all")

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self._facts = facts
        self.title_row = TitleRow(facts.title, facts.note)
        self.list: FactList = FactList(facts)
        self.line = LineInput(placeholder="type to filter", compact=True)
        self.line.display = False
        self.more = Static(markup=False)
        self.hint_row = HintRow()

    def compose(self) -> ComposeResult:
        yield self.title_row
        yield self.list
        yield self.line
        yield self.more
        yield self.hint_row

    @on(Resize)
    def _laid_out(self) -> None:
        self.call_after_refresh(self.show_marked)

    @on(FactList.Marked)
    @on(FactList.Clicked)
    def show_marked(self) -> None:
        """Say more about the marked row, and what Enter does with it."""
        fact = self.list.marked
        self.hint_row.tell("")
        self.more.update(self.list.more(fact) if isinstance(fact, Fact) else "")
        does = f"{self.key('facts.choose')} {fact.does}" if isinstance(fact, Fact) else ""
        self.hint_row.show((Part(does, len(self.HINTS), "text"),), self.HINTS)

    def show(self, facts: Facts) -> None:
        """Show these facts instead; the mark and the filter stay."""
        if facts != self._facts:
            self._facts = facts
            self.list.know(facts.rows)
            self._narrow()

    @on(LineInput.Submitted)
    async def action_choose(self) -> None:
        """Do what the footer says of the marked row."""
        fact = self.list.marked
        if not isinstance(fact, Fact):
            return
        if fact.opens is not None:
            text = await fact.opens()
            if text is None:
                self.hint_row.tell("it cannot be read now")
            else:
                self.app.push_screen(OutputScreen(fact.cells[0], text))
        elif fact.command:
            self.dismiss(fact.command)
        else:
            self.hint_row.tell(copy(self.app, fact.copies or fact.cells[-1]))

    def action_filter(self) -> None:
        self.line.display = True
        self.line.focus()

    def action_copy(self) -> None:
        text = "\n".join("\t".join(row.cells) for row in self.list.facts)
        self.hint_row.tell(copy(self.app, text))

    def action_close(self) -> None:
        """Close the page, or first the filter if there is one."""
        if not self.line.display:
            self.dismiss(None)
            return
        self.line.value = ""
        self.line.display = False
        self.set_focus(None)

    @on(LineInput.Changed)
    def _filtered(self, message: LineInput.Changed) -> None:
        self._narrow()

    def _narrow(self) -> None:
        query = self.line.value
        self.list.narrow(query)
        shown = f"{self.list.count} of {len(self.list.facts)}"
        self.title_row.tell(shown if query else self._facts.note)
        self.show_marked()
