"""Chooses the moment to go back to, and shows meanwhile what that would change."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.events import Resize

from codeagent.tui.screens.going_back_files import said
from codeagent.tui.screens.picker import Picker
from codeagent.tui.screens.picker_list import PickerRow
from codeagent.tui.widgets.line_input import LineInput
from codeagent.tui.widgets.line_pane import LinePane, Piece

Describe = Callable[[str], Awaitable[Sequence[Piece]]]
"""What going back to the row of that key would do."""
CURRENT = ""
"""Key of the row that changes nothing."""
_WIDE = 100
"""Cells from which on the preview stands beside the list."""
_BELOW = 6
"""Rows of the preview below the list."""
_AROUND = 4
_PAUSE = 0.15
"""Seconds the mark rests on a row before it is looked at: that compares the whole workspace."""


class RewindPicker(Picker):
    """Gives the id of a point, `CURRENT` for none, None after Esc."""

    DEFAULT_CSS = """
    RewindPicker {
        & Container { height: auto; layout: vertical; }
        & Container.-wide { layout: horizontal; }
        & LinePane { padding: 0 1 0 3; color: $foreground; border-top: solid $surface-lighten-2; }
        & .-wide LinePane { width: 42%; border-top: none; }
        & .-wide PickerList { width: 1fr; }
    }
    """

    def __init__(self, rows: Sequence[PickerRow], describe: Describe) -> None:
        super().__init__("Rewind to before…", rows, marked=CURRENT, on_highlight=self._look)
        self._describe = describe
        self._pane = LinePane()
        self._both = Container()

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._title
            yield LineInput(placeholder="type to narrow the list", compact=True)
            with self._both:
                yield self._list
                yield self._pane
            yield self._hints

    def on_mount(self) -> None:
        super().on_mount()
        self._look(CURRENT)

    def on_resize(self, event: Resize) -> None:
        wide = event.size.width >= _WIDE
        self._both.set_class(wide, "-wide")
        room = max(2, event.size.height * 3 // 4 - _AROUND)
        below = 0 if wide else min(_BELOW, room // 2)
        height = min(max(1, self._total), max(1, room - below))
        self._list.styles.height = max(height, min(room, 2 * _BELOW)) if wide else height
        self._pane.styles.height = self._list.styles.height if wide else below + 1

    def _look(self, key: str) -> None:
        self.run_worker(self._show(key), group="look", exclusive=True)

    async def _show(self, key: str) -> None:
        if key != CURRENT:
            await asyncio.sleep(_PAUSE)
        self._pane.show(await self._describe(key))


def nothing_changes() -> Sequence[Piece]:
    return (said("This is how it is now: nothing changes.", "muted"),)
