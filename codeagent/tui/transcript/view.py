"""The transcript on screen: reading, selecting, folding, searching, with the mouse or with keys."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.segment import Segment
from textual.events import Click, MouseDown
from textual.geometry import Offset
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip

from codeagent.core.dataclass import dataclass
from codeagent.tui.bindings import bindings
from codeagent.tui.rendering.lines import Line, restyled, selected
from codeagent.tui.transcript.blocks import Detail
from codeagent.tui.transcript.document import BlockSplice
from codeagent.tui.transcript.layout import BlockRow
from codeagent.tui.transcript.places import NamedFiles, named_places, with_places
from codeagent.tui.transcript.render import printed, toggled
from codeagent.tui.transcript.search import FoundMatches, wording
from codeagent.tui.transcript.selection import (
    CursorStop,
    call_of,
    offered_output,
    rows_of,
    selected_text,
    spot_at,
    step,
    step_prompt,
)
from codeagent.tui.transcript.sheet import Anchor, Sheet
from codeagent.tui.transcript.sheet_view import SheetView

_CURSOR = "┃ "
_WORD = re.compile(r"\S+")


class TranscriptView(SheetView, can_focus=True):
    """Shows a document, and posts the user's requests as the messages below.

    It never takes the focus by a click, so that the user can keep typing.
    """

    FOCUS_ON_CLICK = False
    ALLOW_SELECT = True
    BINDINGS = bindings("transcript")

    @dataclass
    class CopyRequested(Message):
        """Text is to be put on the clipboard."""

        text: str

    @dataclass
    class OpenOutput(Message):
        """The whole output of a call is to be shown."""

        call_id: str

    @dataclass
    class LinkClicked(Message):
        """A link was clicked; its address is not known to be harmless."""

        url: str

    @dataclass
    class PlacesWanted(Message):
        """One of these places, each `FILE:LINE`, is to be opened in the user's editor."""

        places: tuple[str, ...]

    @dataclass
    class StopAgent(Message):
        """The child agent of the call that the keys act on is to be stopped."""

        call_id: str

    class Left(Message):
        """The user wants to return to typing."""

    found: Callable[[int, int], None] = staticmethod(lambda place, matches: None)
    """Called with the number of the current match, from 1, and of all matches when either
    changes."""
    _files: NamedFiles | None = None
    """Those whose places become links; None for no links."""
    _looks = False
    _cursor: CursorStop | None = None
    _pressed: tuple[int, int] | None = None
    _finding: FoundMatches | None = None

    @property
    def workspace(self) -> Path | None:
        """The folder whose files' places become links; None for no links."""
        return None if self._files is None else self._files.workspace

    @property
    def detail(self) -> Detail:
        return self.sheet.detail

    def set_detail(self, detail: Detail) -> None:
        """Show more or less of everything; the row at the top stays in place."""
        for block in self.document.blocks:
            if block.detail is not None:
                block.detail = None
                self.document.touch(block)
        self.sheet.set_detail(detail)
        self.flush()
        self.refresh()

    def find(self, text: str) -> int:
        """Mark all matches of the text and go to the newest; returns how many there are."""
        self.flush()
        places = filter(None, map(self.place_at, range(self.size.height)))
        shown = {place.index: self.sheet.seen(place.index).lines for place in places}
        self._finding = FoundMatches(text, self.document.blocks, shown)
        self.previous_match()
        return len(self._finding.matches)

    def next_match(self) -> None:
        self._go_to_match(1)

    def previous_match(self) -> None:
        self._go_to_match(-1)

    def clear_search(self) -> None:
        self._finding = None
        self.refresh()

    def plain_text(self) -> str:
        """Return everything as it is shown, without colours."""
        return self.as_text(self.sheet.width)

    def to_leave(self) -> str:
        """Return what stays in the terminal at the end, without colours."""
        return self.plain_text()

    def as_text(self, width: int) -> str:
        return printed(self.document.blocks, width, self.detail, self._clock())

    def get_selection(self, selection: Selection) -> tuple[str, str]:
        return selected_text(self.sheet, selection), "\n"

    def follow(self, splice: BlockSplice) -> None:
        """Also keep the cursor, the selection and the current match on their blocks."""
        if self._cursor is not None:
            self._cursor = replace(self._cursor, index=splice.place(self._cursor.index))
        if self._finding is not None:
            self._finding = self._finding.after(splice, self.document.blocks)
            self.found(self._finding.place, len(self._finding.matches))
        if (selection := self.text_selection) is not None:
            self.screen.selections = {self: Selection(*(_moved(end, splice) for end in selection))}
        super().follow(splice)

    def margin(self, place: BlockRow, usual: Segment) -> Segment:
        stop = self._cursor if self.has_focus else None
        if stop is not None and stop.index == place.index:
            first, last = rows_of(self.sheet, stop)
            if first <= place.line - self.sheet.gap(place.index) <= last:
                return Segment(_CURSOR, self.sheet.palette.accent)
        return usual

    def styled(self, line: Line, place: BlockRow) -> Strip:
        if not line.text:
            return line.strip
        style, marked = self.sheet.palette.marks.selection, self._marked(line, place)
        return selected(marked, self.text_selection, place.encoded, style).strip

    def use_workspace(self, workspace: Path) -> None:
        """Make links of the places in the files of this workspace."""
        if workspace != self.workspace:
            self._files = NamedFiles(workspace)
            self._paint_again()

    def linked(self, line: Line) -> Line:
        if self._files is None:
            return line
        linked = with_places(line, self._files.find, self.sheet.palette.prose.link)
        if self._files.wanted and not self._looks:
            self._looks = True
            self.call_later(self._begin_look)  # drawing may be in a task that starts no workers
        return linked

    def _begin_look(self) -> None:
        self.run_worker(self._look())

    async def _look(self) -> None:
        """Look for the files of the places that were drawn, and draw the links to them."""
        try:
            while self._files is not None and self._files.wanted:
                if await self._files.look():
                    self._paint_again()
        finally:
            self._looks = False

    def _paint_again(self) -> None:
        self.sheet.paint_again()
        self.refresh()

    def on_mouse_down(self, event: MouseDown) -> None:
        self._pressed = (event.x, event.y)

    def on_click(self, event: Click) -> None:
        """Act on a click that did not select; a second click selects a word, a third the block."""
        event.prevent_default()
        pressed = self._pressed
        self._pressed = None
        if pressed != (event.x, event.y):
            return
        place = self.place_at(event.y)
        if event.chain > 1:
            self._select(event, whole=event.chain > 2)
        elif self.is_marker(event.x, event.y):
            self.go_to_end()
        elif "link" in event.style.meta:
            self.post_message(self.LinkClicked(str(event.style.meta["link"])))
        elif place is not None:
            self._act(place)

    def on_focus(self) -> None:
        if self._cursor is not None and self._cursor.index not in self.sheet.visible:
            self._cursor = None
        self._stop()
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def action_step(self, direction: int) -> None:
        self._move(step, direction)

    def action_step_prompt(self, direction: int) -> None:
        self._move(step_prompt, direction)

    def action_open(self) -> None:
        """Show the whole output if it is offered, else fold or open the block."""
        stop = self._stop()
        if stop is None:
            return
        call_id = offered_output(self.sheet, stop)
        if call_id is not None:
            self.post_message(self.OpenOutput(call_id))
        else:
            self._toggle(stop.index)

    def action_output(self) -> None:
        """Show the whole output of the call that the keys act on."""
        stop = self._stop()
        call_id = None if stop is None else call_of(self.sheet, stop)
        if call_id is not None:
            self.post_message(self.OpenOutput(call_id))

    async def action_editor(self) -> None:
        """Open a place that the block or call names in the user's editor."""
        workspace = self.workspace
        if (stop := self._stop()) is not None and workspace is not None:
            first, last = rows_of(self.sheet, stop)
            lines = self.sheet.drawn(stop.index).lines[first : last + 1]
            text = "\n".join(line.text for line in lines)
            found = await asyncio.to_thread(named_places, text, workspace)
            self.post_message(self.PlacesWanted(tuple(map(str, found))))

    def action_copy(self) -> None:
        stop = self._stop()
        if stop is not None:
            self.post_message(self.CopyRequested(wording(self.document.blocks[stop.index])))

    def action_leave(self) -> None:
        """Return to typing, or stop the child agent of the call that the keys act on."""
        call_id = "" if self._cursor is None else self._cursor.call_id
        working = call_id and self.document.running_child(call_id)
        self.post_message(self.StopAgent(call_id) if working else self.Left())

    def _act(self, place: BlockRow) -> None:
        """Open or fold for a click on a headline or an offer of more; elsewhere do nothing."""
        row = place.line - self.sheet.gap(place.index)
        spot = spot_at(self.sheet, place.index, row)
        if spot is not None and spot.whole:
            self.post_message(self.OpenOutput(spot.call_id))
        elif spot is not None and (row == spot.first or not spot.call_id):
            self._toggle(place.index)

    def _toggle(self, index: int) -> None:
        """Fold or open one block; what is above it stays in place."""
        block = self.document.blocks[index]
        block.detail = toggled(block, self.detail)
        self.held_at = Anchor(self.sheet.layout.at(self.scroll_offset.y))
        self.document.touch(block)
        self.flush()

    def _stop(self) -> CursorStop | None:
        """Return what the keys act on; at first the last block in view."""
        if self._cursor is None and self.sheet.visible:
            self._cursor = CursorStop(self.sheet.visible[-1])
            self.refresh()
        return self._cursor

    def _move(
        self, step: Callable[[Sheet, CursorStop, int], CursorStop | None], direction: int
    ) -> None:
        here = self._stop()
        stop = None if here is None else step(self.sheet, here, direction)
        if stop is not None:
            self._cursor = stop
            self.reveal(stop.index, rows_of(self.sheet, stop)[0])
            self.refresh()

    def _select(self, event: Click, *, whole: bool) -> None:
        """Select the word under the mouse, or all of its block."""
        place, offset = (
            self.place_at(event.y),
            self.screen.get_widget_and_offset_at(event.screen_x, event.screen_y)[1],
        )
        line = None if place is None else self.sheet.line(place)
        if place is None or line is None or offset is None:
            return
        if whole:
            last = self.sheet.layout.height(place.index)
            ends = (
                Offset(0, BlockRow(place.index, 0).encoded),
                Offset(0, BlockRow(place.index, last).encoded),
            )
        else:
            words = (
                word for word in _WORD.finditer(line.text) if word.start() <= offset.x < word.end()
            )
            word = next(words, None)
            if word is None:
                return
            ends = Offset(word.start(), offset.y), Offset(word.end(), offset.y)
        self.screen.selections = {self: Selection(*ends)}

    def _go_to_match(self, direction: int) -> None:
        if self._finding is None:
            return
        match = self._finding.move(direction)
        self.found(self._finding.place, len(self._finding.matches))
        if match is None:
            self.refresh()
            return
        index = match.index
        block = self.document.blocks[index]
        spans = self._finding.spans(index, self.sheet.drawn(index).lines)
        shown = [span for row in spans.values() for span in row]
        if all(span.nth < match.nth for span in shown) and (block.detail or self.detail) != "full":
            block.detail = "full"
            self.document.touch(block)
            self.flush()
            spans = self._finding.spans(index, self.sheet.drawn(index).lines)
            shown = [span for row in spans.values() for span in row]
        rows = (
            [span.row for span in shown if span.nth == match.nth]
            or [span.row for span in shown[-1:]]
            or [0]
        )
        self.reveal(index, rows[0])
        self.refresh()

    def _marked(self, line: Line, place: BlockRow) -> Line:
        """Return the line with its matches marked; the current one stands out."""
        finding = self._finding
        if finding is None or not line.text:
            return line
        row = place.line - self.sheet.gap(place.index)
        current, palette = finding.current, self.sheet.palette
        for span in finding.spans(place.index, self.sheet.seen(place.index).lines).get(row, ()):
            here = current is not None and (current.index, current.nth) == (place.index, span.nth)
            style = palette.marks.match + palette.marks.selection if here else palette.marks.match
            line = restyled(line, span.start, span.end, style)
        return line


def _moved(end: Offset | None, splice: BlockSplice) -> Offset | None:
    """Return where an end of a selection is after the splice."""
    if end is None:
        return None
    place = BlockRow.decoded(end.y)
    return Offset(end.x, replace(place, index=splice.place(place.index)).encoded)
