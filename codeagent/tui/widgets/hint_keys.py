"""A row of keys and what they do, each of which can be clicked as well."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual.events import Click
from textual.message import Message

from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.widgets.fitting import SEPARATOR, Part, cut_end, fit, flat, styled
from codeagent.tui.widgets.row import Row

_MARGIN = 1


@dataclass(frozen=True)
class HintKey:
    key: str
    """As a person reads it."""
    words: str
    action: str
    """What a click on it gives."""

    @property
    def text(self) -> str:
        return f"{self.key} {self.words}"


class HintKeys(Row):
    """As many as fit, the first ones the last to go; or, for a while, what just happened."""

    class Picked(Message):
        """A key's words were clicked."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(self, keys: Sequence[HintKey] = ()) -> None:
        super().__init__()
        self._keys = tuple(keys)
        self._said = ""

    def show(self, keys: Sequence[HintKey]) -> None:
        """Replace the keys."""
        if tuple(keys) != self._keys:
            self._keys = tuple(keys)
            self.refresh()

    def tell(self, text: str) -> None:
        """Stands in place of the keys; empty brings them back."""
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
        at = _MARGIN
        for part in self._fitting(self.size.width):
            if at <= event.x < at + cell_len(part.text):
                self.post_message(self.Picked(next(key.action for key in self._keys if key.text == part.text)))
                return
            at += cell_len(part.text + SEPARATOR)

    def _fitting(self, width: int) -> tuple[Part, ...]:
        parts = [Part(key.text, -place, lambda palette: palette.text) for place, key in enumerate(self._keys)]
        return fit(parts, width - 2 * _MARGIN)
