"""The last row of a page of hunks: how it stands, what keeps from going on, and what the keys do."""

from collections.abc import Sequence

from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.widgets.fitting import Part, cut_end, fit, flat, styled
from codeagent.tui.widgets.row import Row


class HunkFoot(Row):
    """Where it is narrow, the last hints go first."""

    def __init__(self) -> None:
        super().__init__()
        self._standing: Sequence[Part] = ()
        self._hints: Sequence[str] = ()
        self._said = ""

    def show(self, standing: Sequence[Part], hints: Sequence[str]) -> None:
        """`standing` comes before the hints, and stays longest."""
        self._standing, self._hints = standing, hints
        self.refresh()

    def tell(self, text: str) -> None:
        """Stands in place of everything; empty brings that back."""
        self._said = flat(text)
        self.refresh()

    def row(self, width: int, palette: Palette) -> Line:
        if self._said:
            return line([(f" {cut_end(self._said, width - 2)}", palette.accent)])
        parts = [*self._standing, *(Part(hint, -place - 1) for place, hint in enumerate(self._hints))]
        return line([(" ", None), *styled(fit(parts, width - 2), palette)])
