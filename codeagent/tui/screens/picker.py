"""Chooses one of many: sessions, models, themes, commands."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Resize
from textual.screen import ModalScreen

from codeagent.tui.screens.picker_list import PickerList, PickerRow
from codeagent.tui.screens.title_row import HintRow, TitleRow
from codeagent.tui.widgets.line_input import LineInput

Preview = Callable[[str], None]
"""Is told the key of the row that is marked, while the person still chooses."""


_AROUND = 3
"""Rows of the panel besides the list."""


def _no_preview(key: str) -> None:
    """Nothing changes before a row is taken."""


class Picker(ModalScreen[str | None]):
    """Lies over the lower part of the conversation; gives the key of the row that was taken, None after Esc."""

    DEFAULT_CSS = """
    Picker {
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
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "take the marked row", show=False, priority=True, id="picker.choose"),
        Binding("escape,ctrl+c", "close", "close, nothing changed", show=False, priority=True, id="picker.close"),
        Binding("up,ctrl+p", "move(-1)", "row above", show=False, priority=True, id="picker.up"),
        Binding("down,ctrl+n", "move(1)", "row below", show=False, priority=True, id="picker.down"),
        Binding("pageup", "page(-1)", "a page up", show=False, priority=True, id="picker.page_up"),
        Binding("pagedown", "page(1)", "a page down", show=False, priority=True, id="picker.page_down"),
    ]

    def __init__(
        self, title: str, rows: Sequence[PickerRow], *, marked: str = "", on_highlight: Preview = _no_preview
    ) -> None:
        """`marked` is the key of the row the mark begins on."""
        super().__init__()
        self._preview = on_highlight
        self._total = len(rows)
        self._title = TitleRow(title, f"{len(rows)}")
        self._list = PickerList(rows, marked)
        self._hints = HintRow(["Enter takes it", "Esc closes", "Up and Down move"])

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._title
            yield LineInput(placeholder="type to narrow the list", compact=True)
            yield self._list
            yield self._hints

    def on_mount(self) -> None:
        self.query_one(LineInput).focus()

    def on_resize(self, event: Resize) -> None:
        """The height stays while the list is narrowed, so that nothing moves under the eyes."""
        most = max(1, event.size.height * 3 // 4 - _AROUND)
        self._list.styles.height = min(max(1, self._total), most)

    def tell(self, text: str) -> None:
        """One line in place of the hints; empty brings them back."""
        self._hints.tell(text)

    def action_choose(self) -> None:
        if self._list.marked is not None:
            self.dismiss(self._list.marked.key)

    def action_close(self) -> None:
        self.dismiss(None)

    def action_move(self, step: int) -> None:
        self._list.move(step)

    def action_page(self, direction: int) -> None:
        self._list.page(direction)

    @on(LineInput.Changed)
    def _narrow(self, message: LineInput.Changed) -> None:
        message.stop()
        self._list.narrow(message.value)
        count = self._list.count
        self._title.tell(f"{count} of {self._total}" if count != self._total else f"{count}")

    @on(PickerList.Marked)
    def _marked(self, message: PickerList.Marked) -> None:
        message.stop()
        if message.row is not None:
            self._preview(message.row.key)

    @on(PickerList.Clicked)
    def _clicked(self, message: PickerList.Clicked) -> None:
        message.stop()
        self.action_choose()
