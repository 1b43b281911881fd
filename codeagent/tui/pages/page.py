"""Base classes of what covers the conversation until it is closed: pages to read, and panels over
its lower part."""

import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypeVar

from rich.cells import cell_len
from rich.style import Style
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.events import Paste
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input

from codeagent.tui.bindings import binding_of, bindings
from codeagent.tui.clipboard import copy
from codeagent.tui.keymap import keymap_of
from codeagent.tui.parts.guard import Guard
from codeagent.tui.parts.line_input import LineInput
from codeagent.tui.parts.line_pane import LinePane, Pane, Piece
from codeagent.tui.parts.marked_list import MarkedList
from codeagent.tui.parts.rows import HintKey, HintRow, Part, TitleRow, with_keys
from codeagent.tui.rendering.lines import Line, Parts, line, wrap

ResultT = TypeVar("ResultT")


class Guarded(ModalScreen[ResultT]):
    """A screen with a guard, which is closed until the screen could be read, after a paste, and
    after another window."""

    BINDINGS: ClassVar[list[BindingType]] = [binding_of("chat.keys", "app.every_key")]

    def __init__(self) -> None:
        super().__init__()
        self.guard = Guard(time.monotonic)

    def on_mount(self) -> None:
        self.guard.close()
        self.watch(self.app, "app_focus", self._window_came_back, init=False)

    def on_paste(self, event: Paste) -> None:
        event.stop()
        self.guard.close()

    def key(self, action: str) -> str:
        """Return the key in force for an action, as a user reads it."""
        return keymap_of(self).shown(action)

    def with_keys(self, text: str) -> str:
        """Replace each `{id}` of an action in the text with the key in force."""
        return with_keys(self, text)

    def action_close(self) -> None:
        """Close the screen without an answer."""
        self.dismiss(None)

    def _window_came_back(self, focused: bool) -> None:
        if focused:
            self.guard.close()


class ListKeys:
    """What keys do on a screen with a list: they move its mark."""

    list: MarkedList[Any]

    def settle(self) -> None:
        """Leave what the keys meant before."""

    def action_move(self, step: int) -> None:
        self.settle()
        self.list.move(step)

    def action_page(self, direction: int) -> None:
        self.settle()
        self.list.page(direction)


class Panel(Guarded[ResultT]):
    """Covers the lower part of the conversation, which continues."""

    DEFAULT_CSS = """
    Panel {
        align: left bottom;
        background: transparent;
        & > Vertical {
            height: auto;
            background: $surface;
            color: $foreground;
        }
        & LineInput { margin: 0 1 0 3; }
    }
    """


class ListPanel(Panel[None]):
    """A panel with a marked list, hints for the marked row, and a text line that opens when
    needed."""

    DEFAULT_CSS = """
    ListPanel {
        & LineInput { display: none; }
        & LineInput.-open { display: block; }
    }
    """
    AUTO_FOCUS = ""

    def __init__(
        self, title: str, rows: MarkedList[Any], line: LineInput, between: Sequence[Widget] = ()
    ) -> None:
        """`between` is placed below the list and above the line."""
        super().__init__()
        self.title_row = TitleRow(title)
        self.rows = rows
        self.line = line
        self.hints = HintRow()
        self._between = between

    @abstractmethod
    def keys(self) -> Sequence[HintKey]:
        """Return hints for what can be done now."""

    @abstractmethod
    def sent(self, text: str) -> None:
        """Act on the text typed in the line."""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self.title_row
            yield self.rows
            yield from self._between
            yield self.line
            yield self.hints

    @property
    def writing(self) -> bool:
        """Whether the line is open: keys of the list then type text."""
        return self.line.has_class("-open")

    def settle(self) -> None:
        """Restore the hints: the message in their place was read."""
        self.hints.tell("")

    def write(self, text: str, keeps: str, leaves: str) -> None:
        """Open the line with that text; `keeps` and `leaves` say what Enter and Esc do."""
        self.settle()
        self.line.add_class("-open")
        self.line.value = text
        self.line.cursor_position = len(text)
        self.line.focus()
        self.hints.show((), (HintKey("Enter", keeps, "keep"), HintKey("Esc", leaves, "close")))

    def stop_writing(self) -> None:
        """Close the line, and return the focus to the list."""
        self.line.remove_class("-open")
        self.settle()
        self.hints.show((), self.keys())
        self.set_focus(None)

    def hint(self, row_id: str, words: str) -> HintKey:
        """Return a key of the table with what it does here; a click on it does the same."""
        return HintKey(self.key(row_id), words, keymap_of(self).table.by_id[row_id].pressed)

    def action_close(self) -> None:
        if self.writing:
            self.stop_writing()
        else:
            super().action_close()

    def action_keep(self) -> None:
        self.sent(self.line.value)

    def action_mark(self, step: int) -> None:
        if not self.writing:
            self.settle()
            self.rows.move(step)

    @on(HintRow.Picked)
    async def _picked(self, message: HintRow.Picked) -> None:
        await self.run_action(message.action)

    @on(Input.Submitted)
    def _submitted(self, message: Input.Submitted) -> None:
        self.sent(message.value)


class TextPane(LinePane):
    """Pieces to read, and the plain text that is copied for all of them."""

    DEFAULT_CSS = """
    TextPane { padding: 1 2 0 2; }
    """

    def __init__(self, pieces: Sequence[Piece], plain: str) -> None:
        super().__init__()
        self._begin = tuple(pieces)
        self._plain = plain

    def on_mount(self) -> None:
        self.show(self._begin)

    def change(self, pieces: Sequence[Piece], plain: str) -> None:
        """Show these pieces instead, from the beginning."""
        self._plain = plain
        self.show(pieces)

    def everything(self) -> str:
        return self._plain


def beside(lead: Parts, texts: Sequence[tuple[str, Style]], width: int) -> Iterator[Line]:
    """Wrap texts to `width` cells, with `lead` before the first row; empty texts are left out."""
    rows: list[Parts] = [
        row.parts for text in texts if text[0] for row in wrap([text], max(8, width))
    ]
    blank: Parts = [(" " * sum(cell_len(part) for part, _ in lead), None)]
    for at, parts in enumerate(rows or [()]):
        yield line([*(blank if at else lead), *parts])


class Page(Guarded[ResultT]):
    """Covers the conversation: keys scroll and copy; Esc closes it and gives the focus back."""

    DEFAULT_CSS = """
    Page {
        layout: vertical;
        background: $background;
        color: $foreground;
    }
    """
    BINDINGS = bindings("page")
    AUTO_FOCUS = ""

    def __init__(self, title: str, pane: Pane, note: str = "", hints: Sequence[str] = ()) -> None:
        """`hints` describe keys besides those of every page, such as `{page.find} finds`."""
        super().__init__()
        self.pane = pane
        self.title_row = TitleRow(title, note)
        self.hint_row = HintRow()
        self.hints = (
            "{page.close} closes",
            "{page.page_up} {page.page_down} scroll",
            *hints,
            "{page.copy} copies",
        )

    def compose(self) -> ComposeResult:
        self.show_hints()
        yield self.title_row
        yield from self.body()
        yield self.hint_row

    def body(self) -> ComposeResult:
        """Yield what is between the title and the hints."""
        yield self.pane

    def show_hints(self, standing: Sequence[Part] = ()) -> None:
        """Show what the keys in force do here, after `standing`."""
        self.hint_row.show(standing, self.hints)

    def say(self, text: str) -> None:
        """Show one line instead of the hints; an empty one brings them back."""
        self.hint_row.tell(text)

    def settle(self) -> None:
        """Restore the hints: the message in their place was read."""
        self.say("")

    def whole(self) -> str:
        """Return what is copied if nothing is selected."""
        return self.pane.everything()

    def action_turn(self, key: str) -> None:
        self.settle()
        self.pane.turn(key)

    def action_copy(self) -> None:
        selected = self.get_selected_text()
        try:
            said = copy(self.app, selected or self.whole())
        except OSError as problem:
            said = f"not copied: the file for it cannot be written ({problem.strerror})"
        self.say(said)
        self.clear_selection()
